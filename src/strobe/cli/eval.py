"""`strobe eval`: predict, score and report in one command."""

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
    from strobe.engine.executors import ExecutorOptions
    from strobe.engine.prediction import PredictOptions
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

    Running the same command again does only the missing work. Another -m adds a model. If a model fails, an error is
    printed and the others continue (exit code 1). If the report fails, an error is printed and the results are kept
    (exit code 2).
    """
    from strobe.report.terminal import print_headline
    from strobe.workflows.evaluate import evaluate

    if show and no_report:
        raise click.UsageError("--show needs the report; remove --show or --no-report")
    evaluation = evaluate(
        dataset, models, out, prediction=replace(prediction, merge=request.merge, engine=engine), request=request,
        progress=progress(quiet=quiet or as_json), with_report=not no_report, show=show, log=log,
    )  # fmt: skip
    if as_json:
        print_json(evaluation.results)
    else:
        print_headline(evaluation.results, sys.stdout)
        if evaluation.report is not None:
            click.echo(f"\nreport: {evaluation.report}")
    for line in evaluation.left_out:
        click.echo(f"skipped: {printable(line, limit=500)}", err=True)
    for failure in evaluation.failed:
        reason = without_name(failure.name, failure.error or "")
        click.echo(f"failed: {printable(failure.name)}: {printable(reason, limit=500)}", err=True)
    if evaluation.no_report is not None:
        click.echo(f"no report: {evaluation.no_report}; the results are kept in {printable(out)}", err=True)
        raise click.exceptions.Exit(2)
    if evaluation.failed:
        raise click.exceptions.Exit(1)
