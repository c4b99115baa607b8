"""`strobe synthesize`: render a dataset of moving objects."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from strobe.cli.common import (
    Grouped,
    folder,
    json_option,
    k_option,
    made,
    made_json,
    options,
    progress,
    quiet_option,
    seed_option,
)
from strobe.core.errors import InvalidValue, printable

if TYPE_CHECKING:
    from strobe.synthetic.sets import SyntheticOptions
    from strobe.synthetic.world import WorldOptions


_Number = TypeVar("_Number", int, float)


def _world(*, size: int, k: int, objects: str, object_scale: str, **effects: Any) -> "WorldOptions":
    from strobe.synthetic.world import WorldOptions

    fewest, most = _range("--objects", objects, int, "1-3")
    usual = "0.25-0.5" if most > 1 else "0.35-0.6"
    scale = _range("--object-scale", object_scale or usual, float, "0.2-0.4")
    return WorldOptions(
        size=size, frames=2 * k + 1, objects_min=fewest, objects_max=most, object_scale=scale, **effects
    )


def _range(option: str, text: str, kind: type[_Number], example: str) -> tuple[_Number, _Number]:
    low, _, high = text.partition("-")
    try:
        return kind(low), kind(high or low)
    except ValueError as error:
        raise InvalidValue(f"{option}: expected a number or a range like {example}, got {printable(text)!r}") from error


_scene = options(
    "world",
    "The world",
    _world,
    click.option("--size", type=int, default=128, show_default=True, help="Side of a frame in pixels."),
    k_option,
    click.option("--objects", default="1", show_default=True, help="Objects per clip: a number or a range, e.g. 1-3."),
    click.option(
        "--object-scale",
        default="",
        help="Diameter of an object as a share of the side, e.g. 0.2-0.4. Default: 0.35-0.6, or 0.25-0.5 for"
        " several objects.",
    ),
    click.option(
        "--distractors", type=int, default=2, show_default=True, help="Largest number of objects without a class."
    ),
    click.option(
        "--occluders",
        type=int,
        default=1,
        show_default=True,
        help="Largest number of objects that pass in front of the others.",
    ),
    click.option("--motion", type=float, default=1.0, show_default=True, help="Strength of motion. 0 is none."),
    click.option(
        "--blur", type=float, default=0.6, show_default=True, help="Share of the frame time that the shutter is open."
    ),
    click.option("--lighting", type=float, default=1.0, show_default=True, help="Strength of lighting changes."),
    click.option("--noise", type=float, default=3.0, show_default=True, help="Sensor noise, 8-bit levels."),
    click.option(
        "--background-correlation",
        type=float,
        default=0.0,
        show_default=True,
        help="Probability that the background belongs to the object's class. A negative "
        "number is the probability that it belongs to another class.",
    ),
)
_dataset = options(
    "dataset_options",
    "The dataset",
    "strobe.synthetic.sets:SyntheticOptions",
    click.option(
        "--videos",
        type=int,
        default=48,
        show_default=True,
        help="Number of clips. Each has one set. Clips show the classes in turn.",
    ),
    click.option(
        "--max-occlusion",
        type=float,
        default=0.6,
        show_default=True,
        help="Exclude members with a larger occluded share.",
    ),
    click.option("--masks", is_flag=True, help="Also store masks."),
    click.option(
        "--name",
        default="synthetic",
        show_default=True,
        help="The dataset's name, which is part of its digest. It does not depend on the folder.",
    ),
    seed_option,
)


@click.command(
    cls=Grouped,
    epilog="Example: strobe synthesize world/ --videos 120 --objects 1-3 --background-correlation 0.9",
)
@click.argument("dst", type=folder(exists=False))
@_dataset
@_scene
@quiet_option
@json_option
def command(dst: Path, dataset_options: "SyntheticOptions", world: "WorldOptions", quiet: bool, as_json: bool) -> None:
    """Render a dataset of a synthetic world: moving painted objects with exact labels, boxes and masks.

    DST becomes a dataset folder. The same options and seed give the same bytes.
    """
    from strobe.workflows.synthesize import synthesize

    done = synthesize(dst, replace(dataset_options, world=world), progress=progress(quiet=quiet or as_json))
    if as_json:
        made_json(dst, done.dataset, {"was_there": done.was_there})
        return
    click.echo(made(dst, done.dataset, "set", "frame") + (" (done before)" if done.was_there else ""))
