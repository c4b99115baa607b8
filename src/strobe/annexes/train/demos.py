"""`strobe demo --training`."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from strobe.cli.common import Demo

if TYPE_CHECKING:
    from strobe.core.ports import Progress
    from strobe.workflows.evaluate import Evaluation


def _training(out: Path, bar: "Progress", _offline: bool, *, size: str, seeds: int) -> "Iterable[Evaluation]":
    from strobe.annexes.train.demo import demo_training

    yield demo_training(out, bar, size=size, seeds=seeds)


TRAINING = Demo(
    run=_training,
    options=(
        click.Option(
            ["--size"],
            type=click.Choice(["toy", "small", "full"]),
            default="small",
            show_default=True,
            help="With --training: small for a CPU, full for a GPU, toy for a quick look.",
        ),
        click.Option(
            ["--seeds"],
            type=click.IntRange(1, 100),
            default=3,
            show_default=True,
            help="With --training: number of times that every recipe is trained.",
        ),
    ),
)
