"""Assemble a dataset from fragments: put the rows of all videos in order, attach labels and boxes, and apply hints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np

from strobe.build.extract import Fragment
from strobe.build.hinting import hints_table
from strobe.build.hints import dropped_rows
from strobe.build.labels import BoxRow, LabelRow, labels_at
from strobe.build.options import DropRules
from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import InvalidValue, printable
from strobe.core.labels import LabelSpace
from strobe.core.tables import CUTS_BETWEEN_SETS, Hints

_SLOW_FPS = 15
"""At this frame rate, k frames last twice as long as at 30 frames per second, for which k = 10 was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """A dataset, and notes about the videos and frames that were left out."""

    dataset: Dataset
    notes: tuple[str, ...]


def label_space_of(
    name: str, labels: Mapping[str, Sequence[LabelRow]], boxes: Mapping[str, Sequence[BoxRow]]
) -> LabelSpace:
    """Return the named classes in alphabetical order."""
    found = {row.label for rows in labels.values() for row in rows}
    found |= {row.label for rows in boxes.values() for row in rows}
    return LabelSpace.of_names(name, sorted(found))


def gather(
    fragments: Sequence[Fragment],
    *,
    name: str,
    label_space: LabelSpace,
    labels: Mapping[str, Sequence[LabelRow]],
    boxes: Mapping[str, Sequence[BoxRow]],
    k: int | None,
    label_source: Literal["frame", "anchor"] | None = None,
    paths: Mapping[str, Path] | None = None,
    suffix: str = ".png",
    licence: str = "",
    provenance: Mapping[str, Any] | None = None,
) -> Gathered:
    """Return the dataset of all fragments, sorted by video name, independent of the order in which they were made.

    With `k=None` (sets made by time), k is the largest offset present. With `label_source=None`, members are scored
    with their own labels if every member has a label, else with their anchor's labels. If labels come from boxes alone,
    members without a box are excluded instead. `paths` are the videos from which frames are decoded when they are read.
    """
    ordered = sorted(fragments, key=lambda fragment: fragment.video.name)
    grown = DatasetBuilder()
    labelled_by_boxes = any(boxes.values()) and not any(labels.values())
    reach, elsewhere = 0, 0
    for fragment in ordered:
        video, rows = fragment.video, {}
        place = grown.video(
            video_id=video.video_id,
            name=video.name,
            fps=video.fps,
            n_frames=video.n_frames,
            codec=video.codec,
            path=str((paths or {}).get(video.name, "")),
        )
        boxed, outside = _boxes_by_frame(fragment, boxes.get(video.name, ()))
        elsewhere += outside
        for frame in fragment.frames:
            # Boxes also give a frame's classes. Crowds count, because the class is present.
            mine, said = boxed.get(frame.index, ()), labels_at(labels.get(video.name, ()), frame.index, frame.time_s)
            named = {label_space.index(text) for text in ([box.label for box in mine] if labelled_by_boxes else said)}
            rows[frame.index] = row = grown.frame(
                video=place,
                index=frame.index,
                key=f"{video.name}/{frame.index:06d}{suffix}",
                pts=frame.pts,
                time_s=frame.time_s,
                pict_type=frame.pict_type,
                size_wh=frame.size_wh,
                sha256=frame.sha256,
                media=frame.media,
                labels=sorted(named),
            )
            for box in mine:
                index = label_space.index(box.label)
                grown.box(
                    frame=row, label=index, xyxy=box.xyxy, track=box.track, crowd=box.crowd, declared_wh=box.size_wh
                )
        for candidate in fragment.sets:
            grown.set(
                set_id=f"{video.name}@{candidate.anchor}",
                anchor=rows[candidate.anchor],
                members=[
                    (rows[index], index - candidate.anchor) for index in candidate.members if index != candidate.anchor
                ],
            )
            reach = max(reach, *(abs(index - candidate.anchor) for index in candidate.members))
    cuts = {fragment.video.video_id: list(fragment.cuts) for fragment in ordered if fragment.cuts}
    info = DatasetInfo(
        name=name,
        label_space=label_space,
        k=reach if k is None else k,
        label_source=label_source or "frame",
        licence=licence,
        provenance={**(provenance or {}), **({CUTS_BETWEEN_SETS: cuts} if cuts else {})},
    )
    fitted = grown.check_boxes()
    dataset = grown.build(info, with_boxes=any(boxes.values()), hints=_hints(ordered))
    notes = [*fitted, *([f"{elsewhere} box(es) are on frames outside every set"] if elsewhere else [])]
    if label_source is None:
        dataset = _by_the_labels_there_are(dataset, labelled_by_boxes, notes)
    if k is not None:
        notes += _reach_notes(ordered, k)
    return Gathered(dataset=dataset, notes=tuple(notes))


