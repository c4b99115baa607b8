"""Parts of a detector's score: curves against k, the detector as a classifier, and tracks along sets."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.plan import Plan
from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Floats
from strobe.core.estimate import Estimate, Missing
from strobe.metrics.bootstrap import POSITIVE, SWITCHED_OFF
from strobe.metrics.detection.average import Interpolation, mean_over_classes
from strobe.metrics.detection.jackknife import ap_of_class, drop_between, mean_ap
from strobe.metrics.detection.match import Matches
from strobe.metrics.detection.tables import TruthTable
from strobe.metrics.detection.tracks import track_figures
from strobe.metrics.detection.worst import Worst, class_ap, class_ap_without, effective_of_class, videos_of_class
from strobe.metrics.intervals import effective_videos, nothing, proportion
from strobe.metrics.pmk import first_wrong, right_at
from strobe.studies.detection.records import AccPoint, AsClassifier, MapFigures, MapPoint, Tracks


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """AP per class over the worst frames of every k, (C, K), and the same AP with each video left out, (K, C, G).

    The record includes the number of videos that show each class, (C, K). `effective` is the effective number of all
    videos, and `effective_of_class` (C, K) is the effective number for each class.
    """

    ap: Floats
    without: Floats
    videos: NDArray[np.int64]
    effective: float
    effective_of_class: Floats


def curves(
    plan: Plan,
    truth: TruthTable,
    found: BoxAnswers,
    matches: tuple[Matches, ...],
    worst: Worst,
    interpolation: Interpolation,
) -> Curves:
    """Compute AP of every class against k, overall and without each video."""
    _, video = np.unique(plan.cluster, return_inverse=True)
    return Curves(
        ap=class_ap(truth, found, matches, worst.frame, interpolation=interpolation),
        without=class_ap_without(truth, found, matches, worst.frame, video),
        videos=videos_of_class(truth, matches[0], worst.frame, video),
        effective=effective_videos(np.bincount(video)),
        effective_of_class=effective_of_class(truth, matches[0], worst.frame, video),
    )


def map_figures(found: Curves, *, n: int) -> MapFigures:
    """Return mAP and its drop for every k; `n` counts sets."""
    values, without = mean_over_classes(found.ap), mean_over_classes(found.without)
    points = [
        mean_ap(float(value), without[k], of_class=found.videos[:, k], n=n, effective=found.effective)
        for k, value in enumerate(values.tolist())
    ]
    return MapFigures(
        map_orig=points[0],
        map_pmk=points[-1],
        drop=drop_between(points[0], points[-1], without[0], without[-1], n=n),
        curve=tuple(MapPoint(k, point) for k, point in enumerate(points)),
    )


def class_figures(found: Curves, label: int, *, n: tuple[int, int]) -> tuple[Estimate, Estimate, Estimate]:
    """Return AP of one class on the anchors and on the worst frames at k, and its drop; `n` counts the sets of both."""
    before, after = (
        ap_of_class(
            float(found.ap[label, at]),
            found.without[at, label],
            videos=int(found.videos[label, at]),
            n=n[at],
            effective=float(found.effective_of_class[label, at]),
        )
        for at in (0, -1)
    )
    return before, after, drop_between(before, after, found.without[0, label], found.without[-1, label], n=n[0])


def as_classifier(plan: Plan, found: BoxAnswers) -> AsClassifier:
    """Return pm-k accuracy by the class of the most confident box, on the sets that have a label.

    Coverage is the share of frames with a box, over all sets.
    """
    best = found.as_classes().label
    coverage = plan.all_rows.estimates(best[plan.frame] >= 0)[0]
    if not plan.view.labelled.any():
        none = nothing("no set has a label")
        return AsClassifier(acc_orig=none, acc_pmk=none, drop=none, coverage=coverage, curve=())
    if not plan.view.labelled.all():
        plan = Plan(plan.view.labelled_sets(), plan.options)
    right = plan.view.right_rows(best)
    first = first_wrong(~right, plan.set_row, plan.level, n_sets=plan.n_sets, never=plan.k + 1)
    at_k = right_at(first, k=plan.k)
    orig, perturbed = at_k[:, 0], at_k[:, -1]
    return AsClassifier(
        **plan.headline.figures(orig, perturbed),
        coverage=coverage,
        curve=tuple(AccPoint(k, acc) for k, acc in enumerate(plan.all_sets.estimates(at_k.T))),
    )


def temporal(plan: Plan, truth: TruthTable, found: BoxAnswers, one: Matches, *, confidence: float) -> Tracks | Missing:
    """Return flicker, jitter and score swing of tracked objects, or a reason if nothing is tracked."""
    if not (truth.track >= 0).any():
        return Missing("the boxes have no track ids")
    if not plan.is_video:
        return Missing("the axis is not frame-offset: tracks exist only along a video")
    figures = track_figures(
        truth,
        found,
        one,
        set_of_row=plan.set_row,
        frame_of_row=plan.frame,
        index_of_frame=plan.view.frames.index,
        confidence=confidence,
    )
    if not len(figures.set):
        return Missing("no tracked object is in two frames of a set")
    video = plan.cluster[figures.set]
    long = figures.can_flicker
    return Tracks(
        n_tracks=len(figures.set),
        flicker=proportion(figures.flickers[long], video[long], interval=plan.options.interval)
        if long.any()
        else nothing("no tracked object is in three frames of a set"),
        found_lost_rate=_mean(plan, figures.flips, figures.set),
        box_jitter=_mean(plan, figures.jitter, figures.set, shares=False),
        score_swing=_mean(plan, figures.swing, figures.set),
    )


def _mean(plan: Plan, values: Floats, of_set: NDArray[np.int64], *, shares: bool = True) -> Estimate:
    """Return the mean of shares or lengths over the n tracks with a value, and its interval over videos."""
    known = ~np.isnan(values)
    n = int(known.sum())
    if n == 0:
        return nothing("no tracked object is found in two frames of a set")
    value = float(values[known].mean())
    if not plan.options.bootstrap:
        return Estimate(value=value, low=None, high=None, n=n, reason=SWITCHED_OFF)
    total = np.bincount(of_set[known], weights=values[known], minlength=plan.n_sets).astype(np.float64)
    count = np.bincount(of_set[known], minlength=plan.n_sets)
    if shares:
        return plan.bootstrap.mean(total, count=count)
    return plan.bootstrap.estimate(value, plan.bootstrap.ratio(total, count), n=n, limits=POSITIVE)
