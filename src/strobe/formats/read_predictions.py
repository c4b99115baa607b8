"""Read predictions of other programs: scores or labels by frame, in JSON, JSONL, CSV or Parquet.

| format | scores | labels |
|---|---|---|
| JSON | `{frame: [scores]}` | `{frame: class}` |
| JSON, declared | `{"kind": …, "space": …, "predictions": {…}}` | the same |
| JSONL | `{"frame": …, "scores": […]}` | `{"frame": …, "label": class}` |
| CSV | `frame,<one column per class>` | `frame,label` |
| Parquet | `frame`, `scores` (list) | `frame`, `label` |

A class is its number, its id or its name. Scores are over the dataset's classes, or over ILSVRC-2012's 1,000 classes,
which are projected to the dataset's. A row of 1,000 scores is recognised by its length, and ids and names identify
themselves. Class numbers must be declared (`space`). Parquet declares `kind` and `space` in its schema's metadata.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, StrobeError, in_file, printable
from strobe.core.labels import LabelSpace, Projection, check_scores, space
from strobe.core.projections import projection_between
from strobe.core.readings import read_as
from strobe.core.score_kinds import kind_of_scores
from strobe.formats.frame_matching import match_frames
from strobe.formats.prediction_files import (
    AS_DECLARED,
    FileOptions,
    PredictionFile,
    RawPredictions,
    out_of_reach,
    read_raw,
)


def read_predictions(
    path: Path, dataset: Dataset, options: FileOptions = AS_DECLARED, *, name: str | None = None
) -> PredictionFile[ClassAnswers]:
    """Return the file's predictions in the order of the dataset's frames.

    The options apply if the file does not declare its kind or label space. Missing frames raise an error that gives
    their number and names the first.
    """
    if not path.exists():
        raise StrobeError(f"no such file: {printable(path)}")
    if path.is_dir():
        raise StrobeError(f"{printable(path)} is a folder; give one prediction file (JSON, JSONL, CSV or Parquet)")
    raw = read_raw(path)
    found = match_predictions(raw, dataset, options, path=path, name=name or path.stem)
    return replace(found, facts={**found.facts, **raw.form})


def match_predictions(
    raw: RawPredictions, dataset: Dataset, options: FileOptions, *, path: Path | str, name: str
) -> PredictionFile[ClassAnswers]:
    """Return predictions by frame, from a file or from memory, in the dataset's order. `path` names them in errors."""
    if not raw.frames:
        raise InvalidFile(path, "it contains no predictions")
    _no_duplicates(path, raw.frames)
    rows, wanted, n_extra = _match(path, raw.frames, dataset, ignore_extra=options.ignore_extra)
    _nothing_missing(path, rows, dataset, allow_missing=options.allow_missing)
    values = [raw.values[place] for place in wanted]
    frames = [raw.frames[place] for place in wanted]
    scored = np.zeros(len(dataset.frames), dtype=bool)
    scored[rows] = True
    declared = options.kind if options.kind != "auto" else raw.kind
    declared_space, merge = options.space or raw.space, options.merge
    label_space = dataset.info.label_space
    if isinstance(values[0], int | str) and not isinstance(values[0], bool):
        if declared in ("logits", "probabilities"):
            raise InvalidFile(path, f"declared as {declared}, but it holds one class per frame, not scores")
        source, predicted, childless = _labels(path, frames, values, label_space, declared_space)
        label = np.full(len(dataset.frames), -1, dtype=np.int64)
        label[rows] = predicted
        answers = ClassAnswers.from_labels(name, label, scored=scored)
        readings = _space_reading(source, label_space, declared_space, "its classes are not all in the dataset's")
        return _file(answers, "labels", source, label_space, childless, readings, n_extra)
    if declared == "labels":
        raise InvalidFile(path, "declared as labels, but it holds scores")
    matrix = _matrix(path, frames, values)
    chosen = _projection(path, matrix.shape[1], label_space, raw.columns, declared_space)
    # Check before projecting, because NaN in an unmapped class also shows that the model is broken.
    with in_file(path):
        check_scores(matrix, names=[printable(frame) for frame in frames], what=name)
    readings = _space_reading(chosen.source, label_space, declared_space or raw.columns, f"{matrix.shape[1]} scores")
    if declared is None:
        with in_file(path):
            guessed = kind_of_scores(matrix)
        matrix *= guessed.scale
        readings += (read_as("kind", guessed.kind, guessed.reason),)
    score_kind = cast(Literal["logits", "probabilities"], declared or guessed.kind)
    wrong = (matrix < 0).any(axis=1) | ~(matrix > 0).any(axis=1)
    if score_kind == "probabilities" and wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        problem = "a negative probability" if (matrix[place] < 0).any() else "every probability is 0"
        raise InvalidFile(path, problem, where=printable(frames[place]), hint="declare <<kind=logits>>")
    with in_file(path):
        merged = chosen.apply(matrix, kind=score_kind, merge=merge)
        scores = np.full((len(dataset.frames), len(label_space)), np.nan)
        scores[rows] = merged
        best = None
        if chosen.is_choice:
            best = np.full(len(scores), -1, dtype=np.int32)
            best[rows] = matrix.argmax(axis=1)
        answers = ClassAnswers.from_scores(
            name,
            scores,
            kind="logits" if merge == "sum" else score_kind,
            scored=scored,
            outside=chosen.outside(scores),
            own_label=best,
            names=[str(key) for key in dataset.frames.key],
        )
    return _file(answers, score_kind, chosen.source, label_space, chosen.childless, readings, n_extra)


