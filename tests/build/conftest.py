"""Tiny clips made on the spot with PyAV, in the shapes that make exact decoding hard."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from made_clips import encode

MakeClip = Callable[..., Path]


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
