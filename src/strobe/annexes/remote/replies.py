"""The answers of a reply in the dataset's classes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from strobe.core.answers import Answers, ClassAnswers, State
from strobe.core.errors import ModelFailed, printable
from strobe.core.remote import RemoteAnswer, Reply, RequestFailed
from strobe.core.tasks import Task
from strobe.engine.forward import FORWARDS, Block, Runner, block_of, project_detections

_SAID = 1000
"""How many characters of what a service said are kept."""


def answers_of_reply(runner: Runner, rows: list[int], reply: Reply) -> Answers:
    """Return the answers to these rows. Raises ModelFailed for a reply of another shape."""
    if len(reply.answers) != len(rows):
        raise ModelFailed(f"{runner.name}: returned {len(reply.answers)} answer(s) to {len(rows)} image(s)")
    is_classifier = Task(runner.model.spec.task) is Task.CLASSIFICATION
    return (_classes_of if is_classifier else _boxes_of)(runner, rows, reply.answers)


def without_answer(runner: Runner, n: int, reason: str) -> Answers:
    """Return the record of `n` frames that have no answer for this reason."""
    answers = FORWARDS[Task(runner.model.spec.task)].answers
    return answers(runner, [], n, np.arange(n), dict.fromkeys(range(n), reason))


def _classes_of(runner: Runner, rows: list[int], given: Sequence[RemoteAnswer]) -> Answers:
    """Return the answers of a classifier. An answer without scores is outside the classes."""
    spec = runner.model.spec
    n_classes = len(spec.label_space)
    scores = np.zeros((len(rows), n_classes), dtype=np.float32)
    outside = np.array([one.scores is None for one in given], dtype=bool)
    for place, one in enumerate(given):
        if one.scores is None:
            continue
        found = np.asarray(one.scores, dtype=np.float32)
        if found.shape != (n_classes,):
            raise ModelFailed(
                f"{runner.name}: returned scores of shape {found.shape}, expected ({n_classes},): one per class of "
                f"{spec.label_space.name}"
            )
        if not np.isfinite(found).all():
            raise RequestFailed("the scores contain NaN or infinity", blame="frame")
        scores[place] = found
    block = block_of(runner, rows, scores)
    made = FORWARDS[Task.CLASSIFICATION].answers(runner, [block], 0, np.arange(len(rows)), {})
    answers = cast(ClassAnswers, made)
    state = np.where(outside, State.OUTSIDE, answers.state).astype(np.uint8)
    outside_at = np.flatnonzero(state == State.OUTSIDE).tolist()
    said = {place: printable(text, limit=_SAID) for place in outside_at if (text := given[place].said)}
    return replace(answers, state=state, label=np.where(outside, -1, answers.label), said=said)


def _boxes_of(runner: Runner, rows: list[int], given: Sequence[RemoteAnswer]) -> Answers:
    """Return the answers of a detector."""
    if any(one.found is None for one in given):
        raise RequestFailed("the answer has no list of boxes", blame="frame")
    found = [project_detections(cast(Any, one.found), runner.projection) for one in given]
    blocks = [Block(rows=rows, found=found)]
    return FORWARDS[Task.DETECTION].answers(runner, blocks, 0, np.arange(len(rows)), {})
