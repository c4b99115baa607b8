"""The tasks of a review: every pair, every anchor and hidden controls of a dataset, in a seeded order."""

import hashlib
import hmac
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from strobe.core.dataset import Dataset

Kind = Literal["pair", "anchor", "same", "different"]
"""The kinds of tasks: a pair, an anchor alone, and two kinds of control (an anchor with itself, an anchor with another
video's frame).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewTask:
    """One task. `frame_id` is the neighbour's id in a pair, and the anchor's id for the kinds `anchor` and `same`.

    `kind` is one of its question's kinds. A person gets at most one task of each `kin`. A task with an empty `kin` is
    related to no other task. `condition` is the condition of its image.
    """

    task_id: str
    kind: str
    position: int
    set_id: str
    frame_id: str
    question: str = "pairs"
    kin: str = ""
    condition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A task assigned to an annotator, and the stage of their answer."""

    task: ReviewTask
    stage: str


def task_name(secret: bytes, *parts: str) -> str:
    """Return the opaque name of a task. It reveals nothing about the task."""
    return hmac.digest(secret, "\n".join(parts).encode(), "sha256").hex()[:24]


def candidates_digest(dataset: Dataset) -> str:
    """Return a digest of the candidates, to which a store is bound. Votes and labels do not change it."""
    sets, ids = dataset.sets, dataset.frame_ids()
    rows = sorted(
        f"{sets.set_id[s]}\t{ids[f]}\t{a}\n"
        for s, f, a in zip(sets.set.tolist(), sets.frame.tolist(), sets.is_anchor.tolist(), strict=True)
    )
    return hashlib.sha256("".join(rows).encode()).hexdigest()


def plan(dataset: Dataset, *, secret: bytes, seed: int, controls: float) -> list[ReviewTask]:
    """Return every task of a dataset. Names are opaque, so that a control pair looks like any other pair.

    The order depends only on the seed and the candidates, not on the order of rows in a file.
    """
    sets, ids = dataset.sets, dataset.frame_ids()
    pairs = sorted(dataset.candidates())
    anchors = sorted((str(sets.set_id[s]), ids[f]) for s, f in enumerate(sets.anchor_frame.tolist()))
    rng = np.random.Generator(np.random.PCG64(seed))
    out = _placed("pair", pairs, rng, secret) + _placed("anchor", anchors, rng, secret)
    wanted = math.ceil(controls * len(pairs))
    same = [anchors[place] for place in rng.permutation(len(anchors))[: (wanted + 1) // 2]]
    out += _placed("same", same, rng, secret)
    return out + _placed("different", strangers(dataset, ids, rng, wanted // 2), rng, secret)


def _placed(kind: Kind, pairs: list[tuple[str, str]], rng: np.random.Generator, secret: bytes) -> list[ReviewTask]:
    order = rng.permutation(len(pairs)).tolist()
    return [
        ReviewTask(
            task_id=task_name(secret, kind, set_id, frame),
            kind=kind,
            position=position,
            set_id=set_id,
            frame_id=frame,
        )
        for position, (set_id, frame) in zip(order, pairs, strict=True)
    ]


def strangers(dataset: Dataset, ids: list[str], rng: np.random.Generator, wanted: int) -> list[tuple[str, str]]:
    """Pair anchors with frames of another video and, if possible, of another class, so that they clearly differ."""
    order = sorted(range(dataset.n_sets), key=lambda number: str(dataset.sets.set_id[number]))
    anchor, video = dataset.sets.anchor_frame, dataset.video_of_set
    labels: dict[int, set[int]] = {}
    shown = np.isin(dataset.labels.frame, anchor)
    for frame, label in zip(dataset.labels.frame[shown].tolist(), dataset.labels.label[shown].tolist(), strict=True):
        labels.setdefault(frame, set()).add(label)
    pairs: dict[tuple[str, str], None] = {}
    for _ in range(20 * wanted):
        if len(pairs) >= wanted:
            break
        one, other = (order[integer] for integer in rng.integers(0, len(order), 2))
        if video[one] == video[other]:
            continue
        alike = labels.get(int(anchor[one]), set()) & labels.get(int(anchor[other]), set())
        if alike and rng.random() < 0.9:
            continue
        pairs[str(dataset.sets.set_id[one]), ids[int(anchor[other])]] = None
    return list(pairs)
