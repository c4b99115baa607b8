"""Flip bits in each stored file in turn. If a figure changes although the command exits with 0, that is a finding."""

import contextlib
import csv
import json
import os
import random
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.cases import Outcome, judge, lay_out_sound
from fuzz.command import Command
from fuzz.commands import commands
from fuzz.outside import Watcher
from fuzz.process import Done, call, watch

__all__ = ["EVERYTHING", "bit_plan", "run_bits"]

EVERYTHING = "bits/everything"
"""The sweep over all files of datasets and runs, with their images, videos, votes, tags and journals."""

_VERBS = ("score", "compare", "gate", "history", "inspect", "predict", "eval", "report")
_OURS = ("datasets/", "runs/")
_SAID = ("at", "command", "versions", "seconds", "speed", "strobe")
"""Keys of results.json that differ between two runs of one command and are not figures."""


def bit_plan(flips: int) -> list[str]:
    """Return the names of the sweeps: one for each command that reads strobe's folders and prints figures."""
    of_commands = [
        f"bits/{one.name}+{flips}"
        for one in commands()
        if one.verb in _VERBS
        and not one.refused
        and one.place
        and all(name.startswith(_OURS) or name == "models.py" for name in one.place)
    ]
    return [f"{EVERYTHING}+{20 * flips}", *of_commands]


def run_bits(case: str, *, corpus: Path, work: Path) -> Outcome:
    """Flip single bits in each stored file. The finding names the flips that changed a figure without a message.

    The user's own model and files that strobe never reads (reports, tables, drawings) are excluded.
    """
    name, _, flips = case.removeprefix("bits/").partition("+")
    if case.startswith(EVERYTHING):
        return _run_everything(case, int(flips or 20), corpus=corpus, work=work)
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


# -- all files -----------------------------------------------------------------------------------------------------

_MODEL = """
import numpy as np
def one(): return _colour, ["cat", "dog"]
def two(): return _place, ["cat", "dog"]
def _colour(images): return np.array([[image[..., 1].mean(), 90.0] for image in images])
def _place(images): return np.array([[image[:, :20].mean(), image[:, 20:].mean() + 9] for image in images])
"""
_READERS = {
    "report": "report {run} --gallery 2",
    "view --json": "view . --json",
    "view --list": "view . --list",
    "gate": "gate {run} -m py:two.py:two --baseline py:two.py:one --max-loss acc_pmk=90 --json -q -o out",
    "compare": "compare {run} --json -q",
}
"""The commands after each flip, by their names in findings."""

_COUNTS = re.compile(r": .*\d+ (hold|flicker|wrong)")
_PICTURES = re.compile(r"data:image/[a-z+]+;base64,[A-Za-z0-9+/=]+")


def _run_everything(case: str, flips: int, *, corpus: Path, work: Path) -> Outcome:
    """Flip bits drawn over the kinds of files in two datasets and their runs, and run every reader after each flip.

    A reader is skipped if it never opens the file. The finding names the flips that changed a figure without a message.
    """
    outcome = Outcome(case=case, verb="bits", command="everything", code=0)  # type: ignore[arg-type]  # a name
    world, rng = work / "world", random.Random(case)
    world.mkdir(parents=True)
    made = watch(lambda: _make_world(world, corpus), cwd=work, limit_s=600)
    if made.code != 0:
        outcome.finding = f"the world could not be made: {made.ended}: {made.stderr[-500:]}"
        return outcome
    kinds: dict[str, list[Path]] = {}
    for path in sorted(world.rglob("*")):
        if path.is_file() and path.stat().st_size and path.parts[len(world.parts)] in ("data", "runs"):
            kinds.setdefault(_kind(path.relative_to(world)), []).append(path.relative_to(world))
    sound = {(verb, name): _read(verb, name, world, work) for verb in _READERS for name in ("jpeg", "video")}
    problems: list[str] = [
        f"{key} without damage: {one[0].stderr[-200:]}" for key, one in sound.items() if one[0].code not in (0, 1)
    ]
    counts: Counter[str] = Counter()
    for _ in range(0 if problems else flips):
        path = rng.choice(kinds[rng.choice(sorted(kinds))])
        name = path.parts[1]
        outcome.kinds.append(_kind(path))
        content = (world / path).read_bytes()
        place, bit = rng.randrange(len(content)), rng.randrange(8)
        flipped = bytearray(content)
        flipped[place] ^= 1 << bit
        (world / path).write_bytes(flipped)
        for verb in _READERS:
            _, figures, opened = sound[verb, name]
            if path.as_posix() not in opened:
                counts["not opened"] += 1
                continue
            done, found, _ = _read(verb, name, world, work)
            problem = judge(done, verb.split()[0])
            silent = not problem and done.code in (0, 1) and _changed(figures, done, found, path)
            counts["refused" if done.code == 2 else "unchanged" if found == figures else "noted"] += 1
            if problem or silent:
                problem = problem or f"exit {done.code}, but the figures differ ({_first(figures, found)})"
                problems.append(f"{verb}: bit {bit} of byte {place} of {path}: {problem}")
                print(problems[-1], flush=True)
        (world / path).write_bytes(content)
        if len(outcome.kinds) in (flips, *range(0, flips, 25)):
            done_so_far = f"{len(outcome.kinds)} flips, {dict(counts)}, {len(problems)} problems"
            print(f"{case}: {done_so_far}; {dict(Counter(outcome.kinds))}", flush=True)
    outcome.finding = "; ".join(problems[:5])
    return outcome


