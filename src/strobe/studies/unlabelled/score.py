"""Flicker of one classifier on one dataset, from its answers alone: no label is used."""

from typing import Any

import numpy as np

from strobe.analyses.early import STOPPED, by_answers, is_stopped, saved, wrong_rows
from strobe.analyses.measures import figure, measures_of
from strobe.analyses.plan import Plan
from strobe.analyses.slices import plain
from strobe.analyses.video_measures import VideoAnswers
from strobe.analyses.video_plan import FlickerPlan, answer_labels, answered
from strobe.core.answers import ClassAnswers
from strobe.core.arrays import Bools, Ints
from strobe.core.errors import expect
from strobe.core.estimate import Estimate, Missing
from strobe.metrics.consistency import quartiles
from strobe.metrics.flicker import (
    alternations,
    changed,
    first_change,
    spells,
)
from strobe.metrics.intervals import proportion
from strobe.metrics.pmk import first_wrong, right_at
from strobe.studies.unlabelled.records import (
    CONSTANT,
    IN_RECORD,
    Alternation,
    CoarseFlicker,
    FlickerPoint,
    FlickerScore,
    FlickerTime,
    FlickerTimeCurve,
    SpellLengths,
    VideoFlicker,
)

SHOWN = 50
"""The number of pairs of alternating answers in results.json; the table on disk has all of them."""


def flicker_score(shared: FlickerPlan, answers: ClassAnswers) -> FlickerScore | None:
    """Score one classifier without labels; None if no set has all its answers.

    An answer outside the dataset's classes is an answer like any other. A set without all answers is excluded and
    counted. A model that was stopped at the first other answer of each set has flicker and consistency only.
    """
    scored = answered(shared.plan, answers)
    if not scored.any():
        return None
    part = shared if scored.all() else shared.only(scored)
    plan, video = part.plan, VideoAnswers(part, answers)
    options = plan.options
    figures = {
        measure.name: figure(measure, video, replicates=options.draws, seed=options.seed, interval=options.interval)
        for measure in measures_of("unlabelled")
    }
    own: dict[str, Any] = {name: figures.pop(name) for name in IN_RECORD}
    rest: dict[str, Any] = {
        "curve": (), "time_curve": Missing(STOPPED), "spells": Missing(STOPPED), "alternations": (), "coarser": (),
        "videos": (), "stopped_early": saved(shared.plan, answers) if video.stopped else None,
    }  # fmt: skip
    if not video.stopped:
        rows = video.labels[plan.frame]
        differs = changed(rows, plan.set_row, plan.is_anchor, n_sets=plan.n_sets)
        first = first_wrong(differs, plan.set_row, plan.level, n_sets=plan.n_sets, never=plan.k + 1)
        curve = plan.all_sets.estimates(~right_at(first, k=plan.k).T)
        rest |= {
            "curve": tuple(map(FlickerPoint, range(plan.k + 1), curve)),
            "time_curve": _over_time(part, differs),
            "spells": _spells(part, video.labels),
            "alternations": _alternating(part, video.labels)[:SHOWN],
            "coarser": _coarser(part, rows),
            "videos": _by_video(part, video.labels, first),
        }
    return FlickerScore(
        k=plan.k,
        **own,
        sure=part.options.sure,
        unscored=int((~scored).sum()),
        notes=tuple(note for note in (plan.few_dominate, _constant(video)) if note) or None,
        measures={name: one for name, one in figures.items() if one.value is not None} or None,
        **rest,
    )


def _constant(video: VideoAnswers) -> str | None:
    """Return a warning if a model gives one answer on all frames, so that consistency says nothing about it."""
    own, n = np.unique(video.along[video.known]), int(video.known.sum())
    if video.stopped or len(own) != 1 or n < 2:
        return None
    names = (*video.plan.view.info.label_space.names, "none of the classes")
    return f"{CONSTANT} on all {n:,} frames ({names[int(own[0])]}): it does not flicker, but it may not see the images"


def first_changes(plan: Plan, answers: ClassAnswers) -> Ints:
    """Return the level at which each set first has another answer, (S,): k + 1 for none, −1 if answers are missing."""
    scored, first = answered(plan, answers), np.full(plan.n_sets, -1, dtype=np.int32)
    if not scored.any():
        return first
    part = plan if scored.all() else plan.only(scored)
    if by_answers(plan) and is_stopped(plan, answers):
        # the smallest level with another answer is unknown, but it is at most k
        differs = np.logical_or.reduceat(wrong_rows(part, answers), part.start)
        first[scored] = np.where(differs, plan.k, plan.k + 1)
        return first
    labels = answer_labels(answers)[part.frame]
    first[scored] = first_change(labels, part.set_row, part.level, part.is_anchor, n_sets=part.n_sets, never=plan.k + 1)
    return first


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
