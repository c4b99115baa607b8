"""The records of variants in results.json; keys are in the order of the fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from strobe.core.codec import LEFT_OUT, Count
from strobe.core.estimate import Estimate
from strobe.metrics.temporal import Survival
from strobe.studies.people.records import Preservation

Isolates = Literal[
    "background", "background-cropped", "magnification", "magnification-with-ground", "place", "bg-gap", "fit"
]
"""The effect that a contrast of two rungs isolates, because they differ in nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantFacts:
    """One variant of the dataset: the change made to the images.

    `target` is the model that its sets were made against.
    """

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
    """One level of a variant.

    `at` is the share of right members at this level. `upto` is the share of sets that are right on the anchor and on
    every member within the level. `given` is the same share among the sets whose anchor is right.
    """

    level: float
    at: Estimate
    upto: Estimate
    given: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantScore:
    """One model on one variant.

    `reproduced` is for the model that the sets were made against: the share of findings it still gets wrong after they
    are stored and read again. `fooled` is for every other model: the share of findings it gets wrong although it gets
    their anchor right. For a control made against a model, `fooled` is given for every model: the share of members it
    gets wrong although their anchor is right.
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
    """The plain mean over variants of one axis at one level, without controls and searches; n counts variants.

    `published` is the mean at the level over ImageNet-C's published corruptions. It is present if others are there.
    """

    axis: str
    unit: str
    level: float
    at: Estimate
    upto: Estimate
    published: Estimate | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLevel:
    """One level of a search: the sets with a finding, the sets searched that far, and the share without a finding."""

    level: float
    found: Count
    searched: Count
    alive: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSearch:
    """The searches of one variant in one class: the numbers of searches and findings, and the median distance."""

    label: str
    name: str
    searched: Count
    found: Count
    median: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The results of the searches of one variant; `median` and `alive` are over the searched sets.

    `by_class` is present if a generator was searched class by class.
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

    `held` is the model or the variant that is the same on both sides. `a` may be `anchor`: the original images. A
    `difference` is a − b, and a `ratio` is a / b. `p_holm` is corrected over all contrasts of the same kind. `isolates`
    is present if the two are rungs of a ladder of backgrounds that differ in one respect; such contrasts form a
    separate kind. `estimated` is present if one of its variants depends on boxes or masks that a model made.
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
    """The preserved findings of one variant, on the images with a judged finding.

    The record counts the searches, the searches with a finding (`found`), the judged findings (`asked`) and the
    preserved findings (`kept`). `still` is `kept` as a share of the searches.
    """

    variant: str
    target: str | None
    searched: Count
    found: Count
    asked: Count
    kept: Count
    still: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class PreservedResults:
    """The results of the searches with only the preserved findings; `who` names the judges: people or models.

    A finding that is not preserved or was not judged is excluded; a search that found nothing is included.
    """

    by: Literal["people", "judges"]
    who: tuple[str, ...]
    preservation: tuple[Preservation, ...]
    still: tuple[StillFound, ...]
    searches: tuple[Search, ...]
    contrasts: tuple[Contrast, ...]
