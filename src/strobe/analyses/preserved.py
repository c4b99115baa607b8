"""Check whether people give a changed image the class of its anchor, and select the sets that pass."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.naming import MEMBER, NamingTable
from strobe.analyses.plan import ScoreOptions
from strobe.core.arrays import Bools, Ints
from strobe.core.estimate import Estimate
from strobe.core.variants import ANCHOR, Variant
from strobe.metrics.bootstrap import DIFFERENCES, Bootstrap
from strobe.metrics.consistency import majority
from strobe.metrics.intervals import nothing, proportion
from strobe.studies.people.records import Preservation

_NOBODY = "nobody named such an image"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preserved:
    """The sets that people were asked about, and which of these sets are preserved; both arrays are (S,)."""

    asked: Bools
    kept: Bools


def preserved_sets(naming: NamingTable) -> Preserved:
    """Return the sets whose members people (or models) still name as the anchor's class: the "preserved items".

    A set is asked about if somebody named one of its members. The set is kept if, for each of these members, more than
    half of the answers give a class of the anchor. "None of these", "cannot tell" and "too late" give no class.
    Controls and practice do not count. `dataset.keep_rows(kept[dataset.sets.set])` is the dataset of the kept sets.
    """
    dataset, rows = naming.dataset, _NamedRows.of(naming)
    member = ~dataset.sets.is_anchor[rows.row]
    asked, lost = np.zeros(dataset.n_sets, dtype=bool), np.zeros(dataset.n_sets, dtype=bool)
    asked[rows.set[member]] = True
    lost[rows.set[member & ~rows.kept]] = True
    return Preserved(asked=asked, kept=asked & ~lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NamedRows:
    """Every set row with a named image: its set, source and answers, and how many answers give the anchor's class."""

    row: Ints
    set: Ints
    source: Ints
    answers: NDArray[np.int64]
    same: NDArray[np.int64]
    kept: Bools

    @classmethod
    def of(cls, naming: NamingTable) -> "_NamedRows":
        dataset, n_classes = naming.dataset, naming.n_classes
        sets, category = dataset.sets, np.where(naming.counts, naming.said, -1)
        line = np.full(len(dataset.frames), -1, dtype=np.int64)
        line[naming.frame] = np.arange(len(category))
        line[naming.frame[(category < 0).all(axis=1)]] = -1
        row = np.flatnonzero(line[sets.frame] >= 0)
        given = category[line[sets.frame[row]]]
        anchor = sets.anchor_frame[sets.set[row]].astype(np.int64)
        known = dataset.labels.frame.astype(np.int64) * n_classes + dataset.labels.label
        same = (given >= 0) & (given < n_classes) & np.isin(anchor[:, None] * n_classes + given, known)
        most = majority(given, n_classes=n_classes + 3)
        kept = (most >= 0) & (most < n_classes) & np.isin(anchor * n_classes + most, known)
        return cls(
            row=row,
            set=sets.set[row].astype(np.int64),
            source=dataset.video_of_set[sets.set[row]],
            answers=(given >= 0).sum(axis=1),
            same=same.sum(axis=1),
            kept=np.asarray(kept, dtype=bool),
        )


def preservation(naming: NamingTable, options: ScoreOptions) -> tuple[Preservation, ...]:
    """Return how many images are still named as their anchor's class, for the originals and then for every variant.

    For a search, only its findings count. The result is empty if nobody named a changed image.
    """
    dataset = naming.dataset
    sets, rows = dataset.sets, _NamedRows.of(naming)
    is_anchor = sets.is_anchor[rows.row]
    if is_anchor.all():
        return ()
    # An anchor is in every set of its image, but counts as one image.
    first = np.zeros(len(rows.row), dtype=bool)
    first[np.unique(sets.frame[rows.row], return_index=True)[1]] = True
    searched = np.isin(sets.variant, sets.variant[sets.status != "complete"])
    counts = ~is_anchor & (~searched | (sets.status == "found"))[rows.set]
    out = [_about(rows, is_anchor & first, options, variant=ANCHOR)]
    draws = Bootstrap(rows.source, replicates=options.draws, seed=options.seed)
    variants = [None] if dataset.variants is None else list(dataset.variants)
    for place, variant in sorted(
        enumerate(variants), key=lambda result: result[1] is not None and result[1].role == "control"
    ):
        mine = counts & (sets.variant[rows.set] == place)
        if mine.any() and not (variant is not None and variant.role == "shown"):
            result = _about(rows, mine, options, variant=MEMBER if variant is None else variant.variant, facts=variant)
            after = mine & np.isin(rows.set, rows.set[is_anchor])
            before = is_anchor & np.isin(rows.set, rows.set[after])
            original = _about(rows, before, options, variant=ANCHOR).kept
            out.append(replace(result, lost=_lost(rows, before, after, draws), before=original))
    return tuple(out)


def _about(
    rows: _NamedRows, mine: Bools, options: ScoreOptions, *, variant: str, facts: Variant | None = None
) -> Preservation:
    many, same = rows.answers[mine], rows.same[mine]
    # One entry per answer: first those that give the class, then those that do not.
    source = np.concatenate([np.repeat(rows.source[mine], same), np.repeat(rows.source[mine], many - same)])
    right = np.arange(int(many.sum())) < int(same.sum())
    return Preservation(
        variant=variant,
        role="anchor" if variant == ANCHOR else "control" if facts is not None and facts.role == "control" else "same",
        target=facts.target.name if facts is not None and facts.target is not None else None,
        n_pictures=int(mine.sum()),
        named=proportion(right, source, interval=options.interval) if mine.any() else nothing(_NOBODY),
        kept=proportion(rows.kept[mine], rows.source[mine], interval=options.interval)
        if mine.any()
        else nothing(_NOBODY),
    )


def _lost(rows: _NamedRows, before: Bools, after: Bools, draws: Bootstrap) -> Estimate:
    """Return how much the share of answers that give the class falls from originals to changes of the same images."""
    if not after.any():
        return nothing("nobody named the original of such an image")
    sums = [(np.where(mine, rows.same, 0), np.where(mine, rows.answers, 0)) for mine in (before, after)]
    a, b = (float(top.sum() / bottom.sum()) for top, bottom in sums)
    drawn = [draws.ratio(top, bottom) for top, bottom in sums]
    return draws.estimate(a - b, drawn[0] - drawn[1], n=int(after.sum()), limits=DIFFERENCES)
