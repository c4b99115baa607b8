"""The run folder: the run's settings, dataset and models, and atomic writes into it."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from strobe.analyses.early import open_sets
from strobe.analyses.plan import Plan, ScoreOptions
from strobe.analyses.remedied import Stretches
from strobe.analyses.results import SCHEMA as RESULTS_SCHEMA
from strobe.analyses.results import Results
from strobe.core.answers import Answers, ClassAnswers, State
from strobe.core.codec import decode, encode
from strobe.core.dataset import Dataset
from strobe.core.errors import CannotWrite, InvalidFile, StrobeError, expect, in_file, printable
from strobe.core.files import inside, json_of, json_text, make_folder, matching, sha256_of_file, write_json
from strobe.core.late import installed_version
from strobe.core.locks import Lock, writing
from strobe.core.remote import Usage
from strobe.core.seals import check_file, digest_of_json, read_digests, read_numbered, without_digest, write_digests
from strobe.core.swaps import settle, swapping
from strobe.core.tasks import Task
from strobe.metrics.remedies import Remedy
from strobe.store.answer_tables import digest_in_name
from strobe.store.brought import brought_files, read_brought
from strobe.store.frame_names import FRAMES, FrameNames, keep_frames
from strobe.store.shards import ModelShards, facts_of, shard_models

SCHEMA = 1

HELD = ("predictions/*/*.parquet", "predictions/*/*.journal", "external/*.parquet")
"""The files of a run that have predictions."""
SEALED = ("results.json", "tables/*", "figures/*")
"""The files of a run with digests in digests.json."""
AGAIN = "run strobe score again"
"""What to do if a file with results is damaged."""
OUTDATED = f"results.json was computed from other predictions than the run now has; {AGAIN}"
_OF_SOURCE = ("kind", "label_space", "childless", "spec", "passes")
"""The facts that a model with a remedy has from the model that it is for."""
_EDITED = 'run predict or eval again, or remove "sha256" from it to use it as it is'
_PACKAGES = ("numpy", "scipy", "pyarrow", "pillow", "av", "torch", "torchvision", "timm", "transformers", "onnxruntime")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subset:
    """The videos that a run is scored on, by id, and the name of the file that listed them."""

    name: str
    videos: tuple[str, ...]

    def __post_init__(self) -> None:
        expect(len(self.videos) > 0, "videos", "at least one", len(self.videos))

    @property
    def text(self) -> str:
        """The name and size of the subset, for messages."""
        n = len(self.videos)
        return f"the subset {printable(self.name)} ({n} video{'' if n == 1 else 's'})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunDataset:
    path: str
    frames_digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _RemedyOf:
    """A model with a remedy: the remedy, and the name of the model that it is for."""

    remedy: str
    of: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunFacts:
    """The types of the facts in run.json that this module reads."""

    dataset: _RunDataset
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    brought_for: Mapping[str, str] = field(default_factory=dict)
    brought_sha256: Mapping[str, str] = field(default_factory=dict)
    remedies: Mapping[str, _RemedyOf] = field(default_factory=dict)
    asked: tuple[str, ...] = ()
    subset: Subset | None = None


class Incomplete(StrobeError):
    """Raised if a model has no prediction for some frames yet."""


def versions() -> dict[str, str]:
    """Return the versions of all packages that can change a figure."""
    found = {
        "strobe": "from source",
        "python": platform.python_version(),
    }  # with PYTHONPATH=src, no package is installed
    known = {"strobe": installed_version(), **{name: installed_version(name) for name in _PACKAGES}}
    return found | {name: version for name, version in known.items() if version is not None}


def cpu() -> str:
    """Return the model of this machine's CPU; answers can differ a little between CPUs."""
    with suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
        if names:
            return names[0]
    return platform.processor() or platform.machine()


