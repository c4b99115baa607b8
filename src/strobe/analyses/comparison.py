"""Which of two models is better on the same sets, and whether the difference is significant."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.model_results import ClassificationScore
from strobe.core.arrays import Bools, Ints
from strobe.core.codec import LEFT_OUT, Count, Share
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, expect, printable
from strobe.core.estimate import Estimate
from strobe.core.names import short_names
from strobe.metrics.intervals import nothing
from strobe.metrics.paired import LEVEL, holm, mcnemar, paired_difference, sign_flip
from strobe.metrics.power import PairSpread, pair_spread

T = TypeVar("T")

Pairing = Callable[[Sequence[Any]], list[tuple[Any, Any]]]
"""The pairs of scores to compare."""

Metric = Literal["acc_orig", "acc_pmk", "drop", "map_orig", "map_pmk", "map_drop"]
"""`map_drop` is the name of a detector's own drop, because two detectors are also compared as classifiers."""
_WORDS = {
    "acc_orig": "accuracy on the anchors",
    "acc_pmk": "accuracy on whole sets (pm-k)",
    "drop": "drop from anchors to whole sets",
    "map_orig": "mAP on the anchors",
    "map_pmk": "mAP on the worst frames (pm-k)",
    "map_drop": "drop of mAP from anchors to worst frames",
}
ACCURACIES: tuple[Metric, ...] = ("acc_orig", "acc_pmk", "drop")
"""The metrics on which classifiers are compared if sets have labels."""
WHOLE_SETS = ("acc_pmk", "map_pmk")
"""The metrics on whole sets; their comparisons list the sets that one model holds and the other does not."""
MOST_NAMED = 20
MOST_NAMES = 4000
"""The largest number of sets listed in one list of a comparison, and in all lists together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One pair of models on one metric, on the sets for which both have a score.

    `only_a` counts the sets that only a gets right (for the drop: that only a loses). For detectors, these sets are
    counted only in comparisons of whole sets. A detector is right on a set if AP is above 0 on the anchor and no lower
    on any member. From a to b, `only_a` sets are newly broken and `only_b` sets are newly held. `sets_only_a` and
    `sets_only_b` list at most 20 of these sets each, by their short names in tables/sets. The nearest flicker comes
    first, and sets lost on the anchor come last. The table tables/sets lists all sets.

    `p` is the p-value to read, and `test` names its test. For classifiers, this is exact McNemar if every video has one
    set, else the video-level sign-flip test. For detectors, it is a paired jackknife over videos. `p_mcnemar` is always
    the p-value of McNemar's test. `p_holm` is corrected over all pairs of this metric. `difference` is a − b with the
    interval of the corrected test, so the interval includes 0 exactly if `p_holm` is not below 0.05. `missing_sets`
    lack predictions of one of the two models and are not compared. `cautions` names other sets that are not compared,
    unless another field records them.
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
    sets_only_a: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    sets_only_b: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    missing_sets: Count | None = field(default=None, metadata=LEFT_OUT)
    cautions: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)


class SetOutcomes(Protocol):
    """What a paired test needs of a model: the level at which each set first fails (k + 1: never, −1: unscored)."""

    @property
    def model(self) -> str:
        """The model's name."""

    @property
    def k(self) -> int:
        """The largest distance from the anchor."""

    @property
    def first_wrong(self) -> NDArray[np.int32]:
        """The level at which each set first fails, (S,)."""

    @property
    def scored(self) -> Bools:
        """The sets with an outcome, (S,)."""

    def right_at(self, k: int) -> Bools:
        """Return the sets that do not fail up to this level, (S,)."""


