"""Does smoothing over time help, and at what delay?"""

from collections.abc import Sequence
from typing import Any

from strobe.analyses.model_results import Smoothed
from strobe.core.errors import printable
from strobe.core.estimate import Missing
from strobe.report.drawing import (
    Answer,
    FigureContent,
    legend_below,
    per_cent,
    question,
    shares,
    whole_numbers,
    why_none,
)
from strobe.report.style import INK, colour_of, marker_of
from strobe.report.subject import Subject
from strobe.report.view import View
from strobe.report.wording import is_known, percent, short, value_of

__all__ = ["smoothing"]

_METHODS = {
    "centred": ("centred window (looks ahead)", 0),
    "causal": ("causal window", 1),
    "ema": ("exponential average", 2),
    "centred vote": ("centred vote (looks ahead)", 0),
    "causal vote": ("causal vote", 1),
}


@question("smoothing", "Does smoothing over time help, and at what delay?")
def smoothing(view: View) -> Answer:
    """Perturbed accuracy against the delay that smoothing adds."""
    panels = [
        (model, rows)
        for model, one in view.drawn(view.classifiers, 6).items()
        if (rows := [row for row in one.smoothing if is_known(row.acc_pmk)])
    ]
    if not panels:
        return Missing(why_none(view, "smoothing", "these results have no smoothing."))

    def paint(figure: Any, is_narrow: bool) -> None:
        columns = 1 if is_narrow else min(len(panels), 3)
        n_rows = -(-len(panels) // columns)
        grid = figure.subplots(n_rows, columns, squeeze=False, sharex=True, sharey=not is_narrow)
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        for (model, rows), axes in zip(panels, grid.flat, strict=False):
            for method in dict.fromkeys(row.method for row in rows if row.method != "none"):
                label, place = _METHODS.get(method, (method, 4))
                used = [row for row in rows if row.method in (method, "none")]  # every line starts without smoothing
                line = sorted((float(row.delay_frames), value_of(row.acc_pmk)) for row in used)
                axes.plot(*zip(*line, strict=True), color=colour_of(place), marker=marker_of(place), markersize=4,
                          label=label if axes is grid.flat[0] else None)  # fmt: skip
            bare = next((row for row in rows if row.method == "none"), None)
            if bare:
                axes.axhline(bare.acc_pmk.value, color=INK, linewidth=1, linestyle=(0, (2, 2)),
                             label="not smoothed" if axes is grid.flat[0] else None)  # fmt: skip
            axes.set_title(short(printable(model), 26))
        for axes in grid.flat[: len(panels)]:  # after all lines are drawn, because the panels share one axis
            shares(axes)
            per_cent(axes)
        for axes in grid[:, 0]:
            axes.set_ylabel("acc_pmk")
        for axes in grid[-1, :]:
            axes.set_xlabel("delay, frames")
            whole_numbers(axes)
        legend_below(grid.flat[0], is_narrow=is_narrow)

    rows_wide = -(-len(panels) // min(len(panels), 3))
    return FigureContent(
        sentence=_sentence(*panels[0]),
        how=_how([row.method for _, rows in panels for row in rows], view.words),
        paint=paint,
        inches=(0.9 + 2.7 * rows_wide, 1.2 + 2.3 * len(panels)),
    )


def _how(methods: Sequence[str], words: Subject) -> str:
    """Return how answers are smoothed: by probabilities, or by votes if a model gave only labels."""
    votes = any("vote" in method for method in methods)
    averages = any("vote" not in method and method != "none" for method in methods)
    what = "Probabilities are averaged" if averages else "Votes are counted"
    text = f"{what} over neighbouring frames"
    if words.reviewed != "none":
        text += ", including frames that reviewers rejected"
    if votes and averages:
        text += "; for models that gave only labels, votes are counted"
    return (
        f"{text}. A window that looks ahead must wait for future frames. The other methods use only past frames. Their "
        "delay is the mean age of these frames; for a causal window, it is half the window."
    )


def _sentence(model: str, rows: Sequence[Smoothed]) -> str:
    bare = next((row for row in rows if row.method == "none" or not row.delay_frames), rows[0])
    start = value_of(bare.acc_pmk)
    best: dict[str, Smoothed] = {}
    for row in rows:
        kind = "ahead" if "centred" in row.method else "past"
        if row.method != "none" and (kind not in best or value_of(row.acc_pmk) > value_of(best[kind].acc_pmk)):
            best[kind] = row
    if best and all(value_of(row.acc_pmk) <= start for row in best.values()):
        return f"Smoothing does not help {printable(model)}: no method exceeds its {percent(start)} without smoothing."
    parts = []
    if "ahead" in best:
        row = best["ahead"]
        frames = f"{row.delay_frames:g} frame" if row.delay_frames == 1 else f"{row.delay_frames:g} frames"
        parts.append(f"{percent(row.acc_pmk)} when looking ahead ({frames} of delay)")
    if "past" in best:
        parts.append(f"{percent(best['past'].acc_pmk)} with past frames only")
    if not parts:
        return f"{printable(model)} reaches {percent(start)}; no smoothing was tried."
    return f"Without smoothing, {printable(model)} reaches {percent(start)}. At best it reaches {' and '.join(parts)}."
