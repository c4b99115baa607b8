"""Which of two models is better on the same sets, and how sure one can be."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.classification import ClassificationScore
from strobe.core.arrays import Floats, Ints
from strobe.core.codec import Count, Share
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, expect, printable
from strobe.core.estimate import Estimate
from strobe.metrics.bootstrap import REPLICATES, Bootstrap
from strobe.metrics.intervals import nothing
from strobe.metrics.paired import holm, mcnemar, sign_flip

__all__ = ["Comparison", "compare"]

Metric = Literal["acc_orig", "acc_pmk", "drop"]
LEVEL = 0.05
_WORDS = {
    "acc_orig": "accuracy on the anchors",
    "acc_pmk": "accuracy on whole sets (pm-k)",
    "drop": "drop from anchors to whole sets",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One pair of models on one metric, on the sets both were scored on.

    `only_a` sets are right for a alone. `p` is the test's to be read (`test` names it: exact McNemar where every video
    has one set, else the video-level sign-flip test), `p_mcnemar` McNemar's in any case, `p_holm` corrected over all
    pairs of this metric. The drop has no test, only the bootstrap of its difference. `difference` is a − b.
    """

    a: str
    b: str
    metric: Metric
    n_sets: Count
    only_a: Count | None = None
    only_b: Count | None = None
    test: str = "none"
    p: Share | None = None
    p_mcnemar: Share | None = None
    p_holm: Share | None = None
    difference: Estimate
    sentence: str = ""


def compare(
    dataset: Dataset, scores: Sequence[ClassificationScore], *, seed: int = 0, replicates: int = REPLICATES
) -> tuple[Comparison, ...]:
    """Every pair of models on accuracy, pm-k accuracy and drop.

    Tests are exact; p-values are corrected by Holm over the pairs of each metric; differences come with the video-
    cluster bootstrap, the same draws for all. A plain sentence gives each verdict.
    """
    names = [score.model for score in scores]
    expect(len(set(names)) == len(names), "compare", "each model once", sorted(names))
    expect(len({score.k for score in scores}) <= 1, "compare", "one k for all models", {s.k for s in scores})
    for score in scores:
        if len(score.first_wrong) != dataset.n_sets:
            raise InvalidValue(
                f"compare: {printable(score.model)} was scored on {len(score.first_wrong)} sets, dataset "
                f"{printable(dataset.name)} has {dataset.n_sets}; score all models on the same dataset"
            )
    pairs = list(combinations(scores, 2))
    if not pairs:
        return ()
    draws = _Draws(Bootstrap(dataset.video_of_set, replicates=replicates, seed=seed))
    video = dataset.video_of_set
    out: list[Comparison] = []
    metrics: tuple[Metric, ...] = ("acc_orig", "acc_pmk", "drop")
    for metric in metrics:
        part = [_pair(metric, a, b, video, draws) for a, b in pairs]
        p_values = [c.p for c in part if c.p is not None]
        corrected = iter(holm(p_values))
        out += [replace(c, p_holm=next(corrected) if c.p is not None else None) for c in part]
    return tuple(replace(c, sentence=_sentence(c)) for c in out)


class _Draws:
    """Resampled sums per model and cohort, worked out once: most pairs share their cohort."""

    def __init__(self, bootstrap: Bootstrap) -> None:
        self.bootstrap = bootstrap
        self._size: dict[bytes, Floats] = {}
        self._sums: dict[tuple[str, Metric], Floats] = {}

    def difference(self, metric: Metric, a: ClassificationScore, b: ClassificationScore) -> Estimate:
        """The difference a − b over the sets both were scored on, with its bootstrap interval."""
        cohort = a.scored & b.scored
        key = cohort.tobytes()
        if key not in self._size:
            self._size[key] = self.bootstrap.sums(cohort)
        size = self._size[key]
        gap = np.where(cohort, _value(a, metric) - _value(b, metric), 0)
        if key == a.scored.tobytes() == b.scored.tobytes():
            top = self._of(a, metric) - self._of(b, metric)
        else:
            top = self.bootstrap.sums(gap)
        drawn = np.divide(top, size, out=np.full(top.shape, np.nan), where=size > 0)
        n = int(cohort.sum())
        return self.bootstrap.estimate(float(gap.sum() / n), drawn, n=n)

    def _of(self, score: ClassificationScore, metric: Metric) -> Floats:
        key = (score.model, metric)
        if key not in self._sums:
            self._sums[key] = self.bootstrap.sums(_value(score, metric))
        return self._sums[key]


