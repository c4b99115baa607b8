"""A view of a dataset with variants that has one set per image, so that code for plain sets can score it."""

from dataclasses import replace

import numpy as np

from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.dataset import Dataset
from strobe.core.tables import Sets
from strobe.core.variants import Variant, Variants

WORST = "worst"
"""The name of the one variant of a merged view."""


def overall(dataset: Dataset) -> Dataset:
    """Return the dataset with one set per image.

    With `worst`, the sets of a group are merged over all variants except controls, and k counts the levels that these
    variants share. With `each`, no worst case is meaningful, so only the distinct anchors remain, at k = 0. A dataset
    without variants is its own view. A dataset with one variant is its own view too, unless that variant was searched:
    a search without a finding would count in favour of models that it did not target. Frames keep their rows, so that
    predictions still match their frames.
    """
    if dataset.variants is None or (len(dataset.variants) == 1 and bool((dataset.sets.status == "complete").all())):
        return dataset
    return _merged(dataset, dataset.variants) if dataset.info.combine == "worst" else _anchors(dataset)


def _merged(dataset: Dataset, variants: Variants) -> Dataset:
    sets = dataset.sets
    in_worst = variants.is_same[sets.variant]
    # Groups are in the order of their first set.
    names, first = np.unique(sets.group[in_worst].astype(str), return_index=True)
    order = np.argsort(first, kind="stable")
    place = np.empty(len(names), dtype=np.int64)
    place[order] = np.arange(len(names))
    group = np.full(len(sets), -1, dtype=np.int64)
    group[in_worst] = place[np.unique(sets.group[in_worst].astype(str), return_inverse=True)[1]]
    rows = np.flatnonzero(in_worst[sets.set])
    row_group = group[sets.set[rows]]
    # A frame in several sets of a group counts once, at its smallest distance; the first anchor stays the anchor.
    rank = np.lexsort((rows, ~sets.is_anchor[rows], np.abs(sets.distance[rows]), sets.frame[rows], row_group))
    rows, row_group = rows[rank], row_group[rank]
    fresh = np.ones(len(rows), dtype=bool)
    fresh[1:] = (row_group[1:] != row_group[:-1]) | (sets.frame[rows[1:]] != sets.frame[rows[:-1]])
    rows, row_group = rows[fresh], row_group[fresh]
    rank = np.lexsort((rows, sets.distance[rows], row_group))
    rows, row_group = rows[rank], row_group[rank]
    variant = variants[int(np.flatnonzero(variants.is_same)[0])]
    scale = Variant(variant=WORST, axis=variant.axis, unit=variant.unit, levels=variant.levels)
    return replace(
        dataset,
        info=replace(dataset.info, combine="each", axis=variant.axis, k=len(variant.levels)),
        sets=Sets(
            set_id=names[order].astype(object),
            set=row_group,
            frame=sets.frame[rows],
            distance=sets.distance[rows],
            is_anchor=_first_anchor(sets.is_anchor[rows], row_group, rows),
            reach=_least_reach(dataset, group, len(names)),
        ),
        hints=None,
        verdicts=(),
        variants=Variants.of([scale]),
    )


def _first_anchor(is_anchor: Bools, group: Ints, rows: Ints) -> Bools:
    """Return the first anchor of each group; the group's other anchors become members at distance 0."""
    out = np.zeros(len(is_anchor), dtype=bool)
    at = np.flatnonzero(is_anchor)
    at = at[np.lexsort((rows[at], group[at]))]
    out[at[np.unique(group[at], return_index=True)[1]]] = True
    return out


def _least_reach(dataset: Dataset, group: Ints, n_groups: int) -> Floats:
    """Return the reach of each group if one of its sets gives a reach, else NaN."""
    sets = dataset.sets
    seen = np.zeros(len(sets))
    np.maximum.at(seen, sets.set, np.abs(sets.distance))
    went = np.where(np.isfinite(sets.reach), sets.reach, seen)
    least = np.full(n_groups, np.inf)
    has_reach = np.zeros(n_groups, dtype=bool)
    use = group >= 0
    np.minimum.at(least, group[use], went[use])
    np.logical_or.at(has_reach, group[use], np.isfinite(sets.reach[use]))
    return np.where(has_reach, least, np.nan)


def _anchors(dataset: Dataset) -> Dataset:
    sets = dataset.sets
    first = np.sort(np.unique(sets.anchor_frame, return_index=True)[1])
    n, groups = len(first), sets.group[first]
    return replace(
        dataset,
        info=replace(dataset.info, k=0, combine="each"),
        sets=Sets(
            # An image is named after itself, not after the first change made to it.
            set_id=groups if len(set(groups.tolist())) == n else sets.set_id[first],
            set=np.arange(n),
            frame=sets.anchor_frame[first],
            distance=np.zeros(n),
            is_anchor=np.ones(n, dtype=bool),
        ),
        hints=None,
        verdicts=(),
        variants=None,
    )