def _by_the_labels_there_are(dataset: Dataset, labelled_by_boxes: bool, notes: list[str]) -> Dataset:
    """Return the dataset with the label rule that its labels allow."""
    sets = dataset.sets
    own = np.isin(sets.frame, dataset.labels.frame)
    if own.all():
        return dataset
    if not labelled_by_boxes or not own[~sets.is_anchor].any():
        return replace(dataset, info=replace(dataset.info, label_source="anchor"))
    bare = sets.is_anchor & ~own
    if bare.any():
        first = dataset.frames.key[sets.frame[bare][0]]
        raise InvalidValue(f"boxes: {int(bare.sum())} given anchor(s) have no box, first {printable(first)}")
    notes.append(
        f"{int((~own).sum())} frame(s) near an anchor have no box and were left out; "
        "--label-source anchor keeps them, scored with their anchor's labels"
    )
    return dataset.keep_rows(own)


def _reach_notes(ordered: Sequence[Fragment], k: int) -> list[str]:
    """Return notes about sets that are shorter than k, or span much more time than k suggests."""
    anchors = [(one.anchor, fragment.video.n_frames) for fragment in ordered for one in fragment.sets]
    # Videos shorter than k have their own note.
    short = sum(n_frames > k and (anchor < k or anchor + k >= n_frames) for anchor, n_frames in anchors)
    notes = (
        [f"{short} of {len(anchors)} set(s) are shorter than k, because their video starts or ends there"]
        if short
        else []
    )
    slow = [(fragment.video.fps, fragment.video.name) for fragment in ordered if fragment.video.fps]
    fps, name = min(slow, default=(Fraction(30), ""))
    if fps <= min(_SLOW_FPS, 2 * k):  # with fps <= 2k, k frames last half a second or longer
        count = sum(rate <= _SLOW_FPS for rate, _ in slow)
        notes.append(
            f"{count} video(s) have at most {_SLOW_FPS} frames per second: k = {k} spans ±{k / float(fps):.2g} s in "
            f"{printable(name)} ({float(fps):.3g} fps), but ±{k / 30:.2g} s at 30 fps; --window MS spans the same "
            "time in every video"
        )
    return notes


def drop_by_hints(dataset: Dataset, rules: DropRules) -> tuple[Dataset, dict[str, int]]:
    """Return the dataset without the members that the rules drop, and each rule's count. Anchors always stay.

    Dropped frames keep their row in the frames table, so that temporal smoothing still uses them.
    """
    if dataset.hints is None:
        raise InvalidValue("the options --drop-… need hints; remove <<no_hints>>")
    dropped = {rule: rows & ~dataset.sets.is_anchor for rule, rows in dropped_rows(rules, dataset.hints).items()}
    gone = np.zeros(len(dataset.sets.set), dtype=bool)
    for rows in dropped.values():
        gone |= rows
    counts = {rule: int(rows.sum()) for rule, rows in dropped.items()} | {"members": int(gone.sum())}
    return dataset.keep_rows(~gone), counts


def _hints(ordered: Sequence[Fragment]) -> Hints | None:
    sets = [row for fragment in ordered for row in fragment.sets]
    if not all(row.hints for row in sets):
        return None
    return hints_table([pair for row in sets for pair in row.hints])


def _boxes_by_frame(fragment: Fragment, boxes: Sequence[BoxRow]) -> tuple[dict[int, list[BoxRow]], int]:
    """Return the boxes of each frame, and the number of boxes on frames that are in no set."""
    there, n_frames = {row.index for row in fragment.frames}, fragment.video.n_frames
    boxes_of: dict[int, list[BoxRow]] = {}
    for box in boxes:
        if box.frame >= n_frames:
            raise InvalidValue(
                f"boxes, {box.where}: box on frame {box.frame}, but {printable(fragment.video.name)} has frames "
                f"0–{n_frames - 1}"
            )
        if box.frame in there:
            boxes_of.setdefault(box.frame, []).append(box)
    return boxes_of, len(boxes) - sum(map(len, boxes_of.values()))
