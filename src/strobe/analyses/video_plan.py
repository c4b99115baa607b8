"""The frames on which flicker is measured without labels: sets without a scene cut, and the timelines of videos."""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from strobe.analyses.early import by_answers, settled_sets
from strobe.analyses.plan import Plan, ScoreOptions
from strobe.analyses.times import TimePlan, time_plan
from strobe.core.answers import ClassAnswers, State
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.dataset import Dataset
from strobe.core.estimate import Missing
from strobe.core.tables import CUTS_BETWEEN_SETS
from strobe.metrics.flicker import timelines
from strobe.studies.unlabelled.records import CUT, FlickerOptions


def no_flicker(dataset: Dataset) -> str | None:
    """Return why flicker is not measured on a dataset; None if it is measured."""
    if dataset.variants is not None or dataset.info.axis != "frame-offset":
        return "its sets are not stretches of video"
    return "every set has a label, so accuracy is measured instead" if dataset.labelled.all() else None


def without_cuts(dataset: Dataset, k: int | None = None) -> tuple[Dataset | None, int]:
    """Return the dataset without sets that a scene cut divides, and their number. None means that no set is left."""
    if dataset.hints is None:
        return dataset, 0
    far = dataset.row_levels() > (dataset.info.k if k is None else k)
    cut = np.zeros(dataset.n_sets, dtype=bool)
    cut[dataset.sets.set[(dataset.hints.cut >= CUT) & ~far]] = True
    if not cut.any():
        return dataset, 0
    return None if cut.all() else dataset.keep_rows(~cut[dataset.sets.set]), int(cut.sum())


def cut_frames(dataset: Dataset) -> Bools:
    """Return the frames that follow a scene cut, (F,). Pass the dataset with the sets that contain a cut."""
    sets, frames = dataset.sets, dataset.frames
    after = np.zeros(len(frames), dtype=bool)
    between: Mapping[str, Sequence[int]] = dataset.info.provenance.get(CUTS_BETWEEN_SETS, {})
    for video, places in between.items():
        own = np.flatnonzero(dataset.videos.video_id == video)
        after[np.isin(frames.video, own) & np.isin(frames.index, places)] = True
    if dataset.hints is None:
        return after
    cut = np.flatnonzero(dataset.hints.cut >= CUT)
    # A member's score is the highest on the way to the anchor, so the cut is next to the nearest such member.
    for side in (1, -1):
        rows = cut[sets.distance[cut] * side > 0]
        rows = rows[np.lexsort((np.abs(sets.distance[rows]), sets.set[rows]))]
        nearest = rows[np.unique(sets.set[rows], return_index=True)[1]]
        frame = sets.frame[nearest]
        if side == 1:
            after[frame] = True
            continue
        key = frames.video.astype(np.int64) * (int(frames.index.max()) + 2) + frames.index
        after[np.isin(key, key[frame] + 1)] = True
    return after


def ended_at(line: Ints, cuts: Bools) -> Ints:
    """Return the number of each frame's timeline if timelines also end before the frames in `cuts`; both are (N,)."""
    return np.asarray(line + np.cumsum(cuts & (np.diff(line, prepend=-1) == 0)))


def frames_along(dataset: Dataset, used: Ints, cuts: Bools | None) -> tuple[Ints, Ints]:
    """Return these frames in the order of the videos, and the timeline of each, (N,); `cuts` (F,) are scene cuts."""
    order, line = timelines(dataset.frames.video[used], dataset.frames.index[used])
    return used[order], line if cuts is None else ended_at(line, cuts[used[order]])


class FlickerPlan:
    """The data that all models share: the sets, their neighbours in time, and the timelines of the videos.

    `cuts` (F,) are the frames that follow a scene cut. A timeline ends before such a frame.
    """

    def __init__(
        self,
        dataset: Dataset,
        options: ScoreOptions,
        flicker: FlickerOptions,
        *,
        plan: Plan | None = None,
        cuts: Bools | None = None,
    ):
        self.options, self._cuts = flicker, cuts
        self.plan = plan or Plan(dataset, options)
        self.time: TimePlan | Missing = time_plan(self.plan)
        self.frames, self.timeline = frames_along(self.plan.view, self.plan.frames_used, cuts)
        self.video: Ints = self.plan.view.frames.video[self.frames]

    @cached_property
    def seconds(self) -> Floats:
        """The time between the frames of each pair of neighbours, (P,); 0 if it is unknown."""
        before, after = self.neighbours()
        seconds = self.plan.view.frames.time_s[self.frames]
        step = seconds[after] - seconds[before]
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.where(np.isfinite(step), step, 1 / self.plan.view.videos.fps_float[self.video[before]])
        return np.where(np.isfinite(step) & (step > 0), step, 0.0)

    def only(self, scored: Bools) -> "FlickerPlan":
        """Return the plan for some of the sets."""
        plan = self.plan.only(scored)
        return FlickerPlan(plan.dataset, plan.options, self.options, plan=plan, cuts=self._cuts)

    def neighbours(self) -> tuple[Ints, Ints]:
        """Return the places of neighbouring frames in `frames`, each pair once."""
        first = np.flatnonzero(self.timeline[1:] == self.timeline[:-1])
        return first, first + 1


def answered(plan: Plan, answers: ClassAnswers) -> Bools:
    """Return the sets with all answers, (S,), or with enough answers if the model stopped early."""
    if (answers.state[plan.frame] == State.SKIPPED).any() and by_answers(plan):
        return settled_sets(plan, answers)
    scored = np.ones(plan.n_sets, dtype=bool)
    scored[plan.set_row[~answers.scored[plan.frame]]] = False
    return scored


def answer_labels(answers: ClassAnswers) -> Ints:
    """Return the answer of each frame as a number; −1 is an answer outside the dataset's classes."""
    return np.where(answers.state == State.OUTSIDE, -1, answers.label)