def _file(
    answers: ClassAnswers,
    kind: str,
    source: LabelSpace,
    target: LabelSpace,
    childless: Sequence[int],
    readings: Sequence[str],
    n_extra: int,
) -> PredictionFile[ClassAnswers]:
    facts = {"kind": kind, "space": source.name, "readings": json.dumps(readings), **out_of_reach(target, childless)}
    extra = f", {n_extra} frames skipped" if n_extra else ""
    return PredictionFile(answers=answers, facts=facts, notes=(f"{kind} in {source.name}{extra}", *readings))


# -- checking ----------------------------------------------------------------------------------------------------


def _no_duplicates(path: Path | str, frames: list[str]) -> None:
    if len(set(frames)) == len(frames):
        return
    seen: set[str] = set()
    for frame in frames:
        if frame in seen:
            count = len(frames) - len(set(frames))
            raise InvalidFile(
                path, f"frame {printable(frame)!r} appears twice ({count} duplicates)", hint="keep one of each"
            )
        seen.add(frame)


def _match(
    path: Path | str, frames: list[str], dataset: Dataset, *, ignore_extra: bool
) -> tuple[NDArray[np.int64], list[int], int]:
    """Return the dataset rows and file positions of common frames, and the number of frames that only the file has."""
    found = match_frames(path, frames, dataset, ignore_extra=ignore_extra)
    places = [index for index, row in enumerate(found.rows) if row >= 0]
    rows = np.array([found.rows[place] for place in places], dtype=np.int64)
    return rows, places, len(frames) - len(places)


def _nothing_missing(path: Path | str, rows: NDArray[np.int64], dataset: Dataset, *, allow_missing: bool) -> None:
    needed = np.zeros(len(dataset.frames), dtype=bool)
    needed[dataset.sets.frame] = True
    n_needed = int(needed.sum())
    needed[rows] = False
    if needed.any() and not allow_missing:
        first = dataset.frames.key[int(np.flatnonzero(needed)[0])]
        raise InvalidFile(
            path,
            f"{int(needed.sum())} of {n_needed} frames have no prediction, first {printable(first)!r}",
            hint="predict these frames, or score the rest with <<allow_missing=True>>",
        )


def _labels(
    path: Path | str,
    frames: list[str],
    values: list[Any],
    label_space: LabelSpace,
    declared: str | LabelSpace | None,
) -> tuple[LabelSpace, NDArray[np.int64], tuple[int, ...]]:
    """Return the space, the predictions as dataset classes (−1 if unmapped), and the unreachable classes."""
    for frame, value in zip(frames, values, strict=True):
        if not isinstance(value, int | str) or isinstance(value, bool):
            raise InvalidFile(
                path, f"expected a class (number, id or name), got {printable(value, limit=60)}", where=printable(frame)
            )
    if declared is None:
        source = _space_of_labels(values, label_space)
    else:
        source = _declared(path, declared, label_space)
    hint = "if the numbers belong to another space, pass it: <<space=ilsvrc-2012>>" if declared is None else None
    out = np.empty(len(values), dtype=np.int64)
    for index, value in enumerate(values):
        where = printable(frames[index])
        if isinstance(value, int):
            if not 0 <= value < len(source):
                raise InvalidFile(
                    path, f"class {value} is outside {source.name} (0–{len(source) - 1})", where=where, hint=hint
                )
            out[index] = value
        else:
            with in_file(path, where=where):
                out[index] = source.index(value)
    if source is label_space:
        return source, out, ()
    chosen = _map(path, source, label_space)
    return source, chosen.map_labels(out), chosen.childless


