"""`strobe history`: checkpoints over time."""

from pathlib import Path
from typing import Any

import click

from strobe.cli.common import folder, json_option, print_json, progress, quiet_option
from strobe.cli.signature import from_function, plain
from strobe.core.errors import printable


@click.command(epilog="Example: strobe history runs/epoch-*/ -o history/   ·   strobe history run/ -m ckpt1 -m ckpt2")
@from_function("strobe.api.gates:history", metavars={"runs": "RUN [RUN...]"})
@click.option("-o", "--out", type=folder(exists=False), help="Where to write history.csv, .json, .svg and .png.")
@json_option
@quiet_option
def command(runs: tuple[Path, ...], out: Path | None, as_json: bool, quiet: bool, **asked: Any) -> None:
    """Print the steps, and write them."""
    from strobe.api.gates import history
    from strobe.report.history import history_lines
    from strobe.workflows.history import write_history

    timeline = plain(history)(*runs, **asked, progress=progress(quiet=quiet or as_json))
    if out is not None:
        write_history(timeline, out)
    if as_json:
        print_json(timeline)
        return
    for line in history_lines(timeline):
        click.echo(line)
    if out is not None and not quiet:
        click.echo(f"written: {printable(out)}/history.csv, .json, .svg, .png", err=True)
