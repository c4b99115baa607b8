"""Read people's annotations of videos: labels, boxes and given anchors, from CSV or COCO JSON.

A row names its video by file name, with or without the suffix. Times are seconds from the first displayed frame.
"""

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, TypeVar

from strobe.build.index import VideoIndex
from strobe.core.errors import InvalidFile, InvalidValue, UnknownName, printable
from strobe.core.files import read_json, reading
from strobe.core.labels import LabelSpace, shipped_spaces, space


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRow:
    """A label of a whole video, of a time span (both ends included) or of one frame."""

    video: str
    label: str
    frame: int | None = None
    start_s: Fraction | None = None
    end_s: Fraction | None = None
    where: str = ""

    def covers(self, frame: int, time_s: Fraction | None) -> bool:
        """Return whether the label applies to this frame.

        >>> row = LabelRow(video="a", label="dog", start_s=Fraction(1), end_s=Fraction(2))
        >>> row.covers(30, Fraction(1)), row.covers(75, Fraction(5, 2))
        (True, False)
        """
        if self.frame is not None:
            return self.frame == frame
        if self.start_s is None or self.end_s is None:
            return True
        return time_s is not None and self.start_s <= time_s <= self.end_s


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxRow:
    """A labelled box on one frame, in pixels of the upright frame with square pixels.

    `size_wh` is the frame size given in the file, or (0, 0) if the file gives no size.
    """

    video: str
    frame: int
    label: str
    xyxy: tuple[float, float, float, float]
    track: int = -1
    crowd: bool = False
    size_wh: tuple[int, int] = (0, 0)
    where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorRow:
    """A given anchor: a frame by its index, or the frame displayed at a time."""

    video: str
    frame: int | None = None
    time_s: Fraction | None = None
    where: str = ""

    def place(self, index: VideoIndex) -> int:
        """Return the index of the anchor's frame, which for a time is the last frame displayed at or before it."""
        last = len(index) - 1
        if self.frame is not None:
            if self.frame > last:
                raise InvalidValue(f"{self.where}: anchor at frame {self.frame}, but the video has frames 0–{last}")
            return self.frame
        times = [index.time_s(place) for place in range(len(index))]
        end = times[-1]
        if end is None or self.time_s is None:
            raise InvalidValue(f"{self.where}: the video has no timestamps; give the anchor's frame number")
        # The last frame is displayed for about as long as the frame before it.
        shown = end - (times[-2] or 0) if last else Fraction(1)
        if self.time_s >= end + shown:
            raise InvalidValue(
                f"{self.where}: anchor at {float(self.time_s):g} s, but the video ends at {float(end):.3f} s"
            )
        return max(place for place, time in enumerate(times) if time is not None and time <= self.time_s)


def read_labels(path: Path) -> tuple[LabelRow, ...]:
    """Read a CSV with the columns video, label and, for a part of the video, frame or start_s and end_s.

    Several labels are given in several rows, or in one row as `dog|cat`.
    """
    rows = []
    for where, row in _csv_rows(path, needed=("video", "label"), known=("frame", "start_s", "end_s")):
        frame = _number(path, where, row, "frame", int)
        start, end = _number(path, where, row, "start_s", Fraction), _number(path, where, row, "end_s", Fraction)
        if (start is None) != (end is None):
            raise InvalidFile(path, "a span needs both start_s and end_s", where=where)
        if start is not None and end is not None and end < start:
            raise InvalidFile(path, f"the span ends ({row['end_s']}) before it starts ({row['start_s']})", where=where)
        if start is not None and frame is not None:
            raise InvalidFile(path, "the row has both a frame and a span; give only one", where=where)
        names = [name.strip() for name in row["label"].split("|") if name.strip()]
        if not names:
            raise InvalidFile(path, "the label is empty", where=where)
        rows += [
            LabelRow(
                video=row["video"], label=name, frame=frame, start_s=start, end_s=end, where=f"{path.name}, {where}"
            )
            for name in names
        ]
    return tuple(rows)


def read_label_space(name: str | LabelSpace) -> LabelSpace:
    """Return the label space with this name, or the classes in a file: one class per line, or a JSON list."""
    if isinstance(name, LabelSpace):
        return name
    path = Path(name)
    if name in shipped_spaces():
        return space(name)
    if not path.suffix and not path.exists():
        raise UnknownName("label space", name, shipped_spaces(), hint="or give a file with one class per line")
    if path.suffix.lower() == ".json":
        data = read_json(path)
        if not isinstance(data, list) or not all(isinstance(one, str) and one.strip() for one in data):
            raise InvalidFile(path, 'expected a list of class names such as ["cat", "dog"]')
        named = [(f"entry {index}", one.strip()) for index, one in enumerate(data, 1)]
    else:
        with reading(path, hint="write one class per line"):
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        named = [(f"line {place}", line.strip()) for place, line in enumerate(lines, 1) if line.strip()]
    if not named:
        raise InvalidFile(path, "it has no classes", hint="write one class per line")
    first: dict[str, str] = {}
    for where, label in named:
        if first.setdefault(label, where) != where:
            raise InvalidFile(path, f"the class {printable(label)!r} is already on {first[label]}", where=where)
    return LabelSpace.of_names(f"classes of {printable(path.name)}", list(first))


