"""What remedies gain and cost: changes, accuracy, delay, forward passes and truth lost. Pure."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

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
from strobe.metrics.lives import LifeRules
from strobe.metrics.pmk import first_wrong
from strobe.metrics.remedies import Remedy, follow, on_front, stretches
from strobe.metrics.remedies_boxes import in_place
from strobe.studies.remedies.records import NONE, RemedyScore

DEFAULT = tuple(
    Remedy.of(text)
    for text in (
        *("hold=0.1", "hold=0.27", "hold=0.5", "hold=1", "confirm=2", "hysteresis=0.3", "mode=5", "mode=11", "mean=3"),
        *("mean=6", "mean=11", "ema=0.5", "ema=0.2", "mean-around=2", "fill=0.27", "fill=0.5"),
    )
)
"""The remedies that `--remedies` measures. They need no forward pass."""

LONGEST_S = 20.0
"""How long after an object left a box in its place is still looked for."""

ENOUGH, FEW = 0.5, 0.1
"""A remedy is recommended if it removes this share of the changes and swallows at most that share of the real ones."""


def changes(dataset: Dataset, answers: Answers) -> int:
    """Count the pairs of neighbouring frames with different answers, or how often objects are lost or change class."""
    if isinstance(answers, ClassAnswers):
        line = Stretches.of(dataset, answers.scored)
        label = line.labels(answers)
        return int((label[line.pairs] != label[line.pairs + 1]).sum())
    along = followed(dataset, answers)
    columns = () if isinstance(along, Missing) else (column_of(one, along) for one in (outages, class_changes))
    return int(sum(column.total.sum() for column in columns if isinstance(column, Column)))


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

    def of_classes(self, line: Stretches, own: Ints, remedied: Ints) -> Floats:
        """Return how remedied answers (N,) follow the real changes, compared with the model's own answers.

        At a cut between frames without labels, the right answer of a scene is the model's most frequent one; such a cut
        counts if this answer changes.
        """
        change, fits, n = np.full(len(own), -1), np.zeros((2, len(own)), dtype=bool), 0
        right = [self.right.get(row) for row in line.frames.tolist()]
        for first, end in stretches(line.timeline):
            starts = [at for at in range(first + 1, end) if self._is_change(right[at - 1], right[at], line.frames[at])]
            before: Collection[int] = ()
            for begin, until in pairwise([first, *starts, end]):
                values, many = np.unique(own[begin:until], return_counts=True)
                most = {int(values[many.argmax()])}
                by_label = begin > first and None not in (right[begin - 1], right[begin])
                if begin > first and (by_label or most != before):
                    change[begin:until], n = n, n + 1
                    for at in range(begin, until):
                        wanted = (right[at] or ()) if by_label else most
                        fits[:, at] = own[at] in wanted, remedied[at] in wanted
                before = most
        use = change >= 0
        return follow(change[use], line.clock[use], *fits[:, use], n=n)

    def _is_change(self, before: Collection[int] | None, after: Collection[int] | None, row: int) -> bool:
        if before is not None and after is not None:
            return not set(before) & set(after)
        return bool(self.cuts[row])

    def of_objects(self, line: Stretches, own: BoxAnswers, remedied: BoxAnswers) -> Floats:
        """Return how remedied boxes follow true objects with a track that appear or leave within a video.

        After an object appears, a sure box in its place is right; after it left, no sure box in its last place is.
        """
        place, boxes = np.full(own.n_frames, -1), self.dataset.boxes
        place[line.frames] = np.arange(len(line.frames))
        parts: list[tuple[Ints, Floats, bool]] = []
        if boxes is not None and len(boxes.frame):
            known = np.flatnonzero((boxes.track >= 0) & ~boxes.crowd & (place[boxes.frame] >= 0))
            known = known[np.lexsort((place[boxes.frame[known]], boxes.track[known]))]
            step, track = place[boxes.frame[known]], boxes.track[known]
            edges = np.flatnonzero(np.diff(track) | np.diff(line.timeline[step])) + 1
            for rows in np.split(np.arange(len(known)), edges) if len(known) else ():
                at, corners = step[rows], boxes.xyxy[known[rows]].astype(np.float64)
                own_line = np.flatnonzero(line.timeline == line.timeline[at[0]])
                if at[0] > own_line[0]:
                    parts.append((at, corners, True))
                later = own_line[own_line > at[-1]]
                later = later[line.clock[later] - line.clock[at[-1]] <= LONGEST_S]
                parts.append((later, np.repeat(corners[-1:], len(later), axis=0), False))
        sizes = np.array([len(at) for at, *_ in parts], dtype=np.int64)
        change, wants = np.repeat(np.arange(len(parts)), sizes), np.repeat([appears for *_, appears in parts], sizes)
        steps = np.concatenate([place[:0], *(at for at, *_ in parts)])
        corners = np.concatenate([np.zeros((0, 4)), *(box for _, box, _ in parts)])
        sure = LifeRules().confidence
        fits = [in_place(one, line.frames[steps], corners, confidence=sure) == wants for one in (own, remedied)]
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
        return changes(self.truth.dataset, self.own)

    def score(self, answers: Answers, remedy: str, forwards: float | None) -> RemedyScore:
        """Return the row of one remedy, from the answers with it."""
        own, truth = self.own, self.truth
        line = Stretches.of(truth.dataset, own.scored & answers.scored)
        seconds = float((line.seconds[line.pairs + 1] - line.seconds[line.pairs]).sum())
        left = self.before if answers is own else changes(truth.dataset, answers)
        if isinstance(answers, BoxAnswers) and isinstance(own, BoxAnswers):
            late = truth.of_objects(line, own, answers)
            altered = np.mean([_shown(own, row) != _shown(answers, row) for row in line.frames.tolist()])
            accuracy = _map(truth.dataset, answers, self.model)
        else:
            labels, given = line.labels(own.as_classes()), line.labels(answers.as_classes())
            late, altered = truth.of_classes(line, labels, given), (labels != given).mean()
            accuracy = _accuracy(truth.plan, answers.as_classes())
        real, swallowed, is_timed = len(late), int(np.isinf(late).sum()), bool(np.isfinite(line.seconds).all())
        late = late[(late > 0) & np.isfinite(late)]
        parts = [] if remedy == NONE else remedy.split(" + ")
        delay = 1000 * sum(Remedy.of(part).delay(line.step_s) for part in parts)
        return RemedyScore(
            model=self.model,
            remedy=remedy,
            frames=len(line.frames),
            changes=left,
            changes_per_s=left / seconds if seconds > 0 else None,
            fewer=1 - left / self.before if self.before else None,
            altered=float(altered),
            acc_orig=accuracy[0],
            acc_pmk=accuracy[1],
            delay_ms=round(delay, 3) if is_timed else None,
            forwards=forwards,
            real_changes=real,
            delayed=len(late),
            swallowed=swallowed,
            late_ms=round(1000 * float(late.mean()), 3) if is_timed and late.size else None,
        )


def _map(dataset: Dataset, answers: BoxAnswers, model: str) -> tuple[Estimate | None, Estimate | None]:
    """Return map_orig and map_pmk, if the dataset has true boxes."""
    if not has_boxes(dataset):
        return None, None
    found = score_boxes(dataset, answers, model=model, how=ScoreOptions(bootstrap=False))
    return found.map_orig, found.map_pmk


def _shown(found: BoxAnswers, row: int) -> list[tuple[float, ...]]:
    first, end = np.searchsorted(found.frame, [row, row + 1])
    sure = np.arange(first, end)[found.score[first:end] >= LifeRules().confidence]
    return sorted((*found.xyxy[at].tolist(), float(found.label[at])) for at in sure)


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
    known = bare.real_changes > 0
    able = [
        (row.forwards or 1, row.changes if known else row.altered, row.delay_ms or 0.0, row.remedy, row)
        for row in rows
        if row.remedy != NONE
        and (row.fewer or 0) >= ENOUGH
        and row.swallowed <= FEW * row.real_changes
        and _value(row.acc_pmk) >= _value(bare.acc_pmk)
    ]
    return min(able)[-1] if able else None


def _value(found: Estimate | None) -> float:
    return 0.0 if found is None or found.value is None else found.value
