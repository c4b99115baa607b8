"""Remedies for flicker as models of a run: their answers are derived from stored ones, or from crops of each frame."""

import hashlib
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.remedied import Stretches
from strobe.core.answers import Answers, BoxAnswers, ClassAnswers, State
from strobe.core.arrays import Floats, Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import ModelFailed, StrobeError, printable
from strobe.core.ports import FrameSource, Image
from strobe.engine.engine import ModelOutcome
from strobe.engine.views import Crops, derived_store, write_derived
from strobe.metrics.remedies import Remedy
from strobe.models.grammar import RemedyView
from strobe.store.frame_names import FrameNames
from strobe.store.run_folder import Run, StoredModel

_AT_ONCE = 4096
MARGIN = 0.08
"""The share of each side by which a shifted crop is smaller than its frame."""


def derive_remedy(
    name: str, view: RemedyView, held: StoredModel, answers: Answers, run: Run, frames: FrameNames, *, forwards: int
) -> ModelOutcome:
    """Write the answers of a remedy to a store of their own. `forwards` are the forward passes behind all of them.

    The key has a digest of the answers, so that they are derived again if an answer before or after them changes.
    """
    begin, dataset = time.perf_counter(), held.dataset
    if not view.remedy.rule.looks:
        answers = Stretches.of(dataset, answers.scored).with_remedy(answers, view.remedy)
    space, rows = dataset.info.label_space, np.unique(dataset.sets.frame)
    answers = _storable(answers, len(space))
    kind = "boxes" if isinstance(answers, BoxAnswers) else answers.kind
    source_space = (held.facts.get("spec") or {}).get("label_space") or space.to_json()
    identity = {
        "weights": _digest(answers, rows),
        "preprocessing": {"remedy": view.remedy.text, "of": held.name},
        "kind": kind,
    }
    said = {"view": "remedy", "remedy": view.remedy.text, "of": held.name, "forwards": forwards}
    store = derived_store(
        run, name, held, frames, identity, task=held.task, said=said, provider="remedy", label_space=source_space
    )
    outcome = write_derived(store, answers, rows)
    outcome.wall_s = time.perf_counter() - begin
    return outcome


def _digest(answers: Answers, rows: Ints) -> str:
    """Return a digest of the answers to the frames of the sets."""
    hasher = hashlib.sha256(answers.state[rows].tobytes())
    if isinstance(answers, BoxAnswers):
        parts = [answers.frame, answers.label, answers.xyxy, answers.score]
    else:
        parts = [answers.label[rows]]
        if answers.scores is not None:
            parts += [answers.scores[rows[at : at + _AT_ONCE]] for at in range(0, len(rows), _AT_ONCE)]
    for part in parts:
        hasher.update(np.ascontiguousarray(part, dtype=np.float64).tobytes())
    return hasher.hexdigest()[:16]


def _storable(answers: Answers, n_classes: int) -> Answers:
    """Return the answers with all that a store needs. Labels without scores are stored as the number 1."""
    if isinstance(answers, BoxAnswers) or (answers.scores is not None and answers.own_label is not None):
        return answers
    scores, sure = answers.scores, np.full(len(answers), np.nan)
    if scores is None:
        scores = (answers.label[:, None] == np.arange(n_classes)).astype(np.float32)
    else:
        sure = answers.confidence
    return replace(answers, scores=scores, own_label=answers.label.astype(np.int32), own_confidence=sure)


# -- crops ---------------------------------------------------------------------------------------------------------


def looks(remedy: Remedy, dataset: Dataset, source: FrameSource, sizes: NDArray[np.int64]) -> Iterator[Crops]:
    """Yield the crops (F, 4) that a remedy shows to the model, one after the other."""
    rows = np.unique(dataset.sets.frame)
    for number in range(int(remedy.value) if remedy.kind == "crops" else 1):
        boxes = np.full((len(sizes), 4), np.nan)
        for row in rows.tolist():
            if remedy.kind == "crops":
                boxes[row] = shifted(sizes[row], number, int(remedy.value))
                continue
            with suppress(StrobeError):  # the model will report that the frame cannot be read
                boxes[row] = chosen_crop(source.read(row), remedy.value)
        crops = Crops(boxes=boxes)
        said = {"view": f"{remedy.text}, crop {number + 1}", "boxes": crops.digest(dataset.frame_ids())}
        yield Crops(boxes=boxes, said=said)


