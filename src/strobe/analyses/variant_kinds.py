"""Kinds of variants that are compared and described in their own way. Annexes bring some."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strobe.core.arrays import Bools, Ints
from strobe.core.late import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantColumn:
    """A variant at one of its levels, or the whole image."""

    rung: str
    variant: str
    level: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPair:
    """Two columns on the images that have both: whether each image is right in each, and one set per image."""

    a: VariantColumn
    b: VariantColumn
    a_right: Bools
    b_right: Bools
    sets: Ints
    isolates: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantKind:
    """How variants of one kind are compared, and their words.

    `scorer(plan, areas)` scores one model for the key of this kind in its results. It pairs columns that isolate an
    effect, every column with the whole image, and two models in every column. `areas` reads from a dataset folder the
    share of the image that the object covers, by group. `called` is a variant in words, and `anchor` is the original.
    `explanation` and `terms` are for the page.
    """

    scorer: Callable[..., Any]
    areas: Callable[[Path], Mapping[str, float]]
    called: Callable[[Any, float | None], str]
    anchor: str
    explanation: Callable[[Any], str]
    terms: Callable[[Any], list[tuple[str, str]]]


VARIANT_KINDS: Registry[VariantKind] = Registry("variant_kinds", VariantKind, "kind of variants", {}, closed=True)


def own_kind(fields: Iterable[Mapping[str, object]]) -> str | None:
    """Return the name of the first such kind among the variants with these fields, or None."""
    names = (field.get("kind") for field in fields)
    return next((name for name in names if isinstance(name, str) and name in VARIANT_KINDS.own), None)
