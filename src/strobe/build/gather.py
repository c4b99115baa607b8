"""From fragments to a dataset: rows of all videos in one order, labels and boxes laid over them, hints applied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from strobe.build.extract import Fragment
from strobe.build.hinting import hints_table
from strobe.build.hints import DropRules
from strobe.build.labels import BoxRow, LabelRow, labels_at
from strobe.core.dataset import NO_PTS, Boxes, Dataset, DatasetInfo, Frames, Hints, Labels, Sets, Videos, texts
from strobe.core.errors import InvalidValue, printable
from strobe.core.labels import LabelSpace

__all__ = ["Gathered", "drop_by_hints", "gather", "label_space_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """A dataset, and lines about what did not go in."""

    dataset: Dataset
    notes: tuple[str, ...]


def label_space_of(
    name: str, labels: Mapping[str, Sequence[LabelRow]], boxes: Mapping[str, Sequence[BoxRow]]
) -> LabelSpace:
    """The classes that were named, in alphabetical order."""
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
    """The dataset of all fragments, sorted by video name, whatever order they were made in.

    `k` None takes the largest offset there is (sets made by time). `label_source` None scores members with their own
    labels where every member has one, else with their anchor's. `paths` are the videos frames are to be decoded from.
    """
    ordered = sorted(fragments, key=lambda fragment: fragment.video.name)
    frame_rows = {
        (place, row.index): number
        for number, (place, row) in enumerate(
            (place, row) for place, fragment in enumerate(ordered) for row in fragment.frames
        )
    }
    notes: list[str] = []
    label_table = _labels(ordered, frame_rows, label_space, labels)
    box_table = _boxes(ordered, frame_rows, label_space, boxes, notes)
    if box_table is not None and not any(labels.values()):
        label_table = _labels_of_boxes(box_table)
    sets = _sets(ordered, frame_rows)
    if label_source is None:
        label_source = "frame" if np.isin(sets.frame, label_table.frame).all() else "anchor"
    info = DatasetInfo(
        name=name,
        label_space=label_space,
        k=int(np.abs(sets.distance).max()) if k is None else k,
        label_source=label_source,
        licence=licence,
        provenance=dict(provenance or {}),
    )
    dataset = Dataset(
        info=info,
        videos=_videos(ordered, paths or {}),
        frames=_frames(ordered, suffix),
        sets=sets,
        labels=label_table,
        boxes=box_table,
        hints=_hints(ordered),
    )
    return Gathered(dataset=dataset, notes=tuple(notes))


def drop_by_hints(dataset: Dataset, rules: DropRules) -> tuple[Dataset, dict[str, int]]:
    """The dataset without the members the rules drop, and how many each rule dropped. Anchors always stay.

    Dropped frames keep their place in the frames table: smoothing over time still sees them.
    """
    if dataset.hints is None:
        raise InvalidValue("dropping by hints needs hints; leave --no-hints away")
    dropped = {rule: rows & ~dataset.sets.is_anchor for rule, rows in rules.dropped(dataset.hints).items()}
    gone = np.zeros(len(dataset.sets.set), dtype=bool)
    for rows in dropped.values():
        gone |= rows
    counts = {rule: int(rows.sum()) for rule, rows in dropped.items()} | {"members": int(gone.sum())}
    return dataset.keep_rows(~gone), counts


def _videos(ordered: Sequence[Fragment], paths: Mapping[str, Path]) -> Videos:
    rows = [fragment.video for fragment in ordered]
    return Videos(
        video_id=texts([row.video_id for row in rows]),
        name=texts([row.name for row in rows]),
        fps_num=np.array([row.fps.numerator if row.fps else 0 for row in rows], dtype=np.int64),
        fps_den=np.array([row.fps.denominator if row.fps else 0 for row in rows], dtype=np.int64),
        n_frames=np.array([row.n_frames for row in rows], dtype=np.int64),
        path=texts([str(paths[row.name]) if row.name in paths else "" for row in rows]),
        codec=texts([row.codec for row in rows]),
    )


def _frames(ordered: Sequence[Fragment], suffix: str) -> Frames:
    rows = [(place, fragment.video.name, row) for place, fragment in enumerate(ordered) for row in fragment.frames]
    times = [row.time_s for _, _, row in rows]
    return Frames(
        video=np.array([place for place, _, _ in rows], dtype=np.int32),
        index=np.array([row.index for _, _, row in rows], dtype=np.int64),
        key=texts([f"{name}/{row.index:06d}{suffix}" for _, name, row in rows]),
        pts=np.array([NO_PTS if row.pts is None else row.pts for _, _, row in rows], dtype=np.int64),
        time_num=np.array([0 if time is None else time.numerator for time in times], dtype=np.int64),
        time_den=np.array([0 if time is None else time.denominator for time in times], dtype=np.int64),
        pict_type=texts([row.pict_type for _, _, row in rows]),
        width=np.array([row.size_wh[0] for _, _, row in rows], dtype=np.int32),
        height=np.array([row.size_wh[1] for _, _, row in rows], dtype=np.int32),
        sha256=texts([row.sha256 for _, _, row in rows]),
        media=texts([row.media for _, _, row in rows]),
    )


def _sets(ordered: Sequence[Fragment], frame_rows: Mapping[tuple[int, int], int]) -> Sets:
    names: list[str] = []
    number, frame, distance = [], [], []
    for place, fragment in enumerate(ordered):
        for row in fragment.sets:
            for member in row.members:
                number.append(len(names))
                frame.append(frame_rows[place, member])
                distance.append(float(member - row.anchor))
            names.append(f"{fragment.video.name}@{row.anchor}")
    offsets = np.array(distance, dtype=np.float64)
    return Sets(
        set_id=texts(names),
        set=np.array(number, dtype=np.int32),
        frame=np.array(frame, dtype=np.int64),
        distance=offsets,
        is_anchor=offsets == 0,
    )


def _hints(ordered: Sequence[Fragment]) -> Hints | None:
    sets = [row for fragment in ordered for row in fragment.sets]
    if not all(row.hints for row in sets):
        return None
    return hints_table([pair for row in sets for pair in row.hints])


def _labels(
    ordered: Sequence[Fragment],
    frame_rows: Mapping[tuple[int, int], int],
    label_space: LabelSpace,
    labels: Mapping[str, Sequence[LabelRow]],
) -> Labels:
    frame, label = [], []
    for place, fragment in enumerate(ordered):
        rows = labels.get(fragment.video.name, ())
        for row in fragment.frames:
            named = {label_space.index(text) for text in labels_at(rows, row.index, row.time_s)}
            frame += [frame_rows[place, row.index]] * len(named)
            label += sorted(named)
    return Labels(frame=np.array(frame, dtype=np.int64), label=np.array(label, dtype=np.int32))


def _labels_of_boxes(boxes: Boxes) -> Labels:
    """Boxes alone say what is in a frame, too. Crowds count: the class is there."""
    pairs = sorted(set(zip(boxes.frame.tolist(), boxes.label.tolist(), strict=True)))
    return Labels(
        frame=np.array([pair[0] for pair in pairs], dtype=np.int64),
        label=np.array([pair[1] for pair in pairs], dtype=np.int32),
    )


def _boxes(
    ordered: Sequence[Fragment],
    frame_rows: Mapping[tuple[int, int], int],
    label_space: LabelSpace,
    boxes: Mapping[str, Sequence[BoxRow]],
    notes: list[str],
) -> Boxes | None:
    if not any(boxes.values()):
        return None
    kept: list[tuple[int, BoxRow]] = []
    elsewhere = 0
    for place, fragment in enumerate(ordered):
        sizes = {row.index: row.size_wh for row in fragment.frames}
        for box in boxes.get(fragment.video.name, ()):
            row = frame_rows.get((place, box.frame))
            if row is None:
                elsewhere += 1
                continue
            width, height = sizes[box.frame]
            x0, y0, x1, y1 = box.xyxy
            if x0 >= width or y0 >= height or x1 <= 0 or y1 <= 0:
                raise InvalidValue(
                    f"boxes, {box.where}: the box {box.xyxy} lies outside frame {box.frame} of "
                    f"{printable(fragment.video.name)} ({width}×{height}, upright)"
                )
            kept.append((row, box))
    if elsewhere:
        notes.append(f"{elsewhere} box(es) are on frames that are in no set")
    kept.sort(key=lambda pair: pair[0])
    return Boxes(
        frame=np.array([row for row, _ in kept], dtype=np.int64),
        label=np.array([label_space.index(box.label) for _, box in kept], dtype=np.int32),
        xyxy=np.array([box.xyxy for _, box in kept], dtype=np.float64).reshape(-1, 4),
        track=np.array([box.track for _, box in kept], dtype=np.int64),
        crowd=np.array([box.crowd for _, box in kept], dtype=bool),
    )
