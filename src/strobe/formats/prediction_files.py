"""Parse files of predictions or boxes (JSON, JSONL, CSV or Parquet) into names and values, without validating these."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import Answers
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import json_of, read_json, reading
from strobe.core.labels import LabelSpace
from strobe.core.parquet import numbers_of, read_bounded
from strobe.formats.frame_matching import FrameRef
from strobe.models.forms import declared_form
from strobe.store.brought import Absent

BoxFormat = Literal["auto", "xyxy", "xywh", "cxcywh"]
"""Corners, corner and size, or centre and size. `auto` assumes the file format's convention and checks it."""

BoxUnits = Literal["auto", "pixels", "normalised"]
"""Pixels of the stored frame, or fractions of its width and height. `auto` assumes pixels and checks this."""

Kind = Literal["auto", "logits", "probabilities", "labels"]
"""The type of a file's values. `auto` takes the declared type, or guesses it from the values."""

Answered = TypeVar("Answered", bound=Answers, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """Options that supply facts which prediction files may lack.

    `space` and `box_space` are the classes of files of scores and of boxes: the name of a shipped label space, or your
    own. `box_images` is a COCO JSON file, such as the ground truth, whose images and categories define the numbers in
    the results. With `allow_missing`, missing frames are unscored instead of an error.
    """

    merge: str = "max"
    kind: Kind = "auto"
    space: str | LabelSpace | None = None
    allow_missing: bool = False
    ignore_extra: bool = False
    box_space: str | LabelSpace | None = None
    box_images: Path | None = None
    box_format: BoxFormat = "auto"
    box_units: BoxUnits = "auto"
    absent: Absent = "error"


AS_DECLARED = FileOptions()
"""The options for a file that declares or shows everything itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionFile(Generic[Answered]):
    """The content of a file: answers in the order of the dataset's frames, the facts stored with them, and notes."""

    answers: Answered
    facts: Mapping[str, str]
    notes: tuple[str, ...]


def out_of_reach(label_space: LabelSpace, childless: Sequence[int]) -> dict[str, str]:
    """Return the classes to which no class of a file maps, as a fact to store with the answers."""
    return {"childless": json.dumps([label_space.ids[place] for place in childless])} if childless else {}


_KINDS = (None, "logits", "probabilities", "labels")


@dataclass
class RawPredictions:
    """A file's content: a value (a class, or a row of scores) per frame, and its declarations."""

    frames: list[str]
    values: Sequence[Any]
    kind: str | None = None
    space: str | None = None
    columns: list[str] | None = None
    """The class names of a CSV's score columns."""
    form: Mapping[str, str] = field(default_factory=dict)
    """What the file declares about a form of another model (strobe.models.forms)."""


def read_raw(path: Path) -> RawPredictions:
    """Read the file by its suffix. Raises a one-line error if it cannot be parsed."""
    readers = {".json": _read_json, ".jsonl": _read_jsonl, ".csv": _read_csv, ".parquet": _read_parquet}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InvalidFile(path, f"unknown ending {printable(path.suffix)!r}", hint=f"expected {', '.join(readers)}")
    with reading(path):
        raw = reader(path)
    if raw.kind not in _KINDS:
        raise InvalidFile(path, f"kind {printable(raw.kind)!r}; expected logits, probabilities or labels", where="kind")
    return raw


def _read_json(path: Path) -> RawPredictions:
    seen_twice: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(items)
        if len(made) != len(items):
            seen: set[str] = set()
            for key, _ in items:
                if key in seen:
                    seen_twice.append(key)
                seen.add(key)
        return made

    data = read_json(path, pairs=pairs)
    if seen_twice:
        raise InvalidFile(
            path,
            f"frame {printable(seen_twice[0])!r} appears twice ({len(seen_twice)} duplicates)",
            hint="keep one of each",
        )
    if isinstance(data, dict) and "predictions" in data and isinstance(data["predictions"], dict):
        head, data = data, data["predictions"]
        return RawPredictions(
            list(data), list(data.values()), kind=head.get("kind"), space=head.get("space"),
            form=declared_form(head, str(path)),
        )  # fmt: skip
    if not isinstance(data, dict):
        raise InvalidFile(path, "expected a JSON object {frame: [scores]}")
    return RawPredictions(list(data), list(data.values()))


def _read_jsonl(path: Path) -> RawPredictions:
    frames: list[str] = []
    values: list[Any] = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                entry = json_of(line)
                frames.append(str(entry["frame"]))
                values.append(entry["scores"] if "scores" in entry else entry["label"])
            except ValueError as error:
                raise InvalidFile(path, f"not JSON ({printable(error, limit=80)})", where=f"line {number}") from error
            except (KeyError, TypeError) as error:
                raise InvalidFile(
                    path, 'expected {"frame": …, "scores": […]} or {"frame": …, "label": …}', where=f"line {number}"
                ) from error
    return RawPredictions(frames, values)


def _read_csv(path: Path) -> RawPredictions:
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        header = next(reader, [])
        if not header or header[0] != "frame" or len(header) < 2:
            raise InvalidFile(path, "expected a header frame,label or frame,<classes…>", where="line 1")
        columns = header[1:] if header[1:] != ["label"] else None
        frames: list[str] = []
        values: list[Any] = []
        for number, line in enumerate(reader, start=2):
            if not line:
                continue
            if len(line) != len(header):
                raise InvalidFile(path, f"{len(line)} fields, expected {len(header)}", where=f"line {number}")
            frames.append(line[0])
            if columns is None:
                values.append(int(line[1]) if line[1].lstrip("-").isdecimal() else line[1])
                continue
            try:
                values.append([float(value) for value in line[1:]])
            except ValueError as error:
                raise InvalidFile(path, f"not a number ({error})", where=f"line {number}") from error
    return RawPredictions(frames, values, columns=columns)


def _read_parquet(path: Path) -> RawPredictions:
    table, names = read_bounded(path, ("frame", "frame_id", "scores", "label"))
    key = next((name for name in ("frame", "frame_id") if name in names), None)
    value = next((name for name in ("scores", "label") if name in names), None)
    if key is None or value is None:
        raise InvalidFile(
            path, f"expected the columns frame and scores, or frame and label, got {printable(', '.join(names))}"
        )
    declared = {name.decode(): text.decode() for name, text in (table.schema.metadata or {}).items()}
    return RawPredictions(
        [str(name) for name in table.column(key).to_pylist()],
        _rows(table.column(value)),
        kind=declared.get("kind"),
        space=declared.get("space"),
        form=declared_form({**declared, "form": json_of(declared.get("form", "{}"))}, str(path)),
    )


def _rows(column: Any) -> Sequence[Any]:
    """Return the column's values. Scores of equal length become one matrix, without a Python object per number."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        values = column.combine_chunks()
        lengths = values.value_lengths() if not pa.types.is_fixed_size_list(kind) else None
        same = lengths is None or len(lengths.unique()) == 1
        flat = values.flatten()
        if same and len(values) and not values.null_count and not flat.null_count and pa.types.is_floating(flat.type):
            return list(_array(flat).reshape(len(values), -1))
    return list(column.to_pylist())


@dataclass
class RawDetections:
    """One row per box. `image` (N,) indexes `image_names`, and `label` indexes `words`."""

    image: NDArray[np.int64]
    label: NDArray[np.int64]
    box: NDArray[np.float64]
    score: NDArray[np.float64]
    image_names: list[Any]
    words: list[Any]
    is_xywh: bool
    unit: str
    """The name of a row in messages: `annotations` or `row`."""
    images: list[Any] | None = None
    categories: list[Any] | None = None
    videos: list[Any] | None = None
    images_are_answers: bool = False
    """Whether every listed image was processed, even if it has no boxes."""
    answered: list[Any] | None = None
    """The names of the images that have their own row, even if the row has no boxes."""
    space: str | None = None
    units: BoxUnits = "auto"
    form: BoxFormat = "auto"
    """The units and form that the file's format defines."""
    sparse: bool = False
    """Whether the format leaves frames without boxes out, so that a frame that is not there has no box."""

    def map_images(self, table: Mapping[Any, int]) -> NDArray[np.int64]:
        """Return the table's value for the image of each box."""
        return _through(self.image, self.image_names, table)

    def map_labels(self, table: Mapping[Any, int]) -> NDArray[np.int64]:
        """Return the table's value for the class of each box."""
        return _through(self.label, self.words, table)

    def where(self, row: int) -> str:
        """Describe a box by its position in the file and its image."""
        return f"{self.unit}[{row}] ({printable(self.image_names[int(self.image[row])])})"

    def where_label(self, word: Any) -> str:
        """Describe the first box with this class."""
        return self.where(int(np.flatnonzero(self.label == self.words.index(word))[0]))


def _through(codes: NDArray[np.int64], names: list[Any], table: Mapping[Any, int]) -> NDArray[np.int64]:
    values = np.array([table[name] for name in names], dtype=np.int64)
    return values[codes] if len(names) else np.zeros(0, dtype=np.int64)


class _Coder:
    """Assign a number to each name, in order of appearance."""

    def __init__(self) -> None:
        self.places: dict[Any, int] = {}

    def __call__(self, name: Any) -> int:
        return self.places.setdefault(name, len(self.places))

    @property
    def names(self) -> list[Any]:
        return list(self.places)


def read_raw_detections(path: Path) -> RawDetections:
    """Read the file's boxes by its suffix. Raises a one-line error if it cannot be parsed."""
    if path.suffix.lower() == ".json":
        return _read_coco(path)
    if path.suffix.lower() == ".parquet":
        return _read_box_parquet(path)
    raise InvalidFile(
        path, f"unknown ending {printable(path.suffix)!r}", hint="expected .json (COCO results) or .parquet"
    )


def _read_coco(path: Path) -> RawDetections:
    data = read_json(path)
    images = categories = videos = None
    declared = None
    if isinstance(data, dict):
        images, categories, declared = data.get("images"), data.get("categories"), data.get("space")
        videos = data.get("videos")
        for key in ("images", "categories", "videos"):
            if data.get(key) is not None and not isinstance(data[key], list):
                raise InvalidFile(path, f"{key} is not a list", where=key)
        data = data.get("annotations", data.get("predictions"))
    if isinstance(data, list) and videos is not None:
        data = [one for row in data for one in _along(path, row, videos)]
    if not isinstance(data, list):
        raise InvalidFile(path, "expected a list of results", hint='each {"image_id", "category_id", "bbox", "score"}')
    image, word = _Coder(), _Coder()
    columns = np.empty((len(data), 5))
    codes = np.empty((len(data), 2), dtype=np.int64)
    for index, row in enumerate(data):
        try:
            x, y, w, h = row["bbox"]
            columns[index] = (x, y, w, h, row["score"])
            codes[index] = image(row["image_id"]), word(row["category_id"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidFile(
                path,
                _problem(row, error),
                where=f"annotations[{index}]",
                hint="each result is image_id, category_id, bbox of four numbers, score",
            ) from error
    return RawDetections(
        image=codes[:, 0],
        label=codes[:, 1],
        box=columns[:, :4].copy(),
        score=columns[:, 4].copy(),
        image_names=image.names,
        words=word.names,
        is_xywh=True,
        unit="annotations",
        images=images,
        categories=categories,
        videos=videos,
        images_are_answers=images is not None,
        sparse=videos is not None and images is None,
        space=declared,
    )


def _along(path: Path, row: Any, videos: list[Any]) -> list[Any]:
    """Return a result for each frame of a track that has a box on many frames (`bboxes`); other rows are unchanged."""
    if not isinstance(row, dict) or not isinstance(row.get("bboxes"), list):
        return [row]
    video = next((one for one in videos if one.get("id") == row.get("video_id")), None)
    if video is None:
        raise InvalidFile(path, f"video {printable(row.get('video_id'))} is not among its {len(videos)} videos")
    files = video.get("file_names") or [""] * len(row["bboxes"])
    name = str(video.get("name") or video.get("file_name") or "")
    return [
        {**row, "bbox": box, "score": row.get("score", 1.0), "image_id": FrameRef(str(file), name, number)}
        for number, (file, box) in enumerate(zip(files, row["bboxes"], strict=False))
        if box
    ]


def _problem(row: Any, error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no {printable(error.args[0])}"
    return f"cannot be read as a result: {printable(row, limit=80)}"


def _read_box_parquet(path: Path) -> RawDetections:
    import pyarrow as pa

    corners = ("xyxy", "x0", "y0", "x1", "y1")
    table, names = read_bounded(path, ("frame", "frame_id", "image_id", "label", "score", *corners))
    declared = (table.schema.metadata or {}).get(b"space", b"").decode() or None
    key = next((name for name in ("frame", "frame_id", "image_id") if name in names), None)
    if key is None or "label" not in names or "score" not in names:
        raise InvalidFile(
            path,
            f"found the columns {', '.join(names)}",
            hint="expected frame, label, score, and either x0, y0, x1, y1 or xyxy",
        )
    frames = table.column(key).to_pylist()
    answered = None
    try:
        if "xyxy" in names:
            labels = table.column("label").to_pylist()
            counts = [0 if one is None else len(one) for one in labels]
            box = _flat(table, "xyxy").reshape(-1, 4)
            score = _flat(table, "score")
            answered = [frame for frame, one in zip(frames, labels, strict=True) if one is not None]
            frames = [frame for frame, n in zip(frames, counts, strict=True) for _ in range(n)]
            labels = [word for one in labels for word in one or ()]
        else:
            box = np.stack([_numbers(table, name) for name in ("x0", "y0", "x1", "y1")], axis=1)
            score, labels = _numbers(table, "score"), table.column("label").to_pylist()
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise InvalidFile(path, f"its columns cannot be read as boxes ({printable(error, limit=120)})") from error
    if not len(frames) == len(labels) == len(box) == len(score):
        raise InvalidFile(
            path, f"{len(box)} boxes, {len(labels)} labels and {len(score)} scores; the three numbers must be equal"
        )
    if len(set(answered or ())) != len(answered or ()):
        raise InvalidFile(path, "a frame appears twice", hint="write one row per frame")
    image, word = _Coder(), _Coder()
    for frame in answered or ():
        image(frame)
    codes = np.array([[image(frame), word(label)] for frame, label in zip(frames, labels, strict=True)], dtype=np.int64)
    codes = codes.reshape(-1, 2)
    return RawDetections(
        image=codes[:, 0],
        label=codes[:, 1],
        box=box,
        score=score,
        image_names=image.names,
        words=word.names,
        is_xywh=False,
        unit="row",
        answered=answered,
        space=declared,
    )


def _numbers(table: Any, name: str) -> NDArray[np.float64]:
    column = table.column(name)
    if column.null_count:
        raise StrobeError(f"column {name} has empty values")
    return np.asarray(_array(column), dtype=np.float64)


def _flat(table: Any, name: str) -> NDArray[np.float64]:
    """Return a column of lists as one array. Lists of four-element lists are flattened too."""
    column = table.column(name).combine_chunks().flatten()
    while hasattr(column, "flatten") and str(column.type).startswith(("list", "fixed_size_list", "large_list")):
        column = column.flatten()
    return np.asarray(_array(column), dtype=np.float64)


def _array(column: Any) -> NDArray[Any]:
    """Return a column as an array. pyarrow converts only columns with gaps or without numbers; it imports pandas."""
    import pyarrow as pa

    if column.null_count or not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        return np.asarray(whole.to_numpy(zero_copy_only=False))
    return numbers_of(column)
