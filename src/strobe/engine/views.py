"""Models that use the boxes of a detector: find or run the detector, and derive classes or crops from its boxes.

A crop is a view between the frame source and the preparation.
"""

import hashlib
import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import BoxAnswers, ClassAnswers, State
from strobe.core.arrays import Floats
from strobe.core.boxed import classes_of, picked
from strobe.core.crops import LEAST_SIDE, cut_of, fitted
from strobe.core.dataset import Dataset
from strobe.core.errors import ModelFailed, StrobeError, expect, printable
from strobe.core.labels import LabelSpace
from strobe.core.ports import FrameSource, Image, Progress, SendableSource
from strobe.core.tables import Boxes
from strobe.core.tasks import Task
from strobe.engine.engine import ModelOutcome
from strobe.models.grammar import BoxesView, CropView
from strobe.models.requested import RequestedModel
from strobe.store.brought import brought_files
from strobe.store.frame_names import FrameNames
from strobe.store.run_folder import Run, StoredModel
from strobe.store.shards import KEY_FACTS, ModelShards, prediction_key, shard_models


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Crops:
    """The crop of each frame as picklable data: its box, and how the crop is fitted to the input.

    `boxes` is (F, 4) in pixels of the frame, NaN for frames that stay uncropped. All frames are marked as model inputs
    and are never cropped again. A model resizes crops without keeping the aspect ratio, unless they are first padded to
    a square. `said` is part of the answers' cache key.
    """

    boxes: Floats
    context: float = 1.0
    fit: str = "squash"
    said: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expect(self.boxes.ndim == 2 and self.boxes.shape[1] == 4, "Crops.boxes", "shape (F, 4)", self.boxes.shape)

    def of(self, source: FrameSource) -> FrameSource:
        """Return the source with its frames cropped."""
        known = np.flatnonzero(np.isfinite(self.boxes).all(axis=1)).tolist()
        boxes = {row: tuple(self.boxes[row].tolist()) for row in known}
        made = _SendableCropped if isinstance(source, SendableSource) else _Cropped
        return made(source, boxes, self.context, self.fit)

    def digest(self, frame_ids: Sequence[str]) -> str:
        """Return a digest that changes if a box, its frame or the fitting changes."""
        hasher = hashlib.sha256(json.dumps([self.context, self.fit, list(frame_ids)]).encode())
        hasher.update(np.ascontiguousarray(self.boxes, dtype=np.float64).tobytes())
        return hasher.hexdigest()[:16]


class _Cropped:
    """A FrameSource that wraps another source, crops every frame to its box, and fits the crop to a model's input."""

    def __init__(self, inner: FrameSource, boxes: Mapping[int, tuple[float, ...]], context: float, fit: str) -> None:
        self._inner, self._boxes, self._context, self._fit = inner, boxes, context, fit

    def read(self, row: int) -> Image:
        """Return the crop, or the whole frame if the frame has no box."""
        image, box = self._inner.read(row), self._boxes.get(row)
        if box is not None:
            at = cut_of(box, (image.shape[1], image.shape[0]), context=self._context)
            if at is not None:
                image = np.ascontiguousarray(image[at[1] : at[3], at[0] : at[2]])
        return fitted(image, self._fit)

    def read_encoded(self, row: int) -> bytes | None:  # noqa: ARG002 (part of the protocol)
        """Return None, because the file contains the uncropped frame."""
        return None


class _SendableCropped(_Cropped):
    """Cropped frames from a source that other processes can read."""

    _inner: SendableSource

    def only(self, rows: Sequence[int]) -> "_SendableCropped":
        """Return a source that contains only these rows."""
        boxes = {row: self._boxes[row] for row in rows if row in self._boxes}
        return _SendableCropped(self._inner.only(rows), boxes, self._context, self._fit)


_TO_CUT = f"a box of {LEAST_SIDE} pixels or more"
_OUTSIDE = "counts as an answer outside the classes, which is wrong"
_AT_ONCE = 4096
"""Frames per batch of derived classes."""


