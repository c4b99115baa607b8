"""Compute the figures of box answers: progress, kept images, agreement and pace."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from strobe.analyses.drawn import AGREE, disagree, drawn_pictures
from strobe.annexes.web.review.conduct import Conduct
from strobe.core.codec import encode
from strobe.core.dataset import Dataset
from strobe.core.people import BoxAnswer, latest_answers


def asked_pictures(dataset: Dataset) -> dict[str, str]:
    """Return the images that people are asked about: each labelled anchor, with the id of one of its sets."""
    ids, labelled = dataset.frame_ids(), set(dataset.labels.frame.tolist())
    anchors = zip(dataset.sets.anchor_frame.tolist(), dataset.sets.set_id.tolist(), strict=True)
    return {ids[frame]: str(set_id) for frame, set_id in anchors if frame in labelled}


def summarise_boxes(dataset: Dataset, answers: Sequence[BoxAnswer], *, conduct: Conduct | None) -> dict[str, Any]:
    """Return the figures of `strobe review status --ask box`, each estimate with its n and interval."""
    from strobe.studies.people.score_boxes import (
        drawn_results,
    )  # imported late because it imports SciPy

    dataset = replace(dataset, drawn=tuple(answers))
    agree = AGREE if conduct is None or conduct.settings.agree is None else conduct.settings.agree
    results = drawn_results(dataset, agree=agree)
    pictures = drawn_pictures(dataset)
    frame_ids = sorted(asked_pictures(dataset))
    kept = sum(picture.is_kept for picture in pictures)
    return {
        "answers": len(answers),
        "table": {
            "pictures": len(frame_ids),
            "answered": len(pictures),
            "kept": kept,
            "discarded": len(pictures) - kept,
        },
        "waiting": _waiting(frame_ids, answers, conduct, agree),
        **{key: value for key, value in encode(results).items() if key != "n_answers"},
        "conduct": encode(conduct),
    }


def _waiting(
    asked: Sequence[str], answers: Sequence[BoxAnswer], conduct: Conduct | None, agree: float
) -> dict[str, Any]:
    """Count the waiting images, the missing answers, and the answers that each person owes.

    The rules are the same as in the queue.
    """
    first = latest_answers(answer for answer in answers if answer.stage == "draw")
    second = latest_answers(answer for answer in answers if answer.stage == "verify")
    settings = None if conduct is None else conduct.settings
    wanted = 1 if settings is None else settings.votes
    everyone = (conduct.people if conduct is not None else ()) or tuple(sorted({one.annotator for one in answers}))
    one, two, people = Counter[str](), Counter[str](), Counter[str]()
    for frame in asked:
        answered = first.get(frame, {})
        if len(answered) < wanted:
            one.update(pictures=1, answers=wanted - len(answered))
        elif disagree(answered.values(), agree=agree):
            absent = [name for name in everyone if name not in second.get(frame, {})]
            if absent and (settings is None or settings.verify):
                two.update(pictures=1, answers=len(absent))
                people.update(absent)
            elif not second.get(frame):
                two.update(pictures=1)
    return {
        "round_one": {"pictures": one["pictures"], "answers": one["answers"]},
        "round_two": {
            "on": None if settings is None else settings.verify,
            "pictures": two["pictures"],
            "answers": two["answers"],
            "people": dict(sorted(people.items())),
        },
    }
