"""Tiny clips made on the spot with PyAV, in the shapes that make exact decoding hard."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

MakeClip = Callable[..., Path]


def picture(index: int, width: int, height: int) -> NDArray[np.uint8]:
    """A frame that differs from every other: a moving gradient, a moving block and some grain."""
    rng = np.random.default_rng(index)
    y, x = np.mgrid[0:height, 0:width]
    image = np.stack([(x * 3 + index * 5) % 256, (y * 4 + index * 3) % 256, (x + y + index * 7) % 256], axis=-1)
    image = image + rng.integers(-12, 13, image.shape)
    left, top = (index * 3) % max(1, width - 16), (index * 2) % max(1, height - 12)
    image[top : top + 12, left : left + 16] = (255 - index % 256, 40, index % 256)
    return np.clip(image, 0, 255).astype(np.uint8)


def encode(
    path: Path,
    *,
    codec: str = "libx264",
    n: int = 48,
    size: tuple[int, int] = (96, 64),
    pix_fmt: str = "yuv420p",
    rate: int = 25,
    options: dict[str, str] | None = None,
    pts: Sequence[int] | None = None,
    sample_aspect: Fraction | None = None,
    rotation: int = 0,
    gop: int = 12,
    b_frames: int | None = None,
    container_options: dict[str, str] | None = None,
    images: Sequence[NDArray[np.uint8]] | None = None,
    time_base: Fraction | None = None,
    audio: bool = False,
) -> Path:
    """Write a clip; `pts` in units of 1/rate (or of `time_base`)."""
    with av.open(str(path), "w", options=container_options or {}) as container:
        settings = dict(options or {})
        if codec == "libx264":
            # Without this x264 gives another file at every run on processors with AVX-512.
            settings["x264-params"] = ":".join(filter(None, (settings.get("x264-params"), "cpu-independent=1")))
        stream = container.add_stream(codec, rate=rate, options=settings)
        stream.width, stream.height = size
        stream.pix_fmt = pix_fmt
        context = stream.codec_context
        context.gop_size = gop
        context.thread_count = 1
        if b_frames is not None:
            context.max_b_frames = b_frames
        context.time_base = time_base or Fraction(1, rate)
        if sample_aspect is not None:
            context.sample_aspect_ratio = sample_aspect
        if rotation:
            stream.set_display_rotation(rotation)
        sound = container.add_stream("aac", rate=16000) if audio else None
        frames = images if images is not None else [picture(index, *size) for index in range(n)]
        for index, image in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format=pix_fmt, threads=1)
            frame.pts = index if pts is None else pts[index]
            frame.time_base = context.time_base
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        if sound is not None:
            for index in range(20):
                chunk = av.AudioFrame.from_ndarray(np.zeros((1, 1024), dtype=np.float32), format="fltp", layout="mono")
                chunk.sample_rate, chunk.pts = 16000, index * 1024
                container.mux(sound.encode(chunk))
            container.mux(sound.encode(None))
    return path


@pytest.fixture
def make_clip(tmp_path: Path) -> MakeClip:
    """make_clip("name.mp4", codec=…) writes a clip under tmp_path/videos and gives its path."""

    def make(name: str, **settings: object) -> Path:
        path = tmp_path / "videos" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        return encode(path, **settings)  # type: ignore[arg-type]

    return make


@pytest.fixture
def clips(make_clip: MakeClip) -> list[Path]:
    """Four clips of as many codecs and containers."""
    return [
        make_clip("one.mp4"),
        make_clip("two.mkv", codec="mpeg4", b_frames=2, n=40),
        make_clip("three.webm", codec="libvpx-vp9", options={"cpu-used": "8"}, n=30),
        make_clip("four.avi", codec="mjpeg", pix_fmt="yuvj420p", options={"strict": "-1"}, n=25),
    ]
