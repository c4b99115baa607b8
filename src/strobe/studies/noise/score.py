"""The noise floor of one model on one dataset, from several answers to each frame."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from strobe.analyses.plan import NOT_VIDEO, Plan
from strobe.analyses.video_plan import answer_labels
from strobe.core.answers import Answers
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.estimate import Estimate
from strobe.metrics.bootstrap import Bootstrap
from strobe.metrics.columns import Column, mean
from strobe.metrics.flicker import first_change
from strobe.metrics.intervals import nothing, proportion
from strobe.metrics.noise import beyond_noise, frame_noise, mean_of_sets, set_noise
from strobe.studies.noise.records import NoiseScore

NO_PAIR = "no set has two neighbouring frames"


@dataclass(frozen=True, slots=True)
class RepeatedAnswers:
    """All answers of a model as classes: `label` and `answered` are (R, F), the first answers in the first row."""

    label: Ints
    answered: Bools


def repeated_answers(first: Answers, others: Iterable[Answers]) -> RepeatedAnswers | None:
    """Return all answers of a model as classes; None if it was asked once. Scores are in memory one answer at a time.

    An answer outside the dataset's classes, or a frame without a box, is an answer like any other.
    """
    again = [(answer_labels(classes), classes.scored) for classes in (one.as_classes() for one in others)]
    if not again:
        return None
    classes = first.as_classes()
    labels, answered = zip((answer_labels(classes), classes.scored), *again, strict=True)
    return RepeatedAnswers(np.stack(labels), np.stack(answered))


def asked_twice(plan: Plan, answers: RepeatedAnswers) -> Bools:
    """Return the sets with two answers on all their frames, (S,)."""
    once = answers.answered.sum(axis=0)[plan.frame] < 2
    return np.asarray(np.bincount(plan.set_row[once], minlength=plan.n_sets) == 0)


def noise_column(plan: Plan, answers: RepeatedAnswers) -> Column:
    """Return the noise of each set, (S,), of which those with fewer than two answers on a frame are not measured."""
    label, answered, use = answers.label[:, plan.frame], answers.answered[:, plan.frame], asked_twice(plan, answers)
    pairs = plan.pairs if plan.is_video else None
    if pairs is None or not len(pairs.first):
        return mean(_by_frame(plan, label, answered), plan.cluster, measured=use)
    found = set_noise(label, answered, pairs.first, pairs.second, plan.set_row[pairs.first], n_sets=plan.n_sets)
    return mean(found.noise, plan.cluster, measured=use & (found.n_pairs > 0))


def noise_score(plan: Plan, answers: RepeatedAnswers) -> NoiseScore | None:
    """Return the noise floor of one model; None if no set has two answers on all its frames."""
    enough, times = asked_twice(plan, answers), answers.answered.sum(axis=0)
    if not enough.any():
        return None
    part = plan if enough.all() else plan.only(enough)
    label, answered = answers.label[:, part.frame], answers.answered[:, part.frame]
    pairs = part.pairs if part.is_video else None
    if pairs is None or not len(pairs.first):
        reason = NO_PAIR if part.is_video else NOT_VIDEO
        own, use = _by_frame(part, label, answered), np.ones(part.n_sets, dtype=bool)
        flips = beyond = nothing(reason)
        p = None
    else:
        found = set_noise(label, answered, pairs.first, pairs.second, part.set_row[pairs.first], n_sets=part.n_sets)
        own, use = found.noise, found.n_pairs > 0
        draws = _draws(part, use)
        flips = mean_of_sets(found.flips[use], draws)
        beyond, p = beyond_noise(found.noise[use], found.flips[use], draws)
    return NoiseScore(
        repeat=int(times[part.frame].max()),
        noise=mean_of_sets(own[use], _draws(part, use)),
        flips=flips,
        beyond_noise=beyond,
        p=p,
        changed_frames=_changed_frames(part, answers),
        flicker=_flicker(part, label[0], answered[0]),
        unscored=int((~enough).sum()),
    )


def _by_frame(plan: Plan, label: Ints, answered: Bools) -> Floats:
    """Return the mean noise of each set's frames, (S,), for sets without neighbouring frames."""
    share = frame_noise(label, answered).share
    size = np.bincount(plan.set_row, minlength=plan.n_sets)
    return np.asarray(np.bincount(plan.set_row, weights=share, minlength=plan.n_sets) / size)


def _draws(plan: Plan, use: Bools) -> Bootstrap:
    """Return the draws of the videos of some sets, (S,)."""
    return Bootstrap(plan.cluster[use], replicates=plan.options.draws, seed=plan.options.seed)


def _changed_frames(plan: Plan, answers: RepeatedAnswers) -> Estimate:
    """Return the share of distinct frames whose answers are not all the same."""
    used = plan.frames_used
    share = frame_noise(answers.label[:, used], answers.answered[:, used]).share
    return proportion(share > 0, plan.view.frames.video[used], interval=plan.options.interval)


def _flicker(plan: Plan, label: Ints, answered: Bools) -> Estimate:
    """Return the flicker of the first answers, on the sets that have all of them."""
    if not plan.is_video or not plan.k:
        return nothing(NOT_VIDEO if plan.k else "every set has only its anchor")
    if not answered.all():
        return nothing("some first answers are missing")
    first = first_change(label, plan.set_row, plan.level, plan.is_anchor, n_sets=plan.n_sets, never=plan.k + 1)
    return plan.all_sets.estimates((first <= plan.k)[None])[0]
