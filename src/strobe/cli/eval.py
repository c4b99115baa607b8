"""strobe eval: the main job, predict + score + report."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strobe.cli.common import (
    Grouped,
    folder,
    json_option,
    log_option,
    out_option,
    print_json,
    progress,
    quiet_option,
    show_option,
)
from strobe.cli.predicting import engine_options, model_or_people_option, predicting_options
from strobe.cli.scoring import scoring_options
from strobe.core.errors import printable, without_name

if TYPE_CHECKING:
    from strobe.workflows.engines import ExecutorOptions
    from strobe.workflows.predict import PredictOptions
    from strobe.workflows.score import ScoreRunOptions

__all__ = ["command"]


@click.command(
    cls=Grouped,
    epilog="Example: strobe eval clips/ -m efficientnet-lite0 -m timm:resnet50.a1_in1k -m preds:mine.json -o run/",
)
@click.argument("dataset", type=folder())
@model_or_people_option
@out_option(what="predictions, results and report")
@click.option("--no-report", is_flag=True, help="Write no report.")
@show_option
@log_option
@predicting_options
@engine_options
@scoring_options
@json_option
@quiet_option
def command(
    dataset: Path,
    models: tuple[str, ...],
    out: Path,
    no_report: bool,
    show: tuple[str, ...],
    log: tuple[str, ...],
    prediction: "PredictOptions",
    engine: "ExecutorOptions",
    request: "ScoreRunOptions",
    as_json: bool,
    quiet: bool,
) -> None:
    """Run models over a dataset, score them and write the report.

    The same command again does only the missing work. Another -m adds a model. If a model fails, an error is printed
    and the others continue (exit code 1). If the report fails, an error is printed and the results are kept (exit
    code 2).
    """
    from strobe.report.terminal import print_headline
    from strobe.workflows.evaluate import evaluate

    if show and no_report:
        raise click.UsageError("--show is for the report; leave out --no-report")
    found = evaluate(
        dataset, models, out, prediction=replace(prediction, merge=request.merge, engine=engine), request=request,
        progress=progress(quiet=quiet or as_json), with_report=not no_report, show=show, log=log,
    )  # fmt: skip
    if as_json:
        print_json(found.results)
    else:
        print_headline(found.results, sys.stdout)
        if found.report is not None:
            click.echo(f"\nreport: {found.report}")
    for line in found.left_out:
        click.echo(f"left out: {printable(line, limit=500)}", err=True)
    for one in found.failed:
        said = without_name(one.name, one.error or "")
        click.echo(f"failed: {printable(one.name)}: {printable(said, limit=500)}", err=True)
    if found.no_report is not None:
        click.echo(f"no report: {found.no_report}; the results are kept in {printable(out)}", err=True)
        raise click.exceptions.Exit(2)
    if found.failed:
        raise click.exceptions.Exit(1)
