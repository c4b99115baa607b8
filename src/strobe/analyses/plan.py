"""The data that scoring needs about a dataset, computed once and used for every model."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from strobe.core.arrays import BLOCK, Bools, Floats, Ints, blocks, narrow, narrow_type
from strobe.core.dataset import Dataset
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.metrics.bootstrap import MOST_REPLICATES, REPLICATES, Bootstrap
from strobe.metrics.columns import Measured, estimate
from strobe.metrics.intervals import INTERVALS, Grouping, Interval, effective_videos, one_group

NOT_VIDEO = "the axis is not frame-offset: neighbours in time exist only there"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """The scoring options: everything that can change a figure, except the data.

    A `k` of None means the dataset's own k. `bootstrap` False gives means and contrasts without intervals. `windows`
    are the values of w for centred and causal smoothing, and `alphas` are the values of α for exponential averages.
    `control_seeds` is the number of random deletions that serve as a control for each frame type. `baseline` is the
    target in the denominator of ratios; None selects a generator's first target. `judges` are models that decide
    whether a finding still shows its class.
    """

    k: int | None = None
    interval: Interval = "auto"
    seed: int = 0
    bootstrap: bool = True
    replicates: int = REPLICATES
    windows: tuple[int, ...] = (1, 2, 5, 10)
    alphas: tuple[float, ...] = (0.5, 0.2)
    control_seeds: int = 100
    baseline: str | None = None
    judges: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        expect(self.k is None or self.k >= 0, "k", ">= 0", self.k)
        expect(self.seed >= 0, "<<seed>>", ">= 0", self.seed)
        expect(self.interval in INTERVALS, "interval", f"one of {', '.join(INTERVALS)}", self.interval)
        expect(1 <= self.replicates <= MOST_REPLICATES, "replicates", f"1 to {MOST_REPLICATES:,}", self.replicates)
        expect(self.control_seeds >= 1, "control_seeds", ">= 1", self.control_seeds)
        expect(all(w >= 0 for w in self.windows), "windows", "whole numbers >= 0", self.windows)
        expect(all(0 < a <= 1 for a in self.alphas), "alphas", "in (0, 1]", self.alphas)

    @property
    def draws(self) -> int:
        """The number of bootstrap draws for comparison, trend and review impact; 0 if `bootstrap` is off.

        >>> ScoreOptions(bootstrap=False).draws
        0
        """
        return self.replicates if self.bootstrap else 0

    def estimate(self, column: Measured) -> Estimate:
        """Return the figure of a column with its interval over videos."""
        return estimate(column, replicates=self.draws, seed=self.seed, interval=self.interval)


@dataclass(frozen=True, slots=True)
class AdjacentPairs:
    """Pairs of frames of one set whose indices in the video differ by one, given as indices into the set rows."""

    first: Ints
    second: Ints


@dataclass(frozen=True, slots=True)
class Strips:
    """The video around each anchor. `frame` (S, L) is a frame row or −1; `place` (R,) is each set row's index in L."""

    frame: Ints
    place: Ints


class HeadlinePlan:
    """Accuracy at 0, accuracy at K and the drop, over some of the sets, prepared once for many models."""

    __slots__ = ("_grouping", "_use", "n_sets")

    def __init__(self, use: Bools, cluster: Ints, *, interval: Interval) -> None:
        self._use = use
        self.n_sets = len(cluster)
        self._grouping = one_group(cluster, interval=interval)

    def figures(self, orig: Bools, perturbed: Bools) -> dict[str, Estimate]:
        """Return acc_orig, acc_pmk and drop, as records name them, from two columns (S,) of the plan's sets."""
        return self.several(orig[None], perturbed[None])[0]

    def several(self, orig: Bools, perturbed: Bools) -> list[dict[str, Estimate]]:
        """Return the same figures for several models or smoothings at once, from columns (M, S)."""
        orig, perturbed = orig[:, self._use], perturbed[:, self._use]
        columns = np.stack([orig, perturbed, orig & ~perturbed], axis=1)
        found = iter(self._grouping.estimates(columns.reshape(-1, self.n_sets)))
        return [dict(zip(("acc_orig", "acc_pmk", "drop"), found, strict=False)) for _ in orig]


