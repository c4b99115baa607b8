"""Facts that the two public releases lack and people have: boxes from annotations, and times and types from videos.

Both are checked against the release. Annotations must cover every frame and agree with its labels. A video must have
every frame that the release names.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.labels import LabelSpace, space
from strobe.core.ports import Progress
from strobe.core.readings import read_as
from strobe.formats.sampled import FrameContents

_MOST_DIFFERENT = 0.01
"""The largest share of frames whose annotation may contradict the release, for example after a correction."""


_WHOLE = 1.01
"""The largest coordinate that still counts as a fraction of the image."""

Shares = list[tuple[int, tuple[float, float, float, float], int]]
"""The boxes of a frame as fractions of the image: class, corners, number of the object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatedFrames:
    """The contents of each annotated frame by its key, and notes on differences from the release."""

    contents: Mapping[str, FrameContents]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoFacts:
    """The frame rate and length of a video, and (time, type) of the frames that the release uses, by index."""

    fps: Fraction | None = None
    n_frames: int | None = None
    frames: Mapping[int, tuple[Fraction | None, str]] = field(default_factory=dict)

    def at(self, index: int) -> tuple[Fraction | None, str]:
        """Return the time and the type (I, P, B) of a frame, None and an empty text if they are unknown."""
        return self.frames.get(index, (None, ""))


UNKNOWN_VIDEO = VideoFacts()


def read_vid_annotations(folder: Path, labels: Mapping[str, Sequence[int]], *, progress: Progress) -> AnnotatedFrames:
    """Return the boxes of ILSVRC's XML files for frames `val/<video>/<frame>.JPEG`, checked against their labels.

    `folder` is the ILSVRC folder, or any folder below it that holds `val/` or the videos.
    """
    from strobe.annexes.releases.imagenet_vid import read_annotation

    files = _xml_files(folder, labels)
    missing = [key for key, path in files.items() if not path.is_file()]
    if missing:
        raise StrobeError(
            f"{len(missing):,} of {len(labels):,} frames have no XML under {printable(folder)}, first "
            f"{printable(files[missing[0]])}; the release has videos of ILSVRC 2015 and of 2017, so give the "
            "annotations of ILSVRC 2017, or of both in one folder"
        )
    classes, contents = space("imagenet-vid"), dict[str, FrameContents]()
    with progress.task("annotations", len(files)) as advance:
        for key, path in files.items():
            contents[key] = read_annotation(path, classes)
            advance(1)
    seen = {key: content.labels for key, content in contents.items()}
    notes = check_labels(folder, labels, seen, classes, what="XML annotations")
    bare = [key for key, one in contents.items() if one.labels and not one.boxes]
    if len(bare) > _MOST_DIFFERENT * len(labels):
        raise InvalidFile(
            files[bare[0]],
            f"none of its objects has a box with an area, as in {len(bare):,} of {len(labels):,} files",
            hint="are xmin and xmax, or ymin and ymax, swapped?",
        )
    if bare:
        notes.append(f"{len(bare):,} frame(s) have objects without a box, first {printable(bare[0])}")
    return AnnotatedFrames(contents=contents, notes=tuple(notes))


def read_ytbb_boxes(path: Path, labels: Mapping[tuple[str, int], Sequence[int]]) -> dict[tuple[str, int], Shares]:
    """Return the boxes of Youtube-BB's CSV at every listed moment (YouTube id, ms): (class, x0, y0, x1, y1, object).

    The CSV gives xmin, xmax, ymin, ymax as fractions of the image. A time may differ from the list by 1 ms.
    """
    from strobe.annexes.releases.youtube_bb import detection_rows

    classes, boxes = space("youtube-bb"), dict[tuple[str, int], Shares]()
    n_read = n_bad = 0
    first = ""
    for where, video, time_ms, name, number, (x0, x1, y0, y1) in detection_rows(path):
        moment = next(((video, time) for time in (time_ms, time_ms - 1, time_ms + 1) if (video, time) in labels), None)
        if moment is None:
            continue
        n_read += 1
        if max(x0, x1, y0, y1) > _WHOLE or min(x0, x1, y0, y1) < 1 - _WHOLE or x1 <= x0 or y1 <= y0:
            n_bad += 1
            first = first or f"{where}: xmin {x0:g}, xmax {x1:g}, ymin {y0:g}, ymax {y1:g}"
            continue
        boxes.setdefault(moment, []).append((classes.index(name), (x0, y0, x1, y1), number))
    if n_bad > _MOST_DIFFERENT * n_read:
        raise InvalidFile(
            path,
            f"{n_bad:,} of {n_read:,} boxes at the release's anchors are not fractions of an image in the order xmin, "
            f"xmax, ymin, ymax; first {first}",
        )
    if not boxes:
        raise InvalidFile(path, "none of its boxes is at an anchor of the release", hint="is it the validation part?")
    return boxes


