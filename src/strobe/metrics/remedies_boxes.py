"""Remedies for the boxes of a detector that vanish, return and change class, along the objects of metrics.lives.

Sure boxes are shown, and faint ones are not. Every remedy but `fill` uses no later frame. Boxes of no object stay.
"""

from dataclasses import replace

import numpy as np

from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Bools, Floats, Ints
from strobe.metrics.detection.match import box_iou
from strobe.metrics.lives import USUAL_FPS, Footage, LifeRules, join_boxes
from strobe.metrics.remedies import CLOSE, Remedy, majority, stood, stretches

SAME = 0.5
"""The IoU from which two boxes on one frame are in the same place."""


def remedied_boxes(
    found: BoxAnswers, frames: Ints, timeline: Ints, seconds: Floats, remedy: Remedy, rules: LifeRules | None = None
) -> BoxAnswers:
    """Return the boxes with a remedy; `frames`, `timeline` and `seconds` (N,) are ordered by time.

    After a gap that is neither short nor filled by the remedy, a box counts as that of a new object.

    - `hold`: a box that is lost stays where it last was, for at most these seconds. A new class is believed once the
      object had it for these seconds.
    - `fill`: if a lost box returns within these seconds, the boxes between are interpolated.
    - `confirm`: an object is shown from its n-th frame in a row on.
    - `hysteresis`: an object that was shown stays shown while its score is at least this share.
    - `mode`: the class is the most frequent one of the object's last n boxes.
    - `mean`, `ema`: the corners are averaged over the object's last n boxes, or exponentially.
    """
    rules = rules or LifeRules()
    if remedy.kind == "hysteresis":
        rules = replace(rules, faint=min(remedy.value, rules.confidence))
    span = max(rules.short, remedy.value if remedy.kind in ("hold", "fill") else 0.0) + CLOSE
    n = len(frames)
    clock = seconds if np.isfinite(seconds).all() else np.arange(n) / USUAL_FPS
    footage = Footage(
        frames=frames, timeline=timeline, clock=clock, lasting=np.zeros(n), size=np.zeros((n, 2), dtype=np.int64)
    )
    place = np.full(found.n_frames, -1, dtype=np.int64)
    place[frames] = np.arange(n)
    link = _unbroken(join_boxes(found, footage, rules)[0], clock, place[found.frame], span)
    score, label, xyxy = found.score.copy(), found.label.copy(), found.xyxy.copy()
    if remedy.kind == "hysteresis":
        raised = (link >= 0) & (score >= rules.faint)
        score[raised] = np.maximum(score[raised], rules.confidence)
        return _made(found, found.frame, label, xyxy, score)
    sure = np.flatnonzero((link >= 0) & (score >= rules.confidence))
    sure = sure[np.lexsort((place[found.frame[sure]], link[sure]))]
    owner, step = link[sure], place[found.frame[sure]]
    if remedy.kind == "confirm":
        kept = np.ones(len(found), dtype=bool)
        kept[sure] = _confirmed(owner, step, int(remedy.value))
        return _made(found, found.frame[kept], label[kept], xyxy[kept], score[kept])
    if remedy.kind == "hold":
        label[sure] = label[sure][stood(label[sure], owner, seconds[step], remedy)]
    elif remedy.kind == "mode":
        label[sure] = label[sure][majority(label[sure], owner, np.arange(len(sure)), before=int(remedy.value) - 1)]
    elif remedy.averages:
        for first, end in stretches(owner):
            xyxy[sure[first:end]] = _averaged(xyxy[sure[first:end]], remedy)
    if remedy.kind not in ("hold", "fill"):
        return _made(found, found.frame, label, xyxy, score)
    source, at, corners = _bridges(xyxy, sure, owner, step, timeline, seconds, remedy)
    # A faint box gives way to an added box of its object.
    key = link * (len(frames) + 1) + place[found.frame]
    kept = (link < 0) | ~np.isin(key, link[source] * (len(frames) + 1) + at)
    return _made(
        found,
        np.concatenate([found.frame[kept], frames[at]]),
        np.concatenate([label[kept], label[source]]),
        np.concatenate([xyxy[kept], corners]),
        np.concatenate([score[kept], score[source]]),
    )


