"""`strobe demo --background`."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strobe.cli.common import Demo

if TYPE_CHECKING:
    from strobe.core.ports import Progress
    from strobe.workflows.evaluate import Evaluation


def _background(out: Path, bar: "Progress", offline: bool) -> "Iterable[Evaluation]":
    from strobe.annexes.backgrounds.demo import WHO, demo_background

    both = demo_background(out, bar, offline=offline)
    yield both.world
    click.echo(f"{WHO}.")
    if both.photos is None:
        click.echo(f"\nskipped the photos: {both.why}", err=True)
    else:
        yield both.photos


BACKGROUND = Demo(run=_background)
