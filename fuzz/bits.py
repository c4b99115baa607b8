"""Flip bits in each stored file in turn. If a figure changes although the command exits with 0, that is a finding."""

import json
import random
import shutil
from pathlib import Path
from typing import Any

from fuzz.cases import Outcome, judge, lay_out_sound
from fuzz.command import Command
from fuzz.commands import commands
from fuzz.process import call

__all__ = ["bit_plan", "run_bits"]

_VERBS = ("score", "compare", "gate", "history", "inspect", "predict", "eval", "report")
_OURS = ("datasets/", "runs/")
_SAID = ("at", "command", "versions", "seconds", "speed", "strobe")
"""Keys of results.json that differ between two runs of one command and are not figures."""


def bit_plan(flips: int) -> list[str]:
    """Return the names of the sweeps: one for each command that reads strobe's folders and prints figures."""
    return [
        f"bits/{one.name}+{flips}"
        for one in commands()
        if one.verb in _VERBS
        and not one.refused
        and one.place
        and all(name.startswith(_OURS) or name == "models.py" for name in one.place)
    ]


def run_bits(case: str, *, corpus: Path, work: Path) -> Outcome:
    """Flip single bits in each stored file. The finding names the flips that changed a figure without a message.

    The user's own model and files that strobe never reads (reports, tables, drawings) are excluded.
    """
    name, _, flips = case.removeprefix("bits/").partition("+")
    command = next(one for one in commands() if one.name == name)
    outcome = Outcome(case=case, verb=command.verb, command=command.name, code=0)  # type: ignore[arg-type]  # a name, not a number
    start, rng = work / "start", random.Random(case)
    lay_out_sound(command, corpus, start)
    undamaged = work / "whole"
    shutil.copytree(start, undamaged)
    done = call(command.words, cwd=undamaged)
    if done.code not in (0, 1):
        outcome.finding = f"without damage: {done.ended}: {done.stderr[-300:]}"
        return outcome
    expected = _figures(command, undamaged, done.stdout)
    problems = []
    for path in _stored(command, start):
        for _ in range(int(flips or 1)):
            outcome.kinds.append(path.as_posix())
            if problem := _one(command, start, work / "at", path, expected, rng):
                problems.append(problem)
    outcome.finding = "; ".join(problems[:5])
    return outcome


def _stored(command: Command, start: Path) -> list[Path]:
    tops = [start / name for name in command.place if name.startswith(_OURS)]
    files = [path.relative_to(start) for top in tops for path in sorted(top.rglob("*")) if path.is_file()]
    shown = (".html", ".svg", ".csv", ".sqlite")
    return [path for path in files if path.suffix not in shown and not {"tables", "figures", "masks"} & {*path.parts}]


def _one(command: Command, start: Path, work: Path, path: Path, expected: Any, rng: random.Random) -> str:
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(start, work)
    data = bytearray((work / path).read_bytes())
    if not data:
        return ""
    place, bit = rng.randrange(len(data)), rng.randrange(8)
    data[place] ^= 1 << bit
    (work / path).write_bytes(data)
    done = call(command.words, cwd=work)
    where = f"bit {bit} of byte {place} of {path}"
    if problem := judge(done, command.verb):
        return f"{where}: {problem}"
    if done.code == 2 or done.stderr.strip():  # the command refused or reported the flip
        return ""
    found = _figures(command, work, done.stdout)
    if found == expected:
        return ""
    return f"{where}: exit {done.code} without a message, but the figures differ ({_first(expected, found)})"


def _figures(command: Command, place: Path, stdout: str) -> Any:
    """Return the command's figures: results.json if it writes one, otherwise its output."""
    results = place / (command.dest or "") / "results.json"
    if command.dest and results.is_file():
        return _plain(json.loads(results.read_text(encoding="utf-8")))
    return stdout


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if key not in _SAID}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _first(one: Any, other: Any, at: str = "") -> str:
    """Return the first place where two contents differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in one.keys() | other.keys():
            if one.get(key) != other.get(key):
                return _first(one.get(key), other.get(key), f"{at}/{key}")
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (a, b) in enumerate(zip(one, other, strict=True)):
            if a != b:
                return _first(a, b, f"{at}/{place}")
    return f"{at}: {str(one)[:60]} → {str(other)[:60]}"
