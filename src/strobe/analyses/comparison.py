"""Which of two models is better on the same sets, and whether the difference is significant."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, ClassVar, Literal, TypeVar, cast

import numpy as np

from strobe.analyses.measures import Measure, column_of
from strobe.analyses.model_results import CLASSIFICATION, DETECTION, NOISE, ClassificationScore, DetectionScore
from strobe.core.arrays import Bools, Ints
from strobe.core.codec import LEFT_OUT, Count, Share
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, expect, printable
from strobe.core.estimate import Estimate, Missing
from strobe.core.names import short_names
from strobe.core.tasks import Task
from strobe.metrics.columns import Gap, Measured
from strobe.metrics.paired import LEVEL, holm, mcnemar

T = TypeVar("T")

Pairing = Callable[[Sequence[Any]], list[tuple[Any, Any]]]
"""The pairs of scores to compare."""

Metric = Literal["acc_orig", "acc_pmk", "drop", "map_orig", "map_pmk", "map_drop", "noise"]
"""`map_drop` is the name of a detector's own drop, because two detectors are also compared as classifiers."""
_WORDS = {
    "acc_orig": "accuracy on the anchors",
    "acc_pmk": "accuracy on whole sets (pm-k)",
    "drop": "drop from anchors to whole sets",
    "map_orig": "mAP on the anchors",
    "map_pmk": "mAP on the worst frames (pm-k)",
    "map_drop": "drop of mAP from anchors to worst frames",
    "noise": "noise on the same frames",
}
COMPARED: Mapping[Task, Sequence[Measure[Any]]] = {
    task: [one for one in measures if one.column is not None]
    for task, measures in ((Task.CLASSIFICATION, CLASSIFICATION), (Task.DETECTION, DETECTION))
}
"""The measures with labels on which models of one task are compared."""
Score = ClassificationScore | DetectionScore
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


def every_pair(scores: Sequence[T]) -> list[tuple[T, T]]:
    """Return every pair, with the earlier item first.

    >>> every_pair("abc")
    [('a', 'b'), ('a', 'c'), ('b', 'c')]
    """
    return list(combinations(scores, 2))


def compare(
    dataset: Dataset,
    scores: Sequence[Score],
    *,
    pairing: Pairing = every_pair,
    noise: Mapping[str, Measured] | None = None,
) -> tuple[Comparison, ...]:
    """Compare every pair of models of one task, or the pairs of `pairing`, in each measure that has a column.

    `noise` are the columns of noise of the models that were asked several times; pairs of these are compared in it.
    Classifiers are compared on the sets with a label. Two detectors are compared by mAP if both scored every set. The
    p-values are corrected by Holm over the pairs of each metric. Each interval belongs to its corrected test, so the
    two never disagree. Each verdict is a plain sentence.
    """
    out: list[Comparison] = []
    for task in Task:
        models = [score for score in scores if score.task is task]
        if len(models) < 2:
            continue
        judged = dataset.labelled_sets() if task is Task.CLASSIFICATION else dataset
        names = [score.model for score in models]
        expect(len(set(names)) == len(names), "compare", "each model once", sorted(names))
        expect(
            len({model.k for model in models}) == 1, "compare", "one k for all models", {model.k for model in models}
        )
        for one in models:
            if len(one.video) != judged.n_sets:
                raise InvalidValue(
                    f"compare: {printable(one.model)} was scored on {len(one.video)} sets, dataset "
                    f"{printable(dataset.name)} has {judged.n_sets}; score all models on the same dataset"
                )
        pairs, names = pairing(models), short_names(judged.sets.set_id.tolist(), even=True)
        outcomes, most = {model.model: _Outcomes.of(model) for model in models}, names_each(len(models))
        by_measure = {
            measure: {model.model: columns_of(model, [measure])[measure.name] for model in models}
            for measure in COMPARED[task]
        }
        for measure, columns in {**by_measure, NOISE[0]: noise or {}}.items():
            paired = [pair for pair in pairs if all(model.model in columns for model in pair)]
            gaps = [Gap(columns[a.model], columns[b.model]) for a, b in paired]
            tested = [gap.p for gap in gaps if gap.p is not None]
            corrected = iter(holm(tested))
            for pair, gap in zip(paired, gaps, strict=True):
                found = _compared(metric_of(measure, task), pair, gap, corrected, len(tested))
                if found.metric in WHOLE_SETS and found.n_sets:
                    found = _with_sets(found, outcomes[found.a], outcomes[found.b], names, most)
                out.append(replace(found, sentence=said(found) + doubts(*pair)))
    return tuple(out)


