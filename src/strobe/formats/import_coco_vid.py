"""COCO video JSON: videos, images with video_id and frame_id, annotations with instance_id or track_id.

The YouTube-VIS form (videos with file_names, annotations with one box per frame) is supported too.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import read_json
from strobe.core.labels import LabelSpace
from strobe.formats.registry import LABEL_SPACE, FormatOption, ImportFormat
from strobe.formats.sampled import (
    FrameBox,
    FrameContents,
    ImportedDataset,
    ImportSampling,
    Origin,
    SourceVideo,
    import_sampled,
    label_space_for,
)
from strobe.store.bring_media import ImportOptions

_MOST = 10**9
"""The upper limit for frame numbers, sizes and tracks. Larger values mean a damaged file."""


@dataclass
class _Clip:
    name: str
    fps: Fraction | None
    keys: dict[int, str] = field(default_factory=dict)
    sizes: dict[int, tuple[int, int]] = field(default_factory=dict)
    boxes: dict[int, list[FrameBox]] = field(default_factory=lambda: defaultdict(list))
    flat: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    """Labels without a box: labels of the whole image, or of boxes without an area."""


def import_coco_vid(
    source: Path,
    target: Path,
    *,
    images: Path | None,
    label_space: str | None,
    draw: ImportSampling,
    how: ImportOptions,
) -> ImportedDataset:
    """Make candidate sets with labels, boxes and tracks. File names are relative to the folder `images`."""
    if source.is_dir():
        raise StrobeError(f"{printable(source)} is a folder; give the COCO video JSON and <<images=FOLDER>>")
    data = read_json(source)
    if not isinstance(data, dict):
        raise InvalidFile(source, "expected a JSON object with videos, images, annotations and categories")
    for name in ("videos", "annotations", "categories"):
        if not isinstance(data.get(name), list):
            raise InvalidFile(
                source, f"no list of {name}", hint="plain COCO has no videos; strobe build reads it with --boxes"
            )
    classes, chosen = _classes(source, data["categories"], label_space)
    clips = _clips(source, data)
    n_flat = _annotate(source, data, clips, classes)
    videos = [
        SourceVideo(name=clip.name, keys=clip.keys, see=partial(_see, clip), fps=clip.fps)
        for clip in sorted(clips.values(), key=lambda clip: clip.name)
        if clip.keys
    ]
    root = images or _image_folder(source, clips)
    if how.media != "none" and not root.is_dir():
        raise StrobeError(f"no such folder: {printable(root)}; name the folder of the images with <<images>>")
    # A dataset with only labels (category_ids) and no boxes is not a detection dataset.
    origin = Origin(
        name=source.stem,
        format="coco-vid",
        label_space=chosen,
        media_root=root,
        with_boxes=bool(data["annotations"]),
        facts={"source": source.name},
    )
    done = import_sampled(videos, target, origin=origin, draw=draw, how=how)
    flat = (f"{n_flat} box(es) without an area were left out; their labels are kept",) if n_flat else ()
    return ImportedDataset(dataset=done.dataset, notes=(*done.notes, *flat))


def _image_folder(source: Path, clips: Mapping[Any, _Clip]) -> Path:
    """Return the default image folder.

    It is the folder of the JSON file, or images/ in that folder, to which `strobe export` writes.
    """
    first = next((key for clip in clips.values() for key in clip.keys.values()), "")
    inside = source.parent / "images"
    return inside if inside.is_dir() and not (source.parent / first).is_file() else source.parent


def _classes(path: Path, categories: Sequence[Any], requested: str | None) -> tuple[dict[Any, int], LabelSpace]:
    """Return the class of each category id, and the label space."""
    names: dict[Any, str] = {}
    for index, category in enumerate(categories):
        where = f"categories[{index}]"
        try:
            number, name = category["id"], str(category["name"])
            hash(number)
        except (KeyError, TypeError) as error:
            raise InvalidFile(path, "expected an object with id and name", where=where) from error
        if name in names.values() or number in names:
            raise InvalidFile(
                path, f"the category {printable(name)!r} ({printable(number)}) appears twice", where=where
            )
        names[number] = name
    if not names:
        raise InvalidFile(path, "no categories")
    chosen = label_space_for(list(names.values()), requested=requested, own_name=path.stem)
    return {number: chosen.index(name) for number, name in names.items()}, chosen


def _clips(path: Path, data: Mapping[str, Any]) -> dict[Any, _Clip]:
    clips: dict[Any, _Clip] = {}
    taken: set[str] = set()
    for place, video in enumerate(data["videos"]):
        where = f"videos[{place}]"
        try:
            number = video["id"]
            hash(number)
            name = str(video.get("name") or video.get("file_name") or number)
            fps = Fraction(str(video["fps"])) if video.get("fps") else None
            files, size = video.get("file_names"), _size(video)
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
            raise InvalidFile(path, "expected an object with id, name and perhaps fps", where=where) from error
        if number in clips or name in taken:
            raise InvalidFile(path, f"the video {printable(name)!r} ({printable(number)}) appears twice", where=where)
        taken.add(name)
        clips[number] = _Clip(name, fps)
        for index, file in enumerate(files or ()):
            clips[number].keys[index], clips[number].sizes[index] = str(file), size
    if not any(clip.keys for clip in clips.values()):
        _frames(path, data, clips)
    return clips


def _frames(path: Path, data: Mapping[str, Any], clips: Mapping[Any, _Clip]) -> None:
    if not isinstance(data.get("images"), list):
        raise InvalidFile(path, "there is no list of images, and videos have no file_names")
    for place, image in enumerate(data["images"]):
        where = f"images[{place}]"
        try:
            clip, index, key = clips.get(image["video_id"]), _frame_of(image), str(image["file_name"])
            size, known = _size(image), image["id"]
            hash(known)
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise InvalidFile(
                path,
                "expected an image with id, file_name, video_id and frame_id",
                where=where,
                hint="plain COCO has no videos; strobe build reads it with --boxes",
            ) from error
        if clip is None:
            raise InvalidFile(
                path, f"video_id {printable(image['video_id'])} is not in the list of videos", where=where
            )
        if type(index) is not int or not 0 <= index < _MOST or index in clip.keys:
            raise InvalidFile(
                path, f"frame_id {printable(index)} is not a frame number, or appears twice in its video", where=where
            )
        clip.keys[index], clip.sizes[index] = key, size


def _size(entry: Mapping[str, Any]) -> tuple[int, int]:
    width, height = (int(entry.get(side) or 0) for side in ("width", "height"))
    if not (0 <= width < _MOST and 0 <= height < _MOST):
        raise ValueError("the size is out of range")
    return width, height


def _frame_of(image: Mapping[str, Any]) -> Any:
    return image["frame_id"] if "frame_id" in image else image["frame_index"]


def _annotate(path: Path, data: Mapping[str, Any], clips: Mapping[Any, _Clip], classes: Mapping[Any, int]) -> int:
    """Put every box on its frame. Returns the number of boxes without an area."""
    owner = {
        image["id"]: (clips[image["video_id"]], _frame_of(image))
        for image in data.get("images") or ()
        if isinstance(image, dict) and "id" in image and image.get("video_id") in clips
    }
    for place, image in enumerate(data.get("images") or ()):
        # An extension of COCO that `strobe export` writes for labels without a box.
        try:
            for number in image.get("category_ids") or ():
                clip, index = owner[image["id"]]
                clip.flat[index].add(classes[number])
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidFile(
                path, "expected category_ids to be a list of known categories", where=f"images[{place}]"
            ) from error
    n_flat = 0
    for place, entry in enumerate(data["annotations"]):
        where = f"annotations[{place}]"
        try:
            label = classes[entry["category_id"]]
            track = int(entry.get("instance_id", entry.get("track_id", entry["id"] if "bboxes" in entry else -1)))
            if not -1 <= track < _MOST:
                raise ValueError("the track is out of range")
            crowd = bool(entry.get("iscrowd", 0))
            spots = list(_spots(entry, clips, owner))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InvalidFile(
                path,
                "expected a known image_id (or video_id), a known category_id, and a bbox of x, y, w, h",
                where=where,
            ) from error
        for clip, index, (x, y, w, h) in spots:
            if not all(abs(value) < 1e9 for value in (x, y, w, h)):
                raise InvalidFile(path, f"bbox {printable([x, y, w, h])} has a number that is not finite", where=where)
            if w > 0 and h > 0:
                clip.boxes[index].append(FrameBox(label=label, xyxy=(x, y, x + w, y + h), track=track, crowd=crowd))
            else:
                clip.flat[index].add(label)
                n_flat += 1
    return n_flat


def _spots(
    entry: Mapping[str, Any], clips: Mapping[Any, _Clip], owner: Mapping[Any, tuple[_Clip, int]]
) -> Iterator[tuple[_Clip, int, tuple[float, float, float, float]]]:
    if "bboxes" in entry:
        clip = clips[entry["video_id"]]
        for index, box in enumerate(entry["bboxes"]):
            if box is not None:
                x, y, w, h = map(float, box)
                yield clip, index, (x, y, w, h)
        return
    clip, index = owner[entry["image_id"]]
    x, y, w, h = map(float, entry["bbox"])
    yield clip, index, (x, y, w, h)


def _see(clip: _Clip, index: int) -> FrameContents:
    boxes = tuple(clip.boxes.get(index, ()))
    labels = {box.label for box in boxes} | clip.flat.get(index, set())
    return FrameContents(labels=tuple(sorted(labels)), boxes=boxes, size_wh=clip.sizes.get(index, (0, 0)))


FORMAT = ImportFormat(
    read=import_coco_vid,
    about="COCO video JSON (videos, images with frame_id, annotations with instance_id), or YouTube-VIS JSON.",
    example="annotations.json data/mine --images images/",
    options=(
        FormatOption(
            name="images",
            kind=Path,
            help="The folder that file names are relative to. Default: the folder of the JSON, or images/ in it.",
        ),
        LABEL_SPACE,
    ),
    draw=True,
)
