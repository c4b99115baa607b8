"""What results.json says of variants, record by record; the keys stand in the order of the fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from strobe.analyses.background_records import Isolates
from strobe.analyses.people_records import Preservation
from strobe.core.codec import LEFT_OUT, Count
from strobe.core.estimate import Estimate
from strobe.metrics.temporal import Survival

__all__ = [
    "ClassSearch", "Contrast", "LevelScore", "MeanScore", "PreservedResults", "Search", "SearchLevel", "StillFound",
    "VariantFacts", "VariantScore",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantFacts:
    """What was done to the images: one variant of the dataset. `target` is the model its sets were made against."""

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
    read back. `fooled` is for every other: the share it gets wrong of findings whose anchor it gets right. Of a control
    that was made against a model, `fooled` is for every model: the share wrong of members whose anchor is right.
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
class ClassSearch:
    """The searches of one variant on images of one class: those that ran, those that found something, half by."""

    label: str
    name: str
    searched: Count
    found: Count
    median: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What the searches of one variant say themselves; `median` and `alive` are of the sets that were searched.

    `by_class` is there where a generator was searched, class by class.
    """

    variant: str
    target: str | None
    n: Count
    found: Count
    censored: Count
    anchor_wrong: Count
    failed: Count
    median: Estimate
    levels: tuple[SearchLevel, ...]
    by_class: tuple[ClassSearch, ...] | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Two variants under one model, two models on one variant, or one search against two targets, paired by image.

    `held` is the model or the variant that is the same on both sides. `a` may be `anchor`: the images themselves.
    A `difference` is a − b, a `ratio` a / b. `p_holm` is corrected over all contrasts of the same kind. `isolates` is
    there where the two are rungs of a ladder of backgrounds that differ in one thing; those are a kind of their own.
    `estimated` is there where a variant it is about rests on boxes or masks nobody drew.
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
    isolates: Isolates | None = field(default=None, metadata=LEFT_OUT)
    estimated: bool | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class StillFound:
    """Of the searches of one variant that ran on images somebody was asked about: those that found something,
    findings somebody was asked about, those still what they were (`kept`), and these as a share of the searches."""

    variant: str
    target: str | None
    searched: Count
    found: Count
    asked: Count
    kept: Count
    still: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class PreservedResults:
    """The searches once more with only those findings that are still what they were, by people or by judges (`who`).

    A finding that is no longer what it was, or that nobody was asked about, is left out; a search that found nothing
    stays in.
    """

    by: Literal["people", "judges"]
    who: tuple[str, ...]
    preservation: tuple[Preservation, ...]
    still: tuple[StillFound, ...]
    searches: tuple[Search, ...]
    contrasts: tuple[Contrast, ...]
