"""`strobe history`: checkpoints over time."""

from pathlib import Path
from typing import Literal

import click

from strobe.cli.common import dataset_option, folder, json_option, print_json, progress, quiet_option, subset_option
from strobe.core.errors import printable


@click.command(epilog="Example: strobe history runs/epoch-*/ -o history/   ·   strobe history run/ -m ckpt1 -m ckpt2")
@click.argument("runs", nargs=-1, required=True, type=folder(), metavar="RUN [RUN...]")
@click.option("-m", "--model", "models", multiple=True, help="Show only this model of the runs. May be repeated.")
@click.option(
    "--order",
    type=click.Choice(["time", "given"]),
    default="time",
    show_default=True,
    help="time: by the last prediction of each run. given: in the order of the arguments.",
)
@click.option("-o", "--out", type=folder(exists=False), help="Where to write history.csv, .json, .svg and .png.")
@click.option("--k", type=click.IntRange(0), help="Largest distance from the anchor. Default: the dataset's k.")
@subset_option
@click.option("--allow-missing", is_flag=True, help="Score incomplete predictions on the sets they cover.")
@dataset_option
@json_option
@quiet_option
def command(
    runs: tuple[Path, ...],
    models: tuple[str, ...],
    order: Literal["time", "given"],
    out: Path | None,
    k: int | None,
    subset: Path | None,
    allow_missing: bool,
    dataset: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Show checkpoints over time: compare each model of the RUNs with earlier models on one dataset.

    If a model is in several runs, every model forms a line of its own. Otherwise all models form one line. Each step is
    compared with three earlier steps of its line on the same sets: the previous, the first and the best. The tests are
    exact and corrected for their number.
    """
    from strobe.analyses.plan import ScoreOptions
    from strobe.report.history import history_lines
    from strobe.workflows.history import history, write_history

    timeline = history(
        runs,
        models=models,
        order=order,
        options=ScoreOptions(k=k),
        subset=subset,
        dataset_path=dataset,
        allow_missing=allow_missing,
        progress=progress(quiet=quiet or as_json),
    )
    if out is not None:
        write_history(timeline, out)
    if as_json:
        print_json(timeline)
        return
    for line in history_lines(timeline):
        click.echo(line)
    if out is not None and not quiet:
        click.echo(f"written: {printable(out)}/history.csv, .json, .svg, .png", err=True)
