"""What results.json says of variants, record by record; the keys stand in the order of the fields."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from strobe.core.codec import Count
from strobe.core.estimate import Estimate
from strobe.metrics.temporal import Survival

__all__ = ["Contrast", "LevelScore", "MeanScore", "Search", "SearchLevel", "VariantFacts", "VariantScore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantFacts:
    """What was done to the pictures: one variant of the dataset. `target` is the model its sets were made against."""

    variant: str
    fields: Mapping[str, str | float | bool | None]
    target: str | None
    axis: str
    unit: str
    ordered: bool
    levels: tuple[float, ...]
    role: Literal["same", "control"]
    estimated: bool
    n_sets: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelScore:
    """One level of a variant: members there that are right (`at`), sets that are right at the anchor and every member
    within it (`upto`), and those among the sets whose anchor is right (`given`)."""

    level: float
    at: Estimate
    upto: Estimate
    given: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantScore:
    """One model on one variant.

    `reproduced` is for the model the sets were made against: the share of findings it still gets wrong when they are
    read back. `fooled` is for every other: the share it gets wrong of findings whose anchor it gets right.
    """

    variant: str
    n_sets: Count
    unscored_sets: Count
    acc_orig: Estimate
    levels: tuple[LevelScore, ...]
    first_failure: Survival | None
    is_target: bool
    reproduced: Estimate | None
    fooled: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanScore:
    """The plain mean over variants of one axis at one level, controls and searches left out; n counts variants."""

    axis: str
    unit: str
    level: float
    at: Estimate
    upto: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLevel:
    """Sets in which something was found within a level, those searched so far, and the share that holds out."""

    level: float
    found: Count
    searched: Count
    alive: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What the searches of one variant say themselves; `median` and `alive` are of the sets that were searched."""

    variant: str
    target: str | None
    n: Count
    found: Count
    censored: Count
    anchor_wrong: Count
    failed: Count
    median: Estimate
    levels: tuple[SearchLevel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Two variants under one model, two models on one variant, or one search against two targets, paired by picture.

    `held` is the model or the variant that is the same on both sides. `a` may be `anchor`: the pictures themselves.
    A `difference` is a − b, a `ratio` a / b. `p_holm` is corrected over all contrasts of the same kind.
    """

    of: Literal["variants", "models", "targets"]
    a: str
    b: str
    held: str | None
    form: Literal["difference", "ratio"]
    level: float | None
    n: Count
    only_a: Count
    only_b: Count
    value: Estimate
    test: str
    p: float | None
    p_holm: float | None