def _space_reading(source: LabelSpace, own: LabelSpace, declared: object, reason: str) -> tuple[str, ...]:
    """Return the guess that the file's classes are those of another label space than the dataset's."""
    return () if declared is not None or source.ids == own.ids else (read_as("space", source.name, reason),)


def _space_of_labels(values: list[Any], label_space: LabelSpace) -> LabelSpace:
    """Return ILSVRC-2012 if every class is one of its ids or names and at least one is not in the dataset's space."""
    if not all(isinstance(value, str) for value in values):
        return label_space
    other = space("ilsvrc-2012")
    is_other = any(value not in label_space for value in values) and all(value in other for value in values)
    return other if is_other else label_space


def _declared(path: Path | str, declared: str | LabelSpace, label_space: LabelSpace) -> LabelSpace:
    """Return the declared label space: the dataset's space by its name, a shipped space, or the user's own space."""
    if isinstance(declared, LabelSpace):
        return declared
    with in_file(path, where="space"):
        return label_space if declared == label_space.name else space(declared)


def _matrix(path: Path | str, frames: list[str], values: list[Any]) -> NDArray[np.float64]:
    width = len(values[0]) if isinstance(values[0], list | np.ndarray) else -1
    for frame, value in zip(frames, values, strict=True):
        if not isinstance(value, list | np.ndarray):
            raise InvalidFile(
                path, f"expected a list of scores, got {printable(value, limit=60)}", where=printable(frame)
            )
        if len(value) != width:
            raise InvalidFile(path, f"{len(value)} scores, but {width} in the first frame", where=printable(frame))
    try:
        matrix = np.array(values, dtype=np.float64)
        if matrix.ndim == 2:
            return matrix
    except (TypeError, ValueError, OverflowError):
        pass
    bad = (f for f, value in zip(frames, values, strict=True) if any(not _is_number(score) for score in value))
    raise InvalidFile(path, "a score is not a number", where=printable(next(bad, frames[0])))


def _is_number(value: object) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**308)


def _projection(
    path: Path | str,
    width: int,
    label_space: LabelSpace,
    columns: list[str] | None,
    declared: str | LabelSpace | None,
) -> Projection:
    if columns is not None and columns != [str(place) for place in range(width)]:
        source = _space_of_columns(path, columns, label_space)
    elif declared is not None:
        source = _declared(path, declared, label_space)
        if width != len(source):
            raise InvalidFile(
                path, f"{width} scores per frame, but {source.name}, as declared, has {len(source)} classes"
            )
    elif width == len(label_space):
        return Projection.identity(label_space)
    else:
        source = space("ilsvrc-2012")
    if width != len(source) or source.ids == label_space.ids:
        if source.ids == label_space.ids and width == len(source):
            return Projection.identity(label_space)
        raise InvalidFile(
            path,
            f"{width} scores per frame; expected {len(label_space)} ({label_space.name}) or 1000 (ilsvrc-2012)",
        )
    return _map(path, source, label_space)


def _space_of_columns(path: Path | str, columns: list[str], label_space: LabelSpace) -> LabelSpace:
    spaced = [name.replace("_", " ") for name in columns]
    for candidate in (label_space, space("ilsvrc-2012")):
        named = [name.replace("_", " ") for name in candidate.names]
        if tuple(columns) == candidate.ids or spaced == named:
            return candidate
    raise InvalidFile(
        path,
        f"the score columns ({printable(columns[0])}, …) are neither 0, 1, 2, … nor the classes of {label_space.name} "
        "in order, nor those of ilsvrc-2012",
        where="line 1",
    )


def _map(path: Path | str, source: LabelSpace, target: LabelSpace) -> Projection:
    with in_file(path):
        return projection_between(source, target)
