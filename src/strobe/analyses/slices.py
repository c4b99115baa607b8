"""The drop by properties of the video: frame type, frame rate and pixel hints."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.plan import HeadlinePlan, Plan
from strobe.core.arrays import Bools, Floats, Ints, blocks
from strobe.core.estimate import Estimate
from strobe.metrics.bootstrap import SWITCHED_OFF
from strobe.metrics.deletions import failures_without
from strobe.metrics.intervals import Grouping, nothing
from strobe.studies.temporal.records import Control, HintBin, OffsetError, RateSlice, TypeSlice

FPS_EDGES = (20.0, 27.0, 40.0)
"""Bin edges that separate film and PAL (24, 25), NTSC and the web (30), and fast video (50, 60)."""

MOST_ROWS = 1_000_000
"""Up to this number of set rows, random deletions are sampled; above it, their effect is computed."""

FrameType = Literal["none", "I", "P", "B"]
TYPES: tuple[FrameType, ...] = ("I", "P", "B")
HINTS = ("blur", "motion", "exposure", "cut")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """The slices of one model by single frames; `reasons` explains missing slices."""

    frame_types: tuple[TypeSlice, ...]
    by_hint: dict[str, tuple[HintBin, ...]]
    reasons: dict[str, str]


@dataclass(frozen=True, slots=True)
class _TypePlan:
    name: FrameType
    sets: Bools
    headline: HeadlinePlan
    rows: Bools
    dropped: int
    per_set: Ints | None = None
    control: NDArray[np.uint64] | None = None


@dataclass(frozen=True, slots=True)
class _HintPlan:
    name: str
    ranges: tuple[str, ...]
    rows: Ints
    grouping: Grouping


class SlicePlan:
    """The slices of a dataset, with the sets and rows of each slice; they are computed once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.reasons: dict[str, str] = {}
        self.types = self._types()
        self.fps = self._fps()
        self.hints = self._hints()

    def apply(self, wrong: Bools, first: Ints) -> Slices:
        """Return the slices of one model. `wrong` (R,) is per set row, `first` (S,) is each set's first wrong level."""
        return Slices(
            frame_types=tuple(self._type_slice(part, wrong, first) for part in self.types),
            by_hint={
                hint.name: tuple(map(HintBin, hint.ranges, hint.grouping.estimates(wrong[hint.rows])))
                for hint in self.hints
            },
            reasons=dict(self.reasons),
        )

    def rates(self, first: Ints) -> tuple[RateSlice, ...]:
        """Return the slices by frame rate, which need only the sets' results at 0 and at k."""
        return tuple(
            RateSlice(range=name, n_sets=part.n_sets, **part.figures(first > 0, first > self.plan.k))
            for name, part in self.fps
        )

    # -- frame types ---------------------------------------------------------------------------------------------

    def _types(self) -> list[_TypePlan]:
        plan = self.plan
        said = plan.view.frames.passing("pict_type")
        code = np.full(len(said), -1, dtype=np.int8)
        for place, name in enumerate(("", *TYPES)):
            code[said == name] = place
        kind = code[plan.frame]
        known = kind != 0
        complete = np.logical_and.reduceat(known, plan.start)
        if not complete.any():
            self.reasons["frame_types"] = "no set has frames whose types (I, P, B) are all known"
            return []
        parts = [_TypePlan("none", complete, plan.headline_of(complete), complete[plan.set_row], 0)]
        for place, name in enumerate(TYPES, start=1):
            of_type = kind == place
            if not of_type[complete[plan.set_row]].any():
                continue
            sets = complete.copy()
            sets[plan.set_row[of_type & plan.is_anchor]] = False
            if not sets.any():
                continue
            inside = sets[plan.set_row]
            dropped = inside & of_type
            per_set = np.bincount(plan.set_row[dropped], minlength=plan.n_sets)
            headline, n = plan.headline_of(sets), int(dropped.sum())
            parts.append(_TypePlan(name, sets, headline, inside & ~of_type, n, per_set))
        if len(plan.frame) > MOST_ROWS or len(parts) == 1:
            return parts
        controls = self._controls([part.per_set for part in parts if part.per_set is not None])
        return [parts[0], *(replace(one, control=kept) for one, kept in zip(parts[1:], controls, strict=True))]

    def _controls(self, per_sets: list[Ints]) -> list[NDArray[np.uint64]]:
        """Return the rows that random deletions keep. Each `per_set` (S,) is the number to delete from each set.

        Each result is (R, ⌈seeds / 64⌉) with one bit per seed. A seed gives all members a random order, and the first
        members are deleted.
        """
        plan, seeds = self.plan, self.plan.options.control_seeds
        place = np.arange(len(plan.frame)) - plan.start[plan.set_row]
        keys = np.full((plan.n_sets, int(place.max()) + 1), np.inf)  # a row for each set; inf for no member
        cell, low, anchors = (
            plan.set_row * np.intp(keys.shape[1]) + place,
            2.0 * plan.set_row,
            np.flatnonzero(plan.is_anchor),
        )
        ends = [np.arange(plan.n_sets) * keys.shape[1] + per_set for per_set in per_sets]
        out = [np.zeros((len(cell), -(-seeds // 64)), dtype=np.uint64) for _ in per_sets]
        for seed in range(seeds):
            # Keys are in [0, 1) for members and 1 for the anchor, which is never deleted.
            key = np.random.Generator(np.random.PCG64([plan.options.seed, seed])).random(len(cell))
            key[anchors] = 1.0
            key += low
            keys.reshape(-1)[cell] = key
            ordered = np.sort(keys, axis=1)
            if (
                (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] < np.inf)
            ).any():  # of equal keys, the first counts
                order = np.argsort(keys, axis=1, kind="stable")
                np.put_along_axis(ordered, order, np.arange(keys.shape[1])[None] * 1.0, axis=1)
                key, ordered = ordered.take(cell), np.sort(ordered, axis=1)
            for kept, end in zip(out, ends, strict=True):
                stays = key >= ordered.take(end).take(plan.set_row)
                kept[:, seed // 64] |= stays.astype(np.uint64) << np.uint64(seed % 64)
        return out

    def _type_slice(self, part: _TypePlan, wrong: Bools, first: Ints) -> TypeSlice:
        plan = self.plan
        orig = first > 0
        failed = np.zeros(plan.n_sets, dtype=bool)
        failed[plan.set_row[wrong & part.rows]] = True
        control = None if part.per_set is None else self._control(part, wrong & (orig & part.sets)[plan.set_row])
        return TypeSlice(
            without=part.name,
            n_sets=part.headline.n_sets,
            members_dropped=part.dropped,
            control=control,
            **part.headline.figures(orig, orig & ~failed),
        )

    def _control(self, part: _TypePlan, wrong: Bools) -> Control:
        """Return the effect of dropping equally many random members of each set.

        It is sampled or, for large data, computed.
        """
        plan, n = self.plan, int(part.sets.sum())
        if part.control is not None:
            failures = self._control_failures(part.control, wrong)
            mean, seeds = float(failures.mean()), len(failures)
            low, high = np.percentile(failures, [2.5, 97.5]).tolist()
        else:
            members = np.bincount(plan.set_row[~plan.is_anchor], minlength=plan.n_sets)
            bad = np.bincount(plan.set_row[wrong & ~plan.is_anchor], minlength=plan.n_sets)
            mean, low, high = failures_without(members, bad, np.asarray(part.per_set))
            seeds = 0
        return Control(drop_mean=mean / n, drop_low=low / n, drop_high=high / n, seeds=seeds)

    def _control_failures(self, control: NDArray[np.uint64], wrong: Bools) -> Floats:
        """Return, for every seed, how many right-anchor sets keep a wrong member."""
        rows, seeds = np.flatnonzero(wrong), self.plan.options.control_seeds
        if not rows.size:
            return np.zeros(seeds)
        starts = np.flatnonzero(np.diff(self.plan.set_row[rows], prepend=-1))
        kept_wrong = np.bitwise_or.reduceat(control.take(rows, axis=0), starts, axis=0)
        bits = kept_wrong.astype("<u8").view(np.uint8)
        return np.asarray(np.unpackbits(bits, axis=1, count=seeds, bitorder="little").sum(axis=0), dtype=np.float64)

    # -- frame rate ----------------------------------------------------------------------------------------------

    def _fps(self) -> list[tuple[str, HeadlinePlan]]:
        plan = self.plan
        fps = plan.view.videos.fps_float[plan.cluster]
        if not plan.is_video or np.isnan(fps).all():
            self.reasons["by_fps"] = "no video's frame rate is known" if plan.is_video else "the axis is not time"
            return []
        place = np.where(np.isnan(fps), -1, np.searchsorted(FPS_EDGES, fps, side="right"))
        kinds = plan.view.videos.kind[plan.cluster]
        others = sorted(set(kinds[place >= 0]) - {"video"})
        if others and (kinds[place >= 0] == "video").any():
            # The frame rate of a clip made from an image is arbitrary, so such clips form a group of their own.
            place = np.where(kinds == "video", place, -1)
            if len(set(place[place >= 0].tolist())) < 2:
                self.reasons["by_fps"] = (
                    f"only videos are compared by rate, not other sources ({', '.join(others)}), "
                    "and these videos have about the same rate"
                )
                return []
        names = enumerate(_ranges(FPS_EDGES))
        return [(name, plan.headline_of(place == bin_)) for bin_, name in names if (place == bin_).any()]

    # -- hints ---------------------------------------------------------------------------------------------------

    def _hints(self) -> list[_HintPlan]:
        plan, hints = self.plan, self.plan.view.hints
        if hints is None:
            self.reasons["by_hint"] = "the dataset has no hints (hints.parquet)"
            return []
        out = []
        for name in HINTS:
            value: Floats = getattr(hints, name)
            rows = np.flatnonzero(~plan.is_anchor & np.isfinite(value))
            if not rows.size:
                continue
            # The edges are quartiles of the members, so that no bin is empty; equal edges are merged.
            edges = tuple(float(f"{edge:.3g}") for edge in np.quantile(value[rows], [0.25, 0.5, 0.75]))
            edges = tuple(sorted(set(edges)))
            place = np.searchsorted(edges, value[rows], side="right")
            used, place = np.unique(place, return_inverse=True)
            names = _ranges(edges)
            grouping = Grouping(place, plan.row_cluster[rows], n_groups=len(used), interval=plan.options.interval)
            out.append(_HintPlan(name, tuple(names[bin_] for bin_ in used.tolist()), rows, grouping))
        if not out:
            self.reasons["by_hint"] = "no member has a hint"
        return out


def _ranges(edges: tuple[float, ...]) -> list[str]:
    """Return the names of the half-open bins between edges.

    >>> _ranges((20.0, 27.0))
    ['< 20', '20 to < 27', '>= 27']
    """
    names = [f"< {edges[0]:g}"]
    names += [f"{low:g} to < {high:g}" for low, high in pairwise(edges)]
    return [*names, f">= {edges[-1]:g}"]


class OffsetPool:
    """The error at each offset as a mean over models, on the members of sets scored for every model.

    Pass it to every call of `score` for one dataset, then call `estimates`.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._wrong = np.zeros(len(plan.frame), dtype=np.int32)
        self._common = np.ones(plan.n_sets, dtype=bool)
        self.n_models = 0

    def add(self, wrong: Bools, scored: Bools) -> None:
        """Add one model; `wrong` (R,) has an entry per set row of the whole plan, and `scored` (S,) per set."""
        self._wrong += wrong
        self._common &= scored
        self.n_models += 1

    def estimates(self) -> tuple[OffsetError, ...]:
        """Return the mean errors by ascending offset; n counts members, and intervals come from resampled videos."""
        plan = self._plan
        use = self._common[plan.set_row]
        if self.n_models == 0 or not use.any():
            none = nothing("no set is scored by every model")
            return tuple(OffsetError(float(offset), none) for offset in plan.offsets)
        shape = (plan.n_sets, len(plan.offsets))
        members, errors = np.zeros(shape, dtype=np.int32), np.zeros(shape)
        for rows in blocks(len(use)):
            kept = use[rows]
            at = plan.set_row[rows][kept], plan.offset_row[rows][kept]
            np.add.at(members, at, 1)
            np.add.at(errors, at, self._wrong[rows][kept] / self.n_models)
        out = []
        for index, offset in enumerate(plan.offsets.tolist()):
            n = int(members[:, index].sum())
            if n == 0:
                out.append(OffsetError(offset, nothing("no common member at this offset")))
                continue
            if plan.options.bootstrap:
                found = plan.bootstrap.mean(errors[:, index], count=members[:, index])
            else:
                found = plain(float(errors[:, index].sum() / n), n)
            out.append(OffsetError(offset, found))
        return tuple(out)


def plain(value: float, n: int) -> Estimate:
    """A mean without an interval, because the bootstrap was switched off."""
    return Estimate(value=value, low=None, high=None, n=n, method="none", reason=SWITCHED_OFF)
