"""ImageNet-Vid-Robust as it was released: metadata/{pmsets,labels}.json and val/<video>/<frame>.JPEG."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strobe.annexes.releases.release_facts import UNKNOWN_VIDEO, check_sizes, read_vid_annotations, read_video_facts
from strobe.core.builder import DatasetBuilder, frame_list_digest
from strobe.core.dataset import DatasetInfo
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import read_json
from strobe.core.labels import space
from strobe.formats.registry import FormatOption, ImportFormat
from strobe.formats.sampled import FrameContents, ImportedDataset
from strobe.store.bring_media import ImportOptions

_K = 10


def import_vid_robust(
    source: Path,
    target: Path,
    *,
    annotations: Path | None = None,
    videos: Path | None = None,
    how: ImportOptions,
) -> ImportedDataset:
    """Import the released sets. Members have their own labels.

    `annotations` is the folder of ILSVRC's XML files, which add boxes. `videos` is the folder of ILSVRC's snippets,
    which add frame rates, times and frame types. Media are put into target/media, and the caller writes the tables.
    """
    if not source.is_dir():
        raise StrobeError(f"no such folder: {printable(source)}; give the release's folder (with metadata/ and val/)")
    pmsets_path, labels_path = _find(source, "pmsets.json"), _find(source, "labels.json")
    pmsets, labels = read_json(pmsets_path), read_json(labels_path)
    _check(pmsets_path, pmsets, labels_path, labels)
    by_video: dict[str, list[str]] = {}
    for key in labels:
        by_video.setdefault(_video(labels_path, key), []).append(key)
    indices = {name: [_index(labels_path, key) for key in keys] for name, keys in by_video.items()}
    facts, notes = ({}, ()) if videos is None else read_video_facts(videos, indices, progress=how.progress)
    seen: Mapping[str, FrameContents] = {}
    if annotations is not None:
        annotated = read_vid_annotations(annotations, labels, progress=how.progress)
        seen, notes = annotated.contents, (*annotated.notes, *notes)
    files = how.files(source, target, labels)
    if annotations is not None:
        notes = (*notes, *check_sizes(annotations, seen, {key: size for key, (_, size) in files.items()}))

    grown = DatasetBuilder()
    rows_of_videos = {}
    for name, keys in by_video.items():
        known = facts.get(name, UNKNOWN_VIDEO)
        rows_of_videos[name] = grown.video(
            video_id=frame_list_digest(sorted(keys)),
            name=name,
            fps=known.fps,
            n_frames=known.n_frames,
        )
    row = {}
    for key, classes in labels.items():
        name, index = _video(labels_path, key), _index(labels_path, key)
        time_s, pict_type = facts.get(name, UNKNOWN_VIDEO).at(index)
        digest, size = files.get(key, ("", seen[key].size_wh if key in seen else (0, 0)))
        row[key] = grown.frame(
            video=rows_of_videos[name],
            index=index,
            key=key,
            time_s=time_s,
            pict_type=pict_type,
            sha256=digest,
            size_wh=size,
            media=f"media/{key}" if files else "",
            labels=classes,
        )
        for box in seen[key].boxes if key in seen else ():
            grown.box(frame=row[key], label=box.label, xyxy=box.xyxy, track=box.track, declared_wh=seen[key].size_wh)
    for anchor, members in pmsets.items():
        origin = _index(pmsets_path, anchor)
        grown.set(
            set_id=anchor,
            anchor=row[anchor],
            members=[(row[member], _index(pmsets_path, member) - origin) for member in members],
        )
    notes = (*notes, *grown.check_boxes())
    info = DatasetInfo(
        name="imagenet-vid-robust",
        label_space=space("imagenet-vid"),
        k=_K,
        label_source="frame",
        reviewed="release",
        licence="ImageNet terms of access (non-commercial research); not distributed with strobe",
        provenance={
            "format": "imagenet-vid-robust",
            "media": how.media != "none",
            **({"notes": list(notes)} if notes else {}),
        },
    )
    return ImportedDataset(dataset=grown.build(info, root=target), notes=notes)


def _find(source: Path, name: str) -> Path:
    for path in (source / "metadata" / name, source / name):
        if path.is_file():
            return path
    raise StrobeError(f"{printable(source)} has no metadata/{name}; give the folder of the imagenet-vid-robust release")


def _check(pmsets_path: Path, pmsets: Any, labels_path: Path, labels: Any) -> None:
    if not isinstance(labels, dict) or not labels:
        raise InvalidFile(labels_path, "expected {frame: [class numbers]}")
    if not isinstance(pmsets, dict) or not pmsets:
        raise InvalidFile(pmsets_path, "expected {anchor: [neighbour frames]}")
    n_classes = len(space("imagenet-vid"))
    for key, classes in labels.items():
        if not isinstance(classes, list) or not classes:
            raise InvalidFile(labels_path, "expected a list of class numbers", where=key)
        _video(labels_path, key), _index(labels_path, key)
        for label in classes:
            if type(label) is not int or not 0 <= label < n_classes:
                raise InvalidFile(labels_path, f"label {printable(label)} is outside 0–{n_classes - 1}", where=key)
    for anchor, members in pmsets.items():
        if not isinstance(members, list):
            raise InvalidFile(pmsets_path, "expected a list of frames", where=anchor)
        for key in (anchor, *members):
            if not isinstance(key, str) or key not in labels:
                raise InvalidFile(pmsets_path, f"frame {printable(key)} has no label in labels.json", where=anchor)
        if len(set(members)) != len(members) or anchor in members:
            raise InvalidFile(pmsets_path, "a frame appears twice, or the anchor is its own neighbour", where=anchor)
        video, origin = _video(pmsets_path, anchor), _index(pmsets_path, anchor)
        for key in members:
            if _video(pmsets_path, key) != video:
                raise InvalidFile(pmsets_path, f"neighbour {printable(key)} belongs to another video", where=anchor)
            if abs(_index(pmsets_path, key) - origin) > _K:
                raise InvalidFile(
                    pmsets_path, f"neighbour {printable(key)} is more than {_K} frames away", where=anchor
                )


def _video(path: Path, key: str) -> str:
    parts = key.split("/")
    if len(parts) < 2 or ".." in parts or key.startswith("/"):
        raise InvalidFile(path, f"expected val/<video>/<frame>.JPEG, got {printable(key)}")
    return parts[-2]


def _index(path: Path, key: str) -> int:
    stem = key.rsplit("/", 1)[-1].split(".")[0]
    if not stem.isdecimal() or len(stem) > 12:
        raise InvalidFile(path, f"expected a frame number, got {printable(key)}")
    return int(stem)


FORMAT = ImportFormat(
    read=import_vid_robust,
    about="ImageNet-Vid-Robust as released: SRC has metadata/{pmsets,labels}.json and val/<video>/<frame>.JPEG.",
    example="imagenet-vid-robust/ data/vid --annotations ILSVRC2017/ --no-media",
    options=(
        FormatOption(
            name="annotations",
            kind=Path,
            help="ILSVRC folder with Annotations/VID (XML). Adds boxes and tracks, so that detectors can be scored.",
        ),
        FormatOption(
            name="videos",
            kind=Path,
            help="Folder of ILSVRC's snippets, <video>.mp4. Adds frame rates, times and frame types.",
        ),
    ),
)
