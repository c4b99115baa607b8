"""`strobe report`: write the report of a scored run."""

from pathlib import Path
from typing import Literal

import click

from strobe.cli.common import folder, progress, quiet_option, refuse_option, show_option, subset_option


@click.command(name="report", epilog="Example: strobe report run/ --gallery 60   ·   strobe report run/ --pdf")
@click.argument("run", type=folder())
@click.option(
    "--gallery", type=click.IntRange(0), default=36, show_default=True, help="Largest number of sets in the gallery."
)
@click.option(
    "--image-px",
    type=click.IntRange(32, 2000),
    default=400,
    show_default=True,
    help="Longest side of an image in pixels.",
)
@click.option(
    "--max-mb",
    type=click.FloatRange(0.1),
    help="Total size of all images in MB. Default: 11, or 7 with more than 40 models.",
)
@show_option
@click.option("--before", help="With --after: the model before the change. The report lists the lost and won sets.")
@click.option("--after", help="With --before: the model after the change. A run with two models needs neither option.")
@click.option("--pdf", is_flag=True, help="Also write RUN/report.pdf: a brief of two pages, then the whole report.")
@click.option(
    "--paper",
    type=click.Choice(["A4", "letter"], case_sensitive=False),
    default="A4",
    show_default=True,
    help="With --pdf: the size of the paper.",
)
@click.option("--dataset", type=folder(), help="Where the dataset is now, if it was moved.")
@subset_option
@quiet_option
def command(
    run: Path,
    gallery: int,
    image_px: int,
    max_mb: float | None,
    show: tuple[str, ...],
    before: str | None,
    after: str | None,
    pdf: bool,
    paper: Literal["A4", "letter"],
    dataset: Path | None,
    subset: Path | None,
    quiet: bool,
) -> None:
    """Write RUN/report.html: one page with tables, figures and a gallery of flickers.

    The page is self-contained and needs no network. RUN/figures has the figures and RUN/tables the tables as files.
    """
    from strobe.report.page import PageOptions
    from strobe.workflows.report import ReportOptions, report_run

    if not pdf:
        refuse_option("paper", "--paper only works with --pdf; add --pdf")
    options = PageOptions(gallery_sets=gallery, picture_px=image_px, max_megabytes=max_mb, paper=paper if pdf else None)
    if (before is None) != (after is None):
        raise click.UsageError("--before and --after must be used together; name both models")
    change = None if before is None or after is None else (before, after)
    request = ReportOptions(options=options, dataset=dataset, subset=subset, show=show, change=change)
    path = report_run(run, request, progress(quiet=quiet))
    click.echo(str(path))
    if pdf:
        click.echo(str(path.with_suffix(".pdf")))
