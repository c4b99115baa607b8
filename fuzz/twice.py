"""Run two commands that write to one folder at once. One must succeed, and the other must exit with 2 and one line."""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from fuzz.cases import Outcome, judge, leftovers, tree
from fuzz.kill_cases import KILLS, Killed
from fuzz.kills import lay_out, state_of
from fuzz.process import call

__all__ = ["OTHERWISE", "held", "run_twice", "twice_plan"]

_RACES = 3
OTHERWISE = {
    "build": ("--seed", "5"),
    "simulate": ("--seed", "5"),
    "synthesize": ("--seed", "5"),
    "vary": ("--kind", "contrast"),
    "ladder": ("--rungs", "crop"),
    "generator": ("--seed", "5"),
    "import-coco-vid": ("--seed", "5"),
}
"""Options of the second command that change its result for the same inputs."""


def twice_plan() -> list[str]:
    """Return the names of the sweeps: one for each command that writes."""
    return [f"twice/{name}" for name in KILLS]


def run_twice(name: str, *, corpus: Path, work: Path) -> Outcome:
    """Run a command on a folder that another process has locked, then run two commands at once.

    The finding is the first broken rule.
    """
    verb = name.removeprefix("twice/")
    killed = KILLS[verb]
    other = Killed(
        words=(*killed.words, *OTHERWISE.get(verb, ())), place=killed.place, dest=killed.dest, ask=killed.ask
    )
    outcome = Outcome(case=name, verb=verb, command=verb, code=0)  # type: ignore[arg-type]  # a name, not a number
    start = work / "start"
    lay_out(killed, corpus, start)
    wholes = []
    for number, one in enumerate((killed, other)):
        place = _copy(start, work / f"whole-{number}")
        done = call(one.words, cwd=place, limit_s=60)
        if done.code != 0:
            outcome.finding = f"alone: {done.ended}: {done.stderr[-300:]}"
            return outcome
        wholes.append(state_of(one, place))
    outcome.kinds.append("held")
    outcome.finding = held(killed, _copy(start, work / "held"))
    for number in range(0 if outcome.finding else _RACES):
        outcome.kinds.append("race")
        place = _copy(start, work / f"race-{number}")
        if problem := _race((killed, other), place, work, wholes):
            outcome.finding = problem
            break
    return outcome


def _copy(start: Path, place: Path) -> Path:
    shutil.copytree(start, place, symlinks=True)
    return place


def held(killed: Killed, place: Path) -> str:
    """Return which rule a command broke while another process had locked its folder, or an empty text."""
    import fcntl

    if killed.words[0] == "inspect" or killed.words[:2] == ("review", "import"):
        return ""  # it replaces a single file in one step, or writes to a database with its own locks
    folder = place / killed.dest
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = tree(place)
        done = call(killed.words, cwd=place, limit_s=60)
        changed = before != tree(place)
    if done.code != 2 or "another strobe command is writing to" not in done.stderr:
        return f"folder held by another process: exit {done.code}: {done.stderr.strip()[-300:]}"
    return "folder held by another process: files were changed" if changed else judge(done, killed.words[0])


def _race(two: Sequence[Killed], place: Path, work: Path, wholes: Sequence[dict[str, str]]) -> str:
    """Run both commands at once. The folder must equal the result of one command."""
    pids = []
    for number, one in enumerate(two):
        pid = os.fork()
        if not pid:
            done = call(one.words, cwd=place, limit_s=60)
            said = {"code": done.code, "ended": done.ended, "bad": judge(done, one.words[0]), "stderr": done.stderr}
            (work / f"ended-{number}.json").write_text(json.dumps(said), encoding="utf-8")
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    ended = [json.loads((work / f"ended-{number}.json").read_text(encoding="utf-8")) for number in range(2)]
    if bad := next((one["bad"] for one in ended if one["bad"]), ""):
        return f"two at once: {bad}"
    codes = [one["code"] for one in ended]
    if 0 not in codes:
        return f"two at once: exits {codes}: {ended[0]['stderr'][-200:]} {ended[1]['stderr'][-200:]}"
    if left := leftovers(tree(place / two[0].dest)):
        return f"two at once: the temporary file {left[0]} remains"
    if state_of(two[codes.index(0)], place) not in wholes:
        return f"two at once, exits {codes}: the folder equals neither command's result"
    return ""
