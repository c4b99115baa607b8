"""`strobe report`: write the report of a scored run."""

from pathlib import Path
from typing import Any

import click

from strobe.cli.common import progress, quiet_option, refuse_option
from strobe.cli.signature import from_function, plain


@click.command(name="report", epilog="Example: strobe report run/ --gallery 60   ·   strobe report run/ --pdf")
@from_function("strobe.api.scoring:report", metavars={"run": "RUN", "show": "MODEL"})
@quiet_option
def command(run: Path, pdf: bool, quiet: bool, **asked: Any) -> None:
    """Write the report."""
    from strobe.api.scoring import report

    if not pdf:
        refuse_option("paper", "--paper only works with --pdf; add --pdf")
    path = plain(report)(run, pdf=pdf, **asked, progress=progress(quiet=quiet))
    click.echo(str(path))
    if pdf:
        click.echo(str(path.with_suffix(".pdf")))
