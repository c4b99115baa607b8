"""A folder of frames per video: SRC/<video>/<frame>.jpg, with labels, boxes and anchors from other files.

If every name in a video ends in a distinct number, that number is the frame's index, and a missing frame leaves a gap.
Otherwise the index is the frame's position in name order.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from strobe.core.errors import InvalidFile, InvalidValue, StrobeError, printable
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

if TYPE_CHECKING:
    from strobe.build.labels import AnchorRow, BoxRow, LabelRow


IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".gif")

NamesAt = Callable[[int, Fraction | None], Sequence[str]]
"""Returns a frame's label names. Its arguments are the frame's index and, if fps is known, its time in seconds."""


def find_frames(source: Path) -> dict[str, dict[int, str]]:
    """Return video name → index → path relative to the source. Videos are folders with images, at any depth."""
    if not source.is_dir():
        raise StrobeError(f"no such folder: {printable(source)}; give a folder with one folder of frames per video")
    by_folder: dict[Path, list[Path]] = {}
    for path in sorted(source.rglob("*")):
        if path.suffix.lower() in IMAGE_ENDINGS and path.is_file() and not path.name.startswith("."):
            by_folder.setdefault(path.parent, []).append(path)
    if not by_folder:
        links = [path for path in sorted(source.rglob("*")) if path.is_symlink() and path.is_dir()]
        unseen = f"; strobe does not follow links to folders, such as {printable(links[0])}" if links else ""
        raise StrobeError(
            f"no images under {printable(source)}; expected <video>/<frame>.jpg (or png, webp, …){unseen}"
        )
    if source in by_folder:
        raise StrobeError(
            f"{printable(by_folder[source][0])} is not in a video folder; expected <video>/<frame>.jpg below "
            f"{printable(source)}"
        )
    return {
        folder.relative_to(source).as_posix(): {
            index: path.relative_to(source).as_posix() for index, path in indexed(paths).items()
        }
        for folder, paths in by_folder.items()
    }


def indexed(paths: Sequence[Path]) -> dict[int, Path]:
    """Return the frames of one folder by index: the number at the end of the name, else the position."""
    found = [re.search(r"(\d+)$", path.stem) for path in paths]
    numbers = [int(match[1]) for match in found if match and len(match[1]) < 12]
    if len(set(numbers)) != len(paths):
        return dict(enumerate(paths))
    return dict(sorted(zip(numbers, paths, strict=True)))


def are_masks(paths: Sequence[Path]) -> bool:
    """Return whether images are masks, as far as three of them show: at most 16 grey levels or palette colours."""
    from PIL import Image

    for path in (paths[0], paths[len(paths) // 2], paths[-1]):
        try:
            with Image.open(path) as image:
                if image.mode in ("1", "L", "P") and image.getcolors(maxcolors=16) is not None:
                    return True
        except (OSError, ValueError, Image.DecompressionBombError):
            continue  # reading the frame reports it
    return False


def _without_masks(
    source: Path, frames: dict[str, dict[int, str]], note: Callable[[str], None]
) -> dict[str, dict[int, str]]:
    """Return the videos without folders of masks, such as those of DAVIS, unless nothing would be left."""
    masks = [video for video, keys in frames.items() if are_masks([source / key for key in keys.values()])]
    if not masks or len(masks) == len(frames):
        return frames
    note(f"folders of masks are not imported: {len(masks)}, first {printable(masks[0])}")
    return {video: keys for video, keys in frames.items() if video not in masks}


def _see(
    label_space: LabelSpace,
    names_at: NamesAt,
    boxes: Mapping[int, Sequence[FrameBox]],
    fps: Fraction | None,
    index: int,
) -> FrameContents:
    mine = tuple(boxes.get(index, ()))
    named = [label_space.index(name) for name in names_at(index, index / fps if fps else None)]
    return FrameContents(labels=tuple(dict.fromkeys([*named, *(box.label for box in mine)])), boxes=mine)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameFiles:
    """Files that annotate the frames: a CSV of labels (or the classes that every video shows), boxes, anchors."""

    labels: Path | None = None
    label: tuple[str, ...] = ()
    boxes: Path | None = None
    anchors: Path | None = None
    label_space: str | None = None
    label_source: Literal["frame", "anchor"] = "frame"
    fps: Fraction | None = None


def read_frames(
    source: Path, target: Path, *, files: FrameFiles, draw: ImportSampling, how: ImportOptions
) -> ImportedDataset:
    """Read a folder of frames per video, with labels, boxes and anchors in the file formats of `strobe build`."""
    from strobe.build.labels import by_video, read_anchors, read_boxes, read_labels

    frames = _without_masks(source, find_frames(source), how.progress.note)
    places = {name: source / name for name in frames}
    labels_path = files.labels
    if labels_path is None and not files.label and (source / "labels.csv").is_file():
        labels_path = source / "labels.csv"
    boxes: dict[str, list[BoxRow]] = {name: [] for name in frames}
    if files.boxes is not None:
        boxes = by_video(files.boxes, places, read=read_boxes)
    labels: dict[str, list[LabelRow]] = {name: [] for name in frames}
    if labels_path is not None:
        labels = by_video(labels_path, places, read=read_labels)
    said = {row.label for rows in labels.values() for row in rows} | {b.label for rows in boxes.values() for b in rows}
    names = sorted(said | set(files.label))
    if not names:
        raise StrobeError(
            f"the frames have no labels; put labels.csv (video,label) into {printable(source)}, or use "
            "<<labels>>, <<label>> or <<boxes>>"
        )
    chosen = label_space_for(names, requested=files.label_space, own_name=target.resolve().name)
    bare = [name for name in frames if not (labels[name] or boxes[name] or files.label)]
    if bare:
        raise StrobeError(
            f"{printable(labels_path or files.boxes)}: no label for {len(bare)} of {len(frames)} video(s), first "
            f"{printable(bare[0])}; add a row, or move the folder out of {printable(source)}"
        )
    for name, rows in labels.items():
        _check_labels(rows, frames[name], fps=files.fps)
    if files.anchors is not None:
        given = by_video(files.anchors, places, read=read_anchors)
        unnamed = [name for name, rows in given.items() if not rows]
        if unnamed:
            raise InvalidFile(
                files.anchors,
                f"has no anchor for {len(unnamed)} of {len(frames)} video(s), first {printable(unnamed[0])}",
                hint=f"add a row for each, or move their folders out of {printable(source)}",
            )
        anchors = {name: [_anchor(row, files.anchors, files.fps) for row in rows] for name, rows in given.items()}
        draw = ImportSampling(k=draw.k, seed=draw.seed, anchors=anchors)
    videos = []
    for video, keys in sorted(frames.items()):
        names_at, boxes_at = _names_at(labels[video], files.label), _boxes_by_frame(boxes[video], chosen)
        see = partial(_see, chosen, names_at, boxes_at, files.fps)
        videos.append(SourceVideo(name=video, keys=keys, see=see, fps=files.fps))
    origin = Origin(
        name=printable(target.resolve().name) or "frames",
        format="frames",
        label_space=chosen,
        media_root=source,
        label_source=files.label_source,
        with_boxes=any(boxes.values()),
    )
    return import_sampled(videos, target, origin=origin, draw=draw, how=how)


def _names_at(rows: "Sequence[LabelRow]", always: tuple[str, ...]) -> NamesAt:
    def at(index: int, time_s: Fraction | None) -> list[str]:
        return [*always, *(row.label for row in rows if row.covers(index, time_s))]

    return at


def _boxes_by_frame(rows: "Sequence[BoxRow]", label_space: LabelSpace) -> dict[int, list[FrameBox]]:
    out: dict[int, list[FrameBox]] = {}
    for row in rows:
        box = FrameBox(
            label=label_space.index(row.label), xyxy=row.xyxy, track=row.track, crowd=row.crowd, size_wh=row.size_wh
        )
        out.setdefault(row.frame, []).append(box)
    return out


def _check_labels(rows: "Sequence[LabelRow]", keys: Mapping[int, str], *, fps: Fraction | None) -> None:
    for row in rows:
        if row.frame is not None and row.frame not in keys:
            raise StrobeError(
                f"{printable(row.where)}: label at frame {row.frame}, but the video has frames {min(keys)}–{max(keys)}"
            )
        if row.start_s is not None and fps is None:
            raise StrobeError(f"{printable(row.where)}: a span in seconds needs <<fps>>")
        if row.start_s is not None and fps is not None and row.start_s * fps > max(keys):
            raise StrobeError(
                f"{printable(row.where)}: the span begins at {float(row.start_s):g} s, after the last frame "
                f"({float(max(keys) / fps):g} s); check <<fps>>"
            )


def _anchor(row: "AnchorRow", path: Path, fps: Fraction | None) -> int:
    if row.frame is not None:
        return row.frame
    if fps is None or row.time_s is None:
        raise InvalidFile(path, "an anchor in seconds needs <<fps>>", where=row.where)
    return int(row.time_s * fps)


def _fps(text: str) -> Fraction:
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if value <= 0:
        raise InvalidValue(f"expected a positive number or fraction, got {printable(text)!r}")
    return value


FORMAT = ImportFormat(
    read=read_frames,
    about="A folder of frames per video: SRC/<video>/<frame>.jpg, with labels from a CSV file.",
    example="clips/ data/mine --labels labels.csv --fps 30",
    options=(
        FormatOption(
            name="labels",
            kind=Path,
            help="CSV video,label. Add frame or start_s,end_s to label a part. Default: SRC/labels.csv.",
        ),
        FormatOption(name="label", several=True, help="A class that every frame shows. May be repeated."),
        FormatOption(
            name="boxes", kind=Path, help="CSV video,frame,label,x0,y0,x1,y1[,track,crowd] in pixels, or COCO JSON."
        ),
        FormatOption(
            name="anchors",
            kind=Path,
            help="CSV video,frame of the anchors to use. Default: one random anchor per video.",
        ),
        LABEL_SPACE,
        FormatOption(
            name="label_source",
            kind=("frame", "anchor"),
            default="frame",
            help="Score a member with the labels of its own frame or of its anchor.",
        ),
        FormatOption(
            name="fps", kind=_fps, help="Frames per second, e.g. 25 or 30000/1001. Required if labels use times."
        ),
    ),
    record=FrameFiles,
    draw=True,
    outside="frames",
)
