"""Kill a command at its n-th step on disk, or at a random moment, and run it again.

A step is a rename, a link, a removal or a new folder. After a kill, the folder must be absent or readable. The same
command must then succeed, give the files of an uninterrupted run, and leave no temporary files.
"""

import hashlib
import json
import os
import random
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fuzz.cases import Outcome, leftovers, tree, unreadable
from fuzz.kill_cases import KILLS, Killed
from fuzz.process import call, watch

__all__ = [
    "KILLED",
    "count_steps",
    "difference",
    "kill_at",
    "kill_plan",
    "lay_out",
    "not_whole",
    "run_kill",
    "state_of",
]

KILLED = 137
_STEPS = ("replace", "rename", "link", "symlink", "unlink", "remove", "rmdir", "mkdir")
_MOST = 400


def kill_plan(most: int | None, seed: int) -> list[str]:
    """Return the names of kills: for each command one sweep over all steps, then random moments.

    `most` keeps the cheapest.
    """
    sweeps = [f"kill/{name}/steps" for name in KILLS]
    at_random = [f"kill/{name}/random-{seed}" for name in KILLS]
    if most is None:
        return [*sweeps, *at_random]
    cheap = ["leaderboard", "import-photos", "sheet", "build-more", "review-export", "score-again"]
    return [f"kill/{name}/steps-{max(1, most // len(cheap))}" for name in cheap][:most]


def run_kill(name: str, *, corpus: Path, work: Path) -> Outcome:
    """Run all kills of one name. The finding is the first broken rule of each kind."""
    _, verb, how = name.split("/")
    killed = KILLS[verb]
    outcome = Outcome(case=name, verb=verb, command=verb)  # type: ignore[arg-type]  # a kill is named, not numbered
    work.mkdir(parents=True)
    start = work / "start"
    lay_out(killed, corpus, start)
    uninterrupted = work / "whole"
    shutil.copytree(start, uninterrupted, symlinks=True)
    done = call(killed.words, cwd=uninterrupted, limit_s=60)
    if done.code != 0:
        outcome.finding = f"uninterrupted: {done.ended}: {done.stderr[-300:]}"
        return outcome
    expected = state_of(killed, uninterrupted)
    outcome.code = 0
    kind, _, number = how.partition("-")
    if kind == "steps":
        plan: list[Any] = list(range(1, _MOST))
        if number:
            total = count_steps(killed, start, work)
            rng = random.Random(name)
            plan = sorted(rng.sample(range(1, total + 1), min(int(number), total)))
    else:
        rng = random.Random(name)
        plan = [rng.random() * done.seconds for _ in range(12)]
    problems: dict[str, str] = {}
    for point in plan:
        ended, problem = kill_at(killed, start, work / "at", point, expected)
        if not ended:
            break
        outcome.kinds.append(str(point) if isinstance(point, int) else f"{point:.3f} s")
        if problem:  # keep one finding of each kind
            problems.setdefault(
                re.sub(r"[0-9a-z_]{8}\.tmp|\d+", "#", problem), f"at {outcome.kinds[-1]} ({ended}): {problem}"
            )
            if len(problems) == 1:
                shutil.copytree(work / "at", work / "first", symlinks=True)
    outcome.finding = "; ".join(problems.values())
    return outcome


def lay_out(killed: Killed, corpus: Path, place: Path) -> None:
    """Copy the command's inputs, and run the commands that must precede it."""
    place.mkdir(parents=True)
    for name in killed.place:
        source, target = corpus / name, place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    for words in killed.before:
        done = call(words, cwd=place, limit_s=60)
        if done.code != 0:
            raise RuntimeError(f"before the kill: strobe {' '.join(words)}: {done.stderr[-300:]}")


