"""Load a model, open the store of its answers, and choose how its frames are decoded and sharded."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.errors import ModelFailed, StrobeError, printable, spelled
from strobe.core.labels import LabelSpace, Projection
from strobe.core.late import Registry
from strobe.core.ports import (
    Classifier,
    Detector,
    DeviceSource,
    EncodedClassifier,
    FrameSource,
    Model,
    Progress,
    RemoteModel,
    SendableSource,
)
from strobe.core.projections import projection_between
from strobe.core.records import ModelSpec
from strobe.core.tasks import Task
from strobe.engine.forward import Runner
from strobe.engine.views import Crops
from strobe.engine.worker import EngineOptions
from strobe.models.cores import device_kind, quick_source
from strobe.models.crops import CropsClassifier
from strobe.models.options import DECODERS, LoadOptions, torch_setup
from strobe.models.registry import load_model
from strobe.models.requested import RequestedModel
from strobe.models.runtimes import RUNTIMES
from strobe.models.testbed import tags_of
from strobe.store.frame_names import FrameNames
from strobe.store.run_folder import Run
from strobe.store.shards import ModelShards, facts_of, shard_models

if TYPE_CHECKING:
    from strobe.engine.running import Running


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
    seen = runner.model.seen if isinstance(runner.model, CropsClassifier) else None
    model_type, standard = tags_of(model.spec) if seen is None else (None, False)
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
        run.path,
        runner.name,
        facts=facts,
        frames=frames,
        task=task,
        n_classes=len(label_space),
        every_box=task is Task.DETECTION and not runner.projection.is_identity,
        note=progress.note,
    )
    line = store.describe(
        {
            **facts,
            "frames_digest": frames.digest,
            # The sum of probabilities is stored as its logarithm, so that stored values rank like logits.
            "kind": "logits" if runner.merge == "sum" else spec.kind,
            "label_space": label_space.digest,
            "model_type": model_type,
            "standard": standard,
            **({"readings": json.dumps(spec.readings)} if spec.readings else {}),
            "childless": [label_space.ids[place] for place in runner.projection.childless],
            **({"helper": True} if model.helper and not _was_asked(run, runner.name) else {}),
            **({"view": "crop"} if model.view is not None else {} if seen is None else {"view": "remedy", **seen}),
            **({"stopped_early": True} if stop_early else {}),
            **({"remote": True} if isinstance(runner.model, RemoteModel) else {}),
            "batch_size": spec.batch_size,
            **({"runtime": runtime} if (runtime := getattr(runner.model, "runtime", "")) else {}),
            **({"size": spec.size} if spec.size is not None else {}),
            **{**spec.form, **model.form},
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
    return DECODERS[decode].version


def of_a_model(dataset: Dataset) -> bool:
    """Return whether the dataset has the classes of a model, because it was made from videos without labels."""
    return dataset.info.provenance.get("classes_of") is not None


def _check_classes(dataset: Dataset, runner: Runner) -> None:
    """If the dataset has the classes of one model, raise an error for a model with other classes.

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
            "this run uses; choose another folder with <<out>>, or start a run with <<label_space>> and classes that "
            "all models have"
        )


def _was_asked(run: Run, name: str) -> bool:
    """Return whether the user requested a model of the run. Other models ran only because a model needed them."""
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
    if load.backend in RUNTIMES and load.backend != model.spec.preprocessing.get("backend"):
        raise StrobeError(
            f"{printable(name)}: <<backend={load.backend}>> only works in float32, with bundled models, ONNX files and "
            "torch classifiers whose preprocessing is resize, crop and normalise; run this model without <<backend>>"
        )
    own_words = hasattr(model, "compile") or "compiled" in model.spec.preprocessing  # such a model prints a note itself
    if load.compile and load.progress is not None and not own_words:
        why = spelled("<<compile>> only works with torch classifiers")
        load.progress.note(f"{printable(name)}: it is not compiled, because {why}")
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
    quick = source if engine.processes or isinstance(source, DeviceSource) else quick_source(source)
    return quick if crops is None else crops.of(quick)


def inputs_of(dataset: Dataset, crops: Crops | None = None) -> list[int]:
    """Return the rows that are already a model's input: those marked in the dataset, and those cropped for it."""
    return np.flatnonzero(dataset.frames.as_input.astype(bool) | (crops is not None)).tolist()


@dataclass(frozen=True, slots=True)
class FasterFrames:
    """A way to read frames faster than from the source of a dataset, with the same pixels.

    `open(source, dataset, device, few)` returns the faster source, or None if it cannot help, and a note for the user.
    All models run on this device. If it should keep `few` frames in memory, they are large and slowly used.
    `might_help` tells quickly, without a device, whether it is worth opening.
    """

    open: Callable[[FrameSource, Dataset, str, bool], tuple[FrameSource | None, str]]
    might_help: Callable[[FrameSource], bool]


FASTER_FRAMES = Registry("frames", FasterFrames, "source of frames", {}, closed=True)
"""Every such way by name; annexes bring them."""


