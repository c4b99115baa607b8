"""Run models over datasets: `predict` returns answers, `evaluate` also scores them and writes the report.

A model is a name (`timm:resnet50.a1_in1k`, `py:mine.py:make`), a torch module, a timm model, a function of images, or
an object with the methods of `strobe.Classifier` or `strobe.Detector`. These functions use the same engine, run folders
and cache as the command line.
"""

import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from strobe.api.words import as_path, in_python, opened, root_of, space_given, watching
from strobe.core.answers import BoxAnswers, ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, expect, printable, without_name
from strobe.core.labels import LabelSpace
from strobe.core.ports import Classifier, Detector, Progress
from strobe.engine.running import Running

if TYPE_CHECKING:
    from strobe.api.faces import Evaluated
    from strobe.engine.engine import PredictOutcome
    from strobe.models.plan import ImagePlan
    from strobe.models.requested import RequestedModel


Transform = Callable[[Any], Any]


@in_python
def load_model(name: str, *, running: Running | None = None) -> Classifier | Detector:
    """Load a model by name, ready to run.

    `model.forward([model.prepare(image), …])` returns the answers for 8-bit RGB arrays. `model.spec` has the model's
    classes, preprocessing and the digest of its weights.

    Args:
        name: The name as on the command line, e.g. timm:resnet50.a1_in1k.
        running: Device, precision and other options.

    Returns:
        A classifier or a detector.

    Raises:
        StrobeError: The name is unknown, a package is missing, or the weights cannot be loaded.

    >>> import strobe
    >>> model = strobe.load_model("strobe-world", running=strobe.Running(device="cpu", offline=True))
    >>> len(model.spec.label_space)
    12
    """
    from strobe.models.registry import load_model as load

    return load(name, (running or Running()).loading())


@in_python
def predict(
    dataset: Dataset | str | Path,
    model: Any,
    *,
    transform: "Transform | ImagePlan | None" = None,
    labels: Sequence[str] | LabelSpace | str | None = None,
    name: str | None = None,
    out: str | Path | None = None,
    kind: Literal["auto", "logits", "probabilities"] = "auto",
    version: str | None = None,
    device: str = "auto",
    batch_size: int | None = None,
    running: Running | None = None,
    progress: bool | Progress = False,
) -> ClassAnswers | BoxAnswers:
    """Run a model over every frame of the dataset's sets and return its answers in the dataset's classes.

    Answers in a run folder are cached by weights, code and transform, so one model never gets the answers of another.
    If strobe cannot read the weights, code or transform, it runs the model again, unless `version` identifies the
    model.

    Args:
        dataset: A dataset, or its folder.
        model: A name as on the command line, a torch module, a timm model or a function. A function gets a list of
            8-bit RGB arrays or, with `transform`, a batch of tensors. It returns scores (N, classes), or boxes, labels
            and scores for each image.
        transform: The preprocessing of a module or function: a function from a PIL image to a tensor (torchvision's
            `weights.transforms()`, timm's `create_transform(…)`), or a `strobe.ImagePlan`. timm models have their own.
        labels: The classes of the outputs in order. Default: ilsvrc-2012 for a thousand outputs, or the dataset's
            classes in their order if the numbers match.
        name: The model's name. Default: its architecture, or the name of its function or class.
        out: A run folder that caches the answers. Calling it again does only the missing work.
        kind: Whether the outputs are logits or probabilities.
        version: Any text that identifies the model if its weights or code cannot be read.
        device: auto, cpu, cuda, cuda:1 or mps.
        batch_size: Images per batch. Default: chosen by the model's size.
        running: Further options.
        progress: True shows a progress bar.

    Returns:
        The answers to all frames. Pass them to `strobe.score`.

    Raises:
        StrobeError: The model cannot be loaded, or its outputs do not match the dataset.

    >>> import tempfile, numpy as np, strobe
    >>> with tempfile.TemporaryDirectory() as tmp:
    ...     dataset = strobe.synthesize(f"{tmp}/world", videos=2, k=1, size=32)
    ...     answers = strobe.predict(dataset, lambda images: np.eye(12)[[3] * len(images)], name="always class 3")
    >>> answers.label.tolist()
    [3, 3, 3, 3, 3, 3]
    """
    from strobe.store.run_folder import Run
    from strobe.workflows.predict import predict as run

    data = opened(dataset)
    options = _options(running, device, batch_size)
    asked = _asked(model, name, transform=transform, labels=labels, kind=kind, version=version, trust=options.trust)
    expect(len(asked) == 1, "model", "one model (strobe.evaluate takes several)", [one.name for one in asked])
    with tempfile.TemporaryDirectory(prefix="strobe-") as temporary:
        path = Path(temporary) / "run" if out is None else Path(out)
        outcomes = run(_candidates(data), asked, path, options, watching(progress))
        if not outcomes[0].ok:
            raise StrobeError(_why(outcomes[0]))
        return Run(path).models(data, only=[outcomes[0].name])[0].load()


