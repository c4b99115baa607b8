"""Convert predictions in memory or in a file (dict, array, DataFrame, file, answers) to the answers of a dataset.

The same checks apply as to prediction files. Valid predictions are matched with the dataset's frames and projected to
its classes. Other predictions raise a one-line error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import Answers, BoxAnswers, ClassAnswers, task_of
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, StrobeError, expect, printable
from strobe.core.labels import LabelSpace
from strobe.core.records import Detections
from strobe.core.tasks import Task
from strobe.formats.bring import read_file
from strobe.formats.prediction_files import FileOptions, PredictionFile, RawDetections, RawPredictions
from strobe.formats.read_detections import match_detections
from strobe.formats.read_predictions import match_predictions
from strobe.workflows.score import InMemoryModel

_CORNERS = ("x0", "y0", "x1", "y1")
_KEYS = ("frame", "frame_id", "key", "image_id")


def answers_of(
    given: Any,
    dataset: Dataset,
    options: FileOptions,
    *,
    space: str | LabelSpace | None = None,
    keys: Sequence[str] | None = None,
    name: str | None = None,
) -> InMemoryModel:
    """Return the predictions in the dataset's classes and frames. Raise a one-line error if they do not match."""
    known = space is None or isinstance(space, str | LabelSpace)
    expect(known, "space", 'the name of a label space ("ilsvrc-2012") or a strobe.LabelSpace', type(space).__name__)
    if isinstance(given, ClassAnswers | BoxAnswers):
        return _answers(given, dataset, space, name, options.merge)
    if isinstance(given, str | Path):
        path = Path(given)
        if isinstance(space, LabelSpace):
            raise InvalidValue(f"{printable(path)}: for a file, space must be the name of a shipped label space")
        read = read_file(path, dataset, replace(options, space=space, box_space=space), name=name)
        return InMemoryModel(name=name or path.stem, task=task_of(read.answers), answers=read.answers, facts=read.facts)
    raw, name, label = _raw(given, dataset, keys), name or "model", name or "predictions"
    options = replace(options, space=space, box_space=space)
    matched: PredictionFile[Answers]
    if isinstance(raw, RawDetections):
        matched = match_detections(raw, dataset, options, path=label, name=name)
    else:
        matched = match_predictions(raw, dataset, options, path=label, name=name)
    return InMemoryModel(name=name, task=task_of(matched.answers), answers=matched.answers, facts=matched.facts)


# -- answers -----------------------------------------------------------------------------------------------------


def _answers(
    given: Answers, dataset: Dataset, space: str | LabelSpace | None, name: str | None, merge: str
) -> InMemoryModel:
    called = name or given.model or "model"
    n_frames = len(dataset.frames)
    if isinstance(given, BoxAnswers):
        expect(given.n_frames == n_frames, called, f"answers to {n_frames} frames", given.n_frames)
        expect(space is None, "space", "None, because these boxes are already in the dataset's classes", space)
        return InMemoryModel(name=called, task=Task.DETECTION, answers=replace(given, model=called))
    expect(len(given) == n_frames, called, f"answers to {n_frames} frames", len(given))
    found = replace(_in_classes(dataset, given, space, merge), model=called)
    return InMemoryModel(name=called, task=Task.CLASSIFICATION, answers=found)


def _in_classes(dataset: Dataset, answers: ClassAnswers, source: str | LabelSpace | None, merge: str) -> ClassAnswers:
    """Return the answers in the dataset's classes: unchanged, or projected from their label space."""
    from strobe.core.labels import space as shipped
    from strobe.core.projections import projection_between

    target, scores = dataset.info.label_space, answers.scores
    width = int(answers.label.max(initial=-1)) + 1 if scores is None else scores.shape[1]
    if source is None and (width == len(target) if scores is not None else width <= len(target)):
        return answers
    if source is None and (scores is None or width != 1000):
        what = f"class {width - 1}" if scores is None else f"{width} scores per frame"
        raise InvalidValue(
            f"{printable(answers.model)}: got {what}, but {printable(dataset.name)} has {len(target)} classes; "
            'name their label space with space="ilsvrc-2012" or a LabelSpace'
        )
    own = source if isinstance(source, LabelSpace) else shipped(source or "ilsvrc-2012")
    expect(width <= len(own), "space", f"at most {len(own)} classes ({own.name})", width)
    projected = projection_between(own, target)
    if scores is None or answers.kind == "labels":
        label = answers.label.copy()
        label[answers.scored & (label >= 0)] = projected.map_labels(label[answers.scored & (label >= 0)])
        return ClassAnswers.from_labels(answers.model, label, scored=answers.scored)
    expect(width == len(own), "space", f"{len(own)} scores per frame ({own.name})", width)
    merged = np.full((len(answers), len(target)), np.nan)
    merged[answers.scored] = projected.apply(scores[answers.scored].astype(np.float64), kind=answers.kind, merge=merge)
    kind = "logits" if merge == "sum" else answers.kind
    outside = projected.outside(merged)
    return ClassAnswers.from_scores(answers.model, merged, kind=kind, scored=answers.scored, outside=outside)


