"""The options of all commands that run models, passed as one PredictOptions."""

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
    "[NAME=]provider:model[@FILE], a glob in quotes, boxes:DETECTOR, crop:FROM:MODEL, preds:FILE, @testbed or "
    "@LIST.toml. May be repeated. strobe models lists the names."
)

model_option = click.option("-m", "--model", "models", multiple=True, required=True, metavar="MODEL", help=_MODEL)
model_or_people_option = click.option(
    "-m", "--model", "models", multiple=True, metavar="MODEL",
    help=f"{_MODEL} Optional if people named the images.",
)  # fmt: skip

merge_option = click.option(
    "--merge", type=click.Choice(["max", "mean", "sum"]), default="max", show_default=True,
    help="How several model classes become one: largest score, mean score, or log of the summed probabilities.",
)  # fmt: skip


_DEVICE = (
    click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1 or mps."),
    click.option("--batch-size", type=click.IntRange(1), help="Images per batch. Default: chosen by the model's size."),
    click.option(
        "--precision", type=click.Choice(["auto", "float32", "bfloat16", "float16"]), default="auto",
        show_default=True, help="auto is float32. bfloat16 is faster on CUDA and changes some answers.",
    ),
    click.option("--image-size", type=click.IntRange(8, 8192), help="Input size in pixels. Default: the model's own."),
    click.option("--model-settings", "settings", type=click.Path(path_type=Path), metavar="JSON",
                 help="Normalisation, resizing and classes of an ONNX file; classes for timm, torchvision and hf."),
)  # fmt: skip
_TRUST = (
    click.option(
        "--deterministic", is_flag=True, help="Give bit-identical results in every run on one machine. Slower on a GPU."
    ),
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
    from strobe.engine.prediction import PredictOptions

    return PredictOptions(
        load=_loading(**load), workers=workers, decode=decode, retry_errors=retry_errors,
        models_at_once=models_at_once, stop_early=stop_early,
    )  # fmt: skip


predicting_options = options(
    "prediction", "Running models", _prediction,
    *_DEVICE,
    click.option("--workers", type=click.IntRange(1, 256),
                 help="Decoding threads, or processes if models run on a GPU. Default: one per core."),
    click.option("--decode", type=click.Choice(["cpu", "device"]), default="cpu", show_default=True,
                 help="device: also decode JPEGs on the CUDA GPU. Pixels may differ by one level. Cached separately."),
    click.option("--models-at-once", type=click.IntRange(1), default=8, show_default=True,
                 help="Models in memory at the same time. A frame is read once for all of them."),
    click.option("--backend", type=click.Choice(["torch", "onnxruntime"]), default="torch", show_default=True,
                 help="Runtime of torch classifiers on a CPU. onnxruntime is faster. Cached separately."),
    click.option("--compile", is_flag=True,
                 help="Compile classifiers with torch first (ResNet-50 on an H200: 11 to 18 s). Pays off above about a "
                 "million frames on CUDA; a note reports the measured number. Cached separately."),
    click.option("--stop-early", is_flag=True,
                 help="For classifiers: stop a set at its first wrong frame. acc_orig, acc_pmk and drop stay the same "
                 "and need fewer frames. Figures that need every frame are omitted."),
    *_TRUST,
    click.option("--retry-errors", is_flag=True, help="Retry frames that could not be read before."),
    common=("device", "batch_size", "precision", "stop_early", "offline"),
)  # fmt: skip
"""The options of a command that runs models, passed as `prediction`. `--merge` is declared separately."""

loading_options = options(
    "load", "Running models", _loading, *_DEVICE, *_TRUST, common=("device", "batch_size", "offline")
)
"""The options of a command that loads models for a purpose other than prediction, passed as `load`."""


def _engine(*, engine: str, actors: int | None, actor_cores: int | None, actor_gpus: float | None) -> Any:
    from strobe.engine.executors import ExecutorOptions

    return ExecutorOptions.of(engine, actors=actors, cores=actor_cores, gpus=actor_gpus)


engine_options = options(
    "engine", "On a cluster", _engine,
    click.option("--engine", default="local", show_default=True, metavar="local|ray[=ADDRESS]",
                 help="Where the work runs: this machine, or a Ray cluster whose nodes share the folders. Without an "
                 "address, ray uses RAY_ADDRESS, else this node's cluster, else a new local Ray. A note names it."),
    click.option("--actors", type=click.IntRange(1), help="Largest number of Ray workers. Default: as many as fit."),
    click.option("--actor-cores", type=click.IntRange(1),
                 help="Cores per worker. Default: 4, or its GPU's share of the cores."),
    click.option("--actor-gpus", type=click.FloatRange(0),
                 help="GPUs per worker. With 0.5, two workers share a GPU. Default: 1."),
    common=(),
)  # fmt: skip
"""Where the long work of a command runs, passed as `engine`."""
