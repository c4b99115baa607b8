"""Everything that a viewer shows: the runs and datasets of the given places, opened when they are first looked at."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from strobe.annexes.web.view.filters import Selection, SetFilter
from strobe.annexes.web.view.finding import (
    FoundPlaces,
    Signature,
    dataset_of_run,
    find_places,
    is_current,
    place_id,
    signature,
)
from strobe.annexes.web.view.frames import AnswerCache, FrameAnswers
from strobe.annexes.web.view.index import DatasetIndex
from strobe.annexes.web.view.outcomes import Outcomes, computed_outcomes, stored_outcomes
from strobe.annexes.web.view.thumbnails import Thumbnails
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, UnknownName
from strobe.store.dataset_folder import read
from strobe.store.opening import kept
from strobe.store.run_folder import Run, StoredModel

LOOK_S = 2.0
"""How long the folders are not looked at again, in seconds."""

PATIENCE = 10
"""A run that is going on is scored again after this many times the seconds that it took the last time."""

SMALL = 60_000
"""A dataset with at most this many frames is so small that answers are loaded while the page waits."""

MOST_ORDERS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlace:
    """A model of a run, under a name that is unique among the models on its dataset."""

    shown: str
    model: str
    run: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunOutcomes:
    """The outcomes of a run's models, and when they were computed."""

    signature: Signature
    models: Mapping[str, Outcomes]
    problems: tuple[str, ...]
    next_look: float


class Library:
    """The state of a viewer. `secret` seals the names of images."""

    def __init__(self, places: Sequence[Path], *, secret: bytes, clock: Callable[[], float] = time.monotonic) -> None:
        self._places, self._secret, self._clock = tuple(places), secret, clock
        self._lock = threading.RLock()
        self.found: FoundPlaces = find_places(places)
        self._looked = clock()
        self._paths: dict[str, Path] = {}
        self._of_run: dict[str, tuple[str, str]] = {}
        self._refused: dict[str, str] = {}
        self._indexes: dict[str, DatasetIndex] = {}
        self._images: dict[str, Thumbnails] = {}
        self._outcomes: dict[str, _RunOutcomes] = {}
        self.answers = AnswerCache()
        self._loaders = ThreadPoolExecutor(1, thread_name_prefix="view-loader")
        self._waiting: set[tuple[str, ...]] = set()
        self._link_runs()

    def warm_up(self) -> None:
        """Open the first dataset in the background, so that its page is there when somebody opens the link."""
        self._loaders.submit(self._open_first)

    def _open_first(self) -> None:
        many = {key: len(self.runs_on(key)) for key in self.datasets}
        for key in sorted(many, key=lambda one: -many[one])[:1]:
            with suppress(StrobeError):
                index = self.index(key)
                self.images(key)
                Selection(index, SetFilter()).facets()

    # -- places --------------------------------------------------------------------------------------------------

    def look(self) -> FoundPlaces:
        """Return the runs and datasets, looked up again after a while."""
        with self._lock:
            if self._clock() - self._looked >= LOOK_S:
                self.found = find_places(self._places)
                self._looked = self._clock()
                self._link_runs()
            return self.found

    def _link_runs(self) -> None:
        """Find the dataset of every run; a run without one keeps the reason."""
        self._paths = dict(self.found.datasets)
        self._of_run = {}
        by_content: dict[str, Path] = {}
        for key, path in self.found.runs.items():
            try:
                dataset = _moved(path, by_content, self.found.datasets) or dataset_of_run(path)
                self._paths.setdefault(place_id(dataset), dataset)
                self._of_run[key] = (place_id(dataset), self._refused.get(place_id(dataset), ""))
            except StrobeError as error:
                self._of_run[key] = ("", str(error))

    def dataset_of(self, run: str) -> tuple[str, str]:
        """Return the id of a run's dataset, or the reason why it cannot be opened."""
        return self._of_run.get(run, ("", "no such run"))

    def refuse(self, dataset: str, why: str) -> None:
        """Record why a dataset cannot be opened, for all its runs."""
        self._refused[dataset] = why
        self._link_runs()

    @property
    def datasets(self) -> Mapping[str, Path]:
        """The folders of all datasets by id, those of runs included."""
        return self._paths

    def run_path(self, run: str) -> Path:
        """Return the folder of a run."""
        if run not in self.found.runs:
            raise UnknownName("run", run, [])
        return self.found.runs[run]

    # -- datasets ------------------------------------------------------------------------------------------------

    def index(self, key: str) -> DatasetIndex:
        """Return a dataset with the current outcomes of all its models."""
        if key not in self._paths:
            raise UnknownName("dataset", key, [])
        with self._lock:
            index = self._indexes.get(key)
            if index is None:
                index = DatasetIndex(key, self._paths[key], read(self._paths[key]))
                self._indexes[key] = index
        with index.lock:
            index.replace_models(self._current(index))
        return index

    def opened(self, key: str) -> DatasetIndex | None:
        """Return a dataset if it is open."""
        return self._indexes.get(key)

    def images(self, key: str) -> Thumbnails:
        """Return the images of a dataset."""
        index = self._indexes.get(key) or self.index(key)
        with self._lock:
            if key not in self._images:
                self._images[key] = Thumbnails(index.dataset, secret=self._secret)
            return self._images[key]

    def runs_on(self, key: str) -> list[str]:
        """Return the runs on a dataset."""
        return [run for run in self.look().runs if self.dataset_of(run)[0] == key]

    def _current(self, index: DatasetIndex) -> dict[str, Outcomes]:
        """Return the outcomes of every model; runs are read again if they changed, but not too often."""
        found: dict[str, Mapping[str, Outcomes]] = {}
        for run in self.runs_on(index.key):
            held = self._outcomes.get(run)
            now = self._clock()
            if held is None or now >= held.next_look:
                mark = signature(self.found.runs[run])
                if held is None or held.signature != mark:
                    models, problems = _outcomes_of(self.found.runs[run], index)
                    spent = self._clock() - now
                    wait = max(LOOK_S, PATIENCE * spent)
                    held = _RunOutcomes(
                        signature=mark, models=models, problems=problems, next_look=self._clock() + wait
                    )
                    self._outcomes[run] = held
            found[run] = held.models
        return {one.shown: found[one.run][one.model] for one in self._named(found)}

    def _named(self, found: Mapping[str, Mapping[str, Outcomes]]) -> list[ModelPlace]:
        names = [name for models in found.values() for name in models]
        return [
            ModelPlace(
                shown=name if names.count(name) == 1 else f"{self.found.run_names[run]}/{name}", model=name, run=run
            )
            for run, models in found.items()
            for name in models
        ]

    def models(self, key: str) -> dict[str, ModelPlace]:
        """Return the models on an open dataset by their shown names."""
        held = {run: self._outcomes[run].models for run in self.runs_on(key) if run in self._outcomes}
        return {one.shown: one for one in self._named(held)}

    def problems(self, run: str) -> tuple[str, ...]:
        """Return why models of a run are not shown."""
        held = self._outcomes.get(run)
        return () if held is None else held.problems

    # -- sets ----------------------------------------------------------------------------------------------------

    def rows(self, index: DatasetIndex, wanted: SetFilter) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        """Return the sets of a filter in order. Recent orders are kept, so that the next page of a list is fast."""
        index.tags()
        key = repr(wanted)
        with index.lock:
            rows = index.orders.get(key)
            if rows is None:
                rows = Selection(index, wanted).rows()
                index.orders[key] = rows
                while len(index.orders) > MOST_ORDERS:
                    index.orders.popitem(last=False)
        return rows

    def frame_answers(self, index: DatasetIndex) -> dict[str, FrameAnswers | None]:
        """Return each model's answers on all frames; None for a model that is being loaded in the background."""
        out: dict[str, FrameAnswers | None] = {}
        for shown, model in self.models(index.key).items():
            key = (model.run, model.model, str(self._outcomes[model.run].signature))
            found = self.answers.peek(key)
            if found is None and len(index.dataset.frames) <= SMALL:
                found = self._load(index, model, key)
            elif found is None and key not in self._waiting:
                self._waiting.add(key)
                self._loaders.submit(self._load, index, model, key)
            out[shown] = found
        return out

    def _load(self, index: DatasetIndex, one: ModelPlace, key: tuple[str, ...]) -> FrameAnswers | None:
        try:
            return self.answers.get(key, lambda: FrameAnswers.of(index.dataset, self._stored(index, one).load()))
        except StrobeError:  # a run that changes while it is read; the next request tries again
            return None
        finally:
            self._waiting.discard(key)

    def _stored(self, index: DatasetIndex, one: ModelPlace) -> StoredModel:
        run = Run(self.found.runs[one.run])
        return run.models(index.dataset, only=[one.model], allow_missing=True)[0]


