"""Estimate from measured rates how long many models on many frames take on a cluster, and what limits them.

    python benchmarks/cluster_cost.py [--models 1000] [--frames 10000000] [--at-once 8] [--machines 1,8,64]
                                      [--read MB/s] [--price H200=PER_HOUR] [--measure]

The result is in machine-hours. You can give a price for each kind of machine (`--price`, repeatable), and the rate at
which a machine reads from the shared file system (`--read`). Rates come from docs/performance.md. `--measure`
measures the rates of storage again: bytes per frame and model, and frames that one process writes per second.

A machine runs `--at-once` models, for which frames are read and decoded once. Each further model adds its bare forward.
If decoding and forwards share a device, their times add up. If decoding has separate cores, they overlap.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

KB = 1024


@dataclass(frozen=True, kw_only=True)
class Way:
    """A measured way to predict on one machine: frames per second with `one` model, and of the bare forward.

    `shared`: decoding takes time from the forward. Otherwise it has separate cores.
    """

    name: str
    machine: str
    one: float
    forward: float
    shared: bool
    kilobytes: float

    def seconds(self, models: int) -> float:
        """Return the seconds for one frame through this many models."""
        more = (models - 1) / self.forward
        return 1 / self.one + more if self.shared else max(1 / self.one, models / self.forward)


_LITE0 = 1 / 9.8e-3

WAYS = (
    Way(
        name="ResNet-50, JPEG of 108 KB, `--decode device --compile`", machine="H200", one=12_540, forward=19_560,
        shared=True, kilobytes=108,
    ),
    Way(
        name="ResNet-50, JPEG of 108 KB, exact", machine="H200", one=4_890, forward=14_520, shared=False,
        kilobytes=108,
    ),
    Way(
        name="efficientnet-lite0, JPEG of 43 KB, exact", machine="two cores", one=1 / 11.5e-3, forward=_LITE0,
        shared=True, kilobytes=43,
    ),
    Way(
        name="efficientnet-lite0, 720p from videos", machine="two cores", one=_LITE0 / 1.48, forward=_LITE0,
        shared=True, kilobytes=1_418,
    ),
)  # fmt: skip
"""docs/performance.md: On an NVIDIA H200 (one GPU, 16 cores), On two CPU cores, Frames of your own videos."""

BYTES = 119.7
"""Stored bytes per frame and model with 30 classes (--measure)."""
WRITTEN = 80_000.0
"""Frames of one model that one process stores per second, syncing every shard (--measure)."""
SCORED = 89 / 10.5e6
"""Core-seconds to score a frame of one model (docs/performance.md, How scoring grows)."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """The workload: the number of models and frames, and the read rate of a machine."""

    models: int = 1_000
    frames: int = 10_000_000
    at_once: int = 8
    read: float = 1_000.0

    @property
    def pairs(self) -> float:
        """The number of frames times the number of models."""
        return float(self.models) * self.frames

    def hours(self, way: Way) -> float:
        """Return the machine-hours of the complete workload."""
        whole, rest = divmod(self.models, self.at_once)
        passes = [self.at_once] * whole + [rest] * bool(rest)
        return sum(max(way.seconds(many), self.reading(way)) for many in passes) * self.frames / 3600

    def reading(self, way: Way) -> float:
        """Return the seconds to read a frame."""
        return way.kilobytes * KB / (self.read * 1e6)

    def terabytes(self, way: Way) -> float:
        """Return the terabytes read in total."""
        return math.ceil(self.models / self.at_once) * self.frames * way.kilobytes * KB / 1e12

    def limit(self, way: Way, machines: int) -> str:
        """Return the slowest part with this many machines."""
        forward = min(self.at_once, self.models) / way.forward
        per_frame = way.seconds(min(self.at_once, self.models))
        parts = {
            "read": self.reading(way) / machines,
            "forward": forward / machines,
            "decode": (per_frame - forward if way.shared else 1 / way.one) / machines,
            "write": min(self.at_once, self.models) / WRITTEN,
        }
        return max(parts, key=lambda part: parts[part])

    def days(self, way: Way, machines: int) -> float:
        """Return the days of wall time. Machines predict in parallel, and one process writes."""
        return max(self.hours(way) / machines, self.pairs / WRITTEN / 3600) / 24


def table(study: Study, machines: Sequence[int], prices: Mapping[str, float]) -> str:
    """Return the table of docs/scale.md."""
    head = ["way", "machine", "machine-hours", "read, TB (MB/s per machine)"]
    head += [f"{many} machine{'s' if many > 1 else ''}: days, limit" for many in machines]
    head += ["cost"] if prices else []
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for way in WAYS:
        hours, read = study.hours(way), study.terabytes(way)
        cells = [way.name, way.machine, f"{hours:,.0f}", f"{read:,.0f} ({read * 1e6 / hours / 3600:,.0f})"]
        cells += [f"{study.days(way, many):,.1f}, {study.limit(way, many)}" for many in machines]
        if prices:
            cells.append(f"{hours * prices[way.machine]:,.0f}" if way.machine in prices else "")
        lines.append("| " + " | ".join(cells) + " |")
    stored, scored = study.pairs * BYTES / 1e12, study.pairs * SCORED / 3600
    lines += [
        "",
        f"In addition, each row takes {stored:,.1f} TB of storage, {study.pairs / WRITTEN / 3600:,.1f} hours of the "
        f"single writing process, and {scored:,.0f} core-hours of scoring.",
    ]
    return "\n".join(lines)


def measure(
    folder: Path, *, frames: int = 102_400, shard: int = 2_048, classes: int = 30
) -> tuple[float, float, float]:
    """Make a run, and return the bytes per frame and model, and the frames stored per second and per core-second."""
    import sys

    sys.path.insert(0, str(Path(__file__).parent))
    import numpy as np

    import growth
    from strobe.core.answers import ClassAnswers
    from strobe.core.tasks import Task
    from strobe.store.frame_names import FrameNames
    from strobe.store.shards import KEY_FACTS, ModelShards

    names = FrameNames(growth.made(frames))
    store = ModelShards(
        folder / "run", "model", facts=dict.fromkeys(KEY_FACTS, ""), frames=names, task=Task.CLASSIFICATION,
        n_classes=classes,
    )  # fmt: skip
    scores = np.random.default_rng(0).normal(size=(shard, classes)).astype(np.float32)
    own = {"own_label": scores.argmax(axis=1).astype(np.int32), "own_confidence": scores.max(axis=1)}
    answers = ClassAnswers.from_scores("model", scores, kind="logits", **own)
    starts = range(0, len(names) - shard + 1, shard)
    begin, worked = time.perf_counter(), time.process_time()
    for start in starts:
        store.write(np.arange(start, start + shard), answers)
    seconds, worked = time.perf_counter() - begin, time.process_time() - worked
    done = len(starts) * shard
    size = sum(path.stat().st_size for path in (folder / "run").rglob("*.parquet"))
    return size / done, done / seconds, done / worked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=Study.models)
    parser.add_argument("--frames", type=int, default=Study.frames)
    parser.add_argument("--at-once", type=int, default=Study.at_once)
    parser.add_argument("--read", type=float, default=Study.read, help="MB/s that a machine reads (an assumption)")
    parser.add_argument("--machines", default="1,8,64")
    parser.add_argument("--price", action="append", default=[], metavar="MACHINE=PER_HOUR")
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    if options.measure:
        with tempfile.TemporaryDirectory() as name:
            size, rate, worked = measure(Path(name))
        print(f"{size:.1f} bytes per frame and model, {rate:,.0f} frames per second, {worked:,.0f} per core-second")
        return
    study = Study(models=options.models, frames=options.frames, at_once=options.at_once, read=options.read)
    prices = {name: float(price) for name, _, price in (text.partition("=") for text in options.price)}
    print(table(study, [int(many) for many in options.machines.split(",")], prices))


if __name__ == "__main__":
    main()
