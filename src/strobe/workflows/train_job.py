"""Code that all trainings share: options, data, folder and steps."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.video_plan import without_cuts
from strobe.core.arrays import Bools, Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.files import cache_folder
from strobe.core.late import require
from strobe.core.ports import FrameSource, MetricLog, Progress, Silent
from strobe.models.cores import cores
from strobe.models.options import LoadOptions, torch_setup
from strobe.models.plan import ImagePlan
from strobe.report.loggers import LogPlace, opened_logs
from strobe.store.opening import Opened, frame_source
from strobe.train.recipe import Recipe
from strobe.workflows.options import TrainOptions
from strobe.workflows.train_card import CARD, WEIGHTS

if TYPE_CHECKING:
    from strobe.engine.decode_pool import DecodePool
    from strobe.engine.reading import FrameMaking, FrameStream
    from strobe.train.folder import Point, TrainFolder
    from strobe.train.loop import HeldOutMeasure
    from strobe.train.optimising import Optimisation
    from strobe.train.pixels import Pixels
    from strobe.train.processes import Processes
    from strobe.train.split import Split
    from strobe.train.streaming import StreamedPixels


_TASK_BYTES = 12 << 20
"""The most bytes of the whole frames that are read in one task."""

_WORTH_PROCESSES = 1000
"""The number of frames that is worth the half second in which processes start."""


def load_options(options: TrainOptions, progress: Progress) -> LoadOptions:
    """Return the options for loading the model."""
    return LoadOptions(
        device="cpu",
        image_size=options.image_size,
        trust=options.trust,
        offline=options.offline,
        settings=options.settings,
        pretrained=not options.from_scratch,
        progress=progress,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """A dataset and the source of its frames."""

    dataset: Dataset
    source: FrameSource

    @classmethod
    def of(cls, path: Path) -> "Material":
        """Open the dataset in a folder, with the sets that its votes keep."""
        dataset = Opened.of(path).dataset
        return cls(dataset=dataset, source=frame_source(dataset))

    def without_cuts(self, say: Progress) -> "Material":
        """Return it without the sets that a scene cut divides, because they show more than one thing."""
        found, cut = without_cuts(self.dataset)
        if found is None:
            raise StrobeError(f"{printable(self.dataset.name)}: a scene cut divides every set, so none is left")
        if cut:
            say.note(f"{cut} set(s) of {printable(self.dataset.name)} are excluded, because a scene cut divides them")
        return replace(self, dataset=found) if cut else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """The result of a training. `model` is its name for all commands, and `k` is the k of acc_pmk on the held-out sets.

    `was_there` is True if the training had already finished.
    """

    model: str
    k: int
    weights: Path
    card: Path
    history: "tuple[Point, ...]"
    seconds: float
    was_there: bool


def places_of(dataset: Dataset, rows: Ints) -> Ints:
    """Return the index among `rows` of each frame of a dataset, (F,), −1 for other frames."""
    places = np.full(len(dataset.frames), -1, dtype=np.int64)
    places[rows] = np.arange(len(rows))
    return places


@contextmanager
def in_training(options: TrainOptions, progress: Progress) -> Iterator[tuple[Progress, "Processes", str]]:
    """Set up the threads, the process group, the device and the printing process of a training."""
    torch = require("torch", what="training", extra="models")
    from strobe.train.processes import joined

    setup = torch_setup(LoadOptions(device=options.device, deterministic=options.deterministic))
    before = torch.get_num_threads()
    torch.set_num_threads(options.threads or before)
    try:
        with joined(setup.device) as (processes, device):
            if options.minutes is not None and processes.count > 1:
                raise StrobeError(
                    "<<minutes>> does not work with several processes, because their clocks differ; train in one "
                    "process, or remove <<minutes>>"
                )
            yield progress if processes.is_first else Silent(), processes, device
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """One training in one of its processes, with the code that all kinds of networks share."""

    recipe: Recipe
    material: Material | None
    held_out: Material | None
    model: str
    out: Path
    options: TrainOptions
    say: Progress
    processes: "Processes"
    device: str
    begin: float = field(default_factory=time.monotonic)
    in_use: list[int] = field(default_factory=list)
    """The sizes of the scratch files that this training reads."""
    streams: "list[FrameStream]" = field(default_factory=list)
    """The frames that this training reads ahead."""
    pools: "list[DecodePool]" = field(default_factory=list)
    """The processes that read them, if there are any."""

    @classmethod
    def train(
        cls,
        recipe: Recipe,
        material: Material | None,
        model: str,
        out: Path,
        options: TrainOptions,
        progress: Progress,
        *,
        held_out: Material | None = None,
    ) -> Trained:
        """Train a network by a recipe. Calling it again resumes, or returns the finished training."""
        with in_training(options, progress) as (say, processes, device):
            return cls(recipe, material, held_out, model, out, options, say, processes, device).run()

    def run(self) -> Trained:
        """Run the training: load the data and the start, run the steps, write the files."""
        raise NotImplementedError

    @property
    def precision(self) -> str:
        """The number type of the training steps."""
        if self.options.precision != "auto":
            return self.options.precision
        return "bfloat16" if self.device.startswith("cuda") else "float32"

    def sides(self, dataset: Dataset, *, multi_label: bool, least_classes: int = 1) -> "Split":
        """Return the training part and the held-out part of the dataset."""
        from strobe.train.split import sides_of

        held = None if self.held_out is None else self.held_out.dataset
        return sides_of(
            dataset,
            held,
            share=self.options.held_share,
            seed=self.options.seed,
            multi_label=multi_label,
            least_classes=least_classes,
            say=self.say,
        )

    def sides_without_labels(self, dataset: Dataset) -> "Split":
        """Return the training part and the held-out part of a dataset without reading a label."""
        from strobe.train.split import sides_without_labels

        held = None if self.held_out is None else self.held_out.dataset
        return sides_without_labels(dataset, held, share=self.options.held_share, seed=self.options.seed, say=self.say)

    def data_facts(self, dataset: Dataset, split: "Split") -> dict[str, Any]:
        """Return the facts about the data that determine the weights."""
        held = None if self.held_out is None else self.held_out.dataset.digest()
        return {"dataset": dataset.digest(), "held_out": held, "split": split.digest(dataset)}

    def pixels(self, material: Material, plan: ImagePlan) -> "tuple[Pixels | StreamedPixels, Ints]":
        """Return the frames of a dataset prepared for a network, and the index of each frame in them."""
        from strobe.engine.reading import FrameMaking

        dataset, least_area = material.dataset, self.recipe.crop_area
        rows = np.unique(dataset.sets.frame)
        # A probe stores its features alone, and a resized crop needs the whole image.
        stores = self.recipe.trains != "head" and not least_area
        making, ready = FrameMaking(plan, least_area), dataset.frames.as_input
        found = self.prepared(
            material, rows, making, size_hw=plan.size_hw, facts=plan.to_json(), ready=ready, stores=stores
        )
        return found, places_of(dataset, rows)

    def prepared(
        self,
        material: Material,
        rows: Ints,
        making: "FrameMaking",
        *,
        size_hw: tuple[int, int],
        facts: Mapping[str, Any],
        ready: Bools | None = None,
        stores: bool = True,
    ) -> "Pixels | StreamedPixels":
        """Return these frames, prepared to one size. They are read once for all processes if they fit in the scratch
        file.

        `facts` contains everything that affects the prepared pixels.
        """
        from strobe.train.pixels import Pixels, prepared
        from strobe.train.streaming import StreamedPixels, parts_ahead

        count, n_bytes = len(rows), 3 * size_hw[0] * size_hw[1]
        stored, sizes = stores and self.stores(count, n_bytes * count), np.broadcast_to(np.int64(n_bytes), count)
        stream = self.stream(material, rows, making, sizes, ready=ready, once=stored)
        streamed = StreamedPixels(stream, count, size_hw, device=self.device)
        if not stored:
            return streamed

        def fill(table: NDArray[np.uint8]) -> None:
            with self.say.task("frames prepared", count) as advance:
                for start, places in parts_ahead(stream, np.arange(count), stream.at_once):
                    table[start : start + len(places)] = streamed.take(places).permute(0, 2, 3, 1).cpu().numpy()
                    advance(len(places))

        table = self.processes.first_then_all(
            lambda: prepared(
                material.dataset,
                rows,
                fill,
                size_hw=size_hw,
                facts=facts,
                folder=self.scratch,
                most_bytes=self.most_bytes,
            )
        )
        return Pixels(table, device=self.device)

    def stream(
        self,
        material: Material,
        rows: Ints,
        making: "FrameMaking",
        n_bytes: Ints,
        *,
        ready: Bools | None = None,
        few: bool = False,
        once: bool = False,
    ) -> "FrameStream":
        """Return these frames as the steps read them: by a GPU's engines, by processes or, if neither can, on threads.

        If they are large, a `few` may wait in the GPU's memory. On a CPU, processes are not worth their start for few
        frames, or for frames that are read `once`.
        """
        from strobe.engine.loading import opened_frames, reading_processes
        from strobe.engine.reading import TOGETHER, FrameStream, processes_for_training

        frames, source, workers = material.dataset.frames, material.source, max(1, cores() // self.processes.count)
        if self.device != "cpu":
            source = opened_frames(self.device, source, material.dataset, few=few).noted(self.say)
        worth = self.device != "cpu" or (len(rows) >= _WORTH_PROCESSES and not once)
        if worth and not self.pools and (processes := reading_processes(source, workers, workers, least=2)):
            self.pools.append(processes_for_training(processes))
        pool = self.pools[0] if self.pools and worth else None
        largest = 3 * int((frames.height.astype(np.int64) * frames.width).max(initial=0))
        stream = FrameStream(
            source,
            making,
            rows,
            n_bytes,
            device=self.device,
            ready=ready,
            pool=pool,
            workers=workers,
            together=max(1, min(TOGETHER, _TASK_BYTES // max(1, largest))),
        )
        self.streams.append(stream)
        return stream

    def close(self) -> None:
        """End everything that reads frames."""
        for stream in self.streams:
            stream.close()
        for pool in self.pools:
            pool.close()

    def stores(self, count: int, n_bytes: int) -> bool:
        """Return whether this many frames fit in the scratch files next to those in use, and count them as in use."""
        if sum(self.in_use) + n_bytes > self.most_bytes:
            self.say.note(f"{count:,} frames need {n_bytes / 1e9:.1f} GB, so they are read during the training")
            return False
        self.in_use.append(n_bytes)
        return True

    @property
    def scratch(self) -> Path:
        """The folder of scratch files."""
        return cache_folder() / "frames"

    @property
    def most_bytes(self) -> int:
        """The largest size of all scratch files."""
        return int(self.options.cache_gb * 1e9)

    @contextmanager
    def opened(self, facts: Mapping[str, Any]) -> "Iterator[tuple[TrainFolder, bool]]":
        """Return the folder of the training that `facts` identify, locked for its processes, and whether it is done."""
        from strobe.train.folder import TrainFolder

        folder = TrainFolder(self.out, facts)
        try:
            with folder.held() if self.processes.is_first else nullcontext():
                yield folder, self.processes.first_then_all(folder.is_done)
        finally:
            self.close()

    def steps(
        self, folder: "TrainFolder", files: Mapping[str, str], trainer: "Optimisation", measured: "HeldOutMeasure"
    ) -> "list[Point]":
        """Run all steps, from the checkpoint if there is one, and return the points of the curves.

        `files` are stored with each checkpoint.
        """
        from strobe.train.loop import run

        if self.processes.is_first:
            folder.begin(files)
        with self._logs(folder) as log:
            return run(
                trainer,
                measured,
                folder,
                evaluations=self.options.evaluations,
                checkpoint_s=self.options.checkpoint_s,
                minutes=self.options.minutes,
                progress=self.say,
                log=log,
            )

    def _logs(self, folder: "TrainFolder") -> AbstractContextManager[MetricLog | None]:
        """Return the loggers of the curves. Only one process logs, and only on request."""
        if not self.options.log or not self.processes.is_first:
            return nullcontext()
        facts = {"model": self.model, **folder.facts}
        log_place = LogPlace(home=folder.path, name=folder.path.absolute().name, group="strobe train", facts=facts)
        return opened_logs(self.options.log, log_place, self.say)

    def trained(self, model: str, k: int, history: "Sequence[Point]", *, was_there: bool) -> Trained:
        """Return the result of the training, with this model name."""
        return Trained(
            model=model,
            k=k,
            weights=self.weights,
            card=self.out / CARD,
            history=tuple(history),
            seconds=time.monotonic() - self.begin,
            was_there=was_there,
        )

    @property
    def weights(self) -> Path:
        """The path of the final weights."""
        return self.out / WEIGHTS