@dataclass(frozen=True, slots=True)
class OpenedFrames:
    """A source of frames for the models of a device, and a note on it."""

    source: FrameSource
    device: str
    note: str = ""

    def noted(self, say: Progress) -> FrameSource:
        """Print the note and return the source."""
        if self.note:
            say.note(self.note)
        return self.source

    def close(self) -> None:
        """Release the device's memory."""
        if isinstance(self.source, DeviceSource):
            self.source.close()


def opened_frames(device: str, source: FrameSource, dataset: Dataset, *, few: bool = False) -> OpenedFrames:
    """Open the fastest source of the same frames for this device (see FasterFrames)."""
    for name in FASTER_FRAMES:
        faster, note = FASTER_FRAMES[name].open(source, dataset, device, few)
        if faster is not None or note:
            return OpenedFrames(faster or source, device, note)
    return OpenedFrames(source, device)


def opened_ahead(source: FrameSource, dataset: Dataset, load: LoadOptions) -> OpenedFrames | None:
    """Open the fastest source before the models are loaded, for the device that they will run on."""
    if load.device == "cpu" or not any(FASTER_FRAMES[name].might_help(source) for name in FASTER_FRAMES):
        return None
    return opened_frames(torch_setup(load).device, source, dataset)


def faster_frames(
    source: FrameSource, dataset: Dataset, models: Iterable[Model], say: Progress, ahead: OpenedFrames | None = None
) -> FrameSource:
    """Return the fastest source of the same frames for these models: the one opened ahead, if it suits them."""
    given = list(models)
    devices = {model.device for model in given}
    few = any(Task(model.spec.task) is Task.DETECTION for model in given)
    if ahead is None or few or devices != {ahead.device}:
        if ahead is not None:
            ahead.close()
        if len(devices) > 1:
            return source
        ahead = opened_frames(devices.pop(), source, dataset, few=few)
    return ahead.noted(say)


def say_decoded(source: FrameSource, dataset: Dataset, exactly: Iterable[Model], say: Progress) -> None:
    """Print notes on how frames were decoded, if needed, and release the GPU's memory.

    One note names the videos that the CPU decoded instead of the GPU, and the reason. If the CPU decoded files
    `exactly` for some of these models, a note mentions the faster option.
    """
    if any(model.device.startswith("cuda") and isinstance(model, EncodedClassifier) for model in exactly):
        faster = spelled("<<decode=device>> is much faster for JPEG frames")
        say.note(f"frames were decoded exactly on the CPU; {faster}")
    if not isinstance(source, DeviceSource):
        return
    source.close()
    by_reason: dict[str, list[int]] = defaultdict(list)
    for video, reason in sorted(source.handed_over.items()):
        by_reason[reason].append(video)
    for reason, videos in by_reason.items():
        first = printable(dataset.videos.name[videos[0]])
        more = f" and {len(videos) - 1} more" if len(videos) > 1 else ""
        say.note(f"{first}{more}: decoded on the CPU, not by the GPU's engines: {reason}")


def decode_processes(
    options: "Running", models: dict[str, Classifier | Detector], source: FrameSource, n_cores: int
) -> int:
    """Return the number of decoding processes, or 0 for threads.

    Processes pay off if the models leave many cores free.
    """
    free = all(model.device != "cpu" and model.preparation is not None for model in models.values())
    return reading_processes(source, options.workers or n_cores, n_cores) if free else 0


def reading_processes(source: FrameSource, wanted: int, n_cores: int, *, least: int = 4) -> int:
    """Return how many of the wanted processes can read this source. They pay off from `least` cores on."""
    if isinstance(source, DeviceSource) or not isinstance(source, SendableSource) or n_cores < least or wanted < 2:
        return 0
    from strobe.engine.decode_pool import can_start_workers

    return wanted if can_start_workers() else 0


def engine_options(
    options: "Running",
    models: dict[str, Classifier | Detector],
    n_cores: int,
    *,
    processes: int,
    source: FrameSource,
) -> EngineOptions:
    """Return the engine's options for these models and this source of frames."""
    in_order = not isinstance(source, SendableSource)
    waiting = source.threads if isinstance(source, DeviceSource) else 0
    largest = max(model.spec.batch_size for model in models.values())
    on_gpu = any(model.device != "cpu" for model in models.values())
    fast = waiting and not any(Task(model.spec.task) is Task.DETECTION for model in models.values())
    # If each thread took several frames of a video, threads would be far apart in it, and the frames between them would
    # use memory. Otherwise a GPU's threads take at most half a batch: detector batches are small, and each frame is
    # sent and stored in full size.
    chunk = 1 if in_order else max(1, min(16, largest // 2)) if on_gpu else 4
    return EngineOptions(
        # Slow models get smaller shards, because an interruption loses one shard.
        shard_size=options.shard_size or (8192 if fast else 2048 if on_gpu else max(64, min(512, 128 * largest))),
        threads=waiting or options.workers or max(2, n_cores),
        processes=processes,
        chunk=chunk,
        ahead=2 * waiting or max(8, 2 * processes, (2 if processes else 3) * largest // chunk),
        on_device=options.decode == "device" and not waiting,
        retry_errors=options.retry_errors,
        in_flight=3 if fast else 2 if on_gpu else 1,
    )
