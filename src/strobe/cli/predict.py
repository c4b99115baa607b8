"""`strobe predict`: run models over a dataset's frames."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from strobe.cli.common import Grouped, folder, json_option, out_option, print_json, progress, quiet_option
from strobe.cli.predicting import engine_options, merge_option, model_option, predicting_options
from strobe.core.errors import printable, without_name

if TYPE_CHECKING:
    from strobe.engine.running import ExecutorOptions, Running


@click.command(
    cls=Grouped,
    epilog="Example: strobe predict DATASET -m timm:resnet50.a1_in1k -m efficientnet-lite0 -o run/   ·   on a Ray "
    "cluster: add --engine ray=10.0.0.1:6379 (docs/scale.md)",
)
@click.argument("dataset", type=folder())
@model_option
@out_option(what="the run")
@merge_option
@predicting_options
@engine_options
@json_option
@quiet_option
def command(
    dataset: Path,
    models: tuple[str, ...],
    out: Path,
    merge: Literal["max", "mean", "sum"],
    prediction: "Running",
    engine: "ExecutorOptions",
    as_json: bool,
    quiet: bool,
) -> None:
    """Run models over every frame of DATASET's sets. Running the same command again does only the missing work."""
    from strobe.store.opening import Opened
    from strobe.workflows.predict import predict

    outcomes = predict(
        Opened.of(dataset).candidates,
        models,
        out,
        replace(prediction, merge=merge, engine=engine),
        progress(quiet=quiet or as_json),
    )
    if as_json:
        print_json({outcome.name: outcome.to_json() for outcome in outcomes})
    else:
        for outcome in outcomes:
            error = outcome.error or ""
            summary = (
                outcome.summary().replace(error, without_name(outcome.name, error)) if error else outcome.summary()
            )
            click.echo(f"{printable(outcome.name)}: {printable(summary, limit=1000)}")
    if any(not outcome.ok for outcome in outcomes):
        raise click.exceptions.Exit(2)