def read_anchors(path: Path) -> tuple[AnchorRow, ...]:
    """Read a CSV with the columns video and frame, or video and time_s."""
    rows = []
    for where, row in _csv_rows(path, needed=("video",), known=("frame", "time_s")):
        frame, time = _number(path, where, row, "frame", int), _number(path, where, row, "time_s", Fraction)
        if (frame is None) == (time is None):
            raise InvalidFile(path, "give either frame or time_s", where=where)
        rows.append(AnchorRow(video=row["video"], frame=frame, time_s=time, where=f"{path.name}, {where}"))
    return tuple(rows)


def read_boxes(path: Path) -> tuple[BoxRow, ...]:
    """Read boxes from a CSV (video, frame, label, x0, y0, x1, y1[, track, crowd]) or from COCO JSON."""
    if path.suffix.lower() == ".json":
        return tuple(_coco_boxes(path, read_json(path)))
    rows = []
    corners = ("x0", "y0", "x1", "y1")
    for where, row in _csv_rows(path, needed=("video", "frame", "label", *corners), known=("track", "crowd")):
        frame = _number(path, where, row, "frame", int)
        if frame is None:
            raise InvalidFile(path, "the frame is empty", where=where)
        track = _number(path, where, row, "track", int)
        try:
            x0, y0, x1, y1 = (float(row[name]) for name in corners)
        except ValueError as error:
            raise InvalidFile(path, f"a corner is not a number ({error})", where=where) from error
        rows.append(
            _checked_box(
                path,
                BoxRow(
                    video=row["video"],
                    frame=frame,
                    label=row["label"],
                    xyxy=(x0, y0, x1, y1),
                    track=-1 if track is None else track,
                    crowd=row.get("crowd", "").lower() in ("1", "true", "yes"),
                    where=where,
                ),
            )
        )
    return tuple(rows)


def _checked_box(path: Path, box: BoxRow) -> BoxRow:
    x0, y0, x1, y1 = box.xyxy
    if not (x1 > x0 and y1 > y0 and abs(x0) + abs(y0) + x1 + y1 < float("inf")):
        raise InvalidFile(path, f"a box needs x1 > x0 and y1 > y0, got {box.xyxy}", where=box.where)
    if not abs(box.track) < 2**63:
        raise InvalidFile(path, f"the track {printable(box.track)} is out of range", where=box.where)
    return box


def _coco_boxes(path: Path, data: Any) -> Iterator[BoxRow]:
    """Read boxes from a COCO file. An image gives its frame by video_id and frame_id, or file_name VIDEO/000012.jpg."""
    place = "images"
    try:
        names = {row["id"]: str(row["name"]) for row in data["categories"]}
        videos = {row["id"]: str(row.get("name") or row["file_name"]) for row in data.get("videos", ())}
        frames, sizes = {}, {}
        for number, image in enumerate(data["images"]):
            place = f"images[{number}]"
            frames[image["id"]] = _coco_frame(path, place, image, videos)
            sizes[image["id"]] = int(image.get("width") or 0), int(image.get("height") or 0)
        for number, entry in enumerate(data["annotations"]):
            place = f"annotations[{number}]"
            video, frame = frames[entry["image_id"]]
            x, y, width, height = (float(value) for value in entry["bbox"])
            box = BoxRow(
                video=video,
                frame=frame,
                label=names[entry["category_id"]],
                xyxy=(x, y, x + width, y + height),
                track=int(entry.get("track_id", entry.get("instance_id", -1))),
                crowd=bool(entry.get("iscrowd", 0)),
                size_wh=sizes[entry["image_id"]],
                where=place,
            )
            yield _checked_box(path, box)
    except KeyError as error:
        raise InvalidFile(path, f"{error} is missing or unknown", where=place, hint="is it COCO JSON?") from error
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidFile(path, f"not in COCO's format ({error})", where=place, hint="is it COCO JSON?") from error


def _coco_frame(path: Path, place: str, image: Mapping[str, Any], videos: Mapping[Any, str]) -> tuple[str, int]:
    for field in ("frame_id", "frame_index"):
        if "video_id" in image and field in image:
            return videos[image["video_id"]], int(image[field])
    found = re.fullmatch(r"(?:.*/)?([^/]+)/(\d+)\.\w+", str(image.get("file_name", "")))
    if not found:
        raise InvalidFile(path, "no video_id and frame_id, and file_name is not VIDEO/000012.jpg", where=place)
    return found[1], int(found[2])


class _Row(Protocol):
    @property
    def video(self) -> str: ...


AnyRow = TypeVar("AnyRow", bound=_Row)


