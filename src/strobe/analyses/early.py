"""Exact pm-k from fewer frames: which frames to predict next, and the smallest possible number of frames. Pure.

A set is settled once its anchor and one wrong frame are known, or once all of its frames are known. The remaining
frames of a settled set are skipped. If no set has a label, a frame counts as wrong if its answer differs from the
anchor's: flicker is then exact.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.plan import Plan
from strobe.core.answers import ClassAnswers, State
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.codec import Count
from strobe.core.errors import expect
from strobe.metrics.pmk import settled

STOPPED = "it needs every frame, but the run stopped early"
"""The reason for an omitted figure."""
WEIGHT = 1.0
"""The weight of the prior by distance; a weight of 1 counts like one observed model."""
SINGLES = 6
"""The number of first rounds, which predict one frame of each set.

A set that is still right after these rounds most likely holds. Each further round doubles the frames per set, so that
batches are full and rounds are few.
"""
NEVER_RIGHT = 2.0
"""The risk of a frame for which no answer is right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedEarly:
    """The number of frames in a run that stopped at the first wrong frame of each set (--stop-early).

    The sets have `frames` frames, of which `ran` were answered. `least` is the smallest number of answers that can
    settle every set.
    """

    frames: Count
    ran: Count
    least: Count

    def text(self) -> str:
        """Return the counts in words.

        >>> StoppedEarly(frames=21000, ran=13950, least=13100).text()
        'ran 13,950 of 21,000 frames (at least 13,100 are needed)'
        """
        return f"ran {self.ran:,} of {self.frames:,} frames (at least {self.least:,} are needed)"


def by_answers(plan: Plan) -> bool:
    """Return whether answers are compared with the anchor's, because no set has a label."""
    return not plan.view.labelled.any()


def wrong_rows(plan: Plan, answers: ClassAnswers) -> Bools:
    """Return which set rows (R,) have a wrong answer or, without labels, another answer than their anchor."""
    seen = answers.scored[plan.frame]
    if not by_answers(plan):
        return np.asarray(seen & ~plan.view.right_rows(answers.label))
    said = np.where(answers.state == State.OUTSIDE, -1, answers.label)[plan.frame]
    return _differs(plan, said, seen)


def _differs(plan: Plan, said: Ints, seen: Bools) -> Bools:
    """Return which rows have another answer than the anchor of their set; both answers are known."""
    anchor = np.flatnonzero(plan.is_anchor)[plan.set_row]
    return np.asarray(seen & seen[anchor] & (said != said[anchor]))


def is_stopped(plan: Plan, answers: ClassAnswers) -> bool:
    """Return whether frames of a full score were skipped on purpose, in the sets or between them."""
    skipped = answers.state == State.SKIPPED
    if not skipped.any() or skipped[plan.frame].any():
        return bool(skipped.any())
    return plan.strips is not None and bool(skipped[plan.strips.frame[plan.strips.frame >= 0]].any())


def settled_sets(plan: Plan, answers: ClassAnswers) -> Bools:
    """Return which sets (S,) can be scored at 0 and at k.

    These are fully answered, or their other frames were skipped after a wrong frame.
    """
    state = answers.state[plan.frame]
    seen = state <= State.OUTSIDE
    if not (state == State.SKIPPED).any():
        return np.asarray(np.logical_and.reduceat(seen, plan.start))
    wrong = wrong_rows(plan, answers)
    gone = np.logical_or.reduceat(~seen & (state != State.SKIPPED), plan.start)
    return np.asarray(settled(seen, wrong, plan.is_anchor, plan.start) & ~gone)


def open_sets(plan: Plan, answers: ClassAnswers) -> Bools:
    """Return which sets (S,) more answers would settle.

    Some frames of such a set are skipped, and none is unreadable or wrong so far.
    """
    state = answers.state[plan.frame]
    skipped = np.logical_or.reduceat(state == State.SKIPPED, plan.start)
    unreadable = np.logical_or.reduceat(state == State.UNREADABLE, plan.start)
    return np.asarray(skipped & ~unreadable & ~settled_sets(plan, answers))


