"""The score of one model by variant, the results of searches, and means over variants."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.plan import ScoreOptions
from strobe.core.answers import ClassAnswers
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, expect
from strobe.core.estimate import Estimate
from strobe.core.variants import Variant, Variants, level_numbers
from strobe.metrics.bootstrap import SHARES, Bootstrap
from strobe.metrics.intervals import nothing, proportion
from strobe.metrics.survival import alive_at, median_of
from strobe.metrics.temporal import Survival, kaplan_meier
from strobe.studies.variants.records import (
    ClassSearch,
    LevelScore,
    MeanScore,
    Search,
    SearchLevel,
    VariantFacts,
    VariantScore,
)

STATUS_COUNTS = ("found", "censored", "anchor_wrong", "failed")

GENERATOR = "generator"
"""The kind of variants that change a generator's activations; nearly every search ends at a different distance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """One model's right and wrong answers on a dataset with variants: all data that scores and contrasts need.

    `right` and `answered` are (R,) per set row. `scored` (S,) marks the sets whose anchor and members are all
    predicted. `wrong_at` (S, K + 1) marks the level numbers at which a set has a wrong frame; level 0 is the anchor.
    """

    model: str
    weights: str
    right: Bools
    answered: Bools
    scored: Bools
    wrong_at: Bools


class VariantPlan:
    """The data about a dataset that scoring by variant needs, computed once and used for every model."""

    def __init__(self, dataset: Dataset, options: ScoreOptions) -> None:
        if dataset.variants is None:
            raise InvalidValue(f"{dataset.name} has no variants; it is scored as a whole")
        expect(bool(dataset.labelled.all()), "dataset", "a label on every scored set", "none")
        self.variants: Variants = dataset.variants
        self.dataset, self.options = dataset, options
        sets = dataset.sets
        self.level: Ints = dataset.row_levels()
        self.cluster: Ints = dataset.video_of_set
        self.start: Ints = np.searchsorted(sets.set, np.arange(len(sets)))
        self.seen_up_to: Floats = np.maximum.reduceat(np.abs(sets.distance), self.start)
        n_levels = dataset.info.k + 1
        self.members: NDArray[np.int64] = np.zeros((len(sets), n_levels), dtype=np.int64)
        np.add.at(self.members, (sets.set, self.level), ~sets.is_anchor)

    @cached_property
    def bootstrap(self) -> Bootstrap:
        """The draws of sources, one matrix for all models, variants and contrasts."""
        return Bootstrap(self.cluster, replicates=self.options.draws, seed=self.options.seed)

    def facts(self) -> tuple[VariantFacts, ...]:
        """The variants as in results.json."""
        n_sets = np.bincount(self.dataset.sets.variant, minlength=len(self.variants)).tolist()
        return tuple(
            VariantFacts(
                variant=variant.variant,
                fields={name: _plain(value) for name, value in variant.fields.items()},
                target=variant.target.name if variant.target else None,
                axis=variant.axis,
                unit=variant.unit,
                ordered=variant.ordered,
                levels=variant.levels,
                role=variant.role,
                estimated=variant.estimated,
                n_sets=n,
            )
            for variant, n in zip(self.variants, n_sets, strict=True)
            if variant.role != "shown"
        )

    def present(self) -> Iterator[tuple[int, Variant]]:
        """Yield the variants that have a set, with their rows; variants for viewing only are skipped."""
        held = set(self.dataset.sets.variant.tolist())
        return ((row, variant) for row, variant in enumerate(self.variants) if row in held and variant.role != "shown")

    @property
    def baseline(self) -> str | None:
        """The target in the denominator of ratios: the requested target, else a generator's first target."""
        targets = [
            variant.target.name for variant in self.variants if variant.target and "granularity" in variant.fields
        ]
        return self.options.baseline or next(iter(targets), None)

    def is_searched(self, row: int) -> bool:
        """Return whether any set of the variant is a search, not a plain set of members."""
        sets = self.dataset.sets
        return bool((sets.status[sets.variant == row] != "complete").any())

    # -- one model -----------------------------------------------------------------------------------------------

    def mark(self, predictions: ClassAnswers, *, weights: str = "") -> Marks:
        """Score a model's predictions; `weights` is the digest of its weights, if known."""
        frames, sets = len(self.dataset.frames), self.dataset.sets
        expect(len(predictions.label) == frames, "predictions", f"one per frame ({frames})", len(predictions.label))
        right = self.dataset.right_rows(predictions.label)
        answered = predictions.scored[sets.frame]
        scored = np.logical_and.reduceat(answered, self.start)
        wrong_at = np.zeros(self.members.shape, dtype=bool)
        np.logical_or.at(wrong_at, (sets.set, self.level), ~right)
        return Marks(
            model=predictions.model, weights=weights, right=right, answered=answered, scored=scored, wrong_at=wrong_at
        )

    def upto(self, marks: Marks, row: int) -> Bools:
        """Return which sets are right at the anchor and within each level number, (S, K + 1).

        An unordered level includes only itself.
        """
        if self.variants.ordered[row]:
            return np.logical_and.accumulate(~marks.wrong_at, axis=1)
        return np.asarray(~marks.wrong_at & ~marks.wrong_at[:, :1])

    def score(self, marks: Marks) -> tuple[VariantScore, ...]:
        """Return the model's figures on every variant that has a set."""
        return tuple(self._score(marks, row, one) for row, one in self.present())

    def _score(self, marks: Marks, row: int, variant: Variant) -> VariantScore:
        sets = self.dataset.sets
        mine = sets.variant == row
        use = mine & marks.scored
        orig, within = ~marks.wrong_at[:, 0], self.upto(marks, row)
        in_set = use[sets.set] & ~sets.is_anchor
        levels = []
        for number, level in enumerate(variant.levels, start=1):
            at = in_set & (self.level == number)
            levels.append(
                LevelScore(
                    level=level,
                    at=self._share(marks.right[at], self.cluster[sets.set[at]], "no member is at this level"),
                    upto=self._share(within[use, number], self.cluster[use], "no set is fully predicted"),
                    given=self._share(within[use & orig, number], self.cluster[use & orig], "no anchor is right"),
                )
            )
        is_target = variant.target is not None and variant.target.is_model(marks.model, marks.weights)
        is_finding = in_set & (sets.status == "found")[sets.set]
        reproduced = fooled = None
        if self.is_searched(row):
            if is_target:
                reproduced = self._share(
                    ~marks.right[is_finding], self.cluster[sets.set[is_finding]], "nothing was found"
                )
            else:
                is_finding &= orig[sets.set]
                none = "nothing was found on an image that this model gets right"
                fooled = self._share(~marks.right[is_finding], self.cluster[sets.set[is_finding]], none)
        elif variant.target is not None:
            there = in_set & orig[sets.set]
            none = "nothing was made from an image that this model gets right"
            fooled = self._share(~marks.right[there], self.cluster[sets.set[there]], none)
        has_times = variant.ordered and variant.fields.get("kind") != GENERATOR
        return VariantScore(
            variant=variant.variant,
            n_sets=int(use.sum()),
            unscored_sets=int((mine & ~marks.scored).sum()),
            acc_orig=self._share(orig[use], self.cluster[use], "no set is fully predicted"),
            levels=tuple(levels),
            first_failure=self._first_failure(marks, row, use & orig, is_target) if has_times else None,
            is_target=is_target,
            reproduced=reproduced,
            fooled=fooled,
        )

    def _share(self, right: Bools, cluster: Ints, empty: str) -> Estimate:
        return proportion(right, cluster, interval=self.options.interval) if right.size else nothing(empty)

    def _first_failure(self, marks: Marks, row: int, use: Bools, is_target: bool) -> Survival:
        """Return the survival of sets with a right anchor, which fail at the smallest wrong |distance|.

        Other sets are censored at the distance where the set or its search ended. A search against another model gives
        no information on this model, so the set then ends with its last member.
        """
        sets = self.dataset.sets
        first = np.full(len(sets), np.inf)
        wrong = ~marks.right
        np.minimum.at(first, sets.set[wrong], np.abs(sets.distance[wrong]))
        foreign = self.is_searched(row) and not is_target
        ended = np.where(np.isfinite(sets.reach) & (not foreign), sets.reach, self.seen_up_to)
        event = np.isfinite(first[use])
        time = np.where(event, first[use], ended[use])
        return kaplan_meier(time, event, self.cluster[use], interval=self.options.interval)

    # -- over variants -------------------------------------------------------------------------------------------

    def means(self, marks: Marks) -> tuple[MeanScore, ...]:
        """Return the mean over the variants of each axis, at each level they share.

        A mean needs at least two variants.
        """
        rows = [(row, one) for row, one in self.present() if one.role == "same" and not self.is_searched(row)]
        scales = dict.fromkeys((one.axis, one.unit) for _, one in rows)
        out = []
        for axis, unit in scales:
            mine = [(row, one) for row, one in rows if (one.axis, one.unit) == (axis, unit) and one.ordered]
            for level in sorted({level for _, one in mine for level in one.levels}):
                there = [(row, one.levels.index(level) + 1) for row, one in mine if level in one.levels]
                if len(there) > 1:
                    at, upto = self._mean_at(marks, there), self._mean_upto(marks, there)
                    official = [pair for pair in there if self.variants[pair[0]].fields.get("published") is not False]
                    published = self._mean_at(marks, official) if 0 < len(official) < len(there) else None
                    out.append(MeanScore(axis=axis, unit=unit, level=level, at=at, upto=upto, published=published))
        return tuple(out)

    def _mean_at(self, marks: Marks, there: list[tuple[int, int]]) -> Estimate:
        sets = self.dataset.sets
        top, bottom = [], []
        for row, number in there:
            use = marks.scored & (sets.variant == row)
            good = (self.level == number) & ~sets.is_anchor & marks.right
            top.append(np.where(use, np.bincount(sets.set[good], minlength=len(sets)), 0))
            bottom.append(np.where(use, self.members[:, number], 0))
        return self._mean(top, bottom)

    def _mean_upto(self, marks: Marks, there: list[tuple[int, int]]) -> Estimate:
        use = [marks.scored & (self.dataset.sets.variant == row) for row, _ in there]
        within = [self.upto(marks, row)[:, number] for row, number in there]
        return self._mean([mine & right for mine, right in zip(use, within, strict=True)], use)

    def _mean(self, top: list[NDArray[Any]], bottom: list[NDArray[Any]]) -> Estimate:
        """Return the mean of shares; variants without data at the level are skipped, also in draws."""
        kept = [(a, b) for a, b in zip(top, bottom, strict=True) if b.sum()]
        if not kept:
            return nothing("no member is at this level")
        value = float(np.mean([a.sum() / b.sum() for a, b in kept]))
        draws = self.bootstrap
        if draws.replicates == 0 or draws.n_clusters == 1:
            return draws.estimate(value, np.empty(0), n=len(kept))
        shares = np.stack([draws.ratio(a, b) for a, b in kept])
        some = ~np.isnan(shares).all(axis=0)
        return draws.estimate(value, np.nanmean(shares[:, some], axis=0), n=len(kept), limits=SHARES)

    # -- searches ------------------------------------------------------------------------------------------------

    def searches(self, among: Bools | None = None) -> tuple[Search, ...]:
        """Return the results of the searches: every variant with a set that was searched.

        `among` (S,) selects sets.
        """
        use = np.ones(self.dataset.n_sets, dtype=bool) if among is None else among
        return tuple(self._search(row, one, use) for row, one in self.present() if self.is_searched(row))

    def _search(self, row: int, variant: Variant, among: Bools) -> Search:
        sets = self.dataset.sets
        mine = (sets.variant == row) & among
        ran = mine & sets.is_searched
        counts = {status: int((sets.status[mine] == status).sum()) for status in STATUS_COUNTS}
        time, event, cluster = sets.reach[ran], (sets.status == "found")[ran], self.cluster[ran]
        curve = kaplan_meier(time, event, cluster, interval=self.options.interval)
        number = level_numbers(time, variant.levels)
        levels = tuple(
            SearchLevel(
                level=level,
                found=int((event & (number <= index)).sum()),
                searched=int(((event & (number <= index)) | (time * (1 + 1e-6) >= level)).sum()),
                alive=alive_at(curve, level, cluster, interval=self.options.interval),
            )
            for index, level in enumerate(variant.levels, start=1)
        )
        return Search(
            variant=variant.variant,
            target=variant.target.name if variant.target else None,
            n=sum(counts.values()),
            median=median_of(curve),
            levels=levels,
            by_class=self._by_class(ran) if variant.fields.get("kind") == GENERATOR else None,
            **counts,
        )

    def _by_class(self, ran: Bools) -> tuple[ClassSearch, ...]:
        """Return the searches of these sets (S,) by the class of their image."""
        sets, labels, space = self.dataset.sets, self.dataset.labels, self.dataset.info.label_space
        out = []
        for label in np.unique(labels.label[np.isin(labels.frame, sets.anchor_frame[ran])]).tolist():
            mine = ran & np.isin(sets.anchor_frame, labels.frame[labels.label == label])
            is_finding = (sets.status == "found")[mine]
            curve = kaplan_meier(sets.reach[mine], is_finding, self.cluster[mine], interval=self.options.interval)
            out.append(
                ClassSearch(
                    label=space.ids[label],
                    name=space.names[label],
                    searched=int(mine.sum()),
                    found=int(is_finding.sum()),
                    median=median_of(curve),
                )
            )
        return tuple(out)


def _plain(value: object) -> str | float | bool | None:
    return value if value is None or isinstance(value, str | float | int | bool) else str(value)