@in_python
def evaluate(
    dataset: Dataset | str | Path | Sequence[str | Path],
    models: Any,
    out: str | Path,
    *,
    transform: "Transform | ImagePlan | None" = None,
    labels: Sequence[str] | LabelSpace | str | None = None,
    k: int | None = None,
    every: int | None = None,
    label_space: str | Path | Sequence[str] | LabelSpace | None = None,
    interval: Literal["auto", "clopper-pearson"] = "auto",
    seed: int = 0,
    device: str = "auto",
    batch_size: int | None = None,
    running: Running | None = None,
    report: bool = True,
    videos: str | Path | None = None,
    progress: bool | Progress = False,
) -> "Evaluated":
    """Run models over a dataset or over videos, score them and write the report.

    Calling it again does only the missing work. A new model is added to the models of the run. Videos need no labels:
    sets that cover each video are made in the run folder, and the answers are compared with each other. A video that
    cannot be used is skipped with a warning.

    Args:
        dataset: A dataset, its folder, or videos: files, or folders that are searched for videos.
        models: One model, a list of models, or a dict by name. Each is a model as for `strobe.predict`, or the answers
            that `strobe.predict` returned. In a list, a text may also be a glob or a model list (`@mine.toml`), and a
            dict is a row of a model list: `{"model": "timm:resnet50", "name": "bf16", "precision": "bfloat16"}`.
        out: The run folder.
        transform: The preprocessing of modules and functions, as for `strobe.predict`.
        labels: The classes of modules and functions, as for `strobe.predict`.
        k: The largest distance from the anchor. Default: the dataset's k, or 10 for videos.
        every: For videos: place an anchor every `every` frames. Default: 2k + 1, so that sets share no frame.
        label_space: For videos: a shipped label space, a file of classes, or the classes. Default: the classes of the
            first model.
        interval: `clopper-pearson` gives the intervals of the papers. `auto` accounts for videos with several sets.
        seed: Seed of the bootstrap.
        device: auto, cpu, cuda, cuda:1 or mps.
        batch_size: Images per batch. Default: chosen by the model's size.
        running: Further options.
        report: Write report.html.
        videos: A text file of video names to score on, or "all". Default: the videos that the run was scored on before.
        progress: True shows a progress bar.

    Returns:
        The scores by model, the path of the report, and the models that failed. A model that fails does not stop the
        rest.

    Raises:
        StrobeError: The dataset cannot be read, no model could be scored, or the arguments contradict each other.

    >>> import tempfile, strobe
    >>> with tempfile.TemporaryDirectory() as tmp:
    ...     data = strobe.load_dataset(strobe.save_dataset(strobe.example_dataset(), f"{tmp}/data"))
    ...     answers = strobe.ClassAnswers.from_labels("always cat", [0] * len(data.frames))
    ...     evaluated = strobe.evaluate(data, answers, f"{tmp}/run", report=False)
    >>> round(evaluated["always cat"].acc_pmk.value, 3)
    0.625
    """
    from strobe.analyses.plan import ScoreOptions
    from strobe.api.faces import Evaluated, shown, warn_of
    from strobe.store.opening import Opened
    from strobe.store.run_folder import Run
    from strobe.workflows.evaluate import evaluate as run
    from strobe.workflows.evaluate import given_dataset
    from strobe.workflows.options import VideoOptions
    from strobe.workflows.score import ScoreRunOptions

    subset = as_path(videos)
    if isinstance(dataset, Dataset):
        sources = [root_of(dataset)]
    else:
        sources = [Path(dataset)] if isinstance(dataset, str | Path) else [Path(one) for one in dataset]
    folder = given_dataset(sources)
    opened = None if folder is None else Opened.of(folder, subset=subset, run=Run(Path(out)))
    data = None if opened is None else opened.dataset
    if isinstance(dataset, Dataset) and opened is not None and dataset.digest() != opened.dataset.digest():
        if videos is None and opened.subset is not None:
            raise StrobeError(
                f"{printable(out)} was scored on {opened.subset.text}, not on the dataset passed; pass the dataset's "
                'folder instead, or videos="all" for every video'
            )
        raise StrobeError(
            f"the dataset passed differs from the one in {printable(folder)}; pass the folder, "
            "and videos=FILE for a part of it"
        )
    named: list[tuple[str | None, Any]]
    if isinstance(models, Mapping):
        named = [(str(name), model) for name, model in models.items()]
    else:
        named = [(None, model) for model in (models if isinstance(models, list | tuple) else [models])]
    expect(len(named) > 0, "models", "at least one", 0)
    prediction = _options(running, device, batch_size)
    trust = prediction.trust
    requested = [
        one
        for name, model in named
        for one in _asked(
            model,
            name,
            transform=transform,
            labels=labels,
            kind="auto",
            version=None,
            data=data,
            trust=trust,
            several=True,
        )
    ]
    request = ScoreRunOptions(
        options=ScoreOptions(k=k, interval=interval, seed=seed), merge=prediction.merge, subset=subset
    )
    done = run(
        sources,
        requested,
        Path(out),
        prediction=prediction,
        request=request,
        progress=watching(progress),
        with_report=report,
        videos=VideoOptions(every=every, label_space=space_given(label_space)),
    )
    for problem in done.skipped:
        warnings.warn(f"skipped: {problem}", stacklevel=3)
    sets = {score.model: score for score in done.sets}
    scores: dict[str, Any] = {
        name: shown(found, done.dataset, sets[name], done.results.dataset)  # type: ignore[call-overload]  # it was just scored, so its model is known
        for name, found in done.results.models.items()
    }
    for score in scores.values():
        warn_of(score, done.results.dataset)
    return Evaluated(
        run=Path(out),
        scores=scores,
        results=done.results,
        report=done.report,
        no_report=done.no_report,
        failed={score.name: _why(score) for score in done.failed},
        left_out=done.left_out,
    )