def shifted(size_wh: Sequence[int] | NDArray[np.int64], number: int, many: int) -> Floats:
    """Return one of `many` crops of a frame: the first is in the middle, and the others go round it.

    >>> shifted((100, 50), 0, 5).tolist(), shifted((100, 50), 1, 5).tolist()
    ([4.0, 2.0, 96.0, 48.0], [8.0, 2.0, 100.0, 48.0])
    """
    margin = np.round(np.asarray(size_wh) * MARGIN / 2)
    turn = 2 * math.pi * (number - 1) / max(many - 1, 1)
    move = np.zeros(2) if number == 0 else np.round(margin * np.array([math.cos(turn), math.sin(turn)]))
    return np.concatenate([margin + move, np.asarray(size_wh) - margin + move])


def chosen_crop(image: Image, share: float) -> Floats:
    """Return the crop with this share of both sides that has the most edges, which follows a picture that shifts.

    The choice depends on the content alone: a frame that is shifted by a few pixels gives the same content, unless what
    enters at its border has more edges. Ties go to the uppermost crop, and then to the leftmost.

    >>> image = np.zeros((20, 40, 3), np.uint8)
    >>> image[5:9, 25:38] = 255
    >>> chosen_crop(image, 0.5).tolist()
    [19.0, 0.0, 39.0, 10.0]
    """
    grey = np.asarray(image, dtype=np.float64).mean(axis=2)
    edges = np.zeros((grey.shape[0] + 1, grey.shape[1] + 1))
    edges[2:, 1:] += np.abs(np.diff(grey, axis=0))
    edges[1:, 2:] += np.abs(np.diff(grey, axis=1))
    total = edges.cumsum(axis=0).cumsum(axis=1)
    high, wide = max(1, round(grey.shape[0] * share)), max(1, round(grey.shape[1] * share))
    inside = total[high:, wide:] - total[:-high, wide:] - total[high:, :-wide] + total[:-high, :-wide]
    top, left = np.unravel_index(int(np.round(inside, 6).argmax()), inside.shape)
    return np.array([left, top, left + wide, top + high], dtype=np.float64)


def mean_of(stored: Sequence[StoredModel]) -> tuple[ClassAnswers, int]:
    """Return the mean probabilities of several classifiers on the same frames, and how many answers they took.

    A frame without an answer of each has none. An answer outside the classes counts as any other.
    """
    several = [answers for one in stored if isinstance(answers := one.load(), ClassAnswers) and answers.has_shares]
    if len(several) < len(stored):
        raise ModelFailed(f"{printable(stored[0].name)}: it is not a classifier with scores, so its crops have no mean")
    known = np.logical_and.reduce([one.scored for one in several])
    scores = np.full((len(known), len(stored[0].dataset.info.label_space)), np.nan, dtype=np.float32)
    outside = np.mean([one.state == State.OUTSIDE for one in several], axis=0)
    rows = np.flatnonzero(known)
    for part in (rows[start : start + 256] for start in range(0, len(rows), 256)):
        scores[part] = np.mean([one.shares_of(part) for one in several], axis=0)
    highest = np.nan_to_num(scores, nan=-1).max(axis=1)
    reasons = {row: why for one in several for row, why in one.reasons.items()}
    made = ClassAnswers.from_scores(
        several[0].model,
        scores,
        kind="probabilities",
        scored=known,
        outside=outside > highest,
        own_label=np.where(known, np.nan_to_num(scores, nan=-1).argmax(axis=1), -1).astype(np.int32),
        own_confidence=highest.astype(np.float32),
        reasons=reasons,
    )
    return made, sum(int(one.scored.sum()) for one in several)
