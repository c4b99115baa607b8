"""Which sets are worth looking at: the flickers, chosen so that every model and class has its say. Pure."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.dataset import Dataset
from strobe.core.errors import expect
from strobe.core.predictions import Predictions

__all__ = ["STATUSES", "Choice", "ModelView", "SetView", "choose", "view"]

Status = Literal["holds", "breaks", "wrong", "unscored"]

STATUSES: tuple[Status, ...] = ("holds", "breaks", "wrong", "unscored")
"""What a model can do on a set: right everywhere; right on the anchor and wrong on a member; wrong on the anchor
already; not predicted everywhere."""

_HELD_SHARE = 6  # of every so many sets shown, one that all models hold: a gallery of failures alone misleads


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    """One model on one set; arrays are (M,), one per row of the set in order of distance.

    `breaker` is the place (in those arrays) of the frame that broke it: the nearest wrong one, the more confident of
    two equally near; None unless the status is `breaks`. `truth` is the probability given to the right answer and
    `confidence` that of the prediction, NaN where unknown.
    """

    model: str
    status: Status
    label: NDArray[np.int64]
    right: NDArray[np.bool_]
    confidence: NDArray[np.float64]
    truth: NDArray[np.float64]
    breaker: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetView:
    """One set with every model's word on it. `rows` are places in the frame table, `anchor` a place in `rows`."""

    set_row: int
    set_id: str
    video: str
    labels: tuple[int, ...]
    rows: NDArray[np.int64]
    distance: NDArray[np.float64]
    anchor: int
    models: tuple[ModelView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen sets, best first, and out of how many: `counts[model][status]` over the whole dataset."""

    sets: tuple[SetView, ...]
    counts: Mapping[str, Mapping[Status, int]]
    n_flickers: int
    n_sets: int


class _Judged:
    """What is needed of one model for ranking and viewing, computed once over all rows of all sets."""

    def __init__(self, dataset: Dataset, predictions: Predictions) -> None:
        sets = dataset.sets
        expect(len(predictions.label) == len(dataset.frames), "predictions", "one per frame", len(predictions.label))
        self.model = predictions.model
        self.predictions = predictions
        self.right = dataset.right_rows(predictions.label)
        seen = predictions.scored[sets.frame]
        n_sets = dataset.n_sets
        wrong = np.bincount(sets.set, weights=~self.right & seen, minlength=n_sets)
        unseen = np.bincount(sets.set, weights=~seen, minlength=n_sets)
        anchor_right = self.right[sets.is_anchor]
        self.status = np.where(
            unseen > 0, "unscored", np.where(~anchor_right, "wrong", np.where(wrong > 0, "breaks", "holds"))
        )
        confidence = predictions.confidence[sets.frame]
        # Labels alone carry no confidence: every break then counts the same, and distance decides.
        sure = np.where(np.isfinite(confidence), confidence, 0.5)
        away = np.abs(sets.distance)
        reach = max(float(away.max()), 1.0)
        # A striking flicker: sure of the right answer, then soon just as sure of a wrong one.
        row_score = np.where(self.right | ~seen, 0.0, sure * (1.25 - away / reach))
        best = np.zeros(n_sets)
        np.maximum.at(best, sets.set, row_score)
        self.score = np.where(self.status == "breaks", best * sure[sets.is_anchor], 0.0)


def choose(dataset: Dataset, predictions: Mapping[str, Predictions], *, limit: int) -> Choice:
    """At most `limit` sets to look at, the same for the same input.

    Flickers come first, taken in turn from every (model, class) so that none crowds out the others, the most
    striking of each first; sets on which models part are preferred among equals. One in six is a set that every
    model holds.
    """
    expect(limit >= 0, "limit", ">= 0", limit)
    judged = [_Judged(dataset, prediction) for prediction in predictions.values()]
    counts = {one.model: {status: int((one.status == status).sum()) for status in STATUSES} for one in judged}
    if not judged:
        return Choice(sets=(), counts={}, n_flickers=0, n_sets=dataset.n_sets)
    status = np.stack([one.status for one in judged])
    flickers = (status == "breaks").any(axis=0)
    parted = flickers & (status == "holds").any(axis=0)
    held = np.flatnonzero((status == "holds").all(axis=0))
    n_held = min(len(held), limit // _HELD_SHARE)
    chosen = _in_turn(dataset, judged, parted, limit - n_held)
    # Spread the held ones over the dataset instead of taking the first video's.
    places = np.linspace(0, max(len(held) - 1, 0), n_held).round().astype(int)
    chosen += [int(row) for row in held[places]]
    return Choice(
        sets=tuple(_view(dataset, judged, row) for row in chosen),
        counts=counts,
        n_flickers=int(flickers.sum()),
        n_sets=dataset.n_sets,
    )


def view(dataset: Dataset, predictions: Mapping[str, Predictions], set_row: int) -> SetView:
    """One set with every model's word on it."""
    return _view(dataset, [_Judged(dataset, prediction) for prediction in predictions.values()], set_row)


def _in_turn(dataset: Dataset, judged: list[_Judged], parted: NDArray[np.bool_], limit: int) -> list[int]:
    """Set rows of flickers, one from each (model, class) queue in turn."""
    first_label = _first_labels(dataset)
    queues: dict[tuple[int, int], list[tuple[float, int]]] = defaultdict(list)
    for place, one in enumerate(judged):
        for row in np.flatnonzero(one.status == "breaks").tolist():
            bonus = 0.25 if parted[row] else 0.0
            queues[int(first_label[row]), place].append((-float(one.score[row]) - bonus, row))
    for queue in queues.values():
        queue.sort(reverse=True)  # popped from the end
    order = sorted(queues, key=lambda key: (queues[key][-1], key))
    chosen: list[int] = []
    seen: set[int] = set()
    while len(chosen) < limit and order:
        for key in list(order):
            queue = queues[key]
            while queue and queue[-1][1] in seen:
                queue.pop()
            if not queue:
                order.remove(key)
                continue
            row = queue.pop()[1]
            seen.add(row)
            chosen.append(row)
            if len(chosen) == limit:
                break
    return chosen


def _first_labels(dataset: Dataset) -> NDArray[np.int64]:
    """The lowest label of each set's anchor, −1 where it has none."""
    lowest = np.full(len(dataset.frames), np.iinfo(np.int64).max)
    np.minimum.at(lowest, dataset.labels.frame, dataset.labels.label)
    first = lowest[dataset.sets.anchor_frame]
    return np.where(first == np.iinfo(np.int64).max, -1, first)


def _view(dataset: Dataset, judged: list[_Judged], set_row: int) -> SetView:
    sets = dataset.sets
    start, stop = np.searchsorted(sets.set, [set_row, set_row + 1])
    place = slice(int(start), int(stop))
    rows = sets.frame[place].astype(np.int64)
    anchor = int(np.flatnonzero(sets.is_anchor[place])[0])
    own = [dataset.labels_of(int(row)) for row in rows]
    answers = own if dataset.info.label_source == "frame" else [own[anchor]] * len(rows)
    distance = sets.distance[place]
    return SetView(
        set_row=set_row,
        set_id=str(sets.set_id[set_row]),
        video=str(dataset.videos.name[dataset.video_of_set[set_row]]),
        labels=own[anchor],
        rows=rows,
        distance=distance,
        anchor=anchor,
        models=tuple(_model_view(one, place, rows, answers, distance, set_row) for one in judged),
    )


def _model_view(
    one: _Judged,
    place: slice,
    rows: NDArray[np.int64],
    answers: list[tuple[int, ...]],
    distance: NDArray[np.float64],
    set_row: int,
) -> ModelView:
    right = one.right[place]
    confidence = one.predictions.confidence[rows]
    probability: NDArray[Any] | None = one.predictions.probability
    truth = np.full(len(rows), np.nan)
    if probability is not None:
        for i, (row, labels) in enumerate(zip(rows, answers, strict=True)):
            if labels:
                truth[i] = probability[row, list(labels)].max()
    status: Status = str(one.status[set_row])  # type: ignore[assignment]
    breaker = None
    if status == "breaks":
        wrong = np.flatnonzero(~right)
        sure = np.where(np.isfinite(confidence[wrong]), confidence[wrong], 0.0)
        breaker = int(wrong[np.lexsort((wrong, -sure, np.abs(distance[wrong])))[0]])
    return ModelView(
        model=one.model,
        status=status,
        label=one.predictions.label[rows],
        right=right,
        confidence=confidence,
        truth=truth,
        breaker=breaker,
    )
