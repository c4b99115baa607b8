"""Make a worker from its spec in any process: load the models and open the dataset's frames."""

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, expect, printable
from strobe.core.labels import LabelSpace
from strobe.core.ports import FrameSource, Image, Preparation, RemoteModel
from strobe.core.records import ModelSpec
from strobe.engine.engine import RemoteWorkers
from strobe.engine.forward import Runner, Shard, ShardResult
from strobe.engine.loading import inputs_of, load_runner, source_for
from strobe.engine.views import Crops
from strobe.engine.worker import EngineOptions, ShardWorker
from strobe.models.cores import sharing_cores
from strobe.models.options import LoadOptions
from strobe.models.registry import sendable
from strobe.models.requested import RequestedModel
from strobe.store import dataset_folder as folder
from strobe.store.opening import frame_source

if TYPE_CHECKING:
    from strobe.engine.running import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """A worker's definition as plain data: any process that can read the dataset's folder builds the same worker.

    It describes the dataset (its folder, the digest of the requested frames, the classes of the answers), the models,
    and how they are run.

    `models` are specs by name. `load` has the load options of all models, including the device. `own` has, by model
    name, the options that differ. `cores` is the number of threads that the models share; None means all cores. `crops`
    defines the crop of each frame; None means whole frames. Models in `any_classes` need not share a class with the
    dataset. `specs` are the models' specs from their first load, which must match when they are loaded again. The
    definition can be pickled, and has no reference to the object that runs it.
    """

    dataset: Path
    frames_digest: str
    label_space: LabelSpace
    models: Mapping[str, str]
    load: LoadOptions
    merge: str
    engine: EngineOptions
    cores: int | None = None
    crops: Crops | None = None
    any_classes: frozenset[str] = frozenset()
    specs: Mapping[str, ModelSpec] = field(default_factory=dict)
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expect(len(self.models) > 0, "worker spec", "at least one model", 0)
        expect(self.cores is None or self.cores >= 1, "cores", ">= 1", self.cores)


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
    return WorkerSpec(
        dataset=dataset.root.resolve(),
        frames_digest=dataset.frames_digest(),
        label_space=dataset.info.label_space,
        models=specs,
        load=replace(load, label_space=None, progress=None),
        merge=merge,
        engine=engine,
        crops=crops,
        cores=cores,
        any_classes=frozenset(any_classes),
        specs=known or {},
        own=own or {},
    )


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
            runners,
            source_for(frame_source(dataset), recipe.engine, recipe.crops),
            options=recipe.engine,
            frame_names=dataset.frames.key.tolist(),
            as_input=inputs_of(dataset, recipe.crops),
            tick=self._tick,
        )
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
        name,
        recipe.models[name],
        replace(recipe.load, **recipe.own.get(name, {})),
        recipe.label_space,
        merge=recipe.merge,
        any_classes=name in recipe.any_classes,
    )


def _checked(recipe: WorkerSpec, runner: Runner) -> Runner:
    """Return the model. Raise an error if the model differs from the model that was loaded first."""
    name, meant, here = runner.name, recipe.specs.get(runner.name), runner.model.spec
    if meant is not None and (here.weights, here.preprocessing) != (meant.weights, meant.preprocessing):
        what = "weights" if here.weights != meant.weights else "preprocessing"
        raise StrobeError(
            f"{printable(name)} has different {what} on {printable(platform.node())} and on the machine that loaded it "
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
        if isinstance(model, RemoteModel):
            return (
                name,
                f"{printable(name)}: it asks a service; run it with <<engine=local>>, because it needs no cluster",
            )
        described_model = DescribedModel(
            spec=model.spec, device=model.device, lanes=model.lanes, preparation=model.preparation
        )
        return name, described_model


class SentModels:
    """The models of a command on a cluster: their descriptions, and the workers that run them."""

    def __init__(self, dataset: Dataset, cluster: "Cluster", load: LoadOptions, *, merge: str) -> None:
        self._dataset, self._cluster, self._merge = dataset, cluster, merge
        self._load = replace(load, device=cluster.device)

    def loaders(self, models: Sequence[RequestedModel]) -> dict[str, Callable[[LoadOptions], DescribedModel]]:
        """Return a function for each model that returns its description, or raises an error if it cannot run."""
        described: dict[str, DescribedModel | StrobeError] = {}
        specs: dict[str, WorkerSpec] = {}
        for model in models:
            try:
                specs[model.name] = self._spec([model], EngineOptions())
            except StrobeError as error:
                described[model.name] = error
        sent = [model for model in models if model.name in specs]
        names = {model.name: (specs[model.name].models[model.name], model.loaded) for model in sent}
        for name, description in self._cluster.tell(list(specs.values())).items():
            if isinstance(description, str):
                described[name] = StrobeError(description)
            else:  # paths are sent as absolute paths, but the model keeps its local name
                described[name] = replace(
                    description, spec=replace(description.spec, name=description.spec.name.replace(*names[name]))
                )
        return {name: partial(_lent, description) for name, description in described.items()}

    def workers(
        self,
        models: Sequence[RequestedModel],
        how: EngineOptions,
        source: FrameSource,
        *,
        crops: Crops | None,
        known: Mapping[str, ModelSpec],
    ) -> RemoteWorkers:
        """Return the cluster's workers for these models. `known` has the specs of their descriptions."""
        spec = self._spec(models, how, crops=crops, known=known)
        return self._cluster.worker(spec, n_classes=len(self._dataset.info.label_space), source=source)

    def _spec(
        self,
        models: Sequence[RequestedModel],
        how: EngineOptions,
        *,
        crops: Crops | None = None,
        known: Mapping[str, ModelSpec] | None = None,
    ) -> WorkerSpec:
        return worker_spec(
            self._dataset,
            {model.name: model.loaded for model in models},
            self._load,
            merge=self._merge,
            engine=how,
            cores=self._cluster.cores,
            crops=crops,
            any_classes=[model.name for model in models if model.helper],
            known=known,
            own={model.name: model.settings.load_given() for model in models},
        )


def _lent(described: DescribedModel | StrobeError, load: LoadOptions) -> DescribedModel:  # noqa: ARG001 (the signature of all loaders)
    """Return the described model, or raise its error."""
    if isinstance(described, StrobeError):
        raise described
    return described
