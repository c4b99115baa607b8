"""Run models over the frames of a dataset into a run folder. Runs resume, and a bad model or frame stops no other."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.early import StoppedEarly
from strobe.core.codec import encode
from strobe.core.dataset import Dataset
from strobe.core.errors import ModelFailed, StrobeError, expect, printable, without_name
from strobe.core.labels import MERGES
from strobe.core.ports import Classifier, Detector, EncodedClassifier, FrameSource, Progress, SendableSource
from strobe.core.records import ModelSpec
from strobe.core.tasks import Task
from strobe.datasets.read_detections import Absent
from strobe.models.cores import cores, sharing_cores
from strobe.models.options import LoadOptions, check_decoding
from strobe.models.requested import RequestedModel, requested_models
from strobe.models.views import BoxesView, CropView
from strobe.predict.crops import Crops
from strobe.predict.engine import EngineOptions, ModelOutcome, WorkerSpec, run_models
from strobe.predict.forward import Runner
from strobe.runs.brought import brought_files
from strobe.runs.folder import Run
from strobe.runs.frames import FrameNames
from strobe.runs.shards import ModelShards
from strobe.workflows.bring import FileOptions, bring
from strobe.workflows.engine_plan import decode_processes, engine_options
from strobe.workflows.engines import ExecutorOptions, RemoteCluster, away
from strobe.workflows.opening import kept
from strobe.workflows.sources import frame_source
from strobe.workflows.stopping import EarlyStopping, check_stopping
from strobe.workflows.stores import store_of
from strobe.workflows.views import Detectors, crops_of, derive, write_outside
from strobe.workflows.worker_specs import DescribedModel, inputs_of, load_runner, source_for, worker_spec


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictOptions:
    """Options of a prediction. `decode` is `cpu` (exact) or `device` (JPEG on a CUDA GPU, too; cached separately).

    `workers` is the number of decoding threads, or of processes if models run on a GPU. `stop_early` stops a set at its
    first wrong frame: accuracy, pm-k and drop stay the same with fewer forward passes. `absent` defines how to treat
    frames that a file of boxes does not name. `engine` is where models run.
    """

    load: LoadOptions = field(default_factory=LoadOptions)
    merge: str = "max"
    workers: int | None = None
    decode: str = "cpu"
    shard_size: int | None = None
    retry_errors: bool = False
    models_at_once: int = 8
    stop_early: bool = False
    absent: Absent = "error"
    engine: ExecutorOptions = field(default_factory=ExecutorOptions)

    def __post_init__(self) -> None:
        expect(self.merge in MERGES, "merge", f"one of {', '.join(MERGES)}", self.merge)
        expect(self.decode in ("cpu", "device"), "decode", "cpu or device", self.decode)
        expect(self.workers is None or 1 <= self.workers <= 256, "workers", "1–256", self.workers)
        expect(self.models_at_once >= 1, "models at once", ">= 1", self.models_at_once)


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictOutcome:
    """The outcome of one model. `spec` is None if it could not be loaded, `ok` is False if it failed."""

    name: str
    ok: bool
    error: str | None = None
    spec: ModelSpec | None = None
    outcome: ModelOutcome | None = None
    stopped: StoppedEarly | None = None

    def summary(self) -> str:
        """Describe the outcome in one line."""
        if self.outcome is None:
            return self.error or "predictions kept in the run folder"
        done = self.outcome
        rate = f", {done.n_new / done.wall_s:.1f} frames/s" if done.wall_s else ""
        bad = f", {done.n_unreadable} unreadable" if done.n_unreadable else ""
        early = f"; stopped early: {self.stopped.text()}" if self.stopped else ""
        text = f"{done.n_new} new, {done.n_kept} from before{bad}{rate}{early}"
        return f"FAILED after {text}: {self.error}" if self.error else text

    def to_json(self) -> dict[str, Any]:
        """Return the part of it that run.json stores."""
        facts: dict[str, Any] = {"status": "done" if self.ok else "failed", "error": self.error}
        if self.spec is not None:
            facts |= {"weights": self.spec.weights, "preprocessing": dict(self.spec.preprocessing)}
            facts["batch_size"] = self.spec.batch_size
        if self.outcome is not None:
            facts["frames"] = {
                "new": self.outcome.n_new, "kept": self.outcome.n_kept, "unreadable": self.outcome.n_unreadable,
            }  # fmt: skip
            facts["seconds"] = {"forward": round(self.outcome.forward_s, 3), "wall": round(self.outcome.wall_s, 3)}
        if self.stopped is not None:
            facts["stopped_early"] = encode(self.stopped)
        return facts


def predict(
    dataset: Dataset,
    models: Sequence[str | RequestedModel],
    out: Path,
    options: PredictOptions,
    progress: Progress,
    *,
    source: FrameSource | None = None,
) -> list[PredictOutcome]:
    """Run models over every frame of the dataset's sets, into the run folder `out`.

    `models` may contain globs, `@testbed`, prediction files and models that a program passes. The same call again does
    only the missing work. Pass the dataset with all its candidates: predictions do not depend on review, and smoothing
    uses rejected frames. With `stop_early`, only the sets that review kept are run.
    """
    wanted, run = requested_models(models, trust=options.load.trust), Run(out)
    run.check(dataset)
    if options.stop_early:
        check_stopping(dataset)
    files = [one for one in wanted if one.is_brought]
    if files:
        with run.stage() as stage:
            bring(dataset, run, files, FileOptions(merge=options.merge, absent=options.absent), progress, stage=stage)
            names = [one.name for one in wanted]
            run.record(dataset, path=dataset.root or Path(), changes={}, stage=stage, asked=names)
    others = [one for one in wanted if not one.is_brought]
    fared = {one.name: one for one in run_requested(dataset, others, run, options, progress, source=source)}
    return [fared.get(one.name) or PredictOutcome(name=one.name, ok=True) for one in wanted]


def run_requested(
    dataset: Dataset,
    models: Sequence[RequestedModel],
    run: Run,
    options: PredictOptions,
    progress: Progress,
    *,
    source: FrameSource | None = None,
    asked_for: Sequence[str] = (),
    stage: Path | None = None,
    scored: Dataset | None = None,
    k: int | None = None,
) -> list[PredictOutcome]:
    """Run these models into the run. A new run without any prediction leaves no folder behind.

    `asked_for` has all models of the command in order, if these are not all. Files among them wait in `stage`.
    Detectors run before models that use their boxes. `scored` is the part that will be scored with this k (None: the
    sets that review kept). It decides which sets `stop_early` runs.
    """
    if not models:
        return []
    boxed = next((one.name for one in models if one.view is not None), None)
    if options.stop_early and boxed is not None:
        raise StrobeError(
            f"--stop-early: {printable(boxed)} is made of boxes, which are looked for on every frame; leave one out"
        )
    if options.engine.name == "ray" and source is not None:
        raise StrobeError("--engine ray: frames that a program hands over are not seen by other machines")
    detectors = Detectors(dataset, run, models, stage=stage)
    singles = [*(one for one in models if one.view is None), *detectors.helpers]
    with run.predicting() as held, away(options.engine, options.load.device, progress, held=held) as cluster:
        if options.decode == "device" and (cluster is None or cluster.device != "cuda"):
            check_decoding(options.load.device if cluster is None else cluster.device)
        work = _Work(dataset, run, options, progress, alone=len(models) == 1, cluster=cluster)
        if options.stop_early:
            work.stopping = EarlyStopping(scored or kept(dataset), k=k, run=run, asked=[one.name for one in models])
        if singles or any(isinstance(one.view, CropView) for one in models):
            work.source = source or frame_source(dataset)
        found = {one.name: one for one in work.run(singles)}
        for view in dict.fromkeys(one.view.seen for one in models if isinstance(one.view, CropView)):
            same = [one for one in models if isinstance(one.view, CropView) and one.view.seen == view]
            found |= {one.name: one for one in work.run_cropped(same, detectors, found)}
        for one in models:
            if isinstance(one.view, BoxesView):
                found[one.name] = work.derive(one, one.view, detectors, found)
        fared = [found[one.name] for one in models]
        before = run.about().get("models", {}) if run.exists else {}
        # Models that failed before any answer and are not requested now are dropped.
        still = {name: one for name, one in before.items() if one.get("status") != "failed" or "frames" in one}
        changes, names = {"models": still | {one.name: one.to_json() for one in fared}}, [one.name for one in models]
        run.record(dataset, path=dataset.root or Path(), changes=changes, asked=asked_for or names)
    return fared


class _Work:
    """Runs models into a run, several at once. `source` provides the frames, if any are needed.

    With one model `alone`, the command prints its outcome, so it is not reported here. Models run on the `cluster`, if
    there is one, except those that a program passed.
    """

    def __init__(
        self, dataset: Dataset, run: Run, options: PredictOptions, progress: Progress, *, alone: bool,
        cluster: RemoteCluster | None = None,
    ) -> None:  # fmt: skip
        self._dataset, self._run, self._options, self._progress = dataset, run, options, progress
        self._alone, self._cluster = alone, cluster
        self.source: FrameSource | None = None
        self.stopping: EarlyStopping | None = None

    def run(
        self, models: Sequence[RequestedModel], crops: Crops | None = None, outside: NDArray[np.int64] | None = None
    ) -> Iterator[PredictOutcome]:
        """Run models over every frame, or over its crops. `outside` has frames that they do not see."""
        at_once = 1 if self.stopping else self._options.models_at_once  # each model learns from those before it
        away = [one for one in models if self._cluster is not None and one.live is None]
        here = [one for one in models if one not in away]
        for one in here if self._cluster is not None else ():
            self._progress.note(f"{printable(one.name)} was handed over by a program and runs here, not on Ray")
        for some, cluster in ((away, self._cluster), (here, None)):
            for start in range(0, len(some), at_once):
                yield from self._run_group(some[start : start + at_once], crops, outside, cluster)

    def run_cropped(
        self, models: Sequence[RequestedModel], detectors: Detectors, found: Mapping[str, PredictOutcome]
    ) -> Iterator[PredictOutcome]:
        """Run classifiers that see the same crops."""
        view = models[0].view
        try:
            if self.source is None or not isinstance(view, CropView):
                raise ModelFailed("a crop needs images")
            _check_ran(detectors.name_of(view), found)
            crops, outside = crops_of(view, self._dataset, self.source, detectors, self._progress)
        except StrobeError as error:
            yield from (self._failed(one, error) for one in models)
            return
        yield from self.run(models, crops, outside)

    def derive(
        self, one: RequestedModel, view: BoxesView, detectors: Detectors, found: Mapping[str, PredictOutcome]
    ) -> PredictOutcome:
        """Derive a model's answers from the boxes of another."""
        try:
            _check_ran(detectors.name_of(view), found)
            self._check_free(one)
            self._run.record(self._dataset, path=self._dataset.root or Path(), changes={})
            outcome = derive(
                one.name, view, detectors.held(view), self._run, FrameNames(self._dataset, self._run.path),
                retry_errors=self._options.retry_errors, progress=self._progress,
            )  # fmt: skip
        except StrobeError as error:
            return self._failed(one, error)
        return PredictOutcome(name=one.name, ok=True, outcome=outcome)

    def _failed(self, one: RequestedModel, error: StrobeError) -> PredictOutcome:
        if not self._alone:
            said = without_name(one.spec, str(error))
            self._progress.note(f"{printable(one.name)} cannot run and is left out: {said}")
        return PredictOutcome(name=one.name, ok=False, error=str(error))

    def _check_free(self, one: RequestedModel) -> None:
        if one.name in brought_files(self._run.path):
            raise StrobeError(f"the run holds a file's predictions under this name; name the model NAME={one.spec}")

    def _recipe(
        self, specs: Mapping[str, str], cluster: RemoteCluster, how: EngineOptions, *, crops: Crops | None = None,
        any_classes: Sequence[str] = (), known: Mapping[str, ModelSpec] | None = None,
    ) -> WorkerSpec:  # fmt: skip
        """Return everything that an actor of the cluster needs to run these models."""
        load = replace(self._options.load, device=cluster.device)
        return worker_spec(
            self._dataset, specs, load, merge=self._options.merge, engine=how, cores=cluster.cores, crops=crops,
            any_classes=any_classes, known=known,
        )  # fmt: skip

    def _told(
        self, models: Sequence[RequestedModel], cluster: RemoteCluster
    ) -> dict[str, DescribedModel | StrobeError]:
        """Return descriptions of models on the cluster, or why they cannot run."""
        found: dict[str, DescribedModel | StrobeError] = {}
        recipes: dict[str, WorkerSpec] = {}
        for one in models:
            try:
                some = [one.name] if one.helper else []
                recipes[one.name] = self._recipe({one.name: _text(one)}, cluster, EngineOptions(), any_classes=some)
            except StrobeError as error:
                found[one.name] = error
        names = {one.name: (recipes[one.name].models[one.name], _text(one)) for one in models if one.name in recipes}
        for name, told in cluster.tell(list(recipes.values())).items():
            if isinstance(told, str):
                found[name] = StrobeError(told)
            else:  # paths are absolute in transit; the model keeps its local name
                found[name] = replace(told, spec=replace(told.spec, name=told.spec.name.replace(*names[name])))
        return found

    def _run_group(
        self,
        models: Sequence[RequestedModel],
        crops: Crops | None,
        outside: NDArray[np.int64] | None,
        cluster: RemoteCluster | None,
    ) -> Iterator[PredictOutcome]:
        dataset, run, options, progress = self._dataset, self._run, self._options, self._progress
        loaded: dict[str, Classifier | Detector] = {}
        specs: dict[str, ModelSpec] = {}
        texts: dict[str, str] = {}
        runners: list[Runner] = []
        stores: dict[str, ModelShards] = {}
        frames, rows = FrameNames(dataset, run.path), np.unique(dataset.sets.frame)
        told = {} if cluster is None else self._told(models, cluster)
        for one in models:
            name, text = one.name, _text(one)
            try:
                self._check_free(one)
                runner = load_runner(
                    name, text, replace(options.load, progress=options.load.progress or progress),
                    dataset.info.label_space, merge=options.merge, any_classes=one.helper,
                    live=one.live if cluster is None else partial(_lent, told[name]),
                )  # fmt: skip
                if self.stopping is not None:
                    self.stopping.check_model(runner)
                specs[name] = _checked_spec(one, runner.model.spec, crops)
                stores[name] = store_of(
                    dataset, runner, specs[name], one, run, frames, progress, decode=options.decode,
                    stop_early=options.stop_early,
                )  # fmt: skip
            except StrobeError as error:
                yield self._failed(one, error)
                continue
            loaded[name] = runner.model
            runners.append(runner)
            texts[name] = text
            progress.note(_preprocessing_line(name, specs[name]))
            if options.decode == "device" and not runner.model.device.startswith("cuda"):
                progress.note(f"{printable(name)}: decoded exactly, on the CPU: --decode device is for models on CUDA")
        if not runners or self.source is None:
            return
        run.record(dataset, path=dataset.root or Path(), changes={})  # an interrupted run can be scored
        if outside is not None:
            rows = np.setdiff1d(rows, outside)
            for name, store in stores.items():
                write_outside(store, outside, model=name, n_classes=len(dataset.info.label_space))
        n_cores = cores() if cluster is None else cluster.cores
        engine = engine_options(
            options, loaded, n_cores, processes=decode_processes(options, loaded, self.source, n_cores),
            in_order=not isinstance(self.source, SendableSource),
        )  # fmt: skip
        run_over = partial(
            run_models, runners, stores, source_for(self.source, engine, crops),
            frame_names=dataset.frames.key.tolist(), as_input=inputs_of(dataset, crops),
        )  # fmt: skip
        if cluster is not None:
            helpers = [one.name for one in models if one.helper]
            known = {name: model.spec for name, model in loaded.items()}
            recipe = self._recipe(texts, cluster, engine, crops=crops, any_classes=helpers, known=known)
            run_over = partial(
                run_over, elsewhere=cluster.worker(recipe, n_classes=len(dataset.info.label_space), source=self.source)
            )
        stopped: dict[str, StoppedEarly | None] = {}
        with sharing_cores(loaded.values()):
            if self.stopping is None:
                outcomes = run_over(rows=rows, options=engine, progress=progress)
            else:
                once, (runner,) = replace(engine, retry_errors=False), runners
                outcome, stopped[runner.name] = self.stopping.run(
                    runner, stores[runner.name], self.source, progress, retry=engine.retry_errors,
                    over=lambda some, inner: run_over(rows=some, options=once, progress=inner)[runner.name],
                )  # fmt: skip
                outcomes = {runner.name: outcome}
        if options.decode == "cpu" and any(
            model.device.startswith("cuda") and isinstance(model, EncodedClassifier) for model in loaded.values()
        ):
            progress.note("frames were decoded exactly, on the CPU; --decode device is much faster for JPEG frames")
        for name, outcome in outcomes.items():
            if outcome.error is not None:
                if not self._alone:
                    progress.note(f"{printable(name)} failed and is left out: {without_name(name, outcome.error)}")
            elif outcome.n_unreadable:
                first = f"; the first: {printable(outcome.first_problem)}" if outcome.first_problem else ""
                progress.note(
                    f"{printable(name)}: {outcome.n_unreadable} frame(s) could not be read; they are unscored{first}"
                )
            if not self._alone and (early := stopped.get(name)) is not None:
                progress.note(f"{printable(name)}: stopped early, {early.text()}")
            yield PredictOutcome(
                name=name, ok=outcome.error is None, error=outcome.error, spec=specs[name], outcome=outcome,
                stopped=stopped.get(name),
            )  # fmt: skip


