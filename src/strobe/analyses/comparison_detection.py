"""Which of two detectors is better on the same sets: differences of mAP with the paired jackknife."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import stdtr, stdtrit

from strobe.analyses.comparison import WHOLE_SETS, Comparison, Metric, Pairing, every_pair, named, names_each, said
from strobe.analyses.model_results import DetectionScore
from strobe.core.dataset import Dataset
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.core.names import short_names
from strobe.metrics.detection.jackknife import LEAST_VIDEOS, METHOD, NO_SPREAD, ONE_DECIDES, standard_error
from strobe.metrics.intervals import LEAST_FREEDOM, effective_videos, nothing
from strobe.metrics.paired import LEVEL, holm, holm_steps

TEST = "paired video jackknife"


def compare_detectors(
    dataset: Dataset, scores: Sequence[DetectionScore], *, pairing: Pairing = every_pair
) -> tuple[Comparison, ...]:
    """Compare all pairs of detectors, or the pairs of `pairing`, on all three measures.

    Both detectors of a pair must have scored every set.

    The standard error of a difference comes from its leave-one-video-out values. The test is Student's t, with Holm's
    correction over the pairs of each metric. The interval of the difference belongs to the corrected test. Sets are
    counted by whether AP ever falls below the AP of the anchor.
    """
    expect(len({score.settings.k for score in scores}) <= 1, "compare", "one k for all models", None)
    names, most = short_names(dataset.sets.set_id.tolist(), even=True), names_each(len(scores))
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
    """The pair's difference and its standard error, before correction; `freedom` holds the degrees of freedom."""
    (value_a, value_b), n = (comparison.headline[place].value for comparison in (a, b)), a.headline[place].n
    comparison = Comparison(
        a=a.model, b=b.model, metric=metric, n_sets=n, difference=nothing("mAP of one detector is unknown")
    )
    if value_a is None or value_b is None:
        return replace(comparison, n_sets=0), 0.0
    if a.unscored.sets or b.unscored.sets:
        lacking = nothing("a detector lacks answers on some sets, so the two were not scored on the same sets")
        missing = max(a.unscored.sets, b.unscored.sets)
        return replace(comparison, n_sets=0, difference=lacking, missing_sets=missing), 0.0
    value, videos = value_a - value_b, a.without.shape[1]
    gap = _of(place, a) - _of(place, b)
    error = standard_error(gap) if np.isfinite(gap).all() else np.nan
    why: str | None = None
    if videos < LEAST_VIDEOS:
        why = f"only {videos} video(s): an interval of a difference of mAP needs at least ten"
    elif not error > 1e-12:  # NaN if only one video shows objects to find
        why = NO_SPREAD if error == error else ONE_DECIDES
    if why is not None:
        plain = Estimate(value=value, low=None, high=None, n=n, method=METHOD, reason=why)
        return replace(comparison, difference=plain), 0.0
    p = min(1.0, 2 * float(stdtr(freedom, -abs(value) / error)))
    # The interval depends on the number of pairs tested, so for now there is only the value.
    alone = Estimate(value=value, low=value, high=value, n=n, method=METHOD)
    return replace(comparison, test=TEST, p=p, difference=alone), error


def _of(place: int, score: DetectionScore) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return mAP on anchors, on worst frames, or their difference, with each video left out, (G,)."""
    orig, worst = score.without
    return np.asarray((orig, worst, orig - worst)[place])


def _corrected(comparison: Comparison, error: float, p_holm: float, *, pairs: int, freedom: float) -> Comparison:
    before, p = comparison.difference, comparison.p or 0.0
    steps, how = holm_steps(p, p_holm, pairs)
    reach = float(stdtrit(freedom, 1 - LEVEL / steps / 2)) * error
    value = 0.0 if before.value is None else before.value
    after = replace(before, low=value - reach, high=value + reach, method=before.method + how)
    return replace(comparison, p_holm=p_holm, difference=after)


def _counted(
    comparison: Comparison, a: DetectionScore, b: DetectionScore, names: Sequence[str], most: int
) -> Comparison:
    """Return the comparison with the sets that only one of the two detectors holds."""
    if not comparison.n_sets:
        return comparison
    # 0 if nothing is right on the anchor, 1 if the set breaks. All sets that break are listed as equally near, because
    # the distance of the worst frame does not rank them.
    first = [np.array([int(row.status == "breaks") for row in score.chosen_frames]) for score in (a, b)]
    held = [np.array([row.status == "holds" for row in score.chosen_frames], dtype=bool) for score in (a, b)]
    only_a, only_b = held[0] & ~held[1], held[1] & ~held[0]
    return replace(
        comparison,
        only_a=int(only_a.sum()),
        only_b=int(only_b.sum()),
        sets_only_a=named(names, only_a, first[1], most),
        sets_only_b=named(names, only_b, first[0], most),
    )
