"""Outages, class changes and jitter of one detector on one dataset, from its boxes alone: no label is used."""

from collections.abc import Iterator

import numpy as np

from strobe.analyses.box_measures import BoxAnswersAlong, followed
from strobe.analyses.measures import figure, measures_of
from strobe.analyses.plan import ScoreOptions
from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Bools, Floats
from strobe.core.dataset import Dataset
from strobe.core.estimate import Missing
from strobe.studies.unlabelled.records_links import LinkCase, LinkEvent, LinkOutage, LinkScore, VideoLinks

CASES = 24
"""The number of cases in results.json."""

LONGEST = 1000
"""The number of outages in results.json, the longest first."""


def link_score(dataset: Dataset, found: BoxAnswers, options: ScoreOptions | None = None) -> LinkScore | Missing:
    """Score one detector without labels, or return the reason why no boxes can be followed (see `box_plan`)."""
    along, options = followed(dataset, found), options or ScoreOptions()
    if isinstance(along, Missing):
        return along
    lives, lasting = along.lives, along.shared.footage.lasting if along.shared.timed else np.zeros(len(along.living))
    ends = lives.within(lasting, lives.first, lives.until)
    lost = _is_lost(along)
    sure = found.score[lives.row] >= along.rules.confidence
    return LinkScore(
        rules=along.rules,
        frames=int(lives.known.sum()),
        missing_frames=int((~lives.known).sum()),
        cuts=along.shared.cuts,
        objects=len(lives),
        seen_once=int((np.bincount(lives.life[sure], minlength=len(lives)) == 1).sum()),
        vanished=int(lives.vanished.sum()),
        appeared=int(lives.appeared.sum()),
        outages=len(lives.first),
        class_changes=len(lives.change),
        object_seconds=float((along.living * lasting).sum()),
        outage_seconds=float(ends.sum()),
        faint_seconds=float(lasting[lives.step[~sure]].sum()),
        vanished_seconds=float(ends[lost].sum()),
        measures={
            measure.name: figure(measure, along, replicates=options.draws, seed=options.seed, interval=options.interval)
            for measure in measures_of("boxes")
        },
        videos=_by_video(along, lasting),
        longest=tuple(_outages(along, lasting)),
        cases=_cases(along),
        notes=_notes(along, ends, lost) or None,
    )


def _is_lost(along: BoxAnswersAlong) -> Bools:
    """Return whether an object does not return after each outage, (K,)."""
    lives = along.lives
    return np.asarray(lives.vanished[lives.outage_life] & (lives.until == lives.end[lives.outage_life]))


def _by_video(along: BoxAnswersAlong, lasting: Floats) -> tuple[VideoLinks, ...]:
    lives, videos, video = along.lives, along.shared.dataset.videos, along.shared.video
    n, of_life = len(videos), video[lives.start]
    counts = {
        "frames": video[lives.known],
        "objects": of_life,
        "vanished": of_life[lives.vanished],
        "appeared": of_life[lives.appeared],
        "outages": video[lives.first],
        "class_changes": video[lives.step[lives.change[:, 1]]],
    }
    many = {name: np.bincount(values, minlength=n) for name, values in counts.items()}
    alive = np.bincount(video, weights=along.living * lasting, minlength=n)
    absent = np.bincount(video, weights=lives.absent() * lasting, minlength=n)
    return tuple(
        VideoLinks(
            video=str(videos.video_id[row]),
            object_seconds=float(alive[row]),
            outage_seconds=float(absent[row]),
            **{name: int(values[row]) for name, values in many.items()},
        )
        for row in np.flatnonzero(many["frames"])
    )


def _around(along: BoxAnswersAlong) -> Iterator[tuple[int, int, int | None]]:
    """Return, for each outage, its number and the places of the sure boxes before and after it."""
    lives = along.lives
    sure = np.flatnonzero(along.answers.score[lives.row] >= along.rules.confidence)
    key = lives.life[sure] * (len(lives.known) + 1) + lives.step[sure]
    at = np.searchsorted(key, lives.outage_life * (len(lives.known) + 1) + lives.first)
    for number, place in enumerate(at.tolist()):
        returns = place < len(sure) and lives.life[sure[place]] == lives.outage_life[number]
        yield number, int(sure[place - 1]), int(sure[place]) if returns else None


def _outages(along: BoxAnswersAlong, lasting: Floats) -> Iterator[LinkOutage]:
    """Return the longest outages, the longest first, then in the order of time."""
    lives, dataset, footage = along.lives, along.shared.dataset, along.shared.footage
    frames = lives.within(np.ones(len(lives.known)), lives.first, lives.until)
    seconds = lives.within(lasting, lives.first, lives.until)
    around = {number: (before, after) for number, before, after in _around(along)}
    for number in np.lexsort((lives.first, -frames, -seconds))[:LONGEST].tolist():
        before, after = around[number]
        row, first, last = lives.row[before], int(lives.first[number]), int(lives.until[number]) - 1
        at = float(dataset.frames.time_s[footage.frames[first]])
        x0, y0, x1, y1 = map(float, along.answers.xyxy[row])
        inside = (lives.life == lives.outage_life[number]) & (lives.step >= first) & (lives.step <= last)
        yield LinkOutage(
            video=str(dataset.videos.video_id[along.shared.video[first]]),
            object=int(lives.outage_life[number]),
            label=class_name(dataset, int(along.answers.label[row])),
            first=int(dataset.frames.index[footage.frames[first]]),
            last=int(dataset.frames.index[footage.frames[last]]),
            frames=int(frames[number]),
            at=at if np.isfinite(at) else None,
            seconds=float(seconds[number]) if along.shared.timed else None,
            returns=after is not None,
            faint=int(inside.sum()),
            x0=x0,
            y0=y0,
            x1=x1,
            y1=y1,
        )


