"""Which options a remote model takes, which frames it is asked about, and how a command asks it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.early import StoppedEarly
from strobe.annexes.remote.asker import Asking, RemoteAsker
from strobe.annexes.remote.http import check_address
from strobe.annexes.remote.pacing import Budget
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import FrameSource, Progress, SendableSource
from strobe.engine.engine import ModelOutcome
from strobe.engine.forward import Runner
from strobe.engine.loading import inputs_of, source_for
from strobe.engine.prediction import Requests
from strobe.engine.repeating import ask_again
from strobe.engine.running import Running
from strobe.engine.stopping import EarlyStopping
from strobe.engine.views import Crops
from strobe.engine.worker import EngineOptions
from strobe.models.cores import cores
from strobe.models.requested import RequestedModel
from strobe.store.shards import ModelShards


def asking_of(dataset: Dataset, source: FrameSource, workers: int | None, crops: Crops | None) -> Asking:
    """Return the frames of a dataset, ready to be asked about."""
    in_order = not isinstance(source, SendableSource)
    return Asking(
        source=source,
        frame_names=dataset.frames.key.tolist(),
        sources=dataset.videos.video_id[dataset.frames.video].tolist(),
        as_input=inputs_of(dataset, crops),
        engine=EngineOptions(threads=workers or max(2, cores()), chunk=1 if in_order else 4, ahead=16),
    )


def check_remote_options(models: Sequence[RequestedModel], options: Running) -> None:
    """Raise an error for an address with a secret in it, and for an option that no model of the command takes.

    The command and the names of its models are stored, so such an address is refused before anything is written.
    """
    for one in models:
        if one.is_remote:
            check_address(one.spec.partition("@")[2], printable(one.spec.partition("@")[0]))
    given = {
        "limits": (options.limits, "limits"),
        "max_requests": (options.max_requests, "limits"),
        "max_cost": (options.max_cost, "limits"),
        "prompt": (options.prompt, "prompt"),
    }
    for name, (value, setting) in given.items():
        if value is not None and not any(setting in model.known_settings for model in models):
            what = "a vision-language model" if setting == "prompt" else "a model behind an address"
            raise StrobeError(f"<<{name}>> is for {what}, and no model of this command is one; remove <<{name}>>")


class RemoteRequests:
    """The frames and options with which a command asks all its models behind an address. They share one budget."""

    def __init__(
        self,
        dataset: Dataset,
        source: FrameSource,
        options: Running,
        progress: Progress,
        stopping: EarlyStopping | None = None,
    ) -> None:
        self.dataset, self.source, self.options, self.progress = dataset, source, options, progress
        self.stopping, self.budget = stopping, Budget(max_requests=options.max_requests, max_cost=options.max_cost)

    def ask(
        self,
        runner: Runner,
        stores: Mapping[str, ModelShards],
        rows: NDArray[Any],
        times: Mapping[str, int],
        *,
        crops: Crops | None = None,
        outside: NDArray[np.int64] | None = None,
    ) -> tuple[ModelOutcome, StoppedEarly | None]:
        """Ask one model about every frame of `rows` as often as `times` says, and return its statistics."""
        if self.stopping is not None:
            return self._once(runner, stores[runner.name], rows, crops)
        if (n := times[runner.name]) > 1:
            self.progress.note(f"{printable(runner.name)}: every frame is asked {n} times; the next line is for one")

        def over(
            runners: Sequence[Runner], stores: Mapping[str, ModelShards], *, number: int
        ) -> dict[str, ModelOutcome]:
            return {
                runner.name: self._once(runner, stores[runner.name], rows, crops, number - 1)[0] for runner in runners
            }

        outcomes = over([runner], stores, number=1)
        ask_again(over, outcomes, [runner], stores, times, outside)
        return outcomes[runner.name], None

    def _once(
        self, runner: Runner, store: ModelShards, rows: NDArray[Any], crops: Crops | None, attempt: int = 0
    ) -> tuple[ModelOutcome, StoppedEarly | None]:
        """Ask about the rows without an answer, in this process. `attempt` is passed to the model's `ask`."""
        options, progress, stopping = self.options, self.progress, self.stopping
        frames = asking_of(self.dataset, source_for(self.source, EngineOptions(), crops), options.workers, crops)
        try:
            asker = RemoteAsker(runner, store, replace(frames, attempt=attempt), budget=self.budget)
            if stopping is None:
                asker.announce(rows, progress, retry_errors=options.retry_errors)
                return asker.run(rows, progress), None
            plan = stopping.plan
            anchors = np.unique(plan.frame[plan.is_anchor])
            asker.announce(plan.frames_used, progress, retry_errors=options.retry_errors, least=anchors)
            return stopping.run(runner, store, self.source, progress, asker.run, retry=False)
        except StrobeError as error:
            return ModelOutcome(error=str(error)), None


REQUESTS = Requests(check=check_remote_options, start=RemoteRequests)
