"""--stop-early: run the models one after the other, in rounds, and stop each set at its first wrong frame.

Without labels, a set stops at the first answer that differs from its anchor's.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.early import EarlyStopRounds, Failures, StoppedEarly, by_answers, open_sets, saved
from strobe.analyses.plan import Plan, ScoreOptions
from strobe.core.answers import ClassAnswers, State
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import FrameSource, Progress
from strobe.core.tasks import Task
from strobe.engine.engine import ModelOutcome
from strobe.engine.forward import Runner
from strobe.store.run_folder import Run
from strobe.store.shards import ModelShards

Over = Callable[[NDArray[np.int64], Progress], ModelOutcome]
"""A function that runs the model over some frames and stores its answers."""


def check_stopping(dataset: Dataset) -> None:
    """Raise an error for data whose figures need every frame."""
    if dataset.variants is not None:
        raise StrobeError(
            f"<<stop_early>>: {printable(dataset.name)} has variants, whose figures need every image; remove "
            "<<stop_early>>"
        )
    if not dataset.labelled.any() and dataset.info.axis != "frame-offset":
        raise StrobeError(
            f"<<stop_early>>: no set of {printable(dataset.name)} has a label, and flicker without labels is measured "
            "on videos only; remove <<stop_early>>"
        )


class EarlyStopping:
    """The state of a command that stops early: the sets to decide, and the frames on which earlier models failed."""

    def __init__(self, dataset: Dataset, *, k: int | None, run: Run, asked: Sequence[str]) -> None:
        """`dataset` has the scored sets. `asked` are the command's own models.

        Failures of other models of the run are used from the start. Failures of the command's own models are used once
        the model has finished. A resumed command therefore does the same work.
        """
        check_stopping(dataset)
        self.plan = Plan(dataset, ScoreOptions(k=k))
        self._failures = Failures(self.plan)
        for one in run.models(dataset, allow_missing=True) if run.exists else []:
            if one.name not in asked and one.task is Task.CLASSIFICATION:
                with suppress(StrobeError):  # models that cannot be scored give no information
                    self._failures.add(cast(ClassAnswers, one.load()))

    @staticmethod
    def check_model(runner: Runner) -> None:
        """Raise an error if the model is a detector."""
        if Task(runner.model.spec.task) is not Task.CLASSIFICATION:
            raise StrobeError(
                f"{printable(runner.name)}: a detector's pm-k is mAP on the worst frames and needs every frame; "
                "remove <<stop_early>>"
            )

    def run(
        self, runner: Runner, store: ModelShards, source: FrameSource, progress: Progress, over: Over, *, retry: bool
    ) -> tuple[ModelOutcome, StoppedEarly | None]:
        """Decide every set of the plan with stored answers and as few new answers as possible. Return the effort.

        A stored answer is used only in the round that requests it, so that a resumed run does the same work as an
        uninterrupted run. With `retry`, unreadable frames are tried again.
        """
        kind = "logits" if runner.merge == "sum" else runner.model.spec.kind
        store.stored(retry_errors=retry)
        answers = _skipping(store, kind)
        total = ModelOutcome(n_kept=int(answers.scored[self.plan.frames_used].sum()))
        asking = EarlyStopRounds(self.plan, self._failures.risk())
        todo = bool(open_sets(self.plan, answers).any())
        until = "the first other answer" if by_answers(self.plan) else "the first wrong frame"
        with progress.task(f"predict {runner.name}, up to {until} of each set", None) as tick:
            while todo and len(rows := asking.next()):
                if (answers.state[rows] == State.SKIPPED).any():
                    done = over(rows, _Inner(progress, tick))
                    _join(total, done)
                    if done.error is not None:
                        return total, None
                    answers = _skipping(store, kind)
                asking.tell(rows, answers)
        if self._write_gone(store, source, answers):
            answers = _skipping(store, kind)
        total.n_unreadable = len(answers.reasons)
        self._failures.add(answers)
        return total, saved(self.plan, answers)

    def _write_gone(self, store: ModelShards, source: FrameSource, answers: ClassAnswers) -> bool:
        """Mark skipped frames without a file as unreadable, as in a full run."""
        used = self.plan.frames_used
        gone = {}
        for row in used[answers.state[used] == State.SKIPPED].tolist():
            try:
                source.read_encoded(row)
            except StrobeError as error:
                gone[row] = printable(error)
        if gone and answers.scores is not None:
            n = len(gone)
            none = ClassAnswers(
                model=answers.model,
                kind=answers.kind,
                label=np.full(n, -1, dtype=np.int64),
                scores=np.full((n, answers.scores.shape[1]), np.nan, dtype=np.float32),
                state=np.full(n, State.UNREADABLE, dtype=np.uint8),
                own_label=np.full(n, -1, dtype=np.int32),
                own_confidence=np.full(n, np.nan, dtype=np.float32),
                reasons=dict(enumerate(gone.values())),
            )
            store.write(np.array(list(gone), dtype=np.int64), none)
        return bool(gone)


def _skipping(store: ModelShards, kind: str) -> ClassAnswers:
    """Return the stored answers, with all other frames marked as skipped."""
    found = cast(ClassAnswers, store.read(kind=kind))
    return replace(found, state=np.where(found.state == State.MISSING, State.SKIPPED, found.state).astype(np.uint8))


def _join(total: ModelOutcome, done: ModelOutcome) -> None:
    total.n_new += done.n_new
    total.forward_s += done.forward_s
    total.wall_s += done.wall_s
    total.first_problem = total.first_problem or done.first_problem
    total.error = done.error
    total.spent, total.spent_before = done.spent, done.spent_before


@dataclass(frozen=True, slots=True)
class _Inner:
    """The progress of a round, which is a part of the model's progress."""

    outer: Progress
    tick: Callable[[int], None]

    def task(self, label: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:  # noqa: ARG002 (part of the protocol)
        """Return the model's own task."""
        return nullcontext(self.tick)

    def note(self, text: str) -> None:
        """Print one line."""
        self.outer.note(text)
