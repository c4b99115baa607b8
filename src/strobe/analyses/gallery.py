"""Choose sets with flickers to show, so that every model and class is represented. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import ClassAnswers, State
from strobe.core.dataset import Dataset
from strobe.core.errors import expect
from strobe.core.names import short_names

Status = Literal["holds", "breaks", "wrong", "unscored"]

STATUSES: tuple[Status, ...] = ("holds", "breaks", "wrong", "unscored")
"""A model's possible outcomes on a set.

They are: right everywhere; right on the anchor and wrong on a member; wrong on the anchor already; not fully
predicted. For a detector: AP never below the anchor's; below it somewhere; nothing right on the anchor; not fully
predicted.
"""

# Of this many sets, one is held by all models and one is wrong at the anchor, because flickers alone would mislead.
_SHARE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelView:
    """One model on one set; arrays are (M,), one entry per row of the set in order of distance.

    `breaker` is the index (in these arrays) of the frame that broke the set; it is None unless the status is `breaks`.
    The breaker is the nearest wrong frame or, of two equally near frames, the frame with the more confident answer.
    `truth` is the probability of the right answer, and `confidence` is the probability of the prediction; both are NaN
    if unknown.

    A detector has `boxes`, per row (n, 7): xyxy pixels, label, score, and whether the box is right. `truth` is then the
    frame's AP (NaN if there are no objects to find). `right` is whether this AP is at least the anchor's. `breaker` is
    the worst frame, and `cause` is the kind of error that costs most AP on this frame. `missed` are the objects that no
    right box found, per row (n, 5). `seen` marks the answered rows, if some were not answered. `skipped` marks the rows
    that were never requested.
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
    missed: tuple[NDArray[np.float64], ...] | None = None
    seen: NDArray[np.bool_] | None = None
    skipped: NDArray[np.bool_] | None = None


class Judge(Protocol):
    """One model's outcome on all sets: a status and the strength of its flicker, (S,), and the view of one set."""

    @property
    def model(self) -> str:
        """The model's name."""

    @property
    def status(self) -> NDArray[np.str_]:
        """The model's outcome on each set, (S,)."""

    @property
    def score(self) -> NDArray[np.float64]:
        """The strength of the model's flicker on each set, (S,); 0 if there is none."""

    def view(self, set_row: int) -> ModelView:
        """Return the model's view of one set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetView:
    """One set with every model's view of it. `rows` are rows of the frame table, and `anchor` is an index into `rows`.

    `name` and `source` are short and unique, as in tables/sets.
    """

    set_row: int
    name: str
    source: str
    labels: tuple[int, ...]
    rows: NDArray[np.int64]
    distance: NDArray[np.float64]
    anchor: int
    models: tuple[ModelView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen sets, best first, and the totals: `counts[model][status]` over the whole dataset.

    `change` names the two models whose changed sets were chosen first, if both are present. `thinned` is set if sets
    were skipped because they overlap with a chosen set.
    """

    sets: tuple[SetView, ...]
    counts: Mapping[str, Mapping[Status, int]]
    n_flickers: int
    n_sets: int
    change: tuple[str, str] | None = None
    thinned: bool = False


