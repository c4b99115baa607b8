"""Which of two classifiers flickers more on the same sets. No label is used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.comparison import Comparison, Pairing, every_pair, paired_tests
from strobe.analyses.missing import Extremes
from strobe.analyses.plan import Plan, ScoreOptions
from strobe.core.arrays import Bools
from strobe.core.dataset import Dataset
from strobe.core.estimate import Estimate
from strobe.core.tasks import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class FlickerSets:
    """Where one classifier changes its answer, in the shape of a score, so that the same tests apply.

    `first_wrong` (S,) is the level of the first member with another answer than the anchor's (k + 1 if none, −1 if the
    set lacks answers). `flicker` is the share of such sets. `exact` is equal for models with identical answers.
    """

    model: str
    k: int
    flicker: Estimate
    first_wrong: NDArray[np.int32] = field(repr=False, compare=False)
    exact: str = ""

    @property
    def task(self) -> Task:
        """The task of the model's answers."""
        return Task.CLASSIFICATION

    @property
    def scored(self) -> Bools:
        """The sets with all answers, (S,)."""
        return np.asarray(self.first_wrong >= 0)

    @property
    def n_missing(self) -> int:
        """The number of sets without all answers."""
        return int((~self.scored).sum())

    def right_at(self, k: int) -> Bools:
        """Return which sets keep one answer up to k, (S,); a set without all answers is False."""
        return np.asarray(self.first_wrong > k)

    def completed(self, *, flickers: bool) -> "FlickerSets":
        """Return the sets as if all missing sets flickered, or none. With k = 0, no set can flicker."""
        level = self.k if flickers and self.k else self.k + 1
        return replace(self, first_wrong=np.where(self.scored, self.first_wrong, level).astype(np.int32))


def compare_flicker(
    dataset: Dataset, scores: Sequence[FlickerSets], *, pairing: Pairing = every_pair
) -> tuple[Comparison, ...]:
    """Compare every pair of classifiers, or the pairs of `pairing`, by the sets in which each changes its answer.

    `dataset` has the sets of the scores: those without a scene cut inside.
    """
    by_name = {score.model: score for score in scores}
    out = []
    for one in paired_tests(dataset, scores, ("flicker",), pairing=pairing):
        a, b = by_name[one.a], by_name[one.b]
        twins = a.exact and a.exact == b.exact and a.flicker.value
        doubt = " They give the same answers on every frame; are they the same model?" if twins else ""
        out.append(replace(one, sentence=one.sentence + doubt))
    return tuple(out)


def flicker_extremes(dataset: Dataset, found: FlickerSets, options: ScoreOptions) -> dict[str, Extremes]:
    """Return the lowest and highest flicker and consistency over all sets; empty if no set is missing."""
    if not found.n_missing:
        return {}
    sets = Plan(dataset, options).all_sets
    least, most = (found.completed(flickers=flickers).right_at(found.k) for flickers in (False, True))
    low, high, steady_low, steady_high = sets.estimates(np.stack([~least, ~most, most, least]))
    return {"flicker": Extremes(low, high), "consistency": Extremes(steady_low, steady_high)}


def extreme_flicker(dataset: Dataset, new: FlickerSets, old: FlickerSets) -> Mapping[str, tuple[Comparison, ...]]:
    """Compare a model with its baseline twice: with missing sets in favour of the model (best), then against it."""
    pairs = {"best": (False, True), "worst": (True, False)}
    return {
        name: compare_flicker(dataset, [new.completed(flickers=ours), old.completed(flickers=theirs)])
        for name, (ours, theirs) in pairs.items()
    }
