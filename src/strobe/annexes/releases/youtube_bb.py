"""Youtube-BoundingBoxes: its CSV (no header) and a folder of videos named by their YouTube id.

Detection rows are `youtube_id,timestamp_ms,class_id,class_name,object_id,object_presence,xmin,xmax,ymin,ymax`.
Classification rows have the first four columns and `object_presence`. Labels exist once per second, so members are
scored with their anchor's labels. This module decodes no video. It returns the video, the moment and the labels of each
anchor.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from strobe.core.builder import frame_list_digest
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import reading, regular
from strobe.core.labels import space
from strobe.core.readers import gunzip

_VIDEO_ENDINGS = (".mp4", ".mkv", ".webm", ".mov", ".m4v", ".flv", ".avi", ".ts", ".3gp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An anchor by its time, and its annotated labels."""

    video: str
    time_ms: int
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class YoutubeBb:
    """The anchors of the available videos (by YouTube id), and notes about missing videos."""

    videos: Mapping[str, Path]
    anchors: tuple[Moment, ...]
    notes: tuple[str, ...]


def find_csv(source: Path) -> Path:
    """Return the only CSV in a folder, or the file itself."""
    if source.is_file():
        return source
    if not regular(source).is_dir():
        raise StrobeError(f"no such file or folder: {printable(source)}")
    files = sorted(path for path in source.iterdir() if path.name.endswith((".csv", ".csv.gz")))
    if len(files) != 1:
        names = ", ".join(path.name for path in files[:4]) or "none"
        raise StrobeError(
            f"expected one annotation CSV in {printable(source)}, found {printable(names)}; give the CSV itself as SRC"
        )
    return files[0]


def find_videos(folder: Path) -> dict[str, Path]:
    """Return videos by YouTube id: files named <id>.mp4 (or mkv, webm, …), at any depth."""
    if not folder.is_dir():
        raise StrobeError(f"no such folder: {printable(folder)}; name the folder of the videos with <<videos>>")
    videos: dict[str, Path] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in _VIDEO_ENDINGS and path.is_file():
            if path.stem in videos:
                raise StrobeError(
                    f"{printable(videos[path.stem])} and {printable(path)} have the same name; keep one of them"
                )
            videos[path.stem] = path
    if not videos:
        raise StrobeError(f"no videos under {printable(folder)}; expected <youtube id>.mp4 (or mkv, webm, …)")
    return videos


def read_youtube_bb(table: Path, videos: Mapping[str, Path], *, anchors: Path | None, seed: int) -> YoutubeBb:
    """Return the given anchors (CSV `ytid,time_ms,label`), or one sampled labelled moment per video.

    The notes give the number of videos that are not in the table, and of listed videos that are missing.
    """
    seen = _moments(table)
    if anchors is None:
        chosen = [_drawn(video, moments, seed) for video, moments in seen.items() if video in videos]
        source, absent = table, len(set(seen) - set(videos))
    else:
        given = list(_given(anchors, seen))
        chosen = [moment for moment in given if moment.video in videos]
        source, absent = anchors, len({moment.video for moment in given} - set(videos))
    if not chosen:
        first = next(iter(seen), "none")
        raise StrobeError(
            f"none of the {len(videos)} videos is annotated in {printable(source)}; videos must be named by their "
            f"YouTube id, such as {printable(first)}.mp4"
        )
    used = {moment.video for moment in chosen}
    notes = []
    if absent:
        notes.append(f"{absent} annotated video(s) are not in the folder")
    strangers = sorted(set(videos) - used)
    if strangers:
        notes.append(f"{len(strangers)} video(s) have no anchor and were left out, first {printable(strangers[0])}")
    chosen.sort(key=lambda moment: (moment.video, moment.time_ms))
    return YoutubeBb(videos={name: videos[name] for name in sorted(used)}, anchors=tuple(chosen), notes=tuple(notes))


def _rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    with reading(path):
        content = gunzip(path) if path.suffix == ".gz" else regular(path).read_bytes()
        reader = csv.reader(io.StringIO(content.decode("utf-8-sig")), strict=True)
        for row in reader:
            if row:
                yield f"line {reader.line_num}", [value.strip() for value in row]


