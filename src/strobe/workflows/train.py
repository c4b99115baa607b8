"""`strobe train`: a model, a dataset and a recipe; a folder with weights any other verb can use."""

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from strobe.core.answers import ClassAnswers
from strobe.core.arrays import Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, expect, printable
from strobe.core.files import cache_folder
from strobe.core.late import require
from strobe.core.ports import FrameSource, Image, MetricLog, Progress, Silent
from strobe.models.options import LoadOptions, default_batch, torch_setup
from strobe.models.plan import ImagePlan
from strobe.report.loggers import LogPlace, check_logs, opened_logs
from strobe.train.recipe import Recipe
from strobe.workflows.opening import Opened
from strobe.workflows.sources import frame_source
from strobe.workflows.train_card import CARD, WEIGHTS, About, began, finish, trained_on

if TYPE_CHECKING:
    from strobe.models.trainable import Backbone, Start
    from strobe.train.folder import Point, TrainFolder
    from strobe.train.loop import Measured
    from strobe.train.pixels import Pixels
    from strobe.train.probe import Features
    from strobe.train.processes import Processes
    from strobe.train.sets import TrainingSets
    from strobe.train.split import Split
    from strobe.train.trainer import Hooks, Normal, Trainer

__all__ = ["Material", "TrainOptions", "Trained", "hooks_of", "in_training", "logging_to", "pixels_of", "train"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """How to run a training; none of it but seed, image size, share and precision changes what is learnt.

    `precision` auto is bfloat16 on CUDA and float32 elsewhere, where the worst of a set is only chosen in bfloat16 if
    the processor has it; float32 is float32 throughout. `held_share` of the sources are held out where no dataset is
    given for it. `from_scratch` starts from random weights. `evaluations` of the held-out side are spread over the
    training. A checkpoint is written every `checkpoint_s` seconds. `minutes` ends a training that takes longer, with
    the weights as they are then. `cache_gb` bounds the prepared frames kept on disk. `threads` are torch's on a CPU.
    `log` names where the curves go too: tensorboard[=FOLDER], wandb[=PROJECT].
    """

    seed: int = 0
    device: str = "auto"
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    image_size: int | None = None
    held_share: float = 0.2
    from_scratch: bool = False
    evaluations: int = 10
    checkpoint_s: float = 60.0
    minutes: float | None = None
    cache_gb: float = 16.0
    threads: int | None = None
    deterministic: bool = False
    trust: bool = False
    offline: bool = False
    settings: Path | None = None
    log: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        expect(self.seed >= 0, "seed", ">= 0", self.seed)
        expect(0 < self.held_share < 1, "held-out share", "above 0 and below 1", self.held_share)
        expect(1 <= self.evaluations <= 100_000, "evaluations", "1 to 100,000", self.evaluations)
        expect(self.checkpoint_s >= 0, "checkpoint-s", ">= 0", self.checkpoint_s)
        expect(self.minutes is None or self.minutes > 0, "minutes", "above 0", self.minutes)
        expect(self.cache_gb > 0, "cache-gb", "above 0", self.cache_gb)
        expect(self.threads is None or self.threads >= 1, "threads", ">= 1", self.threads)
        expect(
            self.precision in ("auto", "float32", "bfloat16"), "precision", "auto, float32 or bfloat16", self.precision
        )
        check_logs(self.log)

    def loading(self, progress: Progress) -> LoadOptions:
        """The same for who loads the model."""
        return LoadOptions(
            device="cpu", image_size=self.image_size, trust=self.trust, offline=self.offline, settings=self.settings,
            pretrained=not self.from_scratch, progress=progress,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """A dataset and where its frames come from."""

    dataset: Dataset
    source: FrameSource

    @classmethod
    def of(cls, path: Path) -> "Material":
        """The dataset in a folder: what its votes keep."""
        dataset = Opened.of(path).dataset
        return cls(dataset=dataset, source=frame_source(dataset))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """What came of it. `model` is its name for every other verb; `k` is that of the held-out sets' acc_pmk.

    `was_there` says that it was finished before.
    """

    model: str
    k: int
    weights: Path
    card: Path
    history: "tuple[Point, ...]"
    seconds: float
    was_there: bool


def train(
    recipe: Recipe,
    material: Material,
    model: str,
    out: Path,
    options: TrainOptions,
    progress: Progress,
    *,
    held_out: Material | None = None,
) -> Trained:
    """Train a classifier by a recipe; the same call again goes on where it was, or says that it is done."""
    with in_training(options, progress) as (say, processes, device):
        return _Job(recipe, material, held_out, model, out, options, say, processes, device).run()


@contextmanager
def in_training(options: TrainOptions, progress: Progress) -> Iterator[tuple[Progress, "Processes", str]]:
    """Threads and processes of a training: who may speak, the processes that share it, and this one's device."""
    torch = require("torch", what="training", extra="models")
    from strobe.train.processes import joined

    setup = torch_setup(LoadOptions(device=options.device, deterministic=options.deterministic))
    before = torch.get_num_threads()
    torch.set_num_threads(options.threads or before)
    try:
        with joined(setup.device) as (processes, device):
            if options.minutes is not None and processes.count > 1:
                raise StrobeError("--minutes: clocks of several processes differ; train in one, or leave it out")
            yield progress if processes.is_first else Silent(), processes, device
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True, slots=True)
class _Job:
    """One training, in one of the processes that share it."""

    recipe: Recipe
    material: Material
    held_out: Material | None
    model: str
    out: Path
    options: TrainOptions
    say: Progress
    processes: "Processes"
    device: str

    def run(self) -> Trained:
        """Everything: the split, the start, the pixels, the steps, the files."""
        from strobe.models.trainable import backbone_of, start_of
        from strobe.train.folder import TrainFolder
        from strobe.train.loop import run

        begin, options, space = time.monotonic(), self.options, self.material.dataset.info.label_space
        split = self._split()
        load = backbone_of if self.recipe.trains == "head" else start_of
        start = self.processes.first_then_all(
            lambda: load(self.model, space, options.loading(self.say), seed=options.seed)
        )
        folder = TrainFolder(self.out, self._facts(split, start))
        with folder.held() if self.processes.is_first else nullcontext():
            if self.processes.first_then_all(folder.is_done):
                return self._trained(folder, start, folder.history(), begin, was_there=True)
            trainer, measured = self._trainer(split, start)
            if self.processes.is_first:
                folder.begin(split.files(self.material.dataset))
            with logging_to(options.log, folder, self.model, self.say, self.processes) as log:
                history = run(
                    trainer, measured, folder, evaluations=options.evaluations, checkpoint_s=options.checkpoint_s,
                    minutes=options.minutes, progress=self.say, log=log,
                )  # fmt: skip
            predicted = measured.predicted(trainer)  # by all processes together
            if self.processes.is_first:
                about = self._about(folder, start, split, measured, predicted)
                finish(folder, history, about, lambda path, told: self._write(path, told, trainer.result, start))
        return self._trained(folder, start, history, begin, was_there=False)

    def _split(self) -> "Split":
        from strobe.train.split import sides_of

        held = None if self.held_out is None else self.held_out.dataset
        return sides_of(
            self.material.dataset, held, share=self.options.held_share, seed=self.options.seed,
            multi_label=self.recipe.multi_label, say=self.say,
        )  # fmt: skip

    def _facts(self, split: "Split", start: "Start") -> dict[str, Any]:
        """All that the weights follow from."""
        dataset, held = self.material.dataset, self.held_out
        return {
            "model": start.name,
            "recipe": self.recipe.settings(),
            "seed": self.options.seed,
            "start": start.weights,
            "new_head": start.new_head,
            "dataset": dataset.digest(),
            "held_out": None if held is None else held.dataset.digest(),
            "split": split.digest(dataset),
            "preprocessing": start.plan.to_json(),
            "precision": self._precision,
            "scoring": self._scoring,
        }

    @property
    def _precision(self) -> str:
        if self.options.precision != "auto":
            return self.options.precision
        return "bfloat16" if self.device.startswith("cuda") else "float32"

    @property
    def _scoring(self) -> str | None:
        """The number type in which members of a set are told apart, where a recipe does that."""
        from strobe.train.trainer import quick_precision

        if not self.recipe.takes_sets:
            return None
        return quick_precision(self.device, self._precision) if self.options.precision == "auto" else self._precision

    def _trainer(self, split: "Split", start: "Start") -> "tuple[Trainer, Measured]":
        from strobe.models.trainable import Backbone
        from strobe.train.loop import Measured
        from strobe.train.probe import Probe
        from strobe.train.sets import HeldOut, TrainingSets
        from strobe.train.trainer import Normal

        recipe, plan, dataset = self.recipe, start.plan, self.material.dataset
        hooks = hooks_of(recipe)
        pixels, places = self._pixels(self.material, plan)
        sets = TrainingSets.of(
            dataset, split.training, places, k=recipe.k, multi_label=recipe.multi_label,
            which="matching" if recipe.takes_sets else "labelled",
        )  # fmt: skip
        alone = int((sets.lengths == 1).sum())
        if recipe.takes_sets and alone:
            if alone == len(sets):
                raise StrobeError(
                    f"{printable(dataset.name)}: every set has one frame only, so {recipe.name} has no worst to "
                    "choose; use the recipe stills"
                )
            self.say.note(f"{alone} of {len(sets)} sets have one frame only")
        shown, shown_places = (pixels, places) if self.held_out is None else self._pixels(self.held_out, plan)
        held = HeldOut.of((self.held_out or self.material).dataset, split.held_out, shown_places)
        normal, module = Normal(plan.divide, plan.mean, plan.std), start.module
        if not isinstance(start, Backbone):
            trainer = self._around(module, sets, pixels, normal, hooks)
            return trainer, Measured(held, shown)
        module.to(self.device).eval()
        known = self._features(self.material, start, pixels, normal)
        seen = known if self.held_out is None else self._features(self.held_out, start, shown, normal)
        probe = Probe(*known.spread(np.unique(sets.pixel)), len(dataset.info.label_space))
        return self._around(probe, sets, known, None, hooks), Measured(held, seen)

    def _around(
        self, module: Any, sets: "TrainingSets", pixels: "Pixels | Features", normal: "Normal | None", hooks: "Hooks"
    ) -> "Trainer":
        from strobe.train.trainer import Trainer

        return Trainer(
            module, self.recipe, sets, pixels, normal, seed=self.options.seed, precision=self._precision,
            scoring=self._scoring, processes=self.processes, hooks=hooks,
        )  # fmt: skip

    def _features(self, material: Material, start: "Backbone", pixels: "Pixels", normal: "Normal") -> "Features":
        """What the network makes of every prepared frame, made once."""
        import torch

        from strobe.train.pixels import kept_table
        from strobe.train.probe import Features, fill_features

        prepare, dataset = normal.on(self.device), material.dataset

        def features(images: Any) -> Any:
            return start.features(prepare(images))

        with torch.inference_mode():
            width = int(features(pixels.take(np.zeros(1, dtype=np.int64))).shape[1])
        batch = default_batch(sum(one.numel() for one in start.module.parameters()), device=self.device)
        rows = hashlib.sha256(np.unique(dataset.sets.frame).tobytes()).hexdigest()
        device = self.device.partition(":")[0]
        names = ["features", dataset.frames_digest(), rows, start.plan.to_json(), start.weights, device]
        table = self.processes.first_then_all(
            lambda: kept_table(
                cache_folder() / "frames", names, (len(pixels), width), np.float32,
                lambda table: fill_features(table, pixels, features, batch=batch, progress=self.say),
                most_bytes=int(self.options.cache_gb * 1e9),
            )
        )  # fmt: skip
        return Features(table, device=self.device)

    def _pixels(self, material: Material, plan: ImagePlan) -> "tuple[Pixels, Ints]":
        return pixels_of(material, plan, self.options, self.say, self.processes, self.device)

    def _write(self, path: Path, told: Mapping[str, Any], module: Any, start: "Start") -> None:
        from strobe.models.header import write_weights
        from strobe.models.trainable import Backbone

        state = start.with_head(*module.folded()) if isinstance(start, Backbone) else module.state_dict()
        space = self.material.dataset.info.label_space
        write_weights(path, state, label_space=space, plan=start.plan, training=told)

    def _about(
        self, folder: "TrainFolder", start: "Start", split: "Split", measured: "Measured", predicted: Ints
    ) -> About:
        from strobe.analyses.classification import ScoreOptions, score
        from strobe.analyses.variants_view import overall

        held, dataset = measured.held, self.material.dataset
        label = np.full(len(held.dataset.frames), -1, dtype=np.int64)
        label[held.frames] = predicted
        part = held.dataset.keep_rows(np.isin(held.dataset.sets.set, held.sets))
        answers = ClassAnswers.from_labels(self.recipe.name, label, scored=label >= 0)
        found = score(overall(part), answers, options=ScoreOptions())
        return About(
            recipe=self.recipe,
            name=start.name,
            written=start.written(folder.path / WEIGHTS),
            start=began(self.model, start.weights, is_random=start.is_random, new_head=start.new_head),
            knew=not (start.is_random or start.new_head),
            classes=dataset.info.label_space,
            trained_on=trained_on(dataset, len(split.training)),
            held_out=part,
            is_part=self.held_out is None,
            names=measured.names,
            scored=(found.acc_orig, found.acc_pmk, found.drop),
            device=self.device,
            processes=self.processes.count,
        )

    def _trained(
        self, folder: "TrainFolder", start: "Start", history: "Sequence[Point]", begin: float, *, was_there: bool
    ) -> Trained:
        weights = folder.path / WEIGHTS
        return Trained(
            model=start.written(weights), k=(self.held_out or self.material).dataset.info.k, weights=weights,
            card=folder.path / CARD, history=tuple(history), seconds=time.monotonic() - begin, was_there=was_there,
        )  # fmt: skip


def logging_to(
    wanted: Sequence[str], folder: "TrainFolder", model: str, progress: Progress, processes: "Processes"
) -> AbstractContextManager[MetricLog | None]:
    """Where the curves of a training go beside its folder: nowhere, unless asked for, and by one process alone."""
    if not wanted or not processes.is_first:
        return nullcontext()
    facts = {"model": model, **folder.facts}
    place = LogPlace(home=folder.path, name=folder.path.absolute().name, group="strobe train", facts=facts)
    return opened_logs(wanted, place, progress)


def pixels_of(
    material: Material, plan: ImagePlan, options: TrainOptions, say: Progress, processes: "Processes", device: str
) -> "tuple[Pixels, Ints]":
    """The prepared frames of a dataset, and the place of each frame among them."""
    from strobe.train.pixels import Pixels, prepared

    dataset, source = material.dataset, material.source
    rows = np.unique(dataset.sets.frame)
    ready = dataset.frames.as_input

    def read(row: int) -> Image:
        image = source.read(row)
        return plan.prepare_input(image) if ready[row] else plan.prepare(image)

    table = processes.first_then_all(
        lambda: prepared(
            dataset, rows, read, size_hw=plan.size_hw, facts=plan.to_json(), folder=cache_folder() / "frames",
            most_bytes=int(options.cache_gb * 1e9), progress=say,
        )
    )  # fmt: skip
    places = np.full(len(dataset.frames), -1, dtype=np.int64)
    places[rows] = np.arange(len(rows))
    return Pixels(table, device=device), places


def hooks_of(recipe: Recipe) -> "Hooks":
    """What other rooms lend to a recipe: a corruption, an attack."""
    from strobe.train.trainer import Hooks
    from strobe.vary.corruptions import chosen, corrupt
    from strobe.vary.pgd import perturbed

    if recipe.corruption:
        kinds = chosen(recipe.corruption.split(","))

        def corrupted(image: Image, severity: int, rng: np.random.Generator) -> Image:
            return corrupt(image, kinds[int(rng.integers(len(kinds)))], severity, rng)

        return Hooks(corrupt=corrupted)
    if recipe.eps:

        def attacked(scores: Any, pixels: Any, labels: Any, eps: float, steps: int, generator: Any) -> Any:
            return perturbed(scores, pixels, labels, eps=eps, norm=recipe.norm, steps=steps, generator=generator)

        return Hooks(attack=attacked)
    return Hooks()
