"""Run one case: choose a command by the case's number, damage its inputs, run it and judge the outcome."""

import json
import os
import random
import re
import shutil
import stat
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fuzz.command import Command
from fuzz.commands import commands
from fuzz.mutations import mutate, mutate_words
from fuzz.process import Done, call, watch

__all__ = ["Outcome", "drawn", "judge", "lay_out_sound", "leftovers", "run_case", "tree", "unreadable"]

_LEFT = re.compile(r"\.staging-.*|\.committed|\.incoming-.*|\..+\.tmp|tmp[a-z0-9_]{8}")
_BAD = re.compile(
    r"Traceback \(most recent call last\)|Exception ignored|^\S*:\d+: \w*Warning|Segmentation fault", re.M
)


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The outcome of a case. `finding` is empty if the command kept every rule."""

    case: int
    verb: str
    command: str
    kinds: list[str] = field(default_factory=list)
    code: int | None = None
    finding: str = ""
    said: str = ""
    seconds: float = 0.0
    grown: int = 0

    def line(self) -> str:
        """Return the outcome as one line of the log."""
        return json.dumps(asdict(self)) + "\n"


def drawn(case: int, seed: int) -> tuple[Command, random.Random]:
    """Return the command of a case, and the random generator for its damage."""
    rng = random.Random(f"strobe-fuzz {seed} {case}")
    every = commands()
    return rng.choices(every, [one.weight for one in every])[0], rng


def run_case(case: int, *, seed: int, corpus: Path, work: Path, debug: bool = False) -> Outcome:
    """Run the case in `work`, an empty folder. The damaged inputs stay there."""
    command, rng = drawn(case, seed)
    place = work / "in"
    place.mkdir(parents=True)
    laid = watch(lambda: _lay_out(command, corpus, place, work, rng), cwd=place, limit_s=120)
    made = json.loads((work / "case.json").read_text(encoding="utf-8")) if laid.code == 0 else {"words": [], "said": []}
    outcome = Outcome(case=case, verb=command.verb, command=command.name)
    if laid.code != 0:
        outcome.finding = f"the fuzzer could not prepare the case: {laid.ended}: {laid.stderr[-300:]}"
        return outcome
    outcome.kinds = [said.split(" ")[0] for said in made["said"]]
    before = tree(place)
    if debug:
        os.environ["STROBE_DEBUG"] = "1"
    done = call(made["words"], cwd=place)
    os.environ.pop("STROBE_DEBUG", None)
    outcome.code, outcome.seconds, outcome.grown = done.code, round(done.seconds, 3), done.grown
    outcome.said = done.stderr[-4000:]
    outcome.finding = judge(done, command.verb) or _judge_files(
        command, done, before, place, other_words="words" in str(outcome.kinds)
    )
    return outcome


def lay_out_sound(command: Command, corpus: Path, place: Path) -> None:
    """Copy the command's inputs, undamaged."""
    place.mkdir(parents=True, exist_ok=True)
    for name in command.place:
        source, target = corpus / name, place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy(source, target)


def _lay_out(command: Command, corpus: Path, place: Path, work: Path, rng: random.Random) -> None:
    """Copy the sound inputs, damage them, and record the command to run."""
    lay_out_sound(command, corpus, place)
    aside = tuple(place / name for name in command.aside)
    files = sorted(
        path
        for path in place.rglob("*")
        if path.is_file() and not any(path == one or one in path.parents for one in aside)
    )
    words, said = list(command.words), []
    if not files or rng.random() < 0.08:
        words, one = mutate_words(words, rng)
        said.append(one)
    n = rng.choice([1, 1, 1, 1, 2, 3]) if files and (not said or rng.random() < 0.3) else 0
    said += [mutate(place, files, rng) for _ in range(n)]
    content = {"words": words, "said": said, "command": command.name}
    (work / "case.json").write_text(json.dumps(content, indent=1), encoding="utf-8", errors="replace")


# -- the rules -------------------------------------------------------------------------------------------------------


