"""Load-test the review server: N people decide at the same time, and every acknowledged decision is checked.

    python benchmarks/review_load.py                      # 50 people, 60 s, SQLite, 20,000 pairs
    python benchmarks/review_load.py --store postgres     # the same on a temporary PostgreSQL
    python benchmarks/review_load.py --pairs 1000000 --votes 100000 --verbs  # a large, unfinished review
    python benchmarks/review_load.py --think 0            # no thinking time: maximum throughput
    python benchmarks/review_load.py --ask name           # another question: the frames of the pairs, one by one

Each simulated person acts like the page: it claims tasks six ahead, fetches their images, thinks, posts one decision
and waits for the acknowledgement. One decision in fifty is sent twice, as after a lost reply. The server is a separate
process, `strobe review serve`. Afterwards the script reads the votes from the database and compares them.

Before the test, the script starts the server `--starts` times on the prepared store (with tasks and `--votes`), and
measures the time from the command to the first page, the first claim and the first image. The claim times of people
include the cost of simulating fifty people on the same machine. `server` is the time measured inside the server
(review_timed_server.py).
"""

import argparse
import asyncio
import json
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from review_made import fill, make_dataset

SERVER = Path(__file__).with_name("review_timed_server.py")

KEPT = "review.sqlite"
"""The store of a kept dataset, which an earlier run has prepared and filled."""


class Connection:
    """A bare HTTP/1.1 connection, so that the test measures the server and not a client library."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        self._origin = url
        self._cookie = ""
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
        """Send one request and return the response."""
        if self._streams is None:
            name, _, port = self._host.partition(":")
            self._streams = await asyncio.open_connection(name, int(port))
        reader, writer = self._streams
        content = json.dumps(body).encode() if body is not None else b""
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nCookie: {self._cookie}\r\n"
        if method == "POST":
            head += f"Origin: {self._origin}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        writer.write(head.encode() + b"\r\n" + content)
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        length = 0
        for line in lines[1:]:
            name, _, value = line.partition(":")
            if name.lower() == "content-length":
                length = int(value)
            elif name.lower() == "set-cookie":
                self._cookie = value.split(";")[0].strip()
        return int(lines[0].split()[1]), await reader.readexactly(length)

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()


@dataclass
class Tally:
    """The measurements of all annotators."""

    decisions: list[float] = field(default_factory=list)
    claims: list[float] = field(default_factory=list)
    pictures: list[float] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    replays: int = 0
    errors: list[str] = field(default_factory=list)


ANSWERS: dict[str, dict[str, Any]] = {
    "pairs": {"decision": "similar", "label_right": True},
    "name": {"said": "class", "label": "dog"},
    "box": {"decision": "keep", "label": "cat", "xyxy": [100, 50, 400, 300]},
}
"""The answer that everyone gives, by question."""

SINCE = time.strftime("%Y-%m-%dT00:00:00.000Z", time.gmtime())
"""The start of the day, which the page sends with every claim."""

IDS = {"pairs": "verdict_id"}
"""The key of an answer's id, if it is not answer_id."""


async def annotate(url: str, name: str, until: float, options: argparse.Namespace, tally: Tally, seed: int) -> None:
    """Simulate one person until the time is up."""
    rng, think_s, key = random.Random(seed), options.think, IDS.get(options.ask, "answer_id")
    page, media = Connection(url), Connection(url)
    await page.request("POST", "/api/login", {"name": name})
    media._cookie = page._cookie
    tab = secrets.token_hex(8)
    queue: list[dict[str, Any]] = []
    seen: set[str] = set()
    await asyncio.sleep(rng.random() * think_s)
    while time.monotonic() < until:
        if len(queue) < 4:
            begin = time.monotonic()
            status, data = await page.request("POST", "/api/claim", {"tab": tab, "want": 6, "since": SINCE})
            tally.claims.append(time.monotonic() - begin)
            if status != 200:
                tally.errors.append(f"claim {status} {data[:80]!r}")
                await asyncio.sleep(0.2)
                continue
            fresh = [card for card in json.loads(data)["tasks"] if card["task"] not in seen]
            for card in fresh:
                seen.add(card["task"])
                begin = time.monotonic()
                status, _ = await media.request("GET", f"/media/{card['task']}")
                tally.pictures.append(time.monotonic() - begin)
                if status != 200:
                    tally.errors.append(f"media {status}")
            queue += fresh
            if not queue:
                break
        await asyncio.sleep(think_s * rng.uniform(0.5, 1.5))
        card = queue.pop(0)
        body = {
            key: secrets.token_hex(16), "task": card["task"], "stage": card["stage"], "seconds": 1.0,
            "page_version": "bench", **ANSWERS[options.ask],
        }  # fmt: skip
        for attempt in range(2 if rng.random() < 0.02 else 1):
            begin = time.monotonic()
            status, data = await page.request("POST", "/api/decisions", body)
            tally.decisions.append(time.monotonic() - begin)
            if status != 200:
                tally.errors.append(f"decision {status} {data[:80]!r}")
            elif attempt:
                tally.replays += 1
            else:
                tally.acknowledged.append(body[key])
    page.close()
    media.close()


