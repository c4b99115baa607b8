"""Which options a remote model takes, which frames it is asked about, and how a command asks it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.early import StoppedEarly
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import FrameSource, Progress, SendableSource
from strobe.engine.engine import EngineOptions, ModelOutcome
from strobe.engine.forward import Runner
from strobe.engine.loading import inputs_of, source_for
from strobe.engine.pacing import Budget
from strobe.engine.remote import Asking, RemoteAsker
from strobe.engine.views import Crops
from strobe.engine.worker import DecodeOptions
from strobe.models.cores import cores
from strobe.models.http import check_address
from strobe.models.requested import RequestedModel
from strobe.store.ports import Shards

if TYPE_CHECKING:
    from strobe.engine.prediction import PredictOptions
    from strobe.engine.stopping import EarlyStopping


def asking_of(dataset: Dataset, source: FrameSource, workers: int | None, crops: Crops | None) -> Asking:
    """Return the frames of a dataset, ready to be asked about."""
    in_order = not isinstance(source, SendableSource)
    return Asking(
        source=source,
        frame_names=dataset.frames.key.tolist(),
        sources=dataset.videos.video_id[dataset.frames.video].tolist(),
        as_input=inputs_of(dataset, crops),
        decode=DecodeOptions(threads=workers or max(2, cores()), chunk=1 if in_order else 4, ahead=16),
    )


def check_remote_options(models: Sequence[RequestedModel], options: "PredictOptions") -> None:
    """Raise an error for an address with a secret in it, and for an option that no model of the command takes.

    The command and the names of its models are stored, so such an address is refused before anything is written.
    """
    for one in models:
        if one.is_remote:
            check_address(one.spec.partition("@")[2], printable(one.spec.partition("@")[0]))
    given = {
        "limits": (options.load.limits, "limits"),
        "max_requests": (options.max_requests, "limits"),
        "max_cost": (options.max_cost, "limits"),
        "prompt": (options.load.prompt, "prompt"),
    }
    for name, (value, setting) in given.items():
        if value is not None and not any(setting in one.known_settings for one in models):
            what = "a vision-language model" if setting == "prompt" else "a model behind an address"
            raise StrobeError(f"<<{name}>> is for {what}, and no model of this command is one; remove <<{name}>>")


def ask_model(
    runner: Runner,
    store: Shards,
    source: FrameSource,
    dataset: Dataset,
    rows: NDArray[Any],
    options: "PredictOptions",
    progress: Progress,
    *,
    budget: Budget,
    crops: Crops | None = None,
    stopping: "EarlyStopping | None" = None,
    attempt: int = 0,
) -> tuple[ModelOutcome, StoppedEarly | None]:
    """Ask a model behind an address about the rows without an answer, in this process.

    `attempt` is passed to the model's `ask` (`--repeat`).
    """
    frames = asking_of(dataset, source_for(source, EngineOptions(), crops), options.workers, crops)
    try:
        asker = RemoteAsker(runner, store, replace(frames, attempt=attempt), budget=budget)
        if stopping is None:
            asker.announce(rows, progress, retry_errors=options.retry_errors)
            return asker.run(rows, progress), None
        plan = stopping.plan
        anchors = np.unique(plan.frame[plan.is_anchor])
        asker.announce(plan.frames_used, progress, retry_errors=options.retry_errors, least=anchors)
        return stopping.run(runner, store, source, progress, asker.run, retry=False)
    except StrobeError as error:
        return ModelOutcome(error=str(error)), None
