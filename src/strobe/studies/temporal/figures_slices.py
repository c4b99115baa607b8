"""Figures of errors by offset, by frame type, by frame rate and by pixel hints."""

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from strobe.analyses.published import condition_rows
from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.charts import (
    ChartRow,
    LegendKey,
    Mark,
    Scale,
    Span,
    model_keys,
    put_rows,
    row_chart,
    side_by_side,
)
from strobe.report.charts_lines import Panel, bands_text, offset_chart, offset_lines, panel_rows, small_multiples
from strobe.report.drawing import Answer, FigureContent, question, why_none
from strobe.report.style import GREY, WRONG, colour_of, marker_of
from strobe.report.view import View
from strobe.report.wording import both_ends, extreme, is_known, join, percent, points, short, value_of
from strobe.studies.temporal.records import RateSlice, TypeSlice

_DROP = Scale(label="drop, points", unit="points")


@question("per_offset", "At which distance from the anchor do errors occur?")
def per_offset(view: View) -> Answer:
    """Error at every signed offset from the anchor."""
    words = view.words
    series = offset_lines({name: one.per_offset for name, one in view.drawn(view.classifiers).items()})
    if not series:
        return Missing(why_none(view, "per_offset", "no member except anchors was scored."))
    together = offset_lines({"mean of all models": view.results.offset_error_all_models}) if len(series) > 1 else []

    first = series[0]
    offset_errors = dict(zip(first.x, first.y, strict=True))
    # Truncated sets may have fewer members on one side, but all sets have the same weight.
    ends = [offset_errors[x] for x in {min(offset_errors), max(offset_errors)} if x] or [offset_errors[0.0]]
    error = sum(value_of(end) * end.n for end in ends) / max(sum(end.n for end in ends), 1)
    text = f"{printable(first.name)} is wrong on {percent(error)} of the outermost {words.frames}"
    if 0.0 in offset_errors:
        more = error - value_of(offset_errors[0.0])
        less = f"{points(abs(more))} {'more' if more > 0 else 'less'} than" if round(more, 3) else "as often as"
        text += f", {less} on the anchors ({percent(offset_errors[0.0])})"
    least, most = (pick(one.n for one in first.y) for pick in (min, max))
    gaps = f" Not every set has all distances: n is {least:,} to {most:,}." if least < most else ""
    return FigureContent(
        sentence=text + ".",
        how=f"Each {words.picture} is scored separately, regardless of the rest of its set. A dip at 0 means that "
        f"anchors are easier than the {words.frames} around them. A flat line means that errors do not depend on "
        f"distance.{gaps}"
        + (" The wide grey line is the mean of all models." if together else "")
        + bands_text(series),
        paint=offset_chart(series, words, behind=together),
        inches=(3.8, 3.8),
    )


@question("frame_types", "Does the video codec matter?")
def frame_types(view: View) -> Answer:
    """The drop after all frames of one type are deleted, next to a control that deletes as many random frames."""
    models = view.drawn(view.classifiers, 4).items()
    drops = [(name, rows) for name, one in models if (rows := [row for row in one.frame_types if is_known(row.drop)])]
    if not drops:
        return Missing(why_none(view, "frame_types", "the frame types (I, P, B) are not known."))
    flat = [(model, row) for model, rows in drops for row in rows]
    keys = [LegendKey(name="same number of random frames deleted", colour=GREY, marker="_")]
    printed = condition_rows("frame types", view.results.dataset.name)
    chart = [_type_row(model if len(drops) > 1 else "", row) for model, row in flat]
    chart += [
        ChartRow(
            label=f"published: {one.condition} (n = {one.n or 0:,})",
            narrow=f"published: {one.condition.replace('without', 'no')} (n = {one.n or 0:,})",
            marks=(Mark(value=one.drop / 100, colour=GREY, hollow=True),),
        )
        for one in printed
    ]
    model, rows = drops[0]
    least, names, tie = extreme(rows, lambda row: value_of(row.drop), _without, pick=min)
    smallest = value_of(least.drop)
    same = all(value_of(row.drop) == smallest for row in rows)
    text = f"For {printable(model)}, the drop is {'the same in all cases' if same else f'smallest {names}'}"
    text += f": {points(smallest)}"
    if not tie and (control := least.control):
        text += f", compared with {points(control.drop_mean)} when the same number of random frames is deleted"
        more = smallest < control.drop_low
        text += ". Smaller sets do not explain the difference" if more else ". Smaller sets explain the difference"
    height = 1.2 + 0.32 * len(chart)
    return FigureContent(
        sentence=text + ".",
        how="Each row removes the frames of one type, and sets whose anchor has that type; n counts the remaining "
        "sets. Smaller sets alone reduce the drop. The grey control shows this effect."
        + (" A single set has no interval." if any(row.n_sets == 1 for _, row in flat) else "")
        + (" Hollow points: the papers' fine-tuned ResNet-152, k = 10." if printed else ""),
        paint=row_chart(
            chart,
            _DROP,
            limits=(56, 40),
            keys=keys if any(row.control for _, row in flat) else (),
            rules=(len(flat) - 0.5,) if printed else (),
        ),
        inches=(height, height),
    )


