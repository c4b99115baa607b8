"""strobe score: predictions to figures, no model needed."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strobe.cli.common import folder, json_option, progress, quiet_option
from strobe.cli.scoring import scoring_options

if TYPE_CHECKING:
    from strobe.workflows.score import ScoreRequest

__all__ = ["command"]


@click.command(
    epilog="Example: strobe score imagenet-vid-robust/ -m preds:resnet50.json -o run/   ·   strobe score run/ --seed 1"
)
@click.argument("target", type=folder(), metavar="DATASET|RUN")
@click.option(
    "-m", "--model", "models", multiple=True, help="[NAME=]preds:FILE, several times; for a RUN, model names."
)
@click.option("-o", "--out", type=folder(exists=False), help="Run folder for results.json and tables/.")
@scoring_options
@json_option
@quiet_option
def command(
    target: Path, models: tuple[str, ...], out: Path | None, as_json: bool, quiet: bool, request: "ScoreRequest"
) -> None:
    """Score predictions on a dataset: accuracy, pm-k accuracy and the drop, with intervals.

    TARGET is a dataset folder, with predictions brought by -m preds:FILE (JSON, JSONL, CSV or Parquet), or a run folder
    whose predictions are scored again.
    """
    from strobe.report.terminal import print_headline
    from strobe.workflows.score import is_run_folder, score_dataset, score_run

    bar = progress(quiet=quiet or as_json)
    if is_run_folder(target):
        results = score_run(target, replace(request, models=models), bar)
        out = target
    else:
        results = score_dataset(target, models, out, request, bar)
    if as_json:
        json.dump(results, sys.stdout, indent=1, allow_nan=False)
        sys.stdout.write("\n")
        return
    print_headline(results, sys.stdout)
    if out is not None:
        click.echo(f"results: {out / 'results.json'}   tables: {out / 'tables'}", err=True)