def _moments(path: Path) -> dict[str, dict[int, tuple[str, ...]]]:
    """Return video → time in ms → the classes present, in file order."""
    out: dict[str, dict[int, tuple[str, ...]]] = {}
    for _, row, name in _present(path):
        moments = out.setdefault(row[0], {})
        moments[int(row[1])] = tuple(dict.fromkeys((*moments.get(int(row[1]), ()), name)))
    if not out:
        raise InvalidFile(path, "no row marks an object as present")
    return out


def detection_rows(path: Path) -> Iterator[tuple[str, str, int, str, int, tuple[float, float, float, float]]]:
    """Yield every present object: place in the file, YouTube id, ms, class, number, and xmin, xmax, ymin, ymax."""
    for where, row, name in _present(path):
        if len(row) != 10:
            raise InvalidFile(path, "it has no boxes; give the detection CSV (10 fields a row)", where=where)
        try:
            xmin, xmax, ymin, ymax = (float(value) for value in row[6:])
            number = int(row[4])
        except ValueError as error:
            raise InvalidFile(path, "expected numbers for the object and its box", where=where) from error
        yield where, row[0], int(row[1]), name, number, (xmin, xmax, ymin, ymax)


def _present(path: Path) -> Iterator[tuple[str, list[str], str]]:
    """Yield the rows of present objects, after a check of every row: place in the file, fields, class."""
    names = set(space("youtube-bb").names)
    for where, row in _rows(path):
        if row[0] == "youtube_id":
            continue
        if len(row) not in (5, 10):
            raise InvalidFile(path, f"{len(row)} fields; Youtube-BB rows have 10 (detection) or 5", where=where)
        name, presence = row[3].replace("_", " "), row[5] if len(row) == 10 else row[4]
        if not row[1].isdecimal() or len(row[1]) > 12:
            raise InvalidFile(path, f"the time is not a number of milliseconds: {printable(row[1])!r}", where=where)
        if name not in names:
            raise InvalidFile(path, f"{printable(name)!r} is not a class of youtube-bb", where=where)
        if presence not in ("present", "absent", "uncertain"):
            raise InvalidFile(
                path, f"object_presence is {printable(presence)!r}; expected present or absent", where=where
            )
        if presence == "present" and name != "none":
            yield where, row, name


def _drawn(video: str, moments: Mapping[int, tuple[str, ...]], seed: int) -> Moment:
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, int(frame_list_digest([video]), 16)])))
    time_ms = sorted(moments)[int(rng.integers(len(moments)))]
    return Moment(video=video, time_ms=time_ms, labels=moments[time_ms])


def listed_anchors(path: Path) -> dict[tuple[str, int], tuple[str, ...]]:
    """Return the labels of every listed moment (YouTube id, ms), from a CSV `ytid,time_ms,label` (22 means car)."""
    labels = space("youtube-bb")
    labels_of: dict[tuple[str, int], tuple[str, ...]] = {}
    for where, row in _rows(path):
        if row[0] == "ytid":
            continue
        if len(row) != 3 or not row[1].isdecimal() or len(row[1]) > 12 or not row[2].isdecimal():
            raise InvalidFile(path, "expected ytid,time_ms,label with labels 0–22 (22 is car)", where=where)
        if int(row[2]) > 22:
            raise InvalidFile(path, f"label {row[2]} is outside 0–22", where=where)
        name = "car" if int(row[2]) == 22 else labels.names[int(row[2])]
        key = (row[0], int(row[1]))
        labels_of[key] = tuple(dict.fromkeys((*labels_of.get(key, ()), name)))
    if not labels_of:
        raise InvalidFile(path, "it contains no anchors")
    return labels_of


def _given(path: Path, seen: Mapping[str, Mapping[int, tuple[str, ...]]]) -> Iterator[Moment]:
    """Return the listed anchors, with their labels and the table's labels at the same moment."""
    for (video, time_ms), names in listed_anchors(path).items():
        also = seen.get(video, {}).get(time_ms, ())
        yield Moment(video=video, time_ms=time_ms, labels=tuple(dict.fromkeys((*names, *also))))
