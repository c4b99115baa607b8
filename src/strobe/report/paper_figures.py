"""Figures for papers: the report's figures as PDF and SVG, at the width and in the font of a column."""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from strobe.analyses.results import Results
from strobe.core.errors import StrobeError, UnknownName, expect
from strobe.core.estimate import Missing
from strobe.core.late import require
from strobe.report.drawing import FigureContent, FigureSpec, Paint
from strobe.report.latex import escaped
from strobe.report.study import applying
from strobe.report.style import look
from strobe.report.view import View, in_short_names

_WIDE, _NARROW = 7.4, 3.9
"""The widths in inches that the heights of a figure belong to, as on the page."""
_TALLEST = 1.8
"""The largest height of a figure, as a multiple of its width. Its caption must fit on the same page."""
_FROM_WIDE = 5.0
"""The width in inches from which a figure is drawn in its wide form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperStyle:
    """The width of a column in inches, the font, and its size in points.

    The default font looks like Times and is part of matplotlib. Other fonts must be installed.
    """

    width: float = 3.25
    font: str = "STIXGeneral"
    size: float = 8.0

    def __post_init__(self) -> None:
        expect(1.0 <= self.width <= 20.0, "width", "1 to 20 inches", self.width)
        expect(4.0 <= self.size <= 24.0, "size", "4 to 24 points", self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperFigure:
    """One figure: the name of its files, its caption as plain text, and its drawing as PDF and SVG."""

    name: str
    caption: str
    pdf: bytes
    svg: bytes


def paper_figures(results: Results, style: PaperStyle) -> Iterator[PaperFigure]:
    """Yield every figure that the report has for these results.

    Raises:
        StrobeError: matplotlib is not installed, the font is not installed, or the results have no figure.
    """
    results, _ = in_short_names(results)
    view = View(results=results)
    _check_font(style.font)
    drawn: set[str] = set()
    for study in applying(view):
        for spec in (spec for part in study.figures(view) for spec in part.figures):
            for name, one in _contents(spec, view):
                if one.paint is not None and name not in drawn:
                    drawn.add(name)
                    pdf, svg = _drawn(name, one.paint, one.inches, style)
                    yield PaperFigure(name=name, caption=_caption(spec, one, view), pdf=pdf, svg=svg)
    if not drawn:
        raise StrobeError("these results have no figure; run strobe eval with a model first")


def figures_tex(figures: list[PaperFigure]) -> str:
    """Return a LaTeX file with a figure environment for each figure."""
    return "\n".join(
        f"\\begin{{figure}}\n  \\centering\n  \\includegraphics{{{figure.name}.pdf}}\n"
        f"  \\caption{{{escaped(figure.caption)}}}\n  \\label{{fig:strobe-{figure.name}}}\n\\end{{figure}}\n"
        for figure in figures
    )


def _contents(spec: FigureSpec, view: View) -> list[tuple[str, FigureContent]]:
    """Return the contents of a figure under the names of their files. The list is empty if the data is missing."""
    found = spec.answer(view)
    if isinstance(found, Missing):
        return []
    each = found if isinstance(found, list) else [found]
    return [(spec.name if one.number is None else f"{spec.name}_{one.number}", one) for one in each]


def _caption(spec: FigureSpec, one: FigureContent, view: View) -> str:
    """Return the figure's question, its sentence and the number of sets, without hints that only a page can follow."""
    sentences = re.split(r"(?<=[.?!]) +", f"{one.sentence} {one.how}".strip())
    printed = [text for text in sentences if not re.match(r"(Point at|Click|Tap)\b", text)]
    return " ".join([spec.title, f"{one.choice}:" if one.choice else "", *printed, f"{view.size}."]).replace("  ", " ")


def _drawn(name: str, paint: Paint, inches: tuple[float, float], style: PaperStyle) -> tuple[bytes, bytes]:
    """Return a figure as PDF and as SVG. Text is outlines in the SVG, so it needs no font."""
    figures = require("matplotlib.figure", what="drawing figures", extra="report")
    is_narrow = style.width < _FROM_WIDE
    shape = min(_TALLEST, inches[1] / _NARROW if is_narrow else inches[0] / _WIDE)
    with look(style.size) as matplotlib:
        settings = {"font.family": style.font, "pdf.fonttype": 42, "svg.fonttype": "path", "svg.hashsalt": name}
        matplotlib.rcParams.update(settings)
        figure = figures.Figure(figsize=(style.width, style.width * shape), layout="constrained")
        paint(figure, is_narrow)
        saved = {}
        for kind, metadata in (("pdf", {"CreationDate": None, "Creator": None}), ("svg", {"Date": None})):
            out = io.BytesIO()
            figure.savefig(out, format=kind, metadata=metadata)
            saved[kind] = out.getvalue()
    return saved["pdf"], saved["svg"]


def _check_font(name: str) -> None:
    fonts = require("matplotlib.font_manager", what="drawing figures", extra="report")
    known = sorted({font.name for font in fonts.fontManager.ttflist})
    if name not in known:
        raise UnknownName("font", name, known, hint=f"installed fonts are, for example, {', '.join(known[:6])}")
