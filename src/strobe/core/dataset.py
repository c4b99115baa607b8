"""A dataset in memory: a few columnar tables (core.tables), validated on creation, and the common queries on them."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Bools, Ints, blocks, narrow, narrow_type
from strobe.core.digests import digest_of, frames_digest_of
from strobe.core.errors import InvalidValue, StrobeError, expect, printable
from strobe.core.labels import LabelSpace
from strobe.core.people import GROWING, BoxAnswer, CheckAnswer, NameAnswer, SampledSet
from strobe.core.records import Frame, Member, PerturbationSet, PictType, Unreviewed, Verdict, frame_id
from strobe.core.tables import (
    KINDS,
    NO_PTS,
    SET_COLUMNS,
    Boxes,
    Frames,
    Hints,
    Labels,
    Sets,
    Videos,
    pairs_differ,
    recipe_of,
)
from strobe.core.variants import NO_VARIANT, Variants, level_numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetInfo:
    """The metadata of a dataset, as in dataset.json.

    `label_source` selects the labels by which a member is scored: its own (`frame`) or its anchor's (`anchor`).
    `reviewed` is `release` if the sets were reviewed before import, `votes` if votes in the folder decide, and `none`
    if nobody reviewed them. With `votes`, `unreviewed` selects whether sets without any vote are scored as built
    (`keep`) or not at all (`exclude`). With variants, `k` is the largest number of levels that any variant has, and
    `axis` is the variants' shared axis (or `mixed`). `combine` is `worst` if a worst case over all variants is
    meaningful; otherwise each variant is reported separately.
    """

    name: str
    label_space: LabelSpace
    k: int
    version: str = "1"
    axis: str = "frame-offset"
    label_source: Literal["frame", "anchor"] = "frame"
    reviewed: Literal["none", "release", "votes"] = "none"
    licence: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    combine: Literal["each", "worst"] = "each"
    unreviewed: Literal["exclude", "keep"] = "exclude"

    def __post_init__(self) -> None:
        expect(bool(self.name), "dataset.name", "not empty", self.name)
        expect(isinstance(self.axis, str) and bool(self.axis), "dataset.axis", "a name", self.axis)
        expect(self.combine in ("each", "worst"), "dataset.combine", "each or worst", self.combine)
        expect(self.k >= 0, "dataset.k", ">= 0", self.k)
        expect(self.k < 1 << 31, "dataset.k", "a whole number of 31 bits", self.k)
        expect(self.label_source in ("frame", "anchor"), "dataset.label_source", "frame or anchor", self.label_source)
        expect(
            self.reviewed in ("none", "release", "votes"), "dataset.reviewed", "none, release or votes", self.reviewed
        )
        expect(self.unreviewed in ("exclude", "keep"), "dataset.unreviewed", "exclude or keep", self.unreviewed)


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Candidate or reviewed sets, with all data on their frames. `root` is the folder that the dataset was read from.

    `variants` is None if all sets are of one unnamed kind, such as sets from videos; the levels are then the whole
    numbers up to k. `names`, `drawn` and `checks` hold people's answers, and `samples` the sets that they are asked
    about; none of these is part of the digest. If the dataset was filtered by votes, `unseen` holds the pairs without
    a vote, by set. `unvoted` then holds the sets without any vote and the row of their video, whether or not these sets
    are still included.
    """

    info: DatasetInfo
    videos: Videos
    frames: Frames
    sets: Sets
    labels: Labels
    boxes: Boxes | None = None
    hints: Hints | None = None
    verdicts: tuple[Verdict, ...] = ()
    names: tuple[NameAnswer, ...] = ()
    drawn: tuple[BoxAnswer, ...] = ()
    checks: tuple[CheckAnswer, ...] = ()
    samples: tuple[SampledSet, ...] = ()
    variants: Variants | None = None
    root: Path | None = None
    unseen: Mapping[str, Unreviewed] = field(default_factory=dict)
    unvoted: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n_frames, n_classes = len(self.frames), len(self.info.label_space)
        expect(bool((self.frames.video < len(self.videos)).all()), "frames.video", "rows of the videos table", None)
        expect(bool((self.sets.frame < n_frames).all()), "sets.frame", "rows of the frames table", None)
        once = self.frames.is_later("key") or len(set(self.frames.key)) == n_frames
        expect(once, "frames.key", "each key to appear once", None)
        expect(pairs_differ(self.frames.video, self.frames.index), "frames.index", "each index once per video", None)
        for name, table in (("labels", self.labels), ("boxes", self.boxes)):
            if table is not None and len(table.frame):
                expect(int(table.frame.max()) < n_frames, f"{name}.frame", "rows of the frames table", None)
                top = int(table.label.max())
                expect(int(table.label.min()) >= 0 and top < n_classes, f"{name}.label", f"0–{n_classes - 1}", top)
        if self.hints is not None:
            expect(len(self.hints.cut) == len(self.sets.set), "hints", "one row per set row", len(self.hints.cut))
        self._check_variants()

    def _check_variants(self) -> None:
        variants, sets, info = self.variants, self.sets, self.info
        n_variants = 1 if variants is None else len(variants)
        expect(int(sets.variant.max()) < n_variants, "sets.variant", "rows of the variants table", None)
        if variants is None:
            expect(info.combine == "each", "dataset.combine", "each in a dataset without variants", info.combine)
            return
        expect(
            info.axis == variants.common_axis,
            "dataset.axis",
            f"the axis of the variants, {variants.common_axis}",
            info.axis,
        )
        expect(info.k == variants.k, "dataset.k", f"the largest number of levels of a variant, {variants.k}", info.k)
        if info.combine == "worst":
            rule = "each, because the variants differ in axis, unit or levels"
            expect(variants.have_one_scale, "dataset.combine", rule, info.combine)
        _, place = np.unique(sets.group.astype(str), return_inverse=True)
        expect(pairs_differ(place, sets.variant), "sets.group", "each variant at most once per group", None)
        beyond = self.row_levels() > np.array([len(levels) for levels in variants.levels])[sets.variant[sets.set]]
        if beyond.any():
            row = int(np.flatnonzero(beyond)[0])
            name = variants.variant[sets.variant[sets.set[row]]]
            raise InvalidValue(
                f"sets: set {printable(sets.set_id[sets.set[row]])} has a member at {sets.distance[row]:g}, "
                f"beyond every level of variant {printable(name)}"
            )

    # -- names ---------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        sizes = f"{self.n_sets} sets, {len(self.frames)} frames, {len(self.videos)} sources"
        return f"<Dataset {self.name}: {sizes}, {len(self.info.label_space)} classes, k = {self.info.k}>"

    @property
    def name(self) -> str:
        """The dataset's name."""
        return self.info.name

    @property
    def n_sets(self) -> int:
        """The number of sets."""
        return len(self.sets)

    def frame_ids(self, rows: Ints | slice = slice(None)) -> list[str]:
        """Return the ids of all frames in table order, or of the given rows."""
        videos, index = self.videos.video_id[self.frames.video[rows]], self.frames.index[rows]
        return list(map(frame_id, videos.tolist(), index.tolist()))

    def frame(self, row: int) -> Frame:
        """Return one frame as a record."""
        table = self.frames
        den = int(table.time_den[row])
        width, height = int(table.width[row]), int(table.height[row])
        return Frame(
            video_id=str(self.videos.video_id[table.video[row]]),
            index=int(table.index[row]),
            key=str(table.key[row]),
            pts=None if int(table.pts[row]) == NO_PTS else int(table.pts[row]),
            time_s=Fraction(int(table.time_num[row]), den) if den else None,
            pict_type=cast(PictType, str(table.pict_type[row])),
            size_wh=(width, height) if width else None,
            sha256=str(table.sha256[row]),
            as_input=bool(table.as_input[row]),
            recipe=recipe_of(str(table.recipe[row])),
        )

    def __iter__(self) -> Iterator[PerturbationSet]:
        """Return the sets as records, in order."""
        bounds = np.searchsorted(self.sets.set, np.arange(self.n_sets + 1))
        for place in range(self.n_sets):
            rows = range(int(bounds[place]), int(bounds[place + 1]))
            anchor = next(row for row in rows if self.sets.is_anchor[row])
            variant = self.variants and self.variants[int(self.sets.variant[place])]
            reach, margin = float(self.sets.reach[place]), float(self.sets.margin[place])
            yield PerturbationSet(
                set_id=str(self.sets.set_id[place]),
                anchor=self.frame(int(self.sets.frame[anchor])),
                members=tuple(
                    Member(frame=self.frame(int(self.sets.frame[row])), distance=float(self.sets.distance[row]))
                    for row in rows
                    if row != anchor
                ),
                axis=variant.axis if variant else self.info.axis,
                variant=variant.variant if variant else NO_VARIANT,
                group=str(self.sets.group[place]),
                status=str(self.sets.status[place]),
                reach=None if np.isnan(reach) else reach,
                margin=None if np.isnan(margin) else margin,
            )

    # -- questions -----------------------------------------------------------------------------------------------

    @property
    def video_of_set(self) -> Ints:
        """The video row of each set, (S,)."""
        return self.frames.video[self.sets.anchor_frame]

    @property
    def kinds(self) -> dict[str, int]:
        """Count by kind the sources that have sets, in the order of KINDS.

        A video of one frame counts as an image. If every source contributes just one image, all of them count as
        images.
        """
        used = np.unique(self.video_of_set)
        kind, alone = self.videos.kind[used], self.videos.n_frames[used] == 1
        if self.variants is not None:
            alone |= len(np.unique(self.sets.anchor_frame)) == len(used)
        counter = Counter(np.where((kind == "video") & alone, "image", kind).tolist())
        return {one: counter[one] for one in KINDS if counter[one]}

    @property
    def judged_frame(self) -> Ints:
        """The frame whose labels apply to each set row, (R,): the row's own frame or its anchor's frame."""
        sets = self.sets
        return sets.frame if self.info.label_source == "frame" else sets.anchor_frame[sets.set]

    def row_levels(self) -> Ints:
        """The level of each set row, (R,): the smallest k at which the row counts, which is 0 for anchors.

        Without variants it is ⌈|distance|⌉. With variants, the level is the index of the smallest level that includes
        the row.
        """
        sets = self.sets
        if self.variants is None:
            far = np.abs([sets.distance.min(), sets.distance.max()]).max()
            level = np.empty(len(sets.set), dtype=narrow_type(0, int(np.ceil(far))))
            for part in blocks(len(level)):
                level[part] = np.ceil(np.abs(sets.distance[part]))
            return level
        level = np.zeros(len(sets.set), dtype=np.int64)
        variant = sets.variant[sets.set]
        for row, levels in enumerate(self.variants.levels):
            level[variant == row] = level_numbers(sets.distance[variant == row], levels)
        return narrow(level)

    @cached_property
    def right_labels(self) -> Ints:
        """The labels that apply to each set row, (most labels of a frame, R), padded with −2 (never predicted)."""
        frame, label = self.labels.frame, self.labels.label
        has, kind = np.zeros(len(self.frames), dtype=bool), narrow_type(-2, len(self.info.label_space))
        has[frame] = True
        if int(has.sum()) == len(frame):  # no frame has two labels, so there is nothing to sort
            only = np.full(len(has), -2, dtype=kind)
            only[frame] = label
            return only[self.judged_frame][None, :]
        order = np.lexsort((label, frame))
        frame, label = frame[order], label[order]
        per_frame = np.bincount(frame, minlength=len(has))
        first = np.cumsum(per_frame) - per_frame
        table = np.full((len(has), int(per_frame.max())), -2, dtype=kind)
        table[frame, np.arange(len(frame)) - first[frame]] = label
        return np.ascontiguousarray(table[self.judged_frame].T)

    def right(self, label_of_row: Ints, rows: slice | Ints = slice(None)) -> Bools:
        """Return, by the label rule, whether each class is right for its set row; −1 (no class) is never right."""
        right = self.right_labels[0, rows] == label_of_row
        for labels in self.right_labels[1:, rows]:
            right |= labels == label_of_row
        return np.asarray(right)

    def right_rows(self, predicted: Ints) -> Bools:
        """Return whether the class predicted for each set row's frame is right; `predicted` (F,) is per frame."""
        right = np.empty(len(self.sets.frame), dtype=bool)
        for rows in blocks(len(right)):
            right[rows] = self.right(predicted[self.sets.frame[rows]], rows)
        return right

    @cached_property
    def labelled(self) -> Bools:
        """The sets that can be scored, (S,): those in which every member has a label by the dataset's label rule."""
        has = np.zeros(len(self.frames), dtype=bool)
        has[self.labels.frame] = True
        start = np.searchsorted(self.sets.set, np.arange(self.n_sets))
        return np.asarray(np.logical_and.reduceat(has[self.judged_frame], start))

    def labels_of(self, row: int) -> tuple[int, ...]:
        """The labels of one frame, ascending."""
        return tuple(sorted(int(label) for label in self.labels.label[self.labels.frame == row]))

    def candidates(self) -> dict[tuple[str, str], int]:
        """The set row of every member other than the anchor, by (set_id, frame_id)."""
        sets, ids, rows = self.sets, self.frame_ids(), np.flatnonzero(~self.sets.is_anchor)
        found = zip(sets.set_id[sets.set[rows]], sets.frame[rows].tolist(), rows.tolist(), strict=True)
        return {(str(name), ids[frame]): row for name, frame, row in found}

    # -- parts ---------------------------------------------------------------------------------------------------

    def keep_rows(self, keep: Bools) -> "Dataset":
        """Keep only these set rows; drop sets without an anchor. All frames are kept, so frame rows do not change."""
        anchored = np.zeros(self.n_sets, dtype=bool)
        anchored[self.sets.set[self.sets.is_anchor & keep]] = True
        keep = keep & anchored[self.sets.set]
        expect(bool(keep.any()), "dataset", "at least one set left", "none")
        new_place = np.cumsum(anchored) - 1
        sets = Sets(
            set=new_place[self.sets.set[keep]].astype(np.int32),
            frame=self.sets.frame[keep],
            distance=self.sets.distance[keep],
            is_anchor=self.sets.is_anchor[keep],
            **{name: getattr(self.sets, name)[anchored] for name in SET_COLUMNS},
        )
        hints = self.hints
        if hints is not None:
            hints = Hints(**{name: getattr(hints, name)[keep] for name in Hints.__slots__})
        return replace(self, sets=sets, hints=hints)

    def scored_sets(self) -> "Dataset":
        """Return the dataset without the sets that are only for viewing."""
        shown = np.zeros(0, dtype=bool) if self.variants is None else self.variants.is_shown[self.sets.variant]
        return self.keep_rows(~shown[self.sets.set]) if shown.any() else self

    def labelled_sets(self) -> "Dataset":
        """Return the dataset without unlabelled sets, which cannot be scored. Raises StrobeError if no set is left."""
        if not self.labelled.any():
            raise StrobeError(
                f"{printable(self.name)}: none of the {self.n_sets} sets has a label on every frame, so accuracy "
                "cannot be measured; add labels and build it again, or let people label the anchors: strobe "
                "review serve --labels"
            )
        return self if self.labelled.all() else self.keep_rows(self.labelled[self.sets.set])

    def only_videos(self, names: Collection[str]) -> "Dataset":
        """Return the sets of these videos.

        Args:
            names: Names or ids of videos.

        Raises:
            InvalidValue: One of these names matches no video of the dataset.
        """
        wanted = set(self.ids_of_videos(names))
        chosen = np.array([video in wanted for video in self.videos.video_id], dtype=bool)
        unvoted = {name: video for name, video in self.unvoted.items() if chosen[video]}
        return replace(self.keep_rows(chosen[self.video_of_set][self.sets.set]), unvoted=unvoted)

    def ids_of_videos(self, names: Collection[str]) -> list[str]:
        """Return the ids of the videos with these names or ids, in dataset order; every name must exist."""
        requested, known = set(names), list(zip(self.videos.name, self.videos.video_id, strict=True))
        missing = sorted(requested - {text for both in known for text in both})
        if missing:
            raise InvalidValue(
                f"subset: {len(missing)} video(s) are not in {self.name}; the first is {printable(missing[0])}"
            )
        return [video for name, video in known if name in requested or video in requested]

    # -- digests -------------------------------------------------------------------------------------------------

    def frames_digest(self) -> str:
        """Digest that changes exactly when the frames' identity or pixels change; cached predictions depend on it."""
        return self._frames_digest

    @cached_property
    def _frames_digest(self) -> str:
        return frames_digest_of(self)

    def vouch(self, *, digest: str | None, frames_digest: str) -> None:
        """Set the digests to these values, which were computed earlier from the same content."""
        self.__dict__["_frames_digest"] = frames_digest
        if digest is not None:
            self.__dict__["_digest"] = digest

    def digest(self) -> str:
        """Digest of the content; file order, encoding, compression and path do not affect it."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        return digest_of(self)

    @property
    def schema(self) -> int:
        """The folder format that this dataset needs: 1, or 2 if it uses a feature that format 1 lacks."""
        marked = self.frames.as_input.any() or (self.frames.recipe != "").any() or (self.videos.kind != "video").any()
        return 2 if marked or self.variants is not None or not self.sets.is_plain else 1


def joined(parts: Sequence[Dataset], *, info: DatasetInfo, root: Path | None = None) -> Dataset:
    """Merge datasets of one label space; no video or set may repeat.

    Boxes and hints are kept if all datasets have them.
    """
    expect(len(parts) > 0, "joined", "at least one dataset", 0)
    for part in parts:
        expect(part.info.label_space == info.label_space, "joined", "one label space", part.info.label_space.name)
    video0 = np.cumsum([0, *(len(part.videos) for part in parts)])
    frame0 = np.cumsum([0, *(len(part.frames) for part in parts)])
    set0 = np.cumsum([0, *(part.n_sets for part in parts)])

    variants, variant_rows = _joined_variants(parts)

    def stack(table: str, cls: type[Any], **shifts: NDArray[np.int64]) -> Any:
        tables = [getattr(part, table) for part in parts]
        if any(one is None for one in tables):
            return None
        columns = {}
        for name in cls.__slots__:
            found = [getattr(one, name) for one in tables]
            if name in shifts:
                found = [column + shift for column, shift in zip(found, shifts[name], strict=False)]
            columns[name] = np.concatenate(found)
        return cls(**columns)

    answers: dict[str, Any] = {table: tuple(one for part in parts for one in getattr(part, table)) for table in GROWING}
    return Dataset(
        info=info,
        videos=stack("videos", Videos),
        frames=stack("frames", Frames, video=video0),
        sets=replace(stack("sets", Sets, set=set0, frame=frame0), variant=variant_rows),
        labels=stack("labels", Labels, frame=frame0),
        boxes=stack("boxes", Boxes, frame=frame0),
        hints=stack("hints", Hints),
        **answers,
        variants=variants,
        root=root,
    )


def _joined_variants(parts: Sequence[Dataset]) -> tuple[Variants | None, Ints]:
    """Return the distinct variants of all parts, and the variant row of every set."""
    tables = [part.variants for part in parts if part.variants is not None]
    if not tables:
        return None, np.concatenate([part.sets.variant for part in parts])
    expect(len(tables) == len(parts), "joined", "variants in all parts or in no part", len(tables))
    known = {variant.variant: variant for table in tables for variant in table}
    place = {name: row for row, name in enumerate(known)}
    for variant in (variant for table in tables for variant in table):
        same = known[variant.variant].described() == variant.described()
        expect(same, "joined", "the same definition of each variant", variant.variant)
    rows = [np.array([place[name] for name in table.variant]) for table in tables]
    where = [row[part.sets.variant] for row, part in zip(rows, parts, strict=True)]
    return Variants.of(list(known.values())), np.concatenate(where)
