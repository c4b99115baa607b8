"""Figures for detectors: mAP on anchors and on worst frames, mAP against k, causes of failure, and tracks."""

from typing import Any

from strobe.analyses.model_results import DetectionResult
from strobe.analyses.published import detection_rows
from strobe.core.errors import printable
from strobe.core.estimate import Estimate, Missing
from strobe.report.drawing import (
    Answer,
    FigureContent,
    bands_text,
    line_chart,
    lines_of,
    names_below,
    names_on_y,
    per_cent,
    question,
    whisker,
)
from strobe.report.style import GREY, MUTED, RIGHT, WRONG, colour_of
from strobe.report.view import View
from strobe.report.wording import CAUSES, counted, is_known, percent, points, short


@question("detection", "How much mAP do detectors lose?")
def overview(view: View) -> Answer:
    """mAP and localization on anchors and worst frames, with the papers' detectors below in grey."""
    rows: list[tuple[str, str, Estimate | None, Estimate | None, bool]] = []
    models = view.drawn(view.detectors)
    for model, one in models.items():
        place = one.localization
        for what, orig, worst in (
            ("detection", one.map_orig, one.map_pmk),
            ("localization", place.map_orig, place.map_pmk),
        ):
            if is_known(orig, worst):
                rows.append((printable(model), what, orig, worst, True))
    if not rows:
        return Missing("no detector has an mAP on both anchors and worst frames.")
    n_own = len(rows)
    rows.append(("published (ImageNet-Vid-Robust, k = 10)", "", None, None, False))
    rows += [(row.model, row.task, _printed(row.map_orig), _printed(row.map_pm10), False) for row in detection_rows()]

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        for y, (_, _, orig, worst, mine) in enumerate(rows):
            if orig is None or worst is None:
                continue
            blue, orange = (RIGHT, WRONG) if mine else (GREY, GREY)
            axes.plot([worst.value, orig.value], [y, y], color=GREY, linewidth=2.6, alpha=0.5, zorder=1)
            for found, colour, marker in ((orig, blue, "o"), (worst, orange, "D")):
                if mine:
                    whisker(axes, y, found, colour, marker=marker)
                else:
                    axes.plot([found.value], [y], marker=marker, color=colour, markersize=5, zorder=3)
        names_on_y(axes, [_row_name(row[0], row[1], is_narrow) for row in rows], limit=44)
        axes.axhline(n_own - 0.5, color=GREY, linewidth=0.8)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("mean average precision")
        axes.plot([], [], marker="o", color=RIGHT, linestyle="", label="map_orig: anchors")
        axes.plot(
            [], [], marker="D", color=WRONG, linestyle="", label=f"map_pmk: worst frames (k = {view.results.dataset.k})"
        )
        per_cent(axes, which="x")
        figure.legend(loc="outside upper left", ncols=1 if is_narrow else 2, handletextpad=0.2, borderaxespad=0.2)

    model, one = next(iter(models.items()))
    text = f"{printable(model)} loses {points(one.drop)} of mAP"
    if is_known(one.localization.drop):
        lost = points(one.localization.drop)
        text += f", and {lost} of localization, which ignores the class of a box"
    height = 1.1 + 0.32 * len(rows)
    return FigureContent(
        sentence=text + ".",
        how="The worst frame of a set is the one with the lowest AP. Grey: published detectors on ImageNet-Vid-Robust, "
        "for orientation. They are never pooled with yours.",
        paint=paint,
        inches=(height, height),
    )


def _printed(per_cent: float) -> Estimate:
    return Estimate(value=per_cent / 100, low=None, high=None, n=0, reason="as printed")


def _row_name(model: str, what: str, is_narrow: bool) -> str:
    if is_narrow:  # a phone is too narrow for the whole name
        model = model.replace("Faster R-CNN ResNet-", "FRCNN-").replace("ResNet-", "")
        return f"{short(model, 14)}: {what[:3]}." if what else "published (k = 10)"
    return f"{short(model, 30)}: {what}" if what else model


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

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        tall = 0.8 / len(error_counts)
        for place, (model, counts) in enumerate(error_counts):
            for y, kind in enumerate(kinds):
                n = getattr(counts, kind)
                share = n / counts.failing
                middle = y + (place - (len(error_counts) - 1) / 2) * tall
                axes.barh(middle, share, height=tall * 0.86, color=colour_of(place), linewidth=0,
                          label=short(printable(model), 30) if y == 0 else None)  # fmt: skip
                axes.annotate(str(n), xy=(share, middle), xytext=(4, 0), va="center",
                              textcoords="offset points", color=MUTED, fontsize=8)  # fmt: skip
        labels = [kind if is_narrow else f"{kind} ({CAUSES[kind]})" for kind in kinds]
        names_on_y(axes, labels, limit=44)
        axes.set_xlabel("share of the sets that break")
        per_cent(axes, which="x")
        names_below(figure, len(error_counts), is_narrow=is_narrow)

    model, counts = error_counts[0]
    text = f"{counted(counts.failing, 'set')} {'breaks' if counts.failing == 1 else 'break'} for {printable(model)}"
    if kinds:
        top = max(kinds, key=lambda kind: int(getattr(counts, kind)))
        n = getattr(counts, top)
        share = percent(n / counts.failing, digits=0)
        text += f". The most frequent cause is {top} ({CAUSES[top]}), in {n} of them ({share})"
    height = 1.1 + (0.2 + 0.2 * len(error_counts)) * max(len(kinds), 1)
    return FigureContent(
        sentence=text + ".",
        how="The cause of a set is the kind of error on its worst frame that, if fixed, would raise the AP most.",
        paint=paint if kinds else None,
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
        whys = {one.temporal.reason for one in view.detectors.values() if isinstance(one.temporal, Missing)}
        return Missing(next(iter(sorted(whys)), "this data has no tracked objects."))

    def paint(figure: Any, is_narrow: bool) -> None:
        axes = figure.subplots()
        tall = 0.7 / len(detectors)
        for place, (model, one) in enumerate(detectors):
            for y, (key, _) in enumerate(shown):
                if value := _track(one, key):
                    whisker(axes, y + (place - (len(detectors) - 1) / 2) * tall, value, colour_of(place))
            axes.plot([], [], marker="o", linestyle="", color=colour_of(place), label=short(printable(model), 30))
        names_on_y(axes, [words for _, words in shown])
        axes.set_xlim(left=0)
        per_cent(axes, which="x")
        names_below(figure, len(detectors), is_narrow=is_narrow)

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
        paint=paint,
        inches=(height, height),
    )
