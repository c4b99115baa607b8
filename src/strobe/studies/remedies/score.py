"""What remedies gain and cost: changes, accuracy, delay, forward passes and truth lost. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from strobe.analyses.box_measures import class_changes, followed, outages
from strobe.analyses.detection import has_boxes
from strobe.analyses.detection import score as score_boxes
from strobe.analyses.measures import column_of
from strobe.analyses.plan import Plan, ScoreOptions
from strobe.analyses.remedied import Stretches
from strobe.analyses.video_plan import cut_frames
from strobe.core.answers import Answers, BoxAnswers, ClassAnswers, State
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import ModelFailed
from strobe.core.estimate import Estimate, Missing
from strobe.metrics.columns import Column
from strobe.metrics.links import LinkRules
from strobe.metrics.pmk import first_wrong
from strobe.metrics.remedies import Followed, Remedy, follow, on_front, stretches
from strobe.metrics.remedies_boxes import in_place
from strobe.studies.remedies.records import NONE, RemedyScore

DEFAULT = tuple(
    map(
        Remedy.of,
        (
            "hold=0.1", "hold=0.27", "hold=0.5", "hold=1", "confirm=2", "hysteresis=0.3", "mode=5", "mode=11", "mean=3",
            "mean=6", "mean=11", "ema=0.5", "ema=0.2", "mean-around=2", "fill=0.27", "fill=0.5",
        ),
    )
)  # fmt: skip
"""The remedies that `--remedies` measures. They need no forward pass."""

LONGEST_S = 20.0
"""How long after an object left a box in its place is still looked for."""

ENOUGH, FEW = 0.5, 0.1
"""A remedy is recommended if it removes this share of the changes and swallows at most that share of the real ones."""


# -- how changes are counted ---------------------------------------------------------------------------------------


def answer_changes(dataset: Dataset, answers: Answers) -> int:
    """Count the pairs of neighbouring frames with different answers, also those that are right."""
    line = Stretches.of(dataset, answers.scored)
    label = line.labels(answers.as_classes())
    return int((label[line.pairs] != label[line.pairs + 1]).sum())


def interruptions(dataset: Dataset, answers: Answers) -> int:
    """Count how often an object is lost and found again, or changes class."""
    along = followed(dataset, answers) if isinstance(answers, BoxAnswers) else Missing("classes")
    if isinstance(along, Missing):
        return 0
    columns = [column_of(one, along) for one in (outages, class_changes)]
    return int(sum(column.total.sum() for column in columns if isinstance(column, Column)))


CHANGES: Mapping[type[Any], Callable[[Dataset, Answers], int]] = {
    ClassAnswers: answer_changes,
    BoxAnswers: interruptions,
}
"""The changes that are counted, by the type of the answers."""


# -- real changes --------------------------------------------------------------------------------------------------


Objects = tuple[Ints, Ints, Floats]
"""The frame, the object and the corners (M, 4) of boxes."""
NO_OBJECTS: Objects = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros((0, 4)))


@dataclass(frozen=True)
class Truth:
    """The real changes of a dataset's videos: other right labels, scene cuts, objects that appear or leave."""

    dataset: Dataset
    options: ScoreOptions

    @cached_property
    def cuts(self) -> Bools:
        """The frames that follow a scene cut, (F,)."""
        return cut_frames(self.dataset)

    @cached_property
    def plan(self) -> Plan | None:
        """The sets with a label, if there are any."""
        return Plan(self.dataset.labelled_sets(), self.options) if self.dataset.labelled.any() else None

    @cached_property
    def right(self) -> dict[int, frozenset[int]]:
        """The right labels of each frame that has some, by the label rule of the sets."""
        rows, out = self.dataset.sets.frame, dict[int, frozenset[int]]()
        for labels in self.dataset.right_labels:
            known = labels >= 0
            for row, label in set(zip(rows[known].tolist(), labels[known].tolist(), strict=True)):
                out[row] = out.get(row, frozenset()) | {label}
        return out

    def of_classes(self, line: Stretches, own: Ints, remedied: Ints) -> Followed:
        """Return how remedied answers (N,) follow the real changes, compared with the model's own answers.

        At a cut between frames without labels, the right answer of a scene is the model's most frequent one; such a cut
        counts if this answer changes.
        """
        change, fits, n = np.full(len(own), -1), np.zeros((2, len(own)), dtype=bool), 0
        for first, end in stretches(line.timeline):
            rows = line.frames[first:end].tolist()
            right = [self.right.get(row) for row in rows]
            starts = [0, *(at for at in range(1, len(rows)) if self._is_change(right, at, int(rows[at]))), len(rows)]
            before = -2
            for begin, until in pairwise(starts):
                part = slice(first + begin, first + until)
                values, many = np.unique(own[part], return_counts=True)
                most = int(values[many.argmax()])
                by_label = begin > 0 and right[begin] is not None and right[begin - 1] is not None
                if begin > 0 and (by_label or most != before):
                    change[part], n = n, n + 1
                    for out, label in zip(fits, (own, remedied), strict=True):
                        wanted = (right[at] if by_label else {most} for at in range(begin, until))
                        out[part] = [int(a) in (some or ()) for a, some in zip(label[part], wanted, strict=True)]
                before = most
        use = change >= 0
        return follow(change[use], line.clock[use], fits[0, use], fits[1, use], n=n)

    def _is_change(self, right: Sequence[frozenset[int] | None], at: int, row: int) -> bool:
        before, after = right[at - 1], right[at]
        if before is not None and after is not None:
            return not before & after
        return bool(self.cuts[row])

    @cached_property
    def objects(self) -> Objects:
        """The frames, tracks and true boxes of the objects with a track."""
        boxes = self.dataset.boxes
        if boxes is None:
            return NO_OBJECTS
        known = (boxes.track >= 0) & ~boxes.crowd
        return boxes.frame[known], boxes.track[known], boxes.xyxy[known].astype(np.float64)


