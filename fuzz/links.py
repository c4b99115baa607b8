"""Links in a stranger's folder: each file and each folder in turn leads outside, and nothing there may be touched."""

import random
import shutil
from pathlib import Path

from fuzz.cases import Outcome, judge, lay_out_sound, tree
from fuzz.outside import Watcher
from fuzz.process import call
from fuzz.recipe import Recipe
from fuzz.recipes import recipes

__all__ = ["link_plan", "run_links"]

_OURS = ("datasets/", "runs/")
"""Folders that strobe makes. What users bring themselves (videos, releases) is read through links, as by any tool."""


def link_plan(most: int | None) -> list[str]:
    """The names of the sweeps: one for each command line that opens such a folder; `most`: so many places of each."""
    end = "" if most is None else f"+{most}"
    return [f"links/{one.name}{end}" for one in recipes() if any(name.startswith(_OURS) for name in one.place)]


def run_links(case: str, *, corpus: Path, work: Path) -> Outcome:
    """One command line with a link at every place, one at a time; the finding is the first that was followed.

    A name that ends in `+N` tries N of the places, drawn by the name.
    """
    name, _, most = case.partition("+")
    recipe = next(one for one in recipes() if one.name == name.removeprefix("links/"))
    outcome = Outcome(case=case, verb=recipe.verb, recipe=recipe.name, code=0)  # type: ignore[arg-type]  # it has a name
    start = work / "start"
    lay_out_sound(recipe, corpus, start)
    places = _places(recipe, start)
    if most and int(most) < len(places):
        places = sorted(random.Random(name).sample(places, int(most)))
    for place in places:
        outcome.kinds.append(place.as_posix())
        if problem := _one(recipe, start, work / "at", place):
            outcome.finding = f"{place} as a link: {problem}"
            break
    return outcome


def _places(recipe: Recipe, start: Path) -> list[Path]:
    tops = [start / name for name in recipe.place if name.startswith(_OURS)]
    return [path.relative_to(start) for top in tops for path in sorted(top.rglob("*"))]


def _one(recipe: Recipe, start: Path, work: Path, place: Path) -> str:
    shutil.rmtree(work, ignore_errors=True)
    inputs, outside = work / "in", work / "outside"
    shutil.copytree(start, inputs, symlinks=True)
    outside.mkdir()
    shutil.move(inputs / place, outside / place.name)
    (inputs / place).symlink_to(outside / place.name)
    before, watcher = tree(outside), Watcher(outside)
    done = call(recipe.words, cwd=inputs)
    if events := watcher.events():
        return f"{events[0]} outside the folder (exit {done.code})"
    if before != tree(outside):
        return "what lies outside was changed"
    return judge(done, recipe.verb)
