"""The training loop: resume, evaluate on held-out data, write checkpoints, and detect the plateau."""

import time
from contextlib import suppress
from typing import Any, Protocol

import numpy as np

from strobe.core.errors import CannotWrite, StrobeError, out_of_memory, printable
from strobe.core.ports import MetricLog, Progress, Silent
from strobe.train.folder import FIGURES, Point, TrainFolder
from strobe.train.optimising import Diverged, Optimisation


class Plateau:
    """Divides the learning rate by ten after `patience` consecutive epochs with too little improvement of the loss."""

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self.best, self.waited = float("inf"), 0

    def factor(self, loss: float) -> float:
        """Return the factor for the learning rate after an epoch with this mean loss.

        >>> plateau = Plateau(1)
        >>> [plateau.factor(loss) for loss in (1.0, 0.5, 0.6, 0.6, 0.4)]
        [1.0, 1.0, 1.0, 0.1, 1.0]
        """
        if loss < self.best * 0.999:
            self.best, self.waited = loss, 0
            return 1.0
        self.waited += 1
        if self.waited <= self._patience:
            return 1.0
        self.waited = 0
        return 0.1


class HeldOutMeasure(Protocol):
    """The evaluation of a model during training, and the names of its figures."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the figures, such as those for the anchors and the worst frames."""

    def measure(self, trainer: Any) -> tuple[float, ...]:
        """Return the figures of the current network."""


def run(
    trainer: Optimisation,
    measured: HeldOutMeasure,
    folder: TrainFolder,
    *,
    evaluations: int,
    checkpoint_s: float,
    progress: Progress,
    log: MetricLog | None = None,
    minutes: float | None = None,
) -> list[Point]:
    """Train to the end, from the checkpoint if there is one. Return the points of the curves.

    `log` is called with each new point. Training stops early after `minutes`, and the last point then records the step.
    A non-finite loss raises a one-line error, and the last checkpoint is kept.
    """
    steps, first = trainer.steps, trainer.processes.is_first
    say: Progress = progress if first else Silent()
    plateau, start, spent = Plateau(trainer.recipe.patience), 0, 0.0
    history: list[Point] = []
    checkpoint = folder.load(device=trainer.device)
    if checkpoint is not None:
        state, history = checkpoint
        trainer.load_state(state)
        start, spent = int(state["step"]), float(state["seconds"])
        plateau.best, plateau.waited = float(state["plateau"][0]), int(state["plateau"][1])
        say.note(f"resuming after step {start} of {steps}")
    begin = saved = time.monotonic()
    done = start
    points = set(np.linspace(0, steps, evaluations + 1).round().astype(int).tolist())

    def seconds() -> float:
        return spent + time.monotonic() - begin

    def save(step: int) -> None:
        more: dict[str, Any] = {"step": step, "seconds": seconds(), "plateau": [plateau.best, plateau.waited]}
        folder.save({**trainer.state(), **more}, history)

    def measure(step: int) -> None:
        point = _measure(trainer, measured, step, seconds(), say)
        history.append(point)
        if log is not None and first:
            log.scalars(_scalars(point), step=step)

    try:
        if checkpoint is None:
            measure(0)
        with say.task(f"{trainer.recipe.name}: steps", steps - start) as advance:
            for step in range(start, steps):
                trainer.step(step)
                done = step + 1
                if done % trainer.steps_per_epoch == 0 and trainer.recipe.schedule == "plateau":
                    trainer.rate_factor *= plateau.factor(trainer.mean_loss(1))
                if done in points:
                    measure(done)
                if first and (time.monotonic() - saved >= checkpoint_s) and done < steps:
                    trainer.check()
                    save(done)
                    saved = time.monotonic()
                advance(1)
                if minutes is not None and done < steps and seconds() > 60 * minutes:
                    say.note(f"stopped after {done} of {steps} steps, because {minutes:g} minutes have passed")
                    if done not in points:
                        measure(done)
                    break
        if first:
            # This checkpoint keeps the progress even if the final files cannot be written. If there is no space for it
            # either, the previous checkpoint is kept, and the remaining writes report the error.
            with suppress(CannotWrite):
                save(done)
    except Diverged as error:
        kept = "the last good checkpoint is kept" if folder.has_checkpoint else "nothing was lost"
        raise Diverged(f"{printable(folder.path)}: {error}; {kept}") from error
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        raise StrobeError(
            f"{printable(folder.path)}: out of memory; split each step with <<set=accumulate=4>>, or use a smaller "
            "batch or <<image_size>>"
        ) from error
    return history


def _measure(trainer: Optimisation, measured: HeldOutMeasure, step: int, seconds: float, say: Progress) -> Point:
    trainer.check()
    values = measured.measure(trainer)
    largest = trainer.mean_largest() if step else None
    loss = trainer.mean_loss(0) if step else None
    epoch = step / trainer.steps_per_epoch
    figures = dict(zip(measured.names, values, strict=True))
    point = Point(
        step=step,
        epoch=epoch,
        seconds=seconds,
        learning_rate=trainer.rate(max(0, step - 1)),
        loss=loss,
        largest_loss=largest,
        **figures,
    )
    last = trainer.steps / trainer.steps_per_epoch
    summary = (
        "before training" if loss is None else f"epoch {round(epoch, 2):.4g} of {round(last, 2):.4g}: loss {loss:.4f}"
    )
    if largest is not None:
        summary += f" (mean of the largest loss of each set, in eval mode: {largest:.4f})"
    told = ", ".join(f"{name} {value:.1%}" for name, value in zip(measured.names, values, strict=True))
    say.note(f"{summary}; held out: {told}")
    return point


def _scalars(point: Point) -> dict[str, float]:
    """Return a point's figures under their names in results.json."""
    names = [*FIGURES, "loss", "largest_loss", "learning_rate", "epoch"]
    found = {name: getattr(point, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}