def _unbroken(life: Ints, clock: Floats, step: Ints, span: float) -> Ints:
    """Return the stretch of an object's life of each box, (B,), without gaps longer than `span`; −1 for none."""
    rows = np.flatnonzero(life >= 0)
    rows = rows[np.lexsort((step[rows], life[rows]))]
    begins = (np.diff(life[rows], prepend=-1) != 0) | (np.diff(clock[step[rows]], prepend=0.0) > span)
    link = np.full(len(life), -1, dtype=np.int64)
    link[rows] = np.cumsum(begins) - 1
    return link


def _made(found: BoxAnswers, frame: Ints, label: Ints, xyxy: Floats, score: Floats) -> BoxAnswers:
    """Return answers to the same frames with other boxes."""
    return BoxAnswers.of(
        frame,
        label,
        xyxy,
        score,
        n_frames=found.n_frames,
        n_classes=found.n_classes,
        scored=found.scored,
        model=found.model,
        reasons=found.reasons,
    )


def _confirmed(owner: Ints, step: Ints, many: int) -> Bools:
    """Return the boxes (M,), ordered by object and step, of objects that were seen on `many` frames in a row."""
    starts = np.append(True, (np.diff(owner) != 0) | (np.diff(step) != 1))[: len(owner)]
    run = np.arange(len(owner)) - np.maximum.accumulate(np.where(starts, np.arange(len(owner)), 0))
    out = run >= many - 1
    for first, end in stretches(owner):
        out[first:end] = np.logical_or.accumulate(out[first:end])
    return out


def _averaged(xyxy: Floats, remedy: Remedy) -> Floats:
    """Return the averages of an object's boxes (M, 4), in order of time."""
    out = xyxy.copy()
    for at in range(1, len(xyxy)):
        if remedy.kind == "ema":
            out[at] = remedy.value * xyxy[at] + (1 - remedy.value) * out[at - 1]
        else:
            out[at] = xyxy[max(0, at - int(remedy.value) + 1) : at + 1].mean(axis=0)
    return out


def _bridges(
    xyxy: Floats, sure: Ints, owner: Ints, step: Ints, timeline: Ints, seconds: Floats, remedy: Remedy
) -> tuple[Ints, Ints, Floats]:
    """Return the boxes that `hold` or `fill` adds: the box that each continues, its step, and its corners."""
    last_step = {step: end for first, end in stretches(timeline) for step in range(first, end)}
    source, at, corners = [], [], []
    for index, row in enumerate(sure.tolist()):
        here, is_last = int(step[index]), index + 1 == len(sure) or owner[index + 1] != owner[index]
        until = last_step[here] if is_last else int(step[index + 1])
        if remedy.kind == "fill" and (is_last or seconds[until] - seconds[here] > remedy.value + CLOSE):
            continue
        for between in range(here + 1, until):
            away = float(seconds[between] - seconds[here])
            if away > remedy.value + CLOSE:
                break
            box = xyxy[row]
            if remedy.kind == "fill":
                part = away / float(seconds[until] - seconds[here])
                box = (1 - part) * box + part * xyxy[sure[index + 1]]
            source.append(row)
            at.append(between)
            corners.append(box)
    return np.array(source, dtype=np.int64), np.array(at, dtype=np.int64), np.array(corners).reshape(-1, 4)


def in_place(found: BoxAnswers, frame: Ints, xyxy: Floats, *, confidence: float) -> Bools:
    """Return, for each frame and box (M,), whether a sure box of these answers is in the same place."""
    sure = np.flatnonzero(found.score >= confidence)
    first, end = (np.searchsorted(found.frame[sure], frame, side=side) for side in ("left", "right"))
    place = np.repeat(np.arange(len(frame)), end - first)
    at = np.arange(len(place)) + np.repeat(end - np.cumsum(end - first), end - first)
    near = box_iou(found.xyxy[sure[at]], xyxy[place]) >= SAME
    return np.asarray(np.bincount(place[near], minlength=len(frame)) > 0)
