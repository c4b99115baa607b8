"""Which sets are worth looking at: the flickers, chosen so that every model and class has its say. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import expect

__all__ = ["STATUSES", "Choice", "Classified", "Judge", "ModelView", "SetView", "Status", "choose", "view"]

Status = Literal["holds", "breaks", "wrong", "unscored"]

STATUSES: tuple[Status, ...] = ("holds", "breaks", "wrong", "unscored")
"""What a model can do on a set: right everywhere; right on the anchor and wrong on a member; wrong on the anchor
already; not predicted everywhere. For a detector: AP never below the anchor's; below it somewhere; nothing right on the
anchor; not predicted everywhere."""

_SHARE = 6  # of every so many sets, one that all models hold and one lost at the anchor: flickers alone mislead


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    """One model on one set; arrays are (M,), one per row of the set in order of distance.

    `breaker` is the place (in those arrays) of the frame that broke it: the nearest wrong one, the more confident of
    two equally near; None unless the status is `breaks`. `truth` is the probability given to the right answer and
    `confidence` that of the prediction, NaN where unknown.

    A detector has `boxes`, per row (n, 7): xyxy pixels, label, score, whether it is right; `truth` is then the frame's
    AP (NaN where nothing is to be found), `right` whether that is at least the anchor's, `breaker` the worst frame and
    `cause` the kind of error that costs most there.
    """

    model: str
    status: Status
    label: NDArray[np.int64]
    right: NDArray[np.bool_]
    confidence: NDArray[np.float64]
    truth: NDArray[np.float64]
    breaker: int | None
    boxes: tuple[NDArray[np.float64], ...] | None = None
    cause: str | None = None


class Judge(Protocol):
    """One model's word on all sets: a status and how striking its flicker is, (S,), and the view of one set."""

    @property
    def model(self) -> str:
        """The model's name."""

    @property
    def status(self) -> NDArray[np.str_]:
        """What the model does on each set, (S,)."""

    @property
    def score(self) -> NDArray[np.float64]:
        """How striking its flicker is, (S,); 0 where there is none."""

    def view(self, set_row: int) -> ModelView:
        """The model on one set."""


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


class Classified:
    """A classifier on all sets, worked out once over all their rows."""

    def __init__(self, dataset: Dataset, predictions: ClassAnswers) -> None:
        sets = dataset.sets
        expect(len(predictions.label) == len(dataset.frames), "predictions", "one per frame", len(predictions.label))
        self.model = predictions.model
        self._dataset, self._predictions = dataset, predictions
        self._right = dataset.right_rows(predictions.label)
        seen = predictions.scored[sets.frame]
        n_sets = dataset.n_sets
        wrong = np.bincount(sets.set, weights=~self._right & seen, minlength=n_sets)
        unseen = np.bincount(sets.set, weights=~seen, minlength=n_sets)
        anchor_right = self._right[sets.is_anchor]
        self.status: NDArray[np.str_] = np.where(
            unseen > 0, "unscored", np.where(~anchor_right, "wrong", np.where(wrong > 0, "breaks", "holds"))
        )
        confidence = predictions.confidence[sets.frame]
        # Labels alone carry no confidence: every break then counts the same, and distance decides.
        sure = np.where(np.isfinite(confidence), confidence, 0.5)
        # A striking flicker: sure of the right answer, then soon just as sure of a wrong one.
        row_score = np.where(self._right | ~seen, 0.0, sure * nearness(dataset))
        best = np.zeros(n_sets)
        np.maximum.at(best, sets.set, row_score)
        self.score: NDArray[np.float64] = np.where(self.status == "breaks", best * sure[sets.is_anchor], 0.0)
        if dataset.info.k == 0:  # nothing can break: a wrong answer is the more striking the surer it is
            self.score = np.where(self.status == "wrong", sure[sets.is_anchor], 0.0)

    def view(self, set_row: int) -> ModelView:
        """The model on one set."""
        sets = self._dataset.sets
        place = rows_of(self._dataset, set_row)
        rows, distance, right = sets.frame[place], sets.distance[place], self._right[place]
        confidence = self._predictions.confidence[rows]
        status: Status = str(self.status[set_row])  # type: ignore[assignment]  # one of its words
        breaker = None
        if status == "breaks":
            wrong = np.flatnonzero(~right)
            sure = np.where(np.isfinite(confidence[wrong]), confidence[wrong], 0.0)
            breaker = int(wrong[np.lexsort((wrong, -sure, np.abs(distance[wrong])))[0]])
        return ModelView(
            model=self.model,
            status=status,
            label=self._predictions.label[rows],
            right=right,
            confidence=confidence,
            truth=self._truth(place),
            breaker=breaker,
        )

    def _truth(self, place: slice) -> NDArray[np.float64]:
        """The probability of the right answer on each row, by the dataset's label rule; NaN where unknown."""
        rows, probability = self._dataset.sets.frame[place], self._predictions.probability
        truth = np.full(len(rows), np.nan)
        if probability is None:
            return truth
        judged = self._dataset.judged_frame[place]
        for i, row in enumerate(rows.tolist()):
            labels = self._dataset.labels_of(int(judged[i]))
            if labels:
                truth[i] = probability[row, list(labels)].max()
        return truth


