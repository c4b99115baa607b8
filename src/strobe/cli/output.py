"""Output that commands share: counts, the size of a dataset, skipped inputs, and errors for unused options."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from strobe.core.errors import InvalidValue, printable

if TYPE_CHECKING:
    from strobe.core.dataset import Dataset

__all__ = ["counted", "left_out", "made", "made_json", "refuse_option"]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun in singular or plural.

    >>> counted(1, "set"), counted(2, "class")
    ('1 set', '2 classes')
    """
    return f"{number:,} {noun if number == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    return noun + ("es" if noun.endswith(("s", "x")) else "s")


def made(dst: Path, dataset: "Dataset", *nouns: str) -> str:
    """Return a summary of a new dataset folder: its numbers of videos, sets, frames and classes."""
    from strobe.core.tables import SOURCES

    sizes, nouns_shown = _sizes(dataset), {noun: noun for noun in ("video", *nouns)}
    kinds = list(dataset.kinds)
    if kinds != ["video"]:  # photos are not videos, and images made from them are not frames
        nouns_shown |= {"video": SOURCES[kinds[0]] if len(kinds) == 1 else "source", "frame": "image"}
        nouns = tuple(noun for noun in nouns if dataset.info.k or noun not in ("set", "frame")) or ("video",)
    counts = {noun: counted(sizes[f"n_{_plural(noun)}"], nouns_shown[noun]) for noun in nouns}
    if "frame" in counts and nouns_shown["frame"] == "image":
        counts["frame"] += " in total"
    return f"{printable(dst)}: {', '.join(counts.values())}"


def made_json(dst: Path, dataset: "Dataset", more: Mapping[str, Any]) -> None:
    """Print the facts about a new dataset folder as JSON."""
    click.echo(json.dumps({"dataset": str(dst), "digest": dataset.digest(), **_sizes(dataset), **more}))


def _sizes(dataset: "Dataset") -> dict[str, int]:
    return {
        "n_videos": len(dataset.videos),
        "n_sets": dataset.n_sets,
        "n_frames": len(dataset.frames),
        "n_classes": len(dataset.info.label_space),
    }


def left_out(problems: Iterable[str]) -> None:
    """Print a line for each input that could not be used."""
    for problem in problems:
        click.echo(f"skipped: {printable(problem)}", err=True)


def refuse_option(option: str, why: str) -> None:
    """Raise InvalidValue with this message if the user set the option, which is given by its Python name."""
    source = click.get_current_context().get_parameter_source(option)
    if source is not click.core.ParameterSource.DEFAULT:
        raise InvalidValue(why)
