"""Hold one command to every rule of a folder that strobe writes: the contract of tests/contracts/test_verbs.py.

Run again, it changes nothing. It refuses a folder that is locked, that has foreign files or was made with other
settings. A full disk ends it with 2 and one line, and after that, or after a kill, the same command gives the files of
an uninterrupted run. `kill/NAME/steps` kills at every step; this sweep draws some.
"""

import random
import resource
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

from fuzz.cases import Outcome, judge, leftovers, tree
from fuzz.kill_cases import KILLS, Killed
from fuzz.kills import count_steps, difference, kill_at, lay_out, not_whole, state_of
from fuzz.process import call
from fuzz.twice import OTHERWISE, held

__all__ = ["rule_plan", "run_rules"]

BESIDE = {"eval", "gate", "history", "inspect", "predict", "report", "review", "score"}
"""Verbs that write a few files of their own names beside what a folder already has."""

SETTINGS = OTHERWISE | {
    "attack": ("--steps", "2"),
    "eval-videos": ("--every", "2"),
    "import-photos": ("--no-media",),
}
"""Options that make another folder of the same inputs."""

_KILLS = 2


def rule_plan() -> list[str]:
    """Return the names of the sweeps: one for each command that writes."""
    return [f"rules/{name}" for name in KILLS]


def run_rules(name: str, *, corpus: Path, work: Path) -> Outcome:
    """Try every rule that applies to one command. The finding is the first that it broke."""
    verb = name.removeprefix("rules/")
    killed = KILLS[verb]
    outcome = Outcome(case=name, verb=verb, command=verb, code=0)  # type: ignore[arg-type]  # a name, not a number
    start, whole = work / "start", work / "whole"
    lay_out(killed, corpus, start)
    shutil.copytree(start, whole, symlinks=True)
    done = call(killed.words, cwd=whole, limit_s=60)
    if done.code != 0:
        outcome.finding = f"uninterrupted: {done.ended}: {done.stderr[-300:]}"
        return outcome
    expected = state_of(killed, whole)
    rules: dict[str, Callable[[], str | None]] = {
        "again": partial(_again, killed, whole, expected),
        "held": lambda: held(killed, _copy(start, work / "held")),
        "foreign": partial(_foreign, killed, start, work / "foreign"),
        "settings": partial(_settings, verb, killed, whole, expected),
        "disk": partial(_disk, killed, start, whole, work / "disk", expected),
        "kills": partial(_kills, name, killed, start, work, expected),
    }
    for rule, holds in rules.items():
        problem = holds()
        outcome.kinds += [rule] if problem is not None else []
        if problem:
            outcome.finding = f"{rule}: {problem}"
            break
    return outcome


def _copy(start: Path, place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(start, place, symlinks=True)
    return place


def _refused(killed: Killed, place: Path, words: tuple[str, ...] = ()) -> str:
    """Return how the command, with more words, did not end with 2 and one line, or changed a file."""
    folder = place / killed.dest
    before = tree(folder)
    done = call((*killed.words, *words), cwd=place, limit_s=60)
    if done.code != 2:
        return f"exit {done.code}: {done.stderr.strip()[-300:]}"
    return judge(done, killed.words[0]) or ("files were changed" if tree(folder) != before else "")


def _again(killed: Killed, whole: Path, expected: dict[str, str]) -> str:
    done = call(killed.words, cwd=whole, limit_s=60)
    if done.code != 0:
        return f"exit {done.code}: {done.stderr.strip()[-300:]}"
    files = state_of(killed, whole)
    return "" if files == expected else f"run again, {difference(files, expected)}"


def _foreign(killed: Killed, start: Path, work: Path) -> str | None:
    """A folder with somebody's file: the command leaves it alone, or writes beside it if it writes to any folder."""
    if any(name == killed.dest for name in killed.place) or killed.before:
        return None
    place = _copy(start, work)
    mine = place / killed.dest / "thesis" / "mine.tex"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine", encoding="utf-8")
    if killed.words[0] not in BESIDE:
        return _refused(killed, place)
    done = call(killed.words, cwd=place, limit_s=60)
    return "" if done.code == 0 and mine.read_text(encoding="utf-8") == "mine" else f"exit {done.code}"


def _settings(verb: str, killed: Killed, whole: Path, expected: dict[str, str]) -> str | None:
    if verb not in SETTINGS:
        return None
    problem = _refused(killed, whole, SETTINGS[verb])
    return problem or ("" if state_of(killed, whole) == expected else "the folder was changed")


def _disk(killed: Killed, start: Path, whole: Path, work: Path, expected: dict[str, str]) -> str | None:
    """No file may grow beyond half of the largest one; then the disk has room again."""
    old = tree(start)
    new = [size for name, (_, size, _) in tree(whole).items() if old.get(name, (0, -1, 0))[1] != size]
    most = max(new, default=0) // 2
    if most < 600:  # what the command prints counts, too
        return None
    place = _copy(start, work)
    full = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    done = call(killed.words, cwd=place, limit_s=60, before=full)
    if done.code != 2:
        return f"exit {done.code}: {done.stderr.strip()[-300:]}"
    if problem := judge(done, killed.words[0]):
        return problem
    if left := leftovers(tree(place / killed.dest)):
        return f"the temporary file {left[0]} remains"
    if problem := not_whole(place / killed.dest, work / "copy"):
        return f"the folder it left cannot be read: {problem}"
    shutil.rmtree(work / "copy", ignore_errors=True)
    return _again(killed, place, expected)


def _kills(name: str, killed: Killed, start: Path, work: Path, expected: dict[str, str]) -> str:
    total = count_steps(killed, start, work)
    for step in sorted(random.Random(name).sample(range(1, total + 1), min(_KILLS, total))):
        ended, problem = kill_at(killed, start, work / "at", step, expected)
        if problem:
            return f"step {step} ({ended}): {problem}"
    return ""
