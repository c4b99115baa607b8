"""What commands say: counts, what a dataset holds, what was left out, and a no to options that would go unheard."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strobe.core.errors import InvalidValue, printable

if TYPE_CHECKING:
    from strobe.core.dataset import Dataset

__all__ = ["counted", "left_out", "made", "made_json", "not_said"]


def counted(number: int, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "set"), counted(2, "class")
    ('1 set', '2 classes')
    """
    return f"{number:,} {noun if number == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    return noun + ("es" if noun.endswith(("s", "x")) else "s")


def made(dst: Path, dataset: "Dataset", *nouns: str) -> str:
    """The beginning of a line about a new dataset folder: how many videos, sets, frames, classes it holds."""
    from strobe.core.tables import SOURCES

    sizes, words = _sizes(dataset), {noun: noun for noun in ("video", *nouns)}
    kinds = list(dataset.kinds)
    if kinds != ["video"]:  # photos are no videos, and what was made of them is no frame of one
        words |= {"video": SOURCES[kinds[0]] if len(kinds) == 1 else "source", "frame": "picture"}
        nouns = tuple(noun for noun in nouns if dataset.info.k or noun not in ("set", "frame")) or ("video",)
    told = {noun: counted(sizes[f"n_{_plural(noun)}"], words[noun]) for noun in nouns}
    if "frame" in told and words["frame"] == "picture":
        told["frame"] += " in all"
    return f"{printable(dst)}: {', '.join(told.values())}"


def made_json(dst: Path, dataset: "Dataset", more: Mapping[str, Any]) -> None:
    """Print what is to be known of a new dataset folder as JSON."""
    click.echo(json.dumps({"dataset": str(dst), "digest": dataset.digest(), **_sizes(dataset), **more}))


def _sizes(dataset: "Dataset") -> dict[str, int]:
    return {
        "n_videos": len(dataset.videos),
        "n_sets": dataset.n_sets,
        "n_frames": len(dataset.frames),
        "n_classes": len(dataset.info.label_space),
    }


def left_out(problems: Iterable[str]) -> None:
    """Say what could not be used, a line each."""
    for problem in problems:
        click.echo(f"left out: {printable(problem)}", err=True)


def not_said(option: str, why: str) -> None:
    """Raise InvalidValue with the reason where the option (its Python name) was given, and not left at its default."""
    source = click.get_current_context().get_parameter_source(option)
    if source is not click.core.ParameterSource.DEFAULT:
        raise InvalidValue(why)