# -- arrays, dicts, frames of pandas -------------------------------------------------------------------------------


def _raw(given: Any, dataset: Dataset, keys: Sequence[str] | None) -> RawPredictions | RawDetections:
    if hasattr(given, "media_type") and hasattr(given, "iter_samples"):
        from strobe.formats.box_files import boxes_of_fiftyone

        return boxes_of_fiftyone(given)
    if hasattr(given, "columns") and hasattr(given, "to_numpy"):
        expect(keys is None, "keys", "None, because a DataFrame names its frames itself", "keys")
        return _of_frame(given, dataset.info.label_space)
    if isinstance(given, Mapping):
        expect(keys is None, "keys", "None, because the keys of a dict name the frames", "keys")
        names, values = [str(key) for key in given], [_plain(value) for value in given.values()]
        if values and _is_boxes(values[0]):
            return _of_boxes(names, values)
        return RawPredictions(names, values)
    values = _plain(given)
    if isinstance(values, list) and values and _is_boxes(_plain(values[0])):
        return _of_boxes(_names(len(values), dataset, keys), [_plain(value) for value in values])
    array = np.asarray(values)
    if array.ndim not in (1, 2) or array.dtype.kind not in "fiubUO":
        raise StrobeError(
            f"predictions: expected {{frame: scores}}, an array (N, classes) or (N,), a DataFrame, a file or answers, "
            f"got {type(given).__name__}{f' of shape {array.shape}' if array.ndim else ''}"
        )
    return RawPredictions(_names(len(array), dataset, keys), list(array) if array.ndim == 2 else array.tolist())


def _names(n: int, dataset: Dataset, keys: Sequence[str] | None) -> list[str]:
    """Return the frame of each row: `keys`, or all frames in the dataset's order if their number matches."""
    if keys is None:
        if n != len(dataset.frames):
            raise InvalidValue(
                f"predictions: got {n} rows, but {printable(dataset.name)} has {len(dataset.frames)} frames; pass the "
                "frame of each row with keys=[…] (dataset.frames.key lists all frames)"
            )
        return [str(key) for key in dataset.frames.key]
    expect(len(keys) == n, "keys", f"one key for each of {n} rows", len(keys))
    return [str(key) for key in keys]


def _plain(value: Any) -> Any:
    """Return a tensor as an array and a numpy number as a Python number. Other values are returned unchanged."""
    if hasattr(value, "detach"):
        value = (value.detach().cpu().double() if value.is_floating_point() else value.detach().cpu()).numpy()
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return value.item()
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, tuple) else value


def _is_boxes(value: Any) -> bool:
    """Return whether the value is a detector's answer: Detections, those of supervision, or a dict of boxes."""
    return isinstance(value, Detections) or (isinstance(value, Mapping) and "boxes" in value) or _is_supervision(value)


def _is_supervision(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("xyxy", "class_id", "confidence", "data"))


def _of_supervision(value: Any) -> dict[str, Any]:
    """Return the boxes of `supervision.Detections`, with the names of their classes if it has them."""
    n = len(value.xyxy)
    labels = value.data.get("class_name", value.class_id)
    scores = np.ones(n) if value.confidence is None else value.confidence
    return {"boxes": value.xyxy, "labels": np.zeros(n, dtype=int) if labels is None else labels, "scores": scores}


