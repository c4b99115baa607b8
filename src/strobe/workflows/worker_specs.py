"""Make a worker from its spec in any process: load the models and open the dataset's frames."""

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from typing import Any, NoReturn

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.labels import LabelSpace, Projection
from strobe.core.ports import Classifier, Detector, DeviceSource, FrameSource, Image, Preparation
from strobe.core.projections import projection_between
from strobe.core.records import ModelSpec
from strobe.datasets import folder
from strobe.models.cores import device_kind, quick_source, sharing_cores
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model, sendable
from strobe.predict.crops import Crops
from strobe.predict.engine import EngineOptions, WorkerSpec
from strobe.predict.forward import Runner
from strobe.predict.work import Shard, ShardResult
from strobe.predict.worker import ShardWorker
from strobe.workflows.sources import frame_source

__all__ = ["DescribedModel", "ModelDescriber", "SpecWorker", "inputs_of", "load_runner", "source_for", "worker_spec"]

_NOT_SENT = ("label_space", "progress")
"""Options that each machine determines for itself when it loads the model."""


def worker_spec(
    dataset: Dataset,
    models: Mapping[str, str],
    load: LoadOptions,
    *,
    merge: str,
    engine: EngineOptions,
    crops: Crops | None = None,
    cores: int | None = None,
    any_classes: Iterable[str] = (),
    known: Mapping[str, ModelSpec] | None = None,
    own: Mapping[str, Mapping[str, Any]] | None = None,
) -> WorkerSpec:
    """Return the spec of a worker for these models on a dataset folder. `crops` has the crop of each frame.

    Your Python files are sent with the files that they name. Other files are given by absolute paths. The worker uses
    `cores` cores, None for all. Models in `any_classes` may have none of the dataset's classes. `known` has the specs
    of models that were loaded before, and `own` has the load options in which a model differs from the others.
    """
    if dataset.root is None:
        raise StrobeError(
            f"{printable(dataset.name)} is only in memory, so other processes cannot read it; save it to a folder"
        )
    specs: dict[str, str] = {}
    for name, spec in models.items():
        specs[name], load = sendable(spec, load)
    plain = {field.name: getattr(load, field.name) for field in fields(load) if field.name not in _NOT_SENT}
    return WorkerSpec(
        dataset=dataset.root.resolve(), frames_digest=dataset.frames_digest(), label_space=dataset.info.label_space,
        models=specs, load=plain, merge=merge, engine=engine, crops=crops, cores=cores,
        any_classes=frozenset(any_classes), specs=known or {}, own=own or {},
    )  # fmt: skip


def load_runner(
    name: str,
    spec: str,
    load: LoadOptions,
    label_space: LabelSpace,
    *,
    merge: str,
    live: Callable[[LoadOptions], Classifier | Detector] | None = None,
    any_classes: bool = False,
) -> Runner:
    """Load a model by its spec, or take the model that a program passed, and add the map to the dataset's classes.

    With `any_classes`, the model may have none of these classes.
    """
    options = replace(load, label_space=label_space)
    model = load_model(spec, options) if live is None else live(options)
    if load.backend != "torch" and model.spec.preprocessing.get("backend") != load.backend:
        raise StrobeError(
            f"{printable(name)}: --backend {load.backend} only works with torch classifiers in float32 whose "
            "preprocessing is "
            "resize, crop and normalise; run this model without --backend"
        )
    own_words = hasattr(model, "compile") or "compiled" in model.spec.preprocessing  # such a model prints a note itself
    if load.compile and load.progress is not None and not own_words:
        load.progress.note(
            f"{printable(name)}: it is not compiled, because --compile only works with torch classifiers"
        )
    own = model.spec.label_space
    try:
        projection = projection_between(own, label_space)
    except StrobeError:
        if not any_classes:
            raise
        projection = Projection(source=own, target=label_space, children=((),) * len(label_space))
    return Runner(name=name, model=model, projection=projection, merge=merge, made_on=device_kind(model.device))


def source_for(source: FrameSource, engine: EngineOptions, crops: Crops | None = None) -> FrameSource:
    """Return the frames in the form that the engine reads fastest. They are cropped if requested.

    Decoding processes receive the source itself.
    """
    quick = source if engine.decode.processes or isinstance(source, DeviceSource) else quick_source(source)
    return quick if crops is None else crops.of(quick)


def inputs_of(dataset: Dataset, crops: Crops | None = None) -> list[int]:
    """Return the rows that are already a model's input: those marked in the dataset, and those cropped for it."""
    return np.flatnonzero(dataset.frames.as_input.astype(bool) | (crops is not None)).tolist()