def unanswered(plan: Plan, answers: ClassAnswers) -> int:
    """Return how many frames of the sets lack an answer; a skipped frame counts if its set is not settled."""
    state = answers.state[plan.frame]
    lacking = (state > State.OUTSIDE) & ((state != State.SKIPPED) | open_sets(plan, answers)[plan.set_row])
    return len(np.unique(plan.frame[lacking]))


def saved(plan: Plan, answers: ClassAnswers) -> StoppedEarly:
    """Return the number of frames in the sets, the number answered, and the smallest number that settles all sets.

    That smallest number includes every anchor, all frames of a set that holds, and one wrong member of a set that
    breaks. Shared frames count once. Of the overlapping sets that break, only disjoint sets are counted, so the number
    is a true lower bound.
    """
    state = answers.state[plan.frame]
    seen = state <= State.OUTSIDE
    wrong = wrong_rows(plan, answers)
    lost = np.logical_or.reduceat(state == State.UNREADABLE, plan.start)
    broken = np.logical_or.reduceat(wrong, plan.start)
    needed = np.zeros(len(answers.state), dtype=bool)
    needed[plan.frame[(plan.is_anchor | ~broken[plan.set_row]) & ~lost[plan.set_row]]] = True
    breaks = broken & ~lost & ~wrong[plan.is_anchor]
    breaks &= ~np.logical_or.reduceat(wrong & needed[plan.frame], plan.start)
    able = breaks[plan.set_row] & ~(seen & ~wrong) & ~plan.is_anchor
    return StoppedEarly(
        frames=len(plan.frames_used),
        ran=len(np.unique(plan.frame[seen])),
        least=int(needed.sum()) + _apart(plan.set_row[able], plan.frame[able], len(needed)),
    )


def _apart(set_row: Ints, frame: Ints, n_frames: int) -> int:
    """Count the sets that are disjoint from the sets counted before; each of them needs its own wrong frame."""
    if not len(frame):
        return 0
    if int(np.bincount(frame).max()) == 1:
        return len(np.unique(set_row))
    taken = np.zeros(n_frames, dtype=bool)
    count = 0
    for part in np.split(frame, np.flatnonzero(np.diff(set_row)) + 1):
        if not taken[part].any():
            taken[part] = True
            count += 1
    return count


class Failures:
    """The errors of earlier models so far. They decide which frames the next model predicts first."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._wrong = np.zeros(len(plan.frame))
        self._seen = np.zeros(len(plan.frame))

    def add(self, answers: ClassAnswers) -> None:
        """Add one model."""
        seen = answers.scored[self.plan.frame]
        self._seen += seen
        self._wrong += wrong_rows(self.plan, answers)

    def risk(self) -> Floats:
        """Return each set row's risk of being wrong, (R,), from earlier models or, without them, from the distance."""
        far = self.plan.level / (10.0 * max(self.plan.k, 1))
        risk = (self._wrong + WEIGHT * far) / (self._seen + WEIGHT)
        if not by_answers(self.plan):
            risk[(self.plan.view.right_labels < 0).all(axis=0)] = NEVER_RIGHT
        return np.asarray(risk)


