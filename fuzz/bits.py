"""Bits that flip on a disk, in every stored file in turn: a figure that changes at exit 0 is a finding."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

from fuzz.cases import Outcome, judge, lay_out_sound
from fuzz.process import call
from fuzz.recipe import Recipe
from fuzz.recipes import recipes

__all__ = ["bit_plan", "run_bits"]

_VERBS = ("score", "compare", "gate", "history", "inspect", "predict", "eval", "report")
_OURS = ("datasets/", "runs/")
_SAID = ("at", "command", "versions", "seconds", "speed", "strobe")
"""What differs between two runs of one command, and is no figure."""


def bit_plan(flips: int) -> list[str]:
    """The names of the sweeps: one for each command line that reads folders of ours and gives figures."""
    return [
        f"bits/{one.name}+{flips}"
        for one in recipes()
        if one.verb in _VERBS and one.place and all(name.startswith(_OURS) or name == "models.py" for name in one.place)
    ]


def run_bits(case: str, *, corpus: Path, work: Path) -> Outcome:
    """So many single flips in each stored file; the finding names those that changed a figure in silence.

    Left out are the user's own model, and what strobe writes for people alone (reports, tables, figures).
    """
    name, _, flips = case.removeprefix("bits/").partition("+")
    recipe = next(one for one in recipes() if one.name == name)
    outcome = Outcome(case=case, verb=recipe.verb, recipe=recipe.name, code=0)  # type: ignore[arg-type]  # it has a name
    start, rng = work / "start", random.Random(case)
    lay_out_sound(recipe, corpus, start)
    whole = work / "whole"
    shutil.copytree(start, whole)
    done = call(recipe.words, cwd=whole)
    if done.code not in (0, 1):
        outcome.finding = f"unbroken: {done.ended}: {done.stderr[-300:]}"
        return outcome
    expected = _figures(recipe, whole, done.stdout)
    problems = []
    for path in _stored(recipe, start):
        for _ in range(int(flips or 1)):
            outcome.kinds.append(path.as_posix())
            if problem := _one(recipe, start, work / "at", path, expected, rng):
                problems.append(problem)
    outcome.finding = "; ".join(problems[:5])
    return outcome


def _stored(recipe: Recipe, start: Path) -> list[Path]:
    tops = [start / name for name in recipe.place if name.startswith(_OURS)]
    files = [path.relative_to(start) for top in tops for path in sorted(top.rglob("*")) if path.is_file()]
    shown = (".html", ".svg", ".csv", ".sqlite")
    return [path for path in files if path.suffix not in shown and not {"tables", "figures", "masks"} & {*path.parts}]


def _one(recipe: Recipe, start: Path, work: Path, path: Path, expected: Any, rng: random.Random) -> str:
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(start, work)
    data = bytearray((work / path).read_bytes())
    if not data:
        return ""
    place, bit = rng.randrange(len(data)), rng.randrange(8)
    data[place] ^= 1 << bit
    (work / path).write_bytes(data)
    done = call(recipe.words, cwd=work)
    where = f"bit {bit} of byte {place} of {path}"
    if problem := judge(done, recipe.verb):
        return f"{where}: {problem}"
    if done.code == 2 or done.stderr.strip():  # refused, or a line about it
        return ""
    found = _figures(recipe, work, done.stdout)
    if found == expected:
        return ""
    return f"{where}: exit {done.code}, and other figures without a word ({_first(expected, found)})"


def _figures(recipe: Recipe, place: Path, stdout: str) -> Any:
    """What the command gives: results.json where it writes one, else what it prints."""
    results = place / (recipe.dest or "") / "results.json"
    if recipe.dest and results.is_file():
        return _plain(json.loads(results.read_text(encoding="utf-8")))
    return stdout


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if key not in _SAID}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _first(one: Any, other: Any, at: str = "") -> str:
    """Where two contents differ first."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            if one.get(key) != other.get(key):
                return _first(one.get(key), other.get(key), f"{at}/{key}")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (a, b) in enumerate(zip(one, other, strict=True)):
            if a != b:
                return _first(a, b, f"{at}/{place}")
    return f"{at}: {str(one)[:60]} → {str(other)[:60]}"
