"""A detector's outcome on every set, for the gallery: where AP falls, by how much, and which boxes are right. Pure."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.gallery import ModelView, Status, nearness, rows_of
from strobe.core.answers import BoxAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, expect
from strobe.core.tables import Boxes
from strobe.metrics.detection.average import frame_ap
from strobe.metrics.detection.match import Overlap, match
from strobe.metrics.detection.tables import TruthTable
from strobe.metrics.detection.worst import worst_frames

MOST_BOXES = 25
LEAST_SCORE = 0.05
"""The most boxes shown per frame, and the lowest score shown, because a page cannot show a hundred boxes."""


class Detected:
    """A detector's outcome on all sets: per-frame AP as defined for scoring, and whether each box is right.

    `causes` maps a set id to the main kind of error on its worst frame, as in results.json.
    """

    def __init__(
        self,
        dataset: Dataset,
        model: str,
        found: BoxAnswers,
        *,
        iou: Overlap = (0.5,),
        max_dets: int = 100,
        causes: Mapping[str, str | None] | None = None,
    ) -> None:
        n_frames, n_classes = len(dataset.frames), len(dataset.info.label_space)
        expect(found.n_frames == n_frames, "detections", f"one answer per frame ({n_frames})", found.n_frames)
        if dataset.boxes is None:
            raise InvalidValue(f"{dataset.name} has no boxes; detections cannot be judged")
        self.model = model
        self._dataset, self._causes = dataset, causes or {}
        self._found = found
        truth = TruthTable.of_boxes(dataset.boxes, n_frames=n_frames, n_classes=n_classes)
        matches = match(truth, self._found, iou=iou, max_dets=max_dets)
        # AP is rounded as in scoring, so that the gallery and the score never disagree on which frame is worse.
        self._ap = np.round(frame_ap(truth, self._found, matches), 9)
        self._hit = np.zeros(len(self._found), dtype=bool)
        self._hit[matches[0].found] = True
        lost = matches[0].wanted.copy()
        lost[matches[0].object] = False
        self._missed = np.column_stack([truth.frame, truth.xyxy, truth.label])[lost]
        sets = dataset.sets
        reach = float(np.abs(sets.distance).max())
        worst = worst_frames(self._ap, sets.set, sets.frame, sets.distance, ks=(reach,))
        self._worst_row = worst.row[:, 0]
        before, after = self._ap[sets.anchor_frame], worst.ap[:, 0]
        unseen = np.bincount(sets.set, weights=~self._found.scored[sets.frame], minlength=dataset.n_sets) > 0
        falls = (after < before) | (np.isnan(before) & (after < 1))
        self.status: NDArray[np.str_] = np.where(
            unseen, "unscored", np.where(falls, "breaks", np.where(before == 0, "wrong", "holds"))
        )
        drop = np.where(np.isnan(before), 1.0, before) - np.nan_to_num(after)
        self.score: NDArray[np.float64] = np.where(
            self.status == "breaks", drop * nearness(dataset)[self._worst_row], 0.0
        )

    def view(self, set_row: int) -> ModelView:
        """Return the detector's view of one set."""
        sets = self._dataset.sets
        place = rows_of(self._dataset, set_row)
        rows = sets.frame[place]
        ap, seen = self._ap[rows], self._found.scored[rows]
        base = float(ap[sets.is_anchor[place]][0])
        status: Status = str(self.status[set_row])  # type: ignore[assignment]  # always a Status
        return ModelView(
            model=self.model,
            status=status,
            label=np.where(seen, 0, -1),
            right=np.isnan(ap) | (ap >= (1.0 if np.isnan(base) else base)),
            confidence=np.full(len(rows), np.nan),
            truth=ap,
            breaker=int(self._worst_row[set_row]) - place.start if status == "breaks" else None,
            boxes=tuple(self._boxes(int(row)) for row in rows),
            missed=tuple(self._missed[self._missed[:, 0] == row, 1:] for row in rows),
            cause=self._causes.get(str(sets.set_id[set_row])),
            seen=None if seen.all() else seen,
        )

    def _boxes(self, row: int) -> NDArray[np.float64]:
        """Return the frame's boxes to show, (n, 7): xyxy, label, score, and whether the box is right.

        The most confident come first.
        """
        table = self._found
        start, stop = np.searchsorted(table.frame, [row, row + 1])
        stop = min(int(stop), int(start) + MOST_BOXES)
        part = slice(int(start), stop)
        rows: NDArray[Any] = np.column_stack(
            [table.xyxy[part], table.label[part], table.score[part], self._hit[part]]
        ).astype(np.float64)
        return np.asarray(rows[rows[:, 5] >= LEAST_SCORE])


def truth_boxes(boxes: Boxes, row: int) -> NDArray[np.float64]:
    """Return the true objects on one frame, (n, 5): xyxy and label, without crowd regions."""
    here = (boxes.frame == row) & ~boxes.crowd
    return np.column_stack([boxes.xyxy[here], boxes.label[here]]).astype(np.float64)
