"""A folder of frames per video: SRC/<video>/<frame>.jpg, with labels, boxes and anchors from other files.

If every name in a video ends in a distinct number, that number is the frame's index, and a missing frame leaves a gap.
Otherwise the index is the frame's position in name order.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Literal

from strobe.core.errors import StrobeError, printable
from strobe.core.labels import LabelSpace
from strobe.datasets.bring_media import ImportOptions
from strobe.datasets.sampled import (
    FrameBox,
    FrameContents,
    ImportedDataset,
    ImportSampling,
    Origin,
    SourceVideo,
    import_sampled,
)

__all__ = ["IMAGE_ENDINGS", "NamesAt", "find_frames", "import_frames"]

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
            index: path.relative_to(source).as_posix() for index, path in _indexed(paths).items()
        }
        for folder, paths in by_folder.items()
    }


def _indexed(paths: Sequence[Path]) -> dict[int, Path]:
    found = [re.search(r"(\d+)$", path.stem) for path in paths]
    numbers = [int(match[1]) for match in found if match and len(match[1]) < 12]
    if len(set(numbers)) != len(paths):
        return dict(enumerate(paths))
    return dict(sorted(zip(numbers, paths, strict=True)))


def import_frames(
    source: Path,
    target: Path,
    *,
    frames: Mapping[str, Mapping[int, str]],
    names_at: Mapping[str, NamesAt],
    boxes: Mapping[str, Mapping[int, Sequence[FrameBox]]],
    label_space: LabelSpace,
    label_source: Literal["frame", "anchor"],
    fps: Fraction | None,
    name: str,
    draw: ImportSampling,
    how: ImportOptions,
) -> ImportedDataset:
    """Return candidate sets. A frame's boxes also give its classes."""
    videos = [
        SourceVideo(
            name=video,
            keys=keys,
            see=partial(_see, label_space, names_at[video], boxes.get(video, {}), fps),
            fps=fps,
        )
        for video, keys in sorted(frames.items())
    ]
    origin = Origin(
        name=name, format="frames", label_space=label_space, media_root=source, label_source=label_source,
        with_boxes=any(boxes.values()),
    )  # fmt: skip
    return import_sampled(videos, target, origin=origin, draw=draw, how=how)


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
