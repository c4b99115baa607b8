"""Frames read ahead of a training's steps: the same pixels from threads, processes and a device, in bounded memory."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from strobe.core.arrays import Ints  # noqa: E402
from strobe.core.dataset import Dataset  # noqa: E402
from strobe.core.errors import StrobeError  # noqa: E402
from strobe.core.ports import Image  # noqa: E402
from strobe.engine.decode_pool import can_start_workers  # noqa: E402
from strobe.engine.reading import FrameMaking, FrameStream, _window_there, processes_for_training  # noqa: E402
from strobe.models.detectors.boxes import PlacementPreparation  # noqa: E402
from strobe.models.plan import ImagePlan  # noqa: E402
from strobe.store.media import MediaSource  # noqa: E402
from strobe.train.windows import random_window, window  # noqa: E402

PLAN = ImagePlan(size_hw=(20, 24), resize=26)
needs_processes = pytest.mark.skipif(not can_start_workers(), reason="needs decoding processes")


class Numbers:
    """Frames of one pixel. `read` waits for the gate."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.gate = threading.Event()

    def read(self, row: int) -> Image:
        self.gate.wait()
        self.rows.append(row)
        return np.full((2, 2, 3), row, dtype=np.uint8)

    def read_encoded(self, row: int) -> None:
        return None


def steps_of(n: int) -> list[tuple[Ints, Ints | None]]:
    """A batch with shifts and mirrors, one with the seeds of resized crops too, and a part of an evaluation."""
    rng = np.random.default_rng(0)
    places = [rng.integers(0, n, 9) for _ in range(3)]
    crops = np.column_stack([rng.integers(-4, 5, (9, 2)), rng.integers(0, 2, 9)])
    seeds = np.column_stack([crops, rng.integers(0, 2**62, 9)])
    return [(places[0], crops), (places[1], seeds), (places[2], None)]


def plain(source: MediaSource, making: FrameMaking, row: int, crop: Any) -> Image:
    """A frame as a plain loop would make it."""
    image = source.read(row)
    if isinstance(making.plan, PlacementPreparation):
        image = making.plan.prepare(image)[0]
    elif making.plan is not None and crop is not None and len(crop) > 3:
        image = making.plan.prepare_window(image, random_window(int(crop[3]), *image.shape[:2], making.least_area))
    elif making.plan is not None:
        image = making.plan.prepare(image)
    return image if crop is None else window(image, int(crop[0]), int(crop[1]), mirrored=bool(crop[2]))


@pytest.mark.parametrize("making", [FrameMaking(PLAN, 0.2), FrameMaking(),
                                    FrameMaking(PlacementPreparation(size_hw=(32, 32)))])  # fmt: skip
@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize("processes", [0, pytest.param(2, marks=needs_processes)])
def test_every_way_gives_the_pixels_of_a_plain_loop(
    colours: Callable[..., Dataset], making: FrameMaking, ahead: bool, processes: int
) -> None:
    source = MediaSource(colours(n_sets=6, k=1))
    rows = np.arange(18)[::-1].copy()
    pool = processes_for_training(processes) if processes else None
    stream = FrameStream(source, making, rows, np.full(18, 9000), pool=pool, workers=2)
    steps = steps_of(18)
    if ahead:
        stream.expect(*steps)
    for places, crops in steps:
        for n, image in enumerate(stream.images(places, crops)):
            expected = plain(source, making, int(rows[places[n]]), None if crops is None else crops[n])
            np.testing.assert_array_equal(image.numpy(), expected)
    stream.close()
    if pool is not None:
        pool.close()


