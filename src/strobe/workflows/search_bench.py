"""Where searches are carried out: by models loaded here, or by workers elsewhere that load the same from a recipe."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import ModelFailed, printable
from strobe.core.generators import GeneratorSpec
from strobe.core.labels import LabelSpace, Projection
from strobe.core.ports import Differentiable, Executor, LayeredGenerator, Progress, Silent
from strobe.core.records import ModelSpec
from strobe.core.variants import Target
from strobe.models.gradients import with_gradients
from strobe.models.options import LoadOptions
from strobe.models.registry import sendable
from strobe.models.requested import requested_models
from strobe.predict.forward import Runner
from strobe.workflows.engines import ExecutorOptions, away
from strobe.workflows.generators import load_generator, sendable_generator
from strobe.workflows.worker_specs import load_runner

__all__ = ["LoadedSearch", "SearchBench", "SearchSpec", "TargetFacts", "TargetModel", "bench_for"]

Given = TypeVar("Given")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSpec:
    """What is searched with, as plain data: models by name, how they are loaded, and what they are asked about.

    That is the classes of a dataset, or a generator by its name, whose images are of classes of its own: a model may
    have none of these, and who asked says what to do.
    """

    models: Mapping[str, str]
    load: LoadOptions
    about: LabelSpace | str


@contextmanager
def bench_for(
    models: Sequence[str], load: LoadOptions, about: LabelSpace | str, engine: ExecutorOptions, say: Progress
) -> Iterator["SearchBench"]:
    """A bench for a search against these models; predictions in a file cannot be searched against."""
    found = requested_models(models, trust=load.trust)
    for one in found:
        if one.file is not None:
            raise ModelFailed(f"{printable(one.spec)}: a model without gradients: predictions in a file")
    specs = {one.name: one.spec for one in found}
    with away(engine, load.device, say) as cluster:
        if cluster is None:
            yield SearchBench(SearchSpec(models=specs, load=load, about=about), say)
        else:
            there = replace(load, device=cluster.device)
            yield SearchBench(SearchSpec(models=specs, load=there, about=about), say, cluster.pool)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """What is known of a model that is searched against, wherever it lies."""

    name: str
    spec: ModelSpec
    projection: Projection
    input_hw: tuple[int, int]

    @property
    def target(self) -> Target:
        """What variants call it."""
        return Target(name=self.name, weights=self.spec.weights, preprocessing=dict(self.spec.preprocessing))

    @property
    def mapped(self) -> list[int]:
        """The model's classes that mean one of the dataset's; the others are never its answer."""
        return sorted({child for group in self.projection.children for child in group})

    def truth(self, labels: Sequence[Sequence[int]]) -> NDArray[np.bool_]:
        """Which of those classes are right, (N, classes); the largest child of a class answers for it."""
        place = {child: column for column, child in enumerate(self.mapped)}
        out = np.zeros((len(labels), len(place)), dtype=bool)
        for row, some in enumerate(labels):
            out[row, [place[child] for label in some for child in self.projection.children[label]]] = True
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetModel:
    """A model that is searched against: what is known of it, as the engine runs it, and with its gradients."""

    known: TargetFacts
    runner: Runner
    model: Differentiable

    def scores(self, pixels: Any) -> Any:
        """Scores of the classes that count, in nats, with gradients."""
        found = self.model.input_scores(pixels)
        if self.known.spec.kind == "probabilities":
            found = found.clamp_min(1e-30).log()
        mapped = self.known.mapped
        return found if len(mapped) == found.shape[1] else found[:, mapped]


class LoadedSearch:
    """A recipe's models and generator, each loaded when it is first asked for; `context` is what a search goes by."""

    def __init__(self, recipe: SearchSpec, context: Any, say: Progress) -> None:
        self._recipe, self.context, self.say = recipe, context, say
        self.tell: Callable[[int], None] = lambda _: None
        """Hears how many pictures' worth of a job's work is done."""

    @cached_property
    def generator(self) -> LayeredGenerator:
        """The generator."""
        return load_generator(str(self._recipe.about), self._recipe.load)

    @cached_property
    def victims(self) -> list[TargetModel]:
        """The models in order; one that cannot be searched against ends it, before any work is done."""
        recipe, about, found = self._recipe, self._recipe.about, []
        classes = about if isinstance(about, LabelSpace) else self.generator.spec.label_space
        load = replace(recipe.load, progress=recipe.load.progress or self.say)
        for name, spec in recipe.models.items():
            runner = load_runner(name, spec, load, classes, merge="max", any_classes=isinstance(about, str))
            model = with_gradients(runner.model)
            known = TargetFacts(
                name=name, spec=runner.model.spec, projection=runner.projection, input_hw=model.input_hw or (0, 0)
            )
            found.append(TargetModel(known=known, runner=runner, model=model))
        return found


