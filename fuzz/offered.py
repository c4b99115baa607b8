"""What this installation offers: commands and formats of an annex may be away, and what is made with them too."""

from collections.abc import Iterable, Sequence
from functools import cache

__all__ = ["is_offered", "is_there"]

_MADE_WITH = {
    "imagenet-c": ("datasets/variants", "runs/new-variants", "inputs/variants.json"),
    "imagenet-vid-robust": ("datasets/robust",),
    "ytbb-robust": ("datasets/ytbb",),
    "trials": ("datasets/named",),
    "review": ("datasets/reviewing", "datasets/reviewed", "datasets/boxing"),
}
"""The inputs of the corpus that a command or format of an annex makes."""


@cache
def _names() -> frozenset[str]:
    from strobe.cli.main import COMMANDS
    from strobe.formats.registry import EXPORT_FORMATS, IMPORT_FORMATS

    return frozenset((*COMMANDS, *IMPORT_FORMATS.own, *EXPORT_FORMATS.own))


def is_offered(words: Sequence[str]) -> bool:
    """Return whether the command of these words is installed, and the format if it imports or exports one."""
    named = words[:2] if words[0] == "import" else words[:1]
    if words[0] == "export":
        named = (words[0], *(word for word in words if word == "imagenet-vid-robust"))
    return set(named) <= _names()


def is_there(inputs: Iterable[str]) -> bool:
    """Return whether the corpus has these inputs."""
    lost = {name for made_with, names in _MADE_WITH.items() if made_with not in _names() for name in names}
    return lost.isdisjoint(inputs)
