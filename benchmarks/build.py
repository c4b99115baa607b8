"""Measure how much exact seeking saves, and the cost of building a complete video compared with a bare PyAV loop.

    python benchmarks/build.py [--json FILE]

1. One anchor (k = 10) in a 12-second 720p H.264 clip with 2-second GOPs: the decoded frames and the time until the
   pixels are available, as a median over anchors along the clip, compared with decoding the full clip in the same run.
2. A build of every frame of the clip (hashes, hints, packed frames, fsync, tables), compared with a bare loop that
decodes,
   converts and packs the same frames, each on the same number of processes (one).

The script prints wall time and CPU time. The target for the build is in wall time, because users wait for it. On a busy
machine, use the CPU time, which other programs do not affect.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

import av
import numpy as np

from strobe.build.decode import Reader, rgb_of
from strobe.build.options import AnchorOptions
from strobe.build.store import FrameEncoder
from strobe.workflows.build import build
from strobe.workflows.options import BuildOptions

FPS, SECONDS, SIZE, K = 30, 12, (1280, 720), 10


@dataclass(frozen=True)
class Cost:
    """Wall seconds and CPU seconds."""

    wall: float
    cpu: float


def cost_of(work: Callable[[], object]) -> Cost:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


def median(costs: list[Cost]) -> Cost:
    return Cost(statistics.median(cost.wall for cost in costs), statistics.median(cost.cpu for cost in costs))


def make_clip(path: Path) -> Path:
    """Write a textured scene with a moving camera and grain, in H.264 with B frames and a key frame every 2 seconds."""
    rng = np.random.default_rng(0)
    width, height = SIZE
    from PIL import Image

    wide = np.zeros((height + 200, width + 400, 3))
    for step in (160, 40, 10, 4):
        small = rng.integers(0, 256, (wide.shape[0] // step + 2, wide.shape[1] // step + 2, 3), dtype=np.uint8)
        wide += np.asarray(Image.fromarray(small).resize((wide.shape[1], wide.shape[0]), Image.Resampling.BICUBIC)) / 4
    wide = wide.astype(np.int16)
    grain = rng.integers(-4, 5, (8, height, width, 1), dtype=np.int16)
    with av.open(str(path), "w") as container:
        params = f"keyint={2 * FPS}:min-keyint={2 * FPS}:scenecut=0:bframes=3:cpu-independent=1"
        stream = container.add_stream("libx264", rate=FPS, options={"preset": "veryfast", "x264-params": params})
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for index in range(FPS * SECONDS):
            x, y = round(200 + 180 * np.sin(index / 60)), round(100 + 80 * np.sin(index / 37))
            pixels = np.clip(wide[y : y + height, x : x + width] + grain[index % 8], 0, 255).astype(np.uint8)
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
            frame = frame.reformat(format="yuv420p", threads=1)
            frame.pts, frame.time_base = index, Fraction(1, FPS)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def whole_clip(path: Path, *, rgb: bool) -> None:
    """Decode every frame with plain PyAV on one thread, and convert it if `rgb`."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type, stream.codec_context.thread_count = "SLICE", 1
        for frame in container.decode(stream):
            if rgb:
                rgb_of(frame)


def one_anchor(path: Path, anchor: int, decoded: list[int]) -> None:
    """Read the pixels of an anchor's set, including opening and indexing. Appends the number of decoded frames."""
    with Reader.open(path) as reader:
        wanted = range(max(0, anchor - K), min(len(reader.index), anchor + K + 1))
        if [frame.index for frame in reader.frames(wanted)] != list(wanted):
            raise SystemExit("frames are missing")
        decoded.append(reader.decoded)


def bare_loop(path: Path, folder: Path) -> None:
    """Decode, convert, encode and write every frame as the build stores it, and nothing else."""
    encoder = FrameEncoder()
    folder.mkdir()
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.thread_type, stream.codec_context.thread_count = "SLICE", 1
        for number, frame in enumerate(container.decode(stream)):
            (folder / f"{number:06d}{encoder.suffix}").write_bytes(encoder.encode(rgb_of(frame)))


def whole_build(path: Path, folder: Path, workers: int) -> None:
    """Build a dataset in which every frame belongs to exactly one set."""
    options = BuildOptions(label=("thing",), sampling=AnchorOptions(k=K, every=2 * K + 1), workers=workers)
    dataset = build([path], folder, options).dataset
    if len(dataset.frames) < FPS * SECONDS - 2 * K:
        raise SystemExit("the build omitted frames")


def main() -> None:
    """Measure, and print whether the targets are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    figures = measure(options.rounds)
    for key, value in figures.items():
        print(f"{key:44} {value:.3f}")
    targets = {
        "at most a quarter of the frames decoded, every anchor": figures["decoded share, worst anchor"] <= 0.25,
        "one anchor at least 4x faster than decoding the clip": figures["speed-up over decoding (cpu)"] >= 4,
        "full build within 1.15x of the bare loop, wall time": figures["build over bare loop (wall)"] <= 1.15,
    }
    for text, held in targets.items():
        print(f"{'ok    ' if held else 'MISSED'} {text}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    raise SystemExit(0 if all(targets.values()) else 1)


def measure(rounds: int) -> dict[str, float]:
    """Return all figures. Compared variants are measured in turn, so that load from other programs affects both."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = make_clip(folder / "clip.mp4")
        total = FPS * SECONDS
        decoding: list[Cost] = []
        converting: list[Cost] = []
        seeking: list[Cost] = []
        bare: list[Cost] = []
        built: list[Cost] = []
        built_2: list[Cost] = []
        decoded: list[int] = []
        for part in np.array_split(np.arange(5, total, 18), rounds):
            decoding.append(cost_of(partial(whole_clip, path, rgb=False)))
            converting.append(cost_of(partial(whole_clip, path, rgb=True)))
            seeking += [cost_of(partial(one_anchor, path, anchor, decoded)) for anchor in part.tolist()]
        for number in range(rounds):
            bare.append(cost_of(partial(bare_loop, path, folder / f"bare{number}")))
            built.append(cost_of(partial(whole_build, path, folder / f"a{number}", 1)))
            built_2.append(cost_of(partial(whole_build, path, folder / f"b{number}", 2)))
    seek, decode, convert, loop, one = (median(costs) for costs in (seeking, decoding, converting, bare, built))
    return {
        "decoded share, median anchor": statistics.median(decoded) / total,
        "decoded share, worst anchor": max(decoded) / total,
        "whole clip, decode (wall s)": decode.wall,
        "whole clip, decode (cpu s)": decode.cpu,
        "whole clip, decode and convert (cpu s)": convert.cpu,
        "one anchor, median (wall s)": seek.wall,
        "one anchor, median (cpu s)": seek.cpu,
        "one anchor, worst (cpu s)": max(cost.cpu for cost in seeking),
        "speed-up over decoding (wall)": decode.wall / seek.wall,
        "speed-up over decoding (cpu)": decode.cpu / seek.cpu,
        "speed-up over decoding and converting (cpu)": convert.cpu / seek.cpu,
        "bare loop (wall s)": loop.wall,
        "bare loop (cpu s)": loop.cpu,
        "build, 1 worker (wall s)": one.wall,
        "build, 1 worker (cpu s)": one.cpu,
        "build over bare loop (wall)": one.wall / loop.wall,
        "build over bare loop (cpu)": one.cpu / loop.cpu,
        "build, 2 workers, over bare loop (wall)": median(built_2).wall / loop.wall,
    }


if __name__ == "__main__":
    main()