def _without_path(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return run.json without the path of its dataset, which the digest leaves out because a dataset may move."""
    return {**about, "dataset": {**about["dataset"], "path": ""}}


def _digests(files: Mapping[str, tuple[Path, Any]], known: Mapping[str, str]) -> dict[str, str]:
    """Return the SHA-256 of each external file by name: the `known` value if there is one, else the computed value."""
    paths = [path for path, _ in files.values()]
    return {path.name: known.get(path.name) or sha256_of_file(path) for path in paths}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel:
    """A model with answers in a run, and the known facts about their origin.

    `file` is None if strobe ran the model. Otherwise `frames_digest` is the digest of the answered frames, and `sha256`
    is the digest of the file.
    """

    name: str
    task: Task
    facts: Mapping[str, Any]
    run: Path
    dataset: Dataset
    frames: FrameNames
    allow_missing: bool = False
    k: int | None = None
    file: Path | None = None
    frames_digest: str | None = None
    sha256: str | None = None

    def load(self, *, every_box: bool = False) -> Answers:
        """Return the model's answers.

        Raise Incomplete if frames of the sets are neither answered nor recorded as unreadable. With `every_box`, boxes
        of classes outside the dataset are included, if strobe ran the detector. For a model that was stopped early,
        unanswered frames are skipped. Incomplete is then raised only if a set is undecided at `k`.
        """
        space = self.dataset.info.label_space
        if self.file is not None:
            answers = read_brought(
                self.file,
                self.facts,
                frames=self.frames,
                n_classes=len(space),
                digest=self.frames_digest,
                sha256=self.sha256,
            )
        elif self.facts["label_space"] != space.digest:
            raise StrobeError(
                f"{printable(self.name)}: the predictions in {printable(self.run)} are for other classes than those of "
                f"{printable(self.dataset.name)}; if its classes changed, run the same predict command again"
            )
        else:
            answers = self._store().read(kind=str(self.facts["kind"]), every_box=every_box)
        if isinstance(answers, ClassAnswers) and self.facts.get("stopped_early"):
            return self._stopped(answers)
        needed = np.zeros(len(self.frames), dtype=bool)
        needed[self.dataset.sets.frame] = True
        undone = np.flatnonzero(needed & (answers.state == State.MISSING))
        if self.allow_missing or not len(undone):
            return answers
        way_out = "pass a file that has them" if self.file else "run the same predict command again"
        raise Incomplete(
            f"{printable(self.name)}: {len(undone)} of {int(needed.sum())} frames have no prediction yet, first "
            f"{printable(self.frames.key(int(undone[0])))}; {way_out}, or score the available ones with "
            "<<allow_missing=True>>"
        )

    def repeats(self) -> Iterator[Answers]:
        """Yield the second answers, the third and so on, if strobe asked the model several times (`--repeat`).

        Frames that were not asked again have no answer.
        """
        for store in self._further_stores():
            if self.facts["label_space"] == self.dataset.info.label_space.digest:
                yield store.read(kind=str(self.facts["kind"]))

    @property
    def is_repeated(self) -> bool:
        """Whether strobe asked the model several times."""
        return any(True for _ in self._further_stores())

    def _further_stores(self) -> Iterator[ModelShards]:
        if self.file is not None:
            return
        first = self._store()
        for number in count(2):
            if (store := first.again(number)).is_empty:
                return
            yield store

    def _store(self) -> ModelShards:
        n_classes = len(self.dataset.info.label_space)
        return ModelShards.held(self.run, self.name, frames=self.frames, n_classes=n_classes)

    def spent(self) -> Usage:
        """Return what the requests for all answers used, if the model is behind an address."""
        if self.file is not None or not self.facts.get("remote"):
            return Usage()
        return sum((store.spent() for store in (self._store(), *self._further_stores())), Usage())

    def _stopped(self, answers: ClassAnswers) -> ClassAnswers:
        skipped = np.where(answers.state == State.MISSING, State.SKIPPED, answers.state).astype(np.uint8)
        answers = replace(answers, state=skipped)
        if not self.allow_missing:
            plan = Plan(self.dataset, ScoreOptions(k=self.k))
            undecided = int(open_sets(plan, answers).sum())
            if undecided:
                raise Incomplete(
                    f"{printable(self.name)} was stopped early, and {undecided} of {plan.n_sets} sets are undecided at "
                    f"k = {plan.k}; run strobe eval or predict again, with or without <<stop_early>>, or score the "
                    "available predictions with <<allow_missing=True>>"
                )
        return answers


@dataclass(frozen=True, slots=True, kw_only=True)
class RemediedModel(StoredModel):
    """A model with a remedy for flicker: nothing is stored but its name, and the answers of the `source` are used."""

    source: StoredModel
    remedy: Remedy

    @classmethod
    def of(cls, name: str, remedy: Remedy, source: StoredModel, *, place: int | None = None) -> "RemediedModel":
        """Return a model of the run with a remedy; `place` is its place among the requested models."""
        kept = {fact: source.facts[fact] for fact in _OF_SOURCE if fact in source.facts}
        own = {"view": "remedy", "remedy": remedy.text, "of": source.name, "model_type": None, "standard": False}
        facts = {**kept, **own, **({} if place is None else {"place": place})}
        return cls(
            name=name,
            task=source.task,
            facts=facts,
            run=source.run,
            dataset=source.dataset,
            frames=source.frames,
            source=source,
            remedy=remedy,
        )

    def load(self, *, every_box: bool = False) -> Answers:
        """Return the answers of the source with the remedy, along every stretch of consecutive answered frames."""
        answers = self.source.load(every_box=every_box)
        found = Stretches.of(self.dataset, answers.scored).with_remedy(answers, self.remedy)
        return replace(found, model=self.name)

    def _further_stores(self) -> Iterator[ModelShards]:
        return iter(())


class Run:
    """A run folder. The caller passes its dataset; run.json records the dataset's path."""

    def __init__(self, path: Path) -> None:
        settle(path)
        self.path = path
        self._judged_on: dict[str, Any] = {}

    @property
    def exists(self) -> bool:
        """Return whether the folder contains a run."""
        return (self.path / "run.json").is_file()

    def about(self) -> dict[str, Any]:
        """Return run.json, validated."""
        if not self.path.is_dir():
            raise StrobeError(f"no such run folder: {printable(self.path)}")
        if not self.exists:
            raise StrobeError(
                f"{printable(self.path)} is not a run folder: it has no run.json; make one with strobe eval or predict"
            )
        path = self.path / "run.json"
        data = read_numbered(inside(self.path, path.name), SCHEMA)
        with in_file(path):
            decode(_RunFacts, data)
        try:
            json_text(data)  # the content is written again later, and JSON cannot represent infinity or NaN
        except ValueError as error:
            raise InvalidFile(path, "it contains a number that is infinite or NaN") from error
        without_digest(path, _without_path(data), hint=_EDITED)
        data.pop("sha256", None)
        return data

    def asked(self) -> list[str]:
        """The names of the models in the order in which they were first requested."""
        about = self.about()
        return list(dict.fromkeys([*about.get("asked", []), *about.get("models", {})]))

    # -- the subset ----------------------------------------------------------------------------------------------

    def subset(self) -> Subset | None:
        """The videos that the run was last scored on, or None for all videos."""
        subset = self.about().get("subset")
        return None if subset is None else decode(Subset, subset)

    @property
    def was_scored(self) -> bool:
        """Whether the run has a stored subset, which may be all sets. A run without results has no stored subset."""
        return "subset" in self.about() or (self.path / "results.json").is_file()

    def judge_on(self, subset: Subset | None) -> bool:
        """Store this subset when run.json is next written.

        Return whether the subset differs from the run's current subset.
        """
        self._judged_on = {"subset": None if subset is None else encode(subset)}
        return not self.exists or self.about().get("subset", 0) != self._judged_on["subset"]

    # -- the dataset ---------------------------------------------------------------------------------------------

    def check(self, dataset: Dataset) -> dict[str, Any]:
        """Return the content of run.json, empty if the run is new. Raise an error if the run is on another dataset."""
        if (self.path / "dataset.json").is_file():
            raise StrobeError(
                f"{printable(self.path)} is a dataset folder; choose another folder for the run with <<out>>"
            )
        if not self.exists:
            return {}
        before = self.about()
        if not self.is_on(dataset):
            raise StrobeError(
                f"{printable(self.path)} contains a run on other frames ({printable(before['dataset'].get('name'))}); "
                "choose another folder with <<out>>"
            )
        return before

    def is_on(self, dataset: Dataset) -> bool:
        """Return whether this run is on the dataset, with its current frames or with earlier ones.

        An earlier state is recognised by frames that have not changed since the run was last written.
        """
        digest = self.about()["dataset"]["frames_digest"]
        return digest == dataset.frames_digest() or bool(FrameNames(dataset, self.path).earlier.get(digest))

    def record(
        self,
        dataset: Dataset,
        *,
        path: Path,
        changes: Mapping[str, Any],
        stage: Path | None = None,
        asked: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Write run.json, keeping the facts that it already contains.

        With `stage`, run.json is written to the staging folder and committed together with other files. `asked` names
        the requested models, in order.
        """
        before, digest = self.check(dataset), dataset.frames_digest()
        order = dict.fromkeys([*(self.asked() if before else ()), *asked])
        now = brought_files(stage) if stage else {}
        held = brought_files(self.path) if before else {}
        known = dict.fromkeys(held, before["dataset"]["frames_digest"]) if before else {}
        content = {
            **before,
            "schema": SCHEMA,
            "dataset": {
                "name": dataset.name,
                "path": self._written(path),
                "digest": dataset.digest(),
                "frames_digest": digest,
            },
            "brought_for": known | before.get("brought_for", {}) | dict.fromkeys(now, digest),
            "brought_sha256": _digests(held, before.get("brought_sha256", {})) | _digests(now, {}),
            **({"asked": list(order)} if order else {}),
            "versions": versions(),
            "cpu": cpu(),
            "command": " ".join(["strobe", *sys.argv[1:]]),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            **self._judged_on,
            **changes,
        }
        folder = make_folder(stage or self.path)
        keep_frames(folder, dataset, run=self.path)
        digest = digest_of_json(_without_path(json_of(json_text(content))))
        write_json(folder / "run.json", {**content, "sha256": digest})
        return content

    @property
    def dataset_path(self) -> Path:
        """The dataset's path as recorded in run.json. A dataset inside the run moves with the run."""
        recorded = Path(str(self.about()["dataset"]["path"]))
        inside_run = self.path / recorded
        return inside_run if os.path.isfile(inside_run / "dataset.json") else recorded  # noqa: PTH113 (no OSError)

    def _written(self, dataset: Path) -> str:
        """Return the dataset's path for run.json: relative if the dataset is inside the run."""
        place, home = dataset.resolve(), self.path.resolve()
        return place.relative_to(home).as_posix() if place.is_relative_to(home) else str(place)

    # -- the models ----------------------------------------------------------------------------------------------

    def models(
        self,
        dataset: Dataset,
        *,
        only: Sequence[str] = (),
        allow_missing: bool = False,
        k: int | None = None,
        stage: Path | None = None,
    ) -> list[StoredModel]:
        """Return the models of the run: first the models that strobe ran, then external files.

        `only` selects models and sets their order. Files in the staging folder `stage` are included. A detector that
        runs only for another model is included only if `only` names it. `k` is used for scoring; None means the
        dataset's k.
        """
        frames = FrameNames(dataset, self.path)
        about, order = (self.about(), self.asked()) if self.exists else ({}, [])

        def held(name: str, facts: Mapping[str, Any], file: Path | None) -> StoredModel:
            task, committed = (
                Task(str(facts.get("task", Task.CLASSIFICATION))),
                not (stage and file and stage in file.parents),
            )
            ran = about.get("models", {}).get(name, {})
            own = {"frames_per_second": ran["frames_per_second"]} if "frames_per_second" in ran else {}
            if name in order:
                own["place"] = order.index(name)
            return StoredModel(
                name=name,
                task=task,
                facts={**facts, **own},
                run=self.path,
                dataset=dataset,
                frames=frames,
                allow_missing=allow_missing,
                k=k,
                file=file,
                frames_digest=about.get("brought_for", {}).get(name) if committed else None,
                sha256=about.get("brought_sha256", {}).get(file.name) if file and committed else None,
            )

        files = brought_files(self.path) | (brought_files(stage) if stage else {})
        by_file = sorted(files.items(), key=lambda item: item[1][0].name)
        stored = [held(name, facts_of(self.path, name), None) for name in shard_models(self.path)]
        stored += [held(name, facts, file) for name, (file, facts) in by_file]
        by_name = {model.name: model for model in stored}
        left = about.get("remedies", {})
        while ready := [name for name in left if left[name]["of"] in by_name]:
            for name in ready:  # a remedy may be for another one
                of, place = left[name], order.index(name) if name in order else None
                model = RemediedModel.of(name, Remedy.of(of["remedy"]), by_name[of["of"]], place=place)
                by_name[name] = replace(model, allow_missing=allow_missing)
            left = {name: of for name, of in left.items() if name not in ready}
        if not only:
            return [model for model in by_name.values() if not model.facts.get("helper")]
        missing = [name for name in only if name not in by_name]
        if missing:
            names = ", ".join(printable(name) for name in by_name) or "none"
            raise StrobeError(
                f"{printable(self.path)} has no predictions of {printable(missing[0])}; its models are {names}"
            )
        return [by_name[name] for name in dict.fromkeys(only)]

    def models_as_asked(
        self, dataset: Dataset, *, allow_missing: bool = False, k: int | None = None
    ) -> list[StoredModel]:
        """Return the models of the run: the requested models first, in their order, then the others."""
        asked = self.asked()
        models = self.models(dataset, allow_missing=allow_missing, k=k)
        return sorted(models, key=lambda one: asked.index(one.name) if one.name in asked else len(asked))

    # -- the results ---------------------------------------------------------------------------------------------

    def results(self) -> Results:
        """Return results.json, checked against its digest."""
        path = check_file(self.path, "results.json", hint=AGAIN)
        data = read_numbered(path, RESULTS_SCHEMA, hint="run strobe score on this run first")
        with in_file(path, hint=AGAIN):
            return decode(Results, data)

    def held(self, stage: Path | None = None) -> dict[str, str]:
        """Return the digest of every file with predictions, by its name. Files in `stage` replace those of the run."""
        places = [place for place in (self.path, stage) if place is not None]
        files = {
            path.relative_to(top).as_posix(): path for top in places for one in HELD for path in matching(top, one)
        }
        remedies = self.about().get("remedies", {}) if self.exists else {}
        of = {f"run.json {name}": f"{one['remedy']}:{one['of']}" for name, one in sorted(remedies.items())}
        return {name: digest_in_name(path) or sha256_of_file(path) for name, path in sorted(files.items())} | of

    def is_current(self) -> bool:
        """Return whether the results were computed from exactly the predictions that the run now has."""
        return (self.path / "results.json").is_file() and read_digests(self.path).get("predictions") == self.held()

    def is_outdated(self) -> bool:
        """Return whether the results were computed from other predictions, as digests.json says."""
        return "predictions" in read_digests(self.path) and not self.is_current()

    def seal(self, stage: Path | None = None) -> None:
        """Write the digests of the results, tables and figures in `stage`, computed from the present predictions.

        Without `stage`, a report was written into the run: what `score` wrote keeps its digests.
        """
        place, known = stage or self.path, {"files": {}} if stage else read_digests(self.path)
        kept = {name: one for name, one in known["files"].items() if name == "results.json" or "/sets." in name}
        files = [path for one in SEALED for path in matching(place, one)]
        new = [path for path in files if path.relative_to(place).as_posix() not in kept]
        held = self.held(stage) if stage else known.get("predictions", {})
        write_digests(place, new, keep=kept, more={"predictions": held})

    # -- writing -------------------------------------------------------------------------------------------------

    @contextmanager
    def predicting(self) -> Iterator[Lock]:
        """Lock the run for writing. If a new run gets no predictions, remove its files."""
        is_new = not self.exists
        with writing(self.path) as held:
            try:
                yield held
            finally:
                if is_new and not (self.exists and self.held()):
                    for made in ("predictions", FRAMES):
                        shutil.rmtree(self.path / made, ignore_errors=True)
                    (self.path / "run.json").unlink(missing_ok=True)

    @contextmanager
    def stage(self) -> Iterator[Path]:
        """Yield a staging folder inside the run, which stays locked for writing. On success, move its files into place.

        The staging folder is always removed, and a new run without results is removed too.
        """
        stage = self.path
        try:
            with writing(self.path), swapping(self.path) as staged:
                stage = staged.root
                yield stage
                if (stage / "results.json").is_file():
                    self.seal(stage)
        except CannotWrite as error:  # report the final path instead of the path in the staging folder
            raise CannotWrite(str(error).replace(str(stage), str(self.path))) from error