def of_objects(line: Stretches, objects: Objects, own: BoxAnswers, remedied: BoxAnswers) -> Followed:
    """Return how remedied boxes follow objects that appear or leave within a video.

    After an object appears, a sure box in its place is right; after it left, no sure box in its last place is right.
    """
    frame, track, xyxy = objects
    place = np.full(own.n_frames, -1)
    place[line.frames] = np.arange(len(line.frames))
    use = place[frame] >= 0
    step, track, xyxy = place[frame[use]], track[use], xyxy[use]
    order = np.lexsort((step, track, line.timeline[step]))
    step, track, xyxy = step[order], track[order], xyxy[order]
    ends = dict(stretches(line.timeline))
    first_of = {at: (first, end) for first, end in ends.items() for at in range(first, end)}
    edges = np.flatnonzero(np.append(True, (np.diff(track) != 0) | (np.diff(line.timeline[step]) != 0)))
    parts: list[tuple[Ints, Floats, bool]] = []
    for begin, until in zip(edges, [*edges[1:], len(step)], strict=True):
        if begin == until:
            continue
        first, end = first_of[int(step[begin])]
        if step[begin] > first:
            parts.append((step[begin:until], xyxy[begin:until], True))
        last = int(step[until - 1])
        later = np.arange(last + 1, end)
        later = later[line.clock[later] - line.clock[last] <= LONGEST_S]
        if len(later):
            parts.append((later, np.repeat(xyxy[until - 1 : until], len(later), axis=0), False))
    wants = np.repeat([one for _, _, one in parts], [len(one) for one, _, _ in parts])
    change = np.repeat(np.arange(len(parts)), [len(one) for one, _, _ in parts])
    steps = np.concatenate([NO_OBJECTS[0], *(one for one, _, _ in parts)])
    boxes = np.concatenate([NO_OBJECTS[2], *(one for _, one, _ in parts)])
    confidence = LinkRules().confidence
    fits = [in_place(one, line.frames[steps], boxes, confidence=confidence) == wants for one in (own, remedied)]
    return follow(change, line.clock[steps], *fits, n=len(parts))


# -- the table -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """A model without a remedy, with which the same model with remedies is compared."""

    truth: Truth
    model: str
    own: Answers

    @cached_property
    def before(self) -> int:
        """The changes without a remedy."""
        return CHANGES[type(self.own)](self.truth.dataset, self.own)

    def score(self, answers: Answers, remedy: str, forwards: float | None) -> RemedyScore:
        """Return the row of one remedy, from the answers with it."""
        own, truth = self.own, self.truth
        line = Stretches.of(truth.dataset, own.scored & answers.scored)
        seconds = float((line.seconds[line.pairs + 1] - line.seconds[line.pairs]).sum())
        changes = self.before if answers is own else CHANGES[type(answers)](truth.dataset, answers)
        if isinstance(answers, BoxAnswers) and isinstance(own, BoxAnswers):
            followed = of_objects(line, truth.objects, own, answers)
            altered = np.mean([_shown(own, row) != _shown(answers, row) for row in line.frames.tolist()])
            accuracy = _map(truth.dataset, answers, self.model)
        else:
            labels, given = line.labels(own.as_classes()), line.labels(answers.as_classes())
            followed, altered = truth.of_classes(line, labels, given), (labels != given).mean()
            accuracy = _accuracy(truth.plan, answers.as_classes())
        late, is_timed = followed.delay_s[followed.delay_s > 0], bool(np.isfinite(line.seconds).all())
        parts = [] if remedy == NONE else remedy.split(" + ")
        delay = 1000 * sum(Remedy.of(part).delay(line.step_s) for part in parts)
        return RemedyScore(
            model=self.model,
            remedy=remedy,
            kind="boxes" if isinstance(answers, BoxAnswers) else "classes",
            frames=len(line.frames),
            changes=changes,
            changes_per_s=changes / seconds if seconds > 0 else None,
            fewer=1 - changes / self.before if self.before else None,
            altered=float(altered),
            acc_orig=accuracy[0],
            acc_pmk=accuracy[1],
            delay_ms=round(delay, 3) if is_timed else None,
            forwards=forwards,
            real_changes=int(followed.counts.sum()),
            delayed=len(late),
            swallowed=int(followed.swallowed.sum()),
            late_ms=_mean_ms(late) if is_timed else None,
        )