class Detectors:
    """The detectors that a command's views use: models of the command, models in the run, or helpers.

    Helpers are models that run only for the views. Files of the same command are in `stage`.
    """

    def __init__(self, dataset: Dataset, run: Run, models: Sequence[RequestedModel], *, stage: Path | None) -> None:
        self._dataset, self._run, self._stage = dataset, run, stage
        singles = [model for model in models if model.view is None]
        own = {model.spec: model.name for model in singles} | {model.name: model.name for model in singles}
        held = {*brought_files(run.path), *(brought_files(stage) if stage else ())}
        stored_names = set(shard_models(run.path)) if run.exists else set()
        self._name: dict[str, str] = {}
        self.helpers: list[RequestedModel] = []
        views = [model.view for model in models if isinstance(model.view, BoxesView | CropView)]
        for text in dict.fromkeys(view.source for view in views):
            if text in own or text in held:
                self._name[text] = own.get(text, text)
                continue
            self._name[text] = text
            if text in stored_names and not _is_spec(text):
                continue  # a model of an earlier command; only its stored answers exist
            if text != "truth":
                self.helpers.append(RequestedModel(text, text, helper=True))

    def name_of(self, view: BoxesView | CropView) -> str:
        """Return the name of the view's detector in the run."""
        return self._name[view.source]

    def held(self, view: BoxesView | CropView) -> StoredModel:
        """Return the view's detector in the run. Raise ModelFailed if its answers are not boxes.

        Classes can be derived from a file. A crop needs the boxes of every frame.
        """
        held = self._run.models(self._dataset, only=[self.name_of(view)], stage=self._stage)[0]
        if held.task is not Task.DETECTION:
            raise ModelFailed(f"{printable(held.name)}: it is not a detector, so it has no boxes to use")
        return replace(held, allow_missing=held.file is not None and isinstance(view, BoxesView))


def _is_spec(text: str) -> bool:
    from strobe.models.registry import parse

    try:
        parse(text)
    except StrobeError:
        return False
    return True


def boxes_held(held: StoredModel, *, every_box: bool) -> BoxAnswers:
    """Return a detector's boxes, including boxes of classes outside the dataset."""
    own = held.facts.get("spec", {}).get("label_space")
    same = own is None or LabelSpace.from_json(own).ids == held.dataset.info.label_space.ids
    answers = held.load(every_box=every_box and not same)
    if not isinstance(answers, BoxAnswers):
        raise ModelFailed(f"{printable(held.name)}: it is not a detector, so it has no boxes to use")
    return answers


# -- classes from boxes ------------------------------------------------------------------------------------------


def derive(
    name: str,
    view: BoxesView,
    held: StoredModel,
    run: Run,
    frames: FrameNames,
    *,
    retry_errors: bool,
    progress: Progress,
) -> ModelOutcome:
    """Derive class answers from stored boxes and write them to a separate store. No model runs."""
    begin, boxes = time.perf_counter(), boxes_held(held, every_box=view.every_class)
    space, rows = held.dataset.info.label_space, np.unique(held.dataset.sets.frame)
    facts = {
        "weights": _identity(held, boxes),
        "preprocessing": {"boxes": view.merge, "of": held.name, "classes": "every" if view.every_class else "own"},
        "kind": "probabilities",
        "projection": space.digest,
        "merge": "max",
        "decode": "cpu",
    }
    store = ModelShards(run.path, name, facts=facts, frames=frames, task=Task.CLASSIFICATION, n_classes=len(space))
    source = held.facts.get("spec", {}).get("label_space", {}).get("name", space.name)
    store.describe(
        {
            **facts,
            "frames_digest": frames.digest,
            "label_space": space.digest,
            "model_type": None,
            "standard": False,
            "childless": held.facts.get("childless", []),
            "view": "boxes",
            "detector": held.facts.get("spec", {}).get("name", held.name),
            "spec": {
                "name": name,
                "provider": "boxes",
                "kind": "probabilities",
                "label_space": LabelSpace(name=str(source), ids=space.ids, names=space.names).to_json(),
            },
        }
    )
    kept, n_bad = store.stored(retry_errors=retry_errors)
    missing, looked_at = rows[~kept[rows] & (boxes.state[rows] != State.MISSING)], rows[boxes.scored[rows]]
    outcome = ModelOutcome(n_kept=int(kept[rows].sum()), n_unreadable=n_bad)
    for start in range(0, len(missing), _AT_ONCE):
        part = missing[start : start + _AT_ONCE]
        answers = classes_of(boxes, part, merge=view.merge, every_class=view.every_class)
        store.write(part, answers)
        outcome.n_new += len(part)
        outcome.n_unreadable += int((answers.state == State.UNREADABLE).sum())
    outcome.wall_s = time.perf_counter() - begin
    has_box = np.zeros(boxes.n_frames, dtype=bool)
    has_box[boxes.frame] = True
    said = f"{printable(name)}: from the boxes of {printable(held.name)}; "
    what = "a box" if view.every_class else "a box of the dataset's classes"
    progress.note(said + _covered(int(has_box[looked_at].sum()), len(looked_at), what, _OUTSIDE))
    return outcome


