"""Videos: how many sets of each video hold or break for each model, and every model's answers along one video."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from strobe.annexes.web.view.filters import NO_CLASS
from strobe.annexes.web.view.frames import FrameAnswers
from strobe.annexes.web.view.index import DatasetIndex
from strobe.annexes.web.view.outcomes import STATUS
from strobe.core.answers import State
from strobe.core.arrays import Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import printable
from strobe.metrics.flicker import spells, timelines

COLOURS = 7
"""How many of a video's most frequent answers have a colour of their own, as in the report; others are grey."""

MOST_FRAMES = 20_000
"""The most frames of one timeline."""


def video_rows(index: DatasetIndex, rows: Ints, *, search: str, offset: int, limit: int) -> dict[str, Any]:
    """Return the videos of these sets with the counts of each model; videos with more broken sets come first."""
    n, video = len(index.dataset.videos), index.video[rows]
    many = np.bincount(video, minlength=n)
    counts = {
        name: np.bincount(video * len(STATUS) + model.status[rows], minlength=n * len(STATUS)).reshape(n, -1)
        for name, model in index.models.items()
    }
    broken = np.sum([count[:, 2] for count in counts.values()], axis=0) if counts else np.zeros(n)
    seen = np.flatnonzero(many)
    if search:
        names = np.array([str(name).casefold() for name in index.dataset.videos.name.tolist()])
        seen = seen[np.char.find(names[seen], search.casefold()) >= 0]
    order = seen[np.argsort(-broken[seen], kind="stable")]
    return {
        "total": len(order),
        "videos": [
            {
                "row": one,
                "name": printable(index.dataset.videos.name[one]),
                "sets": int(many[one]),
                "models": {name: found[one].tolist() for name, found in counts.items()},
            }
            for one in order[offset : offset + limit].tolist()
        ],
    }


def timeline(index: DatasetIndex, video: int, answers: Mapping[str, FrameAnswers | None]) -> dict[str, Any]:
    """Return every model's answers along one video: runs of equal answers, wrong frames and confidence."""
    data = index.dataset
    rows = np.flatnonzero(data.frames.video == video)[:MOST_FRAMES]
    order, line = timelines(data.frames.video[rows], data.frames.index[rows])
    rows = rows[order]
    known = {name: answer for name, answer in answers.items() if answer is not None}
    labels = {name: np.where(one.state[rows] > State.OUTSIDE, -2, one.label[rows]) for name, one in known.items()}
    every = np.concatenate([np.zeros(0, dtype=np.int64), *labels.values()])
    found, many = np.unique(every[every > -2], return_counts=True)
    top = found[np.argsort(-many, kind="stable")][:COLOURS].tolist()
    colours = {label: place + 1 for place, label in enumerate(top)}
    sets = np.flatnonzero(index.video == video)
    anchors = data.sets.anchor_frame[sets]
    place_of = {int(row): place for place, row in enumerate(rows.tolist())}
    wrong = _wrong(data, rows, known)
    return {
        "name": printable(data.videos.name[video]),
        "row": video,
        "n": len(rows),
        "times": _times(data, rows),
        "legend": [[colours[label], _class(data, label)] for label in top],
        "sets": [
            {"row": int(one), "at": place_of[int(anchor)], "name": printable(index.names[one])}
            for one, anchor in zip(sets.tolist(), anchors.tolist(), strict=True)
            if int(anchor) in place_of
        ],
        "models": [
            _strip(data, name, known.get(name), labels.get(name), rows, line, colours, wrong.get(name))
            for name in answers
        ],
    }


def _wrong(data: Dataset, rows: Ints, known: Mapping[str, FrameAnswers]) -> dict[str, Any]:
    """Return which frames are wrong by the labels of the sets: 1 wrong, 0 right, −1 not in a set with labels."""
    out = {}
    sets = data.sets
    near = np.flatnonzero(np.isin(sets.frame, rows))
    place = np.searchsorted(rows, sets.frame[near]) if bool((np.diff(rows) > 0).all()) else None
    for name, one in known.items():
        found = np.full(len(rows), -1, dtype=np.int8)
        if place is not None and data.labelled.any():
            found[place] = ~one.right[near]
        found[one.state[rows] > State.OUTSIDE] = -1
        out[name] = found
    return out


def _strip(
    data: Dataset,
    name: str,
    one: FrameAnswers | None,
    labels: Any,
    rows: Ints,
    line: Ints,
    colours: Mapping[int, int],
    wrong: Any,
) -> dict[str, Any]:
    if one is None:
        return {"model": name, "pending": True}
    runs = spells(labels, line)
    bad = spells(wrong.astype(np.int64), line)
    return {
        "model": name,
        "pending": False,
        "flips": int(
            ((runs.timeline[1:] == runs.timeline[:-1]) & (runs.answer[1:] > -2) & (runs.answer[:-1] > -2)).sum()
        ),
        "spells": [
            [
                int(start),
                int(length),
                colours.get(int(label), 0),
                "no answer" if label == -2 else _class(data, int(label)),
            ]
            for start, length, label in zip(runs.start, runs.length, runs.answer, strict=True)
        ],
        "wrong": [[int(a), int(b)] for a, b, code in zip(bad.start, bad.length, bad.answer, strict=True) if code == 1],
        "confidence": [None if not np.isfinite(value) else round(float(value), 2) for value in one.confidence[rows]],
    }


def _class(data: Dataset, label: int) -> str:
    return NO_CLASS if label < 0 else printable(data.info.label_space.names[label])


def _times(data: Dataset, rows: Ints) -> list[str]:
    """Return when the first and last frame are, in words."""
    if not len(rows):
        return []
    time = data.frames.time_s[rows[[0, -1]]]
    if np.isfinite(time).all():
        return [f"{one:.1f} s" for one in time.tolist()]
    return [f"frame {one}" for one in data.frames.index[rows[[0, -1]]].tolist()]