def judge(done: Done, verb: str) -> str:
    """Return which rule the command's exit code or output broke, or an empty text."""
    if done.code is None:
        return done.ended
    if done.code not in (0, 1, 2):
        return f"exit {done.code}"
    if bad := _BAD.search(done.stderr):
        return f"printed {bad[0].strip()[:60]!r}"
    lines = done.stderr.splitlines()
    ours = [line for line in lines if line.startswith("strobe: ")]
    by_model = verb in ("predict", "eval") and not lines and done.stdout  # these print a line for each failed model
    if done.code == 2 and "Usage: " not in done.stderr and not by_model and (len(ours) != 1 or lines[-1] != ours[0]):
        return f"{len(ours)} error lines, or the error is not the last line"
    if any("not enough memory" in line for line in ours):
        return "ran out of memory"
    return ""


def _judge_files(command: Command, done: Done, before: dict[str, Any], place: Path, *, other_words: bool) -> str:
    """Return which rule the files broke, or an empty text.

    Inputs must be unchanged, nothing half-written, and the result readable.
    """
    after = tree(place)
    if left := [name for name in leftovers(after) if name not in before]:
        return f"left the temporary file {left[0]}"
    dest = command.dest

    def ours(name: str) -> bool:
        return dest is not None and (name == dest or name.startswith(f"{dest}/"))

    if not command.in_place:
        looked_at = (
            {*before} if other_words else {*before, *after}
        )  # a changed command line may write to another folder
        changed = sorted(name for name in looked_at if not ours(name) and before.get(name) != after.get(name))
        if changed and (dest is None or not dest.startswith(f"{changed[0]}/")):
            return f"changed {changed[0]}, which it only reads"
    if dest is None or not (place / dest).exists():
        return ""
    old = {name: value for name, value in before.items() if ours(name)}
    new = {name: value for name, value in after.items() if ours(name)}
    if old == new and (done.code == 2 or other_words):  # a changed command line may write to another folder
        return ""
    rewritten = old.get(f"{dest}/results.json") != new.get(f"{dest}/results.json")
    checked = watch(lambda: unreadable(place / dest, results=rewritten), cwd=place)
    problem = checked.answer if checked.code == 0 else f"reading it: {checked.ended} {checked.stderr[-300:]}"
    if problem and done.code == 2 and old and _was_damaged(command, place):
        return ""  # the destination was damaged before the command ran, and its other files are still readable
    return f"exit {done.code}, and {dest}: {problem}" if problem else ""


def _was_damaged(command: Command, place: Path) -> bool:
    """Return whether the destination was itself damaged."""
    return (
        command.dest is not None
        and any(name == command.dest for name in command.place)
        and (place / command.dest).is_dir()
    )


def unreadable(dest: Path, *, results: bool = True) -> str:
    """Return why the folder is neither complete nor absent, or an empty text.

    With `results`, results.json is checked too.
    """
    from strobe.core.errors import StrobeError
    from strobe.core.swaps import settle
    from strobe.store import dataset_folder as folder
    from strobe.store.run_folder import Run

    try:
        settle(dest)
        if (dest / "dataset.json").is_file():
            folder.read(dest)
        if (dest / "run.json").is_file():
            Run(dest).about()
        if results and (dest / "results.json").is_file():
            json.loads((dest / "results.json").read_text(encoding="utf-8"), parse_constant=_no_constant)
    except (StrobeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    if (dest / "report.html").is_file() and not (dest / "report.html").read_text(encoding="utf-8").rstrip().endswith(
        "</html>"
    ):
        return "report.html is truncated"
    return ""


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def tree(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return the type, size and modification time of every file below a folder, by name."""
    out = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        is_dir = stat.S_ISDIR(about.st_mode)
        name = os.fsencode(path.relative_to(folder)).decode("utf-8", errors="replace")
        out[name] = (stat.S_IFMT(about.st_mode), 0 if is_dir else about.st_size, 0 if is_dir else about.st_mtime_ns)
    return out


def leftovers(names: dict[str, Any]) -> list[str]:
    """Return the names of temporary files."""
    return [name for name in names if any(_LEFT.fullmatch(part) for part in name.split("/"))]