def _why(outcome: "PredictOutcome") -> str:
    """Return the error of a failed model. The model's name appears once, at the start."""
    reason = without_name(f"live:{outcome.name}", without_name(outcome.name, outcome.error or "failed"))
    return f"{printable(outcome.name)}: {reason}"


def _options(running: Running | None, device: str, batch_size: int | None) -> Running:
    options = running or Running()
    if device != "auto":
        options = replace(options, device=device)
    return replace(options, batch_size=batch_size or options.batch_size)


def _asked(
    model: Any,
    name: str | None,
    *,
    transform: Any,
    labels: Any,
    kind: Literal["auto", "logits", "probabilities"],
    version: str | None,
    data: Dataset | None = None,
    trust: bool = False,
    several: bool = False,
) -> "list[RequestedModel]":
    """Return a model, or the models of a glob or a list, as records that the workflows take.

    If a call has `several` models, `transform` and `labels` apply to the models that have none of their own.
    """
    from strobe.models.live import Live
    from strobe.models.requested import RequestedModel, requested_models

    if isinstance(model, str | Mapping):
        if (transform is not None or labels is not None or version is not None) and not several:
            raise StrobeError(
                f"{printable(model)}: a model given by name has its own transform, labels and version; "
                "remove these arguments"
            )
        row = {**model, "name": name} if name and isinstance(model, Mapping) else model
        return requested_models([f"{name}={model}" if name and isinstance(model, str) else row], trust=trust)
    if isinstance(model, ClassAnswers | BoxAnswers):
        called = name or model.model or "model"
        if data is not None:
            from strobe.api.given import answers_of
            from strobe.formats.prediction_files import FileOptions

            model = answers_of(model, data, FileOptions(), name=called).answers
        return [RequestedModel(called, "answers", answers=model)]
    called = printable(name or _name_of(model)).strip() or "model"
    live = Live(model=model, name=called, transform=transform, labels=labels, kind=kind, version=version)
    return [RequestedModel(called, f"live:{called}", live=live)]


def _name_of(model: Any) -> str:
    """Return the name of a model object: its timm architecture, or the name of its function or class.

    >>> _name_of(lambda images: images), _name_of(_name_of)
    ('model', '_name_of')
    """
    spec = getattr(model, "spec", None)
    config = getattr(model, "pretrained_cfg", None)
    architecture = config.get("architecture") if isinstance(config, Mapping) else getattr(config, "architecture", None)
    found = getattr(spec, "name", None) or architecture or getattr(model, "__name__", None) or type(model).__name__
    return "model" if found == "<lambda>" else str(found)


def _candidates(dataset: Dataset) -> Dataset:
    """Return all candidates of a reviewed dataset's videos, because smoothing also uses rejected frames."""
    from strobe.store import dataset_folder as folder

    if dataset.root is None or not dataset.verdicts or not folder.is_dataset(dataset.root):
        return dataset
    candidates = folder.read(dataset.root)
    if candidates.frames_digest() != dataset.frames_digest():
        return dataset
    return candidates.only_videos(set(dataset.videos.video_id[dataset.video_of_set].tolist()))