class SearchBench:
    """Carries out jobs, functions of what is loaded and of an item: here, or through an executor of other processes.

    Jobs and items pickle; what comes back has its place among the items, in any order.
    """

    def __init__(self, recipe: SearchSpec, say: Progress, executor: Executor | None = None) -> None:
        self._here, self._about = LoadedSearch(recipe, None, say), recipe.about
        self._executor = executor
        self._task = _Task(recipe if executor is None else _sent(recipe), None)
        self.is_here = executor is None

    def know(self, context: Any) -> None:
        """Let all jobs from here on have this as `context`."""
        self._here.context, self._task = context, _Task(self._task.recipe, context)

    def watch(self, tell: Callable[[int], None]) -> None:
        """Let `tell` hear how many pictures' worth of the job under way is done; of jobs elsewhere nothing is heard."""
        self._here.tell = tell

    def map(self, job: Callable[[LoadedSearch, Given], Result], items: Iterable[Given]) -> Iterator[tuple[int, Result]]:
        """What the job makes of each item, with the item's place."""
        if self._executor is None:
            for place, item in enumerate(items):
                yield place, job(self._here, item)
            return
        yield from self._executor.map(self._task, (_WorkItem(place, job, item) for place, item in enumerate(items)))

    def once(self, job: Callable[[LoadedSearch, Given], Result], item: Given) -> Result:
        """What the job makes of one item."""
        ((_, result),) = self.map(job, [item])
        return result

    def victims(self) -> list[TargetFacts]:
        """What is known of the models."""
        return self.once(_known, None)

    def generator(self) -> GeneratorSpec:
        """What the generator is, under the name it was asked for by."""
        return replace(self.once(_generator, None), name=str(self._about))


def _known(loaded: LoadedSearch, _: None) -> list[TargetFacts]:
    return [victim.known for victim in loaded.victims]


def _generator(loaded: LoadedSearch, _: None) -> GeneratorSpec:
    return loaded.generator.spec


class _WorkItem(NamedTuple):
    """What a worker is sent: a job and its item, which has a place among the items."""

    place: int
    job: Callable[[LoadedSearch, Any], Any]
    item: Any

    def __str__(self) -> str:
        return f"part {self.place + 1} of the search"


class _Task:
    """What is sent to each worker: it loads there what is asked for, and keeps it from job to job."""

    def __init__(self, recipe: SearchSpec, context: Any) -> None:
        self.recipe, self._context = recipe, context
        self._loaded: LoadedSearch | None = None

    def __reduce__(self) -> tuple[type["_Task"], tuple[SearchSpec, Any]]:
        return _Task, (self.recipe, self._context)

    def __call__(self, part: _WorkItem) -> tuple[int, Any]:
        """The item's place, and what its job made of it."""
        if self._loaded is None:
            self._loaded = LoadedSearch(self.recipe, self._context, Silent())
        return part.place, part.job(self._loaded, part.item)


def _sent(recipe: SearchSpec) -> SearchSpec:
    """The recipe for other machines: Python files packed, other files by their whole paths."""
    load, models, about = replace(recipe.load, progress=None), {}, recipe.about
    for name, spec in recipe.models.items():
        models[name], load = sendable(spec, load)
    if isinstance(about, str):
        about, load = sendable_generator(about, load)
    return SearchSpec(models=models, load=load, about=about)
