"""Answers as Arrow columns: the format of shards, of stored external files and of messages between processes.

Scores that do not fit in memory are in a temporary file, which is read a few rows at a time.
"""

import hashlib
import os
import re
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from strobe.core.answers import Answers, BoxAnswers, ClassAnswers, State, task_of
from strobe.core.errors import InvalidFile, printable
from strobe.core.files import regular, replacing
from strobe.core.parquet import arrow_of, numbers_of, read_bounded
from strobe.core.scratch import making_room
from strobe.core.tasks import Task

MOST = 2**29
"""The largest number of bytes of scores in memory. Larger arrays go into a file."""

_DIGITS = 16
_DIGEST = re.compile(rf"\.([0-9a-f]{{{_DIGITS}}})\.parquet")

Matrix = NDArray[np.float32]


class ScoreFile:
    """A matrix (N, C) of float32 in a temporary file.

    Values that were not written are NaN. The system removes the file on exit.
    """

    def __init__(self, n: int, width: int) -> None:
        self.shape = (n, width)
        with making_room():
            self._file: IO[bytes] = tempfile.TemporaryFile(prefix="strobe-scores-")  # noqa: SIM115  # open until this object is deleted
            weakref.finalize(self, self._file.close)
            self._file.truncate(n * width * 4)
        self._written = np.zeros(n, dtype=bool)

    def __len__(self) -> int:
        return self.shape[0]

    def __setitem__(self, rows: NDArray[np.int64], values: Matrix) -> None:
        width = self.shape[1]
        for part in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(rows) != 1) + 1):
            if len(part):
                block = np.ascontiguousarray(values[part[0] : part[-1] + 1], dtype=np.float32)
                self._put(memoryview(block.tobytes()), int(rows[part[0]]) * width * 4)
        self._written[rows] = True

    def _put(self, left: memoryview, at: int) -> None:
        with making_room():
            while left:  # on a full disk, only a part is written, and the next call raises
                n = os.pwrite(self._file.fileno(), left, at)
                left, at = left[n:], at + n

    def __getitem__(self, rows: NDArray[np.int64], /) -> Matrix:
        width, requested = self.shape[1], np.asarray(rows)
        distinct, place = np.unique(np.where(requested < 0, requested + len(self), requested), return_inverse=True)
        out = np.empty((len(distinct), width), dtype=np.float32)
        for part in np.split(np.arange(len(distinct)), np.flatnonzero(np.diff(distinct) > 64) + 1):
            if len(part):
                first, last = int(distinct[part[0]]), int(distinct[part[-1]])
                raw = os.pread(self._file.fileno(), (last - first + 1) * width * 4, first * width * 4)
                out[part] = np.frombuffer(raw, dtype=np.float32).reshape(-1, width)[distinct[part] - first]
        out[~self._written[distinct]] = np.nan
        return out[place.reshape(requested.shape)]


def scores_of(n: int, width: int) -> Matrix | ScoreFile:
    """Return scores (N, C), filled with NaN, in memory or, if they would need too much memory, in a file."""
    return ScoreFile(n, width) if n * width * 4 > MOST else np.full((n, width), np.nan, dtype=np.float32)


