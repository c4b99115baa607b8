"""Replace each file and folder of a folder by a link to the outside. Nothing outside may be read or changed."""

import random
import shutil
from pathlib import Path

from fuzz.cases import Outcome, judge, lay_out_sound, tree
from fuzz.command import Command
from fuzz.commands import commands
from fuzz.outside import Watcher
from fuzz.process import call

__all__ = ["link_plan", "run_links"]

_OURS = ("datasets/", "runs/")
"""Folders that strobe makes. In users' own inputs (videos, releases), strobe follows links, as any tool does."""


def link_plan(most: int | None) -> list[str]:
    """Return the names of the sweeps: one for each command that opens such a folder.

    `most` limits the places per sweep.
    """
    end = "" if most is None else f"+{most}"
    return [f"links/{one.name}{end}" for one in commands() if any(name.startswith(_OURS) for name in one.place)]


def run_links(case: str, *, corpus: Path, work: Path) -> Outcome:
    """Run one command with a link at every place, one at a time. The finding is the first link that was followed.

    If the name ends in `+N`, only N random places are tried. The name is the seed.
    """
    name, _, most = case.partition("+")
    command = next(one for one in commands() if one.name == name.removeprefix("links/"))
    outcome = Outcome(case=case, verb=command.verb, command=command.name, code=0)  # type: ignore[arg-type]  # a name, not a number
    start = work / "start"
    lay_out_sound(command, corpus, start)
    places = _places(command, start)
    if most and int(most) < len(places):
        places = sorted(random.Random(name).sample(places, int(most)))
    for place in places:
        outcome.kinds.append(place.as_posix())
        if problem := _one(command, start, work / "at", place):
            outcome.finding = f"{place} as a link: {problem}"
            break
    return outcome


def _places(command: Command, start: Path) -> list[Path]:
    tops = [start / name for name in command.place if name.startswith(_OURS)]
    return [path.relative_to(start) for top in tops for path in sorted(top.rglob("*"))]


def _one(command: Command, start: Path, work: Path, place: Path) -> str:
    shutil.rmtree(work, ignore_errors=True)
    inputs, outside = work / "in", work / "outside"
    shutil.copytree(start, inputs, symlinks=True)
    outside.mkdir()
    shutil.move(inputs / place, outside / place.name)
    (inputs / place).symlink_to(outside / place.name)
    before, watcher = tree(outside), Watcher(outside)
    done = call(command.words, cwd=inputs)
    if events := watcher.events():
        return f"{events[0]} outside the folder (exit {done.code})"
    if before != tree(outside):
        return "a file outside the folder was changed"
    return judge(done, command.verb)
