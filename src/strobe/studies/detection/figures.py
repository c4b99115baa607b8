"""Figures for detectors: mAP on anchors and on worst frames, mAP against k, causes of failure, and tracks."""

from strobe.analyses.model_results import DetectionResult
from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.charts import (
    Bar,
    ChartRow,
    Mark,
    Scale,
    model_keys,
    row_chart,
    side_by_side,
)
from strobe.report.charts_lines import bands_text, line_chart, lines_of
from strobe.report.drawing import Answer, FigureContent, question
from strobe.report.style import colour_of
from strobe.report.view import View
from strobe.report.wording import CAUSES, counted, extreme, is_known, percent


@question("detection_curve", "How fast does mAP fall as the set grows?")
def curve(view: View) -> Answer:
    """mAP against k."""
    series = lines_of(view.drawn(view.detectors), lambda one: ((point.k, point.map) for point in one.curve))
    if not series:
        return Missing("these results have no mAP by k.")

    first = series[0]
    near = next((e for x, e in zip(first.x, first.y, strict=True) if x == 1), None)
    text = (
        f"The mAP of {printable(first.name)} goes from {percent(first.y[0])} on the anchors to {percent(first.y[-1])}"
    )
    text += f" at k = {first.x[-1]:.0f}"
    text += f"; at k = 1 it is {percent(near)}" if near else ""
    return FigureContent(
        sentence=text + "." + view.drawn_text(view.detectors),
        how="The lowest AP of a set can only fall as k grows. mAP over the worst frames usually falls, but not always."
        + bands_text(series),
        paint=line_chart(series, view.words.k_label, "map_pmk", cut=False),
        inches=(3.8, 3.8),
    )


@question("detection_errors", "Why do sets break?")
def errors(view: View) -> Answer:
    """How often each kind of error is the main error on the worst frame of a failing set."""
    error_counts = [(name, one.errors) for name, one in view.drawn(view.detectors, 6).items() if one.errors.failing]
    if not error_counts:
        return Missing("no set with a frame worse than its anchor was diagnosed.")
    kinds = [kind for kind in CAUSES if any(getattr(counts, kind) for _, counts in error_counts)]

    rows = [
        ChartRow(
            label=f"{kind} ({CAUSES[kind]})",
            narrow=kind,
            bars=[
                Bar(value=(n := getattr(counts, kind)) / counts.failing, colour=colour_of(index), note=str(n))
                for index, (_, counts) in enumerate(error_counts)
            ],
        )
        for kind in kinds
    ]
    model, counts = error_counts[0]
    text = f"{counted(counts.failing, 'set')} {'breaks' if counts.failing == 1 else 'break'} for {printable(model)}"
    if kinds:
        top, names, tie = extreme(kinds, lambda kind: getattr(counts, kind), lambda kind: f"{kind} ({CAUSES[kind]})")
        n = getattr(counts, top)
        share = percent(n / counts.failing, digits=0)
        cause = "causes are" if tie else "cause is"
        text += f". The most frequent {cause} {names}, in {n} of them ({share}){' each' if tie else ''}"
    height = 1.1 + (0.2 + 0.2 * len(error_counts)) * max(len(kinds), 1)
    return FigureContent(
        sentence=text + ".",
        how="The cause of a set is the kind of error on its worst frame that, if fixed, would raise the AP most.",
        paint=row_chart(
            rows, Scale(label="share of the sets that break"), limits=(44, 44), keys=model_keys(dict(error_counts), "s")
        )
        if kinds
        else None,
        inches=(height, height),
    )


_TRACKS = (
    ("flicker", "lost and found again"),
    ("found_lost_rate", "changes per frame"),
    ("box_jitter", "box jitter"),
    ("score_swing", "range of the score"),
)


def _track(one: DetectionResult, key: str) -> Estimate | None:
    found = None if isinstance(one.temporal, Missing) else getattr(one.temporal, key)
    return found if isinstance(found, Estimate) and is_known(found) else None


@question("detection_tracks", "Do tracked objects flicker?")
def temporal(view: View) -> Answer:
    """Flicker, jitter and swing of tracked objects along their sets."""
    detectors = list(view.drawn(view.detectors).items())
    shown = [(key, words) for key, words in _TRACKS if any(_track(one, key) for _, one in detectors)]
    if not shown:
        whys = {
            detector.temporal.reason for detector in view.detectors.values() if isinstance(detector.temporal, Missing)
        }
        return Missing(next(iter(sorted(whys)), "this data has no tracked objects."))

    rows = [
        ChartRow(
            label=words,
            marks=side_by_side(
                [Mark(value=_track(one, key), colour=colour_of(index)) for index, (_, one) in enumerate(detectors)]
            ),
        )
        for key, words in shown
    ]
    model, one = detectors[0]
    parts = []
    if flicker := _track(one, "flicker"):
        parts.append(f"{percent(flicker)} of the tracked objects are lost and found again within one set")
    if swing := _track(one, "score_swing"):
        parts.append(f"the score of an object varies by {percent(swing)} on average")
    height = 1.0 + (0.22 + 0.18 * len(detectors)) * len(shown)
    return FigureContent(
        sentence=f"For {printable(model)}, {', and '.join(parts)}."
        if parts
        else f"{printable(model)} has values for tracked objects.",
        how="The figure uses only objects that keep their track id through a set. Changes per frame: share of "
        "neighbouring frames "
        "where the object goes from found to lost or back. Box jitter: mean of 1 − IoU between neighbouring boxes.",
        paint=row_chart(rows, Scale(low=0), keys=model_keys(dict(detectors), "o")),
        inches=(height, height),
    )