def milliseconds(values: list[float]) -> dict[str, float]:
    """Return percentiles in milliseconds."""
    if not values:
        return {}
    ms = np.array(values) * 1000
    return {
        "n": len(values),
        **{f"p{q}": round(float(np.percentile(ms, q)), 1) for q in (50, 90, 99)},
        "max": round(float(ms.max()), 1),
    }


async def drive(url: str, options: argparse.Namespace) -> tuple[Tally, float]:
    """Simulate all people at the same time."""
    tally = Tally()
    begin = time.monotonic()
    until = begin + options.seconds
    await asyncio.gather(*(annotate(url, f"p{i}", until, options, tally, i) for i in range(options.people)))
    return tally, time.monotonic() - begin


@dataclass
class Server:
    """A running server, and the time from the command to its first response."""

    process: subprocess.Popen[str]
    url: str
    out: Path
    seconds: dict[str, float]

    def stop(self) -> dict[str, list[float]]:
        """Stop the server and return its own measurements."""
        self.process.send_signal(signal.SIGINT)  # as Ctrl-C
        self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return dict(json.loads(self.out.read_text()))

    def memory_mb(self) -> dict[str, int]:
        """Return its current and peak memory."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        found = dict(line.split(":", 1) for line in lines)
        return {name: int(found[key].split()[0]) // 1000 for name, key in (("now", "VmRSS"), ("most", "VmHWM"))}


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process, which other programs do not affect."""
    told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return round((int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK"), 2)


def start(command: list[str], out: Path) -> Server:
    """Start a server, and time the first page, log-in, claim and image."""
    begin = time.monotonic()
    process = subprocess.Popen([sys.executable, str(SERVER), str(out), *command], stdout=subprocess.PIPE, text=True)
    if process.stdout is None:
        raise SystemExit(2)
    url = process.stdout.readline().split()[-1]
    seconds: dict[str, float] = {}

    async def first() -> None:
        page = Connection(url)
        for what, method, path, body in (
            ("page", "GET", "/", None),
            ("", "POST", "/api/login", {"name": "first"}),
            ("claim", "POST", "/api/claim", {"tab": "first000", "want": 1}),
        ):
            status, data = await page.request(method, path, body)
            if status != 200:
                raise SystemExit(f"{path}: {status} {data[:200]!r}")
            if what:
                seconds[what] = round(time.monotonic() - begin, 2)
                seconds[f"{what}_cpu"] = cpu_s(process.pid)
        (card,) = json.loads(data)["tasks"]
        await page.request("GET", f"/media/{card['task']}")
        seconds["picture"] = round(time.monotonic() - begin, 2)
        await page.request("POST", "/api/release", {"tab": "first000"})
        page.close()

    asyncio.run(first())
    return Server(process, url, out, seconds)


def imports_s() -> dict[str, float]:
    """Return the seconds that Python and the server's packages need for imports, the minimum of three."""
    parts = ("command", "workflow", "app", "serve", "pairs")
    what = "import strobe.store.dataset_folder, strobe.store.opening"
    what += "".join(f", strobe.annexes.web.review.{part}" for part in parts)

    def once() -> tuple[float, float]:
        begin = time.monotonic()
        process = subprocess.Popen([sys.executable, "-c", what])
        _, _, used = os.wait4(process.pid, 0)
        process.returncode = 0
        return time.monotonic() - begin, used.ru_utime + used.ru_stime

    found = [once() for _ in range(3)]
    return {"clock": round(min(one for one, _ in found), 2), "cpu": round(min(one for _, one in found), 2)}


def timed_verb(*arguments: str) -> dict[str, float]:
    """Run a verb of `strobe review` and return its seconds and peak memory."""
    begin = time.monotonic()
    verb = [sys.executable, "-c", "from strobe.annexes.web.review.command import command; command()", *arguments]
    process = subprocess.Popen(verb, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{arguments[0]} failed")
    return {"s": round(time.monotonic() - begin, 1), "mb": used.ru_maxrss // 1000}


@contextmanager
def database(options: argparse.Namespace, root: Path) -> Iterator[str]:
    """Yield the address of the store."""
    if options.store == "sqlite":
        yield options.db or f"sqlite:///{root / 'review.sqlite'}"
        return
    from own_postgres import postgres_programs, started_postgres

    programs = postgres_programs()
    if programs is None:
        raise SystemExit("PostgreSQL is not installed: neither initdb nor pg_ctl was found")
    with started_postgres(programs, fsync=True) as url:
        yield url


def measured(root: Path, url: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return all figures of one store."""
    from strobe.annexes.web.review.store import Store

    where = ["--db", url, "--ask", options.ask]
    command = ["serve", str(root), "--no-open", "--port", "0", "--controls", str(options.controls), *where]
    command += ["--votes", str(options.wanted), *(["--practice", "0"] if options.ask == "name" else [])]
    out = root.parent / "server.json"
    figures: dict[str, Any] = {"imports_s": imports_s()}
    kept = options.dataset and options.store == "sqlite" and not options.db and options.dataset / KEPT
    if not (kept and kept.exists()):
        server = start(command, out)
        figures["first_start_s"] = server.seconds
        server.stop()
        if options.votes:
            begin = time.monotonic()
            fill(url, options.votes, options.people)
            figures["votes_taken_in_s"] = round(time.monotonic() - begin, 1)
        if kept:
            shutil.copy(root / KEPT, kept)
    for number in range(options.starts):
        server = start(command, out)
        figures.setdefault("start_s", []).append(server.seconds)
        if number + 1 < options.starts:
            server.stop()
    figures["memory_mb"] = {"started": server.memory_mb()}
    used = {"server": cpu_s(server.process.pid), "players": cpu_s(os.getpid())}
    tally, took = asyncio.run(drive(server.url, options))
    used = {"server": cpu_s(server.process.pid) - used["server"], "players": cpu_s(os.getpid()) - used["players"]}
    figures["memory_mb"]["loaded"] = server.memory_mb()
    own = server.stop()
    if options.verbs:
        figures["status"] = timed_verb("status", str(root), *where)
        figures["export"] = timed_verb("export", str(root), *where)
        server = start(command, out)
        figures["start_after_export_s"] = server.seconds
        server.stop()
    store = Store(url, ask=options.ask)
    log = store.question.log
    answers = [one for one in store.all() if not log.id_of(one).startswith("before")]
    tasks = [(task.task_id, task.kind) for task in map(store.task_of, answers) if task is not None]
    real = [task for task, kind in tasks if kind not in store.question.controls]
    store.close()
    stored = [log.id_of(answer) for answer in answers]
    return figures | {
        "seconds": round(took, 1),
        "decisions_per_s": round(len(tally.acknowledged) / took, 1),
        "cpu_ms_per_decision": {who: round(1000 * s / max(len(tally.acknowledged), 1), 2) for who, s in used.items()},
        "decision_ms": milliseconds(tally.decisions), "claim_ms": milliseconds(tally.claims),
        "picture_ms": milliseconds(tally.pictures),
        "server": {name: milliseconds(values) for name, values in own.items()},
        "replays_sent": tally.replays, "acknowledged": len(tally.acknowledged), "stored": len(stored),
        "lost": len(set(tally.acknowledged) - set(stored)), "doubled": len(stored) - len(set(stored)),
        "unasked": len(set(stored) - set(tally.acknowledged)),
        "given_to_too_many": sum(count > options.wanted for count in Counter(real).values()),
        "errors": len(tally.errors), "first_errors": tally.errors[:3],
    }  # fmt: skip


def main() -> int:
    """Run the test and print the figures as JSON. Exits with 1 if a decision was lost, doubled or too slow."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--think", type=float, default=1.0, help="mean seconds between two decisions of one person")
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--votes", type=int, default=0, help="number of existing votes")
    parser.add_argument("--wanted", type=int, default=1, help="number of people per pair (serve --votes)")
    parser.add_argument("--controls", type=float, default=0.04, help="share of hidden controls (serve --controls)")
    parser.add_argument("--ask", choices=sorted(ANSWERS), default="pairs")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--db", help="an existing empty database, instead of a temporary one")
    parser.add_argument("--dataset", type=Path, help="folder in which dataset and SQLite store are kept")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--verbs", action="store_true", help="also time status, export and a start after it")
    parser.add_argument("--limit-ms", type=float, default=100, help="limit for the p99 of a decision")
    options = parser.parse_args()
    # Boxes are drawn only on anchors, so make as many anchors as there would be pairs.
    k = 0 if options.ask == "box" else 10
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "load"
        kept = options.dataset or root
        if not (kept / "dataset.json").exists():
            make_dataset(kept, n_sets=options.pairs // max(1, 2 * k), k=k)
        if kept != root:
            shutil.copytree(kept, root, copy_function=lambda a, b: (shutil.copy if KEPT in a else os.link)(a, b))
        with database(options, root) as url:
            found = measured(root, url, options)
    figures = {
        "machine": f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end",
        "store": options.store, "ask": options.ask, "people": options.people, "think_s": options.think,
        "pairs": options.pairs, "votes": options.votes, "wanted": options.wanted, **found,
    }  # fmt: skip
    print(json.dumps(figures, indent=1))
    wrong = any(found[name] for name in ("lost", "doubled", "unasked", "given_to_too_many", "errors"))
    # Without thinking time, the test measures throughput and not latency.
    slow = bool(options.think) and found["decision_ms"].get("p99", 0) > options.limit_ms
    print("exactly once: " + ("NO" if wrong else "yes"))
    if options.think:
        print(f"p99 under {options.limit_ms:.0f} ms: " + ("NO" if slow else "yes"))
    return 1 if wrong or slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