class Classified:
    """A classifier's outcome on all sets, computed once over all their rows."""

    def __init__(self, dataset: Dataset, predictions: ClassAnswers) -> None:
        sets = dataset.sets
        expect(len(predictions.label) == len(dataset.frames), "predictions", "one per frame", len(predictions.label))
        self.model = predictions.model
        self._dataset, self._predictions = dataset, predictions
        self._right = dataset.right_rows(predictions.label)
        self._seen = seen = predictions.scored[sets.frame]
        n_sets = dataset.n_sets
        wrong = np.bincount(sets.set, weights=~self._right & seen, minlength=n_sets)
        # A set that is settled without the skipped frames is scored.
        skipped = (predictions.state[sets.frame] == State.SKIPPED) & (wrong[sets.set] > 0)
        unseen = np.bincount(sets.set, weights=~seen & ~(skipped & ~sets.is_anchor), minlength=n_sets)
        anchor_right = self._right[sets.is_anchor]
        self.status: NDArray[np.str_] = np.where(
            unseen > 0, "unscored", np.where(~anchor_right, "wrong", np.where(wrong > 0, "breaks", "holds"))
        )
        confidence = predictions.confidence[sets.frame]
        # Labels have no confidence, so every break then has the same weight, and distance decides.
        sure = np.where(np.isfinite(confidence), confidence, 0.5)
        # A flicker is strong if the model is confident of the right answer, and soon after just as confident of a wrong
        # answer.
        row_score = np.where(self._right | ~seen, 0.0, sure * nearness(dataset))
        best = np.zeros(n_sets)
        np.maximum.at(best, sets.set, row_score)
        self.score: NDArray[np.float64] = np.where(self.status == "breaks", best * sure[sets.is_anchor], 0.0)
        if dataset.info.k == 0:  # no set can break, so confident wrong answers rank first
            self.score = np.where(self.status == "wrong", sure[sets.is_anchor], 0.0)

    def view(self, set_row: int) -> ModelView:
        """Return the model's view of one set."""
        sets = self._dataset.sets
        place = rows_of(self._dataset, set_row)
        rows, distance, right = sets.frame[place], sets.distance[place], self._right[place]
        confidence, seen = self._predictions.confidence[rows], self._seen[place]
        status: Status = str(self.status[set_row])  # type: ignore[assignment]  # always a Status
        breaker = None
        if status == "breaks":
            wrong = np.flatnonzero(~right & seen)
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
            seen=None if seen.all() else seen,
            skipped=None if seen.all() else self._predictions.state[rows] == State.SKIPPED,
        )

    def _truth(self, place: slice) -> NDArray[np.float64]:
        """Return the probability of the right answer on each row, by the dataset's label rule; NaN if unknown."""
        rows, answers = self._dataset.sets.frame[place], self._predictions
        truth = np.full(len(rows), np.nan)
        if not answers.has_shares:
            return truth
        shares = answers.shares_of(rows)
        judged = self._dataset.judged_frame[place]
        for i in range(len(rows)):
            labels = self._dataset.labels_of(int(judged[i]))
            if labels:
                truth[i] = shares[i, list(labels)].max()
        return truth


def nearness(dataset: Dataset) -> NDArray[np.float64]:
    """Return the weight of a flicker at each set row by its distance; a nearer flicker is stronger."""
    away = np.abs(dataset.sets.distance)
    return np.asarray(1.25 - away / max(float(away.max()), 1.0))


def rows_of(dataset: Dataset, set_row: int) -> slice:
    """Return the rows of one set."""
    start, stop = np.searchsorted(dataset.sets.set, [set_row, set_row + 1])
    return slice(int(start), int(stop))


