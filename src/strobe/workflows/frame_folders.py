"""Folders of numbered frames in `strobe eval`: each folder is a video without labels."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from strobe.core.dataset import Dataset, joined
from strobe.core.errors import StrobeError, printable
from strobe.core.files import sha256_of_file
from strobe.core.labels import LabelSpace
from strobe.core.ports import Progress
from strobe.formats.import_frames import IMAGE_ENDINGS, are_masks, indexed
from strobe.formats.importing import into, with_hints
from strobe.formats.sampled import FrameContents, ImportedDataset, ImportSampling, Origin, SourceVideo, import_sampled
from strobe.store import dataset_folder as folder
from strobe.store.bring_media import ImportOptions

_MOST_GAPS = 0.1
"""The largest share of steps between neighbouring numbers that may differ from the usual step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameFolders:
    """Folders of frames below `root`: video name → frame index → path relative to the root.

    `left_out` has the reason for each folder of images that is not used.
    """

    root: Path
    frames: Mapping[str, Mapping[int, str]]
    left_out: tuple[str, ...] = ()


def frame_folders(sources: Sequence[Path]) -> FrameFolders:
    """Find the folders of numbered frames in these folders, at any depth.

    A folder counts if its images are numbered in even steps and have one size. Otherwise it has single photos, and
    answers to different photos must differ. Masks are left out as well.
    """
    images: dict[Path, list[Path]] = {}
    for source in sources:
        for path in sorted(source.rglob("*")) if source.is_dir() else ():
            hidden = any(part.startswith(".") for part in path.relative_to(source).parts)
            if not hidden and path.suffix.lower() in IMAGE_ENDINGS and path.is_file():
                images.setdefault(path.parent.resolve(), []).append(path.resolve())
    reasons = {path: _not_frames(paths) for path, paths in images.items()}
    used = [path for path, why in reasons.items() if why is None]
    root = Path(os.path.commonpath([path.parent for path in used])) if used else Path()
    return FrameFolders(
        root=root,
        frames={
            path.relative_to(root).as_posix(): {
                index: frame.relative_to(root).as_posix()
                for index, frame in enumerate(indexed(sorted(set(images[path]))).values())
            }
            for path in used
        },
        left_out=tuple(f"{printable(path)}: {why}" for path, why in reasons.items() if why is not None),
    )


def _not_frames(paths: Sequence[Path]) -> str | None:
    """Return why these images of one folder are not the frames of a video, or None if they are."""
    from PIL import Image

    if len(paths) < 2:
        return "a single image, not the frames of a video"
    numbers = list(indexed(paths))
    steps = [after - before for before, after in pairwise(numbers)]
    usual = max(set(steps), key=steps.count)
    stems = {path.stem.rstrip("0123456789") for path in paths}
    if len(stems) > 1 or not paths[0].stem[-1:].isdigit() or steps.count(usual) < (1 - _MOST_GAPS) * len(steps):
        return "its images are not numbered frame by frame, so they are photos and not a video"
    sizes = set()
    for path in (paths[0], paths[len(paths) // 2], paths[-1]):
        try:
            with Image.open(path) as image:
                sizes.add(image.size)
        except (OSError, ValueError, Image.DecompressionBombError):
            continue  # reading the frame reports it
    if are_masks(paths):
        return "its images have at most 16 colours, so they are masks"
    return "its images have different sizes, so they are photos and not a video" if len(sizes) > 1 else None


def import_folders(
    found: FrameFolders,
    target: Path,
    *,
    k: int,
    every: int,
    label_space: LabelSpace,
    facts: Mapping[str, Any],
    name: str,
    progress: Progress,
    beside: Dataset | None = None,
) -> ImportedDataset:
    """Write a dataset without labels: sets that cover each folder, their images linked (or copied to another disk).

    With a dataset `beside`, which is already in the target, the folders are added to it.
    """
    videos = [
        SourceVideo(name=video, keys=keys, see=partial(_nothing, video)) for video, keys in sorted(found.frames.items())
    ]
    draw = ImportSampling(
        k=k,
        anchors={video.name: range(min(k, (len(video.keys) - 1) // 2), len(video.keys), every) for video in videos},
        unlabelled=True,
    )
    origin = Origin(
        name=name,
        format="frames",
        label_space=label_space,
        media_root=found.root,
        label_source="anchor",
        facts={**facts, "settings": {"sampling": {"k": k, "every": every}}},
    )
    how = ImportOptions(media="link", hints=True, progress=progress)

    def sampled(how: ImportOptions) -> ImportedDataset:
        return import_sampled(videos, target, origin=origin, draw=draw, how=how)

    if beside is None:
        return into(target, how, sampled)
    made = with_hints(sampled(how), target, progress)
    both = joined([beside, made.dataset], info=beside.info, root=target)
    folder.write(both, target, overwrite=True)
    return replace(made, dataset=both)


def _nothing(video: str, index: int) -> FrameContents:  # noqa: ARG001 (the signature of `SourceVideo.see`)
    """Return the annotations of an unlabelled frame."""
    return FrameContents()


def check_same_frames(dataset: Dataset, found: FrameFolders, *, run: str) -> None:
    """Raise StrobeError if a frame of the dataset differs from the file that is in its place now."""
    stored = dataset.frames.media != ""
    for key, digest in zip(dataset.frames.key[stored].tolist(), dataset.frames.sha256[stored].tolist(), strict=True):
        path = found.root / key
        if not path.is_file() or sha256_of_file(path) != digest:
            raise StrobeError(
                f"{printable(path)} is not the frame that {run} was made with; choose another folder with <<out>>"
            )
