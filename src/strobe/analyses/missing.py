"""Bounds of a figure if some sets lack predictions: with all these sets wrong, and with all of them right. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from strobe.analyses.comparison import Comparison, compare
from strobe.analyses.model_results import ClassificationScore
from strobe.analyses.plan import Plan, ScoreOptions
from strobe.core.dataset import Dataset
from strobe.core.estimate import Estimate


class Extremes(NamedTuple):
    """The lowest and highest possible value of a figure over all sets, whatever the outcome of the missing sets."""

    lowest: Estimate
    highest: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingSets:
    """The number of sets without predictions, and the bounds of figures or losses, by measure.

    A measure without extremes cannot be bounded.
    """

    n: int = 0
    extremes: Mapping[str, Extremes] = field(default_factory=dict)


def completed(score: ClassificationScore, first_wrong: int) -> ClassificationScore:
    """Return the score as if every missing set were first wrong at this level; 0 is the anchor, k + 1 means never."""
    return replace(score, first_wrong=np.where(score.scored, score.first_wrong, first_wrong).astype(np.int32))


def extremes(dataset: Dataset, score: ClassificationScore, options: ScoreOptions) -> dict[str, Extremes]:
    """Return the lowest and highest acc_orig, acc_pmk and drop of a score; empty if no set is missing."""
    if score.scored.all():
        return {}
    headline = Plan(dataset, options).headline
    wrong, broken, right = (
        headline.figures(one.right_at(0), one.right_at(one.k))
        for one in (completed(score, level) for level in (0, score.k, score.k + 1))
    )
    return {
        "acc_orig": Extremes(wrong["acc_orig"], right["acc_orig"]),
        "acc_pmk": Extremes(wrong["acc_pmk"], right["acc_pmk"]),
        "drop": Extremes(right["drop"], broken["drop"] if score.k else right["drop"]),
    }


def extreme_comparisons(
    dataset: Dataset, new: ClassificationScore, old: ClassificationScore
) -> tuple[Sequence[Comparison], Sequence[Comparison]]:
    """Compare a model with its baseline twice: missing sets favour the baseline, then the new model.

    For accuracies, one model's missing sets are wrong and the other model's missing sets are right. For drop, one
    model's missing sets break and the other model's missing sets hold.
    """
    out = []
    for favoured, other in ((old, new), (new, old)):
        holds = completed(favoured, favoured.k + 1)
        by_drop = {one.metric: one for one in compare(dataset, _in_order(new, holds, completed(other, other.k)))}
        by_accuracy = compare(dataset, _in_order(new, holds, completed(other, 0)))
        out.append([by_drop["drop"] if one.metric == "drop" and new.k else one for one in by_accuracy])
    return out[0], out[1]


def _in_order(new: ClassificationScore, *both: ClassificationScore) -> list[ClassificationScore]:
    """Return the two scores; the new model's score comes first."""
    return sorted(both, key=lambda one: one.model != new.model)
