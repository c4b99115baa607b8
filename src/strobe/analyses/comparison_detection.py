"""Which of two detectors is better on the same sets: differences of mAP with the paired jackknife."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import stdtr, stdtrit

from strobe.analyses.comparison import WHOLE_SETS, Comparison, Metric, Pairing, every_pair, named, names_each, said
from strobe.analyses.detection import DetectionScore
from strobe.core.dataset import Dataset
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.core.names import short_names
from strobe.metrics.detection.jackknife import LEAST_VIDEOS, METHOD, NO_SPREAD, ONE_DECIDES, standard_error
from strobe.metrics.intervals import LEAST_FREEDOM, effective_videos, nothing
from strobe.metrics.paired import LEVEL, holm

__all__ = ["compare_detectors"]

TEST = "paired video jackknife"


def compare_detectors(
    dataset: Dataset, scores: Sequence[DetectionScore], *, pairing: Pairing = every_pair
) -> tuple[Comparison, ...]:
    """Compare pairs of detectors, all or those of `pairing`, on map_orig, map_pmk and drop, if both scored every set.

    The difference has the standard error of its leave-one-video-out values, Student's t, and Holm over the pairs of
    each metric. Its interval is that of the corrected test. Sets are counted by whether AP ever falls below the
    anchor's.
    """
    expect(len({score.settings.k for score in scores}) <= 1, "compare", "one k for all models", None)
    names, most = short_names(dataset.sets.set_id.tolist()), names_each(len(scores))
    out: list[Comparison] = []
    freedom = max(effective_videos(np.unique(dataset.video_of_set, return_counts=True)[1]) - 1, LEAST_FREEDOM)
    metrics: tuple[Metric, ...] = ("map_orig", "map_pmk", "map_drop")
    for place, metric in enumerate(metrics):
        both = pairing(scores)
        pairs = [_pair(metric, place, a, b, freedom) for a, b in both]
        tested = [(one, error) for one, error in pairs if one.p is not None]
        corrected = iter(holm([one.p for one, _ in tested if one.p is not None]))
        for (a, b), (one, error) in zip(both, pairs, strict=True):
            if one.p is not None:
                one = _corrected(one, error, next(corrected), pairs=len(tested), freedom=freedom)
            out.append(_counted(one, a, b, names, most) if metric in WHOLE_SETS else one)
    return tuple(replace(one, sentence=said(one)) for one in out)


def _pair(metric: Metric, place: int, a: DetectionScore, b: DetectionScore, freedom: float) -> tuple[Comparison, float]:
    """The pair's difference and its standard error, before correction; `freedom` is that of Student's t."""
    (value_a, value_b), n = (one.headline[place].value for one in (a, b)), a.headline[place].n
    one = Comparison(a=a.model, b=b.model, metric=metric, n_sets=n, difference=nothing("mAP of one is unknown"))
    if value_a is None or value_b is None:
        return replace(one, n_sets=0), 0.0
    if a.unscored.sets or b.unscored.sets:
        lacking = nothing("a detector lacks answers on some sets, so the two were not scored on the same")
        missing = max(a.unscored.sets, b.unscored.sets)
        return replace(one, n_sets=0, difference=lacking, missing_sets=missing), 0.0
    value, videos = value_a - value_b, a.without.shape[1]
    gap = _of(place, a) - _of(place, b)
    error = standard_error(gap) if np.isfinite(gap).all() else np.nan
    why: str | None = None
    if videos < LEAST_VIDEOS:
        why = f"only {videos} video(s): a difference of mAP has no interval below ten"
    elif not error > 1e-12:  # NaN if only one video shows objects to find
        why = NO_SPREAD if error == error else ONE_DECIDES
    if why is not None:
        plain = Estimate(value=value, low=None, high=None, n=n, method=METHOD, reason=why)
        return replace(one, difference=plain), 0.0
    p = min(1.0, 2 * float(stdtr(freedom, -abs(value) / error)))
    # Its interval depends on the number of pairs tested; until then it is the value alone.
    alone = Estimate(value=value, low=value, high=value, n=n, method=METHOD)
    return replace(one, test=TEST, p=p, difference=alone), error


def _of(place: int, score: DetectionScore) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return mAP on anchors, on worst frames, or their difference, with each video left out, (G,)."""
    orig, worst = score.without
    return np.asarray((orig, worst, orig - worst)[place])


def _corrected(one: Comparison, error: float, p_holm: float, *, pairs: int, freedom: float) -> Comparison:
    found, p = one.difference, one.p or 0.0
    steps = p_holm / p if p > 0 and p_holm < 1 else pairs
    reach = float(stdtrit(freedom, 1 - LEVEL / steps / 2)) * error
    value = 0.0 if found.value is None else found.value
    return replace(one, p_holm=p_holm, difference=replace(found, low=value - reach, high=value + reach))


def _counted(one: Comparison, a: DetectionScore, b: DetectionScore, names: Sequence[str], most: int) -> Comparison:
    """Return the comparison with the sets that only one of the two holds."""
    if not one.n_sets:
        return one
    # 0 if nothing is right on the anchor, else 1 as for a flicker: the distance of the worst frame is not a rank.
    first = [np.array([int(row.status == "breaks") for row in score.chosen_frames]) for score in (a, b)]
    held = [np.array([row.status == "holds" for row in score.chosen_frames], dtype=bool) for score in (a, b)]
    only_a, only_b = held[0] & ~held[1], held[1] & ~held[0]
    return replace(
        one,
        only_a=int(only_a.sum()),
        only_b=int(only_b.sum()),
        sets_only_a=named(names, only_a, first[1], most),
        sets_only_b=named(names, only_b, first[0], most),
    )
