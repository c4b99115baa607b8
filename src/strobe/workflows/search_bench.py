"""Run searches in this process, or on workers that load the same models from a spec."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import ModelFailed, StrobeError, printable
from strobe.core.labels import LabelSpace, Projection
from strobe.core.ports import Differentiable, Progress, Silent
from strobe.core.records import ModelSpec
from strobe.core.variants import Target
from strobe.engine.engine import away
from strobe.engine.forward import Runner
from strobe.engine.loading import load_runner
from strobe.engine.running import ExecutorOptions, Workers
from strobe.models.gradients import with_gradients
from strobe.models.options import LoadOptions
from strobe.models.registry import sendable
from strobe.models.requested import requested_models

Given = TypeVar("Given")
Result = TypeVar("Result")


class SearchSubject(Protocol):
    """What a search changes in place of stored images, as plain data."""

    def loaded(self, load: LoadOptions) -> Any:
        """Load it. The `spec` of what is returned has its `label_space` and `image_hw`."""

    def sent(self, load: LoadOptions) -> tuple["SearchSubject", LoadOptions]:
        """Return it for another machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpec:
    """The models of a search as plain data: names, how to load them, and the classes to search in.

    The classes are those of a dataset, or of what a subject loads. A model may have none of a subject's classes. The
    caller handles this case.
    """

    models: Mapping[str, str]
    load: LoadOptions
    about: "LabelSpace | SearchSubject"