def nearness(dataset: Dataset) -> NDArray[np.float64]:
    """How much a flicker at each set row is worth by its distance: the nearer, the more striking."""
    away = np.abs(dataset.sets.distance)
    return np.asarray(1.25 - away / max(float(away.max()), 1.0))


def rows_of(dataset: Dataset, set_row: int) -> slice:
    """The rows of one set."""
    start, stop = np.searchsorted(dataset.sets.set, [set_row, set_row + 1])
    return slice(int(start), int(stop))


def choose(dataset: Dataset, judges: Sequence[Judge], *, limit: int) -> Choice:
    """At most `limit` sets to look at, the same for the same input.

    Flickers come first, taken in turn from every (model, class) so that none crowds out the others, the most
    striking of each first; sets on which models part are preferred among equals. One in six is a set without a
    flicker that some model gets wrong on the anchor already, and one in six a set that every model holds.

    Where there are variants, turns go over (variant, model). Where every picture stands alone, wrong answers take the
    place of flickers, and a third are pictures that every model gets right.
    """
    expect(limit >= 0, "limit", ">= 0", limit)
    counts = {one.model: {status: int((one.status == status).sum()) for status in STATUSES} for one in judges}
    if not judges:
        return Choice(sets=(), counts={}, n_flickers=0, n_sets=dataset.n_sets)
    status = np.stack([one.status for one in judges])
    if dataset.info.k == 0:
        return _stills(dataset, judges, status, counts, limit)
    flickers = (status == "breaks").any(axis=0)
    parted = flickers & (status == "holds").any(axis=0)
    held = np.flatnonzero((status == "holds").all(axis=0))
    lost = np.flatnonzero((status == "wrong").any(axis=0) & ~flickers)
    share = limit // _SHARE if flickers.any() else min(limit, _SHARE)
    n_lost = min(len(lost), share)
    n_held = min(len(held), share, limit - n_lost)
    chosen = _in_turn(dataset, judges, parted, limit - n_lost - n_held)
    chosen += _spread(lost, n_lost) + _spread(held, n_held)
    return Choice(
        sets=tuple(view(dataset, judges, row) for row in chosen),
        counts=counts,
        n_flickers=int(flickers.sum()),
        n_sets=dataset.n_sets,
    )


def _stills(
    dataset: Dataset,
    judges: Sequence[Judge],
    status: NDArray[np.str_],
    counts: Mapping[str, Mapping[Status, int]],
    limit: int,
) -> Choice:
    wrong, right = (status == "wrong").any(axis=0), (status == "holds").any(axis=0)
    held = np.flatnonzero((status == "holds").all(axis=0))
    n_held = min(len(held), max(limit // 3, limit - int(wrong.sum())))
    chosen = _in_turn(dataset, judges, wrong & right, limit - n_held, kind="wrong") + _spread(held, n_held)
    sets = tuple(view(dataset, judges, row) for row in chosen)
    return Choice(sets=sets, counts=counts, n_flickers=0, n_sets=dataset.n_sets)


def view(dataset: Dataset, judges: Sequence[Judge], set_row: int) -> SetView:
    """One set with every model's word on it."""
    place = rows_of(dataset, set_row)
    rows = dataset.sets.frame[place].astype(np.int64)
    anchor = int(np.flatnonzero(dataset.sets.is_anchor[place])[0])
    return SetView(
        set_row=set_row,
        set_id=str(dataset.sets.set_id[set_row]),
        video=str(dataset.videos.name[dataset.video_of_set[set_row]]),
        labels=dataset.labels_of(int(rows[anchor])),
        rows=rows,
        distance=dataset.sets.distance[place],
        anchor=anchor,
        models=tuple(judge.view(set_row) for judge in judges),
    )


def _spread(rows: NDArray[np.int64], n: int) -> list[int]:
    """Some of the sets from all over the dataset instead of the first video's alone."""
    places = np.linspace(0, max(len(rows) - 1, 0), n).round().astype(int)
    return [int(row) for row in rows[places]]


def _in_turn(
    dataset: Dataset, judges: Sequence[Judge], parted: NDArray[np.bool_], limit: int, *, kind: Status = "breaks"
) -> list[int]:
    """Set rows of flickers, one from each (model, class) queue in turn; of (model, variant) where there are any."""
    queue_of = _first_labels(dataset) if dataset.variants is None else dataset.sets.variant
    queues: dict[tuple[int, int], list[tuple[float, int]]] = defaultdict(list)
    for place, one in enumerate(judges):
        for row in np.flatnonzero(one.status == kind).tolist():
            bonus = 0.25 if parted[row] else 0.0
            queues[int(queue_of[row]), place].append((-float(one.score[row]) - bonus, row))
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
