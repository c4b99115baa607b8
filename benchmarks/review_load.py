"""How the review server bears a team: N annotators deciding at once for a while, every acknowledged decision counted.

    python benchmarks/review_load.py                      # 50 annotators, 60 s, SQLite
    python benchmarks/review_load.py --db postgresql://…  # the same on PostgreSQL
    python benchmarks/review_load.py --think 0            # no thinking time: the most it can take
    python benchmarks/review_load.py --ask name           # another question: the frames of the pairs, one at a time

Each annotator does what the page does: claims tasks six ahead, fetches their pictures, thinks, posts one decision and
waits for the acknowledgement. One decision in fifty is sent twice, as after a lost answer. The server is a process of
its own, `strobe review serve`, as people run it. Afterwards the votes are read back from the database and compared.
"""

import argparse
import asyncio
import io
import json
import os
import random
import resource
import secrets
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.labels import LabelSpace
from strobe.core.tables import Frames, Labels, Sets, Videos, texts
from strobe.datasets import folder as folders


def make_dataset(root: Path, *, n_sets: int, k: int = 10) -> None:
    """Sets of 2k candidates; every frame is the same noisy JPEG of ordinary size, which the server cannot know."""
    from PIL import Image

    width = 2 * k + 1
    n = n_sets * width
    (root / "media").mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 255, (45, 80, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).resize((640, 360)).save(buffer, "JPEG", quality=80)
    (root / "media" / "frame.jpg").write_bytes(buffer.getvalue())
    zeros = np.zeros(n, dtype=np.int64)
    videos = texts([f"video{v}" for v in range(n_sets)])
    folders.write(
        Dataset(
            info=DatasetInfo(name="load", label_space=LabelSpace.of_names("two", ["cat", "dog"]), k=k),
            videos=Videos(
                video_id=videos, name=videos, fps_num=np.full(n_sets, 30), fps_den=np.full(n_sets, 1),
                n_frames=np.full(n_sets, width), path=texts([""] * n_sets), codec=texts([""] * n_sets),
            ),
            frames=Frames(
                video=np.repeat(np.arange(n_sets), width), index=np.tile(np.arange(width), n_sets),
                key=texts([f"f{i}" for i in range(n)]), pts=zeros, time_num=zeros, time_den=zeros,
                pict_type=texts([""] * n), width=zeros + 640, height=zeros + 360, sha256=texts([""] * n),
                media=texts(["media/frame.jpg"] * n),
            ),
            sets=Sets(
                set_id=texts([f"set{v}" for v in range(n_sets)]), set=np.repeat(np.arange(n_sets), width),
                frame=np.arange(n), distance=np.tile(np.arange(-k, k + 1), n_sets).astype(float),
                is_anchor=np.tile(np.arange(-k, k + 1) == 0, n_sets),
            ),
            labels=Labels(frame=np.arange(n), label=zeros),
        ),
        root,
    )  # fmt: skip


class Connection:
    """A bare HTTP/1.1 connection, so that what is measured is the server and not a client library."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc
        self._origin = url
        self._cookie = ""
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
        """One request, one answer."""
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
    """What the annotators saw."""

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
"""What everyone answers, by question."""

IDS = {"pairs": "verdict_id"}
"""What an answer's id is called, where it is not answer_id."""


async def annotate(url: str, name: str, until: float, options: argparse.Namespace, tally: Tally, seed: int) -> None:
    """One annotator until the time is up."""
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
            status, data = await page.request("POST", "/api/claim", {"tab": tab, "want": 6})
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
    """Percentiles in milliseconds."""
    if not values:
        return {}
    ms = np.array(values) * 1000
    return {
        "n": len(values),
        **{f"p{q}": round(float(np.percentile(ms, q)), 1) for q in (50, 90, 99)},
        "max": round(float(ms.max()), 1),
    }


async def drive(url: str, options: argparse.Namespace) -> tuple[Tally, float]:
    """All annotators at once."""
    tally = Tally()
    begin = time.monotonic()
    until = begin + options.seconds
    await asyncio.gather(*(annotate(url, f"p{i}", until, options, tally, i) for i in range(options.annotators)))
    return tally, time.monotonic() - begin


def main() -> int:
    """Run, print the figures as JSON, and exit 1 if a decision was lost, doubled or too slow."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--annotators", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--think", type=float, default=1.0, help="mean seconds between two decisions of one person")
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--ask", choices=sorted(ANSWERS), default="pairs")
    parser.add_argument("--db")
    parser.add_argument("--limit-ms", type=float, default=100, help="the p99 of a decision that is still fine")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "load"
        # Boxes are asked of anchors alone: as many of those as there would be pairs.
        k = 0 if options.ask == "box" else 10
        make_dataset(root, n_sets=options.pairs // max(1, 2 * k), k=k)
        serve = "from strobe.cli.review import command; command()"
        command = [sys.executable, "-c", serve, "serve", str(root), "--no-open", "--port", "0", "--controls", "0"]
        command += ["--ask", options.ask, *(["--practice", "0"] if options.ask == "name" else [])]
        command += ["--db", options.db] if options.db else []
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if server.stdout is None:
            return 2
        url = server.stdout.readline().split()[-1]
        try:
            tally, took = asyncio.run(drive(url, options))
        finally:
            server.terminate()
            server.wait(20)
            server.stdout.close()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = used.ru_utime + used.ru_stime
        from strobe.review.store import Store

        store = Store(options.db or f"sqlite:///{root / 'review.sqlite'}", ask=options.ask)
        answers = list(store.all())
        stored = [store.question.log.id_of(answer) for answer in answers]
        store.close()
    tasks = [(getattr(answer, "set_id", ""), answer.frame_id) for answer in answers]
    figures = {
        "machine": f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end",
        "database": "PostgreSQL" if options.db else "SQLite, WAL, synchronous=FULL",
        "ask": options.ask, "annotators": options.annotators, "seconds": round(took, 1), "think_s": options.think,
        "pairs": options.pairs,
        "decisions_per_s": round(len(tally.acknowledged) / took, 1),
        "server_cpu_ms_per_decision": round(1000 * cpu_s / max(len(tally.acknowledged), 1), 2),
        "decision_ms": milliseconds(tally.decisions), "claim_ms": milliseconds(tally.claims),
        "picture_ms": milliseconds(tally.pictures), "replays_sent": tally.replays,
        "acknowledged": len(tally.acknowledged), "stored": len(stored),
        "lost": len(set(tally.acknowledged) - set(stored)), "doubled": len(stored) - len(set(stored)),
        "unasked": len(set(stored) - set(tally.acknowledged)), "given_to_two": len(tasks) - len(set(tasks)),
        "errors": len(tally.errors), "first_errors": tally.errors[:3],
    }  # fmt: skip
    print(json.dumps(figures, indent=1))
    wrong = figures["lost"] or figures["doubled"] or figures["unasked"] or figures["given_to_two"] or tally.errors
    # Without thinking time the question is how much it can take, not how soon it answers.
    slow = bool(options.think) and np.percentile(tally.decisions, 99) * 1000 > options.limit_ms
    print("exactly once: " + ("NO" if wrong else "yes"))
    if options.think:
        print(f"p99 under {options.limit_ms:.0f} ms: " + ("NO" if slow else "yes"))
    return 1 if wrong or slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
