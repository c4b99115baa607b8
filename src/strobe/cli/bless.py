"""`strobe bless`: make a run the baseline, as one small file for the repository."""

from pathlib import Path

import click

from strobe.cli.common import folder, progress, quiet_option
from strobe.core.errors import printable


@click.command(
    epilog="Example: strobe bless run/ -o clips/baseline.json   ·   strobe eval clips/ -m new --against "
    "clips/baseline.json -o new-run/"
)
@click.argument("run", type=folder())
@click.option(
    "-m", "--model", "models", multiple=True, help="Only this model. May be repeated. Default: all classifiers."
)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), default=Path("baseline.json"), show_default=True, help="The file."
)
@quiet_option
def command(run: Path, models: tuple[str, ...], out: Path, quiet: bool) -> None:
    """Make a RUN on videos without labels the baseline of later ones.

    The file has the digest of the frames, each model's answer on every frame, its figures, the date, the CPU and the
    versions of packages. strobe eval --against FILE compares with it. Nothing but this command changes a baseline.
    """
    from strobe.workflows.baseline import bless

    baseline = bless(run, out, models=models, progress=progress(quiet=quiet))
    names = ", ".join(map(printable, baseline.models))
    frames = f"{baseline.n_frames:,} frames of {printable(baseline.dataset)}"
    click.echo(f"{printable(out)}: {names} on {frames}, {baseline.age}")
