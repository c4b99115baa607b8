"""How long many models over many frames take on a cluster, from measured rates, and what the limit is.

    python benchmarks/cluster_cost.py [--models 1000] [--frames 10000000] [--at-once 8] [--machines 1,8,64]
                                      [--read MB/s] [--price H200=PER_HOUR] [--measure]

Machine-hours are the result; a price is yours to give (`--price`, once for each kind of machine), and so is what a
machine reads from the shared file system (`--read`). Rates come from docs/performance-method.md; `--measure` takes
those of storing anew: bytes a frame and model, and frames that one process writes in a second.

A machine works on `--at-once` models: frames are read and decoded once for them. What a further model adds is its bare
forward, next to decoding where both share a device, and behind it where decoding has cores of its own.
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
    """A way to predict on one machine, as measured: frames a second with `one` model, and of the bare forward.

    `shared`: decoding takes time from the forward; else it has cores of its own.
    """

    name: str
    machine: str
    one: float
    forward: float
    shared: bool
    kilobytes: float

    def seconds(self, models: int) -> float:
        """Of one frame through so many models."""
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
"""docs/performance-method.md: On an NVIDIA H200 (one GPU, 16 cores), On two CPU cores, Frames of your own videos."""

BYTES = 119.7
"""Stored of a frame and model of 30 classes (--measure)."""
WRITTEN = 80_000.0
"""Frames of one model that one process stores in a second, syncing every shard (--measure)."""
SCORED = 89 / 10.5e6
"""Seconds of one core to score a frame of one model (docs/performance-method.md, How scoring grows)."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is asked: so many models over so many frames, and what a machine reads a second."""

    models: int = 1_000
    frames: int = 10_000_000
    at_once: int = 8
    read: float = 1_000.0

    @property
    def pairs(self) -> float:
        """Frames times models."""
        return float(self.models) * self.frames

    def hours(self, way: Way) -> float:
        """Of one machine, for all of it."""
        whole, rest = divmod(self.models, self.at_once)
        passes = [self.at_once] * whole + [rest] * bool(rest)
        return sum(max(way.seconds(many), self.reading(way)) for many in passes) * self.frames / 3600

    def reading(self, way: Way) -> float:
        """Seconds to read a frame."""
        return way.kilobytes * KB / (self.read * 1e6)

    def terabytes(self, way: Way) -> float:
        """Read in all."""
        return math.ceil(self.models / self.at_once) * self.frames * way.kilobytes * KB / 1e12

    def limit(self, way: Way, machines: int) -> str:
        """What takes the longest with so many machines."""
        forward = min(self.at_once, self.models) / way.forward
        whole = way.seconds(min(self.at_once, self.models))
        parts = {
            "read": self.reading(way) / machines,
            "forward": forward / machines,
            "decode": (whole - forward if way.shared else 1 / way.one) / machines,
            "write": min(self.at_once, self.models) / WRITTEN,
        }
        return max(parts, key=lambda part: parts[part])

    def days(self, way: Way, machines: int) -> float:
        """By the clock: what predicts works side by side, one process writes beside them."""
        return max(self.hours(way) / machines, self.pairs / WRITTEN / 3600) / 24


def table(study: Study, machines: Sequence[int], prices: Mapping[str, float]) -> str:
    """The table of docs/scale.md."""
    head = ["way", "machine", "machine-hours", "read, TB (MB/s a machine)"]
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
        f"In addition, each row needs {stored:,.1f} TB of storage, {study.pairs / WRITTEN / 3600:,.1f} hours of the "
        f"one process that writes, and {scored:,.0f} core-hours of scoring.",
    ]
    return "\n".join(lines)


def measure(
    folder: Path, *, frames: int = 102_400, shard: int = 2_048, classes: int = 30
) -> tuple[float, float, float]:
    """Bytes stored of a frame and model, frames stored a second and a second of one core: a run made here."""
    import sys

    sys.path.insert(0, str(Path(__file__).parent))
    import numpy as np

    import growth
    from strobe.core.answers import ClassAnswers
    from strobe.core.tasks import Task
    from strobe.runs.frames import FrameNames
    from strobe.runs.shards import KEY_FACTS, ModelShards

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
    given = parser.parse_args()
    if given.measure:
        with tempfile.TemporaryDirectory() as name:
            size, rate, worked = measure(Path(name))
        print(f"{size:.1f} bytes a frame and model, {rate:,.0f} frames a second, {worked:,.0f} in one of a core")
        return
    study = Study(models=given.models, frames=given.frames, at_once=given.at_once, read=given.read)
    prices = {name: float(price) for name, _, price in (text.partition("=") for text in given.price)}
    print(table(study, [int(many) for many in given.machines.split(",")], prices))


if __name__ == "__main__":
    main()
