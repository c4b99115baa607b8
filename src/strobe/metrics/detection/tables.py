"""The true objects as columns; a detector's boxes are `core.answers.BoxAnswers`."""

from dataclasses import dataclass

import numpy as np

from strobe.core.answers import check_places
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.errors import expect
from strobe.core.tables import Boxes


def _box_area(xyxy: Floats) -> Floats:
    return np.asarray((xyxy[:, 2] - xyxy[:, 0]) * (xyxy[:, 3] - xyxy[:, 1]), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthTable:
    """True objects, one row each, sorted by frame and then by label. Create a table with `TruthTable.of`.

    `crowd` marks regions that are neither required nor penalised (pycocotools' iscrowd). `area` is the object's area in
    pixels, or the box's area if nothing better is known. `track` identifies an object throughout its video; −1 if
    unknown.
    """

    frame: Ints
    label: Ints
    xyxy: Floats
    crowd: Bools
    area: Floats
    track: Ints
    n_frames: int
    n_classes: int

    def __post_init__(self) -> None:
        n = len(self.frame)
        expect(self.xyxy.shape == (n, 4), "TruthTable.xyxy", f"shape ({n}, 4)", self.xyxy.shape)
        for name in ("label", "crowd", "area", "track"):
            expect(len(getattr(self, name)) == n, f"TruthTable.{name}", f"{n} rows", len(getattr(self, name)))
        check_places("TruthTable", self.frame, self.label, n_frames=self.n_frames, n_classes=self.n_classes)
        key = self.frame.astype(np.int64) * self.n_classes + self.label
        expect(bool((np.diff(key) >= 0).all()), "TruthTable", "rows sorted by frame, then label", "another order")

    def __len__(self) -> int:
        return len(self.frame)

    @classmethod
    def of(
        cls,
        frame: Ints,
        label: Ints,
        xyxy: Floats,
        *,
        n_frames: int,
        n_classes: int,
        crowd: Bools | None = None,
        area: Floats | None = None,
        track: Ints | None = None,
    ) -> "TruthTable":
        """Build the table from columns in any order; rows of one frame and class keep their order."""
        order = np.lexsort((label, frame))
        boxes = np.take(np.asarray(xyxy, dtype=np.float64).reshape(-1, 4), order, axis=0)
        return cls(
            frame=np.asarray(frame)[order],
            label=np.asarray(label)[order],
            xyxy=boxes,
            crowd=np.zeros(len(order), dtype=bool) if crowd is None else np.asarray(crowd, dtype=bool)[order],
            area=_box_area(boxes) if area is None else np.asarray(area, dtype=np.float64)[order],
            track=np.full(len(order), -1) if track is None else np.asarray(track)[order],
            n_frames=n_frames,
            n_classes=n_classes,
        )

    @classmethod
    def of_boxes(cls, boxes: Boxes, *, n_frames: int, n_classes: int) -> "TruthTable":
        """Return the table of a dataset's boxes."""
        return cls.of(
            boxes.frame,
            boxes.label,
            boxes.xyxy,
            crowd=boxes.crowd,
            track=boxes.track,
            n_frames=n_frames,
            n_classes=n_classes,
        )

    def merged(self) -> "TruthTable":
        """Return the same objects with a single class, in the same order, to score localization alone."""
        return TruthTable(
            frame=self.frame,
            label=np.zeros(len(self), dtype=np.int64),
            xyxy=self.xyxy,
            crowd=self.crowd,
            area=self.area,
            track=self.track,
            n_frames=self.n_frames,
            n_classes=1,
        )