def choose(dataset: Dataset, judges: Sequence[Judge], *, limit: int, change: tuple[str, str] | None = None) -> Choice:
    """Choose at most `limit` sets to show, deterministically.

    Flickers come first. Sets are taken in turn from every (model, class), beginning with the strongest flicker of each,
    so that no model or class crowds out the others. Among equals, sets on which models differ are preferred. Of every
    six sets, one has no flicker but an anchor that some model gets wrong, and another is held by every model.

    With variants, sets are taken in turn from every (variant, model). If every image is a set of its own, wrong answers
    replace flickers, and a third of the sets are images that every model gets right.

    With `change` (the models before and after), up to half of the sets are newly broken or newly held. These two kinds
    alternate, and the strongest sets of each kind come first.

    If the anchor of one set is in another set, only one of the two is chosen, because both show the same frames.
    Overlapping sets are added only if the sets without overlap fill less than a third of `limit`.
    """
    expect(limit >= 0, "limit", ">= 0", limit)
    counts = {judge.model: {status: int((judge.status == status).sum()) for status in STATUSES} for judge in judges}
    if not judges:
        return Choice(sets=(), counts={}, n_flickers=0, n_sets=dataset.n_sets)
    status = np.stack([judge.status for judge in judges])
    if dataset.info.k == 0:
        return _stills(dataset, judges, status, counts, limit)
    apart = _Apart(dataset)
    changed = apart.of(_changed(judges, change), limit // 2)
    flickers = (status == "breaks").any(axis=0)
    parted = flickers & (status == "holds").any(axis=0)
    held = np.flatnonzero((status == "holds").all(axis=0))
    lost = np.flatnonzero((status == "wrong").any(axis=0) & ~flickers)
    lost = lost[~np.isin(lost, changed)]
    rest = limit - len(changed)
    share = rest // _SHARE if flickers.any() else min(rest, _SHARE)
    n_lost = min(len(lost), share)
    n_held = min(len(held), share, rest - n_lost)
    chosen = changed + _in_turn(dataset, judges, parted, rest - n_lost - n_held, seen=changed, apart=apart)
    if len(chosen) < limit // 3:
        chosen += _in_turn(dataset, judges, parted, limit // 3 - len(chosen), seen=chosen)
    for rows, n in ((lost, n_lost), (held, n_held)):
        chosen += apart.of(_spread(apart.of(rows.tolist(), taking=False), n))
    return Choice(
        sets=views(dataset, judges, chosen),
        counts=counts,
        n_flickers=int(flickers.sum()),
        n_sets=dataset.n_sets,
        change=change if change and set(change) <= counts.keys() else None,
        thinned=apart.passed > 0,
    )


class _Apart:
    """The sets chosen so far, and the sets that overlap with them.

    Two sets overlap if the anchor of one is a frame of the other.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        # One image under several variants is shown under each.
        self._never = dataset.variants is not None or int(np.bincount(dataset.sets.frame).max()) <= 1
        self._anchors: set[int] = set()
        self._frames: set[int] = set()
        self.passed = 0

    def take(self, row: int, *, taking: bool = True) -> bool:
        """Return whether a set overlaps with no chosen set; if so, it is added."""
        if self._never:
            return True
        anchor = int(self._dataset.sets.anchor_frame[row])
        frames = set(self._dataset.sets.frame[rows_of(self._dataset, row)].tolist())
        if anchor in self._frames or not frames.isdisjoint(self._anchors):
            self.passed += 1
            return False
        if taking:
            self._anchors.add(anchor)
            self._frames |= frames
        return True

    def of(self, rows: Sequence[int], most: int | None = None, *, taking: bool = True) -> list[int]:
        """Return at most this many of the sets that do not overlap, in their order."""
        out: list[int] = []
        for row in rows:
            if most is not None and len(out) >= most:
                break
            if self.take(int(row), taking=taking):
                out.append(int(row))
        return out


def _stills(
    dataset: Dataset,
    judges: Sequence[Judge],
    status: NDArray[np.str_],
    counts: Mapping[str, Mapping[Status, int]],
    limit: int,
) -> Choice:
    wrong, right = (status == "wrong").any(axis=0), (status == "holds").any(axis=0)
    rows = np.flatnonzero((status == "holds").all(axis=0))
    n_held = min(len(rows), max(limit // 3, limit - int(wrong.sum())))
    chosen = _in_turn(dataset, judges, wrong & right, limit - n_held, kind="wrong") + _spread(rows.tolist(), n_held)
    return Choice(sets=views(dataset, judges, chosen), counts=counts, n_flickers=0, n_sets=dataset.n_sets)


def views(dataset: Dataset, judges: Sequence[Judge], set_rows: Sequence[int]) -> tuple[SetView, ...]:
    """Return sets with every model's view of them."""
    names = short_names(dataset.sets.set_id.tolist()), short_names(dataset.videos.name.tolist())
    return tuple(_view(dataset, judges, row, *names) for row in set_rows)


def _view(
    dataset: Dataset, judges: Sequence[Judge], set_row: int, names: Sequence[str], sources: Sequence[str]
) -> SetView:
    place = rows_of(dataset, set_row)
    rows = dataset.sets.frame[place].astype(np.int64)
    anchor = int(np.flatnonzero(dataset.sets.is_anchor[place])[0])
    return SetView(
        set_row=set_row,
        name=names[set_row],
        source=sources[int(dataset.video_of_set[set_row])],
        labels=dataset.labels_of(int(rows[anchor])),
        rows=rows,
        distance=dataset.sets.distance[place],
        anchor=anchor,
        models=tuple(judge.view(set_row) for judge in judges),
    )


def changes(before: Judge, after: Judge) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which sets are newly held and which are newly broken from one model to the other, (S,) each."""
    held = [one.status == "holds" for one in (before, after)]
    both = (before.status != "unscored") & (after.status != "unscored")
    return np.asarray(held[1] & ~held[0] & both), np.asarray(held[0] & ~held[1] & both)


def _changed(judges: Sequence[Judge], change: tuple[str, str] | None) -> list[int]:
    """Yield the rows of newly broken and newly held sets, in turn."""
    by_name = {judge.model: judge for judge in judges}
    if change is None or not all(name in by_name for name in change):
        return []
    before, after = (by_name[name] for name in change)
    held, broken = changes(before, after)
    queues = []
    for where, fails in ((broken, after), (held, before)):
        rows = np.flatnonzero(where)
        queues.append(rows[np.argsort(-fails.score[rows], kind="stable")].tolist())
    return [row for pair in zip_longest(*queues) for row in pair if row is not None]


def _spread(rows: Sequence[int], n: int) -> list[int]:
    """Return sets spread over the whole dataset, instead of only the sets of its first video."""
    places = np.linspace(0, max(len(rows) - 1, 0), min(n, len(rows))).round().astype(int)
    return [rows[place] for place in places.tolist()]


def _in_turn(
    dataset: Dataset,
    judges: Sequence[Judge],
    parted: NDArray[np.bool_],
    limit: int,
    *,
    kind: Status = "breaks",
    seen: Sequence[int] = (),
    apart: _Apart | None = None,
) -> list[int]:
    """Yield the rows of sets with a flicker, one from each queue in turn.

    There is a queue for each (model, class) or, with variants, for each (model, variant).

    It skips rows already `seen`, and rows that overlap according to `apart`.
    """
    queue_of = _first_labels(dataset) if dataset.variants is None else dataset.sets.variant
    queues: dict[tuple[int, int], list[tuple[float, int]]] = defaultdict(list)
    for index, judge in enumerate(judges):
        for row in np.flatnonzero(judge.status == kind).tolist():
            bonus = 0.25 if parted[row] else 0.0
            queues[int(queue_of[row]), index].append((-float(judge.score[row]) - bonus, row))
    for queue in queues.values():
        queue.sort(reverse=True)  # the best row is last, where it is popped
    order = sorted(queues, key=lambda key: (queues[key][-1], key))
    chosen: list[int] = []
    gone = set(seen)
    while len(chosen) < limit and order:
        for key in list(order):
            queue = queues[key]
            while queue and queue[-1][1] in gone:
                queue.pop()
            if not queue:
                order.remove(key)
                continue
            row = queue.pop()[1]
            gone.add(row)
            if apart is not None and not apart.take(row):
                continue
            chosen.append(row)
            if len(chosen) == limit:
                break
    return chosen


def _first_labels(dataset: Dataset) -> NDArray[np.int64]:
    """Return the lowest label of each set's anchor, −1 if it has none."""
    lowest = np.full(len(dataset.frames), np.iinfo(np.int64).max)
    np.minimum.at(lowest, dataset.labels.frame, dataset.labels.label)
    first = lowest[dataset.sets.anchor_frame]
    return np.where(first == np.iinfo(np.int64).max, -1, first)
