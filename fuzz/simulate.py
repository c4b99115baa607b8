"""Simulate a review with faults, from a seed: `make simulate-faults`.

    python -m fuzz.simulate --seeds 1000      the seeds 0 to 999
    python -m fuzz.simulate --seed 17         one seed again, with all its events

People, two servers on one store, and commands work on the same folders. Connections drop, processes are killed, power
is cut, disks are full and clocks jump, all at random from the seed. At the end no confirmed answer may be missing and
no answer may be counted twice. Nobody may have seen or answered other people's tasks. The commands must leave the same
files as without a fault.
"""

import argparse
import asyncio
import importlib
import json
import logging
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from fuzz.sim_makers import Hand, break_command, run_twice
from fuzz.sim_people import Crowd, Person
from fuzz.sim_server import Broken, Disk, Machine, install
from strobe.annexes.web.review import queue
from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.log import round_of
from strobe.annexes.web.review.questions import QUESTIONS
from strobe.core.errors import StrobeError
from strobe.store import dataset_folder as folders

__all__ = ["Ended", "main", "simulate"]

STEPS = 120
"""The number of events in one simulation before its end."""

_OFTEN = {
    "claim": 30, "decide": 20, "flush": 22, "change": 4, "leave": 4, "intrude": 5, "together": 2, "pause": 2,
    "trouble": 9, "command": 1.5,
}  # fmt: skip
"""The relative frequency of each event."""


@dataclass(slots=True)
class Ended:
    """The outcome of a seed. `problem` is empty if every rule held."""

    seed: int
    problem: str = ""
    trace: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Lane:
    """The resources that all seeds of one process share: a dataset to copy, and two processes that run commands."""

    folder: Path
    hands: tuple[Hand, Hand]
    disk: Disk | None = None


_lane: _Lane | None = None


def _prepare(folder: str) -> None:
    """Set this process up before any computation, because the processes for commands are forked from it."""
    global _lane
    place = Path(folder) / f"lane-{os.getpid()}"
    place.mkdir(parents=True)
    lane = _lane = _Lane(folder=place, hands=(Hand(), Hand()))
    made = lane.hands[0].run(("synthesize", "data", "--videos", "4", "--size", "32", "--k", "2", "-q"), place)
    if made["code"] != 0:
        raise RuntimeError(f"cannot make the dataset for the simulation: {made}")
    dataset = folders.read(place / "data")
    n, rng = len(dataset.info.label_space.ids), random.Random(0)
    scores = {str(key): [round(10 * rng.random(), 3) for _ in range(n)] for key in dataset.frames.key}
    (place / "preds.json").write_text(json.dumps(scores), encoding="utf-8")
    install(lambda: lane.disk)