def link_events(along: BoxAnswersAlong) -> list[LinkCase]:
    """Return all outages and class changes. An object that is without a box up to its end has vanished."""
    lost = _is_lost(along)
    cases = [
        _case(along, "vanished" if lost[number] else "outage", before, after, until=int(along.lives.until[number]))
        for number, before, after in _around(along)
    ]
    return [*cases, *(_case(along, "class change", *pair) for pair in along.lives.change.tolist())]


def _cases(along: BoxAnswersAlong) -> tuple[LinkCase, ...]:
    """Return the most striking events, chosen in turn from each video and kind: the longest, then the surest."""
    ranked: list[tuple[int, tuple[float, float, int, str], LinkCase]] = []
    seen: dict[tuple[str, str], int] = {}
    for case in sorted(link_events(along), key=_striking):
        rank = seen[case.video, case.kind] = seen.get((case.video, case.kind), -1) + 1
        ranked.append((rank, _striking(case), case))
    chosen = sorted(ranked, key=lambda row: row[:2])[:CASES]
    return tuple(sorted((row[-1] for row in chosen), key=_striking))


def _striking(case: LinkCase) -> tuple[float, float, int, str]:
    """Return the sort key of a case: the longest and surest first, then by frame and kind."""
    return 0.0 if case.kind == "class change" else -float(case.frames), -case.sure, case.before, case.kind


def _case(along: BoxAnswersAlong, kind: LinkEvent, before: int, after: int | None, *, until: int = 0) -> LinkCase:
    lives, answers, footage = along.lives, along.answers, along.shared.footage
    first = int(lives.step[before])
    last = until if after is None else int(lives.step[after])
    row = int(lives.row[before])
    later = None if after is None else int(lives.row[after])
    own = lives.life == lives.life[before]
    faint = lives.row[own & (lives.step > first) & (lives.step < last)]
    lowest = int(faint[answers.score[faint].argmin()]) if len(faint) else None
    during: int | None = int(footage.frames[first + 1]) if last > first + 1 else None
    if lowest is not None:
        during = int(answers.frame[lowest])
    x0, y0, x1, y1 = map(float, answers.xyxy[row])
    scores = [float(answers.score[row]), *([] if later is None else [float(answers.score[later])])]
    label = class_name(along.shared.dataset, int(answers.label[row]))
    between = np.arange(first + 1, last)
    return LinkCase(
        kind=kind,
        video=str(along.shared.dataset.videos.video_id[along.shared.video[first]]),
        before=int(answers.frame[row]),
        during=during,
        after=int(footage.frames[last - 1 if after is None else last]),
        frames=int(lives.known[between].sum()),
        seconds=float(footage.lasting[between][lives.known[between]].sum()) if along.shared.timed else None,
        box_before=(x0, y0, x1, y1),
        box_after=None if later is None else _box(answers, later),
        label_before=label,
        label_after=label if later is None else class_name(along.shared.dataset, int(answers.label[later])),
        score_before=scores[0],
        score_during=None if lowest is None else float(answers.score[lowest]),
        score_after=None if later is None else scores[1],
        sure=min(scores),
    )


def _box(answers: BoxAnswers, row: int) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = map(float, answers.xyxy[row])
    return x0, y0, x1, y1


def class_name(dataset: Dataset, label: int) -> str:
    """Return the name of a class; a class that the dataset lacks has the detector's own number."""
    return dataset.info.label_space.names[label] if label >= 0 else f"(class {-1 - label} of the detector)"


def _notes(along: BoxAnswersAlong, seconds: Floats, lost: Bools) -> tuple[str, ...]:
    """Return the cautions about the objects."""
    lives, notes = along.lives, []
    if missing := int((~lives.known).sum()):
        notes.append(f"{missing} frames have no answer and count for nothing")
    if not along.shared.timed:
        notes.append("the times of the frames are unknown, so nothing is counted in seconds")
    if not len(lives):
        notes.append(f"no box has a score of at least {along.rules.confidence:g}, so there is no object to follow")
    boxes = np.bincount(lives.life, minlength=len(lives))
    once = (boxes == 1)[lives.outage_life]
    total = float(seconds.sum())
    if total and float(seconds[once].sum()) > total / 2:
        notes.append(
            f"most outage seconds are of the {int((boxes == 1).sum())} objects with a single box, which may be false "
            "boxes rather than lost objects"
        )
    elif total and float(seconds[lost].sum()) > total / 2:
        notes.append(
            f"most outage seconds come after the {int(lives.vanished.sum())} objects that vanish in the middle of the "
            "picture: they are counted to the end of the recording or to a cut"
        )
    return tuple(notes)