@contextmanager
def bench_for(
    models: Sequence[str],
    load: LoadOptions,
    about: LabelSpace | SearchSubject,
    engine: ExecutorOptions,
    say: Progress,
) -> Iterator["SearchBench"]:
    """Yield a SearchBench for searches against these models. A prediction file raises an error."""
    requested = requested_models(models, trust=load.trust)
    for one in requested:
        if one.file is not None:
            raise ModelFailed(f"{printable(one.spec)}: a prediction file has no gradients to search with; use a model")
        if one.settings.given:
            raise StrobeError(f"{printable(one.name)}: settings of a row are for strobe eval and predict; remove them")
    specs, load = {one.name: one.spec for one in requested}, load.for_gradients()
    with away(engine, load.device, say) as cluster:
        if cluster is None:
            yield SearchBench(SearchSpec(models=specs, load=load, about=about), say)
        else:
            there = replace(load, device=cluster.device)
            yield SearchBench(SearchSpec(models=specs, load=there, about=about), say, cluster.pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """Facts about a target model of a search, in this process or another."""

    name: str
    spec: ModelSpec
    projection: Projection
    input_hw: tuple[int, int]

    @property
    def target(self) -> Target:
        """The model's name in variants.

        A bundled model has another digest in PyTorch, which searches need, than in ONNX Runtime; its name is enough.
        """
        weights = "" if self.spec.provider == "bundled" and "@" not in self.spec.name else self.spec.weights
        return Target(name=self.name, weights=weights, preprocessing=dict(self.spec.preprocessing))

    @property
    def mapped(self) -> list[int]:
        """The model's classes that map to a class of the dataset. The other classes are never its answer."""
        return sorted({child for group in self.projection.children for child in group})

    def truth(self, labels: Sequence[Sequence[int]]) -> NDArray[np.bool_]:
        """Return which of the mapped classes are right, (N, classes).

        If several of the model's classes map to one class, the best score counts.
        """
        place = {child: column for column, child in enumerate(self.mapped)}
        out = np.zeros((len(labels), len(place)), dtype=bool)
        for row, some in enumerate(labels):
            out[row, [place[child] for label in some for child in self.projection.children[label]]] = True
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetModel:
    """A target model of a search: its facts, its runner, and its gradients."""

    known: TargetFacts
    runner: Runner
    model: Differentiable

    def scores(self, pixels: Any) -> Any:
        """Return the scores of the mapped classes, in nats, with gradients."""
        logits = self.model.input_scores(pixels)
        if self.known.spec.kind == "probabilities":
            logits = logits.clamp_min(1e-30).log()
        mapped = self.known.mapped
        return logits if len(mapped) == logits.shape[1] else logits[:, mapped]


class LoadedSearch:
    """The models and the subject of a spec, each loaded on first use. All jobs of a search share `context`."""

    def __init__(self, recipe: SearchSpec, context: Any, say: Progress) -> None:
        self._recipe, self.context, self.say = recipe, context, say
        self.tell: Callable[[int], None] = lambda _: None
        """A function that receives the progress of a job, in images."""

    @cached_property
    def subject(self) -> Any:
        """What the spec's subject loads; None for the images of a dataset."""
        about = self._recipe.about
        return None if isinstance(about, LabelSpace) else about.loaded(self._recipe.load)

    @cached_property
    def victims(self) -> list[TargetModel]:
        """Return the models in order. Raise an error before any work if a search against one of them is impossible."""
        recipe, about, targets = self._recipe, self._recipe.about, []
        is_stored = isinstance(about, LabelSpace)
        classes: LabelSpace = about if isinstance(about, LabelSpace) else self.subject.spec.label_space
        image_hw = None if is_stored else self.subject.spec.image_hw
        load = replace(recipe.load, progress=recipe.load.progress or self.say)
        for name, spec in recipe.models.items():
            runner = load_runner(name, spec, load, classes, merge="max", any_classes=not is_stored)
            model = with_gradients(runner.model, image_hw=image_hw)
            known = TargetFacts(
                name=name, spec=runner.model.spec, projection=runner.projection, input_hw=model.input_hw or (0, 0)
            )
            targets.append(TargetModel(known=known, runner=runner, model=model))
        return targets


class SearchBench:
    """Runs jobs in this process, or through an executor.

    A job is a function of the loaded models and an item. Jobs and items must be picklable. Results carry
    the index of their item and may arrive in any order.
    """

    def __init__(self, recipe: SearchSpec, say: Progress, executor: Workers | None = None) -> None:
        self._here, self.about = LoadedSearch(recipe, None, say), recipe.about
        self._executor = executor
        self._task = _Task(recipe if executor is None else _sent(recipe), None)
        self.is_here = executor is None

    def know(self, context: Any) -> None:
        """Set the `context` of all following jobs."""
        self._here.context, self._task = context, _Task(self._task.recipe, context)

    def watch(self, tell: Callable[[int], None]) -> None:
        """Report the progress of the current job to `tell`, in images. Jobs in other processes report none."""
        self._here.tell = tell

    def map(self, job: Callable[[LoadedSearch, Given], Result], items: Iterable[Given]) -> Iterator[tuple[int, Result]]:
        """Yield the job's result for each item, with the item's index."""
        if self._executor is None:
            for place, item in enumerate(items):
                yield place, job(self._here, item)
            return
        yield from self._executor.map(self._task, (_WorkItem(index, job, item) for index, item in enumerate(items)))

    def once(self, job: Callable[[LoadedSearch, Given], Result], item: Given) -> Result:
        """Return the job's result for one item."""
        ((_, result),) = self.map(job, [item])
        return result

    def victims(self) -> list[TargetFacts]:
        """Return the facts about the models."""
        return self.once(_known, None)


def _known(loaded: LoadedSearch, _: None) -> list[TargetFacts]:
    return [victim.known for victim in loaded.victims]


class _WorkItem(NamedTuple):
    """A message to a worker: a job and its item, with the item's index."""

    place: int
    job: Callable[[LoadedSearch, Any], Any]
    item: Any

    def __str__(self) -> str:
        return f"part {self.place + 1} of the search"


class _Task:
    """The function on each worker. It loads models there and keeps them from job to job."""

    def __init__(self, recipe: SearchSpec, context: Any) -> None:
        self.recipe, self._context = recipe, context
        self._loaded: LoadedSearch | None = None

    def __reduce__(self) -> tuple[type["_Task"], tuple[SearchSpec, Any]]:
        return _Task, (self.recipe, self._context)

    def __call__(self, part: _WorkItem) -> tuple[int, Any]:
        """Return the item's index and the job's result."""
        if self._loaded is None:
            self._loaded = LoadedSearch(self.recipe, self._context, Silent())
        return part.place, part.job(self._loaded, part.item)


def _sent(recipe: SearchSpec) -> SearchSpec:
    """Return the spec for other machines, with Python files packed and other files by absolute path."""
    load, models, about = replace(recipe.load, progress=None), {}, recipe.about
    for name, spec in recipe.models.items():
        models[name], load = sendable(spec, load)
    if not isinstance(about, LabelSpace):
        about, load = about.sent(load)
    return replace(recipe, models=models, load=load, about=about)