def every_pair(scores: Sequence[T]) -> list[tuple[T, T]]:
    """Return every pair, with the earlier item first.

    >>> every_pair("abc")
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    return list(combinations(scores, 2))


def compare(
    dataset: Dataset, scores: Sequence[ClassificationScore], *, pairing: Pairing = every_pair
) -> tuple[Comparison, ...]:
    """Compare every pair of models, or the pairs of `pairing`, on accuracy, pm-k accuracy and drop.

    Tests are exact. The p-values are corrected by Holm over the pairs of each metric. Each interval belongs to its
    corrected test, so the two never disagree. Each verdict is a plain sentence.
    """
    out = paired_tests(dataset, scores, ACCURACIES, pairing=pairing)
    by_name = {score.model: score for score in scores}
    return tuple(replace(c, sentence=c.sentence + doubts(by_name[c.a], by_name[c.b])) for c in out)


def paired_tests(
    dataset: Dataset, scores: Sequence[SetOutcomes], metrics: Sequence[Metric], *, pairing: Pairing = every_pair
) -> list[Comparison]:
    """Test the pairs of models on each metric; p-values are corrected over the pairs of a metric."""
    names = [score.model for score in scores]
    expect(len(set(names)) == len(names), "compare", "each model once", sorted(names))
    expect(len({score.k for score in scores}) <= 1, "compare", "one k for all models", {s.k for s in scores})
    for score in scores:
        if len(score.first_wrong) != dataset.n_sets:
            raise InvalidValue(
                f"compare: {printable(score.model)} was scored on {len(score.first_wrong)} sets, dataset "
                f"{printable(dataset.name)} has {dataset.n_sets}; score all models on the same dataset"
            )
    out: list[Comparison] = []
    if len(scores) < 2:
        return out
    names, most = short_names(dataset.sets.set_id.tolist(), even=True), names_each(len(scores))
    for metric in metrics:
        pairs = [_Pair(metric, a, b, dataset.video_of_set) for a, b in pairing(scores)]
        tested = [pair for pair in pairs if pair.n]
        corrected = iter(holm([pair.p for pair in tested]))
        found = [pair.found(next(corrected), len(tested)) if pair.n else pair.nothing() for pair in pairs]
        if metric in WHOLE_SETS:
            found = [pair.naming(one, names, most) for pair, one in zip(pairs, found, strict=True)]
        out += found
    return [replace(one, sentence=said(one)) for one in out]


def doubts(a: ClassificationScore, b: ClassificationScore) -> str:
    """Return the cautions about the pair's answers; empty if there are none."""
    if a.exact and a.exact == b.exact and a.acc_pmk.value != 1:
        return " They give the same answers on every frame; are they the same model?"
    found = [(one, one.answers.warning) for one in (a, b) if one.answers is not None and one.answers.warning]
    return "".join(f" {printable(one.model)}: {warning}." for one, warning in found)