class SpecWorker:
    """A worker that is created on its first call and is pickled as its spec, for executors in other processes.

    Models that this process described before are `kept` by name and are not loaded again.
    """

    def __init__(
        self, recipe: WorkerSpec, *, tick: Callable[[int], None] | None = None, kept: Mapping[str, Runner] | None = None
    ) -> None:
        self.recipe, self._tick, self._kept = recipe, tick, dict(kept or {})
        self._held = ExitStack()
        self._worker: ShardWorker | None = None

    def __reduce__(self) -> tuple[type["SpecWorker"], tuple[WorkerSpec]]:
        return SpecWorker, (self.recipe,)

    def __call__(self, shard: Shard) -> ShardResult:
        """Return the shard's predictions."""
        return self.open()(shard)

    def open(self) -> ShardWorker:
        """Return the worker, created now if needed."""
        if self._worker is None:
            self._worker = self._made()
        return self._worker

    def close(self) -> None:
        """Release threads, processes and cores."""
        self._held.close()
        self._worker = None

    def _made(self) -> ShardWorker:
        recipe = self.recipe
        dataset = _dataset_of(recipe)
        kept, self._kept = self._kept, {}
        runners = [_checked(recipe, kept.get(name) or _runner_of(recipe, name)) for name in recipe.models]
        self._held.enter_context(sharing_cores([runner.model for runner in runners], cores=recipe.cores))
        worker = ShardWorker(
            runners, source_for(frame_source(dataset), recipe.engine, recipe.crops), decode=recipe.engine.decode,
            frame_names=dataset.frames.key.tolist(),
            as_input=inputs_of(dataset, recipe.crops), tick=self._tick,
        )  # fmt: skip
        self._held.callback(worker.close)
        return worker


def _dataset_of(recipe: WorkerSpec) -> Dataset:
    """Return the spec's dataset, opened on this machine."""
    if not folder.is_dataset(recipe.dataset):
        raise StrobeError(
            f"{printable(platform.node())} cannot access the dataset {printable(recipe.dataset)}, which every machine "
            "needs under this path; mount it there, or run without this machine"
        )
    dataset = folder.read(recipe.dataset)
    if dataset.frames_digest() != recipe.frames_digest:
        raise StrobeError(
            f"{printable(recipe.dataset)} changed its frames after the command started; run the command again"
        )
    return dataset


def _runner_of(recipe: WorkerSpec, name: str) -> Runner:
    """Load a model of the spec in this process."""
    return load_runner(
        name, recipe.models[name], LoadOptions(**{**recipe.load, **recipe.own.get(name, {})}), recipe.label_space,
        merge=recipe.merge,
        any_classes=name in recipe.any_classes,
    )  # fmt: skip


def _checked(recipe: WorkerSpec, runner: Runner) -> Runner:
    """Return the model. Raise an error if the model differs from the model that was loaded first."""
    name, meant, here = runner.name, recipe.specs.get(runner.name), runner.model.spec
    if meant is not None and (here.weights, here.preprocessing) != (meant.weights, meant.preprocessing):
        what = "weights" if here.weights != meant.weights else "preprocessing"
        raise StrobeError(
            f"{printable(name)} has other {what} on {printable(platform.node())} than on the machine that loaded it "
            "first; every machine needs the same files and packages"
        )
    return runner


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedModel:
    """The description of a model on another machine, which cannot answer in this process."""

    spec: ModelSpec
    device: str
    lanes: int
    preparation: Preparation | None

    def prepare(self, image: Image) -> NoReturn:  # noqa: ARG002 (part of the protocol)
        """Raise an error, because the model is on another machine."""
        self._elsewhere()

    def prepare_input(self, image: Image) -> NoReturn:  # noqa: ARG002 (part of the protocol)
        """Raise an error, because the model is on another machine."""
        self._elsewhere()

    def forward(self, prepared: Sequence[Any]) -> NoReturn:  # noqa: ARG002 (part of the protocol)
        """Raise an error, because the model is on another machine."""
        self._elsewhere()

    def _elsewhere(self) -> NoReturn:
        raise StrobeError(f"{printable(self.spec.name)} is on another machine and cannot run in this process")


class ModelDescriber:
    """Describes the model of a spec. The calling process loads the model and keeps it in `kept` for a worker."""

    def __init__(self) -> None:
        self.kept: dict[str, Runner] = {}

    def __call__(self, recipe: WorkerSpec) -> tuple[str, DescribedModel | str]:
        """Return the name of the spec's model, and its description or the error if it cannot run."""
        (name,) = recipe.models
        try:
            self.kept[name] = _runner_of(recipe, name)
        except StrobeError as error:
            return name, str(error)
        model = self.kept[name].model
        said = DescribedModel(spec=model.spec, device=model.device, lanes=model.lanes, preparation=model.preparation)
        return name, said
