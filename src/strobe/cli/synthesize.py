"""`strobe synthesize`."""

from pathlib import Path

import click

from strobe.cli.common import folder, json_option, k_option, progress, quiet_option, seed_option
from strobe.cli.said import made, made_json
from strobe.core.errors import InvalidValue, printable

__all__ = ["command"]


@click.command(epilog="Example: strobe synthesize world/ --videos 120 --objects 1-3 --background-correlation 0.9")
@click.argument("dst", type=folder(exists=False))
@click.option("--videos", type=int, default=48, show_default=True, help="Clips, each with one set; classes in turn.")
@click.option("--size", type=int, default=128, show_default=True, help="Side of a frame in pixels.")
@k_option
@click.option("--objects", default="1", show_default=True, help="Objects in a clip: a number or a range, e.g. 1-3.")
@click.option("--distractors", type=int, default=2, show_default=True, help="Up to so many things of no class.")
@click.option("--occluders", type=int, default=1, show_default=True, help="Up to so many things that pass in front.")
@click.option("--motion", type=float, default=1.0, show_default=True, help="How much moves; 0 is still.")
@click.option("--blur", type=float, default=0.6, show_default=True, help="Share of the frame the shutter is open.")
@click.option("--lighting", type=float, default=1.0, show_default=True, help="How much the light varies.")
@click.option("--noise", type=float, default=3.0, show_default=True, help="Sensor noise, 8-bit levels.")
@click.option("--background-correlation", type=float, default=0.0, show_default=True,
              help="Probability that the ground is the home of the object's class.")  # fmt: skip
@click.option("--max-occlusion", type=float, default=0.6, show_default=True, help="More is no member.")
@click.option("--masks", is_flag=True, help="Store masks too.")
@click.option("--name", default="synthetic", show_default=True, help="The dataset's name.")
@seed_option
@quiet_option
@json_option
def command(
    dst: Path,
    videos: int,
    size: int,
    k: int,
    objects: str,
    distractors: int,
    occluders: int,
    motion: float,
    blur: float,
    lighting: float,
    noise: float,
    background_correlation: float,
    max_occlusion: float,
    masks: bool,
    name: str,
    seed: int,
    quiet: bool,
    as_json: bool,
) -> None:
    """Render a dataset of a synthetic world: painted objects on the move, labels, boxes and masks exact.

    DST becomes a dataset folder. The same options and seed give the same bytes.
    """
    from strobe.synthetic.sets import SyntheticOptions
    from strobe.synthetic.world import WorldOptions
    from strobe.workflows.synthesize import synthesize

    few, many = _range(objects)
    several = many > 1
    world = WorldOptions(
        size=size, frames=2 * k + 1, objects_min=few, objects_max=many, distractors=distractors, occluders=occluders,
        object_scale=(0.25, 0.5) if several else (0.35, 0.6), motion=motion, blur=blur, lighting=lighting, noise=noise,
        background_correlation=background_correlation,
    )  # fmt: skip
    options = SyntheticOptions(
        world=world, videos=videos, seed=seed, name=name, max_occlusion=max_occlusion, masks=masks
    )
    done = synthesize(dst, options, progress=progress(quiet=quiet or as_json))
    if as_json:
        made_json(dst, done.dataset, {"was_there": done.was_there})
        return
    click.echo(made(dst, done.dataset, "set", "frame") + (" (done before)" if done.was_there else ""))


def _range(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    try:
        return int(low), int(high or low)
    except ValueError as error:
        raise InvalidValue(f"--objects: expected a number or a range like 1-3, got {printable(text)!r}") from error