class OnDevice:
    """A source of frames on a device, which is the CPU here. It leaves the last row to the CPU."""

    threads = 3

    def __init__(self, inner: MediaSource, left: int) -> None:
        self._inner, self._left = inner, left
        self.handed_over: dict[int, str] = {}

    def read(self, row: int) -> Image:
        return self._inner.read(row)

    def read_encoded(self, row: int) -> None:
        return None

    def tasks(self, rows: Sequence[int]) -> Iterator[list[int]]:
        yield list(rows)

    def batches(self, rows: Sequence[int]) -> Iterator[tuple[list[int], Any]]:
        assert sorted(set(rows)) == list(rows), "every row once, those of a video together"
        for row in rows:
            yield [row], None if row == self._left else torch.from_numpy(self._inner.read(row)[None].copy())

    def close(self) -> None:
        return None


@pytest.mark.parametrize("making", [FrameMaking(PLAN), FrameMaking(PLAN, 0.2), FrameMaking()])
def test_a_device_gives_the_pixels_of_a_plain_loop(colours: Callable[..., Dataset], making: FrameMaking) -> None:
    media = MediaSource(colours(n_sets=6, k=1))
    stream = FrameStream(OnDevice(media, left=5), making, np.arange(18), np.full(18, 9000))
    steps = steps_of(18) if making.least_area else steps_of(18)[::2]
    stream.expect(*steps)
    for places, crops in steps:
        for n, image in enumerate(stream.images(places, crops)):
            expected = plain(media, making, int(places[n]), None if crops is None else crops[n])
            np.testing.assert_array_equal(image.numpy(), expected)
    stream.close()


def test_windows_on_a_device_are_those_of_the_cpu() -> None:
    rng = np.random.default_rng(1)
    image = rng.integers(0, 256, (9, 12, 3), dtype=np.uint8)
    for down, right, mirrored in rng.integers((-4, -6, 0), (5, 7, 2), (60, 3)).tolist():
        there = _window_there(torch.from_numpy(image), (0, -1, down, right, mirrored))
        np.testing.assert_array_equal(there.numpy(), window(image, down, right, mirrored=bool(mirrored)))


def test_no_more_than_the_limit_is_read_ahead_and_old_frames_are_freed() -> None:
    source = Numbers()
    stream = FrameStream(source, FrameMaking(), np.arange(12), np.full(12, 12), workers=4, most_bytes=5 * 12)
    stream.expect((np.array([0, 1, 1]), None), (np.array([2, 3, 4, 5, 6]), None))
    assert {draw[0] for draw in stream._expected} == {0, 1, 2, 3, 4}, "the others do not fit"
    source.gate.set()
    assert [int(image[0, 0, 0]) for image in stream.images(np.array([1, 0, 1]))] == [1, 0, 1]
    stream.expect((np.array([2, 3, 4, 5, 6]), None), (np.array([7]), None))
    assert {draw[0] for draw in stream._expected} == {2, 3, 4, 5, 6}
    images = stream.images(np.array([6, 2, 9]))
    assert [int(image[0, 0, 0]) for image in images] == [6, 2, 9]
    assert source.rows.count(2) == source.rows.count(6) == source.rows.count(9) == 1, "each frame is read once"
    assert stream._held == 60
    stream.expect()
    assert not stream._expected
    assert stream._held == 0
    stream.close()


@pytest.mark.parametrize("processes", [0, pytest.param(1, marks=needs_processes)])
def test_a_frame_that_cannot_be_read_raises_when_it_is_taken(
    colours: Callable[..., Dataset], processes: int, nothing_left: None
) -> None:
    dataset = colours()
    assert dataset.root is not None
    (dataset.root / str(dataset.frames.media[3])).write_bytes(b"no image")
    pool = processes_for_training(processes) if processes else None
    stream = FrameStream(MediaSource(dataset), FrameMaking(PLAN), np.arange(6), np.full(6, 1440), pool=pool, workers=1)
    stream.expect((np.array([3]), None))
    with pytest.raises(StrobeError, match=r"not a readable image|not the image"):
        stream.images(np.array([3]))
    stream.close()
    if pool is not None:
        pool.close()


def test_a_process_that_reads_needs_no_torch() -> None:
    code = "import strobe.engine.reading, sys; print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for heavy in ("torch", "pyarrow", "scipy", "timm", "rich"):
        assert f"'{heavy}'" not in loaded
