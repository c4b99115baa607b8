"""Commands for the simulator: real processes on its folders. They are killed, lose power, run out of disk or collide.

After any fault, the same command must succeed and leave the files of an uninterrupted command.
"""

import errno
import json
import os
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fuzz.cases import leftovers, tree
from fuzz.kill_cases import Killed
from fuzz.kills import KILLED, _die_at, state_of
from fuzz.process import call, watch
from fuzz.sim_server import Broken

__all__ = ["COMMANDS", "Hand", "break_command", "run_twice"]

_STEPS = ("replace", "rename", "link", "mkdir", "fsync")

_SCORE = "-q --bootstrap 100"


def _command(words: str, dest: str) -> Killed:
    return Killed(words=tuple(words.split()), place=(), dest=dest)


COMMANDS = {
    "export": _command("review export data -q --ask {ask}", "data"),
    "export apart": _command("review export data -o out -q", "out"),
    "score": _command(f"score data -m m=preds:preds.json -o run {_SCORE}", "run"),
    "score again": _command(f"score run --k 1 {_SCORE}", "run"),
    "tables": _command("export data csv table -q", "table"),
    "make": _command("synthesize made --videos 2 --size 32 --k 1 --seed 7 -q", "made"),
}
"""Commands that run besides the servers. `export apart` works only for pairs, and `score again` needs the run."""


