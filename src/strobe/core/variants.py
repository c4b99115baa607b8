"""The variants of a dataset: the change made to the anchors, its axis, its levels, and its target model."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import InvalidValue, expect

ROLES = ("same", "control", "shown")
"""The roles of a variant. `same`: a person would give the same answer. `control`: excluded from every worst case.

`shown`: only for viewing and in no figure (the path from an image to a finding).
"""

STATUSES = ("complete", "found", "censored", "anchor_wrong", "failed")
"""The outcomes of a set. `complete`: the set has all of its members. The others are outcomes of searches.

`found`: the search found something at `reach`. `censored`: it found nothing up to `reach`. `anchor_wrong`: the target
was already wrong on the anchor. `failed`: the search failed.
"""

MIXED = "mixed"
"""The axis of a dataset whose variants have different axes."""

ANCHOR = "anchor"
"""The name of the original images in contrasts; no variant may have it."""

NO_VARIANT = ""
"""The name of the only variant of a dataset without a table of variants."""

SLACK = 1e-6
"""A member counts at a level that its distance exceeds by less than this share: distances may be float32."""

Role = Literal["same", "control", "shown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The model that a variant's sets were made against: its name, the digest of its weights, its preprocessing."""

    name: str
    weights: str = ""
    preprocessing: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expect(bool(self.name), "target.name", "not empty", self.name)

    def is_model(self, name: str, weights: str = "") -> bool:
        """Return whether a model is the target.

        The weights decide if both digests are known; otherwise the name decides.

        >>> Target(name="net", weights="3f").is_model("other", "3f"), Target(name="net").is_model("net", "3f")
        (True, True)
        """
        return self.weights == weights if self.weights and weights else self.name == name


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One change made to anchors. The `levels` are positive and ascending.

    `estimated` means that a model, not a person, made the boxes or masks.

    `fields` describes the change in plain words and numbers (kind, norm, granularity, rung, fit …). Levels that are not
    `ordered` are names, and no level includes another.
    """

    variant: str
    axis: str
    unit: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    target: Target | None = None
    ordered: bool = True
    levels: tuple[float, ...] = ()
    role: Role = "same"
    estimated: bool = False

    def __post_init__(self) -> None:
        expect(bool(self.variant) and self.variant != ANCHOR, "variants.variant", f"a name, not {ANCHOR}", self.variant)
        expect(bool(self.axis), "variants.axis", "not empty", self.axis)
        expect(self.role in ROLES, "variants.role", ", ".join(ROLES), self.role)
        rising = all(a < b for a, b in zip((0.0, *self.levels), self.levels, strict=False))
        expect(
            rising and all(map(math.isfinite, self.levels)), "variants.levels", "ascending from above 0", self.levels
        )
        try:
            json.dumps([dict(self.fields), dict(self.target.preprocessing) if self.target else {}], allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidValue(f"variants.fields: expected plain JSON, got {error}") from error

    def described(self) -> str:
        """Return the whole variant as one line of JSON, for the digest."""
        target = self.target and [self.target.name, self.target.weights, dict(self.target.preprocessing)]
        parts = (self.variant, dict(self.fields), target, self.axis, self.unit, self.ordered, self.levels, self.role)
        return json.dumps([*parts, self.estimated], sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variants:
    """One row per variant, as columns; `fields` holds mappings, `target` a Target or None, `levels` tuples."""

    variant: NDArray[np.object_]
    fields: NDArray[np.object_]
    target: NDArray[np.object_]
    axis: NDArray[np.object_]
    unit: NDArray[np.object_]
    ordered: NDArray[np.bool_]
    levels: NDArray[np.object_]
    role: NDArray[np.object_]
    estimated: NDArray[np.bool_]

    def __post_init__(self) -> None:
        lengths = {len(getattr(self, name)) for name in self.__slots__}
        expect(len(lengths) == 1 and lengths != {0}, "variants", "columns of one length, at least one row", lengths)
        names = [row.variant for row in self]  # creating the rows validates each of them
        expect(len(set(names)) == len(names), "variants.variant", "each variant once", names)

    @classmethod
    def of(cls, rows: Sequence[Variant]) -> "Variants":
        """Return the table of these rows.

        >>> Variants.of([Variant(variant="fog", axis="severity", levels=(1.0, 2.0))]).axis.tolist()
        ['severity']
        """
        columns: dict[str, Any] = {}
        for name in cls.__slots__:
            columns[name] = np.empty(len(rows), dtype=bool if name in ("ordered", "estimated") else object)
            for index, row in enumerate(rows):
                columns[name][index] = getattr(row, name)
        return cls(**columns)

    def __len__(self) -> int:
        return len(self.variant)

    def __getitem__(self, row: int) -> Variant:
        return Variant(**{name: getattr(self, name).item(row) for name in self.__slots__})

    def __iter__(self) -> Iterator[Variant]:
        return (self[row] for row in range(len(self)))

    @property
    def k(self) -> int:
        """The largest number of levels that any variant has, which is the k of a dataset with variants."""
        return max(len(levels) for levels in self.levels)

    @property
    def common_axis(self) -> str:
        """The axis of all variants, or `mixed`."""
        return str(self.axis[0]) if len(set(self.axis)) == 1 else MIXED

    @property
    def is_same(self) -> NDArray[np.bool_]:
        """The variants that are not controls."""
        return np.asarray(self.role == "same", dtype=bool)

    @property
    def is_shown(self) -> NDArray[np.bool_]:
        """The variants that are only for viewing."""
        return np.asarray(self.role == "shown", dtype=bool)

    @property
    def have_one_scale(self) -> bool:
        """Whether all variants except controls share axis, unit and levels, so that a worst case is meaningful."""
        rows = np.flatnonzero(self.is_same)
        scales = {(self.axis[row], self.unit[row], self.levels[row], bool(self.ordered[row])) for row in rows}
        return len(scales) == 1 and bool(self.ordered[rows[0]])


def level_numbers(distance: NDArray[np.float64], levels: Sequence[float]) -> NDArray[np.int64]:
    """Return, for each distance, the number (from 1) of the smallest level that includes it; 0 for distance 0.

    A distance beyond the last level gives the number of levels plus one.

    >>> level_numbers(np.array([0.0, -0.3, 0.5, 2.5]), [0.5, 1.0]).tolist()
    [0, 1, 1, 3]
    """
    size = np.abs(distance)
    held = np.asarray(levels, dtype=np.float64) * (1 + SLACK)
    return np.where(size == 0, 0, np.searchsorted(held, size, side="left") + 1).astype(np.int64)