def names_each(n_models: int) -> int:
    """Return the largest number of sets to list in a comparison; it is smaller if many models form many pairs.

    >>> names_each(2), names_each(50), names_each(335)
    (20, 1, 0)
    """
    return min(MOST_NAMED, MOST_NAMES // max(n_models * (n_models - 1), 1))


def named(names: Sequence[str], where: Bools, first: Ints, most: int) -> tuple[str, ...] | None:
    """Return the names of sets that only one model holds.

    `first` is the first wrong level of the other model (0: the anchor).

    Sets that flicker come first, beginning with the nearest flicker; sets lost on the anchor come last. The result is
    None if there are no such sets.
    """
    rows = np.flatnonzero(where)
    order = np.lexsort((rows, first[rows], first[rows] == 0))
    return tuple(names[row] for row in rows[order[:most]].tolist()) or None


def loss_spreads(
    dataset: Dataset, new: SetOutcomes, old: SetOutcomes, metrics: Sequence[Metric] = ACCURACIES
) -> dict[str, PairSpread]:
    """Return the sampling error of each measured difference between two classifiers."""
    pairs = {metric: _Pair(metric, new, old, dataset.video_of_set) for metric in metrics}
    return {metric: pair_spread(pair.gap, pair.video) for metric, pair in pairs.items() if pair.n}


class _Pair:
    """Two models on one metric, on the sets for which both have a score, and the test of their differences."""

    def __init__(self, metric: Metric, a: SetOutcomes, b: SetOutcomes, video: Ints) -> None:
        cohort = a.scored & b.scored
        self._both, self._cohort = (a, b), cohort
        self.metric, self.a, self.b, self.n = metric, a.model, b.model, int(cohort.sum())
        self.n_missing = len(cohort) - self.n or None
        self.gap, self.video = (_value(a, metric) - _value(b, metric))[cohort], video[cohort]
        self.only_a, self.only_b = int((self.gap > 0).sum()), int((self.gap < 0).sum())
        self.p = self.p_mcnemar = mcnemar(self.only_a, self.only_b)
        _, place = np.unique(self.video, return_inverse=True)
        self.shared = bool(self.n) and int(place.max()) + 1 < self.n
        if self.shared:
            self.p = sign_flip(np.bincount(place, weights=self.gap).astype(np.int64))

    def found(self, p_holm: float, pairs: int) -> Comparison:
        """Return the comparison; `pairs` is the number of tests to correct for."""
        return Comparison(
            a=self.a,
            b=self.b,
            metric=self.metric,
            n_sets=self.n,
            only_a=self.only_a,
            only_b=self.only_b,
            test="video-level sign-flip" if self.shared else "exact McNemar",
            p=self.p,
            p_mcnemar=self.p_mcnemar,
            p_holm=p_holm,
            difference=paired_difference(self.gap, self.video, p=self.p, p_holm=p_holm, pairs=pairs),
            missing_sets=self.n_missing,
        )

    def naming(self, found: Comparison, names: Sequence[str], most: int) -> Comparison:
        """Return the comparison with the sets that only one of the two models holds, or on which only one flickers."""
        a, b = self._both
        sides = np.zeros((2, len(self._cohort)), dtype=bool)
        sides[:, self._cohort] = self.gap > 0, self.gap < 0
        return replace(
            found,
            sets_only_a=named(names, sides[0], b.first_wrong, most),
            sets_only_b=named(names, sides[1], a.first_wrong, most),
        )

    def nothing(self) -> Comparison:
        """Return the comparison if no set was scored for both models."""
        return Comparison(
            a=self.a,
            b=self.b,
            metric=self.metric,
            n_sets=0,
            only_a=None,
            only_b=None,
            test="none",
            p=None,
            p_mcnemar=None,
            p_holm=None,
            difference=nothing("no set was scored for both models"),
            missing_sets=self.n_missing,
        )


def _value(score: SetOutcomes, metric: Metric) -> NDArray[np.int64]:
    orig, perturbed = score.right_at(0).astype(np.int64), score.right_at(score.k).astype(np.int64)
    if metric == "acc_orig":
        return orig
    return perturbed if metric == "acc_pmk" else orig - perturbed


def said(c: Comparison) -> str:
    """Return the verdict in plain words: the difference, its size and its significance."""
    a, b = printable(c.a), printable(c.b)
    what, difference = _WORDS[c.metric], c.difference
    if c.difference.value is None or (c.p_holm is None and not c.n_sets):
        return f"{a} and {b} have no scored set in common, so they cannot be compared."
    if c.p_holm is None:
        why = difference.reason or "no test was made"
        return f"{a} and {b} differ by {_points(100 * c.difference.value)} points in {what}; not tested: {why}."
    sure, value = c.p_holm < LEVEL, c.difference.value
    interval = ""
    if difference.low is not None and difference.high is not None:
        interval = f", 95 % interval {_points(100 * difference.low)} to {_points(100 * difference.high)}"
    lacking = f", {_sets(c.missing_sets)} with missing predictions not compared" if c.missing_sets else ""
    how = f"p = {_p(c.p_holm)} after Holm, {c.test}"
    figures = f"({_points(100 * value)} points{interval}; {how}; n = {c.n_sets}{lacking})"
    if sure and c.metric in ("drop", "map_drop"):
        more, larger = ("more", "larger") if value > 0 else ("less", "smaller")
        return f"{a} flickers {more} than {b}: its {what} is {larger} {figures}."
    if sure:
        return f"{a} is {'better' if value > 0 else 'worse'} than {b} in {what} {figures}."
    why = "" if difference.reason is None else f" {difference.reason[0].upper()}{difference.reason[1:]}."
    return f"No significant difference between {a} and {b} in {what} {figures}.{why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change of the sets from one model to another: counts, and the names of some sets.

    `by_box` means that both are detectors, compared by the class of their most confident box.
    """

    before: str
    after: str
    detection: bool
    n_sets: int
    newly_held: int
    newly_broken: int
    held: tuple[str, ...]
    broken: tuple[str, ...]
    by_box: bool = False

    words: ClassVar[tuple[str, str]] = ("newly held", "newly broken")
    """How the two kinds of changed sets are called: those that are better now, and those that are worse."""

    def sentence(self) -> str:
        """The counts in words."""
        better, worse = self.words
        if not self.newly_held and not self.newly_broken:
            kept = f"no set {better} or {worse}, of {self.n_sets}"
        else:
            kept = f"{_sets(self.newly_held)} {better}, {_sets(self.newly_broken)} {worse}, of {self.n_sets}"
        means = " (held: AP is above 0 on the anchor, and no frame has a lower AP)" if self.detection else ""
        by = ", by the class of the most confident box" if self.by_box else ""
        return f"From {printable(self.before)} to {printable(self.after)}{by}: {kept}{means}."


def change(c: Comparison, *, before: str | None = None) -> Change | None:
    """Return the comparison as a change from `before` (by default a) to the other model; None for another metric."""
    if c.metric not in WHOLE_SETS or c.only_a is None or c.only_b is None:
        return None
    only = {c.a: (c.only_a, c.sets_only_a or ()), c.b: (c.only_b, c.sets_only_b or ())}
    first, second = (c.b, c.a) if before == c.b else (c.a, c.b)
    better, worse = only[second], only[first]
    return Change(
        before=first,
        after=second,
        detection=c.metric == "map_pmk",
        n_sets=c.n_sets,
        newly_held=better[0],
        newly_broken=worse[0],
        held=better[1],
        broken=worse[1],
    )


def _sets(n: int) -> str:
    return f"{n} set{'' if n == 1 else 's'}"


def _p(p: float) -> str:
    """Return a p-value with two digits, or more if rounding would move it across the significance level.

    >>> _p(0.0123), _p(0.0496), _p(0.04997)
    ('0.012', '0.0496', '0.04997')
    """
    return next((t for n in range(2, 12) if (float(t := f"{p:.{n}g}") < LEVEL) == (p < LEVEL)), f"{p:.2g}")


def _points(value: float) -> str:
    """Return signed points with a true minus sign; only zero has no sign, and other values never round to zero.

    >>> _points(-1e-9), _points(-3.25), _points(2.0), _points(0.04)
    ('−0.001', '−3.2', '+2.0', '+0.04')
    """
    if value == 0:
        return "0.0"
    digits = next((n for n in (1, 2, 3) if float(f"{value:.{n}f}")), None)
    text = f"{value:+.{digits}f}" if digits else f"{'+' if value > 0 else '-'}0.001"
    return text.replace("-", "−")
