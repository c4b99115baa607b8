"""The stores of models' answers: their shards in the run, and how they were made."""

from typing import Any

from strobe.core.dataset import Dataset
from strobe.core.errors import printable
from strobe.core.ports import Progress
from strobe.core.records import ModelSpec
from strobe.core.tasks import Task
from strobe.models.device_decode import DECODED
from strobe.models.requested import RequestedModel
from strobe.models.testbed import tags_of
from strobe.predict.forward import Runner
from strobe.runs.folder import Run
from strobe.runs.frames import FrameNames
from strobe.runs.shards import ModelShards, facts_of, shard_models

__all__ = ["store_of"]


def store_of(
    dataset: Dataset,
    runner: Runner,
    spec: ModelSpec,
    one: RequestedModel,
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
    model_type, standard = tags_of(one.spec)
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
            # The sum of probabilities is stored as its logarithm, so the shards rank like logits.
            "kind": "logits" if runner.merge == "sum" else spec.kind,
            "label_space": label_space.digest,
            "model_type": model_type,
            "standard": standard,
            "childless": [label_space.names[place] for place in runner.projection.childless],
            **({"helper": True} if one.helper and not _was_asked(run, runner.name) else {}),
            **({"view": "crop"} if one.view is not None else {}),
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


def _was_asked(run: Run, name: str) -> bool:
    """Whether a model of the run was requested for itself, and not only to serve another model."""
    return name in shard_models(run.path) and not facts_of(run.path, name).get("helper")
