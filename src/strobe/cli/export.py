"""`strobe export SRC… FORMAT DST`."""

import json
from pathlib import Path
from typing import Any, cast

import click
from click.shell_completion import CompletionItem

from strobe.cli.common import folder, json_option, progress, quiet_option
from strobe.cli.said import not_said
from strobe.core.errors import printable

__all__ = ["FORMATS", "command"]

FORMATS = ("imagenet-vid-robust", "coco", "csv", "fiftyone", "huggingface", "croissant", "card", "leaderboard")
"""The export formats. They are listed here so that the help imports nothing."""


def _folders_or_formats(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete the next argument: another folder, or the format."""
    # The folder comes first: bash drops the items before a folder.
    return [CompletionItem(begun, type="dir"), *(CompletionItem(name) for name in FORMATS if name.startswith(begun))]


@click.command(
    epilog="Example: strobe export data/vid coco exported/ --media link   ·   strobe export runs/* leaderboard board/"
)
@click.argument("src", nargs=-1, required=True, type=folder(), shell_complete=_folders_or_formats)
@click.argument("format", type=click.Choice(FORMATS), metavar="FORMAT")
@click.argument("dst", type=folder(exists=False))
@click.option(
    "--media", type=click.Choice(["none", "copy", "link"]), default="none", show_default=True,
    help="Also export the images: copied, or hard-linked if the file system supports it.",
)  # fmt: skip
@click.option("--candidates", is_flag=True, help="Export all candidates, not only those that review kept.")
@quiet_option
@json_option
def command(
    src: tuple[Path, ...], format: str, dst: Path, media: str, candidates: bool, quiet: bool, as_json: bool
) -> None:
    """Write the dataset SRC in another format, or the runs SRC… as one leaderboard.

    \b
    imagenet-vid-robust  the files of the public release
    coco                 COCO JSON with the fields of COCO video
    csv                  every table as CSV
    fiftyone             a FiftyOne dataset folder
    huggingface          Parquet with the images inside, for Hugging Face datasets
    croissant            the tables with Croissant metadata (croissant.json)
    card                 a dataset card (README.md)
    leaderboard          one CSV and JSON with every model of several runs
    """
    from strobe.workflows.export import export, export_leaderboard

    if format == "leaderboard":
        not_said("media", "a leaderboard has no images; leave --media away")
        not_said("candidates", "a leaderboard is made of results; leave --candidates away")
        files, facts = export_leaderboard(src, dst), {"n_runs": len(src)}
    elif len(src) > 1:
        raise click.UsageError(
            f"{len(src)} folders given: {format} is written of one dataset; only leaderboard of many"
        )
    else:
        bar = progress(quiet=quiet or as_json)
        done = export(src[0], format, dst, media=cast(Any, media), candidates=candidates, progress=bar)
        files, facts = done.files, {"n_sets": done.dataset.n_sets}
    if as_json:
        click.echo(json.dumps({"format": format, **facts, "files": [str(path) for path in files]}))
        return
    for path in files:
        click.echo(printable(path))
