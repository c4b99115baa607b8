"""The stores of models' answers: their shards in the run, and the facts that the answers depend on."""

from dataclasses import replace
from typing import Any

from strobe.core.dataset import Dataset
from strobe.core.errors import ModelFailed, printable
from strobe.core.ports import Progress
from strobe.core.records import ModelSpec
from strobe.core.tasks import Task
from strobe.models.device_decode import DECODED
from strobe.models.requested import RequestedModel
from strobe.models.testbed import tags_of
from strobe.predict.crops import Crops
from strobe.predict.forward import Runner
from strobe.runs.folder import Run
from strobe.runs.frames import FrameNames
from strobe.runs.shards import ModelShards, facts_of, shard_models

__all__ = ["checked_spec", "of_a_model", "preprocessing_line", "store_of"]


def store_of(
    dataset: Dataset,
    runner: Runner,
    spec: ModelSpec,
    model: RequestedModel,
    run: Run,
    frames: FrameNames,
    progress: Progress,
    *,
    decode: str,
    stop_early: bool,
) -> ModelShards:
    """Return the store of a model's answers in the run and write its model.json.

    Other checkpoints keep their own store.
    """
    if not model.helper:
        _check_classes(dataset, runner)
    label_space = dataset.info.label_space
    model_type, standard = tags_of(model.spec)
    facts: dict[str, Any] = {
        "weights": spec.weights,
        "preprocessing": dict(spec.preprocessing),
        "kind": spec.kind,
        "projection": runner.projection.digest,
        "merge": runner.merge,
        "decode": DECODED if decode == "device" else decode,
    }
    task = Task(spec.task)
    store = ModelShards(
        run.path, runner.name, facts=facts, frames=frames, task=task, n_classes=len(label_space),
        every_box=task is Task.DETECTION and not runner.projection.is_identity, note=progress.note,
    )  # fmt: skip
    line = store.describe(
        {
            **facts,
            "frames_digest": frames.digest,
            # The sum of probabilities is stored as its logarithm, so that stored values rank like logits.
            "kind": "logits" if runner.merge == "sum" else spec.kind,
            "label_space": label_space.digest,
            "model_type": model_type,
            "standard": standard,
            "childless": [label_space.names[place] for place in runner.projection.childless],
            **({"helper": True} if model.helper and not _was_asked(run, runner.name) else {}),
            **({"view": "crop"} if model.view is not None else {}),
            **({"stopped_early": True} if stop_early else {}),
            "spec": {
                "name": spec.name,
                "provider": spec.provider,
                "kind": spec.kind,
                "label_space": spec.label_space.to_json(),
            },
        }
    )
    if line is not None:
        progress.note(f"{printable(runner.name)}: {line}")
    return store


def of_a_model(dataset: Dataset) -> bool:
    """Return whether the dataset has the classes of a model, because it was made from videos without labels."""
    return dataset.info.provenance.get("classes_of") is not None


def _check_classes(dataset: Dataset, runner: Runner) -> None:
    """Raise an error if the dataset has the classes of a model, and this model has others.

    A detector may have further classes, whose boxes are ignored.
    """
    if not of_a_model(dataset):
        return
    spec, children = runner.model.spec, runner.projection.children
    if Task(spec.task) is Task.DETECTION:
        fits = any(children)
    else:
        fits = sorted(children) == [(place,) for place in range(len(spec.label_space))]
    if not fits:
        raise ModelFailed(
            f"{printable(runner.name)}: its {len(spec.label_space):,} classes are not the "
            f"{len(dataset.info.label_space):,} classes of {printable(dataset.info.provenance['classes_of'])}, which "
            "this run uses; choose another folder with -o, or start a run with --label-space and classes that all "
            "models have"
        )


def _was_asked(run: Run, name: str) -> bool:
    """Return whether a model of the run was requested, and was not only run for another model."""
    return name in shard_models(run.path) and not facts_of(run.path, name).get("helper")


def checked_spec(model: RequestedModel, spec: ModelSpec, crops: Crops | None) -> ModelSpec:
    """Return the model's spec with its view. Only classifiers see crops, and only detectors provide boxes."""
    if crops is not None and Task(spec.task) is not Task.CLASSIFICATION:
        raise ModelFailed(
            f"{printable(model.name)}: crop: only works with classifiers, and {printable(spec.name)} is a detector"
        )
    if model.helper and Task(spec.task) is not Task.DETECTION:
        raise ModelFailed(f"{printable(model.name)}: it is not a detector, so it has no boxes to use")
    return spec if crops is None else replace(spec, preprocessing={**spec.preprocessing, **crops.said})


def preprocessing_line(name: str, spec: ModelSpec) -> str:
    """Return the model's preprocessing, batch size and weights in one line."""
    facts = {key: value for key, value in spec.preprocessing.items() if value is not None and key != "plugin_sha256"}
    settings = " ".join(", ".join(f"{key}={value}" for key, value in facts.items()).split())
    return f"{printable(name)}: {settings}; batch {spec.batch_size}; weights {spec.weights[:12]}"
