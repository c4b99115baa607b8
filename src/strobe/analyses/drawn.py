"""Derive one box per image from people's boxes: a pure function of all answers given.

The rules:

- Each person's latest answer on an image counts, regardless of the round.
- An image is kept iff more than half of these answers keep it with a box of the same class. A tie is not kept.
- Each side of its box is the median of that side over the boxes in these answers. Boxes of another class do not affect
  it.
- Two people disagree on an image if one keeps and the other discards it, if their classes differ, or if their boxes
  overlap (IoU) less than required. An image on which two people disagree in round one is shown to everyone again.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, expect, printable
from strobe.core.people import BoxAnswer, latest_answers
from strobe.core.tables import Boxes
from strobe.metrics.box_agreement import median_box, pairwise_iou

AGREE = 0.7
"""The smallest overlap (IoU) at which two boxes count as the same."""

Corners = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The result for one image: kept with a class and a box, or not.

    `people` are all people whose answer counts, and `keepers` are the people whose boxes were combined. `overlap` is
    the smallest IoU between two of the combined boxes (None if there is one box). `suggested` counts the unchanged
    detector boxes among the combined boxes. `reasons` are given by the people who discard the image.
    """

    frame_id: str
    people: tuple[str, ...]
    label: str = ""
    xyxy: Corners | None = None
    keepers: tuple[str, ...] = ()
    overlap: float | None = None
    suggested: int = 0
    reasons: tuple[str, ...] = ()

    @property
    def is_kept(self) -> bool:
        """Whether a strict majority keeps the image."""
        return self.xyxy is not None

    @classmethod
    def of(cls, frame_id: str, words: Collection[BoxAnswer]) -> "Drawn":
        """Combine the answers that count, one per person."""
        expect(len(words) > 0, "words", "at least one", 0)
        ordered = sorted(words, key=lambda word: word.annotator)
        people = tuple(word.annotator for word in ordered)
        expect(len(set(people)) == len(people), "words", "one per person", people)
        reasons = tuple(word.reason for word in ordered if word.decision == "discard")
        bare = cls(frame_id=frame_id, people=people, reasons=reasons)
        label, count = max(
            Counter(word.label for word in _kept(ordered)).items(), key=lambda one: one[1], default=("", 0)
        )
        if 2 * count <= len(ordered):
            return bare
        chosen = [word for word in _kept(ordered) if word.label == label]
        boxes = np.array([word.xyxy for word in chosen], dtype=np.float64)
        x0, y0, x1, y1 = median_box(boxes).tolist()
        return replace(
            bare,
            label=label,
            xyxy=(x0, y0, x1, y1),
            keepers=tuple(word.annotator for word in chosen),
            overlap=float(pairwise_iou(boxes).min()) if len(boxes) > 1 else None,
            suggested=sum(word.suggested for word in chosen),
        )


def _kept(words: Collection[BoxAnswer]) -> list[BoxAnswer]:
    return [word for word in words if word.decision == "keep"]


def disagree(words: Collection[BoxAnswer], *, agree: float = AGREE) -> bool:
    """Return whether any two of these answers on one image, one per person, disagree."""
    kept = _kept(words)
    if len(kept) < len(words):
        return bool(kept)
    if len({word.label for word in kept}) > 1:
        return True
    boxes = np.array([word.xyxy for word in kept], dtype=np.float64).reshape(-1, 4)
    return bool((pairwise_iou(boxes) < agree).any())


def drawn_pictures(dataset: Dataset) -> tuple[Drawn, ...]:
    """Return the result for every image with box answers, in the order of the dataset's frames."""
    latest, row = latest_answers(dataset.drawn), {frame: row for row, frame in enumerate(dataset.frame_ids())}
    results = tuple(
        Drawn.of(frame, latest[frame].values()) for frame in sorted(latest.keys() & row, key=row.__getitem__)
    )
    for result in results:
        if result.xyxy is not None:
            size_wh = int(dataset.frames.width[row[result.frame_id]]), int(dataset.frames.height[row[result.frame_id]])
            check_inside(result.xyxy, size_wh, what=str(dataset.frames.key[row[result.frame_id]]))
    return results


def check_inside(xyxy: Corners, size_wh: tuple[int, int], *, what: str) -> None:
    """Raise InvalidValue unless the box has an area and is inside the image; a size of zero means unknown.

    >>> check_inside((0, 0, 11, 5), (10, 10), what="a.png")
    Traceback (most recent call last):
    strobe.core.errors.InvalidValue: a.png: the box 0, 0, 11, 5 is not inside the image of 10×10 pixels
    """
    x0, y0, x1, y1 = xyxy
    shown = ", ".join(f"{side:g}" for side in xyxy)
    if not (x1 > x0 and y1 > y0):
        raise InvalidValue(f"{printable(what)}: the box {shown} has no area")
    width, height = size_wh
    if x0 < 0 or y0 < 0 or (width and x1 > width) or (height and y1 > height):
        raise InvalidValue(f"{printable(what)}: the box {shown} is not inside the image of {width}×{height} pixels")


def with_drawn_boxes(dataset: Dataset, pictures: Sequence[Drawn]) -> Dataset:
    """Return the sets whose anchor people keep; people's boxes replace the boxes of these anchors.

    Boxes of other frames are kept.
    """
    kept = {picture.frame_id: picture for picture in pictures if picture.xyxy is not None}
    if not kept:
        raise InvalidValue(f"{dataset.name}: people kept no image; strobe review status lists their answers")
    ids, space = dataset.frame_ids(), dataset.info.label_space
    rows = [row for row, frame in enumerate(ids) if frame in kept]
    pictures_kept = [kept[ids[row]] for row in rows]
    before = dataset.boxes
    if before is None:
        before = Boxes(
            frame=np.zeros(0, dtype=np.int64),
            label=np.zeros(0, dtype=np.int64),
            xyxy=np.zeros((0, 4)),
            track=np.zeros(0, dtype=np.int64),
            crowd=np.zeros(0, dtype=bool),
        )
    stays = ~np.isin(before.frame, rows)
    label = [space.index(one.label) for one in pictures_kept]
    frame = np.concatenate([before.frame[stays], rows])
    order = np.argsort(frame, kind="stable")
    boxes = Boxes(
        frame=frame[order],
        label=np.concatenate([before.label[stays], label])[order],
        xyxy=np.concatenate([before.xyxy[stays], np.array([one.xyxy for one in pictures_kept])])[order],
        track=np.concatenate([before.track[stays], np.full(len(rows), -1)])[order],
        crowd=np.concatenate([before.crowd[stays], np.zeros(len(rows), dtype=bool)])[order],
    )
    anchored = np.isin(dataset.sets.anchor_frame, rows)
    if not anchored.any():
        raise InvalidValue(f"{dataset.name}: people kept no anchor of a set, so no set would be left")
    return replace(dataset, boxes=boxes).keep_rows(anchored[dataset.sets.set])
