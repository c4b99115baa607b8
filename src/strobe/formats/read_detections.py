"""Read detections of other programs (COCO result JSON or Parquet) into one table in the order of the frames.

| format | one row per | columns |
|---|---|---|
| COCO results | box | `[{"image_id", "category_id", "bbox": [x, y, w, h], "score"}, …]` |
| COCO, declared | box | `{"images": […], "categories": […], "annotations": [results]}` |
| Parquet | box | `frame`, `label`, `x0`, `y0`, `x1`, `y1`, `score` |
| Parquet | frame | `frame`, `label` (list), `xyxy` (list), `score` (list) |

An image is a frame's key or id, or a number that `images` (id, file_name) maps to one; `frame_matching.py` says what
else names a frame, and `box_files.py` reads the files of other tools. A class is a name or id
of the space, or a number. Numbers refer to `categories` (id, name) if present, otherwise to positions in the declared
space.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import BoxAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, StrobeError, in_file, printable
from strobe.core.files import read_json
from strobe.core.labels import LabelSpace, Projection, space
from strobe.core.parquet import read_footer
from strobe.core.projections import projection_between
from strobe.core.tasks import Task
from strobe.formats.box_checks import check_boxes, check_numbering
from strobe.formats.box_files import is_box_source, read_boxes_of_tool
from strobe.formats.frame_matching import FrameRef, match_frames
from strobe.formats.prediction_files import (
    AS_DECLARED,
    FileOptions,
    PredictionFile,
    RawDetections,
    out_of_reach,
    read_raw_detections,
)
from strobe.store.brought import Absent


def task_of_file(path: Path) -> Task:
    """Return whether a prediction file contains boxes. The file's structure decides."""
    boxes = is_box_source(path)
    if path.suffix.lower() == ".parquet":
        with suppress(StrobeError, OSError):  # reading the file later gives a better error message
            names = set(read_footer(path).names)
            boxes = "xyxy" in names or {"x0", "y0", "x1", "y1"} <= names
    elif path.suffix.lower() == ".json":
        with suppress(StrobeError, OSError):
            boxes = _is_coco(read_json(path))
    return Task.DETECTION if boxes else Task.CLASSIFICATION


def _is_coco(data: object) -> bool:
    """Return whether JSON has the form of COCO results: a list, or a list next to images and categories.

    A classifier's file is an object that maps frames.
    """
    if not isinstance(data, dict):
        return isinstance(data, list) and (not data or any(isinstance(row, dict) for row in data))
    return any(isinstance(data.get(key), list) for key in ("annotations", "predictions")) or (
        isinstance(data.get("images"), list) and isinstance(data.get("categories"), list)
    )


def read_detections(
    path: Path, dataset: Dataset, options: FileOptions = AS_DECLARED, *, name: str | None = None
) -> PredictionFile[BoxAnswers]:
    """Return the file's boxes in the dataset's classes and frames."""
    if not path.exists():
        raise StrobeError(f"{printable(path)}: no such file")
    raw = read_boxes_of_tool(path) if is_box_source(path) else read_raw_detections(path)
    if options.box_images is not None:
        _explain(raw, options.box_images)
    return match_detections(raw, dataset, options, path=path, name=name or path.stem)