def _type_row(model: str, row: TypeSlice) -> ChartRow:
    """Return the drop of one slice above its control."""
    marks, span = [Mark(value=_told(row), colour=WRONG, at=-0.08)], None
    if row.control:
        span = Span(low=row.control.drop_low, high=row.control.drop_high, width=3, alpha=0.7, at=0.2)
        # A control without spread (equal draws) has no length, so its mean is marked separately.
        marks.append(Mark(value=row.control.drop_mean, colour=GREY, marker="|", size=8, at=0.2))
    what, n = _without(row), f"(n = {row.n_sets:,})"
    wide, narrow = (f"{short(printable(model), limit)}: " if model else "" for limit in (24, 12))
    return ChartRow(
        label=f"{wide}{what} {n}", narrow=f"{narrow}{what.replace('without', 'no')} {n}", marks=marks, span=span
    )


def _told(row: TypeSlice) -> Estimate:
    """Return the drop to draw. If there is a single set, there is a single video, and the page shows no interval."""
    return replace(row.drop, low=None, high=None, reason="one set") if row.n_sets == 1 else row.drop


def _without(row: TypeSlice) -> str:
    return "with all frames" if row.without == "none" else f"without {row.without} frames"


@question("by_fps", "Does the frame rate matter?")
def by_fps(view: View) -> Answer:
    """The drop by frame rate."""
    models = view.drawn(view.classifiers).items()
    drops = [(name, rows) for name, one in models if (rows := [row for row in one.by_fps if is_known(row.drop)])]
    ranges = list(dict.fromkeys(row.range for _, rows in drops for row in rows))
    if len(ranges) < 2:
        return Missing(why_none(view, "by_fps", "all videos have about the same frame rate."))

    bin_text = dict(zip(ranges, bin_names(ranges), strict=True))

    known = {(model, row.range): row.drop for model, rows in drops for row in rows}
    chart = [
        ChartRow(
            label=_range_name(drops, text, bin_text[text]),
            marks=side_by_side(
                [
                    Mark(value=known.get((model, text)), colour=colour_of(index), marker=marker_of(index))
                    for index, (model, _) in enumerate(drops)
                ]
            ),
        )
        for text in ranges
    ]
    model, rows = drops[0]
    text = "; ".join(f"{points(row.drop)} at {bin_text[row.range]} fps (n = {row.n_sets})" for row in rows)
    bare = [row for row in rows if row.drop.low is None]
    if bare:
        whys = dict.fromkeys(printable(row.drop.reason or "intervals are switched off") for row in bare)
        text += f". No interval at {join([f'{bin_text[row.range]} fps' for row in bare])}: {join(list(whys))}"
    height = 1.0 + (0.2 + 0.16 * len(drops)) * len(ranges) + 0.12 * len(drops)
    return FigureContent(
        sentence=f"The drop of {printable(model)} is {text}.",
        how="A low frame rate means more time between frames, so the same k covers more time.",
        paint=row_chart(chart, _DROP, keys=model_keys(dict(drops))),
        inches=(height, height + 0.15 * len(drops)),
    )


def _range_name(found: Sequence[tuple[str, Sequence[RateSlice]]], key: str, text: str) -> str:
    n = next(row.n_sets for _, rows in found for row in rows if row.range == key)
    return f"{text} fps (n = {n})"


