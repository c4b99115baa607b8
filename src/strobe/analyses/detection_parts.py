"""Parts of a detector's score: a curve against k with its draws, the detector as a classifier, tracks along sets."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.model_results import AccPoint, AsClassifier, MapFigures, MapPoint, Tracks
from strobe.analyses.plan import Plan
from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Floats
from strobe.core.estimate import Estimate, Missing
from strobe.metrics.detection.average import Interpolation, mean_over_classes
from strobe.metrics.detection.match import Matches
from strobe.metrics.detection.tables import TruthTable
from strobe.metrics.detection.tracks import track_figures
from strobe.metrics.detection.worst import Worst, class_ap, class_ap_draws
from strobe.metrics.intervals import ONE_VIDEO, nothing, proportion
from strobe.metrics.pmk import first_wrong, right_at

__all__ = ["as_classifier", "curve_of", "figures_of", "temporal"]

NOTHING_THERE = "nothing is to be found in these frames"
NO_DRAWS = "the bootstrap was switched off"
OUTSIDE = "the value lies outside its interval: with few videos per class, AP is higher in draws that repeat videos"


def figures_of(plan: Plan, values: Floats, draws: Floats | None, *, n: tuple[int, int]) -> MapFigures:
    """From values (K,) and draws (K, B), None without bootstrap; `n` on the anchors and on the worst frames."""
    points = [
        _estimate(plan, float(value), None if draws is None else draws[k], n=n[0] if k == 0 else n[1])
        for k, value in enumerate(values)
    ]
    drop = _estimate(plan, float(values[0] - values[-1]), None if draws is None else draws[0] - draws[-1], n=n[0])
    curve = tuple(MapPoint(k, point) for k, point in enumerate(points))
    return MapFigures(map_orig=points[0], map_pmk=points[-1], drop=drop, curve=curve)


def _estimate(plan: Plan, value: float, draws: Floats | None, *, n: int) -> Estimate:
    if np.isnan(value):
        return nothing(NOTHING_THERE)
    if draws is None:
        reason = ONE_VIDEO if plan.options.bootstrap else NO_DRAWS
        return Estimate(value=value, low=None, high=None, n=n, reason=reason)
    found = plan.bootstrap.estimate(value, draws, n=n)
    if found.low is not None and found.high is not None and not found.low - 1e-9 <= value <= found.high + 1e-9:
        # A draw repeats videos, and a frame's own true positives outrank its own false ones more often than those of
        # other videos: with few videos per class AP rises in the draws.
        return replace(found, reason=OUTSIDE)
    return found


def curve_of(
    plan: Plan,
    truth: TruthTable,
    found: BoxAnswers,
    matches: tuple[Matches, ...],
    worst: Worst,
    interpolation: Interpolation,
) -> tuple[MapFigures, Floats, Floats | None]:
    """The curve of mAP against k, the AP per class (C, K) behind it and its draws (K, C, B)."""
    ap = class_ap(truth, found, matches, worst.frame, interpolation=interpolation)
    draws = None
    if plan.options.bootstrap and plan.bootstrap.n_clusters > 1:
        sample = plan.bootstrap
        draws = class_ap_draws(
            truth, found, matches, worst.frame, sample.place, sample.weights, interpolation=interpolation
        )
    means = None if draws is None else mean_over_classes(draws)
    n = plan.n_sets
    curve = figures_of(plan, mean_over_classes(ap), means, n=(n, n))
    return curve, ap, draws


def as_classifier(plan: Plan, found: BoxAnswers) -> AsClassifier:
    """pm-k accuracy by the class of the most confident box; coverage is the share of the sets' frames with a box."""
    best = found.as_classes().label
    right = plan.right(best[plan.frame])
    first = first_wrong(~right, plan.set_row, plan.level, n_sets=plan.n_sets, never=plan.k + 1)
    at_k = right_at(first, k=plan.k)
    orig, perturbed = at_k[:, 0], at_k[:, -1]
    return AsClassifier(
        **plan.headline.figures(orig, perturbed),
        coverage=plan.all_rows.estimates(best[plan.frame] >= 0)[0],
        curve=tuple(AccPoint(k, acc) for k, acc in enumerate(plan.by_k.estimates(at_k.ravel()))),
    )


def temporal(plan: Plan, truth: TruthTable, found: BoxAnswers, one: Matches, *, confidence: float) -> Tracks | Missing:
    """Flicker, jitter and score swing of tracked objects; a reason where nothing is tracked."""
    if not (truth.track >= 0).any():
        return Missing("the boxes carry no track ids")
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
        box_jitter=_mean(plan, figures.jitter, figures.set),
        score_swing=_mean(plan, figures.swing, figures.set),
    )


def _mean(plan: Plan, values: Floats, of_set: NDArray[np.int64]) -> Estimate:
    """The mean over tracks with a value, with its interval from resampled videos; n counts tracks."""
    known = ~np.isnan(values)
    n = int(known.sum())
    if n == 0:
        return nothing("no tracked object is found in two frames of a set")
    value = float(values[known].mean())
    if not plan.options.bootstrap:
        return Estimate(value=value, low=None, high=None, n=n, reason=NO_DRAWS)
    total = np.bincount(of_set[known], weights=values[known], minlength=plan.n_sets)
    count = np.bincount(of_set[known], minlength=plan.n_sets)
    return plan.bootstrap.estimate(value, plan.bootstrap.ratio(total, count), n=n)