def by_video(
    source: Path | Sequence[AnyRow], videos: Mapping[str, Path], *, read: Callable[[Path], Sequence[AnyRow]]
) -> dict[str, list[AnyRow]]:
    """Return the rows (from a file or given directly) of each video by its name. An unknown video is an error.

    A row may also give the file's name or path. If it matches two videos, the error suggests unambiguous names.
    """
    known: dict[str, list[str]] = {}
    for name, path in videos.items():
        for word in dict.fromkeys((path.stem, path.name, str(path))):
            known.setdefault(word, []).append(name)
    known |= {name: [name] for name in videos}
    grouped: dict[str, list[AnyRow]] = {name: [] for name in videos}
    strangers: dict[str, None] = {}
    for row in read(source) if isinstance(source, Path) else source:
        names = known.get(row.video, [])
        if len(names) > 1:
            raise InvalidFile(
                source if isinstance(source, Path) else "rows given",
                f"{printable(row.video)!r} matches {len(names)} videos",
                hint=f"write {' or '.join(printable(name) for name in names[:3])}, or its path as given",
            )
        if names:
            grouped[names[0]].append(row)
        else:
            strangers[row.video] = None
    if strangers:
        examples = ", ".join(printable(name) for name in list(strangers)[:3])
        ours = ", ".join(printable(name) for name in list(videos)[:3])
        raise InvalidFile(
            source if isinstance(source, Path) else "rows given",
            f"names {len(strangers)} video(s) that were not given: {examples}{', …' if len(strangers) > 3 else ''}",
            hint=f"the given videos are {ours}{', …' if len(videos) > 3 else ''}; add the others, or remove the rows",
        )
    return grouped


def eligible_frames(rows: Sequence[LabelRow], index: VideoIndex) -> list[int] | None:
    """Return the frames with a label, from which anchors are sampled; None means all frames.

    Raises InvalidValue if a row is outside the video.
    """
    for row in rows:
        _check_inside(row, index)
    if not rows or any(row.frame is None and row.start_s is None for row in rows):
        return None
    if all(row.frame is not None for row in rows):
        return sorted({row.frame for row in rows if row.frame is not None})
    times = [index.time_s(place) for place in range(len(index))]
    return [place for place, time in enumerate(times) if any(row.covers(place, time) for row in rows)]


def _check_inside(row: LabelRow, index: VideoIndex) -> None:
    last = len(index) - 1
    if row.frame is not None and row.frame > last:
        raise InvalidValue(f"{row.where}: label at frame {row.frame}, but the video has frames 0–{last}")
    if row.start_s is None or row.end_s is None:
        return
    end = index.time_s(last)
    if end is None:
        raise InvalidValue(f"{row.where}: the video has no timestamps; label it by frame")
    if row.start_s > end:
        raise InvalidValue(
            f"{row.where}: the span {float(row.start_s):g}–{float(row.end_s):g} s is outside the video "
            f"(0–{float(end):.3f} s)"
        )


def overlong_spans(rows: Sequence[LabelRow], index: VideoIndex) -> list[str]:
    """Return a note for every span that ends after the video.

    The part inside the video is used, but the span may have been meant for another video.
    """
    last = len(index) - 1
    end = index.time_s(last)
    if end is None:
        return []
    # The last frame is displayed for about as long as the frame before it; half a millisecond is added for rounded
    # times.
    over = end + (end - (index.time_s(last - 1) or 0) if last else Fraction(1)) + Fraction(1, 2000)
    spans = {(row.start_s, row.end_s) for row in rows if row.start_s is not None and row.end_s is not None}
    return [
        f"the span {float(start):g}–{float(stop):g} s ends after the video ({float(end):.3f} s)"
        for start, stop in sorted(spans)
        if stop > over
    ]


def labels_at(rows: Sequence[LabelRow], frame: int, time_s: Fraction | None) -> list[str]:
    """Return the labels of a frame, each once, in file order."""
    return list(dict.fromkeys(row.label for row in rows if row.covers(frame, time_s)))


def _csv_rows(path: Path, *, needed: tuple[str, ...], known: tuple[str, ...]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (location, row) of a CSV file. The header is checked first, and values are stripped."""
    with reading(path), path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        header = [name.strip() for name in reader.fieldnames or ()]
        reader.fieldnames = header
        missing = [name for name in needed if name not in header]
        if missing:
            raise InvalidFile(
                path,
                f"the column {missing[0]!r} is missing from the header {printable(','.join(header))!r}",
                where="line 1",
                hint=f"expected {','.join(needed)} and, optionally, {','.join(known)}",
            )
        for row in reader:
            where = f"line {reader.line_num}"
            if None in row or None in row.values():
                raise InvalidFile(path, f"expected {len(header)} values", where=where)
            values = {name: (value or "").strip() for name, value in row.items()}
            if not any(values.values()):
                continue
            if not values["video"]:
                raise InvalidFile(path, "the video is empty", where=where)
            yield where, values


Number = TypeVar("Number", int, Fraction)


def _number(
    path: Path, where: str, row: Mapping[str, str], name: str, convert: Callable[[str], Number]
) -> Number | None:
    text = row.get(name, "")
    if not text:
        return None
    try:
        value = convert(text)
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise InvalidFile(path, f"{name} is not a number: {printable(text)!r}", where=where) from error
    if value < 0:
        raise InvalidFile(path, f"{name} is negative: {printable(text)}", where=where)
    return value
