"""Flicker of one classifier on one dataset, from its answers alone: no label is used."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.answer_patterns import digest_of_answers
from strobe.analyses.comparison_flicker import FlickerSets
from strobe.analyses.early import STOPPED, by_answers, is_stopped, saved, settled_sets, wrong_rows
from strobe.analyses.plan import NOT_VIDEO, Plan, ScoreOptions
from strobe.core.answers import ClassAnswers, State
from strobe.core.arrays import Bools, Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import expect
from strobe.core.estimate import Estimate, Missing
from strobe.core.tables import CUTS_BETWEEN_SETS
from strobe.metrics.consistency import quartiles
from strobe.metrics.flicker import (
    alternations,
    changed,
    first_change,
    most_frequent_share,
    spells,
    sure_flips,
    timelines,
)
from strobe.metrics.intervals import nothing, proportion
from strobe.metrics.pmk import first_wrong, right_at
from strobe.metrics.temporal import flip_shares
from strobe.studies.temporal.score_slices import plain
from strobe.studies.temporal.score_time import TimePlan, time_plan
from strobe.studies.unlabelled.records import (
    CUT,
    Alternation,
    CoarseFlicker,
    FlickerOptions,
    FlickerPoint,
    FlickerScore,
    FlickerTime,
    FlickerTimeCurve,
    SpellLengths,
    VideoFlicker,
)

SHOWN = 50
"""The number of pairs of alternating answers in results.json; the table on disk has all of them."""


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
        used, frames = self.plan.frames_used, self.plan.view.frames
        order, line = timelines(frames.video[used], frames.index[used])
        self.frames: Ints = used[order]
        self.timeline: Ints = line if cuts is None else ended_at(line, cuts[self.frames])
        self.video: Ints = frames.video[self.frames]

    def only(self, scored: Bools) -> "FlickerPlan":
        """Return the plan for some of the sets."""
        plan = self.plan.only(scored)
        return FlickerPlan(plan.dataset, plan.options, self.options, plan=plan, cuts=self._cuts)

    def neighbours(self) -> tuple[Ints, Ints]:
        """Return the places of neighbouring frames in `frames`, each pair once."""
        first = np.flatnonzero(self.timeline[1:] == self.timeline[:-1])
        return first, first + 1


def flicker_score(shared: FlickerPlan, answers: ClassAnswers) -> FlickerScore | None:
    """Score one classifier without labels; None if no set has all its answers.

    An answer outside the dataset's classes is an answer like any other. A set without all answers is excluded and
    counted.
    """
    scored = answered(shared.plan, answers)
    if not scored.any():
        return None
    if by_answers(shared.plan) and is_stopped(shared.plan, answers):
        return _stopped_score(shared, answers, scored)
    part, label = shared if scored.all() else shared.only(scored), answer_labels(answers)
    plan = part.plan
    rows = label[plan.frame]
    differs = changed(rows, plan.set_row, plan.is_anchor, n_sets=plan.n_sets)
    first = first_wrong(differs, plan.set_row, plan.level, n_sets=plan.n_sets, never=plan.k + 1)
    curve = plan.all_sets.estimates(~right_at(first, k=plan.k).T)
    flicker = curve[-1]
    flips, surely = _flips(part, answers, label)
    return FlickerScore(
        k=plan.k,
        flicker=flicker,
        consistency=plan.all_sets.estimates((first > plan.k)[None])[0],
        most_frequent=_mean(plan, most_frequent_share(rows, plan.set_row, n_sets=plan.n_sets)),
        curve=tuple(map(FlickerPoint, range(plan.k + 1), curve)),
        time_curve=_over_time(part, differs),
        flip_rate=flips,
        sure=part.options.sure,
        sure_flip_rate=surely,
        spells=_spells(part, label),
        alternations=_alternating(part, label)[:SHOWN],
        coarser=_coarser(part, rows),
        videos=_by_video(part, label, first),
        unscored=int((~scored).sum()),
        notes=tuple(note for note in (plan.few_dominate,) if note) or None,
    )


def _stopped_score(shared: FlickerPlan, answers: ClassAnswers, scored: Bools) -> FlickerScore:
    """Return the score of a model that stopped at the first other answer of each set."""
    plan, none = shared.plan.only(scored), nothing(STOPPED)
    differs = np.logical_or.reduceat(wrong_rows(plan, answers), plan.start)
    return FlickerScore(
        k=plan.k,
        flicker=plan.all_sets.estimates(differs[None])[0],
        consistency=plan.all_sets.estimates(~differs[None])[0],
        most_frequent=none,
        curve=(),
        time_curve=Missing(STOPPED),
        flip_rate=none,
        sure=shared.options.sure,
        sure_flip_rate=none,
        spells=Missing(STOPPED),
        alternations=(),
        coarser=(),
        videos=(),
        unscored=int((~scored).sum()),
        notes=tuple(note for note in (plan.few_dominate,) if note) or None,
        stopped_early=saved(shared.plan, answers),
    )


def flicker_sets(plan: Plan, answers: ClassAnswers, *, name: str) -> FlickerSets:
    """Return the sets in which one classifier changes its answer, for comparing it with others."""
    scored, first = answered(plan, answers), np.full(plan.n_sets, -1, dtype=np.int32)
    stopped = by_answers(plan) and is_stopped(plan, answers)
    figure = nothing("no set has all its answers")
    if scored.any():
        part = plan if scored.all() else plan.only(scored)
        if stopped:  # the smallest level with another answer is unknown, but it is at most k
            differs = np.logical_or.reduceat(wrong_rows(part, answers), part.start)
            first[scored] = np.where(differs, plan.k, plan.k + 1)
        else:
            first[scored] = first_change(
                answer_labels(answers)[part.frame],
                part.set_row,
                part.level,
                part.is_anchor,
                n_sets=part.n_sets,
                never=plan.k + 1,
            )
        figure = part.all_sets.estimates((first[scored] <= plan.k)[None])[0]
    exact = "" if stopped else digest_of_answers(answers, plan)
    return FlickerSets(model=name, k=plan.k, flicker=figure, first_wrong=first, exact=exact)


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


def _mean(plan: Plan, values: NDArray[np.float64], use: Bools | None = None) -> Estimate:
    use = np.ones(len(values), dtype=bool) if use is None else use
    if not use.any():
        return nothing("no set has two neighbouring frames")
    if not plan.options.bootstrap:
        return plain(float(values[use].mean()), int(use.sum()))
    return plan.bootstrap.mean(np.where(use, values, 0.0), count=use)


def _flips(part: FlickerPlan, answers: ClassAnswers, label: Ints) -> tuple[Estimate, Estimate]:
    """Return the flip rate and the rate of sure flips, as means over sets."""
    plan = part.plan
    if not plan.is_video:
        return nothing(NOT_VIDEO), nothing(NOT_VIDEO)
    a, b = plan.pairs.first, plan.pairs.second
    owner = plan.set_row[a]
    rate = _mean(plan, *flip_shares(label[plan.frame], a, b, owner, n_sets=plan.n_sets))
    if not answers.has_shares:
        return rate, nothing("the model gave labels only, no confidences")
    confidence = answers.confidence_at(plan.frame)
    _, surely = sure_flips(label[plan.frame], confidence, a, b, sure=part.options.sure)
    pairs = np.bincount(owner, minlength=plan.n_sets)
    share = np.bincount(owner[surely], minlength=plan.n_sets) / np.maximum(pairs, 1)
    return rate, _mean(plan, share, pairs > 0)


def _over_time(part: FlickerPlan, differs: Bools) -> FlickerTimeCurve | Missing:
    if isinstance(part.time, Missing):
        return part.time
    plan, time = part.plan, part.time
    never = int(time.ms[-1]) + 1
    rows = differs & time.cohort[plan.set_row] & (time.level < never)
    first = np.full(plan.n_sets, never, dtype=np.int64)
    np.minimum.at(first, plan.set_row[rows], time.level[rows])
    points = time.grouping.estimates(first[time.cohort] <= time.ms[:, None])
    return FlickerTimeCurve(
        t_max_ms=time.t_max_ms, n_sets=int(time.cohort.sum()), points=tuple(map(FlickerTime, time.ms.tolist(), points))
    )


def _spells(part: FlickerPlan, label: Ints) -> SpellLengths | Missing:
    """Return how long a different answer lasts before the model returns, over the timelines of all videos."""
    all_spells = spells(label[part.frames], part.timeline)
    back = all_spells.returns
    if not back.any():
        return Missing("the model never left an answer and returned to it")
    length, video = all_spells.length[back], part.video[all_spells.start[back]]
    draws = part.plan.bootstrap if part.plan.options.bootstrap else None
    median: Estimate = plain(float(np.median(length)), len(length))
    if draws is not None:
        from strobe.metrics.bootstrap import Bootstrap

        own = Bootstrap(video, replicates=draws.replicates, seed=draws.seed)
        median = quartiles(length[:, None].astype(float), np.ones((len(length), 1), dtype=bool), own)[0]
    return SpellLengths(
        n=len(length),
        median_frames=median,
        one_frame=proportion(length == 1, video, interval=part.plan.options.interval),
        longest_frames=int(length.max()),
        median_ms=_median_ms(part, all_spells.start[back], length),
    )


def _median_ms(part: FlickerPlan, start: Ints, length: Ints) -> float | None:
    """Return the median time from the first frame of a spell to the frame after it, or None if times are unknown."""
    times = part.plan.view.frames.time_s[part.frames]
    fps = part.plan.view.videos.fps_float[part.video]
    seconds = times[start + length] - times[start]
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds = np.where(np.isfinite(seconds), seconds, length / fps[start])
    seconds = seconds[np.isfinite(seconds)]
    return round(float(np.median(seconds)) * 1000, 3) if seconds.size else None


def _alternating(part: FlickerPlan, label: Ints) -> tuple[Alternation, ...]:
    names = (*part.plan.view.info.label_space.names, "(outside)")
    before, after = part.neighbours()
    value = label[part.frames]
    flips = value[before] != value[after]
    found = alternations(value[before][flips], value[after][flips], part.video[before][flips])
    columns: Any = zip(found.one, found.other, found.flips, found.videos, strict=True)
    return tuple(
        Alternation(one=names[one], other=names[other], flips=int(flips), videos=int(videos))
        for one, other, flips, videos in columns
    )


def _coarser(part: FlickerPlan, rows: Ints) -> tuple[CoarseFlicker, ...]:
    """Return flicker after merging classes; an answer outside the classes keeps a group of its own."""
    plan, out = part.plan, []
    n_classes = len(plan.view.info.label_space)
    for level, groups in part.options.coarser.items():
        expect(len(groups) == n_classes, f"coarser classes {level}", f"one group per class ({n_classes})", len(groups))
        kinds, group = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
        merged = np.append(group, -1)[rows]
        differs = changed(merged, plan.set_row, plan.is_anchor, n_sets=plan.n_sets)
        hit = np.bincount(plan.set_row[differs], minlength=plan.n_sets) > 0
        out.append(
            CoarseFlicker(level=level, n_groups=len(kinds), flicker=plan.all_sets.estimates(np.asarray(hit)[None])[0])
        )
    return tuple(out)


def _by_video(part: FlickerPlan, label: Ints, first: Ints) -> tuple[VideoFlicker, ...]:
    plan = part.plan
    n = len(plan.view.videos)
    before, after = part.neighbours()
    value = label[part.frames]
    sets = np.bincount(plan.cluster, minlength=n)
    flickering = np.bincount(plan.cluster[first <= plan.k], minlength=n)
    pairs = np.bincount(part.video[before], minlength=n)
    flips = np.bincount(part.video[before][value[before] != value[after]], minlength=n)
    return tuple(
        VideoFlicker(
            video=str(plan.view.videos.video_id[row]),
            sets=int(sets[row]),
            flickering=int(flickering[row]),
            pairs=int(pairs[row]),
            flips=int(flips[row]),
        )
        for row in np.flatnonzero(sets)
    )
