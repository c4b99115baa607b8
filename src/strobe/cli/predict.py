"""`strobe predict`: run models over a dataset's frames."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strobe.cli.common import folder, json_option, out_option, progress, quiet_option

if TYPE_CHECKING:
    from strobe.workflows.predict import PredictOptions

__all__ = ["command", "model_argument", "model_options", "options_of"]


_KEPT = "strobe.model_options"


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    ctx.meta.setdefault(_KEPT, {})[param.name] = value


def _option(*names: str, **settings: Any) -> Any:
    """An option whose value waits in the context, so that commands that share it need not name it."""
    return click.option(*names, expose_value=False, callback=_keep, **settings)


def model_options(function: Any) -> Any:
    """The options every command that runs models shares; `options_of` turns them into the workflow's."""
    decorators = [
        _option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:1, mps or auto."),
        _option("--precision", type=click.Choice(["auto", "float32", "bfloat16", "float16"]), default="auto",
                show_default=True, help="Number type of the forward; auto: bfloat16 on CUDA, float32 elsewhere."),
        _option("--batch-size", type=click.IntRange(1), help="Images at once [default: by the model's size]."),
        _option("--image-size", type=click.IntRange(8, 8192), help="Input size, instead of the model's own."),
        _option("--model-settings", type=click.Path(path_type=Path), metavar="JSON",
                help="Size, normalisation and labels of a model that cannot say them (ONNX)."),
        _option("--merge", type=click.Choice(["max", "mean", "sum"]), default="max", show_default=True,
                help="How scores of several model classes become one of the dataset's."),
        _option("--decode", type=click.Choice(["cpu", "device"]), default="cpu", show_default=True,
                help="Where JPEG frames are decoded; device is faster on CUDA and its predictions are kept apart."),
        _option("--workers", type=click.IntRange(1, 256), help="Decoding threads [default: the cores]."),
        _option("--models-at-once", type=click.IntRange(1), default=8, show_default=True,
                help="Models in memory together; a frame is read once for all of them."),
        _option("--deterministic", is_flag=True, help="Same bits run after run on the same machine."),
        _option("--trust", is_flag=True, help="Allow weights that can run code when read."),
        _option("--offline", is_flag=True, help="Download nothing."),
        _option("--retry-errors", is_flag=True, help="Try frames again that could not be read before."),
    ]  # fmt: skip
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


def options_of(ctx: click.Context) -> "PredictOptions":
    """The workflow's options from the shared options of this call."""
    from strobe.models.options import LoadOptions
    from strobe.workflows.predict import PredictOptions

    values = ctx.meta[_KEPT]
    return PredictOptions(
        load=LoadOptions(
            device=values["device"],
            precision=values["precision"],
            batch_size=values["batch_size"],
            image_size=values["image_size"],
            settings=values["model_settings"],
            deterministic=values["deterministic"],
            trust=values["trust"],
            offline=values["offline"],
        ),
        merge=values["merge"],
        decode=values["decode"],
        workers=values["workers"],
        retry_errors=values["retry_errors"],
        models_at_once=values["models_at_once"],
    )


model_argument = click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    required=True,
    metavar="MODEL",
    help="provider:name[@weights], a glob, preds:FILE or @testbed; may be repeated. See strobe models.",
)


@click.command(epilog="Example: strobe predict DATASET -m timm:resnet50.a1_in1k -m efficientnet-lite0 -o run/")
@click.argument("dataset", type=folder())
@model_argument
@model_options
@out_option(what="the run")
@json_option
@quiet_option
@click.pass_context
def command(ctx: click.Context, dataset: Path, models: tuple[str, ...], out: Path, as_json: bool, quiet: bool) -> None:
    """Run models over every frame of DATASET's sets; the same command again does only what is missing."""
    import json

    from strobe.workflows.predict import predict
    from strobe.workflows.runs import open_dataset

    data = open_dataset(dataset, reviewed_only=False)
    runs = predict(data, models, out, options_of(ctx), progress(quiet=quiet or as_json))
    if as_json:
        click.echo(json.dumps({run.name: run.to_json() for run in runs}, indent=1))
    else:
        for run in runs:
            click.echo(f"{run.name}: {run.summary()}")
    if any(not run.ok for run in runs):
        sys.exit(2)