def _kind(path: Path) -> str:
    """Return the place and type of a file, without the names that differ between files of one kind."""
    parts = [part for part in path.parts[2:-1] if part in ("tables", "figures", "media", "predictions", "external")]
    single = path.suffix in (".parquet", ".json", ".jsonl", ".sqlite", ".html") and not parts
    return "/".join([path.parts[0], path.parts[1], *parts, path.name if single else path.suffix])


def _make_world(world: Path, corpus: Path) -> None:
    """Make a dataset of JPEG images with votes, answers and tags, a dataset of videos, and a reported run on each."""
    from strobe.annexes.web.view.tags import add_rows
    from strobe.core.remote import Usage
    from strobe.store.dataset_folder import read
    from strobe.store.frame_names import FrameNames
    from strobe.store.shards import ModelShards

    os.chdir(world)
    shutil.copytree(corpus / "clips", "clips")
    Path("two.py").write_text(_MODEL, encoding="utf-8")
    clips = "clips/a.mp4 clips/b.mp4 clips/c.mkv clips/d.avi"
    made = "--labels clips/labels.csv --k 2 --every 4 -q --workers 1"
    quick = "--bootstrap 100 -q --workers 1"
    _strobe(f"build {clips} data/jpeg --store jpeg {made}")
    _strobe(f"build {clips} data/video --reference {made}")
    dataset = read(Path("data/jpeg"))
    sets, names = dataset.sets, dataset.frame_ids()
    members = [place for place in range(len(sets.set)) if not sets.is_anchor[place]]
    with Path("votes.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["set", "frame", "decision", "annotator"])
        for place in members:
            frame = names[int(sets.frame[place])]
            rows.writerow([sets.set_id[int(sets.set[place])], frame, "similar" if place % 5 else "dissimilar", "Ann"])
    _strobe("review import data/jpeg votes.csv")
    _strobe("review export data/jpeg")
    for name in ("jpeg", "video"):
        models = "-m py:two.py:one -m py:two.py:two"
        _strobe(f"eval data/{name} {models} -o runs/{name} {quick}")
        add_rows(Path("data", name), [str(sets.set_id[0])], who="Ann", act="tag", text="hard")
    dataset = read(Path("data/video"))
    frames = FrameNames(dataset, Path("runs/video"))
    store = ModelShards.held(Path("runs/video"), "py:two.py:two", frames=frames, n_classes=2)
    answers = store.read()
    for shard in store.folder.glob("*.parquet"):
        shard.unlink()
    store.append(np.arange(len(frames)), answers, Usage())  # a journal, as after an interrupted remote prediction
    _strobe(f"score runs/video {quick.removesuffix(' --workers 1')}")
    _strobe("report runs/video --gallery 2 -q")


def _strobe(line: str) -> None:
    from strobe.cli.main import main

    try:
        main(line.split())
    except SystemExit as ended:
        if ended.code:
            raise RuntimeError(f"strobe {line}: exit {ended.code}") from ended


def _read(verb: str, name: str, world: Path, work: Path) -> tuple[Done, Any, set[str]]:
    """Run one reader, and return its end, its figures and the files that it opened."""
    place = world
    if verb == "report":  # it writes into the run
        place = work / "at"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(world, place)
    watcher = Watcher(place)
    done = call(_READERS[verb].format(run=f"runs/{name}").split(), cwd=place, limit_s=120)
    opened = {event.removeprefix("opened ") for event in watcher.events() if event.startswith("opened ")}
    figures: Any = done.stdout.replace(str(place), "")
    if verb == "report":
        page = place / "runs" / name / "report.html"
        # A report does not write tables/sets.*; it prints a note if they are damaged.
        tables = [path for path in (place / "runs" / name / "tables").glob("*.csv") if path.stem != "sets"]
        figures = {path.name: path.read_text(encoding="utf-8", errors="replace") for path in sorted(tables)}
        figures["page"] = _PICTURES.sub("", page.read_text(encoding="utf-8"))
    elif verb != "view --list":
        with contextlib.suppress(ValueError):
            figures = json.loads(figures)
    return done, figures, opened


def _changed(sound: Any, done: Done, found: Any, path: Path) -> bool:
    """Return whether a figure differs. What is printed may only lack figures, and must then name the file."""
    if sound == found:
        return False
    if path.name not in done.stdout + done.stderr:
        return True
    if isinstance(found, str):  # view --list
        return not {line for line in found.splitlines() if _COUNTS.search(line)} <= set(sound.splitlines())
    if "runs" not in found:
        return True
    known = {(run["id"], row["model"]): row for run in sound["runs"] for row in run["models"]}
    for key, row in (((run["id"], row["model"]), row) for run in found["runs"] for row in run["models"]):
        before = known[key]
        if any(before["figures"].get(name) != value for name, value in row["figures"].items()):
            return True
        if row["sets"] not in (None, before["sets"]):
            return True
    return False
