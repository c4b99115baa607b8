"""Check the box format and class order of predictions against the true objects.

A reading is a form (corners, corner and size, centre and size), an order (x or y first) and a scale. If another reading
fits the objects far better than the assumed reading, the boxes are in that other reading. If boxes fit objects but
rarely name the right class, the classes are in another order.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Floats, Ints
from strobe.metrics.detection.match import box_iou

FORMS: dict[str, Callable[[Floats], Floats]] = {
    "xyxy": lambda box: box,
    "xywh": lambda box: np.concatenate([box[:, :2], box[:, :2] + box[:, 2:]], axis=1),
    "cxcywh": lambda box: np.concatenate([box[:, :2] - box[:, 2:] / 2, box[:, :2] + box[:, 2:] / 2], axis=1),
}
"""The possible forms of four numbers, converted to corners."""

_FLIPPED = {"xyxy": "yxyx", "xywh": "yxhw", "cxcywh": "cycxhw"}
_FRAMES = 500
_LEAST_FRAMES = 5
_GOOD = 0.5
_WORSE = 0.6
"""The assumed reading is far worse if its overlap is below this share of the other reading's overlap."""
_FITS = 0.5
_OBJECTS = 1000
_ENOUGH = 20
_LEAST_CLASSES = 3
_PURE = 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxSample:
    """Predicted boxes (N, 4) on some frames with objects.

    Each box has the first object of its frame (N, 4), its frame's index in the sample (N,), and the width and height of
    the image (N, 2), zero if unknown. The sample also has each frame's first row (F,).
    """

    box: Floats
    object: Floats
    place: NDArray[np.int64]
    wh: Floats
    first: NDArray[np.int64]

    @classmethod
    def of(
        cls, box: Floats, frame: Ints, score: Floats, true_xyxy: Floats, true_frame: Ints, wh: Floats
    ) -> "BoxSample":
        """Build a sample from boxes, their frames and scores, (N, …), the true boxes, and all frame sizes (F, 2)."""
        objects, first = np.unique(true_frame, return_index=True)
        there = np.zeros(len(wh) + 1, dtype=bool)
        there[frame] = True  # the last slot is for boxes without a frame, −1
        some = objects[there[objects]]
        some = some[:: max(1, len(some) // _FRAMES)]
        rows = _on(frame, some, score)
        found, starts, place = np.unique(frame[rows], return_index=True, return_inverse=True)
        target = first[np.searchsorted(objects, found)][place]
        return cls(box=box[rows], object=true_xyxy[target], place=place, wh=wh[found][place], first=starts)

    @property
    def n_frames(self) -> int:
        """Return the number of frames."""
        return len(self.first)

    def fit(self, xyxy: Floats) -> float:
        """Return the median over frames of the best overlap of any box with the frame's first object."""
        if not self.n_frames:
            return 0.0
        best = np.zeros(self.n_frames)
        np.maximum.at(best, self.place, box_iou(xyxy, self.object))
        return float(np.median(best))


@dataclass(frozen=True, slots=True, kw_only=True)
class Misread:
    """A reading that fits far better than the assumed reading: its description, and the median overlaps of both."""

    text: str
    fit: float
    taken: float


def misread(sample: BoxSample, form: str) -> Misread | None:
    """Return the reading that fits the objects far better than `form` in pixels; None if there is none.

    >>> true = np.array([[10.0, 20, 30, 80]]).repeat(6, axis=0) + np.arange(6)[:, None]
    >>> frame, wh = np.arange(6), np.full((6, 2), 100.0)
    >>> misread(BoxSample.of(true / 2, frame, np.ones(6), true, frame, wh), "xyxy").text
    'multiplied by 2'
    """
    taken = sample.fit(FORMS[form](sample.box))
    if sample.n_frames < _LEAST_FRAMES or taken > _GOOD:
        return None
    found = [Misread(text=text, fit=round(sample.fit(xyxy), 2), taken=taken) for text, xyxy in _readings(sample, form)]
    best = max(found, key=lambda one: one.fit)  # of equally good readings, the first is the simplest
    return best if best.fit > _GOOD and taken < _WORSE * best.fit else None


def _readings(sample: BoxSample, form: str) -> Iterator[tuple[str, Floats]]:
    """Yield every other reading, the simplest first: its description, and the boxes converted by it."""
    known = bool((sample.wh > 0).all())
    for flipped in (False, True):
        numbers = sample.box[:, [1, 0, 3, 2]] if flipped else sample.box
        for one in (form, *(other for other in FORMS if other != form)):
            xyxy = FORMS[one](numbers)
            named = _FLIPPED[one] if flipped else one
            if named != form:
                yield f"read as {named}", xyxy
            called = "" if named == form else f"read as {named} and "
            for factor in (0.5, 2.0):
                yield f"{called}multiplied by {factor:g}", xyxy * factor
            if known:
                yield f"{called}multiplied by the image's size", xyxy * np.tile(sample.wh, 2)
            if (scale := _scale(xyxy[sample.first], sample.object[sample.first])) is not None:
                x, y = scale
                both = f"about {x:.2g}" if abs(x / y - 1) < 0.05 else f"about {x:.2g} (x) and {y:.2g} (y)"
                yield f"{called}multiplied by {both}", xyxy * np.array([x, y, x, y])


def _scale(xyxy: Floats, true: Floats) -> tuple[float, float] | None:
    """Return the factor that maps the centres of the best boxes to the objects' centres; None if there is none."""
    a, b = (box[:, :2] + box[:, 2:] for box in (xyxy, true))
    use = (a > 0).all(axis=1)
    if use.sum() < _LEAST_FRAMES:
        return None
    x, y = np.median(b[use] / a[use], axis=0).tolist()
    return None if 0.9 < x < 1.1 and 0.9 < y < 1.1 else (x, y)


def _on(frame: Ints, frames: Ints, score: Floats) -> NDArray[np.int64]:
    """Return the rows of some frames, sorted by frame and then from the most to the least confident."""
    if not len(frame) or not len(frames):
        return np.zeros(0, dtype=np.int64)
    wanted = np.zeros(int(max(frame.max(), frames.max())) + 2, dtype=bool)
    wanted[frames] = True
    rows = np.flatnonzero(wanted[frame])  # −1 indexes the last slot, which is always False
    return np.asarray(rows[np.lexsort((-score[rows], frame[rows]))])


def named_objects(
    xyxy: Floats, frame: Ints, score: Floats, true_xyxy: Floats, true_frame: Ints
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of some objects that a box fits, and the rows of the most confident fitting boxes.

    A box fits if its IoU is above one half.
    """
    sample = np.arange(0, len(true_frame), max(1, len(true_frame) // _OBJECTS))
    order = _on(frame, true_frame[sample], score)
    starts, ends = (np.searchsorted(frame[order], true_frame[sample], side=side) for side in ("left", "right"))
    boxes, objects = [], []
    for row, start, end in zip(sample.tolist(), starts.tolist(), ends.tolist(), strict=True):
        mine = order[start:end]
        fits = np.flatnonzero(box_iou(xyxy[mine], np.broadcast_to(true_xyxy[row], (len(mine), 4))) > _FITS)
        if len(fits):
            boxes.append(mine[fits[0]])
            objects.append(row)
    return np.array(boxes, dtype=np.int64), np.array(objects, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassOrder:
    """How many boxes that fit objects have the right class: the share as given, and after the best renaming.

    The renaming maps each answer to the class of object that receives it most often; the most frequent pairs come
    first.
    """

    n: int
    right: float
    renamed: float
    means: tuple[tuple[int, int], ...]

    @property
    def is_other(self) -> bool:
        """Whether the answers consistently name other classes, which means a different class order."""
        several = len({true for _, true in self.means}) >= _LEAST_CLASSES
        return self.n >= _ENOUGH and several and self.renamed >= _PURE and self.right < 0.5 * self.renamed

    @property
    def is_none(self) -> bool:
        """Whether hardly any answer names its object's class, although there are several classes."""
        return self.n >= _ENOUGH and self.right < 0.1 and len({true for _, true in self.means}) > 1


def class_order(answer: Ints, said: Ints, true: Ints) -> ClassOrder:
    """Compare answers (N,), read as the assumed classes, with the classes of the objects they fit.

    >>> answer, true = np.arange(30) % 3, (np.arange(30) + 1) % 3
    >>> found = class_order(answer, answer, true)
    >>> found.right, found.renamed, found.is_other
    (0.0, 1.0, True)
    """
    if not len(answer):
        return ClassOrder(n=0, right=0.0, renamed=0.0, means=())
    words, word = np.unique(answer, return_inverse=True)
    classes, label = np.unique(true, return_inverse=True)
    table = np.zeros((len(words), len(classes)), dtype=np.int64)
    np.add.at(table, (word, label), 1)
    # Each class is used once: an answer given to every object maps to one class, not to all classes.
    means, free = [], table.copy()
    while free.max() > 0:
        a, b = np.unravel_index(int(free.argmax()), free.shape)
        means.append((int(words[a]), int(classes[b]), int(free[a, b])))
        free[a], free[:, b] = 0, 0
    return ClassOrder(
        n=len(answer),
        right=float((said == true).mean()),
        renamed=sum(many for *_, many in means) / len(answer),
        means=tuple((one, other) for one, other, _ in means),
    )
