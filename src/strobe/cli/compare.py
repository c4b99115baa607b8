"""strobe compare: which model is better, and is it chance."""

import json
import sys
from pathlib import Path

import click

from strobe.cli.common import folder, json_option, progress, quiet_option, seed_option
from strobe.core.errors import printable

__all__ = ["command"]


@click.command(epilog="Example: strobe compare run/ -m efficientnet-lite0 -m efficientnet-lite2")
@click.argument("runs", nargs=-1, required=True, type=folder(), metavar="RUN [RUN...]")
@click.option("-m", "--model", "models", multiple=True, help="Compare only these models of the runs.")
@click.option("--k", type=click.IntRange(0), help="Largest distance scored; default: the dataset's k.")
@click.option("--subset", type=click.Path(path_type=Path), help="Only the videos named in this text file.")
@seed_option
@json_option
@quiet_option
def command(
    runs: tuple[Path, ...],
    models: tuple[str, ...],
    k: int | None,
    subset: Path | None,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compare models on the same sets: exact paired tests, corrected for their number, with a sentence for each."""
    from strobe.analyses.plan import ScoreOptions
    from strobe.workflows.compare import compare_runs

    found = compare_runs(
        runs, models=models, options=ScoreOptions(k=k, seed=seed), subset=subset,
        progress=progress(quiet=quiet or as_json),
    )  # fmt: skip
    if as_json:
        json.dump(found, sys.stdout, indent=1, allow_nan=False)
        sys.stdout.write("\n")
        return
    for part in found:
        click.echo(printable(part["sentence"], limit=2000))
