"""What results.json says of a ladder of backgrounds, record by record; the keys stand in the order of the fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from strobe.core.codec import LEFT_OUT, Count
from strobe.core.estimate import Estimate, Missing

__all__ = ["AreaBin", "BackgroundScore", "BestOf", "ClassRungs", "Isolated", "Isolates", "RungShare", "Sensitivity"]

Isolates = Literal[
    "background", "background-cropped", "magnification", "magnification-with-ground", "place", "bg-gap", "fit"
]
"""What a contrast of two rungs isolates: the two differ in nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RungShare:
    """A share of images on one rung; `anchor` is the whole image, `level` the context of a crop."""

    rung: str
    level: float | None
    share: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolated:
    """One isolating contrast on some of the images alone; its interval is of its own test, not corrected."""

    isolates: Isolates
    value: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class AreaBin:
    """Images whose object takes such a share of them, from `low` to `high`: right on each rung, and what isolates."""

    low: float
    high: float
    n: Count
    rungs: tuple[RungShare, ...]
    isolated: tuple[Isolated, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRungs:
    """The images of one class: how many are right as they are, and what isolates. `small`: fewer than ten."""

    label: str
    name: str
    n: Count
    small: bool
    whole: Estimate
    isolated: tuple[Isolated, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """Of the images that are right whole, those lost when only the background is greyed, or only the object removed.

    `relative` weighs one against the other, from −1 (the ground alone counts) to 1 (the object alone does).
    """

    background: Estimate
    foreground: Estimate
    relative: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class BestOf:
    """Images right on at least one of several crops (`best`), what as many answers that know nothing of the image
    hit (`chance`), and by how much the first is above the second (its interval is that of `best`)."""

    tries: Count
    n: Count
    best: Estimate
    chance: float
    beyond: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundScore:
    """What a ladder of backgrounds says of one model, beside its figures by variant and its contrasts.

    `covered` is the share of answers that name a class at all, of a model that need not. `zoom` is the best of the
    crops, of all images and of those that are wrong whole. `reasons` says why a part is empty.
    """

    covered: tuple[RungShare, ...] | None = field(default=None, metadata=LEFT_OUT)
    sensitivity: Sensitivity
    zoom: BestOf | Missing
    zoom_wrong: BestOf | Missing
    by_area: tuple[AreaBin, ...]
    per_class: tuple[ClassRungs, ...]
    reasons: Mapping[str, str]
