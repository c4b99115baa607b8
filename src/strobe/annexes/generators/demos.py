"""`strobe demo --generator` and `--autoencoder`."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from strobe.cli.common import Demo

if TYPE_CHECKING:
    from strobe.core.ports import Progress
    from strobe.workflows.evaluate import Evaluation


def _generator(out: Path, bar: "Progress", _offline: bool) -> "Iterable[Evaluation]":
    from strobe.annexes.generators.demo import demo_generator

    yield demo_generator(out, bar)


def _autoencoder(out: Path, bar: "Progress", _offline: bool) -> "Iterable[Evaluation]":
    from strobe.annexes.generators.demo import demo_autoencoder

    yield demo_autoencoder(out, bar)


GENERATOR = Demo(run=_generator)
AUTOENCODER = Demo(run=_autoencoder)