@question("by_hint", "Do blur, motion or brightness explain errors?")
def by_hint(view: View) -> Answer:
    """The error on members, by pixel hint."""
    best, hints = next(
        ((name, one.by_hint) for name, one in view.drawn(view.classifiers).items() if one.by_hint), ("", {})
    )
    panels = [(hint, kept) for hint, rows in hints.items() if (kept := [row for row in rows if is_known(row.error)])]
    if not panels:
        why = why_none(view, "by_hint", "this data has no hints (blur, motion, exposure)")
        return Missing(why.replace("(hints.parquet)", "(hints.parquet); import it with --hints"))
    bins = {hint: bin_names([row.range for row in rows], measure_of(hint)) for hint, rows in panels}

    scale = Scale(label=f"error of the {view.words.frames}", low=0)
    charts = [
        Panel(
            title=tuple(textwrap.wrap(printable(measure_of(hint).title), 26)),
            paint=partial(
                put_rows,
                rows=[
                    ChartRow(label=name, marks=(Mark(value=row.error, colour=WRONG),))
                    for name, row in zip(bins[hint], rows, strict=True)
                ],
                scale=scale,
            ),
        )
        for hint, rows in panels
    ]
    spans = {}
    for hint, rows in panels:
        errors = [value_of(row.error) for row in rows]
        spans[hint] = max(errors) - min(errors)
    top, names, tie = extreme(spans, lambda hint: spans[hint], str)
    rows = dict(panels)[top]
    low, high = (one for one, *_ in both_ends(rows, lambda row: value_of(row.error), str))
    low_bin, high_bin = (bins[top][rows.index(row)] for row in (low, high))
    tall = 1.1 + 0.3 * max(len(rows) for _, rows in panels)
    n_wide, n_narrow = panel_rows(len(panels), (2, 1))
    # A difference within its intervals is not reported as relevant.
    bare = low.error.high is None or high.error.low is None
    clear = not bare and (low.error.high or 0.0) < (high.error.low or 0.0)
    why = "there are no intervals" if bare else "the intervals overlap"
    verdict = (
        f"For {printable(best)}, {names} {'matter' if tie else 'matters'} most."
        if clear
        else f"No hint clearly matters for {printable(best)}. The largest difference is by {names}, but {why}."
    )
    noun = measure_of(top).noun
    return FigureContent(
        sentence=f"{verdict} The error ranges from {percent(low.error)} ({noun} {low_bin}) to {percent(high.error)} "
        f"({noun} {high_bin})."
        if spans[top]
        else f"No: the error of {printable(best)} is {percent(low.error)} in every group.",
        how="Hints compare the pixels of a member with those of its anchor. Members are grouped by hint into bins of "
        "about the same size, with rounded edges."
        + (" Brightness ranges over 100 points, from black to white." if "exposure" in bins else ""),
        paint=small_multiples(charts, (2, 1), shared=(False, False)),
        inches=(tall * n_wide, tall * n_narrow),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HintWords:
    """A hint in words: its panel's title, the quantity of its bins, their unit, and the conversion of stored values."""

    title: str
    noun: str = ""
    unit: str = ""
    convert: Callable[[float], float] = float


_PER_CENT, _POINTS = "\N{NO-BREAK SPACE}%", "\N{NO-BREAK SPACE}points"

_MEASURES = {
    "blur": HintWords(
        title="Blur: sharpness, % of the anchor’s", noun="sharpness", unit=_PER_CENT, convert=lambda x: 100 * 2**x
    ),
    "motion": HintWords(title="Motion: shift, % of the diagonal", noun="shift", unit=_PER_CENT),
    "exposure": HintWords(
        title="Exposure: change of brightness", noun="brightness", unit=_POINTS, convert=lambda x: 100 * x
    ),
    "cut": HintWords(title="Cut: score from 0 to 1", noun="cut score"),
}

_BIN = re.compile(r"(?:(?P<only_high><)|(?P<only_low>>=)|(?P<low>\S+) to <) (?P<edge>\S+)")
_MOST_DIGITS = 4


def measure_of(hint: str) -> HintWords:
    """Return the description of a hint. An unknown hint keeps its name and its numbers."""
    return _MEASURES.get(hint, HintWords(title=hint, noun=hint))


def bin_names(names: Sequence[str], measure: HintWords | None = None) -> list[str]:
    """Return the bins of results.json (`< 20`, `20 to < 27`, `>= 27`) in words, in the measure's unit.

    >>> bin_names(["< 20", "20 to < 27", ">= 27"])
    ['below 20', '20 to 27', '27 or more']
    >>> bin_names(["< -1.75e-05", "-1.75e-05 to < 0.00914", ">= 0.00914"], measure_of("exposure"))
    ['below 0.0\\xa0points', '0.0 to 0.9\\xa0points', '0.9\\xa0points or more']
    """
    measure = measure or HintWords(title="")
    matches = [_BIN.fullmatch(name) for name in names]
    try:
        edges = {
            text: measure.convert(float(text))
            for match in matches
            if match
            for text in (match["low"], match["edge"])
            if text
        }
    except ValueError:  # not numbers: the names stay unchanged
        return list(names)
    text = _written(edges)
    out = []
    for name, one in zip(names, matches, strict=True):
        if one is None:
            out.append(name)
        elif one["only_high"]:
            out.append(f"below {text[one['edge']]}{measure.unit}")
        elif one["only_low"]:
            out.append(f"{text[one['edge']]}{measure.unit} or more")
        else:
            out.append(f"{text[one['low']]} to {text[one['edge']]}{measure.unit}")
    return out


def _written(edges: dict[str, float]) -> dict[str, str]:
    """Return every edge, with enough decimals that any two edges differ by at least five units in the last decimal
    place.
    """
    values = sorted(set(edges.values()))
    gap = min((high - low for low, high in pairwise(values)), default=1.0)
    whole = all(value.is_integer() for value in values)
    digits = 0 if whole else next((n for n in range(_MOST_DIGITS) if gap >= 5 * 10.0**-n), _MOST_DIGITS)
    text = {name: f"{value:.{digits}f}" for name, value in edges.items()}
    return {name: one.removeprefix("-") if float(one) == 0 else one.replace("-", "−") for name, one in text.items()}
