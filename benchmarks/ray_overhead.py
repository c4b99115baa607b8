"""What Ray costs on one machine: the same frames through the local engine, and through one Ray worker with all cores.

    python benchmarks/ray_overhead.py [--frames 1024] [--rounds 5]

In one run, alternating, efficientnet-lite0 over JPEGs of 640×360: few frames and many through each engine. The ratio is
of the time that the further frames take, so that neither loading models nor starting workers is in it; those seconds
are told apart, as what the few frames take longer. Both on the clock and in processor time of this process and all that
it started, Ray's own among them. Every ratio is the median over the rounds of the two times of one round. The shards of
both have to be the same, byte for byte. Prints one JSON object.
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
from strobe.datasets import folder
from strobe.models.cores import cores
from strobe.workflows.engines import ExecutorOptions
from strobe.workflows.predict import PredictOptions, predict

FEW = 64


def made(root: Path, n: int) -> Dataset:
    """A dataset folder of so many frames."""
    folder.write(make_frames(root, n), root, overwrite=True)
    return folder.read(root)


class Spent:
    """Processor time of this process and all it started, looked at often: Ray's workers leave nothing when they end."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, str], float] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def seconds(self) -> float:
        """So far."""
        parents, found = {}, {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                words = path.read_text().rpartition(")")[2].split()
            except OSError:  # it ended meanwhile
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
    """Seconds of one command's work, models loaded and shards written: on the clock, and of processors."""
    begin, spent = time.perf_counter(), SPENT.seconds()
    done = predict(dataset, ["efficientnet-lite0"], out, PredictOptions(engine=engine, shard_size=FEW), Silent())
    assert done[0].ok, done[0].error
    return time.perf_counter() - begin, SPENT.seconds() - spent


def shards(out: Path) -> dict[str, bytes]:
    """Every shard of a run."""
    return {path.name: path.read_bytes() for path in out.rglob("*.parquet") if path.parent.name == "efficientnet-lite0"}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    ray = require("ray", what="this benchmark", extra="ray")
    ray.init(
        address="local", num_cpus=cores(), include_dashboard=False, log_to_driver=False, logging_level="error",
        object_store_memory=2**28,
    )  # fmt: skip
    engines = {"local": ExecutorOptions(), "ray": ExecutorOptions(name="ray", actors=1, cores=cores())}
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        data = {n: made(root / f"data-{n}", n) for n in (FEW, given.frames)}
        times: dict[tuple[str, int], list[tuple[float, float]]] = {(name, n): [] for name in engines for n in data}
        same = True
        for number in range(given.rounds):
            for n, dataset in data.items():
                for name, engine in engines.items():
                    times[name, n].append(timed(dataset, root / f"{name}-{n}-{number}", engine))
                same = same and shards(root / f"local-{n}-{number}") == shards(root / f"ray-{n}-{number}")
    ray.shutdown()
    found: dict[str, object] = {"frames": given.frames - FEW, "cores": cores(), "same_bytes": same}
    for place, clock in enumerate(("clock", "processor")):
        few, many = ({name: [one[place] for one in times[name, n]] for name in engines} for n in data)
        more = {name: [b - a for a, b in zip(few[name], many[name], strict=True)] for name in engines}
        ratios = [b / a for a, b in zip(more["local"], more["ray"], strict=True)]
        found[clock] = {
            "ms_a_frame": {
                name: round(1000 * statistics.median(more[name]) / (given.frames - FEW), 1) for name in engines
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
