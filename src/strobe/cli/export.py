"""`strobe export`: write a dataset in another format, or several runs as a leaderboard."""

import json
from pathlib import Path
from typing import Any, cast

import click
from click.shell_completion import CompletionItem

from strobe.cli.common import dataset_option, folder, json_option, progress, quiet_option, refuse_option, warn_of
from strobe.core.errors import printable
from strobe.formats.registry import EXPORT_FORMATS

_LEADERBOARD, _FLICKERS, _LATEX, _FIGURES = "leaderboard", "flickers", "latex", "figures"
_OF_RUNS = {
    _LATEX: "the figures of a run's models as LaTeX tables",
    _FIGURES: "the figures of a run as PDF and SVG for a paper",
    _FLICKERS: "the frames around the flips of a run, with the answers",
    _LEADERBOARD: "one CSV and JSON with every model of several runs",
}
"""The formats that are made from runs instead of a dataset."""
_FLAGS_OF = {
    _FLICKERS: {"models": "-m", "around": "--around", "layout": "--layout", "dataset": "--dataset"},
    _FIGURES: {"width": "--width", "font": "--font", "font_size": "--font-size"},
}
"""The options that only one format takes, as flags by the name of their parameter."""


class _Format(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """The name of an export format."""

    name = "format"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        names = [*EXPORT_FORMATS, *_OF_RUNS]
        if value not in names:
            self.fail(f"{printable(value)!r} is not one of {', '.join(map(repr, names))}.", param, ctx)
        return value


class _Export(click.Command):
    """The `export` command. Its help lists the formats."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        warn_of(EXPORT_FORMATS)
        rows = [*EXPORT_FORMATS.lines().items(), *_OF_RUNS.items()]
        lines = "\n".join(f"{name:<20} {what}" for name, what in rows)
        self.help = f"{_ABOUT}\n\n\b\n{lines}"
        super().format_help_text(ctx, formatter)


_ABOUT = (
    "Write the dataset SRC in another format; the run SRC as LaTeX tables, figures for a paper, or images of its "
    "flips; or the runs SRC… as one leaderboard."
)


def _folders_or_formats(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete the next argument in the shell: another folder, or the format."""
    names = (name for name in (*EXPORT_FORMATS, *_OF_RUNS) if name.startswith(begun))
    # The folder item must come first, because bash drops the items before it.
    return [CompletionItem(begun, type="dir"), *map(CompletionItem, names)]


@click.command(
    cls=_Export,
    epilog="Example: strobe export data/vid coco exported/ --media link   ·   strobe export runs/* leaderboard board/"
    "   ·   strobe export run/ flickers to-label/ -m my-model --layout coco   ·   strobe export run/ figures paper/ "
    "--width 3.25",
)
@click.argument("src", nargs=-1, required=True, type=folder(), shell_complete=_folders_or_formats)
@click.argument("format", type=_Format(), metavar="FORMAT")
@click.argument("dst", type=folder(exists=False))
@click.option(
    "--media",
    type=click.Choice(["none", "copy", "link"]),
    default="none",
    show_default=True,
    help="Also export the images: copied, or hard-linked if the file system supports it.",
)
@click.option("--candidates", is_flag=True, help="Export all candidates, not only those that review kept.")
@click.option("--pseudonyms", is_flag=True, help="With csv: replace annotators' names, and leave out their notes.")
@click.option("-m", "--model", "models", multiple=True, help="With flickers: only these models. May be repeated.")
@click.option(
    "--around",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="With flickers: frames before each flip, and frames from the flip on.",
)
@click.option(
    "--layout",
    type=click.Choice(["coco", "yolo"]),
    help="With flickers: also write the majority answers of one model as pseudo-labels, which nobody has checked.",
)
@click.option(
    "--width",
    type=click.FloatRange(1, 20),
    default=3.25,
    show_default=True,
    help="With figures: width of a column of the paper in inches. From 5 on, figures have their wide form.",
)
@click.option(
    "--font",
    default="STIXGeneral",
    show_default=True,
    help="With figures: an installed font. The default looks like Times.",
)
@click.option(
    "--font-size",
    type=click.FloatRange(4, 24),
    default=8.0,
    show_default=True,
    help="With figures: size of the font in points.",
)
@dataset_option
@quiet_option
@json_option
def command(
    src: tuple[Path, ...],
    format: str,
    dst: Path,
    media: str,
    candidates: bool,
    pseudonyms: bool,
    models: tuple[str, ...],
    around: int,
    layout: str | None,
    width: float,
    font: str,
    font_size: float,
    dataset: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write a dataset in another format, or runs as tables, figures, flips or a leaderboard."""
    from strobe.workflows.export import export, export_figures, export_flickers, export_latex, export_leaderboard

    bar = progress(quiet=quiet or as_json)
    for owner, flags in _FLAGS_OF.items():
        for name, flag in flags.items() if format != owner else ():
            refuse_option(name, f"{flag} only works with {owner}; remove it")
    if format in _OF_RUNS:
        reason = "flickers always has images" if format == _FLICKERS else f"{format} has no images"
        refuse_option("media", f"{reason}; remove --media")
        refuse_option("candidates", f"{format} is made from runs; remove --candidates")
        refuse_option("pseudonyms", f"{format} contains no people's answers; remove --pseudonyms")
    facts: dict[str, int] = {"n_runs": len(src)}
    if format == _LEADERBOARD:
        files = export_leaderboard(src, dst)
    elif len(src) > 1:
        raise click.UsageError(f"got {len(src)} folders, but {format} exports one; only leaderboard takes several")
    elif format == _LATEX:
        files = export_latex(src[0], dst)
    elif format == _FIGURES:
        from strobe.report.paper_figures import PaperStyle

        files = export_figures(src[0], dst, style=PaperStyle(width=width, font=font, size=font_size), progress=bar)
    elif format == _FLICKERS:
        done = export_flickers(
            src[0],
            dst,
            models=models,
            around=around,
            layout=cast(Any, layout),
            dataset_path=dataset,
            progress=bar,
        )
        files, facts = done.files, {"n_sets": done.dataset.n_sets}
    else:
        done = export(
            src[0],
            format,
            dst,
            media=cast(Any, media),
            candidates=candidates,
            pseudonymous=pseudonyms,
            progress=bar,
        )
        files, facts = done.files, {"n_sets": done.dataset.n_sets}
    if as_json:
        click.echo(json.dumps({"format": format, **facts, "files": [str(path) for path in files]}))
        return
    for path in files:
        click.echo(printable(path))
