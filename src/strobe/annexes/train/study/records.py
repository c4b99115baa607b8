"""What the trainings of a recipe add to results.json."""

from dataclasses import dataclass

from strobe.core.codec import Count
from strobe.core.estimate import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The figures of single trainings: the lowest, the highest, and their standard deviation."""

    low: float
    high: float
    sd: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainings:
    """The models called NAME~SEED as one recipe: their mean with its interval over videos, and the spread over seeds.

    The interval is for other clips with the same models, and the spread is for other seeds of the recipe; neither
    includes the other. `n_sets` counts the sets scored for all of these models.
    """

    name: str
    models: tuple[str, ...]
    n_sets: Count
    acc_orig: Estimate
    acc_pmk: Estimate
    drop: Estimate
    acc_orig_spread: Spread
    acc_pmk_spread: Spread
    drop_spread: Spread


RECORD = tuple[Trainings, ...]
"""The entry `trainings` of results.json."""
