"""Run requested models over the frames of a dataset into a run, in groups. A failed model does not stop the others."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.early import StoppedEarly
from strobe.core.dataset import Dataset
from strobe.core.errors import ModelFailed, StrobeError, printable, spelled, without_name
from strobe.core.late import Registry
from strobe.core.ports import Classifier, Detector, FrameSource, Progress, RemoteModel
from strobe.core.records import ModelSpec
from strobe.engine.engine import ModelOutcome, PredictOutcome, away, run_models
from strobe.engine.forward import Runner
from strobe.engine.loading import (
    checked_spec,
    decode_processes,
    engine_options,
    faster_frames,
    inputs_of,
    load_runner,
    of_a_model,
    opened_ahead,
    preprocessing_line,
    say_decoded,
    source_for,
    store_of,
)
from strobe.engine.running import Running
from strobe.engine.views import Crops, Detectors, crops_of, derive, write_outside
from strobe.models.cores import cores, sharing_cores
from strobe.models.grammar import BoxesView, CropView, RemedyView
from strobe.models.options import LoadOptions, check_decoding
from strobe.models.requested import RequestedModel
from strobe.store.brought import brought_files
from strobe.store.frame_names import FrameNames
from strobe.store.opening import frame_source, kept
from strobe.store.run_folder import RemediedModel, Run
from strobe.store.shards import ModelShards

if TYPE_CHECKING:
    from strobe.engine.running import Cluster
    from strobe.engine.stopping import EarlyStopping
    from strobe.engine.worker_specs import SentModels


def run_requested(
    dataset: Dataset,
    models: Sequence[RequestedModel],
    run: Run,
    options: Running,
    progress: Progress,
    *,
    source: FrameSource | None = None,
    asked_for: Sequence[str] = (),
    stage: Path | None = None,
    scored: Dataset | None = None,
    k: int | None = None,
    check: Callable[[RequestedModel, ModelSpec], None] | None = None,
) -> list[PredictOutcome]:
    """Run these models into the run. If a new run gets no prediction, its folder is removed.

    `asked_for` has all models of the command in order, if `models` is only a part. Files are in `stage` until they are
    committed. Detectors run before models that use their boxes. `scored` is the part of the dataset that will be scored
    with this k; None means the sets that review kept. `stop_early` runs only these sets. `check` raises an error for a
    loaded model that must not run.
    """
    if not models:
        return []
    if options.stop_early and options.repeat > 1:  # the frames that are left over depend on their first answers
        raise StrobeError(
            "<<repeat>> needs every frame, which <<stop_early>> does not predict; remove one of the two options"
        )
    combined = next((model.name for model in models if model.view is not None), None)
    if options.stop_early and combined is not None:
        raise StrobeError(
            f"<<stop_early>>: {printable(combined)} needs every frame of another model; remove <<stop_early>> or this "
            "model"
        )
    boxed = any(isinstance(model.view, BoxesView | CropView) for model in models)
    if options.limits_requests or any(one.is_remote for one in models):
        _requests().check(models, options)
    load, engine = options.loading(progress), options.executor()
    for one in models:
        try:
            one.load_options(load)
        except StrobeError as error:
            raise StrobeError(f"{printable(one.name)}: {error}") from error
    if engine.name != "local" and source is not None:
        raise StrobeError(
            f"<<engine={engine.name}>>: other machines cannot access frames that a program passes; save the "
            "dataset to a folder"
        )
    detectors = Detectors(dataset, run, models, stage=stage) if boxed else None
    singles = [*(model for model in models if model.view is None), *(detectors.helpers if detectors else ())]
    with run.predicting() as held, away(engine, options.device, progress, held=held) as cluster:
        decoding = {one.settings.decode or options.decode for one in models}
        if "device" in decoding and (cluster is None or cluster.device != "cuda"):
            check_decoding(options.device if cluster is None else cluster.device)
        work = _Work(dataset, run, options, load, progress, alone=len(models) == 1, cluster=cluster)
        work.check = check
        if options.stop_early:
            from strobe.engine.stopping import EarlyStopping

            work.stopping = EarlyStopping(scored or kept(dataset), k=k, run=run, asked=[model.name for model in models])
        if singles or any(isinstance(model.view, CropView) for model in models):
            work.source = source or frame_source(dataset)
        outcome_of = {outcome.name: outcome for outcome in work.run(singles)}
        if detectors is not None:
            outcome_of |= work.run_views(models, detectors, outcome_of)
        outcome_of, remedies = work.run_remedies(models, outcome_of, stage=stage)
        outcomes = [outcome_of[model.name] for model in models]
        _commit(run, dataset, outcomes, remedies, asked=asked_for or [model.name for model in models])
    return outcomes


def _commit(
    run: Run,
    dataset: Dataset,
    outcomes: Sequence[PredictOutcome],
    remedies: Mapping[str, Mapping[str, str]],
    *,
    asked: Sequence[str],
) -> None:
    before = run.about() if run.exists else {}
    # Remove models that failed earlier without any answer and are not requested now.
    still = {
        name: facts
        for name, facts in before.get("models", {}).items()
        if facts.get("status") != "failed" or "frames" in facts
    }
    now = {outcome.name: outcome.to_json() for outcome in outcomes}
    for name, facts in now.items():
        if "frames_per_second" in still.get(name, {}):  # if nothing was predicted now, the speed is that of before
            facts.setdefault("frames_per_second", still[name]["frames_per_second"])
    changes: dict[str, Any] = {"models": still | now}
    of_before = {name: of for name, of in before.get("remedies", {}).items() if name not in now}
    if of_before or remedies:
        changes["remedies"] = {**of_before, **remedies}
    run.record(dataset, path=dataset.root or Path(), changes=changes, asked=asked)


class RemoteWork(Protocol):
    """Asks the models of a command that are behind an address. They share one budget."""

    def ask(
        self,
        runner: Runner,
        stores: Mapping[str, ModelShards],
        rows: NDArray[Any],
        times: Mapping[str, int],
        *,
        crops: Crops | None = None,
        outside: NDArray[np.int64] | None = None,
    ) -> tuple[ModelOutcome, StoppedEarly | None]:
        """Ask one model about every frame of `rows` as often as `times` says, and return its statistics."""


@dataclass(frozen=True, slots=True)
class Requests:
    """How an annex asks models behind an address: a check of the options of a command, and the start of its work."""

    check: Callable[[Sequence[RequestedModel], Running], None]
    start: "Callable[[Dataset, FrameSource, Running, Progress, EarlyStopping | None], RemoteWork]"


REQUESTS = Registry("requests", Requests, "way to ask models behind an address", {}, closed=True)
"""The way to ask such models, if an annex brings one."""


def _requests() -> Requests:
    for name in REQUESTS:
        return REQUESTS[name]
    raise StrobeError("this installation cannot ask models behind an address; remove them and their options")


class _Work:
    """Runs models into a run, several at once. `source` provides the frames, if any are needed.

    With a single model (`alone`), the command prints its outcome and the runner does not. Models run on the `cluster`,
    if there is one, except models that a program passed.
    """

    def __init__(
        self,
        dataset: Dataset,
        run: Run,
        options: Running,
        load: LoadOptions,
        progress: Progress,
        *,
        alone: bool,
        cluster: "Cluster | None" = None,
    ) -> None:
        self._dataset, self._run, self._options, self._progress = dataset, run, options, progress
        self._load = load
        self._alone, self._cluster = alone, cluster
        self._remote: RemoteWork | None = None
        self.source: FrameSource | None = None
        self.stopping: EarlyStopping | None = None
        self.check: Callable[[RequestedModel, ModelSpec], None] | None = None

    def run(
        self, models: Sequence[RequestedModel], crops: Crops | None = None, outside: NDArray[np.int64] | None = None
    ) -> Iterator[PredictOutcome]:
        """Run models over every frame or its crop. `outside` has the frames that the models do not see."""
        # With early stopping, models run one at a time, because each uses the failures of earlier models.
        at_once = 1 if self.stopping else self._options.models_at_once
        away = [model for model in models if self._cluster is not None and model.live is None and not model.is_remote]
        here = [model for model in models if model not in away]
        for one in here if self._cluster is not None else ():
            how = "is behind an address and is asked by" if one.is_remote else "was passed by a program and runs in"
            self._progress.note(f"{printable(one.name)} {how} this process, not on the cluster")
        for part, cluster in ((away, self._cluster), (here, None)):
            # A frame is decoded once for all models of a group, so they must use the same decoder.
            for decode in dict.fromkeys(one.settings.decode or self._options.decode for one in part):
                some = [one for one in part if (one.settings.decode or self._options.decode) == decode]
                for start in range(0, len(some), at_once):
                    yield from self._run_group(some[start : start + at_once], crops, outside, cluster, decode)

    def run_views(
        self, models: Sequence[RequestedModel], detectors: Detectors, outcomes: Mapping[str, PredictOutcome]
    ) -> dict[str, PredictOutcome]:
        """Run the models that use boxes: first crops, then models whose answers are derived. Return all outcomes."""
        found = dict(outcomes)
        for view in dict.fromkeys(model.view.seen for model in models if isinstance(model.view, CropView)):
            same = [model for model in models if isinstance(model.view, CropView) and model.view.seen == view]
            found |= {done.name: done for done in self.run_cropped(same, detectors, found)}
        for model in models:
            if isinstance(model.view, BoxesView):
                found[model.name] = self.derive(model, model.view, detectors, found)
        return found

    def run_cropped(
        self, models: Sequence[RequestedModel], detectors: Detectors, outcomes: Mapping[str, PredictOutcome]
    ) -> Iterator[PredictOutcome]:
        """Run classifiers on the same crops."""
        view = models[0].view
        try:
            if self.source is None or not isinstance(view, CropView):
                raise ModelFailed("a crop needs images")
            _check_ran(detectors.name_of(view), outcomes)
            crops, outside = crops_of(view, self._dataset, self.source, detectors, self._progress)
        except StrobeError as error:
            yield from (self._failed(model, error) for model in models)
            return
        yield from self.run(models, crops, outside)

    def derive(
        self, model: RequestedModel, view: BoxesView, detectors: Detectors, outcomes: Mapping[str, PredictOutcome]
    ) -> PredictOutcome:
        """Derive a model's answers from the boxes of another."""
        if self._options.repeat > 1:
            source = printable(detectors.name_of(view))
            self._progress.note(f"{printable(model.name)} is not asked again: it uses the first boxes of {source}")
        try:
            _check_ran(detectors.name_of(view), outcomes)
            self._check_free(model)
            self._run.record(self._dataset, path=self._dataset.root or Path(), changes={})
            outcome = derive(
                model.name,
                view,
                detectors.held(view),
                self._run,
                FrameNames(self._dataset, self._run.path),
                retry_errors=self._options.retry_errors,
                progress=self._progress,
            )
        except StrobeError as error:
            return self._failed(model, error)
        return PredictOutcome(name=model.name, ok=True, outcome=outcome)

    def run_remedies(
        self, models: Sequence[RequestedModel], outcomes: Mapping[str, PredictOutcome], *, stage: Path | None
    ) -> tuple[dict[str, PredictOutcome], dict[str, dict[str, str]]]:
        """Try every remedy on the stored answers. Return all outcomes, and what run.json keeps of each remedy.

        A model of the command comes before its remedies.
        """
        done, made, names = dict(outcomes), dict[str, RemediedModel](), {model.spec: model.name for model in models}
        for model in models:
            if not isinstance(model.view, RemedyView) or model.name in done:
                continue
            source = names.get(model.view.source, model.view.source)
            try:
                if source in done and not done[source].ok:
                    raise ModelFailed(f"{printable(source)}: {without_name(source, done[source].error or 'failed')}")
                self._check_free(model)
                of = made.get(source) or self._run.models(self._dataset, only=[source], stage=stage)[0]
                remedied = RemediedModel.of(model.name, model.view.remedy, of)
                n_kept = int(remedied.load().scored.sum())
                made[model.name] = remedied
                done[model.name] = PredictOutcome(name=model.name, ok=True, outcome=ModelOutcome(n_kept=n_kept))
            except StrobeError as error:
                done[model.name] = self._failed(model, error)
        return done, {name: {"remedy": one.remedy.text, "of": one.source.name} for name, one in made.items()}

    def _failed(self, model: RequestedModel, error: StrobeError) -> PredictOutcome:
        if not self._alone:
            said = without_name(model.spec, str(error))
            self._progress.note(f"{printable(model.name)} cannot run and is skipped: {said}")
        return PredictOutcome(name=model.name, ok=False, error=str(error))

    def _check_free(self, one: RequestedModel) -> None:
        if one.name in brought_files(self._run.path):
            raise StrobeError(f"the run already has a file with this name; choose another with NAME={one.spec}")

    def _sent(self, cluster: "Cluster") -> "SentModels":
        from strobe.engine.worker_specs import SentModels

        return SentModels(self._dataset, cluster, self._load, merge=self._options.merge)

    def _asking(self, source: FrameSource) -> "RemoteWork":
        """Return how the models behind an address are asked, the same object for all of them."""
        if self._remote is None:
            self._remote = _requests().start(self._dataset, source, self._options, self._progress, self.stopping)
        return self._remote

    def _run_group(
        self,
        models: Sequence[RequestedModel],
        crops: Crops | None,
        outside: NDArray[np.int64] | None,
        cluster: "Cluster | None",
        decode: str,
    ) -> Iterator[PredictOutcome]:
        dataset, run, progress = self._dataset, self._run, self._progress
        options = replace(self._options, decode=decode)  # type: ignore[arg-type]  # a row of a list was checked
        loaded: dict[str, Classifier | Detector] = {}
        specs: dict[str, ModelSpec] = {}
        runners: list[Runner] = []
        remote: list[Runner] = []
        stores: dict[str, ModelShards] = {}
        frames, rows = FrameNames(dataset, run.path), np.unique(dataset.sets.frame)
        sent = None if cluster is None else self._sent(cluster)
        loaders = {one.name: one.live for one in models} if sent is None else sent.loaders(models)
        opens = options.workers != 1 and crops is None and cluster is None
        ahead = opened_ahead(self.source, dataset, self._load) if opens and self.source is not None else None
        for requested in models:
            name = requested.name
            try:
                self._check_free(requested)
                load = requested.load_options(self._load)
                runner = load_runner(
                    name,
                    requested.loaded,
                    load,
                    dataset.info.label_space,
                    merge=options.merge,
                    any_classes=requested.helper or of_a_model(dataset),
                    live=loaders[name],
                )
                if self.stopping is not None:
                    self.stopping.check_model(runner)
                if self.check is not None:
                    self.check(requested, runner.model.spec)
                requested.settings.check_applied(name, runner.model.spec.preprocessing)
                specs[name] = checked_spec(requested, runner.model.spec, crops)
                stores[name] = store_of(
                    dataset,
                    runner,
                    specs[name],
                    requested,
                    run,
                    frames,
                    progress,
                    decode=options.decode,
                    stop_early=options.stop_early,
                )
            except StrobeError as error:
                yield self._failed(requested, error)
                continue
            progress.note(preprocessing_line(name, specs[name]))
            if isinstance(runner.model, RemoteModel):
                remote.append(runner)
                continue
            loaded[name] = runner.model
            runners.append(runner)
            if options.decode == "device" and not runner.model.device.startswith("cuda"):
                why = spelled("<<decode=device>> is for models on CUDA")
                progress.note(f"{printable(name)}: frames are decoded exactly on the CPU, because {why}")
        if ahead is not None and not runners:
            ahead.close()
        if not (runners or remote) or self.source is None:
            return
        run.record(dataset, path=dataset.root or Path(), changes={})  # now, so that an interrupted run can be scored
        if outside is not None:
            rows = np.setdiff1d(rows, outside)
            for name, store in stores.items():
                write_outside(store, outside, model=name, n_classes=len(dataset.info.label_space))
        times = {one.name: 1 if one.helper else options.repeat for one in models}
        for runner in remote:
            outcome, early = self._asking(self.source).ask(runner, stores, rows, times, crops=crops, outside=outside)
            yield from self._reported({runner.name: outcome}, specs, {runner.name: early})
        if not runners:
            return
        n_cores = cores() if cluster is None else cluster.cores
        source = self.source
        if opens:
            source = faster_frames(source, dataset, loaded.values(), progress, ahead)
        engine = engine_options(
            options, loaded, n_cores, processes=decode_processes(options, loaded, source, n_cores), source=source
        )
        run_over = partial(
            run_models,
            source=source_for(source, engine, crops),
            frame_names=dataset.frames.key.tolist(),
            as_input=inputs_of(dataset, crops),
        )
        if sent is not None:
            known = {name: model.spec for name, model in loaded.items()}
            ran = [one for one in models if one.name in loaded]
            run_over = partial(run_over, elsewhere=sent.workers(ran, engine, self.source, crops=crops, known=known))
        stopped: dict[str, StoppedEarly | None] = {}
        with sharing_cores(loaded.values()):
            if self.stopping is None:
                over = partial(run_over, rows=rows, options=engine, progress=progress)
                outcomes = over(runners, stores)
                if any(times[one.name] > 1 for one in runners):
                    from strobe.engine.repeating import ask_again

                    ask_again(over, outcomes, runners, stores, times, outside)
            else:
                once, (runner,) = replace(engine, retry_errors=False), runners
                outcome, stopped[runner.name] = self.stopping.run(
                    runner,
                    stores[runner.name],
                    self.source,
                    progress,
                    retry=engine.retry_errors,
                    over=lambda some, inner: run_over([runner], stores, rows=some, options=once, progress=inner)[
                        runner.name
                    ],
                )
                outcomes = {runner.name: outcome}
        exactly = options.decode == "cpu" and source is self.source
        say_decoded(source, dataset, loaded.values() if exactly else (), progress)
        yield from self._reported(outcomes, specs, stopped)

    def _reported(
        self,
        outcomes: Mapping[str, ModelOutcome],
        specs: Mapping[str, ModelSpec],
        stopped: Mapping[str, StoppedEarly | None],
    ) -> Iterator[PredictOutcome]:
        progress = self._progress
        for name, outcome in outcomes.items():
            if outcome.error is not None:
                if not self._alone:
                    progress.note(f"{printable(name)} failed and is skipped: {without_name(name, outcome.error)}")
            elif outcome.n_unreadable:
                first = f"; the first error: {printable(outcome.first_problem)}" if outcome.first_problem else ""
                progress.note(
                    f"{printable(name)}: {outcome.n_unreadable} frame(s) have no answer and are unscored{first}"
                )
            if not self._alone and (early := stopped.get(name)) is not None:
                progress.note(f"{printable(name)}: stopped early, {early.text()}")
            yield PredictOutcome(
                name=name,
                ok=outcome.error is None,
                error=outcome.error,
                spec=specs[name],
                outcome=outcome,
                stopped=stopped.get(name),
            )


def _check_ran(detector: str, outcomes: Mapping[str, PredictOutcome]) -> None:
    """Raise if the detector that a model depends on failed."""
    if detector in outcomes and not outcomes[detector].ok:
        meant = "; did you mean truth, the dataset's own boxes?" if get_close_matches(detector, ["truth"]) else ""
        why = without_name(detector, outcomes[detector].error or "failed")
        raise ModelFailed(f"its detector {printable(detector)}: {why}{meant}")
