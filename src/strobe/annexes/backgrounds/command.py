"""`strobe vary background`: measure how much models rely on the background."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from strobe.cli.common import (
    Grouped,
    counted,
    folder,
    json_option,
    left_out,
    made,
    made_json,
    name_option,
    options,
    progress,
    quiet_option,
    seed_option,
    workers_option,
)
from strobe.cli.predicting import loading_options
from strobe.cli.vary import split_names, split_numbers
from strobe.core.errors import printable

if TYPE_CHECKING:
    from strobe.annexes.backgrounds.workflow import VaryBackgroundOptions
    from strobe.models.options import LoadOptions


def _print_rungs(context: click.Context, parameter: click.Parameter, requested: bool) -> None:  # noqa: ARG001 (click's signature)
    if not requested or context.resilient_parsing:
        return
    from strobe.annexes.backgrounds.ladders import CONTROLS, NEEDS_MASK, RUNGS

    for name, about in RUNGS.items():
        more = "; a control" if name in CONTROLS else ""
        more += "; needs masks" if name in NEEDS_MASK else ""
        more += "; at every --context" if name == "crop" else ""
        click.echo(f"{name.ljust(max(map(len, RUNGS)))}  {about}{more}")
    context.exit()


_ladders = options(
    "ladder_options", "The ladder", "strobe.annexes.backgrounds.workflow:VaryBackgroundOptions",
    click.option("--boxes", default="", metavar="WHICH",
                 help="truth: the dataset's boxes. people: boxes drawn in a review. Or a file: CSV with "
                 "key,x0,y0,x1,y1, "
                 "or manifest.json of a crop set. Default: the dataset's boxes, else boxes around the masks."),
    click.option("--masks", type=folder(), metavar="DIR",
                 help="Folder of masks: one PNG per image, with the image's name. Object pixels are above 127. "
                 "Default: the masks that synthesize or simulate wrote."),
    click.option("--detector", default="", metavar="MODEL",
                 help="Estimate boxes with a detector: its best box per image."),
    click.option("--segment", default="", metavar="NET",
                 help="Estimate masks with a saliency net: u2netp, or onnx:FILE.onnx."),
    click.option("--context", callback=split_numbers, default="1,1.25,1.5,2", show_default=True, metavar="LIST",
                 help="Size of a crop relative to its box, in width and height."),
    click.option("--fit", type=click.Choice(["squash", "pad"]), default="squash", show_default=True,
                 help="squash: each model resizes the whole rung. pad: the rung is placed in a grey square first."),
    click.option("--rungs", multiple=True, callback=split_names, metavar="LIST",
                 help="The rungs to make, separated by commas (see --list). Default: all that can be made."),
    click.option("--store", is_flag=True,
                 help="Store every rung as a PNG file. Default: render it to the same pixels when it is read."),
    name_option,
    workers_option,
    seed_option,
    common=("boxes", "masks", "detector", "segment", "context", "rungs"),
)  # fmt: skip


@click.command(
    name="background",
    cls=Grouped,
    short_help="Background ladders: measure how much models rely on the background.",
    epilog="Example: strobe vary background data/world data/ladder --context 1,1.5,2   ·   then: "
    "strobe eval data/ladder -m strobe-world -o run/",
)
@click.argument("src", type=folder())
@click.argument("dst", type=folder(exists=False))
@_ladders
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_print_rungs,
              help="List the rungs and exit.")  # fmt: skip
@loading_options
@quiet_option
@json_option
def command(
    src: Path, dst: Path, ladder_options: "VaryBackgroundOptions", load: "LoadOptions", quiet: bool, as_json: bool
) -> None:
    """Make background ladders from the anchors of the dataset SRC: photos, or one frame per set. DST becomes a dataset.

    Each image and rung gives one set. The rungs are the zoomed image, the crop to its box, the image with a grey,
    blurred or replaced background, the object alone, and the background alone. Models resize every rung without
    cropping, so that all rungs are prepared in the same way. Rungs that cannot be made are recorded with the reason in
    DST/ladder.parquet. DST/ladders.png shows a few ladders. Running the same command again does only the missing work.
    """
    from strobe.annexes.backgrounds.ladders import LADDER
    from strobe.annexes.backgrounds.workflow import vary_background

    done = vary_background(src, dst, ladder_options, load=load, progress=progress(quiet=quiet or as_json))
    rungs, absent = done.counts(), done.absent()
    if as_json:
        about = {key: done.dataset.info.provenance[key] for key in ("boxes", "masks")}
        made_json(dst, done.dataset, {**about, "rungs": rungs, "absent": absent, "problems": list(done.problems)})
        return
    left_out(done.problems)
    for rung, reasons in absent.items():
        what = "skipped" if rung == LADDER else f"without {rung}"
        for reason, count in reasons.items():
            click.echo(f"{what}: {counted(count, 'image')}: {printable(reason)}", err=True)
    was = " (existed before)" if done.was_there else ""
    click.echo(made(dst, done.dataset, "video", "set", "frame", "class") + was)
    click.echo(f"rungs: {', '.join(f'{name} {count:,}' for name, count in rungs.items())}; {printable(done.sources())}")