def match_detections(
    raw: RawDetections, dataset: Dataset, options: FileOptions, *, path: Path | str, name: str
) -> PredictionFile[BoxAnswers]:
    """Return boxes by frame, from a file or memory, in the dataset's classes and frames. `path` names them in errors.

    The fact `dropped` counts boxes whose class maps to no class of the dataset.
    """
    absent: Absent = "unscored" if options.allow_missing else options.absent
    frame, listed, n_extra, matched = _frames(path, raw, dataset, ignore_extra=options.ignore_extra)
    if not np.isfinite(raw.score).all():
        row = int(np.flatnonzero(~np.isfinite(raw.score))[0])
        raise InvalidFile(path, "a score is NaN or infinite", where=raw.where(row))
    target = dataset.info.label_space
    source = _source(path, raw, target, options.box_space)
    own = _classes(path, raw, source)
    with in_file(path):
        chosen = projection_between(source, target)
    label = np.where(own >= 0, chosen.map_labels(np.maximum(own, 0)), -1)
    xyxy, notes = check_boxes(
        path,
        raw,
        frame,
        dataset,
        raw.form if options.box_format == "auto" else options.box_format,
        raw.units if options.box_units == "auto" else options.box_units,
    )
    notes += [matched] if matched else []
    check_numbering(path, xyxy, frame, raw, label, dataset, f"those of {source.name}")
    _refuse_outside(path, raw, source, own)
    if raw.sparse and absent == "error":
        absent, seen = "empty", len(np.unique(frame[frame >= 0]))
        notes.append(
            f"{len(dataset.frames) - seen:,} of {len(dataset.frames):,} frames are not in it: they have no box"
        )
    scored = _looked_at(path, frame[frame >= 0], listed, dataset, absent)
    lost = (frame >= 0) & (label < 0)
    if lost.any():
        names = [printable(source.names[place]) for place in np.unique(own[lost])]
        some = f"{', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
        notes.append(f"{int(lost.sum())} of {len(frame)} boxes dropped: their class is not in the dataset ({some})")
    if n_extra:
        notes.append(f"{n_extra} boxes left out: their images are not in the dataset")
    keep = (frame >= 0) & (label >= 0)
    answers = BoxAnswers.of(
        frame[keep],
        label[keep],
        xyxy[keep],
        raw.score[keep],
        n_frames=len(dataset.frames),
        n_classes=len(target),
        scored=scored,
        model=name,
    )
    dropped = {"space": source.name, "dropped": str(int(lost.sum()))}
    facts = {**dropped, **out_of_reach(target, _childless(path, raw, source, chosen))}
    return PredictionFile(answers=answers, facts=facts, notes=(f"{len(answers)} boxes in {source.name}", *notes))


def _explain(raw: RawDetections, images: Path) -> None:
    """Take images and categories from another COCO JSON file if this file has none."""
    data = read_json(images, hint="give the COCO JSON of the images")
    if not isinstance(data, dict):
        raise InvalidFile(images, "expected a COCO JSON with images and categories")
    for key in ("images", "categories"):
        if isinstance(data.get(key), list) and getattr(raw, key) is None:
            setattr(raw, key, data[key])
    raw.images_are_answers = False  # the other file lists images that exist, not images that were processed


def _frames(
    path: Path | str, raw: RawDetections, dataset: Dataset, *, ignore_extra: bool
) -> tuple[NDArray[np.int64], list[int] | None, int, str | None]:
    """Return each box's frame row, the processed rows, the number of boxes on other frames, and a note.

    Boxes on frames outside the dataset have the frame row −1.
    """
    names: dict[Any, FrameRef] = {}
    videos = {video.get("id"): str(video.get("name") or video.get("file_name") or "") for video in raw.videos or ()}
    for index, image in enumerate(raw.images or ()):
        try:
            names[image["id"]] = _image(image, videos)
        except (KeyError, TypeError) as error:
            raise InvalidFile(path, "expected an image with id and file_name", where=f"images[{index}]") from error
    every = list(dict.fromkeys([*raw.image_names, *(raw.answered or ()), *(names if raw.images_are_answers else ())]))
    if names and (
        unlisted := [image for image in raw.image_names if image not in names and not isinstance(image, str)]
    ):
        raise InvalidFile(path, f"image {printable(unlisted[0])} is not among the file's {len(names)} images")
    numbers = not names and all(isinstance(image, int) for image in every)
    found = match_frames(
        path,
        [names.get(image, image) for image in every],
        dataset,
        ignore_extra=ignore_extra,
        way_out='; other numbers need a list "images" of id and file_name, in the file or with <<box_images>>'
        if numbers
        else "",
    )
    table = dict(zip(every, found.rows, strict=True))
    frame = raw.map_images(table)
    listed = None
    if raw.images_are_answers:
        listed = [table[image] for image in names if table[image] >= 0]
    elif raw.answered is not None:
        listed = [table[image] for image in raw.answered if table[image] >= 0]
    return frame, listed, int((frame < 0).sum()), found.note


def _image(image: Mapping[str, Any], videos: Mapping[Any, str]) -> FrameRef:
    """Return how an entry of `images` names its frame; in a file of videos, also by its number and time."""
    number = next((image[key] for key in ("frame_id", "frame_index") if isinstance(image.get(key), int)), None)
    time = next((float(image[key]) for key in ("timestamp", "time") if isinstance(image.get(key), int | float)), None)
    video = videos.get(image.get("video_id"), "")
    return FrameRef(name=str(image["file_name"]), video=video, number=number, time=time)


