"""`strobe export DATASET FORMAT DST`."""

import json
from pathlib import Path
from typing import Any, cast

import click

from strobe.cli.common import folder, json_option, progress, quiet_option
from strobe.core.errors import printable

__all__ = ["FORMATS", "command"]

FORMATS = ("imagenet-vid-robust", "coco", "csv", "fiftyone", "huggingface", "croissant", "card")
"""What a dataset can be written as; nothing is imported to show them."""


@click.command(epilog="Example: strobe export data/vid coco exported/ --media link")
@click.argument("dataset", type=folder())
@click.argument("format", type=click.Choice(FORMATS), metavar="FORMAT")
@click.argument("dst", type=folder(exists=False))
@click.option(
    "--media", type=click.Choice(["none", "copy", "link"]), default="none", show_default=True,
    help="Bring the images too: copied, or hard-linked where the disk can.",
)  # fmt: skip
@click.option("--candidates", is_flag=True, help="All candidates, not only what review kept.")
@quiet_option
@json_option
def command(dataset: Path, format: str, dst: Path, media: str, candidates: bool, quiet: bool, as_json: bool) -> None:
    """Write DATASET in another format.

    \b
    imagenet-vid-robust  the release's own files
    coco                 COCO JSON with the fields of COCO video
    csv                  every table as CSV
    fiftyone             FiftyOne's own folder
    huggingface          Parquet with the images inside, for Hugging Face datasets
    croissant            the tables with Croissant metadata (croissant.json)
    card                 a dataset card (README.md)
    """
    from strobe.workflows.export import export

    done = export(
        dataset, format, dst, media=cast(Any, media), candidates=candidates, progress=progress(quiet=quiet or as_json)
    )
    if as_json:
        facts = {"n_sets": done.dataset.n_sets, "files": [str(path) for path in done.files]}
        click.echo(json.dumps({"format": format, **facts}))
        return
    for path in done.files:
        click.echo(printable(path))