def simulate(seed: int, *, keep: bool = False) -> Ended:
    """Simulate one seed in its own folder, which is removed afterwards.

    With `keep`, the folder stays if a rule was broken.
    """
    if _lane is None:
        raise RuntimeError("call _prepare first")
    ended = Ended(seed)
    work = Path(tempfile.mkdtemp(prefix=f"seed-{seed}-", dir=_lane.folder))
    place = work / "in"
    place.mkdir()
    shutil.copytree(_lane.folder / "data", place / "data")
    shutil.copy(_lane.folder / "preds.json", place)
    story = _Story(seed, place, work, _lane, ended)
    try:
        asyncio.run(story.tell())
    except Broken as broken:
        ended.problem = str(broken)
    except Exception as error:  # an error of the server or the simulator is a problem too
        where = traceback.extract_tb(error.__traceback__)[-1]
        ended.problem = f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})"
        ended.trace += traceback.format_exception(error)
    finally:
        for number in range(2):
            story.machine.stop(number)
        _lane.disk = None
        if keep and ended.problem:
            ended.trace.append(f"its folder: {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
    return ended


class _Story:
    """The events of one seed."""

    def __init__(self, seed: int, place: Path, work: Path, lane: _Lane, ended: Ended) -> None:
        self.rng = rng = random.Random(f"strobe-simulate {seed}")
        self.place, self.work, self.lane, self.ended = place, work, lane, ended
        ask = rng.choice(("pairs", "pairs", "pairs", "name", "box"))
        settings = ReviewOptions(
            votes=rng.choice((1, 1, 2)),
            seed=seed,
            controls=rng.choice((0.0, 0.25)),
            labels=ask == "pairs" and rng.random() < 0.3,
            show_votes=ask != "name" and rng.random() < 0.2,
            at_once="set" if ask == "pairs" and rng.random() < 0.3 else "pair",
        )
        self.machine = Machine(place / "data", rng, ask, settings)
        lane.disk = self.machine.disk
        self.crowd = Crowd(self.machine, rng, ended.trace)
        self.boss = Person("admin", "admin")
        ended.trace.append(f"ask {ask}, {settings}")

    async def tell(self) -> None:
        """Start, run the events, finish the review, and check the rules."""
        crowd = self.crowd
        crowd.faults = False
        for number in range(2):
            self.machine.start(number, offset=self.rng.choice((0.0, 0.0, 2.5, -300.0)))
        await crowd.login(self.boss)
        for name in ("Ann", "Bo", "Cy"):
            await crowd.invite(self.boss, name, "annotator")
        await crowd.invite(self.boss, "Olga", "observer")
        crowd.faults = True
        for _ in range(STEPS):
            self.machine.now += self.rng.random() * 20
            await self._something()
        await self._end()
        self._look()

    def _count(self, what: str) -> None:
        self.ended.counts[what] = self.ended.counts.get(what, 0) + 1

    async def _something(self) -> None:
        crowd, rng = self.crowd, self.rng
        person = rng.choices(list(crowd.people.values()), [4, 4, 4, 1])[0]
        what = "claim" if person.role == "observer" else rng.choices(list(_OFTEN), list(_OFTEN.values()))[0]
        if what == "decide":
            for _ in range(rng.randrange(1, 4)):
                crowd.decide(person)
        elif what == "together":
            if self.machine.ask == "pairs":
                await crowd.together(self.boss)
            await crowd.flush(self.boss)
        elif what == "pause":
            await crowd.pause(self.boss)
        elif what == "trouble":
            self._trouble()
        elif what == "command":
            self._command()
        else:
            await {
                "claim": crowd.claim, "flush": crowd.flush, "change": crowd.change, "leave": crowd.leave,
                "intrude": crowd.intrude,
            }[what](person)  # fmt: skip

    def _trouble(self) -> None:
        """Cause or repair a fault of the machine."""
        rng, machine = self.rng, self.machine
        what = rng.choice(("clock", "full", "kill", "kill", "power", "start", "start", "start"))
        if what == "clock":
            jump = rng.choice((700.0, 700.0, -3600.0, 90_000.0, 40 * 86_400.0))
            machine.now += jump
            self._happened(f"clock {jump:+.0f}")
        elif what == "full":
            machine.disk.plan("full", rng)
            self._happened("disk full soon")
        elif what == "kill":
            machine.disk.plan(rng.choice(("kill", "kill-late")), rng)
            self._happened("kill soon")
        elif what == "power":
            self._happened(f"power cut: {machine.power_cut()}")
        self._restart()

    def _restart(self) -> None:
        for number, server in enumerate(self.machine.servers):
            if server is not None and server.dead:
                self.machine.stop(number)
                self._happened(f"server {number} died")
            if self.machine.servers[number] is None and self.rng.random() < 0.7:
                try:
                    self.machine.start(number, offset=self.rng.choice((0.0, 2.5, -300.0)))
                except StrobeError as error:
                    self._happened(f"server {number} does not start: {error}")

    def _happened(self, what: str) -> None:
        self._count(what.split(" ")[0])
        self.ended.trace.append(f"{self.machine.now:.0f} {what}")

    def _command(self) -> None:
        """Run a command on the same folders, with a fault."""
        names = ["export", "score", "tables", "make"]
        if self.machine.ask == "pairs":
            names.append("export apart")
        if (self.place / "run" / "results.json").exists():
            names.append("score again")
        name = self.rng.choice([*names, "twice"])
        self._count("command")
        if name == "twice":
            event = run_twice(hands=self.lane.hands, place=self.place, rng=self.rng)
        else:
            if name == "export apart":  # with new votes, the command refuses the folder of an earlier export
                shutil.rmtree(self.place / "out", ignore_errors=True)
            event = break_command(
                name, self.machine.ask, hand=self.lane.hands[0], place=self.place, work=self.work, rng=self.rng,
                reference=self._laid_out,
            )  # fmt: skip
            if name == "export":  # it changes the dataset, so the command refuses the folder of an earlier table
                shutil.rmtree(self.place / "table", ignore_errors=True)
        self.ended.trace.append(event)

    def _laid_out(self, place: Path) -> None:
        """Copy the current folders to another place."""
        place.mkdir(parents=True)
        self.machine.copy_to(place / "data")
        for name in ("preds.json", "run", "out", "table", "made"):
            source = self.place / name
            if source.is_dir():
                shutil.copytree(source, place / name, symlinks=True)
            elif source.exists():
                shutil.copy(source, place)
        about = place / "run" / "run.json"
        if about.exists():  # a run records the path of its dataset
            content = json.loads(about.read_text(encoding="utf-8"))
            content["dataset"]["path"] = content["dataset"]["path"].replace(str(self.place), str(place))
            about.write_text(json.dumps(content), encoding="utf-8")

    # -- the end -----------------------------------------------------------------------------------------------------

    async def _end(self) -> None:
        """Without further faults, let everyone return, send waiting answers, and decide the remaining tasks."""
        crowd, machine = self.crowd, self.machine
        crowd.faults = False
        machine.disk.heal()
        for number in range(2):
            machine.stop(number)
            machine.start(number, offset=0.0)
        machine.now += machine.settings.lease_s + 7200  # leases made under a wrong clock have expired
        await crowd.login(self.boss)
        for person in crowd.people.values():
            await crowd.login(person)
            if person.role == "annotator":
                body = {"name": person.name, "action": "resume"}
                await crowd.ask(self.boss, "POST", "/api/admin/pause", body)
        for person in (*crowd.people.values(), self.boss):
            await crowd.flush(person)
            if person.outbox:
                raise Broken(f"{person.name} cannot send the waiting answers")
        for _ in range(200):
            before = crowd.n
            for person in crowd.people.values():
                if person.role == "annotator":
                    await crowd.claim(person)
                    while person.cards:
                        crowd.decide(person)
                    await crowd.flush(person)
            if crowd.n == before:
                return
        raise Broken("the review does not end")

    def _look(self) -> None:
        """Check the rules for answers."""
        server, crowd = self.machine.servers[0], self.crowd
        if server is None:
            raise Broken("no server is left")
        store = server.store
        log = store.question.log
        answers = {log.id_of(answer): answer for answer in store.all()}
        self.ended.counts |= {"answers": len(answers), "confirmed": len(crowd.confirmed)}
        if lost := sorted(crowd.confirmed - set(answers)):
            raise Broken(f"{len(lost)} confirmed answers are lost: {lost[:3]}")
        if extra := sorted(set(answers) - crowd.confirmed):
            raise Broken(f"{len(extra)} answers exist that no server confirmed: {extra[:3]}")
        for answer_id, answer in answers.items():
            who, task, note = crowd.sent[answer_id]
            if (answer.annotator, answer.note) != (who, note):
                raise Broken(f"{answer_id} differs from the answer that {who} sent: {answer}")
            found = store.task_of(answer)
            if found is None or found.task_id != task:
                raise Broken(f"{answer_id} belongs to another task than {task}")
            if (who, task, round_of(answer)) not in crowd.given and who not in crowd.unsure:
                raise Broken(f"{who} answered {task} without being given it")
        for name, person in crowd.people.items():
            if person.role != "annotator":
                continue
            progress = queue.progress(store, name)
            if left := progress.open_for_me - progress.resting:  # own doubtful pairs rest for an hour
                raise Broken(f"{left} tasks are open for {name}, but the server gives out none")
        self._look_at_counters()
        self._look_at_folder(answers)

    def _look_at_counters(self) -> None:
        """Check that the counters match the answers, and that nobody was given two images of one kin."""
        server = self.machine.servers[0]
        if server is None:
            raise Broken("no server is left")
        store = server.store
        before = self._counters(store)
        with store.database.write() as connection:
            store.question.rebuild(connection, store.settings)
        if self._counters(store) != before:
            raise Broken("the counters do not match the answers")
        with store.database.read() as connection:
            twice = connection.exec_driver_sql(
                "SELECT a.annotator, t.kin FROM asked a JOIN tasks t ON t.task_id = a.task_id WHERE a.round = 1 "
                "GROUP BY a.annotator, t.kin HAVING count(*) > 1"
            ).first()
        if twice is not None:
            raise Broken(f"{twice[0]} was given two images of {twice[1]}")

    @staticmethod
    def _counters(store: Any) -> list[tuple[Any, ...]]:
        with store.database.read() as connection:
            rows = [
                (table, *row)
                for table in ("tasks", "latest", "counts", "own_counts")
                for row in connection.exec_driver_sql(f"SELECT * FROM {table}").all()
            ]
        return sorted((row for row in rows if any(isinstance(value, int) and value for value in row)), key=str)

    def _look_at_folder(self, answers: dict[str, Any]) -> None:
        """Check that an export writes every answer into the folder exactly once."""
        ask = self.machine.ask
        words = ("review", "export", "data", "-q", "--ask", ask)
        done = self.lane.hands[0].run(words, self.place)
        if done["code"] != 0:
            raise Broken(f"the last export: {done}")
        written = getattr(folders.read(self.place / "data"), QUESTIONS[ask].table)
        found = sorted(written, key=lambda answer: (answer.at, str(answer)))
        if found != sorted(answers.values(), key=lambda answer: (answer.at, str(answer))):
            raise Broken(f"the folder has {len(found)} answers, but the store has {len(answers)}")


# -- many seeds ------------------------------------------------------------------------------------------------------


def _preload() -> None:
    """Import the modules that commands import late, so that their processes need not import them."""
    for name in ("score", "export", "synthesize"):
        importlib.import_module(f"strobe.cli.{name}")
        importlib.import_module(f"strobe.workflows.{name}")
    for name in ("strobe.report.headline", "strobe.report.tables", "strobe.formats.export_csv", "scipy.stats"):
        importlib.import_module(name)
    for name in ("command", "workflow"):
        importlib.import_module(f"strobe.annexes.web.review.{name}")
    # otherwise every full disk would log a line
    logging.getLogger("strobe.annexes.web.review").setLevel(logging.CRITICAL)


def main() -> None:
    """Parse the options, run the seeds and print a summary. Exits with 1 if a seed broke a rule."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.simulate", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="number of seeds")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--seed", type=int, help="run only this seed, and print its events")
    parser.add_argument("--lanes", type=int, default=os.cpu_count() or 1, help="number of parallel processes")
    options = parser.parse_args()
    one = options.seed is not None
    seeds = [options.seed] if one else list(range(options.first, options.first + options.seeds))
    _preload()
    begin, problems = time.monotonic(), []
    counts: dict[str, int] = {}
    folder = tempfile.mkdtemp(prefix="strobe-simulate-")
    pool = ProcessPoolExecutor(
        1 if one else options.lanes, mp_context=get_context("fork"), initializer=partial(_prepare, folder)
    )
    with pool:
        for number, ended in enumerate(pool.map(partial(simulate, keep=one), seeds), start=1):
            for what, n in ended.counts.items():
                counts[what] = counts.get(what, 0) + n
            if one:
                print("\n".join(ended.trace))
            if ended.problem:
                problems.append(ended)
                print(f"seed {ended.seed}: {ended.problem}", flush=True)
            if number % 100 == 0:
                print(f"  {number} of {len(seeds)}", flush=True)
    if not (one and problems):
        shutil.rmtree(folder, ignore_errors=True)
    shown = ", ".join(f"{n:,} {what}" for what, n in sorted(counts.items()))
    print(f"{len(seeds):,} seeds in {time.monotonic() - begin:.0f} s: {shown}")
    print(f"{len(problems)} seeds broke a rule; --seed N replays one" if problems else "no rule was broken")
    sys.exit(int(bool(problems)))


if __name__ == "__main__":
    main()
