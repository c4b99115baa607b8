"""`strobe report`: the page of a scored run."""

from pathlib import Path

import click

from strobe.cli.common import folder, progress, quiet_option, show_option, subset_option

__all__ = ["command"]


@click.command(name="report", epilog="Example: strobe report run/ --gallery 60   ·   then open run/report.html")
@click.argument("run", type=folder())
@click.option("--gallery", type=click.IntRange(0), default=36, show_default=True, help="Sets in the gallery at most.")
@click.option("--picture-px", type=click.IntRange(32, 2000), default=400, show_default=True, help="Longest side.")
@click.option(
    "--max-mb", type=click.FloatRange(0.1), help="Pictures in all, MB; default: 11, beside more than 40 models 7."
)
@show_option
@click.option("--before", help="A model to tell the change from, with --after: which sets it lost and won.")
@click.option("--after", help="The model to tell the change to; with two models in the run both are known.")
@click.option("--dataset", type=folder(), help="Where the dataset lies now, if it was moved.")
@subset_option
@quiet_option
def command(
    run: Path,
    gallery: int,
    picture_px: int,
    max_mb: float | None,
    show: tuple[str, ...],
    before: str | None,
    after: str | None,
    dataset: Path | None,
    subset: Path | None,
    quiet: bool,
) -> None:
    """Write RUN/report.html: one page with tables, figures and a gallery of flickers, to read and to share.

    The page needs no network and no other file. Figures also lie in RUN/figures, tables in RUN/tables.
    """
    from strobe.report.page import PageOptions
    from strobe.workflows.report import ReportOptions, report_run

    options = PageOptions(gallery_sets=gallery, picture_px=picture_px, max_megabytes=max_mb)
    if (before is None) != (after is None):
        raise click.UsageError("--before and --after go together: name both models")
    change = None if before is None or after is None else (before, after)
    request = ReportOptions(options=options, dataset=dataset, subset=subset, show=show, change=change)
    path = report_run(run, request, progress(quiet=quiet))
    click.echo(str(path))