class EarlyStopRounds:
    """One model's path to pm-k in rounds: first all anchors, then the riskiest frames of every set that may still hold.

    The next step depends only on the answers so far, so a resumed run takes the same steps as an uninterrupted run.
    """

    def __init__(self, plan: Plan, risk: Floats) -> None:
        expect(risk.shape == plan.frame.shape, "risk", "one per set row", risk.shape)
        self.plan = plan
        self._risk = risk
        n = len(plan.frame)
        self._seen, self._wrong, self._lost = (np.zeros(n, dtype=bool) for _ in range(3))
        self._said = np.full(n, -1, dtype=np.int64)
        self._by_answers = by_answers(plan)
        self._doubt = np.zeros(n)
        self._rounds = 0
        self._order = np.lexsort((plan.distance, plan.set_row))
        self._place = np.argsort(self._order)

    def tell(self, frames: Ints, answers: ClassAnswers) -> None:
        """Record the model's answers to these frames; `answers` has a row for every frame of the dataset."""
        scores = None if answers.scores is None else answers.scores[frames]
        answers = replace(
            answers,
            label=answers.label[frames],
            state=answers.state[frames],
            scores=scores,
            own_label=None,
            own_confidence=None,
            reasons={},
        )
        place = np.full(len(self.plan.view.frames), -1, dtype=np.int64)
        place[frames] = np.arange(len(frames))
        rows = np.flatnonzero(place[self.plan.frame] >= 0)
        at = place[self.plan.frame[rows]]
        state = answers.state[at]
        seen = state <= State.OUTSIDE
        self._seen[rows] = seen
        self._lost[rows] = state == State.UNREADABLE
        self._said[rows] = np.where(state == State.OUTSIDE, -1, answers.label[at])
        right_labels = self._right_labels(rows)
        if self._by_answers:
            self._wrong[rows] = _differs(self.plan, self._said, self._seen)[rows]
        else:
            self._wrong[rows] = seen & ~(right_labels == answers.label[at]).any(axis=0)
        if answers.probability is not None:
            given = answers.probability[at]
            truth = np.max(
                [
                    np.where(right_label >= 0, given[np.arange(len(at)), right_label], 0.0)
                    for right_label in right_labels
                ],
                axis=0,
            )
            self._doubt[rows] = 1 - np.where(seen, truth, 1.0)

    def _right_labels(self, rows: Ints) -> Ints:
        """Return the labels that count as right, (L, rows); without labels, the anchor's answer."""
        if not self._by_answers:
            return np.asarray(self.plan.view.right_labels[:, rows])
        anchor = np.flatnonzero(self.plan.is_anchor)[self.plan.set_row[rows]]
        return self._said[anchor][None]

    def next(self) -> NDArray[np.int64]:
        """Return the frames to predict now, ascending; empty if every set is settled."""
        plan = self.plan
        done = self._seen | self._lost
        first = plan.is_anchor & ~done
        if first.any():
            return np.unique(plan.frame[first])
        over = np.logical_or.reduceat(self._wrong | self._lost, plan.start)
        rows = np.flatnonzero(~done & ~over[plan.set_row])
        if not len(rows):
            return np.zeros(0, dtype=np.int64)
        self._rounds += 1
        risk = self._risk[rows] + self._near_doubt(rows)
        rows = rows[np.lexsort((plan.distance[rows], -plan.level[rows], -risk, plan.set_row[rows]))]
        mine = plan.set_row[rows]
        begin = np.flatnonzero(np.concatenate(([True], mine[1:] != mine[:-1])))
        rank = np.arange(len(rows)) - np.repeat(begin, np.diff(np.append(begin, len(rows))))
        return np.unique(plan.frame[rows[rank < 2 ** max(0, self._rounds - SINGLES)]])

    def _near_doubt(self, rows: Ints) -> Floats:
        """Interpolate the doubt about frames without an answer from the answered frames on either side, by distance."""
        plan, order = self.plan, self._order
        known = self._seen[order]
        places = np.arange(len(order))
        before = np.maximum.accumulate(np.where(known, places, -1))
        after = np.minimum.accumulate(np.where(known, places, len(order))[::-1])[::-1]
        at = self._place[rows]
        low, high = before[at], after[at]
        mine = plan.set_row[rows]
        has_low = (low >= 0) & (plan.set_row[order[low]] == mine)
        has_high = (high < len(order)) & (plan.set_row[order[np.minimum(high, len(order) - 1)]] == mine)
        low, high = order[np.where(has_low, low, high)], order[np.where(has_high, high, low)]
        gap = plan.distance[high] - plan.distance[low]
        share = np.divide(plan.distance[rows] - plan.distance[low], gap, out=np.zeros(len(rows)), where=gap > 0)
        return np.asarray((1 - share) * self._doubt[low] + share * self._doubt[high])