def _moved(run: Path, known: dict[str, Path], datasets: Mapping[str, Path]) -> Path | None:
    """Return the given dataset that a run was made on, if the dataset is not where the run recorded it."""
    place = Run(run)
    try:
        return (
            None
            if place.dataset_path.is_dir()
            else _by_digest(known, datasets)[place.about()["dataset"]["frames_digest"]]
        )
    except KeyError:
        return None


def _by_digest(known: dict[str, Path], datasets: Mapping[str, Path]) -> dict[str, Path]:
    """Return the given datasets by the digest of their frames, computed once."""
    if not known:
        for path in datasets.values():
            known[read(path, people=False).frames_digest()] = path
    return known


def scored_part(run: Run, candidates: Dataset) -> Dataset:
    """Return the sets that a run is scored on: those that review kept, in the run's subset."""
    dataset, part = kept(candidates), run.subset()
    return dataset if part is None else dataset.only_videos(part.videos)


def _outcomes_of(path: Path, index: DatasetIndex) -> tuple[dict[str, Outcomes], tuple[str, ...]]:
    """Return the outcomes of every model of a run, and a line about each model without outcomes."""
    run, out, problems = Run(path), dict[str, Outcomes](), list[str]()
    try:
        if is_current(path):
            out |= stored_outcomes(path, index.dataset, index.places)
    except StrobeError as error:  # they are computed from the predictions below
        problems.append(str(error))
    try:
        part = scored_part(run, index.dataset)
        stored = run.models(part, allow_missing=True)
    except StrobeError as error:
        return out, (*problems, str(error))
    for model in stored:
        if model.name in out:
            continue
        try:
            out[model.name] = computed_outcomes(model, index.dataset, part, index.places, k=None)
        except StrobeError as error:
            problems.append(str(error))
    asked = run.asked()
    order = sorted(out, key=lambda name: asked.index(name) if name in asked else len(asked))
    return {name: out[name] for name in order}, tuple(problems)