def kill_at(killed: Killed, start: Path, work: Path, point: int | float, expected: dict[str, str]) -> tuple[str, str]:
    """Kill the command once and check. Return how it died ("" if it finished before the kill), and the broken rule."""
    shutil.rmtree(work, ignore_errors=True)
    place = work / "in"
    shutil.copytree(start, place, symlinks=True)
    if isinstance(point, int):
        dead = call(killed.words, cwd=place, limit_s=60, before=partial(_die_at, point, work / "step"))
        if dead.code == 0:
            return "", ""
        if dead.code != KILLED:
            return "?", f"died with {dead.ended}: {dead.stderr[-300:]}"
        ended = (work / "step").read_text(encoding="utf-8").strip()
    else:
        dead = call(killed.words, cwd=place, limit_s=60, kill_after_s=point)
        ended = "at random"
    if problem := not_whole(place / killed.dest, work / "copy"):
        return ended, f"the folder it left cannot be read: {problem}"
    again = call(killed.words, cwd=place, limit_s=60)
    if again.code != 0:
        return ended, f"running the same command again: {again.ended}: {again.stderr.strip()[-300:]}"
    files = state_of(killed, place)
    if left := leftovers(tree(place / killed.dest)):
        return ended, f"the temporary file {left[0]} remains"
    if files != expected:
        return ended, difference(files, expected)
    return ended, ""


def difference(files: dict[str, str], expected: dict[str, str]) -> str:
    """Return the first file that is not as in an uninterrupted run, and how."""
    other = sorted(name for name in {*files, *expected} if files.get(name) != expected.get(name))
    how = "is missing" if other[0] not in files else "is unexpected" if other[0] not in expected else "differs"
    return f"{other[0]} {how} (of {len(other)})"


def not_whole(dest: Path, copy: Path) -> str:
    """Return why a dataset or run in the folder cannot be read. A copy is read, because reading repairs the folder."""
    if not any((dest / name).exists() for name in ("dataset.json", "run.json", ".committed")):
        return ""
    shutil.copytree(dest, copy / dest.name, symlinks=True)
    found = watch(lambda: unreadable(copy / dest.name), cwd=copy, limit_s=60)
    return str(found.answer or "") if found.code == 0 else f"{found.ended}: {found.stderr.strip()[-300:]}"


# -- the kill --------------------------------------------------------------------------------------------------------


def _die_at(step: int, note: Path) -> None:
    """End the process just before its call number `step` that changes names on disk."""
    count, home = [0], str(Path.cwd())

    def is_ours(one: Any) -> bool:  # excludes caches in other folders
        return not isinstance(one, str | Path) or not Path(one).is_absolute() or str(one).startswith(home)

    def guarded(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call_it(*args: Any, **named: Any) -> Any:
            if all(is_ours(one) for one in args):
                count[0] += 1
                if count[0] == step or step < 0:
                    names = [Path(one).name for one in args[:2] if isinstance(one, str | Path)]
                    with note.open("a", encoding="utf-8") as file:
                        file.write(f"{name} {' '.join(names)}\n")
                if count[0] == step:
                    os._exit(KILLED)
            return real(*args, **named)

        return call_it

    for name in _STEPS:
        setattr(os, name, guarded(name, getattr(os, name)))


def count_steps(killed: Killed, start: Path, work: Path) -> int:
    """Return the number of steps of an uninterrupted run, by recording each step without a kill."""
    shutil.copytree(start, work / "count", symlinks=True)
    note = work / "steps"
    call(killed.words, cwd=work / "count", limit_s=60, before=partial(_die_at, -1, note))
    return len(note.read_text(encoding="utf-8").splitlines()) if note.is_file() else 0


# -- the outcome -----------------------------------------------------------------------------------------------------


def state_of(killed: Killed, place: Path) -> dict[str, str]:
    """Return the command's output by file, without times, versions and paths."""
    if killed.ask:
        said = call(killed.ask, cwd=place)
        return {"answer": re.sub(r'"(at|since|seconds|minutes)[^"]*": [^,\n]+', "", said.stdout)}
    out = {}
    dest = place / killed.dest
    for path in sorted(dest.rglob("*")):
        name = path.relative_to(dest).as_posix()
        if path.is_symlink() or not path.is_file():
            out[name] = "folder" if path.is_dir() else "link"
            continue
        data = path.read_bytes().replace(str(place).encode(), b"@")
        if path.name in ("run.json", "results.json", "review.json"):
            content = json.loads(data)
            for name_of in ("at", "command", "versions", "sha256"):
                content.pop(name_of, None)
            for model in content.get("models", {}).values():
                for name_of in (
                    "seconds",
                    "frames",
                    "frames_per_second",
                ):  # timings, and counts that depend on earlier work
                    model.pop(name_of, None)
            data = json.dumps(content, sort_keys=True).encode()
        if path.suffix == ".sqlite" or path.name == ".lock":
            data = b""
        out[name] = hashlib.sha256(data).hexdigest()
    return out
