"""Measure how a model behind an address is asked: the throughput, and what a bad network and kills do.

    python benchmarks/remote.py [--frames 1600] [--rounds 3]      # throughput at a latency of 200 ms, 32 in flight
    python benchmarks/remote.py --faults [--frames 2000]          # a bad network, and two kills of the command

The service runs in a process of its own and counts what it receives and what it delivers. With `--faults`, it drops 5 %
of the requests (half of them after it has computed the answer), delays 5 % by 10 s, and answers 429 with `Retry-After`
in bursts. `strobe predict` runs against it and is killed (SIGKILL) twice, after a third and after two thirds of the
answers. The same command then completes the run. Each part prints one JSON object, and exits with 1 if a requirement
fails.

The file is also the model: `py:benchmarks/remote.py:make` asks the address in REMOTE_BENCH.
"""

import argparse
import asyncio
import hashlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from strobe.annexes.remote.http import HttpClient
from strobe.core.labels import LabelSpace
from strobe.core.records import ModelSpec
from strobe.core.remote import RemoteAnswer, Reply, RequestLimits, Usage
from strobe.models.options import LoadOptions

COLOURS = LabelSpace.of_names("colours", ["red", "green", "blue"])
DELAY_S, BURST_EVERY, BURST = 10.0, 400, 40


# -- the service -----------------------------------------------------------------------------------------------------


class Service:
    """Names the largest of three numbers. It counts requests and delivered answers by image and by run."""

    def __init__(self, *, latency: float, faults: bool) -> None:
        self.latency, self.faults = latency, faults
        self.received: dict[str, Counter[str]] = {}
        self.delivered: dict[str, Counter[str]] = {}
        self.n, self.burst = 0, 0
        self.kinds = Counter[str]()
        self.rng = random.Random(7)

    async def client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self.request(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in head[1:]}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if head[0].startswith("GET"):
            counts = {"received": self.received, "delivered": self.delivered, "kinds": self.kinds}
            return await self.send(writer, 200, counts)
        asked = json.loads(body)
        name, run = hashlib.sha256(json.dumps(asked["image"]).encode()).hexdigest()[:12], asked["run"]
        self.received.setdefault(run, Counter())[name] += 1
        fault = self.fault()
        self.kinds[fault] += 1
        if fault == "429":
            return await self.send(writer, 429, {"error": "too many requests"}, "Retry-After: 1\r\n")
        if fault == "dropped before the answer":
            return False
        await asyncio.sleep(self.latency + (DELAY_S if fault == "delayed" else 0))
        if fault == "dropped after the answer":
            return False
        if reader.at_eof():  # the client gave up
            self.kinds["given up by the client"] += 1
            return False
        done = await self.send(writer, 200, {"scores": asked["image"]})
        self.delivered.setdefault(run, Counter())[name] += 1
        return done

    def fault(self) -> str:
        if not self.faults:
            return "answered"
        self.n += 1
        if self.n % BURST_EVERY == 0:
            self.burst = BURST
        if self.burst:
            self.burst -= 1
            return "429"
        draw = self.rng.random()
        cuts = {"dropped before the answer": 0.025, "dropped after the answer": 0.05, "delayed": 0.1}
        return next((kind for kind, most in cuts.items() if draw < most), "answered")

    async def send(self, writer: asyncio.StreamWriter, status: int, content: Any, more: str = "") -> bool:
        body = json.dumps(content).encode()
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body)
        await writer.drain()
        return True


