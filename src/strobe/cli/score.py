"""`strobe score`: score predictions without running a model."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strobe.cli.common import (
    Grouped,
    dataset_option,
    folder,
    json_option,
    out_option,
    print_json,
    progress,
    quiet_option,
)
from strobe.cli.scoring import scoring_options
from strobe.core.errors import printable

if TYPE_CHECKING:
    from strobe.workflows.score import ScoreRunOptions


@click.command(
    cls=Grouped,
    epilog="Example: strobe score imagenet-vid-robust/ -m preds:resnet50.json -o run/   ·   strobe score run/ --seed 1",
)
@click.argument("target", type=folder(), metavar="DATASET|RUN")
@click.option(
    "-m", "--model", "models", multiple=True, help="[NAME=]preds:FILE, or the name of a model of RUN. May be repeated."
)
@out_option(what="results.json, tables/ and the predictions of a DATASET", required=False)
@dataset_option
@scoring_options
@json_option
@quiet_option
def command(
    target: Path,
    models: tuple[str, ...],
    out: Path | None,
    dataset: Path | None,
    as_json: bool,
    quiet: bool,
    request: "ScoreRunOptions",
) -> None:
    """Score predictions: accuracy, pm-k accuracy and the drop, with intervals.

    Pass a DATASET folder and predictions with -m preds:FILE (JSON, JSONL, CSV or Parquet). Or pass a RUN folder to
    score its predictions again and replace its results.
    """
    from strobe.report.headline import print_headline
    from strobe.workflows.score import is_run_folder, score_dataset, score_run

    bar = progress(quiet=quiet or as_json)
    if is_run_folder(target):
        if out is not None:
            raise click.UsageError(
                f"{target} is a run, which is scored in place; remove -o, or pass the dataset instead of the run"
            )
        found = score_run(target, replace(request, models=models), bar, dataset_path=dataset)
        results = found.results
        for line in found.left_out:
            click.echo(f"skipped: {printable(line, limit=500)}", err=True)
        out = target
    else:
        if dataset is not None:
            raise click.UsageError(f"--dataset needs a run folder, and {target} is not one; remove --dataset")
        results = score_dataset(target, models, out, request, bar)
    if as_json:
        print_json(results)
        return
    print_headline(results, sys.stdout)
    if out is not None and not quiet:
        click.echo(f"results: {out / 'results.json'}   tables: {out / 'tables'}", err=True)