def _value(score: ClassificationScore, metric: Metric) -> NDArray[np.int64]:
    orig, perturbed = score.right_at(0).astype(np.int64), score.right_at(score.k).astype(np.int64)
    if metric == "acc_orig":
        return orig
    return perturbed if metric == "acc_pmk" else orig - perturbed


def _pair(metric: Metric, a: ClassificationScore, b: ClassificationScore, video: Ints, draws: _Draws) -> Comparison:
    cohort = a.scored & b.scored
    n = int(cohort.sum())
    difference = draws.difference(metric, a, b) if n else nothing("no set was scored for both models")
    bare = Comparison(a=a.model, b=b.model, metric=metric, n_sets=n, difference=difference)
    if not n or metric == "drop":
        return replace(bare, test="video-cluster bootstrap") if n else bare
    gap = _value(a, metric) - _value(b, metric)
    only_a, only_b = int((gap[cohort] > 0).sum()), int((gap[cohort] < 0).sum())
    plain = mcnemar(only_a, only_b)
    _, place = np.unique(video[cohort], return_inverse=True)
    shared = int(place.max()) + 1 < n
    p = plain
    if shared:
        p = sign_flip(np.bincount(place, weights=gap[cohort]).astype(np.int64))
    test = "video-level sign-flip" if shared else "exact McNemar"
    return replace(bare, only_a=only_a, only_b=only_b, test=test, p=p, p_mcnemar=plain)


def _sentence(c: Comparison) -> str:
    """The verdict in plain words: what differs, by how much, how sure."""
    a, b = printable(c.a), printable(c.b)
    if c.difference.value is None:
        return f"{a} and {b} share no scored set; nothing can be said."
    what = _WORDS[c.metric]
    low, high = c.difference.low, c.difference.high
    if c.p_holm is not None:
        sure, how = c.p_holm < LEVEL, f"p = {_p(c.p_holm)} after Holm, {c.test}"
    else:
        # No exact test stands behind a drop: an interval of few videos, known to be too narrow, decides nothing.
        known = low is not None and high is not None and (low > 0 or high < 0)
        sure, how = known and c.difference.reason is None, c.test
    # The model named first is the one with more, so that the figure reads as the sentence does.
    first, second, sign = (b, a, -1) if sure and c.difference.value < 0 else (a, b, 1)
    interval = ""
    if low is not None and high is not None:
        ends = sorted((sign * 100 * low, sign * 100 * high))
        interval = f", 95 % interval {_points(ends[0])} to {_points(ends[1])}"
        if c.difference.reason is not None:
            interval += f" ({c.difference.reason})"
    figures = f"({_points(sign * 100 * c.difference.value)} points{interval}; {how}; n = {c.n_sets})"
    if not sure:
        return f"No difference shown between {a} and {b} in {what} {figures}."
    if c.metric == "drop":
        return f"{first} flickers more than {second}: its {what} is larger {figures}."
    return f"{first} is better than {second} in {what} {figures}."


def _p(p: float) -> str:
    """A p-value to two digits, more where rounding would put it on the wrong side of the level.

    >>> _p(0.0123), _p(0.0496), _p(0.04997)
    ('0.012', '0.0496', '0.04997')
    """
    return next((t for n in range(2, 12) if (float(t := f"{p:.{n}g}") < LEVEL) == (p < LEVEL)), f"{p:.2g}")


def _points(value: float) -> str:
    """Signed points with a true minus sign; nought has none.

    >>> _points(-0.04), _points(-3.25), _points(2.0)
    ('0.0', '−3.2', '+2.0')
    """
    text = f"{value:+.1f}".replace("-", "−")
    return "0.0" if text[1:] == "0.0" else text
