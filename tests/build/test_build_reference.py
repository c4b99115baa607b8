"""Datasets built with --reference: frames are read from the videos, each stretch once; a changed one is noticed."""

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from strobe.build.decode import Reader
from strobe.build.options import AnchorOptions
from strobe.build.source import VideoSource
from strobe.core.errors import StrobeError
from strobe.store import dataset_folder as folder
from strobe.store.media import MediaSource
from strobe.workflows.build import build
from strobe.workflows.options import BuildOptions

MakeClip = Callable[..., Path]
DOG = BuildOptions(label=("dog",), sampling=AnchorOptions(k=3, anchors_per_video=2))


def test_reference_gives_the_same_frames_from_the_videos(clips: list[Path], tmp_path: Path) -> None:
    stored = build(clips, tmp_path / "stored", DOG).dataset
    build(clips, tmp_path / "kept", BuildOptions(label=("dog",), sampling=DOG.sampling, reference=True))
    kept = folder.read(tmp_path / "kept")
    assert not list((tmp_path / "kept").rglob("*.zst"))
    assert kept.frames_digest() == stored.frames_digest()
    source, media = VideoSource(kept), MediaSource(folder.read(tmp_path / "stored"))
    forward = list(range(len(kept.frames)))
    jumping = np.random.default_rng(0).permutation(forward).tolist()
    for row in forward + jumping:
        assert np.array_equal(source.read(row), media.read(row))
    small = VideoSource(kept, cache_bytes=1)  # keeps as few as it may
    for row in jumping:
        assert np.array_equal(small.read(row), media.read(row))
    assert len(small._passed) + len(small._given) <= 21
    assert source.read_encoded(0) is None
    source.close()


def test_many_threads_read_a_reference_in_order_and_once(clips: list[Path], tmp_path: Path) -> None:
    """Whoever of eight comes first, the decoder goes on and never back, and little is kept."""
    options = BuildOptions(label=("dog",), sampling=AnchorOptions(k=3, every=7), reference=True)
    dataset = build(clips, tmp_path / "kept", options).dataset
    alone, source = VideoSource(dataset), VideoSource(dataset, cache_bytes=1)
    rows = range(len(dataset.frames) // 8 * 8)
    expected, together = [alone.read(row) for row in rows], threading.Barrier(8)

    def every_eighth(first: int) -> list[np.ndarray]:
        out = []
        for row in rows[first::8]:
            together.wait()
            out.append(source.read(row))
        return out

    with ThreadPoolExecutor(8) as pool:
        shares = list(pool.map(every_eighth, range(8)))
    found = [shares[row % 8][row // 8] for row in rows]
    assert all(np.array_equal(one, other) for one, other in zip(expected, found, strict=True))
    counts = [{video: opened.reader.decoded for video, opened in one._open.items()} for one in (alone, source)]
    assert counts[0] == counts[1]
    assert not source._waiting
    with pytest.raises(IndexError):
        source.read(10**6)
    assert not source._decoding
    source.close()


@pytest.mark.slow
def test_decoded_frames_are_let_go(clips: list[Path]) -> None:
    """PyAV ties a frame to its side data; left to the garbage collector, a video's frames pile up in memory."""
    gc.collect()
    before = sum(type(one).__name__ == "VideoFrame" for one in gc.get_objects())
    gc.disable()
    try:
        with Reader.open(clips[0]) as reader:
            for frame in reader.frames(range(48)):
                alive = sum(type(one).__name__ == "VideoFrame" for one in gc.get_objects()) - before
                assert alive <= 8, f"{alive} at frame {frame.index}"
    finally:
        gc.enable()


def test_reference_notices_a_changed_video(make_clip: MakeClip, tmp_path: Path) -> None:
    path = make_clip("one.mp4")
    options = BuildOptions(label=("dog",), sampling=DOG.sampling, reference=True)
    dataset = build([path], tmp_path / "kept", options).dataset
    make_clip("one.mp4", options={"crf": "40"})
    with pytest.raises(StrobeError, match="pixels differ from those of the build"):
        VideoSource(dataset).read(0)
    make_clip("one.mp4", n=2)
    with pytest.raises(StrobeError, match="2 frames, but the build found 48"):
        VideoSource(dataset).read(0)
    path.unlink()
    with pytest.raises(StrobeError, match="is missing"):
        VideoSource(dataset).read(0)
