"""Annexes: features in folders that one can delete, each with a manifest of what it adds to the lists of the house.

A manifest is text only. It names members as "package.module:object", which are imported when they are used
(`strobe.core.late.Registry`). This module is the only one outside `strobe/annexes/` that knows where annexes are.
"""

import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module

from strobe.core.errors import expect

_FOLDER = ENTRY_POINTS = "strobe.annexes"
"""The package of strobe's own annexes, and the group of entry points by which other packages offer an `Annex`."""


@dataclass(frozen=True, slots=True)
class Item:
    """A member that an annex adds to a list.

    `object` is where it is ("package.module:object"), `help` its line of help. Members of the house have the positions
    10, 20, 30 …; `at` is the position of this one.
    """

    object: str
    help: str = ""
    at: float = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Annex:
    """The manifest of an annex: what it is for, and the members it adds, by the name of the list and their own name.

    >>> Annex(what="Models of a dream.", adds={"providers": {"dream": Item("dreams.models:PROVIDER", at=55)}}).what
    'Models of a dream.'
    """

    what: str
    adds: Mapping[str, Mapping[str, Item]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expect(self.what != "", "Annex.what", "one line", self.what)
        for items in self.adds.values():
            for name, item in items.items():
                expect(isinstance(item, Item) and ":" in item.object, name, 'an Item of "module:object"', item)


@cache
def own_annexes() -> dict[str, Annex]:
    """Return the manifest of every annex of strobe that is present, by the name of its folder.

    A broken manifest raises its error: these annexes belong to strobe.
    """
    annexes = {}
    for module in pkgutil.iter_modules(import_module(_FOLDER).__path__):
        annex = import_module(f"{_FOLDER}.{module.name}.annex").ANNEX
        expect(isinstance(annex, Annex), f"ANNEX of {module.name}", "an Annex", annex)
        annexes[module.name] = annex
    return annexes


def added(list_name: str) -> dict[str, Item]:
    """Return the members that strobe's own annexes add to a list, by name."""
    items: dict[str, Item] = {}
    for annex_name, annex in own_annexes().items():
        for name, item in annex.adds.get(list_name, {}).items():
            expect(name not in items, f"{list_name}: {name} of annex {annex_name}", "a name used once", name)
            items[name] = item
    return items


def members(list_name: str, house: Mapping[str, Item]) -> dict[str, Item]:
    """Return the members of a list in display order: those of the house, and those that strobe's own annexes add."""
    annexes = added(list_name)
    for name in annexes:
        expect(name not in house, f"{list_name} of an annex", "a name that the house does not use", name)
    at = {name: 10.0 * number for number, name in enumerate(house, 1)} | {
        name: annex.at for name, annex in annexes.items()
    }
    every = {**house, **annexes}
    return {name: every[name] for name in sorted(every, key=at.__getitem__)}