def columns_of(score: Score, measures: Sequence[Measure[Any]] | None = None) -> dict[str, Measured]:
    """Return the columns of a model with labels, by measure name; by default all on which models are compared."""
    measures = COMPARED[score.task] if measures is None else measures
    found = {measure.name: column_of(measure, score) for measure in measures}
    return {name: one for name, one in found.items() if not isinstance(one, Missing)}


def scored_sets(dataset: Dataset, score: Score) -> Bools:
    """Return the sets that a model was scored on, (S,)."""
    if isinstance(score, ClassificationScore):
        return score.scored
    return np.isin(dataset.sets.set_id.astype(np.str_), [row.set for row in score.chosen_frames])


def metric_of(measure: Measure[Any], task: Task) -> Metric:
    """Return the name under which a measure is compared: two detectors are compared as classifiers too."""
    name = "map_drop" if task is Task.DETECTION and measure.name == "drop" else measure.name
    return cast(Metric, name)


def _compared(
    metric: Metric, pair: tuple[Score, Score], gap: Gap, corrected: Iterator[float], tests: int
) -> Comparison:
    (a, b), rows, p_holm = pair, gap.rows, None if gap.p is None else next(corrected)
    only_a, only_b = (None, None) if rows is None or not gap.n else (int((rows > 0).sum()), int((rows < 0).sum()))
    return Comparison(
        a=a.model,
        b=b.model,
        metric=metric,
        n_sets=gap.n,
        only_a=only_a,
        only_b=only_b,
        test=gap.test,
        p=gap.p,
        p_mcnemar=None if only_a is None or only_b is None else mcnemar(only_a, only_b),
        p_holm=p_holm,
        difference=gap.difference(p_holm=p_holm, pairs=tests),
        missing_sets=gap.unpaired or max(a.unscored.sets, b.unscored.sets) or None,
    )


@dataclass(frozen=True, slots=True)
class _Outcomes:
    """The sets that a model holds, (S,), and where it fails: 0 on the anchor, more is further, −1 is unscored.

    All sets that a detector breaks count as equally near, because the distance of the worst frame does not rank them.
    """

    holds: Bools
    first: Ints

    @classmethod
    def of(cls, score: Score) -> "_Outcomes":
        """Return the outcomes of a model."""
        if isinstance(score, ClassificationScore):
            return cls(score.right_at(score.k), score.first_wrong)
        status = np.array([row.status for row in score.chosen_frames], dtype=np.str_)
        return cls(status == "holds", (status == "breaks").astype(np.int32))


def _with_sets(found: Comparison, a: _Outcomes, b: _Outcomes, names: Sequence[str], most: int) -> Comparison:
    """Return the comparison with the sets that only one of the two models holds."""
    both = (a.first >= 0) & (b.first >= 0)
    only_a, only_b = a.holds & ~b.holds & both, b.holds & ~a.holds & both
    return replace(
        found,
        only_a=int(only_a.sum()),
        only_b=int(only_b.sum()),
        sets_only_a=named(names, only_a, b.first, most),
        sets_only_b=named(names, only_b, a.first, most),
    )


def doubts(a: Score, b: Score) -> str:
    """Return the cautions about the answers of two classifiers; empty if there are none."""
    if not isinstance(a, ClassificationScore) or not isinstance(b, ClassificationScore):
        return ""
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
    if sure and c.metric in ("drop", "map_drop", "noise"):
        more, larger = ("more", "larger") if value > 0 else ("less", "smaller")
        does = f"is {more} noisy" if c.metric == "noise" else f"flickers {more}"
        return f"{a} {does} than {b}: its {what} is {larger} {figures}."
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