async def serve(*, latency: float, faults: bool) -> None:
    """Serve until the process ends. The first line of the output is the port."""
    server = await asyncio.start_server(Service(latency=latency, faults=faults).client, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def started(latency: float, *, faults: bool) -> tuple["subprocess.Popen[str]", str]:
    words = [sys.executable, __file__, "--serve", str(latency), *(["--faults"] if faults else [])]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    return process, f"http://127.0.0.1:{process.stdout.readline().strip()}"  # type: ignore[union-attr]  # it is a pipe


def counts_of(address: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{address}/counts", timeout=60) as reply:
        found: dict[str, Any] = json.load(reply)
    return found


# -- the model -------------------------------------------------------------------------------------------------------


class ColourModel:
    """Sends the mean colour of an image."""

    device, lanes, preparation = "remote", 1, None

    def __init__(self, address: str, limits: RequestLimits) -> None:
        self.limits = limits
        self.spec = ModelSpec(
            name="bench", provider="bench", task="classification", label_space=COLOURS, weights="1" * 64, batch_size=1
        )
        self.http = HttpClient(address, what="bench", timeout=limits.timeout, connections=limits.concurrency)
        self.run = os.environ.get("REMOTE_BENCH_RUN", "")

    def prepare(self, image: Any) -> list[float]:
        return [round(float(one), 3) for one in image.reshape(-1, 3).mean(axis=0)]

    prepare_input = prepare

    def ask(self, prepared: Sequence[Any], *, sources: Sequence[str], attempt: int = 0) -> Reply:  # noqa: ARG002 (the port's)
        body = json.dumps({"image": prepared[0], "run": self.run}).encode()
        scores = self.http.send("POST", "/", body=body).json("bench")["scores"]
        answer = RemoteAnswer(scores=np.array(scores, dtype=np.float32))
        return Reply(answers=(answer,), used=Usage(requests=1, sent_bytes=len(body)))


def make(options: LoadOptions) -> ColourModel:
    """Return the model of the address in REMOTE_BENCH."""
    return ColourModel(os.environ["REMOTE_BENCH"], RequestLimits.of(options.limits))


def make_data(root: Path, n: int) -> Any:
    """Write a dataset of `n` small images in sets of five, each mostly red, green or blue."""
    from PIL import Image

    from strobe.core.dataset import Dataset, DatasetInfo
    from strobe.core.tables import NO_PTS, Frames, Labels, Sets, Videos, texts
    from strobe.store import dataset_folder

    rng, rows, n_sets = np.random.default_rng(5), np.arange(n), n // 5
    (root / "media").mkdir(parents=True)
    for row in rows.tolist():
        pixels = rng.integers(0, 90, (48, 64, 3), dtype=np.uint8)
        pixels[:, :, row // 5 % 3] += 120
        Image.fromarray(pixels).save(root / f"media/{row:05d}.jpg", quality=90)
    none = np.zeros(n, dtype=np.int64)
    dataset = Dataset(
        info=DatasetInfo(name="colours", label_space=COLOURS, k=2),
        videos=Videos(
            video_id=texts([f"{place:016x}" for place in range(n_sets)]),
            name=texts([f"video{place}" for place in range(n_sets)]),
            fps_num=np.full(n_sets, 30), fps_den=np.ones(n_sets, dtype=np.int64), n_frames=np.full(n_sets, 5),
            path=texts([""] * n_sets), codec=texts([""] * n_sets),
        ),
        frames=Frames(
            video=rows // 5, index=rows % 5, key=texts([f"{row:05d}" for row in rows]), pts=np.full(n, NO_PTS),
            time_num=none, time_den=none, pict_type=texts([""] * n), width=np.full(n, 64), height=np.full(n, 48),
            sha256=texts([""] * n), media=texts([f"media/{row:05d}.jpg" for row in rows]),
        ),
        sets=Sets(
            set_id=texts([f"set{place}" for place in range(n_sets)]), set=rows // 5, frame=rows,
            distance=(rows % 5 - 2).astype(float), is_anchor=rows % 5 == 2,
        ),
        labels=Labels(frame=rows, label=rows // 5 % 3),
        root=root,
    )  # fmt: skip
    dataset_folder.write(dataset, root)
    return dataset_folder.read(root)


# -- throughput ------------------------------------------------------------------------------------------------------


def bare_s(model: ColourModel, n: int) -> float:
    """Return the seconds that `n` requests take from as many threads, without frames, engine and store."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(model.limits.concurrency) as pool:
        begin = time.perf_counter()
        list(pool.map(lambda at: model.ask([[at, 0, 0]], sources=[""]), range(n)))
        return time.perf_counter() - begin


def throughput(n: int, rounds: int) -> bool:
    """Print requests a second at a latency of 200 ms with 32 in flight, and the CPU time of this process."""
    from strobe.annexes.remote.asker import RemoteAsker
    from strobe.annexes.remote.asking import asking_of
    from strobe.core.labels import Projection
    from strobe.core.ports import Silent
    from strobe.core.tasks import Task
    from strobe.engine.forward import Runner
    from strobe.store.frame_names import FrameNames
    from strobe.store.media import MediaSource
    from strobe.store.shards import KEY_FACTS, ModelShards

    latency, flying = 0.2, 32
    ideal = flying / latency
    process, address = started(latency, faults=False)
    rates, cpu, read, bare = [], [], [], []
    try:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            data = make_data(root / "data", n)
            source = MediaSource(data)
            for number in range(rounds):
                store = ModelShards(
                    root / f"run{number}", "bench", facts=dict.fromkeys(KEY_FACTS, ""), frames=FrameNames(data),
                    task=Task.CLASSIFICATION, n_classes=3,
                )  # fmt: skip
                model = ColourModel(address, RequestLimits(concurrency=flying))
                runner = Runner(name="bench", model=model, projection=Projection.identity(COLOURS))  # type: ignore[arg-type]  # it is asked
                asker = RemoteAsker(runner, store, asking_of(data, source, 2, None))
                bare.append(n / bare_s(model, n))
                begin, before = time.perf_counter(), time.process_time()
                outcome = asker.run(np.arange(n), Silent())
                rates.append(n / (time.perf_counter() - begin))
                cpu.append(1000 * (time.process_time() - before) / n)
                assert outcome.n_new == n
                before = time.process_time()
                for row in range(200):
                    model.prepare(source.read(row))
                read.append(1000 * (time.process_time() - before) / 200)
    finally:
        process.kill()
    rate, each, frame = map(statistics.median, (rates, cpu, read))
    print(
        json.dumps(
            {
                "frames": n,
                "rounds": rounds,
                "requests_per_s": round(rate, 1),
                "ideal_per_s": ideal,
                "share_of_ideal": round(rate / ideal, 3),
                "same_threads_without_the_engine_per_s": round(statistics.median(bare), 1),
                "share_of_these": round(statistics.median(a / b for a, b in zip(rates, bare, strict=True)), 3),
                "cpu_ms_per_request": round(each, 2),
                "of_these_reading_the_frame": round(frame, 2),
            },
            indent=1,
        )
    )
    return rate / ideal >= 0.95 and each <= 2.0


# -- faults and kills ------------------------------------------------------------------------------------------------


def faults(n: int) -> bool:
    """Run the command through faults and two kills, and print the counts of the service."""
    retries, flying = 8, 32
    process, address = started(0.05, faults=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            data = make_data(root / "data", n)
            kept = []
            for run, most in (("first", n // 3), ("second", 2 * n // 3), ("third", None)):
                env = {**os.environ, "REMOTE_BENCH": address, "REMOTE_BENCH_RUN": run}
                limits = f"concurrency={flying},timeout=2,retries={retries}"
                words = ["predict", str(root / "data"), "-m", f"far=py:{__file__}:make", "-o", str(root / "run")]
                words += ["--limits", limits]
                command = subprocess.Popen([sys.executable, "-m", "strobe", *words], env=env)
                while most is not None and _total(counts_of(address)["delivered"]) < most:
                    time.sleep(0.05)
                if most is not None:
                    command.send_signal(signal.SIGKILL)
                command.wait()
                counts = counts_of(address)
                kept.append((int(_answers(root / "run", data).scored.sum()), _different(counts["delivered"])))
            answers = _answers(root / "run", data)
            shards = len(list(root.glob("run/predictions/*/*.parquet")))
            again = json.loads((root / "run/run.json").read_text())["models"]["far"]
    finally:
        process.kill()
    received, delivered, kinds = (counts[name] for name in ("received", "delivered", "kinds"))
    right = answers.label == np.arange(n) // 5 % 3
    times = Counter[str]()
    for one in delivered.values():
        times.update(one)
    result = {
        "frames": n,
        "received": _total(received),
        "kinds": kinds,
        "delivered": _total(delivered),
        "delivered_twice": sum(count > 1 for count in times.values()),
        "most_tries_of_a_frame_in_one_run": max(max(one.values()) for one in received.values()),
        "allowed_tries": 1 + retries,
        "stored_after_each_run": [count for count, _ in kept],
        "delivered_before_each_end": [count for _, count in kept],
        "answered_in_the_end": int(answers.scored.sum()),
        "right_in_the_end": int(right[answers.scored].sum()),
        "without_an_answer": len(answers.reasons),
        "shards": shards,
        "spent": again["spent"],
    }
    print(json.dumps(result, indent=1))
    return bool(
        result["answered_in_the_end"] == result["right_in_the_end"] == n
        and result["most_tries_of_a_frame_in_one_run"] <= 1 + retries
        and result["delivered_twice"] <= 2 * (flying + flying // 4)
        and all(sent - count <= flying + flying // 4 for count, sent in kept)
    )


def _total(counts: dict[str, dict[str, int]]) -> int:
    return sum(sum(one.values()) for one in counts.values())


def _different(counts: dict[str, dict[str, int]]) -> int:
    return len({name for one in counts.values() for name in one})


def _answers(run: Path, data: Any) -> Any:
    from strobe.store.run_folder import Run

    return Run(run).models(data, only=["far"], allow_missing=True)[0].load()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--serve", type=float, metavar="LATENCY", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        asyncio.run(serve(latency=given.serve, faults=given.faults))
        return
    passed = faults(given.frames or 2000) if given.faults else throughput(given.frames or 1600, given.rounds)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
