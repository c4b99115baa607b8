"""The measures of a classifier without labels. Each is one declaration; to add one, add it here and to `MEASURES`.

A measure takes the answers of one model on the frames that all models share, and returns a column: one number per frame
pair or per set, with its video.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from strobe.analyses.early import STOPPED, by_answers, is_stopped, wrong_rows
from strobe.analyses.measures import Measure, measure
from strobe.analyses.plan import NOT_VIDEO, Plan
from strobe.analyses.video_plan import FlickerPlan, answer_labels, answered
from strobe.core.answers import ClassAnswers
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.estimate import Missing
from strobe.metrics.columns import Column, Median, mean, rate, share
from strobe.metrics.flicker import changed, longest_strays, most_frequent_share, sure_flips
from strobe.metrics.temporal import flip_shares


@dataclass(frozen=True)
class VideoAnswers:
    """The answers of one classifier along the videos of a plan. Rows of sets without all answers are not measured."""

    shared: FlickerPlan
    answers: ClassAnswers

    @property
    def plan(self) -> Plan:
        """The sets, and the rows of their frames."""
        return self.shared.plan

    @cached_property
    def labels(self) -> Ints:
        """The answer on each frame of the dataset, (F,); −1 is an answer outside its classes."""
        return answer_labels(self.answers)

    @cached_property
    def scored(self) -> Bools:
        """The sets with all answers, (S,)."""
        return answered(self.plan, self.answers)

    @cached_property
    def stopped(self) -> bool:
        """Whether the model was stopped at the first other answer of each set, so that other frames have no answer."""
        return by_answers(self.plan) and is_stopped(self.plan, self.answers)

    @cached_property
    def differs(self) -> Bools:
        """Whether a set has a frame with another answer than its anchor, (S,)."""
        plan = self.plan
        if self.stopped:
            rows = np.zeros(len(plan.frame), dtype=bool)
            whole = self.scored[plan.set_row]
            part = plan if whole.all() else plan.only(self.scored)
            rows[whole] = wrong_rows(part, self.answers)
        else:
            rows = changed(self.labels[plan.frame], plan.set_row, plan.is_anchor, n_sets=plan.n_sets)
        return np.bincount(plan.set_row[rows], minlength=plan.n_sets) > 0

    @cached_property
    def known(self) -> Bools:
        """The frames of the timelines that belong to a set with all answers, (N,)."""
        frames = np.zeros(len(self.labels), dtype=bool)
        frames[self.plan.frame[self.scored[self.plan.set_row]]] = True
        return np.asarray(frames[self.shared.frames])

    @cached_property
    def along(self) -> Ints:
        """The answers along the timelines, (N,)."""
        return np.asarray(self.labels[self.shared.frames])


def _skips(video: VideoAnswers) -> str | None:
    """Return why a figure of every frame is unknown."""
    return STOPPED if video.stopped else None


def _no_neighbours(video: VideoAnswers) -> str | None:
    """Return why a figure of neighbouring frames is unknown."""
    return _skips(video) if video.plan.is_video else NOT_VIDEO


def _most_frequent_shares(video: VideoAnswers) -> Floats:
    """Return, per set, the share of its frames with its most frequent answer, (S,)."""
    plan = video.plan
    return most_frequent_share(video.labels[plan.frame], plan.set_row, n_sets=plan.n_sets)


@measure(worse="more", unit="per second", per="pairs", lead=3, lacks=_skips)
def changes_per_second(video: VideoAnswers) -> Column:
    """Changes of answer per second of video."""
    before, after = video.shared.neighbours()
    seconds = np.where(video.known[before] & video.known[after], video.shared.seconds, 0.0)
    return rate(video.along[before] != video.along[after], seconds, video.shared.video[before])


@measure(worse="less", unit="seconds", per="pairs", lacks=_skips)
def seconds_between_changes(video: VideoAnswers) -> Median:
    """Time from one change of answer to the next, the median."""
    before, after = video.shared.neighbours()
    flips = (video.along[before] != video.along[after]) & video.known[before] & video.known[after]
    at, line = after[flips], (video.shared.timeline + np.cumsum(~video.known))[after[flips]]
    clock = np.append(0.0, np.cumsum(video.shared.seconds))
    when = clock[np.searchsorted(after, at, side="left") + 1]
    same = line[1:] == line[:-1]
    between = np.diff(when)[same]
    usable = np.isfinite(between) & (between > 0)
    return Median(between[usable], video.shared.video[at[1:][same][usable]])


@measure(worse="more", per="frames", lead=2, lacks=_skips)
def stray_frames(video: VideoAnswers) -> Column:
    """Share of frames whose answer differs from the most frequent answer of their set."""
    return mean(1.0 - _most_frequent_shares(video), video.plan.cluster, measured=video.scored)


@measure(worse="more", lead=1)
def flicker(video: VideoAnswers) -> Column:
    """Share of sets in which some frame gets another answer than the anchor."""
    return share(video.differs, video.plan.cluster, measured=video.scored)


@measure(worse="less")
def consistency(video: VideoAnswers) -> Column:
    """Share of sets in which every frame gets the anchor's answer."""
    return share(~video.differs, video.plan.cluster, measured=video.scored)


@measure(worse="more", per="pairs", lacks=_no_neighbours)
def flip_rate(video: VideoAnswers) -> Column:
    """Share of pairs of neighbouring frames with different answers."""
    plan = video.plan
    first, second = plan.pairs.first, plan.pairs.second
    values, has = flip_shares(video.labels[plan.frame], first, second, plan.set_row[first], n_sets=plan.n_sets)
    return mean(values, plan.cluster, measured=has & video.scored)


@measure(worse="more", per="pairs", lacks=_no_neighbours)
def sure_flip_rate(video: VideoAnswers) -> Column | Missing:
    """Share of pairs of neighbouring frames with different answers, both with a high confidence."""
    plan = video.plan
    if not video.answers.has_shares:
        return Missing("the model gave labels only, no confidences")
    first, second = plan.pairs.first, plan.pairs.second
    owner = plan.set_row[first]
    confidence = video.answers.confidence_at(plan.frame)
    _, surely = sure_flips(video.labels[plan.frame], confidence, first, second, sure=video.shared.options.sure)
    pairs = np.bincount(owner, minlength=plan.n_sets)
    values: Floats = np.bincount(owner[surely], minlength=plan.n_sets) / np.maximum(pairs, 1)
    return mean(values, plan.cluster, measured=(pairs > 0) & video.scored)


@measure(worse="less", per="frames", headline=False, lacks=_skips)
def most_frequent(video: VideoAnswers) -> Column:
    """Share of frames with the most frequent answer of their set."""
    return mean(_most_frequent_shares(video), video.plan.cluster, measured=video.scored)


@measure(worse="more", unit="frames", per="frames", headline=False, lacks=_no_neighbours)
def longest_stray(video: VideoAnswers) -> Column:
    """Frames in the longest run of other answers than the most frequent one, averaged over sets."""
    plan = video.plan
    values = longest_strays(
        video.labels[plan.frame], plan.set_row, plan.view.frames.index[plan.frame], n_sets=plan.n_sets
    )
    return rate(np.where(video.scored, values, 0), video.scored.astype(np.float64), plan.cluster)


MEASURES: tuple[Measure[Any], ...] = (
    changes_per_second,
    seconds_between_changes,
    stray_frames,
    flicker,
    consistency,
    flip_rate,
    sure_flip_rate,
    most_frequent,
    longest_stray,
)
"""The measures of classifiers that need no label, in the order of the tables."""