def _looked_at(
    path: Path | str, frame: NDArray[np.int64], listed: Sequence[int] | None, dataset: Dataset, absent: Absent
) -> NDArray[np.bool_]:
    """Return a mask of the processed frames, (F,)."""
    scored = np.zeros(len(dataset.frames), dtype=bool)
    scored[frame] = True
    if listed is not None:
        scored[listed] = True
    needed = np.zeros(len(dataset.frames), dtype=bool)
    needed[dataset.sets.frame] = True
    missing = needed & ~scored
    if missing.any() and absent == "error":
        first = dataset.frames.key[int(np.flatnonzero(missing)[0])]
        raise InvalidFile(
            path,
            f"{int(missing.sum())} of {int(needed.sum())} frames have no box, first {printable(first)!r}",
            hint="in COCO results, empty and missing frames look the same; pass <<empty_frames=True>> or "
            "<<allow_missing=True>>",
        )
    return np.ones(len(scored), dtype=bool) if absent == "empty" else scored


def _classes(path: Path | str, raw: RawDetections, source: LabelSpace) -> NDArray[np.int64]:
    """Return the position of each box's class in its space; −1 for a number outside the space."""
    return raw.map_labels({word: _class(path, raw, source, word) for word in raw.words})


def _refuse_outside(path: Path | str, raw: RawDetections, source: LabelSpace, own: NDArray[np.int64]) -> None:
    """Refuse numbers outside their label space. Other readings of the numbers were checked before."""
    outside = np.flatnonzero(own < 0)
    if len(outside):
        row = int(outside[0])
        raise InvalidFile(
            path,
            f"category {raw.words[int(raw.label[row])]} is outside {source.name} (0–{len(source) - 1})",
            where=raw.where(row),
            hint="declare the space with <<box_space>>, or give categories with id and name",
        )


def _childless(path: Path | str, raw: RawDetections, source: LabelSpace, chosen: Projection) -> tuple[int, ...]:
    """Return the dataset's classes that no class of the file maps to.

    The file's classes are its listed categories, if any.
    """
    if raw.categories is None:
        return chosen.childless
    rows = [_category(path, index, row)[1] for index, row in enumerate(raw.categories)]
    listed = {source.index(name) for name in rows if name in source}
    return tuple(place for place, group in enumerate(chosen.children) if not listed & set(group))


def _source(path: Path | str, raw: RawDetections, target: LabelSpace, declared: str | LabelSpace | None) -> LabelSpace:
    listed = listed_space(path, raw, target)
    if listed is not None:
        return listed
    requested = declared or raw.space
    if requested is None or requested == target.name:
        return target
    if isinstance(requested, LabelSpace):
        return requested
    with in_file(path, where="space"):
        return space(requested)


def listed_space(path: Path | str, raw: RawDetections, target: LabelSpace | None = None) -> LabelSpace | None:
    """Return the space of the file's categories: the target, a shipped one, or its own. None without categories."""
    if raw.categories is not None:
        names = [_category(path, index, row)[1] for index, row in enumerate(raw.categories)]
        shipped = [space(one) for one in ("coco-80", "voc", "open-images")]
        for candidate in shipped if target is None else [target, *shipped]:
            if all(name in candidate for name in names):
                return candidate
        return LabelSpace.of_names(Path(path).stem, names)
    return None


def _category(path: Path | str, place: int, row: Any) -> tuple[Any, str]:
    try:
        return row["id"], str(row["name"])
    except (KeyError, TypeError) as error:
        raise InvalidFile(path, "expected a category with id and name", where=f"categories[{place}]") from error


def _class(path: Path | str, raw: RawDetections, source: LabelSpace, word: Any) -> int:
    where = raw.where_label(word)
    if isinstance(word, str):
        with in_file(path, where=where):
            return source.index(word)
    if raw.categories is not None:
        names = dict(_category(path, index, row) for index, row in enumerate(raw.categories))
        if word not in names:
            raise InvalidFile(path, f"category {word} is not among the file's {len(names)} categories", where=where)
        return source.index(names[word])
    if not isinstance(word, int) or isinstance(word, bool):
        raise InvalidFile(path, f"expected a class number, id or name, got {printable(word)!r}", where=where)
    return word if 0 <= word < len(source) else -1