class Plan:
    """A dataset reduced to the sets and the k to be scored, with the groupings that all models share.

    `scored` (S,) selects the sets of `dataset` that a model predicted completely.
    """

    def __init__(self, dataset: Dataset, options: ScoreOptions, *, scored: Bools | None = None) -> None:
        self.dataset, self.options = dataset, options
        self.k = dataset.info.k if options.k is None else options.k
        expect(
            self.k <= dataset.info.k,
            "k",
            f"at most {dataset.info.k}, the k of dataset {dataset.name}",
            self.k,
        )
        level = dataset.row_levels()
        keep = level <= self.k
        if scored is not None:
            keep = keep & scored[dataset.sets.set]
        self.view = dataset if (keeps_all := bool(keep.all())) else dataset.keep_rows(keep)
        sets = self.view.sets
        self.n_sets = len(sets)
        self.set_row: Ints = sets.set
        self.frame: Ints = sets.frame
        self.is_anchor: Bools = sets.is_anchor
        self.distance: Floats = sets.distance
        self.level: Ints = level if keeps_all else level[keep]
        self.cluster: Ints = self.view.video_of_set
        self.start: Ints = np.searchsorted(sets.set, np.arange(self.n_sets))

    def only(self, scored: Bools) -> "Plan":
        """Return the plan for some of the sets, (S,) of the dataset."""
        return Plan(self.dataset, self.options, scored=scored)

    def blocks(self, many: int | None = None) -> Iterator[tuple[slice, slice]]:
        """Yield blocks of sets and their rows; the default size gives about BLOCK rows per block."""
        for sets in blocks(self.n_sets, many or max(1, BLOCK * self.n_sets // len(self.frame))):
            end = len(self.frame) if sets.stop == self.n_sets else int(self.start[sets.stop])
            yield sets, slice(int(self.start[sets.start]), end)

    # -- groupings -----------------------------------------------------------------------------------------------

    @cached_property
    def all_sets(self) -> Grouping:
        """Every set in one group."""
        return one_group(self.cluster, interval=self.options.interval)

    @cached_property
    def headline(self) -> HeadlinePlan:
        """The three headline figures of all sets."""
        return self.headline_of(np.ones(self.n_sets, dtype=bool))

    def headline_of(self, use: Bools) -> HeadlinePlan:
        """The three headline figures of some sets, (S,)."""
        return HeadlinePlan(use, self.cluster[use], interval=self.options.interval)

    @cached_property
    def row_cluster(self) -> Ints:
        """The video of each set row's set, (R,)."""
        return np.asarray(self.cluster[self.set_row])

    @cached_property
    def frames_used(self) -> Ints:
        """The distinct frames of the sets, ascending."""
        used = np.zeros(len(self.view.frames), dtype=bool)
        used[self.frame] = True
        return narrow(np.flatnonzero(used))

    @cached_property
    def all_rows(self) -> Grouping:
        """Every set row in one group."""
        return one_group(self.row_cluster, interval=self.options.interval)

    @cached_property
    def _class_members(self) -> tuple[Ints, Ints]:
        """The pairs (set, class) for every class of every anchor."""
        labels, anchors = self.view.labels, self.view.sets.anchor_frame
        is_anchor = np.zeros(len(self.view.frames), dtype=bool)
        is_anchor[anchors] = True
        own = is_anchor[labels.frame]
        pairs = np.unique(np.stack([labels.frame[own], labels.label[own]], axis=1), axis=0)
        begin, end = np.searchsorted(pairs[:, 0], anchors), np.searchsorted(pairs[:, 0], anchors, side="right")
        many = end - begin
        sets = np.repeat(np.arange(self.n_sets), many)
        inside = np.arange(len(sets)) - np.repeat(np.cumsum(many) - many, many)
        return sets, np.asarray(pairs[np.repeat(begin, many) + inside, 1])

    @property
    def class_sets(self) -> Ints:
        """The set of each (set, class) entry."""
        return self._class_members[0]

    @property
    def class_labels(self) -> Ints:
        """The class of each (set, class) entry."""
        return self._class_members[1]

    @cached_property
    def by_class(self) -> Grouping:
        """(set, class) entries by class."""
        sets, label = self._class_members
        n_classes = len(self.view.info.label_space)
        return Grouping(label, self.cluster[sets], n_groups=n_classes, interval=self.options.interval)

    @cached_property
    def offsets(self) -> Floats:
        """The signed distances that occur, ascending."""
        return np.unique(np.concatenate([np.unique(self.distance[rows]) for rows in blocks(len(self.distance))]))

    @cached_property
    def offset_row(self) -> Ints:
        """The index of each set row's distance among the offsets, (R,)."""
        out = np.empty(len(self.distance), dtype=narrow_type(0, len(self.offsets)))
        for rows in blocks(len(out)):
            out[rows] = np.searchsorted(self.offsets, self.distance[rows])
        return out

    @cached_property
    def by_offset(self) -> Grouping:
        """Set rows by signed distance."""
        return Grouping(self.offset_row, self.row_cluster, n_groups=len(self.offsets), interval=self.options.interval)

    @cached_property
    def effective_videos(self) -> float | None:
        """(Σm)²/Σm² over the m sets of each video; None if every video has equally many sets."""
        sizes = np.unique(self.cluster, return_counts=True)[1]
        return None if np.ptp(sizes) == 0 else effective_videos(sizes)

    @property
    def few_dominate(self) -> str | None:
        """The caution if a few videos contain most sets, so that the effective number is below half of all videos."""
        weigh, videos = self.effective_videos, len(np.unique(self.cluster))
        if weigh is None or 2 * weigh >= videos:
            return None
        return (
            f"a few of the {videos} videos hold most of the {self.n_sets} sets, so the intervals are based on "
            f"{weigh:.1f} "
            "effective videos"
        )

    @cached_property
    def bootstrap(self) -> Bootstrap:
        """The draws of videos, one matrix for all models and all k."""
        return Bootstrap(self.cluster, replicates=self.options.replicates, seed=self.options.seed)

    # -- neighbours in time --------------------------------------------------------------------------------------

    @property
    def is_video(self) -> bool:
        """Whether distances are frame offsets, so that frames have neighbours in time."""
        return self.view.info.axis == "frame-offset"

    @cached_property
    def pairs(self) -> AdjacentPairs:
        """Pairs of a set's frames whose indices differ by one; gaps are skipped."""
        frames, kind, parts = self.view.frames, narrow_type(0, len(self.frame)), []
        for _, rows in self.blocks():
            frame, owner = self.frame[rows], self.set_row[rows]
            index, video = frames.index[frame], frames.video[frame]
            order = np.lexsort((index, video, owner))
            a, b = order[:-1], order[1:]
            near = (owner[a] == owner[b]) & (video[a] == video[b]) & (index[b] - index[a] == 1)
            parts.append((np.stack([a[near], b[near]]) + rows.start).astype(kind))
        return AdjacentPairs(*np.concatenate(parts, axis=1))

    @cached_property
    def last_distance(self) -> Floats:
        """The extent of each set, (S,): its reach if given, else the largest |distance| of its frames."""
        seen, reach = np.maximum.reduceat(np.abs(self.distance), self.start), self.view.sets.reach
        last = float(self.k)
        if self.k and self.view.variants is not None:
            last = self.view.variants.levels[0][self.k - 1]
        return np.where(np.isfinite(reach), reach if self.k == self.dataset.info.k else np.minimum(reach, last), seen)

    @cached_property
    def strips(self) -> Strips | None:
        """The part of the video within the dataset's k of each anchor, including rejected candidates.

        The result is None if a member is not a nearby frame of its anchor's video.
        """
        frames, anchor = self.view.frames, self.view.sets.anchor_frame
        most = 10 * max(self.dataset.info.k, 1)
        offset = np.empty(len(self.frame), dtype=narrow_type(-most, 2 * most))
        for rows in blocks(len(offset)):
            frame, of = self.frame[rows], anchor[self.set_row[rows]]
            far = frames.index[frame].astype(np.int64) - frames.index[of]
            if int(np.abs(far).max(initial=0)) > most or not np.array_equal(frames.video[frame], frames.video[of]):
                return None
            offset[rows] = far
        reach = max(self.dataset.info.k, int(offset.max(initial=0)), -int(offset.min(initial=0)))
        width = int(frames.index.max()) + 2 * reach + 2
        key = frames.video.astype(np.int64)
        key *= width
        key += frames.index
        order = None if bool((key[1:] > key[:-1]).all()) else np.argsort(key, kind="stable")
        steps = np.arange(-reach, reach + 1)[None, :]
        strips = np.empty((len(anchor), len(steps[0])), dtype=narrow_type(-1, len(key)))
        for part in blocks(len(anchor), max(1, BLOCK // len(steps[0]))):
            wanted = key[anchor[part]][:, None] + steps
            at = np.minimum(np.searchsorted(key, wanted, sorter=order), len(key) - 1)
            row = at if order is None else order[at]
            strips[part] = np.where(key[row] == wanted, row, -1)
        offset += reach
        return Strips(strips, offset)
