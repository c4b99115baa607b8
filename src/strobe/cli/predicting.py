"""The options every command that runs models shares, handed over as one PredictOptions."""

from pathlib import Path
from typing import Any

import click

from strobe.cli.common import options, progress

__all__ = [
    "engine_options",
    "loading_options",
    "merge_option",
    "model_option",
    "model_or_people_option",
    "predicting_options",
]

_MODEL = (
    "[NAME=]provider:name[@weights], a glob, boxes:DETECTOR, crop:FROM:MODEL, preds:FILE or @testbed; may be repeated. "
    "See strobe models."
)

model_option = click.option("-m", "--model", "models", multiple=True, required=True, metavar="MODEL", help=_MODEL)
model_or_people_option = click.option(
    "-m", "--model", "models", multiple=True, metavar="MODEL",
    help=f"{_MODEL} May be left out where people named the images.",
)  # fmt: skip

merge_option = click.option(
    "--merge", type=click.Choice(["max", "mean", "sum"]), default="max", show_default=True,
    help="How several of the model's classes become one: raw max, raw mean, log of summed probability.",
)  # fmt: skip


_DEVICE = (
    click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1 or mps."),
    click.option("--batch-size", type=click.IntRange(1), help="Images at once; default: by the model's size."),
    click.option(
        "--precision", type=click.Choice(["auto", "float32", "bfloat16", "float16"]), default="auto",
        show_default=True, help="auto: float32; bfloat16 is faster on CUDA and changes some answers.",
    ),
    click.option("--image-size", type=click.IntRange(8, 8192), help="Another input size than the model's own."),
    click.option("--model-settings", "settings", type=click.Path(path_type=Path), metavar="JSON",
                 help="What a model cannot say itself: all of it for ONNX, labels for timm, torchvision, hf."),
)  # fmt: skip
_TRUST = (
    click.option("--deterministic", is_flag=True, help="Same bits run after run on one machine; slower on a GPU."),
    click.option("--trust", is_flag=True, help="Load weights that may run code. Only for files you trust."),
    click.option("--offline", is_flag=True, help="Download nothing."),
)


def _loading(**load: Any) -> Any:
    from strobe.models.cores import share_one_heap
    from strobe.models.options import LoadOptions

    share_one_heap(load["device"])
    said = click.get_current_context().params
    return LoadOptions(progress=None if said.get("quiet") or said.get("as_json") else progress(), **load)


def _prediction(
    *, workers: int | None, decode: str, models_at_once: int, retry_errors: bool, stop_early: bool, **load: Any
) -> object:
    from strobe.workflows.predict import PredictOptions

    return PredictOptions(
        load=_loading(**load), workers=workers, decode=decode, retry_errors=retry_errors,
        models_at_once=models_at_once, stop_early=stop_early,
    )  # fmt: skip


predicting_options = options(
    "prediction", "Running models", _prediction,
    *_DEVICE,
    click.option("--workers", type=click.IntRange(1, 256),
                 help="Decoding threads, or processes where models run on a GPU; default: one per core."),
    click.option("--decode", type=click.Choice(["cpu", "device"]), default="cpu", show_default=True,
                 help="device: JPEGs on a CUDA GPU beside the CPU; pixels may differ by a level, kept apart."),
    click.option("--models-at-once", type=click.IntRange(1), default=8, show_default=True,
                 help="Models in memory together; a frame is read once for all of them."),
    click.option("--backend", type=click.Choice(["torch", "onnxruntime"]), default="torch", show_default=True,
                 help="What runs torch classifiers on a CPU; onnxruntime is faster, its answers are kept apart."),
    click.option("--compile", is_flag=True,
                 help="Have torch compile classifiers first (ResNet-50 on an H200: 11 to 18 s): faster on CUDA from a "
                 "million frames or so on, which is said; answers are kept apart."),
    click.option("--stop-early", is_flag=True,
                 help="Leave a set at its first wrong frame: the same acc_orig, acc_pmk and drop from fewer frames; "
                 "what needs every frame is left out. For classifiers."),
    *_TRUST,
    click.option("--retry-errors", is_flag=True, help="Try frames again that could not be read before."),
    common=("device", "batch_size", "precision", "stop_early", "offline"),
)  # fmt: skip
"""The options of a command that runs models; it receives them as `prediction` (the merge rule comes with scoring)."""

loading_options = options("load", "Running models", _loading, *_DEVICE, *_TRUST)
"""The options of a command that loads models for something else than predicting; it receives them as `load`."""


def _engine(*, engine: str, actors: int | None, actor_cores: int | None, actor_gpus: float | None) -> Any:
    from strobe.workflows.engines import ExecutorOptions

    return ExecutorOptions.of(engine, actors=actors, cores=actor_cores, gpus=actor_gpus)


engine_options = options(
    "engine", "On a cluster", _engine,
    click.option("--engine", default="local", show_default=True, metavar="local|ray[=ADDRESS]",
                 help="Who does the work: this machine, or a Ray cluster, whose nodes see the same folders. Without an "
                 "address: RAY_ADDRESS, else the cluster this is a node of, else a Ray of its own; which is said."),
    click.option("--actors", type=click.IntRange(1), help="Ray workers at most; default: as many as have room."),
    click.option("--actor-cores", type=click.IntRange(1), help="Cores of each; default: 4, or its GPU's share."),
    click.option("--actor-gpus", type=click.FloatRange(0), help="GPUs of each, 0.5: two share one; default: one."),
    common=(),
)  # fmt: skip
"""Where a command's long work is carried out; it receives them as `engine`."""
