"""Measure the overhead of Ray on one machine: the local engine compared with one Ray worker that has all cores.

    python benchmarks/ray_overhead.py [--frames 1024] [--rounds 5]

The script runs efficientnet-lite0 on 640×360 JPEGs, in alternating rounds: few frames and many frames through each
engine. The ratio compares the time of the additional frames, so it excludes loading models and starting workers. The
script reports those seconds separately, as the extra time for the few frames. Times are wall time and CPU time of this
process and all its children, including Ray's. Every ratio is the median over the rounds of the ratio within a round.
The shards of both engines must be equal, byte for byte. The script prints one JSON object.
"""

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path

from predict_overhead import make_frames
from strobe.core.dataset import Dataset
from strobe.core.late import require
from strobe.core.ports import Silent
from strobe.engine.running import ExecutorOptions, Running
from strobe.models.cores import cores
from strobe.store import dataset_folder as folder
from strobe.workflows.predict import predict

FEW = 64


def made(root: Path, n: int) -> Dataset:
    """Make a dataset folder with this many frames."""
    folder.write(make_frames(root, n), root, overwrite=True)
    return folder.read(root)


class Spent:
    """CPU time of this process and its children, sampled often because Ray's workers leave no record when they end."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, str], float] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def seconds(self) -> float:
        """So far."""
        parents, found = {}, {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                words = path.read_text().rpartition(")")[2].split()
            except OSError:  # the process has ended
                continue
            pid = int(path.parent.name)
            parents[pid], found[pid] = int(words[1]), (words[19], sum(map(int, words[11:13])))

        def ours(pid: int) -> bool:
            return pid == os.getpid() or (pid in parents and ours(parents[pid]))

        for pid, (began, ticks) in found.items():
            if ours(pid):
                self._last[pid, began] = ticks / os.sysconf("SC_CLK_TCK")
        return sum(list(self._last.values()))

    def _watch(self) -> None:
        while True:
            self.seconds()
            time.sleep(0.3)


SPENT = Spent()


def timed(dataset: Dataset, out: Path, engine: ExecutorOptions) -> tuple[float, float]:
    """Return the wall and CPU seconds of one prediction run, including loading models and writing shards."""
    begin, spent = time.perf_counter(), SPENT.seconds()
    done = predict(dataset, ["efficientnet-lite0"], out, Running(engine=engine, shard_size=FEW), Silent())
    assert done[0].ok, done[0].error
    return time.perf_counter() - begin, SPENT.seconds() - spent


def shards(out: Path) -> dict[str, bytes]:
    """Return every shard of a run."""
    return {path.name: path.read_bytes() for path in out.rglob("*.parquet") if path.parent.name == "efficientnet-lite0"}


def main() -> None:
    """Measure both engines and print the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ray = require("ray", what="this benchmark", extra="ray")
    ray.init(
        address="local", num_cpus=cores(), include_dashboard=False, log_to_driver=False, logging_level="error",
        object_store_memory=2**28,
    )  # fmt: skip
    engines = {"local": ExecutorOptions(), "ray": ExecutorOptions(name="ray", actors=1, cores=cores())}
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        data = {n: made(root / f"data-{n}", n) for n in (FEW, options.frames)}
        times: dict[tuple[str, int], list[tuple[float, float]]] = {(name, n): [] for name in engines for n in data}
        same = True
        for number in range(options.rounds):
            for n, dataset in data.items():
                for name, engine in engines.items():
                    times[name, n].append(timed(dataset, root / f"{name}-{n}-{number}", engine))
                same = same and shards(root / f"local-{n}-{number}") == shards(root / f"ray-{n}-{number}")
    ray.shutdown()
    found: dict[str, object] = {"frames": options.frames - FEW, "cores": cores(), "same_bytes": same}
    for place, clock in enumerate(("clock", "processor")):
        few, many = ({name: [one[place] for one in times[name, n]] for name in engines} for n in data)
        more = {name: [b - a for a, b in zip(few[name], many[name], strict=True)] for name in engines}
        ratios = [b / a for a, b in zip(more["local"], more["ray"], strict=True)]
        found[clock] = {
            "ms_a_frame": {
                name: round(1000 * statistics.median(more[name]) / (options.frames - FEW), 1) for name in engines
            },
            "ray_over_local": round(statistics.median(ratios), 3),
            "ratios": [round(ratio, 3) for ratio in ratios],
            "longer_to_start_s": round(
                statistics.median(b - a for a, b in zip(few["local"], few["ray"], strict=True)), 1
            ),
        }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
