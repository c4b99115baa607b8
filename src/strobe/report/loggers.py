"""Log figures to TensorBoard and Weights & Biases, each optional and requested by name."""

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strobe.analyses.model_results import ClassificationResult
from strobe.analyses.results import Results
from strobe.core.errors import InvalidValue, StrobeError, UnknownName, printable
from strobe.core.late import require
from strobe.core.ports import MetricLog, Progress

LOGGERS = {"tensorboard": "a folder", "wandb": "a project"}
"""The supported targets, and the meaning of the value after the equals sign."""

Send = Callable[[Mapping[str, float], int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """The origin of figures: `home` is their folder, `name` and `group` identify them, `facts` are their settings."""

    home: Path
    name: str
    group: str
    facts: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Return a unique name that stays the same when the command is repeated."""
        return hashlib.sha256(f"{self.home.absolute()}\0{self.name}".encode()).hexdigest()[:16]


def _parsed(text: str) -> tuple[str, str]:
    kind, _, where = text.partition("=")
    if kind not in LOGGERS:
        raise UnknownName("<<log>> target", kind, LOGGERS, hint="tensorboard[=FOLDER] or wandb[=PROJECT]")
    if "=" in text and not where.strip():
        raise InvalidValue(f"<<log>> {kind}=: give {LOGGERS[kind]} after the =, or omit the =")
    return kind, where


def check_logs(wanted: Sequence[str]) -> None:
    """Raise a StrobeError if a target is unknown or its package is not installed."""
    for text in wanted:
        kind, _ = _parsed(text)
        require(kind, what=f"<<log={kind}>>", extra=kind)


@contextmanager
def opened_logs(wanted: Sequence[str], place: LogPlace, progress: Progress) -> Iterator[MetricLog]:
    """Open all requested targets as one log. Later errors are printed once, and the work continues."""
    with ExitStack() as stack:
        sends = {}
        for text in wanted:
            kind, where = _parsed(text)
            make = _tensorboard if kind == "tensorboard" else _wandb
            sends[text] = stack.enter_context(make(where, place, progress))
        yield _Log(sends, progress)


class _Log:
    """A MetricLog over several targets."""

    def __init__(self, sends: dict[str, Send], progress: Progress) -> None:
        self._sends, self._progress = sends, progress

    def scalars(self, values: Mapping[str, float], *, step: int) -> None:
        """Send the figures to every target. A target that fails receives no further figures."""
        for text, send in list(self._sends.items()):
            try:
                send(values, step)
            except Exception as error:  # a full disk or a lost network must not end a training run
                del self._sends[text]
                self._progress.note(
                    f"--log {text} stopped: {printable(error, limit=200)}; the run continues without it"
                )


@contextmanager
def _tensorboard(where: str, place: LogPlace, progress: Progress) -> Iterator[Send]:  # noqa: ARG001 (all openers')
    """Open an event file in a subfolder of its own, because TensorBoard distinguishes curves by folder."""
    require("tensorboard", what="<<log=tensorboard>>", extra="tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    folder = (Path(where) if where else place.home / "tensorboard") / _folder_name(place.name)
    try:
        writer = EventFileWriter(str(folder))
    except OSError as error:
        raise StrobeError(f"<<log=tensorboard>>: cannot write to {printable(folder)}: {error.strerror}") from error

    def send(values: Mapping[str, float], step: int) -> None:
        found = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        writer.add_event(Event(summary=Summary(value=found), step=step, wall_time=time.time()))
        writer.flush()

    try:
        yield send
    finally:
        writer.close()


def _folder_name(name: str) -> str:
    return re.sub(r"[^\w.+@=-]+", "_", name).strip(".") or "run"


@contextmanager
def _wandb(where: str, place: LogPlace, progress: Progress) -> Iterator[Send]:
    """Open a run of the project, or resume it after an earlier start.

    With WANDB_MODE=offline, the run stays on this machine.
    """
    wandb = require("wandb", what="<<log=wandb>>", extra="wandb")
    try:
        run = wandb.init(
            project=where or "strobe",
            name=place.name,
            group=place.group,
            id=place.key,
            resume="allow",
            config=dict(place.facts),
            dir=str(place.home),
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off"),
        )
    except Exception as error:
        raise StrobeError(
            f"<<log=wandb>>: {printable(error, limit=300)}; log in with wandb login, or set WANDB_MODE=offline"
        ) from error
    if getattr(run, "url", None):
        progress.note(f"wandb: {run.url}")
    try:
        yield lambda values, step: run.log(dict(values), step=step)
    finally:
        run.finish()


def log_results(wanted: Sequence[str], results: Results, run: Path, progress: Progress) -> None:
    """Log every model's headline figures and their bounds at step 0. For a classifier, also log its curve, with acc_pm
    at step k.
    """
    dataset = results.dataset
    for name, model in results.models.items():
        facts = {"dataset": dataset.name, "digest": dataset.digest, "k": dataset.k, "n_sets": dataset.n_sets}
        left_out = {"unlabelled_sets": dataset.unlabelled_sets, "sets_without_votes": dataset.sets_without_votes}
        left_out |= {"unscored_sets": model.unscored.sets}
        facts |= {key: count for key, count in left_out.items() if count}
        measure = "acc" if isinstance(model, ClassificationResult) else "map"
        names = (f"{measure}_orig", f"{measure}_pmk", "drop")
        values: dict[str, float] = {}
        for key, found in zip(names, model.headline, strict=True):
            bounds = {key: found.value, f"{key}_low": found.low, f"{key}_high": found.high}
            values |= {tag: value for tag, value in bounds.items() if value is not None}
        log_place = LogPlace(home=run, name=name, group=run.absolute().name, facts=facts)
        with opened_logs(wanted, log_place, progress) as log:
            curve = model.curve if isinstance(model, ClassificationResult) else ()
            at = {point.k: point.acc.value for point in curve if point.acc.value is not None}
            # One call for each step, because W&B closes a step when the next begins.
            log.scalars({**values, **({"acc_pm": at.pop(0)} if 0 in at else {})}, step=0)
            for k, value in at.items():
                log.scalars({"acc_pm": value}, step=k)