def _of_boxes(names: list[str], values: Sequence[Any]) -> RawDetections:
    """Read one entry per frame, as torchvision returns it: {"boxes": (N, 4), "labels": (N,), "scores": (N,)}."""
    parts = []
    for name, value in zip(names, values, strict=True):
        if _is_supervision(value):
            value = _of_supervision(value)
        elif isinstance(value, Detections):
            value = {"boxes": value.xyxy, "labels": value.label, "scores": value.score}
        try:
            boxes, labels, scores = (_plain(value[key]) for key in ("boxes", "labels", "scores"))
            xyxy = np.asarray(boxes, dtype=np.float64)
            score = np.asarray(scores, dtype=np.float64).reshape(-1)
            classes = np.asarray(labels).reshape(-1).tolist()
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidValue(
                f"predictions: {printable(name)}: expected boxes (N, 4), labels (N,) and scores (N,)"
            ) from error
        if xyxy.size == 0:
            xyxy = xyxy.reshape(0, 4)
        if xyxy.ndim != 2 or xyxy.shape[1] != 4:
            turned = "; transpose it with boxes.T" if xyxy.ndim == 2 and xyxy.shape[0] == 4 else ""
            raise InvalidValue(
                f"predictions: {printable(name)}: boxes of shape {xyxy.shape}; expected (N, 4), a row per box{turned}"
            )
        if not len(xyxy) == len(score) == len(classes):
            raise InvalidValue(
                f"predictions: {printable(name)}: {len(xyxy)} boxes, {len(classes)} labels and {len(score)} "
                "scores; the numbers must be equal"
            )
        parts.append((xyxy, classes, score))
    frame = [name for name, (xyxy, _, _) in zip(names, parts, strict=True) for _ in range(len(xyxy))]
    labels = [word for _, classes, _ in parts for word in classes]
    box = np.concatenate([xyxy for xyxy, _, _ in parts]) if parts else np.zeros((0, 4))
    return _coded(frame, labels, box, np.concatenate([one for *_, one in parts]), answered=names)


def _coded(
    frame: Sequence[Any],
    labels: Sequence[Any],
    box: NDArray[np.float64],
    score: NDArray[np.float64],
    answered: list[Any] | None,
) -> RawDetections:
    image_names = list(dict.fromkeys([*(answered or ()), *frame]))
    words = list(dict.fromkeys(labels))
    image_place, word_place = ({one: index for index, one in enumerate(many)} for many in (image_names, words))
    return RawDetections(
        image=np.array([image_place[one] for one in frame], dtype=np.int64),
        label=np.array([word_place[label] for label in labels], dtype=np.int64),
        box=box,
        score=score,
        image_names=image_names,
        words=words,
        is_xywh=False,
        unit="row",
        answered=answered,
    )


def _of_frame(table: Any, classes: LabelSpace) -> RawPredictions | RawDetections:
    """Read a DataFrame. Frames are in a column `frame` or in the index.

    The other columns are `label`; or scores, a column per class (with the class names in any order, or 0, 1, 2, …); or
    boxes as x0, y0, x1, y1, label, score.
    """
    columns = [str(column) for column in table.columns]
    key = next((name for name in _KEYS if name in columns), None)
    frames = [str(one) for one in (table.index if key is None else table[key]).tolist()]
    rest = [column for column in table.columns if str(column) != key and str(column) != "model"]
    if set(_CORNERS) <= set(columns):
        lacking = [name for name in ("label", "score") if name not in columns]
        if lacking:
            raise InvalidValue(f"predictions: a DataFrame of boxes needs a column {lacking[0]}")
        box = np.asarray(table[list(_CORNERS)].to_numpy(), dtype=np.float64)
        score = np.asarray(table["score"].to_numpy(), dtype=np.float64)
        return _coded(frames, table["label"].tolist(), box, score, answered=None)
    if [str(column) for column in rest] == ["label"]:
        return RawPredictions(frames, [_plain(value) for value in table["label"].tolist()])
    expect(len(rest) > 0, "predictions", "a column label, or one column of scores for each class", columns)
    for names in (classes.ids, classes.names):
        if len(names) == len(rest) and set(names) == {str(column) for column in rest}:
            rest = sorted(rest, key=lambda column: names.index(str(column)))
    try:
        scores = np.asarray(table[rest].to_numpy(), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidValue(
            f"predictions: expected numbers in the score columns ({', '.join(map(str, rest[:4]))}, …)"
        ) from error
    return RawPredictions(frames, list(scores), columns=[str(column) for column in rest])
