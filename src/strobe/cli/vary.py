"""`strobe vary corruption`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from strobe.cli.common import (
    Grouped,
    folder,
    json_option,
    options,
    progress,
    quiet_option,
    severity_option,
    workers_option,
)
from strobe.cli.said import counted, made, made_json
from strobe.core.errors import printable

if TYPE_CHECKING:
    from strobe.workflows.vary_corruption import CorruptionOptions

__all__ = ["command"]


@click.group(name="vary", epilog="Example: strobe vary corruption data/photos data/corrupted --kind fog,snow")
def command() -> None:
    """Make a dataset from the anchors of another: what should get the same answer, and may not."""


def _kinds(context: click.Context, parameter: click.Parameter, words: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG001
    """Names, repeated or with commas between them."""
    return tuple(name.strip() for word in words for name in word.split(","))


def _say_kinds(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:  # noqa: ARG001
    if not wanted or context.resilient_parsing:
        return
    from strobe.vary.corruptions import CORRUPTIONS, GROUPS

    width = max(map(len, (*CORRUPTIONS, *GROUPS)))
    for name, about in CORRUPTIONS.items():
        click.echo(f"{name.ljust(width)}  {about.what}")
    for name, kinds in GROUPS.items():
        click.echo(f"{name.ljust(width)}  {counted(len(kinds), 'corruption')}: {', '.join(kinds)}")
    context.exit()


_wanted = options(
    "wanted", "What is made", "strobe.workflows.vary_corruption:CorruptionOptions",
    click.option("--kind", multiple=True, default=("imagenet-c",), show_default=True, callback=_kinds, metavar="NAME",
                 help="A corruption, or a group: imagenet-c (its 15), papers (6), all (17). Several with commas."),
    severity_option,
    click.option("--store", is_flag=True,
                 help="Store every member as a PNG file. Default: rendered when it is read, to the same pixels."),
    click.option("--name", default="", help="The dataset's name; default: the folder's."),
    workers_option,
)  # fmt: skip


@command.command(
    cls=Grouped,
    short_help="Corruptions of five severities: noise, blur, weather, JPEG and the like.",
    epilog="Example: strobe vary corruption data/photos data/corrupted --kind papers --severity 1-5   ·   then: "
    "strobe eval data/corrupted -m efficientnet-lite0 -o run/",
)
@click.argument("src", type=folder())
@click.argument("dst", type=folder(exists=False))
@_wanted
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_say_kinds,
              help="Show the corruptions and groups, and exit.")  # fmt: skip
@quiet_option
@json_option
def corruption(src: Path, dst: Path, wanted: "CorruptionOptions", quiet: bool, as_json: bool) -> None:
    """Corrupt the anchors of the dataset SRC: photos, or one frame of every set; DST becomes a dataset of its own.

    One set per picture and corruption, severity the distance. The settings are ImageNet-C's, for pictures of 224
    pixels; lengths and noise follow a picture's size. The same picture gives the same pixels, in whatever order. The
    same command again does only what is missing.
    """
    from strobe.workflows.vary_corruption import vary_corruption

    done = vary_corruption(src, dst, wanted, progress=progress(quiet=quiet or as_json))
    kinds = [str(name) for name in done.dataset.variants.variant] if done.dataset.variants else []
    if as_json:
        made_json(dst, done.dataset, {"kinds": kinds, "stored": wanted.store, "problems": list(done.problems)})
        return
    for problem in done.problems:
        click.echo(f"left out: {printable(problem)}", err=True)
    stored = "stored as files" if wanted.store else "rendered when read"
    was = " (it was there)" if done.was_there else ""
    line = made(dst, done.dataset, "video", "set", "frame", "class")
    click.echo(f"{line}; {counted(len(kinds), 'corruption')} {stored}{was}")
