"""Compare readers of video: strobe, a plain PyAV loop, torchcodec and decord2 on the same windows of the same clips.

    pip install --target SITE --no-deps torchcodec decord2
    PYTHONPATH=src:SITE python benchmarks/video_readers.py CLIP… [--windows 20] [--repeats 3]

Each reader returns the RGB pixels of windows of 21 frames around random anchors of a clip, by frame number. The
reference decodes the whole clip with PyAV, in the order of presentation. A frame is `wrong` if its mean absolute
difference from the reference frame is larger than from a neighbour, and `other` if it is not equal to the bit (another
conversion of colours). The script prints frames per second (wall, the best repeat) and both counts. A reader that is
not installed or fails is printed with the reason.
"""

import argparse
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from strobe.build.decode import Reader

Pixels = list[NDArray[np.uint8]]


def with_pyav(path: Path, windows: list[list[int]]) -> Pixels:
    """Decode the clip once from the start and keep the frames of the windows."""
    wanted = {number for window in windows for number in window}
    with av.open(str(path)) as clip:
        frames = {
            number: frame.to_ndarray(format="rgb24")
            for number, frame in enumerate(clip.decode(video=0))
            if number in wanted
        }
    return [frames[number] for window in windows for number in window]


def with_strobe(path: Path, windows: list[list[int]]) -> Pixels:
    """Seek to each window with strobe's own reader."""
    out = []
    with Reader.open(path) as reader:
        for window in windows:
            out += [frame.image for frame in reader.frames(window)]
    return out


def with_torchcodec(path: Path, windows: list[list[int]]) -> Pixels:
    """Ask torchcodec for the frames of each window."""
    decoder = import_module("torchcodec.decoders").VideoDecoder(str(path), dimension_order="NHWC", num_ffmpeg_threads=1)
    return [one for window in windows for one in decoder.get_frames_at(window).data.numpy()]


def with_decord2(path: Path, windows: list[list[int]]) -> Pixels:
    """Ask decord2 for the frames of each window."""
    reader = import_module("decord").VideoReader(str(path), num_threads=1)
    return [one for window in windows for one in reader.get_batch(window).asnumpy()]


READERS: dict[str, Callable[[Path, list[list[int]]], Pixels]] = {
    "plain PyAV loop": with_pyav,
    "strobe": with_strobe,
    "torchcodec": with_torchcodec,
    "decord2": with_decord2,
}


def main() -> int:
    """Print a line for each clip and reader."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("clips", nargs="+", type=Path)
    parser.add_argument("--windows", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    for path in options.clips:
        with av.open(str(path)) as clip:
            every = [frame.to_ndarray(format="rgb24") for frame in clip.decode(video=0)]
        rng = np.random.default_rng(0)
        anchors = rng.integers(10, len(every) - 11, options.windows).tolist()
        windows = [list(range(anchor - 10, anchor + 11)) for anchor in anchors]
        numbers = [number for window in windows for number in window]
        print(f"{path.name}: {len(every)} frames of {every[0].shape[1]}×{every[0].shape[0]}")
        for name, read in READERS.items():
            try:
                best, pixels = np.inf, []
                for _ in range(options.repeats):
                    begin = time.perf_counter()
                    pixels = read(path, windows)
                    best = min(best, time.perf_counter() - begin)
            except Exception as problem:
                print(f"  {name:18} failed: {type(problem).__name__}: {str(problem).splitlines()[0][:100]}")
                continue
            pairs = list(zip(pixels, numbers, strict=True))
            other = sum(not np.array_equal(one, every[number]) for one, number in pairs)
            wrong = sum(_nearest(one, every, number) != number for one, number in pairs)
            print(f"  {name:18} {len(numbers) / best:8.0f} frames/s   {wrong} wrong, {other} other of {len(numbers)}")
    return 0


def _nearest(pixels: NDArray[np.uint8], every: Pixels, number: int) -> int:
    """Return the frame that the pixels resemble most, of `number` (first) and its neighbours."""
    near = [number, *(n for n in range(max(0, number - 2), min(len(every), number + 3)) if n != number)]
    return min(near, key=lambda n: float(np.abs(pixels.astype(np.int16) - every[n]).mean()))


if __name__ == "__main__":
    sys.exit(main())