def _map(dataset: Dataset, answers: BoxAnswers, model: str) -> tuple[Estimate | None, Estimate | None]:
    """Return map_orig and map_pmk, if the dataset has true boxes."""
    if not has_boxes(dataset):
        return None, None
    found = score_boxes(dataset, answers, model=model, how=ScoreOptions(bootstrap=False))
    return found.map_orig, found.map_pmk


def _shown(found: BoxAnswers, row: int) -> list[tuple[float, ...]]:
    first, end = np.searchsorted(found.frame, [row, row + 1])
    sure = np.arange(first, end)[found.score[first:end] >= LinkRules().confidence]
    return sorted((*found.xyxy[at].tolist(), float(found.label[at])) for at in sure)


def _mean_ms(seconds: Floats) -> float | None:
    """Return the mean of the known times, in milliseconds."""
    known = seconds[np.isfinite(seconds)]
    return round(1000 * float(known.mean()), 3) if known.size else None


def _accuracy(plan: Plan | None, answers: ClassAnswers) -> tuple[Estimate | None, Estimate | None]:
    """Return acc_orig and acc_pmk on the labelled sets with all answers."""
    if plan is None:
        return None, None
    scored = np.ones(plan.n_sets, dtype=bool)
    scored[plan.set_row[~(answers.state <= State.OUTSIDE)[plan.frame]]] = False
    if not scored.any():
        return None, None
    part = plan if scored.all() else plan.only(scored)
    wrong = ~part.view.right_rows(answers.label)
    first = first_wrong(wrong, part.set_row, part.level, n_sets=part.n_sets, never=part.k + 1)
    figures = part.headline.figures(first > 0, first > part.k)
    return figures["acc_orig"], figures["acc_pmk"]


def default_answers(dataset: Dataset, answers: Answers) -> Iterator[tuple[Remedy, Answers]]:
    """Yield the answers of a model with each remedy of the default list that applies to them."""
    line = Stretches.of(dataset, answers.scored)
    for remedy in DEFAULT:
        try:
            yield remedy, line.with_remedy(answers, remedy, keep=False)
        except ModelFailed:  # it is for other answers, or for answers with scores, or frames have no times
            continue


def with_front(rows: Sequence[RemedyScore]) -> tuple[RemedyScore, ...]:
    """Return the rows of one model with the Pareto front marked."""
    costs = [
        (row.changes, row.swallowed, row.delay_ms or 0.0, row.forwards or 1.0, -_value(row.acc_pmk)) for row in rows
    ]
    return tuple(replace(one, is_front=best) for one, best in zip(rows, on_front(costs), strict=True))


def recommended(rows: Sequence[RemedyScore]) -> RemedyScore | None:
    """Return the remedy of a model that helps most at an acceptable cost; None if none does.

    It removes enough changes, swallows few of the real ones and does not lower acc_pmk. Those with fewer forward passes
    come first. Then, if real changes are known, the fewest changes decide. If none is known, nobody knows what a
    remedy hides, and the fewest altered frames decide.
    """
    bare = next(row for row in rows if row.remedy == NONE)
    able = [
        row
        for row in rows
        if row.remedy != NONE
        and (row.fewer or 0) >= ENOUGH
        and row.swallowed <= FEW * row.real_changes
        and _value(row.acc_pmk) >= _value(bare.acc_pmk)
    ]
    known = bare.real_changes > 0
    return next(
        iter(
            sorted(
                able,
                key=lambda one: (
                    one.forwards or 1,
                    one.changes if known else one.altered,
                    one.delay_ms or 0.0,
                    one.remedy,
                ),
            )
        ),
        None,
    )


def _value(found: Estimate | None) -> float:
    return 0.0 if found is None or found.value is None else found.value
