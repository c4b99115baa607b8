"""What each model answered on each frame, reduced to a few bytes and kept in a bounded cache."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import Answers, BoxAnswers, ClassAnswers
from strobe.core.arrays import Bools, blocks
from strobe.core.dataset import Dataset

MOST_BYTES = 256 * 2**20
"""The largest total size of the answers kept in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameAnswers:
    """One model's answers: `label`, `state` and `confidence` per frame, `right` and `truth` per row of the sets.

    `truth` is the probability of the right class. For a detector, `boxes` has its boxes, and the label of a frame is
    the class of its most confident box.
    """

    label: NDArray[np.int32]
    state: NDArray[np.uint8]
    confidence: NDArray[np.float16]
    right: Bools
    truth: NDArray[np.float16]
    boxes: BoxAnswers | None = None

    @property
    def n_bytes(self) -> int:
        """The size in memory."""
        columns = (self.label, self.state, self.confidence, self.right, self.truth)
        boxes = 0 if self.boxes is None else sum(one.nbytes for one in (self.boxes.xyxy, self.boxes.score)) * 2
        return sum(column.nbytes for column in columns) + boxes

    @classmethod
    def of(cls, dataset: Dataset, answers: Answers) -> "FrameAnswers":
        """Reduce answers; the dataset's sets are all candidates."""
        classes = answers.as_classes()
        confidence = np.full(len(classes), np.nan, dtype=np.float16)
        if isinstance(answers, BoxAnswers):
            starts = answers.starts()
            has_box = starts[1:] > starts[:-1]
            confidence[has_box] = answers.score[starts[:-1][has_box]]
        elif answers.has_shares:
            for rows in blocks(len(classes)):
                confidence[rows] = answers.confidence_at(np.arange(rows.start, rows.stop))
        return cls(
            label=classes.label.astype(np.int32),
            state=answers.state,
            confidence=confidence,
            right=dataset.right_rows(classes.label),
            truth=_truth(dataset, classes),
            boxes=answers if isinstance(answers, BoxAnswers) else None,
        )


def _truth(dataset: Dataset, answers: ClassAnswers) -> NDArray[np.float16]:
    """Return the probability of the right class on each set row; NaN if unknown."""
    frame = dataset.sets.frame
    out = np.full(len(frame), np.nan, dtype=np.float16)
    if answers.has_shares:
        for rows in blocks(len(frame)):
            for labels in dataset.right_labels[:, rows]:
                known = np.flatnonzero(labels >= 0)
                shares = answers.share_of(frame[rows][known], labels[known])
                part = out[rows]
                part[known] = np.fmax(part[known], shares)
    return out


class AnswerCache:
    """The reduced answers of the models that were looked at last. Each model is loaded by one thread only."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._held = most_bytes, OrderedDict[tuple[str, ...], FrameAnswers]()
        self._lock, self._loading = threading.Lock(), dict[tuple[str, ...], threading.Lock]()

    def peek(self, key: tuple[str, ...]) -> FrameAnswers | None:
        """Return answers that are loaded."""
        with self._lock:
            return self._held.get(key)

    def get(self, key: tuple[str, ...], load: Callable[[], FrameAnswers]) -> FrameAnswers:
        """Return the answers, loaded if necessary. The oldest answers are dropped if the cache is full."""
        with self._lock:
            own = self._loading.setdefault(key, threading.Lock())
        with own:
            found = self.peek(key)
            if found is None:
                found = load()
            with self._lock:
                self._held[key] = found
                self._held.move_to_end(key)
                self._loading.pop(key, None)
                while len(self._held) > 1 and sum(one.n_bytes for one in self._held.values()) > self._most:
                    self._held.popitem(last=False)
            return found
