"""`strobe export`: write a dataset in another format, or several runs as a leaderboard."""

import json
from pathlib import Path
from typing import Any, cast

import click
from click.shell_completion import CompletionItem

from strobe.cli.common import dataset_option, folder, json_option, progress, quiet_option, warn_of
from strobe.cli.output import refuse_option
from strobe.core.errors import printable
from strobe.formats.registry import EXPORT_FORMATS

__all__ = ["command"]

_LEADERBOARD, _FLICKERS = "leaderboard", "flickers"
_OF_RUNS = {
    _FLICKERS: "the frames around the flips of a run, with the answers",
    _LEADERBOARD: "one CSV and JSON with every model of several runs",
}
"""The formats that are made from runs instead of a dataset."""


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
    "Write the dataset SRC in another format, the flips of the run SRC as images and tables, or the runs SRC… as one "
    "leaderboard."
)


def _folders_or_formats(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete the next argument in the shell: another folder, or the format."""
    names = (name for name in (*EXPORT_FORMATS, *_OF_RUNS) if name.startswith(begun))
    # The folder item must come first, because bash drops the items before it.
    return [CompletionItem(begun, type="dir"), *map(CompletionItem, names)]


@click.command(
    cls=_Export,
    epilog="Example: strobe export data/vid coco exported/ --media link   ·   strobe export runs/* leaderboard board/"
    "   ·   strobe export run/ flickers to-label/ -m my-model --layout coco",
)
@click.argument("src", nargs=-1, required=True, type=folder(), shell_complete=_folders_or_formats)
@click.argument("format", type=_Format(), metavar="FORMAT")
@click.argument("dst", type=folder(exists=False))
@click.option(
    "--media", type=click.Choice(["none", "copy", "link"]), default="none", show_default=True,
    help="Also export the images: copied, or hard-linked if the file system supports it.",
)  # fmt: skip
@click.option("--candidates", is_flag=True, help="Export all candidates, not only those that review kept.")
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
@dataset_option
@quiet_option
@json_option
def command(
    src: tuple[Path, ...],
    format: str,
    dst: Path,
    media: str,
    candidates: bool,
    models: tuple[str, ...],
    around: int,
    layout: str | None,
    dataset: Path | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write the dataset SRC in another format, the flips of the run SRC, or the runs SRC… as one leaderboard."""
    from strobe.workflows.export import export, export_flickers, export_leaderboard

    bar = progress(quiet=quiet or as_json)
    if format != _FLICKERS:
        for name, flag in (("models", "-m"), ("around", "--around"), ("layout", "--layout"), ("dataset", "--dataset")):
            refuse_option(name, f"{flag} only works with flickers; remove it")
    if format == _FLICKERS and len(src) == 1:
        refuse_option("media", "flickers always has images; remove --media")
        refuse_option("candidates", "flickers is made from a run; remove --candidates")
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
    elif format == _LEADERBOARD:
        refuse_option("media", "a leaderboard has no images; remove --media")
        refuse_option("candidates", "a leaderboard is made from results; remove --candidates")
        files, facts = export_leaderboard(src, dst), {"n_runs": len(src)}
    elif len(src) > 1:
        raise click.UsageError(f"got {len(src)} folders, but {format} exports one; only leaderboard takes several")
    else:
        done = export(src[0], format, dst, media=cast(Any, media), candidates=candidates, progress=bar)
        files, facts = done.files, {"n_sets": done.dataset.n_sets}
    if as_json:
        click.echo(json.dumps({"format": format, **facts, "files": [str(path) for path in files]}))
        return
    for path in files:
        click.echo(printable(path))
