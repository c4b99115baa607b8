"""Pairs to practise on before the first vote: the project's own pairs, or obvious pairs."""

from pathlib import Path

import numpy as np

from strobe.annexes.web.review.conduct import Example
from strobe.annexes.web.review.plan import strangers
from strobe.annexes.web.review.votes import read_votes
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, expect

MOST = 40
"""The largest number of practice pairs."""


def read_examples(path: Path, dataset: Dataset) -> tuple[Example, ...]:
    """Read practice pairs and their answers from a file of votes (CSV or the papers' JSON).

    A vote's note explains the answer.
    """
    found = read_votes(path, dataset, annotator="examples", known=())
    if found.elsewhere or not found.answers or any(vote.stage == "anchor" for vote in found.answers):
        raise InvalidFile(
            path, "expected only pairs of this dataset", hint="columns: set, frame, decision, reason, note"
        )
    last = {(vote.set_id, vote.frame_id): vote for vote in found.answers}
    expect(len(last) <= MOST, "examples", f"at most {MOST} pairs", len(last))
    return tuple(
        Example(set_id=one.set_id, frame_id=one.frame_id, decision=one.decision, reason=one.reason, note=one.note)
        for one in last.values()
    )


def plain_examples(dataset: Dataset, n: int, *, seed: int) -> tuple[Example, ...]:
    """Return up to `n` pairs for learning the keys.

    They alternate: an anchor with itself, and an anchor with an image of another video.
    """
    if not n:
        return ()
    ids, rng = dataset.frame_ids(), np.random.Generator(np.random.PCG64([seed, 2]))
    anchors = sorted((str(dataset.sets.set_id[s]), ids[f]) for s, f in enumerate(dataset.sets.anchor_frame.tolist()))
    same = [
        Example(set_id=set_id, frame_id=frame, decision="similar", note="This is the same image twice.")
        for set_id, frame in (anchors[place] for place in rng.permutation(len(anchors))[: (n + 1) // 2])
    ]
    other = [
        Example(set_id=set_id, frame_id=frame, decision="dissimilar", note="This is an image of something else.")
        for set_id, frame in strangers(dataset, ids, rng, n // 2)
    ]
    both = [one for pair in zip(same, other, strict=False) for one in pair]
    return tuple([*both, *same[len(other) :], *other[len(same) :]][: min(n, MOST)])
