"""Boxes in the files of other tools: Ultralytics `save_txt` folders, MOT text, and FiftyOne datasets.

| format | a line or record | frames |
|---|---|---|
| Ultralytics `save_txt` | `class cx cy w h [score] [track]`, as fractions of the image | `IMAGE.txt`, `VIDEO_N.txt` |
| MOT | `frame,id,x,y,w,h,score,class,…`, in pixels | numbers from 1 |
| FiftyOne | samples with detections, as fractions of the image | the file of the sample, or numbers from 1 |

COCO JSON is read by `prediction_files.py`, and `supervision.Detections` by `api/given.py`.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import read_json
from strobe.formats.frame_matching import FrameRef
from strobe.formats.prediction_files import RawDetections

_OF_VIDEO = re.compile(r"(.+)_(\d+)")
_SAMPLES = "samples.json"


def is_box_source(path: Path) -> bool:
    """Return whether a path is a folder of boxes or a text file of boxes."""
    return path.is_dir() or path.suffix.lower() == ".txt"


def read_boxes_of_tool(path: Path) -> RawDetections:
    """Read a folder or text file of boxes. Its form decides which tool it is from."""
    if not path.is_dir():
        return _read_mot(path)
    if (path / _SAMPLES).is_file():
        return _read_fiftyone(path)
    folder = path / "labels" if (path / "labels").is_dir() else path
    files = sorted(folder.glob("*.txt"))
    if not files:
        raise StrobeError(
            f"{printable(path)}: a folder of predictions has a text file per frame (Ultralytics save_txt) or "
            f"{_SAMPLES} (FiftyOne), and this one has neither"
        )
    return _read_ultralytics(files)


Boxes = tuple[FrameRef, Any, tuple[float, float, float, float], float]
"""The frame, class, corners and score of a box."""


def coded(
    boxes: Sequence[Boxes], unit: str, *, answered: Sequence[FrameRef] | None = None, fractions: bool, sparse: bool
) -> RawDetections:
    """Return the boxes as one table."""
    names = list(dict.fromkeys([*(answered or ()), *(box[0] for box in boxes)]))
    words = list(dict.fromkeys(box[1] for box in boxes))
    places, classes = ({one: index for index, one in enumerate(many)} for many in (names, words))
    return RawDetections(
        image=np.array([places[box[0]] for box in boxes], dtype=np.int64),
        label=np.array([classes[box[1]] for box in boxes], dtype=np.int64),
        box=np.array([box[2] for box in boxes], dtype=np.float64).reshape(-1, 4),
        score=np.array([box[3] for box in boxes], dtype=np.float64),
        image_names=names,
        words=words,
        is_xywh=False,
        unit=unit,
        answered=None if answered is None else list(answered),
        units="normalised" if fractions else "pixels",
        form="xyxy",
        sparse=sparse,
    )


def _numbers(path: Path, line: str, number: int, *, least: int) -> list[float]:
    try:
        values = list(map(float, line.replace(",", " ").split()))
    except ValueError as error:
        raise InvalidFile(path, f"not a number ({printable(error, limit=60)})", where=f"line {number}") from error
    if len(values) < least:
        raise InvalidFile(path, f"{len(values)} numbers, expected at least {least}", where=f"line {number}")
    return values


def _read_ultralytics(files: Sequence[Path]) -> RawDetections:
    """Read a folder of text files. A file is missing for a frame without boxes. Without a score, it is 1."""
    boxes: list[Boxes] = []
    answered = []
    for file in files:
        of_video = _OF_VIDEO.fullmatch(file.stem)
        ref = FrameRef(name=file.stem)
        if of_video is not None:
            ref = FrameRef(name=file.stem, video=of_video[1], number=int(of_video[2]) - 1)
        answered.append(ref)
        for number, line in enumerate(_lines(file), start=1):
            values = _numbers(file, line, number, least=5)
            label, cx, cy, w, h = values[:5]
            corners = (cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2)
            boxes.append((ref, int(label), corners, values[5] if len(values) > 5 else 1.0))
    return coded(boxes, "box", answered=answered, fractions=True, sparse=True)


def _lines(file: Path) -> list[str]:
    try:
        return [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise InvalidFile(file, "not text") from error


def _read_mot(path: Path) -> RawDetections:
    """Read MOT text. A class of −1 or none is class 0, and a score of −1 is 1, as MOT marks unknown values."""
    rows = [_numbers(path, line, number, least=6) for number, line in enumerate(_lines(path), start=1)]
    if not rows:
        raise InvalidFile(path, "it contains no boxes")
    first = 0 if any(row[0] == 0 for row in rows) else 1
    boxes: list[Boxes] = []
    for frame, _, x, y, w, h, *rest in rows:
        score = rest[0] if rest and rest[0] >= 0 else 1.0
        label = int(rest[1]) if len(rest) > 1 and rest[1] >= 0 and len(rest) != 4 else 0
        if len(rest) == 3 and rest[1] >= 1:  # ground truth: classes are numbered from 1
            label = int(rest[1]) - 1
        boxes.append((FrameRef(video=path.stem, number=int(frame) - first), label, (x, y, x + w, y + h), score))
    return coded(boxes, "line", fractions=False, sparse=True)


# -- FiftyOne ------------------------------------------------------------------------------------------------------


def _read_fiftyone(folder: Path) -> RawDetections:
    """Read an exported FiftyOneDataset: samples.json and, for videos, frames.json."""
    samples = _list(folder / _SAMPLES, "samples")
    frames = _list(folder / "frames.json", "frames") if (folder / "frames.json").is_file() else []
    video_of = {_oid(sample.get("_id")): str(sample.get("filepath", "")) for sample in samples}
    boxes: list[Boxes] = []
    answered: list[FrameRef] = []
    for one in frames:
        ref = FrameRef(video=video_of.get(_oid(one.get("_sample_id")), ""), number=int(one["frame_number"]) - 1)
        _add(folder, ref, one, boxes, answered)
    for one in samples:
        if not frames:
            _add(folder, FrameRef(name=str(one.get("filepath", ""))), one, boxes, answered)
    if not answered:
        raise InvalidFile(folder / _SAMPLES, "no sample has a field of detections")
    return coded(boxes, "detection", answered=answered, fractions=True, sparse=bool(frames))


def _list(path: Path, key: str) -> list[Mapping[str, Any]]:
    data = read_json(path)
    rows = data.get(key) if isinstance(data, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidFile(path, f"expected a list {key}")
    return rows


def _oid(value: Any) -> str:
    return str(value.get("$oid", "")) if isinstance(value, dict) else str(value)


def _add(folder: Path, ref: FrameRef, record: Mapping[str, Any], boxes: list[Boxes], answered: list[FrameRef]) -> None:
    fields = [(name, value) for name, value in record.items() if isinstance(value, dict) and "detections" in value]
    fields = [(name, value) for name, value in fields if name.startswith("pred")] or fields
    if len(fields) > 1:
        names = ", ".join(name for name, _ in fields)
        raise InvalidFile(folder, f"several fields have detections ({names})", hint="export one of them")
    for _, value in fields:
        answered.append(ref)
        for index, box in enumerate(value["detections"]):
            try:
                x, y, w, h = map(float, box["bounding_box"])
                score = box.get("confidence")
                boxes.append((ref, str(box["label"]), (x, y, x + w, y + h), 1.0 if score is None else float(score)))
            except (KeyError, TypeError, ValueError) as error:
                raise InvalidFile(
                    folder, "expected a detection with label and bounding_box", where=f"{ref}[{index}]"
                ) from error


def boxes_of_fiftyone(samples: Any) -> RawDetections:
    """Return the detections of a FiftyOne dataset or view in memory, on its images or on the frames of its videos."""
    of_video = samples.media_type == "video"
    fields = samples.get_frame_field_schema() if of_video else samples.get_field_schema()
    named = [
        name
        for name, field in fields.items()
        if getattr(getattr(field, "document_type", None), "__name__", "") == "Detections"
    ]
    chosen = [name for name in named if name.startswith("pred")] or named
    if len(chosen) != 1:
        raise StrobeError(f"FiftyOne: expected one field of Detections, got {', '.join(named) or 'none'}")
    boxes: list[Boxes] = []
    answered: list[FrameRef] = []
    for sample in samples:
        records = (
            [(FrameRef(video=sample.filepath, number=n - 1), frame) for n, frame in sample.frames.items()]
            if of_video
            else [(FrameRef(name=sample.filepath), sample)]
        )
        for ref, record in records:
            found = record[chosen[0]]
            if found is not None:
                _add(Path("FiftyOne"), ref, {"pred": found.to_dict()}, boxes, answered)
    return coded(boxes, "detection", answered=answered, fractions=True, sparse=of_video)