def check_labels(
    path: Path,
    labels: Mapping[str, Sequence[int]],
    seen: Mapping[str, Sequence[int]],
    classes: LabelSpace,
    *,
    what: str,
) -> list[str]:
    """Return notes on frames whose annotated classes differ from the release's labels.

    Raises InvalidFile if more than a hundredth of the frames have no class in common, because the annotations then
    belong to other frames or list their classes in another order.
    """
    apart = [key for key in labels if key in seen and not set(seen[key]) & set(labels[key])]
    differ = [key for key in labels if key in seen and set(seen[key]) != set(labels[key])]

    def words(places: Sequence[int]) -> str:
        return ", ".join(classes.names[place] for place in places) or "nothing"

    if len(apart) > _MOST_DIFFERENT * len(seen):
        first = apart[0]
        raise InvalidFile(
            path,
            f"its classes contradict the release in {len(apart):,} of {len(seen):,} frames; first {printable(first)}: "
            f"{words(seen[first])} instead of {words(labels[first])}",
            hint="are these the annotations of the same frames?",
        )
    notes = [f"{what}: {len(seen):,} of {len(labels):,} frames, {len(seen) - len(differ):,} with the release's classes"]
    if differ:
        notes.append(
            f"{len(differ):,} frame(s) have other classes in the annotations, first {printable(differ[0])}: "
            f"{words(seen[differ[0]])} instead of {words(labels[differ[0]])}; the release's labels are used for "
            "classification, and the annotated boxes for detection"
        )
    return notes


def check_sizes(path: Path, seen: Mapping[str, FrameContents], sizes: Mapping[str, tuple[int, int]]) -> tuple[str, ...]:
    """Return the guess that annotations belong to their frames, if they do not name the frames themselves.

    Raises InvalidFile if more than a hundredth of the annotations give another size than the image (`sizes`) has.
    """
    known = [key for key in seen if all(sizes.get(key, (0, 0)))]
    other = [key for key in known if seen[key].size_wh != sizes[key]]
    if len(other) > _MOST_DIFFERENT * len(known):
        wrong, right = ("×".join(map(str, one[other[0]])) for one in ({k: s.size_wh for k, s in seen.items()}, sizes))
        raise InvalidFile(
            path,
            f"its sizes contradict {len(other):,} of {len(known):,} images; first {printable(other[0])}: {wrong} "
            f"instead of {right}",
            hint="are these the annotations of the same frames?",
        )
    unnamed = [key for key in seen if not seen[key].is_named]
    if not unnamed:
        return ()
    compared = f"classes and {len(known):,} sizes" if known else "classes"
    reason = f"{len(unnamed):,} of {len(seen):,} files do not name their frame and video; only {compared} were compared"
    return (read_as("annotations", "those of the same frames", reason),)


def read_video_facts(
    folder: Path, wanted: Mapping[str, Sequence[int]], *, progress: Progress
) -> tuple[dict[str, VideoFacts], tuple[str, ...]]:
    """Return the facts of every video `<name>.mp4` (or mkv, …) below the folder, for the wanted frames of each.

    A video that is missing, unreadable or too short is skipped, and a note counts these videos.
    """
    from strobe.annexes.releases.youtube_bb import find_videos
    from strobe.build.decode import Reader

    paths = find_videos(folder)
    facts: dict[str, VideoFacts] = {}
    problems: list[str] = []
    with progress.task("videos", len(wanted)) as advance:
        for name, indices in wanted.items():
            try:
                if name not in paths:
                    raise StrobeError(f"{printable(name)} is not in the folder")
                with Reader.open(paths[name]) as reader:
                    index = reader.index
                    if max(indices) >= len(index):
                        raise StrobeError(
                            f"{printable(name)} has {len(index)} frames, but frame {max(indices)} is used"
                        )
                    frames = {frame.index: (frame.time_s, frame.pict_type) for frame in reader.frames(indices)}
                    facts[name] = VideoFacts(fps=index.fps, n_frames=len(index), frames=frames)
            except StrobeError as error:
                problems.append(str(error))
            advance(1)
    if not facts:
        raise StrobeError(f"no video under {printable(folder)} fits the release: {problems[0]}")
    notes = [f"frame rate, times and frame types: {len(facts):,} of {len(wanted):,} videos"]
    if problems:
        notes.append(f"{len(problems):,} video(s) were not used, first: {problems[0]}")
    return facts, tuple(notes)


def _xml_files(folder: Path, keys: Iterable[str]) -> dict[str, Path]:
    """Return the XML file of every frame: the first place of its video's folder below the usual roots."""
    if not folder.is_dir():
        raise StrobeError(
            f"no such folder: {printable(folder)}; give the folder with Annotations/VID with <<annotations>>"
        )
    roots = [folder, folder / "VID", folder / "Annotations/VID"]
    roots += [path / "Annotations/VID" for path in sorted(folder.iterdir()) if path.is_dir()]
    folders: dict[str, Path] = {}
    files: dict[str, Path] = {}
    for key in keys:
        split, video, frame = (["", *key.split("/")])[-3:]
        if video not in folders:
            places = [root / part for root in roots for part in (f"{split}/{video}", video)]
            folders[video] = next((place for place in places if place.is_dir()), places[0])
        files[key] = (folders[video] / frame).with_suffix(".xml")
    return files
