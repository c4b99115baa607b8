"""One model's results on a ladder of backgrounds.

This module compares the rungs of every image. It measures the effects that two rungs isolate, in total and by object
size and class. It measures how much the object and the background contribute. It also tests whether the best of many
crops is better than chance. An image is right or wrong on a rung, or lacks the rung; every comparison uses the images
that have both rungs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.variant_kinds import ColumnPair, VariantColumn
from strobe.annexes.backgrounds.study.records import (
    CROPS,
    AreaBin,
    BackgroundScore,
    BestOf,
    ClassRungs,
    Isolated,
    RungShare,
    Sensitivity,
)
from strobe.core.answers import ClassAnswers, State
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.estimate import Estimate, Missing
from strobe.core.variants import ANCHOR
from strobe.metrics.bootstrap import DIFFERENCES, Bootstrap
from strobe.metrics.contrasts import paired_test
from strobe.metrics.intervals import nothing, proportion
from strobe.metrics.paired import paired_difference
from strobe.studies.variants.records import Isolates
from strobe.studies.variants.score import Marks, VariantPlan

CONTEXT = 1.0
"""The context of `tight` and of `zoom`; they are compared only with a crop of the same context."""

_SIDES: Mapping[Isolates, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "background": ((ANCHOR,), ("grey", "plain", "object")),
    "background-cropped": (("crop",), ("tight",)),
    "magnification": (("tight",), ("grey",)),
    "magnification-with-ground": (("crop",), (ANCHOR,)),
    "place": (("crop",), ("zoom",)),
    "bg-gap": (("same",), ("other",)),
    "fit": (("usual",), (ANCHOR,)),
}
"""The rungs a and b whose difference a − b isolates an effect; of several, the first that the ladder has is used."""

_AS_LARGE: tuple[Isolates, ...] = ("background-cropped", "place")
"""Effects that are isolated only if the crop has the same context as its counterpart."""

MOST_BINS, IN_A_BIN = 10, 20
"""The largest number of bins of object area, and the smallest number of images per bin."""

SMALL = 10
"""Classes with fewer images than this are flagged."""


class LadderScorer:
    """The rungs of every image, computed once.

    `areas` maps a group to the share of the image that the object covers.
    """

    def __init__(self, plan: VariantPlan, areas: Mapping[str, float]) -> None:
        self._plan = plan
        dataset = plan.dataset
        sets = dataset.sets
        groups, first, picture = np.unique(sets.group.astype(str), return_index=True, return_inverse=True)
        self.sets: Ints = first
        """One set of each image; all sets of an image have the same source."""
        self.cluster: Ints = plan.cluster[first]
        self.area: Floats = np.array([areas.get(group, np.nan) for group in groups.tolist()])
        self.rungs: list[VariantColumn] = [VariantColumn(rung=ANCHOR, variant=ANCHOR, level=None)]
        columns = [np.flatnonzero(sets.is_anchor)[first]]
        for row, variant in plan.present():
            rung = str(variant.fields.get("rung", variant.variant))
            for number, level in enumerate(variant.levels, start=1):
                at = np.flatnonzero((sets.variant[sets.set] == row) & (plan.level == number) & ~sets.is_anchor)
                column = np.full(len(groups), -1, dtype=np.int64)
                column[picture[sets.set[at]]] = at
                columns.append(column)
                self.rungs.append(VariantColumn(rung=rung, variant=variant.variant, level=level))
        self._row: NDArray[np.int64] = np.stack(columns, axis=1)

    # -- right answers -------------------------------------------------------------------------------------------

    def right(self, marks: Marks) -> tuple[Bools, Bools]:
        """Return whether each image is right on each rung, and whether it has an answer there.

        Both arrays are (P, rungs).
        """
        return marks.right[self._row], (self._row >= 0) & marks.answered[self._row]

    def _column(self, names: tuple[str, ...]) -> int | None:
        """Return the first of these rungs that the ladder has; a crop is taken at its smallest context."""
        places = {one.rung: place for place, one in reversed(list(enumerate(self.rungs)))}
        return next((places[name] for name in names if name in places), None)

    def _sides(self) -> Iterator[tuple[Isolates, int, int]]:
        for isolates in get_args(Isolates):
            a, b = map(self._column, _SIDES[isolates])
            if a is None or b is None or (isolates in _AS_LARGE and self.rungs[a].level != CONTEXT):
                continue
            yield isolates, a, b

    def isolating(self, marks: Marks) -> Iterator[ColumnPair]:
        """Return the pairs of rungs that differ in one respect."""
        return (self._pair(marks, a, b, isolates) for isolates, a, b in self._sides())

    def against_whole(self, marks: Marks) -> Iterator[ColumnPair]:
        """Return the comparison of the whole image with every rung, at every level."""
        return (self._pair(marks, 0, place) for place in range(1, len(self.rungs)))

    def _pair(self, marks: Marks, a: int, b: int, isolates: Isolates | None = None) -> ColumnPair:
        right, known = self.right(marks)
        both = known[:, a] & known[:, b]
        return ColumnPair(
            a=self.rungs[a],
            b=self.rungs[b],
            a_right=right[both, a],
            b_right=right[both, b],
            sets=self.sets[both],
            isolates=isolates,
        )

    def between(self, models: Sequence[Marks]) -> Iterator[tuple[Marks, Marks, ColumnPair]]:
        """Yield the comparison of every two models on every rung, including the whole image."""
        for first, second in combinations(models, 2):
            (a, in_a), (b, in_b) = self.right(first), self.right(second)
            for index, rung in enumerate(self.rungs):
                both = in_a[:, index] & in_b[:, index]
                pair = ColumnPair(a=rung, b=rung, a_right=a[both, index], b_right=b[both, index], sets=self.sets[both])
                yield first, second, pair

    # -- one model -----------------------------------------------------------------------------------------------

    def score(self, marks: Marks, answers: ClassAnswers, *, with_coverage: bool = False) -> BackgroundScore:
        """Return one model's results on the ladder.

        `with_coverage` adds coverage even if the model always names a class.
        """
        right, known = self.right(marks)
        reasons = {}
        by_area = self._by_area(right, known)
        if not by_area:
            reasons["by_area"] = (
                f"fewer than {2 * IN_A_BIN} images whose object's size is known"
                if np.isfinite(self.area).any()
                else "the sizes of the objects are unknown"
            )
        return BackgroundScore(
            covered=self._covered(answers, known, with_coverage=with_coverage),
            sensitivity=self._sensitivity(right, known),
            zoom=self._best_of(right, known, answers, np.ones(len(self.sets), dtype=bool)),
            zoom_wrong=self._best_of(right, known, answers, known[:, 0] & ~right[:, 0]),
            by_area=by_area,
            per_class=self._per_class(right, known),
            reasons=reasons,
        )

    def _share(self, right: Bools, cluster: Ints) -> Estimate:
        if not right.size:
            return nothing("no image has this rung")
        return proportion(right, cluster, interval=self._plan.options.interval)

    def _draws(self, cluster: Ints) -> Bootstrap:
        return Bootstrap(cluster, replicates=self._plan.options.draws, seed=self._plan.options.seed)

    def _rung_shares(self, good: Bools, known: Bools, among: Bools) -> tuple[RungShare, ...]:
        out = []
        for index, rung in enumerate(self.rungs):
            use = among & known[:, index]
            out.append(
                RungShare(rung=rung.variant, level=rung.level, share=self._share(good[use, index], self.cluster[use]))
            )
        return tuple(out)

    def _covered(self, answers: ClassAnswers, known: Bools, *, with_coverage: bool) -> tuple[RungShare, ...] | None:
        named = answers.state[self._plan.dataset.sets.frame[self._row]] != State.OUTSIDE
        if not with_coverage and not (known & ~named).any():
            return None
        return self._rung_shares(named, known, np.ones(len(self.sets), dtype=bool))

    def _isolated(self, right: Bools, known: Bools, among: Bools) -> tuple[Isolated, ...]:
        out = []
        for isolates, a, b in self._sides():
            use = among & known[:, a] & known[:, b]
            value = nothing("no image has both rungs")
            if use.any():
                gap = right[use, a].astype(np.int64) - right[use, b].astype(np.int64)
                p = paired_test(gap, self.cluster[use]).p
                value = paired_difference(gap, self.cluster[use], p=p, p_holm=p, pairs=1)
            out.append(Isolated(isolates=isolates, value=value))
        return tuple(out)

    # -- by size and by class ------------------------------------------------------------------------------------

    def _by_area(self, right: Bools, known: Bools) -> tuple[AreaBin, ...]:
        """Return bins of equal numbers of images, by the object's share of the image."""
        sized = np.flatnonzero(np.isfinite(self.area) & known[:, 0])
        bins = min(MOST_BINS, len(sized) // IN_A_BIN)
        if bins < 2:
            return ()
        ranked = sized[np.argsort(self.area[sized], kind="stable")]
        out = []
        for part in np.array_split(ranked, bins):
            among = np.zeros(len(self.sets), dtype=bool)
            among[part] = True
            out.append(
                AreaBin(
                    low=float(self.area[part[0]]),
                    high=float(self.area[part[-1]]),
                    n=len(part),
                    rungs=self._rung_shares(right, known, among),
                    isolated=self._isolated(right, known, among),
                )
            )
        return tuple(out)

    def _per_class(self, right: Bools, known: Bools) -> tuple[ClassRungs, ...]:
        dataset = self._plan.dataset
        space, truth = dataset.info.label_space, dataset.right_labels[:, self._row[:, 0]]
        out = []
        for label in np.unique(truth[truth >= 0]).tolist():
            among = (truth == label).any(axis=0)
            with_anchor = among & known[:, 0]
            if with_anchor.any():
                n = int(with_anchor.sum())
                out.append(
                    ClassRungs(
                        label=space.ids[label],
                        name=space.names[label],
                        n=n,
                        small=n < SMALL,
                        whole=self._share(right[with_anchor, 0], self.cluster[with_anchor]),
                        isolated=self._isolated(right, known, among),
                    )
                )
        return tuple(out)

    # -- how much each part counts -------------------------------------------------------------------------------

    def _sensitivity(self, right: Bools, known: Bools) -> Sensitivity:
        grey, gone = self._column(_SIDES["background"][1]), self._column(("removed", "ground"))
        return Sensitivity(
            background=self._lost(right, known, grey, "no rung removes the background"),
            foreground=self._lost(right, known, gone, "no rung removes the object"),
            relative=self._relative(right, known, grey, gone),
        )

    def _lost(self, right: Bools, known: Bools, place: int | None, why: str) -> Estimate:
        """Return the share of images that are wrong on a rung, among the images that are right as whole images."""
        if place is None:
            return nothing(why)
        use = known[:, 0] & right[:, 0] & known[:, place]
        return self._share(~right[use, place], self.cluster[use])

    def _relative(self, right: Bools, known: Bools, grey: int | None, gone: int | None) -> Estimate:
        """Return (a_b − a_f) / (2 min(ā, 1 − ā)).

        Here a_b is accuracy without background, a_f is accuracy without object, and ā is their mean.
        """
        if grey is None or gone is None:
            return nothing("it needs a rung without the background and a rung without the object")
        use = known[:, grey] & known[:, gone]
        if not use.any():
            return nothing("no image has both rungs")
        draws, n = self._draws(self.cluster[use]), int(use.sum())
        b, f = right[use, grey].astype(np.float64), right[use, gone].astype(np.float64)
        value = _balance(np.array(b.mean()), np.array(f.mean()))
        if not np.isfinite(value):
            return nothing("with either part missing, the model is always right or always wrong")
        if draws.replicates == 0 or draws.n_clusters == 1:
            return draws.estimate(float(value), np.empty(0), n=n)
        one = np.ones(n)
        return draws.estimate(float(value), _balance(draws.ratio(b, one), draws.ratio(f, one)), n=n, limits=DIFFERENCES)

    # -- the best of many crops ----------------------------------------------------------------------------------

    def _best_of(self, right: Bools, known: Bools, answers: ClassAnswers, among: Bools) -> BestOf | Missing:
        """Compare the share of images right on at least one crop with the share after shuffling each crop's answers.

        The probability that a shuffled answer is right is computed, not sampled. On each crop, it is the share of
        images whose answer is this image's class.
        """
        places = [index for index, rung in enumerate(self.rungs) if rung.rung in CROPS]
        if len(places) < 2:
            return Missing("there are fewer than two crops")
        use = np.flatnonzero(among & known[:, places].all(axis=1))
        if not use.size:
            return Missing("no image has every crop")
        dataset = self._plan.dataset
        truth = dataset.right_labels[:, self._row[use, 0]]
        missed = np.ones(len(use))
        for place in places:
            said = answers.label[dataset.sets.frame[self._row[use, place]]]
            share = np.bincount(said[said >= 0], minlength=len(dataset.info.label_space)) / len(use)
            missed *= 1 - np.where(truth >= 0, share[np.maximum(truth, 0)], 0.0).sum(axis=0)
        best = self._share(np.asarray(right[use][:, places].any(axis=1)), self.cluster[use])
        chance = float(1 - missed.mean())
        value, low, high = (None if one is None else one - chance for one in (best.value, best.low, best.high))
        beyond = replace(best, value=value, low=low, high=high, count=None)
        return BestOf(tries=len(places), n=len(use), best=best, chance=chance, beyond=beyond)


def _balance(b: Floats, f: Floats) -> Floats:
    mean = (b + f) / 2
    least = 2 * np.minimum(mean, 1 - mean)
    return np.asarray(np.divide(b - f, least, out=np.full(np.shape(least), np.nan), where=least > 1e-12))