class Hand:
    """A process, forked before any computation, that runs commands on request."""

    def __init__(self) -> None:
        asked, self._ask = os.pipe()
        self._told, tell = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._ask)
            os.close(self._told)
            self._serve(os.fdopen(asked, encoding="utf-8"), os.fdopen(tell, "w", encoding="utf-8"))
        os.close(asked)
        os.close(tell)
        self._out = os.fdopen(self._ask, "w", encoding="utf-8")
        self._in = os.fdopen(self._told, encoding="utf-8")

    @staticmethod
    def _serve(asked: Any, tell: Any) -> None:
        for line in asked:
            job = json.loads(line)
            done = call(job["words"], cwd=Path(job["cwd"]), limit_s=120, before=partial(_break, job["fault"]))
            tell.write(json.dumps({"code": done.code, "ended": done.ended, "stderr": done.stderr[-600:]}) + "\n")
            tell.flush()
        os._exit(0)

    def start(self, words: tuple[str, ...], cwd: Path, fault: dict[str, Any] | None = None) -> None:
        """Start `strobe WORDS` in that folder, with a fault if given."""
        self._out.write(json.dumps({"words": words, "cwd": str(cwd), "fault": fault or {}}) + "\n")
        self._out.flush()

    def result(self) -> dict[str, Any]:
        """Return how the command ended."""
        line = self._in.readline()
        if not line:
            raise Broken("the process that runs commands has ended")
        found: dict[str, Any] = json.loads(line)
        return found

    def run(self, words: tuple[str, ...], cwd: Path, fault: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run a command and return how it ended."""
        self.start(words, cwd, fault)
        return self.result()

    def close(self) -> None:
        """End the process."""
        self._out.close()
        self._in.close()
        os.waitpid(self.pid, 0)


# -- faults in the command's own process -----------------------------------------------------------------------------


def _break(fault: dict[str, Any]) -> None:
    kind = fault.get("kind", "")
    if kind == "kill":
        _die_at(fault["at"], Path(fault["note"]))
    elif kind == "power":
        _lose_power_at(fault["at"], random.Random(fault["seed"]))
    elif kind == "full":
        _fill_disk_at(fault["at"])
    elif kind == "small":
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (fault["at"], resource.RLIM_INFINITY))


def _each_step(does: Callable[[int], None]) -> None:
    """Call `does` with the number of every step on disk, before the step is made."""
    seen = [0]

    def guarded(real: Callable[..., Any]) -> Callable[..., Any]:
        def call_it(*args: Any, **named: Any) -> Any:
            seen[0] += 1
            does(seen[0])
            return real(*args, **named)

        return call_it

    for name in _STEPS:
        setattr(os, name, guarded(getattr(os, name)))


def _fill_disk_at(step: int) -> None:
    """Make the disk full from this step on."""

    def does(number: int) -> None:
        if number >= step:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    _each_step(does)


def _lose_power_at(step: int, rng: random.Random) -> None:
    """End the process at the step, and truncate files that it did not sync. The store syncs its own files."""
    home = Path.cwd()
    before = {path.lstat().st_ino for path in home.rglob("*")}
    synced: set[tuple[int, int]] = set()
    system: Any = os
    sync = os.fsync

    def noted(handle: int) -> None:
        sync(handle)
        about = os.fstat(handle)
        synced.add((about.st_ino, about.st_size))

    def does(number: int) -> None:
        if number != step:
            return
        for path in sorted(home.rglob("*")):
            about = path.lstat()
            loose = about.st_ino not in before and (about.st_ino, about.st_size) not in synced
            if loose and path.is_file() and not path.is_symlink() and ".sqlite" not in path.name:
                os.truncate(path, rng.randrange(about.st_size + 1))
        os._exit(KILLED)

    system.fsync = noted
    _each_step(does)


# -- checks afterwards -----------------------------------------------------------------------------------------------


def break_command(
    name: str, ask: str, *, hand: Hand, place: Path, work: Path, rng: random.Random, reference: Callable[[Path], None]
) -> str:
    """Run a command with a fault, then again without. Its files must equal those of an uninterrupted command.

    `reference` copies the folders as they are before the command, for the uninterrupted command. Returns the event.
    """
    command = _asked(name, ask)
    reference_folder = work / "whole"
    shutil.rmtree(reference_folder, ignore_errors=True)
    reference(reference_folder)
    unbroken = hand.run(command.words, reference_folder)
    if _is_too_early(unbroken):
        return f"{name}: too early"
    if unbroken["code"] != 0:
        raise Broken(f"{name}, uninterrupted: {unbroken}")
    expected = _files(command, reference_folder)
    kind = rng.choice(("kill", "power", "full", "small"))
    at = rng.randrange(2000, 12_000) if kind == "small" else rng.randrange(1, 60)
    fault = {"kind": kind, "at": at, "seed": rng.random(), "note": str(work / "step")}
    event = f"{name} with {kind} at {fault['at']}"
    first = hand.run(command.words, place, fault)
    if kind in ("full", "small") and first["code"] not in (0, 2):
        raise Broken(f"{event}: {first}")
    left = [one for one in leftovers(tree(place / command.dest)) if not one.startswith(".committed")]
    if first["code"] == 2 and left:  # a `.committed` folder is complete; the next command moves it into place
        raise Broken(f"{event}: the temporary file {left[0]} remains")
    again = hand.run(command.words, place)
    if again["code"] != 0:
        raise Broken(f"{event}, then run again: {again}")
    _expect_same(event, _files(command, place), [expected])
    return f"{event}: {first['ended']}"


def run_twice(*, hands: tuple[Hand, Hand], place: Path, rng: random.Random) -> str:
    """Run two commands that write to one folder at once. The folder must equal one command's result.

    The other may fail.
    """
    if rng.random() < 0.5:
        seeds = rng.sample(range(10, 1000), 2)
        pair = [_command(f"synthesize both --videos 2 --size 32 --k 1 --seed {seed} -q", "both") for seed in seeds]
    else:
        pair = [_command(f"score data -m m=preds:preds.json -o both --k {k} {_SCORE}", "both") for k in (1, 2)]
    event = f"two at once: {' and '.join(' '.join(one.words) for one in pair)}"
    shutil.rmtree(place / "both", ignore_errors=True)
    expected = []
    for one in pair:
        alone = hands[0].run(one.words, place)
        if _is_too_early(alone):
            return f"{event}: too early"
        if alone["code"] != 0:
            raise Broken(f"{event}, one alone: {alone}")
        expected.append(_files(one, place))
        shutil.rmtree(place / "both")
    for hand, one in zip(hands, pair, strict=True):
        hand.start(one.words, place)
    ended = [hand.result() for hand in hands]
    codes = [one["code"] for one in ended]
    if sorted(codes) not in ([0, 0], [0, 2]):
        raise Broken(f"{event}: {ended}")
    if left := leftovers(tree(place / "both")):
        raise Broken(f"{event}: the temporary file {left[0]} remains")
    _expect_same(event, _files(pair[0], place), [one for one, code in zip(expected, codes, strict=True) if code == 0])
    return event


def _is_too_early(done: dict[str, Any]) -> bool:
    """Return whether the command rightly refused, because there are no votes yet or they keep no set."""
    return done["code"] == 2 and any(why in done["stderr"] for why in ("to export yet", "reject every set"))


def _files(command: Killed, place: Path) -> dict[str, str]:
    """Return the command's files, without the store, which is checked elsewhere.

    Another process reads them: closing a file of the store here would release SQLite's locks on it.
    """
    found: Any = watch(lambda: state_of(command, place), cwd=place, limit_s=60).answer
    return {name: content for name, content in found.items() if ".sqlite" not in name}


def _asked(name: str, ask: str) -> Killed:
    command = COMMANDS[name]
    return Killed(words=tuple(word.format(ask=ask) for word in command.words), place=(), dest=command.dest)


def _expect_same(event: str, found: dict[str, str], expected: list[dict[str, str]]) -> None:
    if found in expected:
        return
    one = expected[0]
    other = sorted(name for name in {*found, *one} if found.get(name) != one.get(name))
    raise Broken(f"{event}: {', '.join(other[:3])} differ from those of an uninterrupted command")
