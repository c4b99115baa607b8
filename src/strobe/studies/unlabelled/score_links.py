"""Gaps, class changes, crossings and jitter of one detector on one dataset, from its boxes alone: no label is used."""

from dataclasses import dataclass, field

import numpy as np

from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import expect
from strobe.core.estimate import Estimate, Missing
from strobe.metrics.bootstrap import POSITIVE, REPLICATES, SWITCHED_OFF, Bootstrap
from strobe.metrics.consistency import quartiles
from strobe.metrics.flicker import timelines
from strobe.metrics.intervals import Interval, effective_videos, nothing, proportion
from strobe.metrics.links import WINDOW, LinkedBoxes, LinkRules, follow, link_boxes
from strobe.studies.unlabelled.plan import cut_frames, ended_at
from strobe.studies.unlabelled.records_links import (
    GapLengths,
    LinkCase,
    LinkEvent,
    LinkLengthClass,
    LinkScore,
    LinkShares,
    VideoLinks,
)

LEAST_SPAN = 3
"""A link needs this many frames to lose its box and find it again."""

LENGTHS = (LEAST_SPAN, 10, 30, 100)
"""The shortest span of each length class, in frames."""

TOO_SHORT = f"no link has {LEAST_SPAN} frames"

CASES = 24
"""The number of cases in results.json."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOptions:
    """Options of the links: how boxes are linked, and how intervals are computed."""

    rules: LinkRules = field(default_factory=LinkRules)
    interval: Interval = "auto"
    seed: int = 0
    bootstrap: bool = True
    replicates: int = REPLICATES


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """The links of a dataset: the boxes, the frames in order of time, their timelines, and the video of each link."""

    dataset: Dataset
    answers: BoxAnswers
    options: LinkOptions
    frames: Ints
    line: Ints
    cuts: int
    n_missing: int
    boxes: LinkedBoxes
    video: Ints


def linked_boxes(dataset: Dataset, found: BoxAnswers, options: LinkOptions) -> Linked | Missing:
    """Follow the boxes of one detector along the videos, or return the reason why no boxes can be linked.

    All frames of the dataset's sets take part, in the order of their videos. A frame without an answer is excluded and
    counted: links end before it. Links also end at scene cuts, which are known from the hints; pass the dataset with
    the sets that contain a cut.
    """
    n_frames = len(dataset.frames)
    expect(found.n_frames == n_frames, "detections", f"one answer per frame ({n_frames})", found.n_frames)
    if dataset.info.axis != "frame-offset":
        return Missing("the axis is not frame-offset: boxes are linked only along a video")
    used = np.unique(dataset.sets.frame)
    answered = used[found.scored[used]]
    video, index = dataset.frames.video[answered], dataset.frames.index[answered]
    order, line = timelines(video, index)
    frames = answered[order]
    cuts = cut_frames(dataset)[frames] & (np.diff(line, prepend=-1) == 0)
    line = ended_at(line, cuts)
    if not (np.diff(line) == 0).any():
        return Missing("no two neighbouring frames of a video were answered")
    link = link_boxes(found, frames, line, rules=options.rules)
    boxes = follow(found, link, frames, line, confidence=options.rules.confidence)
    first = np.searchsorted(boxes.link, np.arange(len(boxes)))
    return Linked(
        dataset=dataset,
        answers=found,
        options=options,
        frames=frames,
        line=line,
        cuts=int(cuts.sum()),
        n_missing=len(used) - len(answered),
        boxes=boxes,
        video=dataset.frames.video[frames[boxes.step[first]]],
    )


def link_events(linked: Linked) -> list[LinkCase]:
    """Return all gaps, class changes and crossings of the links of at least three frames."""
    boxes = linked.boxes
    long = boxes.span >= LEAST_SPAN
    return [
        _case(linked, kind, *pair)
        for kind, pairs in _kinds(boxes)
        for pair in pairs[long[boxes.link[pairs[:, 0]]]].tolist()
    ]


def link_score(dataset: Dataset, found: BoxAnswers, options: LinkOptions | None = None) -> LinkScore | Missing:
    """Score one detector without labels, or return the reason why no boxes can be linked (see `linked_boxes`)."""
    linked = linked_boxes(dataset, found, options or LinkOptions())
    if isinstance(linked, Missing):
        return linked
    boxes = linked.boxes
    long, uncut_links = boxes.span >= LEAST_SPAN, ~boxes.cut_off
    return LinkScore(
        rules=linked.options.rules,
        frames=len(linked.frames),
        missing_frames=linked.n_missing,
        cuts=linked.cuts,
        links=len(boxes),
        one_frame=_share(boxes.span == 1, uncut_links, linked, none="every link starts or ends with its video"),
        shares=_shares(linked, long),
        by_length=_by_length(linked),
        gap_lengths=_gap_lengths(linked),
        gaps=int(boxes.gaps.sum()),
        class_changes=int(boxes.class_changes[long].sum()),
        crossings=int(boxes.crossings.sum()),
        videos=_by_video(linked, long),
        cases=_cases(linked, long),
        notes=_notes(linked, long, missing=linked.n_missing) or None,
    )


def _share(hit: Bools, use: Bools, linked: Linked, *, none: str = TOO_SHORT) -> Estimate:
    if not use.any():
        return nothing(none)
    return proportion(hit[use], linked.video[use], interval=linked.options.interval)


def _mean(values: Floats, use: Bools, linked: Linked) -> Estimate:
    """Return the mean of `values` over the links with a value, with an interval over videos."""
    use = use & ~np.isnan(values)
    if not use.any():
        return nothing(f"no link has boxes on {WINDOW} consecutive frames")
    part, options = values[use], linked.options
    if not options.bootstrap:
        return Estimate(value=float(part.mean()), low=None, high=None, n=len(part), reason=SWITCHED_OFF)
    draws = Bootstrap(linked.video[use], replicates=options.replicates, seed=options.seed)
    return draws.estimate(float(part.mean()), draws.ratio(part, np.ones(len(part))), n=len(part), limits=POSITIVE)


def _missing(use: Bools, linked: Linked) -> Estimate:
    """Return the share of frames without a box, over the frames of all links."""
    if not use.any():
        return nothing(TOO_SHORT)
    total, count = linked.boxes.gap_frames[use].astype(np.float64), linked.boxes.span[use]
    options = linked.options
    if not options.bootstrap:
        value = float(total.sum() / count.sum())
        return Estimate(value=value, low=None, high=None, n=int(count.sum()), reason=SWITCHED_OFF)
    draws = Bootstrap(linked.video[use], replicates=options.replicates, seed=options.seed)
    return draws.mean(total, count=count)


def _shares(linked: Linked, use: Bools) -> LinkShares:
    boxes = linked.boxes
    return LinkShares(
        links=int(use.sum()),
        gaps=_share(boxes.gaps > 0, use, linked),
        class_changes=_share(boxes.class_changes > 0, use, linked),
        crossings=_share(boxes.crossings > 0, use, linked),
        interrupted=_share((boxes.gaps > 0) | (boxes.crossings > 0), use, linked),
        missing=_missing(use, linked),
        centre_jitter=_mean(boxes.centre_jitter, use, linked),
        size_jitter=_mean(boxes.size_jitter, use, linked),
    )


def _by_length(linked: Linked) -> tuple[LinkLengthClass, ...]:
    """Return the figures of every length class that has links."""
    rows, span = [], linked.boxes.span
    for least, above in zip(LENGTHS, (*LENGTHS[1:], None), strict=True):
        use = span >= least if above is None else (span >= least) & (span < above)
        if use.any():
            most = None if above is None else above - 1
            rows.append(LinkLengthClass(least=least, most=most, shares=_shares(linked, use)))
    return tuple(rows)


def _gap_lengths(linked: Linked) -> GapLengths | Missing:
    boxes, options = linked.boxes, linked.options
    if not len(boxes.gap):
        return Missing("no link has a gap")
    length = boxes.step[boxes.gap[:, 1]] - boxes.step[boxes.gap[:, 0]] - 1
    video = linked.video[boxes.link[boxes.gap[:, 0]]]
    draws = Bootstrap(video, replicates=options.replicates if options.bootstrap else 0, seed=options.seed)
    column = length[:, None].astype(np.float64)
    return GapLengths(
        n=len(length),
        median_frames=quartiles(column, np.ones(column.shape, dtype=bool), draws)[0],
        one_frame=proportion(length == 1, video, interval=options.interval),
        longest_frames=int(length.max()),
    )


def _by_video(linked: Linked, long: Bools) -> tuple[VideoLinks, ...]:
    boxes, videos = linked.boxes, linked.dataset.videos
    n = len(videos)
    frames = np.bincount(linked.dataset.frames.video[linked.frames], minlength=n)
    events = (boxes.gaps, boxes.class_changes, boxes.crossings)
    links = np.bincount(linked.video[long], minlength=n)
    having = [np.bincount(linked.video[long & (count > 0)], minlength=n) for count in events]
    totals = [
        np.bincount(linked.video[long], weights=count[long], minlength=n).astype(np.int64)
        for count in (*events, boxes.gap_frames)
    ]
    return tuple(
        VideoLinks(
            video=str(videos.video_id[row]),
            frames=int(frames[row]),
            links=int(links[row]),
            with_gap=int(having[0][row]),
            with_class_change=int(having[1][row]),
            with_crossing=int(having[2][row]),
            gaps=int(totals[0][row]),
            gap_frames=int(totals[3][row]),
            class_changes=int(totals[1][row]),
            crossings=int(totals[2][row]),
        )
        for row in np.flatnonzero(frames)
    )


def _kinds(boxes: LinkedBoxes) -> tuple[tuple[LinkEvent, Ints], ...]:
    return ("gap", boxes.gap), ("class change", boxes.change), ("crossing", boxes.dip)


def _cases(linked: Linked, long: Bools) -> tuple[LinkCase, ...]:
    """Return the most striking events, chosen in turn from each video and kind, and sorted with the surest first."""
    cases: list[LinkCase] = []
    for kind, pairs in _kinds(linked.boxes):
        pairs = pairs[long[linked.boxes.link[pairs[:, 0]]]]
        sure = linked.answers.score[linked.boxes.row[pairs]].min(axis=1)
        video = linked.video[linked.boxes.link[pairs[:, 0]]]
        order = np.lexsort((pairs[:, 0], -sure, video))
        rank = np.arange(len(order)) - np.searchsorted(video[order], video[order])
        best = order[np.lexsort((-sure[order], rank))][:CASES]
        cases += [_case(linked, kind, *pair) for pair in pairs[best].tolist()]
    seen: dict[tuple[str, str], int] = {}
    ranked = []
    for case in sorted(cases, key=_sureness):
        rank_of_case = seen[case.video, case.kind] = seen.get((case.video, case.kind), -1) + 1
        ranked.append((rank_of_case, *_sureness(case), case))
    chosen = sorted(ranked, key=lambda entry: entry[:-1])[:CASES]
    return tuple(sorted((entry[-1] for entry in chosen), key=_sureness))


def _sureness(case: LinkCase) -> tuple[float, int, str, int]:
    """Return the sort key of a case: the surest first, then by frame and kind."""
    return -case.sure, case.before, case.kind, case.after


def _case(linked: Linked, kind: LinkEvent, before: int, after: int) -> LinkCase:
    boxes, answers = linked.boxes, linked.answers
    rows = boxes.row[[before, after]]
    between = int(boxes.step[after] - boxes.step[before]) - 1
    during: int | None = int(linked.frames[boxes.step[before] + 1]) if between else None
    faint = boxes.row[before + 1 : after]
    lowest = int(faint[answers.score[faint].argmin()]) if len(faint) else None
    if lowest is not None:
        during = int(answers.frame[lowest])
    first, second = (tuple(map(float, answers.xyxy[row])) for row in rows.tolist())
    scores = [float(answers.score[row]) for row in rows.tolist()]
    names = [class_name(linked.dataset, int(answers.label[row])) for row in rows.tolist()]
    return LinkCase(
        kind=kind,
        video=str(linked.dataset.videos.video_id[linked.video[boxes.link[before]]]),
        before=int(answers.frame[rows[0]]),
        during=during,
        after=int(answers.frame[rows[1]]),
        frames=between,
        box_before=(first[0], first[1], first[2], first[3]),
        box_after=(second[0], second[1], second[2], second[3]),
        label_before=names[0],
        label_after=names[1],
        score_before=scores[0],
        score_during=None if lowest is None else float(answers.score[lowest]),
        score_after=scores[1],
        sure=min(scores),
    )


def class_name(dataset: Dataset, label: int) -> str:
    """Return the name of a class; a class that the dataset lacks has the detector's own number."""
    return dataset.info.label_space.names[label] if label >= 0 else f"(class {-1 - label} of the detector)"


def _notes(linked: Linked, long: Bools, *, missing: int) -> tuple[str, ...]:
    """Return the cautions about the links."""
    notes = []
    if missing:
        notes.append(f"{missing} frames have no answer and are excluded: links end before them")
    if not long.any():
        notes.append(f"{TOO_SHORT}, so gaps cannot be measured")
        return tuple(notes)
    sizes = np.bincount(linked.video[long])
    videos, effective = int((sizes > 0).sum()), effective_videos(sizes)
    if 2 * effective < videos:
        notes.append(
            f"a few of the {videos} videos hold most of the {int(long.sum())} links, so the intervals are based on "
            f"{effective:.1f} effective videos"
        )
    return tuple(notes)
