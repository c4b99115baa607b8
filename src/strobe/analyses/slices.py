"""The drop by properties of the video: frame type, frame rate and pixel hints."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.model_results import Control, HintBin, RateSlice, TypeSlice
from strobe.analyses.plan import HeadlinePlan, Plan
from strobe.core.arrays import Bools, Floats, Ints
from strobe.metrics.deletions import failures_without
from strobe.metrics.intervals import Grouping

__all__ = ["SlicePlan", "Slices"]

FPS_EDGES = (20.0, 27.0, 40.0)
"""Bin edges that separate film and PAL (24, 25), NTSC and the web (30), and fast video (50, 60)."""

MOST_ROWS = 1_000_000
"""Up to this number of set rows random deletions are sampled, one matrix row each; above it they are computed."""

FrameType = Literal["none", "I", "P", "B"]
TYPES: tuple[FrameType, ...] = ("I", "P", "B")
HINTS = ("blur", "motion", "exposure", "cut")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """The slices of one model by single frames; `reasons` explains missing ones."""

    frame_types: tuple[TypeSlice, ...]
    by_hint: dict[str, tuple[HintBin, ...]]
    reasons: dict[str, str]


@dataclass(frozen=True, slots=True)
class _TypePlan:
    name: FrameType
    sets: Bools
    headline: HeadlinePlan
    rows: Bools
    control_rows: Bools | None
    dropped: int
    per_set: Ints | None = None


@dataclass(frozen=True, slots=True)
class _HintPlan:
    name: str
    ranges: tuple[str, ...]
    rows: Ints
    grouping: Grouping


class SlicePlan:
    """The slices of a dataset, computed once: the sets and rows of each."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.reasons: dict[str, str] = {}
        self.types = self._types()
        self.fps = self._fps()
        self.hints = self._hints()

    def apply(self, wrong: Bools, first: Ints) -> Slices:
        """Return the slices of one model: `wrong` (R,) per set row, `first` (S,) the first wrong level."""
        return Slices(
            frame_types=tuple(self._type_slice(part, wrong, first) for part in self.types),
            by_hint={
                hint.name: tuple(map(HintBin, hint.ranges, hint.grouping.estimates(wrong[hint.rows])))
                for hint in self.hints
            },
            reasons=dict(self.reasons),
        )

    def rates(self, first: Ints) -> tuple[RateSlice, ...]:
        """Return only the slices by frame rate, which need the sets' results at 0 and at k and nothing else."""
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
        whole = np.logical_and.reduceat(known, plan.start)
        if not whole.any():
            self.reasons["frame_types"] = "no set has frames whose types (I, P, B) are all known"
            return []
        parts = [_TypePlan("none", whole, plan.headline_of(whole), whole[plan.set_row], None, 0)]
        ranks = None
        for place, name in enumerate(TYPES, start=1):
            of_type = kind == place
            if not of_type[whole[plan.set_row]].any():
                continue
            sets = whole.copy()
            sets[plan.set_row[of_type & plan.is_anchor]] = False
            if not sets.any():
                continue
            inside = sets[plan.set_row]
            dropped = inside & of_type
            per_set = np.bincount(plan.set_row[dropped], minlength=plan.n_sets)
            control = None
            if len(plan.frame) <= MOST_ROWS:
                ranks = self._ranks() if ranks is None else ranks
                control = (ranks >= per_set[plan.set_row][None, :]) & inside[None, :]
            headline, n = plan.headline_of(sets), int(dropped.sum())
            parts.append(_TypePlan(name, sets, headline, inside & ~of_type, control, n, per_set))
        return parts

    def _ranks(self) -> NDArray[np.int32]:
        """A random order of each set's members for every seed, (seeds, R); the anchor is always last."""
        plan = self.plan
        n = len(plan.frame)
        ranks = np.empty((plan.options.control_seeds, n), dtype=np.int32)
        place = np.arange(n) - plan.start[plan.set_row]
        for seed in range(plan.options.control_seeds):
            rng = np.random.Generator(np.random.PCG64([plan.options.seed, seed]))
            # Keys are in [0, 1) for members and 1 for the anchor, so one sort orders every set independently.
            key = 2.0 * plan.set_row + np.where(plan.is_anchor, 1.0, rng.random(n))
            ranks[seed, np.argsort(key, kind="stable")] = place
        return ranks

    def _type_slice(self, part: _TypePlan, wrong: Bools, first: Ints) -> TypeSlice:
        plan = self.plan
        orig = first > 0
        failed = np.zeros(plan.n_sets, dtype=bool)
        failed[plan.set_row[wrong & part.rows]] = True
        control = None if part.per_set is None else self._control(part, wrong & (orig & part.sets)[plan.set_row])
        return TypeSlice(
            without=part.name, n_sets=part.headline.n_sets, members_dropped=part.dropped, control=control,
            **part.headline.figures(orig, orig & ~failed),
        )  # fmt: skip

    def _control(self, part: _TypePlan, wrong: Bools) -> Control:
        """Return the effect of dropping as many random members of each set: sampled, or computed for large data."""
        plan, n = self.plan, int(part.sets.sum())
        if part.control_rows is not None:
            failures = self._control_failures(part.control_rows, wrong)
            mean, seeds = float(failures.mean()), len(failures)
            low, high = np.percentile(failures, [2.5, 97.5]).tolist()
        else:
            members = np.bincount(plan.set_row[~plan.is_anchor], minlength=plan.n_sets)
            bad = np.bincount(plan.set_row[wrong & ~plan.is_anchor], minlength=plan.n_sets)
            mean, low, high = failures_without(members, bad, np.asarray(part.per_set))
            seeds = 0
        return Control(drop_mean=mean / n, drop_low=low / n, drop_high=high / n, seeds=seeds)

    def _control_failures(self, kept: Bools, wrong: Bools) -> Floats:
        """Return, for every seed, how many right-anchor sets keep a wrong member."""
        rows = np.flatnonzero(wrong)
        if not rows.size:
            return np.zeros(len(kept))
        starts = np.flatnonzero(np.diff(self.plan.set_row[rows], prepend=-1))
        kept_wrong = np.logical_or.reduceat(kept[:, rows], starts, axis=1)
        return np.asarray(kept_wrong.sum(axis=1), dtype=np.float64)

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
                    f"rates are compared among videos alone, not with sources of another kind ({', '.join(others)}), "
                    "and the videos here have about the same rate"
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
            # Quartiles of the members, so that every bin has weight; equal edges are merged.
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