def _identity(held: StoredModel, boxes: BoxAnswers) -> str:
    """Return the facts that identify the boxes: the detector's key, or the imported file."""
    if held.file is None:
        return prediction_key({fact: held.facts[fact] for fact in KEY_FACTS})
    hasher = hashlib.sha256(str(held.facts.get("sha256", "")).encode())
    for column in (boxes.frame, boxes.label, boxes.xyxy, boxes.score):
        hasher.update(np.ascontiguousarray(column).tobytes())
    return hasher.hexdigest()[:16]


def _covered(n: int, of: int, what: str, without: str) -> str:
    """Return one line that states how many frames have a box, and how frames without a box are treated.

    >>> _covered(9, 12, "a box", "is used uncropped")
    '9 of 12 frames have a box; each of the others is used uncropped'
    """
    if n == of:
        return f"all {of} frames have {what}"
    if not n:
        return f"NONE of {of} frames has {what}; each {without}"
    return f"{n} of {of} frames have {what}; each of the others {without}"


# -- crops -------------------------------------------------------------------------------------------------------


def crops_of(
    view: CropView, dataset: Dataset, source: FrameSource, detectors: Detectors, progress: Progress
) -> tuple[Crops, NDArray[np.int64]]:
    """Return the crop of each frame, and the frames of sets that count as outside because they have no box."""
    rows = np.unique(dataset.sets.frame).astype(np.int64)
    boxes_found: Boxes | BoxAnswers
    may_lack = np.ones(len(dataset.frames), dtype=bool)
    if view.is_truth:
        if dataset.boxes is None or not len(dataset.boxes.frame):
            raise ModelFailed(
                f"{printable(dataset.name)} has no boxes for crop:truth; use a detector (crop:strobe-tiny:…), or let "
                "people draw boxes with strobe review --ask box"
            )
        boxes_found = dataset.boxes
    else:
        boxes_found = boxes_held(detectors.held(view), every_box=True)
        may_lack = boxes_found.scored  # frames that the detector could not read are not frames without a box
    sizes = sizes_of(dataset, source, np.intersect1d(rows, boxes_found.frame))
    labels = _right_labels(dataset) if view.picking.pick == "label" else {}
    boxes = picked(boxes_found, view.picking, sizes_wh=sizes, labels=labels)
    has_box = np.isfinite(boxes[:, 0])
    outside = rows[~has_box[rows] & may_lack[rows]] if view.without == "outside" else np.zeros(0, dtype=np.int64)
    crops = Crops(boxes=boxes, context=view.picking.context, fit=view.fit)
    said = {"view": view.text, "boxes": crops.digest(dataset.frame_ids())}
    without = "is used uncropped" if view.without == "whole" else _OUTSIDE
    progress.note(f"{view.text}: {_covered(int(has_box[rows].sum()), len(rows), _TO_CUT, without)}")
    return Crops(boxes=boxes, context=view.picking.context, fit=view.fit, said=said), outside


def sizes_of(dataset: Dataset, source: FrameSource, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the width and height of each frame, (F, 2).

    If the dataset does not record the size of one of these rows, the frame is read.
    """
    sizes = np.stack([dataset.frames.width, dataset.frames.height], axis=1).astype(np.int64)
    for row in rows[(sizes[rows] <= 0).any(axis=1)].tolist():
        try:
            sizes[row] = source.read(row).shape[1::-1]
        except StrobeError:
            continue  # the classifier will report that the frame could not be read
    return sizes


def _right_labels(dataset: Dataset) -> dict[int, Collection[int]]:
    """Return the right classes of every frame of the sets, by the dataset's label rule."""
    out: dict[int, set[int]] = {}
    for labels in dataset.right_labels:
        for row, label in zip(dataset.sets.frame[labels >= 0].tolist(), labels[labels >= 0].tolist(), strict=True):
            out.setdefault(row, set()).add(label)
    return dict(out)


def write_outside(store: ModelShards, rows: NDArray[np.int64], *, model: str, n_classes: int) -> None:
    """Store these frames as outside the classes, if they have no answer yet."""
    rows = rows[~store.stored()[0][rows]]
    for start in range(0, len(rows), _AT_ONCE):
        part = rows[start : start + _AT_ONCE]
        n = len(part)
        answers = ClassAnswers.from_scores(
            model,
            np.full((n, n_classes), np.nan, dtype=np.float32),
            kind="logits",
            outside=np.ones(n, dtype=bool),
            own_label=np.full(n, -1, dtype=np.int32),
            own_confidence=np.full(n, np.nan, dtype=np.float32),
        )
        store.write(part, answers)
