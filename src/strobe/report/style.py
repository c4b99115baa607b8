"""One style for every figure: colours for colour-blind readers in light and dark themes, and functions that save
drawings.

Figures are drawn once in the light colours. In the page, each colour becomes a CSS variable of the same meaning, so
the same drawing follows the reader's light or dark theme.
"""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from strobe.core.late import require

INK, MUTED, GRID, GREY, PAPER = "#1d2126", "#5c6570", "#e3e5e8", "#a3a9b1", "#fefefe"
SERIES = ("#0b62b5", "#c8501e", "#0c7d5e", "#8a4a9e", "#a87400", "#2a8fbd", "#b03060", "#5b6d18")
"""Okabe and Ito's order of hues, darkened until text in them is readable on white."""
RIGHT, WRONG = SERIES[0], SERIES[1]
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "p")

_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--line)",
    GREY: "var(--grey)",
    PAPER: "var(--paper)",
    **{colour: f"var(--s{index + 1})" for index, colour in enumerate(SERIES)},
}

LIGHT = {variable[4:-1]: colour for colour, variable in _VARIABLES.items()}
"""The light colours by the name of their variable, for figures saved from the page."""

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"


def colour_of(place: int) -> str:
    """Return the colour of the model at this rank. Colours repeat after eight models."""
    return SERIES[place % len(SERIES)]


def marker_of(place: int) -> str:
    """Return the marker of the model at this rank. Shapes distinguish models whose colours are the same."""
    return MARKERS[place % len(MARKERS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """A drawn figure: a stand-alone SVG and PNG for files, and two SVGs for the page (wide, and narrow for a phone)."""

    svg: str
    png: bytes
    wide: str
    narrow: str


@contextmanager
def look(size: float) -> Iterator[Any]:
    """Apply the style of the report to drawings in this context, with the font size `size` in points."""
    matplotlib = require("matplotlib", what="drawing figures", extra="report")
    settings = {
        "font.family": "DejaVu Sans",
        "font.size": size,
        "axes.labelsize": size,
        "axes.titlesize": size,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "xtick.labelsize": size - 0.5,
        "ytick.labelsize": size - 0.5,
        "legend.fontsize": size - 0.5,
        "text.color": INK,
        "axes.labelcolor": MUTED,
        "axes.edgecolor": GREY,
        "xtick.color": GREY,
        "ytick.color": GREY,
        "xtick.labelcolor": MUTED,
        "ytick.labelcolor": MUTED,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.8,
        "lines.linewidth": 1.8,
        "lines.markersize": 5,
        "lines.solid_capstyle": "round",
        "legend.frameon": False,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.facecolor": "none",
        "svg.fonttype": "none",
        "text.parse_math": False,  # a model's name with dollar signs is a name, not a formula
        "axes.unicode_minus": True,
        "xtick.major.size": 3,
        "ytick.major.size": 0,
    }
    with matplotlib.rc_context(settings):
        yield matplotlib


def draw(
    name: str, paint: Callable[[Any, bool], None], *, wide: tuple[float, float], narrow: tuple[float, float]
) -> Drawing:
    """Paint the figure at both sizes (inches) and save it. `paint(figure, is_narrow)` draws on an empty figure."""
    figures = require("matplotlib.figure", what="drawing figures", extra="report")
    backend = require("matplotlib.backends.backend_svg", what="drawing figures", extra="report")
    svgs = {}
    png = b""
    for is_narrow, size in ((False, wide), (True, narrow)):
        with look(9.5 if is_narrow else 10) as matplotlib:
            # With a salt per figure, ids are the same in every run and never clash inside one page.
            matplotlib.rcParams["svg.hashsalt"] = f"{name}-{'narrow' if is_narrow else 'wide'}"
            figure = figures.Figure(figsize=size, layout="constrained")
            backend.FigureCanvasSVG(figure)  # from here on, text is measured as in an SVG
            paint(figure, is_narrow)
            figure.get_layout_engine().execute(figure)
            figure.set_layout_engine(
                None
            )  # the layout is done: every save would repeat it twice, slowly, with the same result
            out = io.StringIO()
            figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
            svgs[is_narrow] = _tidy(out.getvalue(), prefix=f"{name}-{'n' if is_narrow else 'w'}-")
            if not is_narrow:
                raster = io.BytesIO()
                figure.savefig(raster, format="png", dpi=160, facecolor="white", metadata={"Software": None})
                png = raster.getvalue()
    return Drawing(svg=_with_paper(svgs[False]), png=png, wide=themed(svgs[False]), narrow=themed(svgs[True]))


_NAMED = "name:"


def name_points(dots: Any, names: Sequence[str]) -> None:
    """Give every point of a scatter a name, which the page shows on hover."""
    dots.set_urls([_NAMED + name for name in names])


def _with_names(svg: str) -> str:
    """Turn named points, which the drawing library wrote as links, into groups with a title."""
    link = re.compile(rf'<a xlink:href="{_NAMED}([^"]*)"(?: target="[^"]*")?>(.*?)</a>', re.DOTALL)
    return link.sub(r'<g class="named"><title>\1</title>\2</g>', svg)


def _tidy(svg: str, *, prefix: str) -> str:
    """Return the drawing without XML prologue and metadata, in the page's own font, and with ids that cannot clash."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = _with_names(svg.replace("'DejaVu Sans'", _FONT))
    return _in_tags(svg, lambda tag: _tidy_tag(tag, prefix))


def _tidy_tag(tag: str, prefix: str) -> str:
    tag = re.sub(r'\bid="([^"]+)"', lambda found: f'id="{prefix}{found[1]}"', tag)
    tag = re.sub(r'href="#([^"]+)"', lambda found: f'href="#{prefix}{found[1]}"', tag)
    tag = re.sub(r"url\(#([^)]+)\)", lambda found: f"url(#{prefix}{found[1]})", tag)
    # Two decimals are a hundredth of a point: more is invisible, and the page is a third smaller.
    return re.sub(r"(\d+\.\d{2})\d+", r"\1", tag)


def _in_tags(svg: str, change: Callable[[str], str]) -> str:
    """Return the drawing with its tags changed and its visible text (names, numbers) unchanged."""
    return re.sub(r"<[^>]*>", lambda found: change(found[0]), svg)


def _with_paper(svg: str) -> str:
    """Add a white background to a stand-alone figure, because its ink is dark."""
    end = svg.index(">", svg.index("<svg")) + 1
    return svg[:end] + '\n <rect width="100%" height="100%" fill="#ffffff"/>' + svg[end:]


def themed(svg: str) -> str:
    """Return the drawing with its colours as the page's variables.

    >>> themed('<path style="fill: #0b62b5"/>')
    '<path style="fill: var(--s1)"/>'
    """
    colour = re.compile(r"#[0-9a-f]{6}\b")
    return _in_tags(svg, lambda tag: colour.sub(lambda found: _VARIABLES.get(found[0], found[0]), tag))