Rows = NDArray[np.int64]
Columns = dict[str, pa.Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerShape:
    """The shape of answers to read: the model's name, the type of its scores, the numbers of frames and classes."""

    model: str
    kind: str
    n_frames: int
    n_classes: int
    reasons: dict[int, str] = field(default_factory=dict)
    every_box: bool = False
    """Whether to include boxes of classes outside the dataset."""


@dataclass(frozen=True, slots=True)
class TablePart:
    """A table read from `path`, and the dataset's row for each of its rows (−1: not used)."""

    path: Path
    table: pa.Table
    places: Rows


@dataclass(frozen=True, slots=True)
class Format:
    """The file format of one task's answers: how rows become columns, and how parts are merged."""

    columns: Callable[[Answers, Rows], Columns]
    answers: Callable[[AnswerShape, Iterable[TablePart]], Answers]

    def read(self, whole: AnswerShape, pieces: Iterable[TablePart], *, hint: str) -> Answers:
        """Merge the answers of parts in order. Raise a one-line error if the columns of a part are damaged."""
        at = Path(f"the answers of {whole.model}")

        def each() -> Iterator[TablePart]:
            nonlocal at
            for piece in pieces:
                at = piece.path
                yield piece

        with damaged_columns(lambda: at, hint=hint):
            return self.answers(whole, each())


@contextmanager
def damaged_columns(path: Path | Callable[[], Path], *, hint: str) -> Iterator[None]:
    """Turn an error about the columns of a file into one line that names the file."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, pa.ArrowException) as error:
        at = path() if callable(path) else path
        raise InvalidFile(at, f"its columns are damaged ({printable(error, limit=80)})", hint=hint) from error


def said_of(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    """Return what strobe wrote into a file's metadata."""
    own = {key.decode(): value.decode() for key, value in (metadata or {}).items() if key.startswith(b"strobe.")}
    return {key.removeprefix("strobe."): value for key, value in own.items()}


def write_named(path: Path, columns: Columns, said: Mapping[str, str]) -> Path:
    """Write a Parquet file in place of the file at `path`, atomically, with its digest in its name. Return its path."""
    content = parquet_of(columns, said)
    named = with_digest_in_name(path, hashlib.sha256(content).hexdigest())
    with replacing(named) as temporary:
        temporary.write_bytes(content)
        if path != named:
            path.unlink(missing_ok=True)  # remove the old shard first, because a frame in two shards is an error
    return named


def digest_in_name(path: Path) -> str | None:
    """Return the beginning of the file's digest, which is at the end of its name, if it has one."""
    found = _DIGEST.search(path.name)
    return found[1] if found else None


def with_digest_in_name(path: Path, sha256: str) -> Path:
    """Return the path with the file's digest in its name. Two shards with the same first and last frame thus differ."""
    return path.with_name(f"{path.name.partition('.')[0]}.{sha256[:_DIGITS]}.parquet")


def parquet_of(columns: Columns, said: Mapping[str, str]) -> pa.Buffer:
    """Return the bytes of a Parquet file with these columns and this metadata."""
    table = pa.table(columns).replace_schema_metadata({f"strobe.{key}": value for key, value in said.items()})
    # Scores hardly ever repeat, so dictionary encoding would make a shard 50 % larger.
    worth = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", use_dictionary=worth)
    return sink.getvalue()


def read_columns(
    path: Path, columns: list[str] | None = None, *, needs: Sequence[str] = (), hint: str, sha256: str | None = None
) -> pa.Table:
    """Return the file's table, or some of its columns. Raise a one-line error if it is unreadable or lacks a column.

    `sha256` is the beginning of the file's digest, if known. A file with another digest is damaged.
    """
    content = None if sha256 is None else _undamaged(path, sha256, hint=hint)
    table, _ = read_bounded(path, columns, content=content)
    try:
        for name in columns or needs:
            if not pa.types.is_string(table.schema.field(name).type):
                raise KeyError(f"{name} is not a text column")
        return table
    except KeyError as error:
        raise InvalidFile(path, f"not a readable Parquet file ({printable(error, limit=80)})", hint=hint) from error


def _undamaged(path: Path, sha256: str, *, hint: str) -> bytes:
    """Return the file in memory, checked against its digest before it is parsed."""
    if path.is_dir():
        raise InvalidFile(path, "a folder, not a file", hint=hint)
    content = regular(path).read_bytes()
    if not hashlib.sha256(content).hexdigest().startswith(sha256):
        raise InvalidFile(path, "damaged: its content does not match the digest stored with it", hint=hint)
    return content


# -- classes -----------------------------------------------------------------------------------------------------


def _class_shard(answers: Answers, rows: Rows) -> Columns:
    class_answers = cast("ClassAnswers", answers)
    if class_answers.scores is None or class_answers.own_label is None or class_answers.own_confidence is None:
        raise TypeError("a shard needs scores and the model's own best class")
    # A row with neither scores nor an error is an answer outside the classes.
    bad = class_answers.state[rows] != State.ANSWERED
    scores = class_answers.scores[rows].astype(np.float32)
    # Write NaN, because pyarrow before 25 cannot write null fixed-size lists, and before 26 cannot read them.
    scores[bad] = np.nan
    said = [class_answers.said.get(row) for row in rows.tolist()] if class_answers.said else []
    return {
        "scores": pa.FixedSizeListArray.from_arrays(pa.array(scores.ravel()), scores.shape[1]),
        "raw_label": pa.array(class_answers.own_label[rows].astype(np.int32), mask=bad),
        "raw_confidence": pa.array(class_answers.own_confidence[rows].astype(np.float32), mask=bad),
        "error": _reasons(answers, rows),
        **({"said": pa.array(said, pa.string())} if any(one is not None for one in said) else {}),
    }


def _reasons(answers: Answers, rows: Rows) -> pa.Array:
    return pa.array([answers.reasons.get(row) for row in rows.tolist()], pa.string())


def _classes_of_shards(shape: AnswerShape, pieces: Iterable[TablePart]) -> Answers:
    n = shape.n_frames
    scores = scores_of(n, shape.n_classes)
    own_label, own_confidence = np.full(n, -1, dtype=np.int32), np.full(n, np.nan, dtype=np.float32)
    seen, outside = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    said: dict[int, str] = {}
    for piece in pieces:
        good = piece.places >= 0
        if "said" in piece.table.column_names:
            texts = zip(piece.places.tolist(), piece.table.column("said").to_pylist(), strict=True)
            said |= {place: str(text) for place, text in texts if place >= 0 and text is not None}
        if shape.reasons:
            good &= ~np.isin(piece.places, list(shape.reasons))
        matrix, empty = _matrix(piece, "scores", shape.n_classes), _without(piece, "raw_label")
        if empty.any():
            empty &= np.isnan(matrix).all(axis=1)
        rows = piece.places[good & empty]
        seen[rows] = outside[rows] = True
        good &= ~empty
        rows = piece.places[good]
        scores[rows] = matrix[good].astype(np.float32, copy=False)
        own_label[rows] = _numbers(piece, "raw_label", good)
        own_confidence[rows] = _numbers(piece, "raw_confidence", good)
        seen[rows] = True
    answers = ClassAnswers.from_scores(
        shape.model,
        scores,
        kind=cast("Literal['logits', 'probabilities']", shape.kind),
        scored=seen,
        outside=outside,
        own_label=own_label,
        own_confidence=own_confidence,
        reasons=shape.reasons,
    )
    return replace(answers, said=said) if said else answers


def _without(piece: TablePart, name: str) -> NDArray[np.bool_]:
    """Return a mask of the rows without a value in the column."""
    return numbers_of(piece.table.column(name).is_null())


def _numbers(piece: TablePart, name: str, good: NDArray[np.bool_]) -> NDArray[np.int64] | NDArray[np.float32]:
    """Return the column's numbers in these rows. Raise an error if a number is missing."""
    if _without(piece, name)[good].any():
        raise InvalidFile(piece.path, f"{name} has rows without a value")
    return np.asarray(numbers_of(piece.table.column(name))[good])


def _matrix(piece: TablePart, name: str, n_classes: int) -> NDArray[np.float64] | NDArray[np.float32]:
    """Return a column of fixed-size lists as a matrix; a null row becomes NaN."""
    column = piece.table.column(name).combine_chunks()
    width = column.type.list_size
    if width != n_classes:
        raise InvalidFile(piece.path, f"has {width} scores per frame, but the dataset has {n_classes} classes")
    # `flatten` skips null rows and `values` keeps them. The bytes of null rows are arbitrary, so use `flatten`.
    flat = numbers_of(column.flatten()).reshape(-1, width)
    if not column.null_count:
        return flat
    out = np.full((len(column), width), np.nan, dtype=flat.dtype)
    out[~numbers_of(column.is_null())] = flat
    return out


def _class_file(answers: Answers, rows: Rows) -> Columns:
    class_answers = cast("ClassAnswers", answers)
    columns = {"label": arrow_of(pa, class_answers.label[rows].astype(np.int64))}
    if class_answers.scores is not None:
        flat = arrow_of(pa, class_answers.shares_of(rows).ravel())
        columns["probability"] = pa.FixedSizeListArray.from_arrays(flat, class_answers.scores.shape[1])
    if class_answers.own_label is not None:
        columns["raw_label"] = arrow_of(pa, class_answers.own_label[rows].astype(np.int32))
    return columns


def _classes_of_file(shape: AnswerShape, pieces: Iterable[TablePart]) -> Answers:
    label = np.full(shape.n_frames, -1, dtype=np.int64)
    state = np.full(shape.n_frames, State.MISSING, dtype=np.uint8)
    shares = best = None
    for piece in pieces:
        good = piece.places >= 0
        rows = piece.places[good]
        label[rows] = _numbers(piece, "label", good)
        if label[rows].max(initial=-1) >= shape.n_classes:
            raise InvalidFile(
                piece.path,
                f"has a class number above {shape.n_classes - 1}, but the dataset has {shape.n_classes} classes",
            )
        state[rows] = np.where(label[rows] < 0, State.OUTSIDE, State.ANSWERED)
        if "probability" in piece.table.column_names:
            shares = np.full((shape.n_frames, shape.n_classes), np.nan) if shares is None else shares
            shares[rows] = _matrix(piece, "probability", shape.n_classes)[good]
            if not ((shares[rows] >= 0) & (shares[rows] <= 1 + 1e-6))[state[rows] == State.ANSWERED].all():
                raise InvalidFile(piece.path, "a probability is not between 0 and 1")
        if "raw_label" in piece.table.column_names:
            best = np.full(shape.n_frames, -1, dtype=np.int32) if best is None else best
            best[rows] = _numbers(piece, "raw_label", good)
    kind = cast("Literal['logits', 'probabilities', 'labels']", shape.kind)
    return ClassAnswers(
        model=shape.model, kind=kind, label=label, state=state, scores=shares, shares=True, own_label=best
    )


# -- boxes -------------------------------------------------------------------------------------------------------


def _box_shard(answers: Answers, rows: Rows) -> Columns:
    return _box_file(answers, rows) | {"error": _reasons(answers, rows)}


def _box_file(answers: Answers, rows: Rows) -> Columns:
    box_answers = cast("BoxAnswers", answers)
    starts = box_answers.starts()
    sizes = starts[rows + 1] - starts[rows]
    ends = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
    bad = arrow_of(pa, ~box_answers.scored[rows]) if not box_answers.scored[rows].all() else None
    boxes = np.repeat(starts[rows] - ends[:-1], sizes) + np.arange(ends[-1])

    def lists(values: NDArray[np.float64] | NDArray[np.int32], width: int = 1) -> pa.Array:
        return pa.ListArray.from_arrays(arrow_of(pa, ends * width), arrow_of(pa, values.ravel()), mask=bad)

    return {
        "xyxy": lists(np.take(box_answers.xyxy, boxes, axis=0), 4),
        "label": lists(box_answers.label[boxes].astype(np.int32)),
        "score": lists(box_answers.score[boxes]),
    }


def _boxes(shape: AnswerShape, pieces: Iterable[TablePart]) -> Answers:
    columns: list[tuple[Rows, NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]] = []
    seen = np.zeros(shape.n_frames, dtype=bool)
    for piece in pieces:
        frame = np.repeat(piece.places, _lengths(piece.table))
        flat = [numbers_of(piece.table.column(name).combine_chunks().flatten()) for name in ("label", "xyxy", "score")]
        use = (frame >= 0) & (shape.every_box | (flat[0] >= 0))
        columns.append((frame[use], flat[0][use], flat[1].reshape(-1, 4)[use], flat[2][use]))
        seen[piece.places[piece.places >= 0]] = True
    frame, label, xyxy, score = (
        (np.concatenate(some) for some in zip(*columns, strict=True))
        if columns
        else (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros((0, 4)), np.zeros(0))
    )
    return BoxAnswers.of(
        frame,
        label,
        xyxy,
        score,
        n_frames=shape.n_frames,
        n_classes=shape.n_classes,
        scored=seen,
        model=shape.model,
        reasons=shape.reasons,
    )


def _lengths(table: pa.Table) -> Rows:
    found = table.column("label").combine_chunks().value_lengths()
    return np.where(numbers_of(found.is_null()), 0, numbers_of(found)).astype(np.int64)


SHARDS: Mapping[Task, Format] = {
    Task.CLASSIFICATION: Format(_class_shard, _classes_of_shards),
    Task.DETECTION: Format(_box_shard, _boxes),
}
BROUGHT: Mapping[Task, Format] = {
    Task.CLASSIFICATION: Format(_class_file, _classes_of_file),
    Task.DETECTION: Format(_box_file, _boxes),
}


def table_of(rows: Rows, answers: Answers) -> pa.Table:
    """Return the answers to these rows as the columns of a shard, together with the row numbers."""
    task = task_of(answers)
    said = {"task": task.value, "model": answers.model, "kind": getattr(answers, "kind", "")}
    columns = SHARDS[task].columns(answers, np.arange(len(rows)))
    return pa.table({"row": pa.array(rows, pa.int64()), **columns}).replace_schema_metadata(said)


def answers_of(table: pa.Table, *, n_classes: int) -> tuple[Rows, Answers]:
    """Return the rows and their answers. This is the inverse of `table_of`."""
    metadata = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    problems = enumerate(table.column("error").to_pylist())
    shape = AnswerShape(
        model=metadata["model"],
        kind=metadata["kind"],
        n_frames=len(table),
        n_classes=n_classes,
        every_box=True,
        reasons={place: why for place, why in problems if why is not None},
    )
    piece = TablePart(Path(), table, np.arange(len(table)))
    return np.array(table.column("row")), SHARDS[Task(metadata["task"])].answers(shape, [piece])
