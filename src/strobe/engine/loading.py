"""Load a model, choose how it reads frames, and open the store of its answers, with the facts that these depend on."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.errors import ModelFailed, StrobeError, printable
from strobe.core.labels import LabelSpace, Projection
from strobe.core.ports import Classifier, Detector, DeviceSource, FrameSource, Progress
from strobe.core.projections import projection_between
from strobe.core.records import ModelSpec
from strobe.core.tasks import Task
from strobe.engine.engine import EngineOptions
from strobe.engine.forward import Runner
from strobe.engine.views import Crops
from strobe.models.cores import device_kind, quick_source
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.models.requested import RequestedModel
from strobe.models.testbed import tags_of
from strobe.store.run_folder import Run
from strobe.store.shards import FrameNames, ModelShards, facts_of, shard_models

__all__ = ["checked_spec", "preprocessing_line", "store_of"]


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
    label_space = dataset.info.label_space
    model_type, standard = tags_of(model.spec)
    facts: dict[str, Any] = {
        "weights": spec.weights,
        "preprocessing": dict(spec.preprocessing),
        "kind": spec.kind,
        "projection": runner.projection.digest,
        "merge": runner.merge,
        "decode": _decoding(decode),
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


def _decoding(decode: str) -> str:
    """Return the decoding method with its version."""
    if decode != "device":
        return decode
    from strobe.models.device_decode import DECODED

    return DECODED


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
    """Load a model by its spec, or take the model that a program passed, and add the map to the dataset's classes.

    With `any_classes`, the model may have none of these classes.
    """
    options = replace(load, label_space=label_space)
    model = load_model(spec, options) if live is None else live(options)
    if load.backend != "torch" and model.spec.preprocessing.get("backend") != load.backend:
        raise StrobeError(
            f"{printable(name)}: --backend {load.backend} only works with torch classifiers in float32 whose "
            "preprocessing is "
            "resize, crop and normalise; run this model without --backend"
        )
    own_words = hasattr(model, "compile") or "compiled" in model.spec.preprocessing  # such a model prints a note itself
    if load.compile and load.progress is not None and not own_words:
        load.progress.note(
            f"{printable(name)}: it is not compiled, because --compile only works with torch classifiers"
        )
    own = model.spec.label_space
    try:
        projection = projection_between(own, label_space)
    except StrobeError:
        if not any_classes:
            raise
        projection = Projection(source=own, target=label_space, children=((),) * len(label_space))
    return Runner(name=name, model=model, projection=projection, merge=merge, made_on=device_kind(model.device))


def source_for(source: FrameSource, engine: EngineOptions, crops: Crops | None = None) -> FrameSource:
    """Return the frames in the form that the engine reads fastest. They are cropped if requested.

    Decoding processes receive the source itself.
    """
    quick = source if engine.decode.processes or isinstance(source, DeviceSource) else quick_source(source)
    return quick if crops is None else crops.of(quick)


def inputs_of(dataset: Dataset, crops: Crops | None = None) -> list[int]:
    """Return the rows that are already a model's input: those marked in the dataset, and those cropped for it."""
    return np.flatnonzero(dataset.frames.as_input.astype(bool) | (crops is not None)).tolist()