def _text(one: RequestedModel) -> str:
    """Return the model's text without the crop or boxes that it uses."""
    return one.view.classifier if isinstance(one.view, CropView) else one.spec


def _lent(told: DescribedModel | StrobeError, load: LoadOptions) -> Classifier | Detector:  # noqa: ARG001 (every loader's)
    """Return a model that was described, or raise the reported error."""
    if isinstance(told, StrobeError):
        raise told
    return told


def _check_ran(detector: str, found: Mapping[str, PredictOutcome]) -> None:
    """Raise if the detector that a model depends on failed."""
    if detector in found and not found[detector].ok:
        meant = "; did you mean truth, the dataset's own boxes?" if get_close_matches(detector, ["truth"]) else ""
        why = without_name(detector, found[detector].error or "failed")
        raise ModelFailed(f"its detector {printable(detector)}: {why}{meant}")


def _checked_spec(one: RequestedModel, spec: ModelSpec, crops: Crops | None) -> ModelSpec:
    """Return the model's spec with its view. Only classifiers see crops, and only detectors provide boxes."""
    if crops is not None and Task(spec.task) is not Task.CLASSIFICATION:
        raise ModelFailed(f"{printable(one.name)}: crop: is for classifiers, and {printable(spec.name)} is a detector")
    if one.helper and Task(spec.task) is not Task.DETECTION:
        raise ModelFailed(f"{printable(one.name)}: it is no detector, so it has no boxes to take")
    return spec if crops is None else replace(spec, preprocessing={**spec.preprocessing, **crops.said})


def _preprocessing_line(name: str, spec: ModelSpec) -> str:
    facts = {key: value for key, value in spec.preprocessing.items() if value is not None and key != "plugin_sha256"}
    settings = " ".join(", ".join(f"{key}={value}" for key, value in facts.items()).split())
    return f"{printable(name)}: {settings}; batch {spec.batch_size}; weights {spec.weights[:12]}"
