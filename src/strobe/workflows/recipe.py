"""A worker from its recipe: the models loaded, the dataset's frames opened, in whatever process this is called in."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import fields, replace

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.labels import LabelSpace, Projection
from strobe.core.ports import Classifier, Detector, FrameSource
from strobe.core.projections import projection_between
from strobe.datasets import folder
from strobe.models.cores import quick_source, sharing_cores
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model, sendable
from strobe.predict.crops import Crops
from strobe.predict.engine import EngineOptions, Recipe
from strobe.predict.forward import Runner
from strobe.predict.work import Shard, ShardResult
from strobe.predict.worker import ShardWorker
from strobe.workflows.sources import frame_source

__all__ = ["RecipeWorker", "inputs_of", "load_runner", "source_for", "worker_recipe"]

_NOT_SENT = ("label_space", "progress")
"""Options that are found anew where the model is loaded."""


def worker_recipe(
    dataset: Dataset,
    models: Mapping[str, str],
    load: LoadOptions,
    *,
    merge: str,
    engine: EngineOptions,
    crops: Crops | None = None,
) -> Recipe:
    """The recipe of a worker for these models on a dataset that lies in a folder; `crops` is what they see of it.

    Python files of one's own go along, with what they name beside them; other files are named by absolute paths.
    """
    if dataset.root is None:
        raise StrobeError(f"{printable(dataset.name)} lies in no folder, so no other process can be sent to it")
    specs: dict[str, str] = {}
    for name, spec in models.items():
        specs[name], load = sendable(spec, load)
    plain = {field.name: getattr(load, field.name) for field in fields(load) if field.name not in _NOT_SENT}
    return Recipe(
        dataset=dataset.root.resolve(), frames_digest=dataset.frames_digest(), models=specs, load=plain,
        merge=merge, engine=engine, crops=crops,
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
    """A model, by its spec or from what a program hands over, loaded, with the map to the dataset's classes.

    With `any_classes` it may have none of them.
    """
    options = replace(load, label_space=label_space)
    model = load_model(spec, options) if live is None else live(options)
    if load.backend != "torch" and model.spec.preprocessing.get("backend") != load.backend:
        raise StrobeError(
            f"{printable(name)}: --backend {load.backend} is for torch's classifiers in float32 whose preprocessing is "
            "resize, crop and normalise; run this model without it"
        )
    own = model.spec.label_space
    try:
        way = projection_between(own, label_space)
    except StrobeError:
        if not any_classes:
            raise
        way = Projection(source=own, target=label_space, children=((),) * len(label_space))
    return Runner(name=name, model=model, projection=way, merge=merge)


def source_for(source: FrameSource, engine: EngineOptions, crops: Crops | None = None) -> FrameSource:
    """The frames as the engine reads them quickest: decoding processes take the source itself. Cut to crops, if any."""
    quick = source if engine.decode.processes else quick_source(source)
    return quick if crops is None else crops.of(quick)


def inputs_of(dataset: Dataset, crops: Crops | None = None) -> list[int]:
    """The rows that hold a model's own input: those the dataset marks, and every one that was cut for it."""
    return np.flatnonzero(dataset.frames.as_input.astype(bool) | (crops is not None)).tolist()


class RecipeWorker:
    """A worker that is made where it is first called, and pickles as its recipe: for executors of other processes."""

    def __init__(self, recipe: Recipe, *, tick: Callable[[int], None] | None = None) -> None:
        self.recipe, self._tick = recipe, tick
        self._held = ExitStack()
        self._worker: ShardWorker | None = None

    def __reduce__(self) -> tuple[type["RecipeWorker"], tuple[Recipe]]:
        return RecipeWorker, (self.recipe,)

    def __call__(self, shard: Shard) -> ShardResult:
        """The shard's predictions."""
        if self._worker is None:
            self._worker = self._made()
        return self._worker(shard)

    def close(self) -> None:
        """Let go of threads, processes and cores."""
        self._held.close()
        self._worker = None

    def _made(self) -> ShardWorker:
        recipe = self.recipe
        dataset = folder.read(recipe.dataset)
        if dataset.frames_digest() != recipe.frames_digest:
            raise StrobeError(f"{printable(recipe.dataset)} holds other frames than the work was cut for")
        space = dataset.info.label_space
        runners = [
            load_runner(name, spec, LoadOptions(**recipe.load), space, merge=recipe.merge)
            for name, spec in recipe.models.items()
        ]
        self._held.enter_context(sharing_cores([runner.model for runner in runners], cores=recipe.cores))
        worker = ShardWorker(
            runners, source_for(frame_source(dataset), recipe.engine, recipe.crops), decode=recipe.engine.decode,
            frame_names=dataset.frames.key.tolist(),
            as_input=inputs_of(dataset, recipe.crops), tick=self._tick,
        )  # fmt: skip
        self._held.callback(worker.close)
        return worker
