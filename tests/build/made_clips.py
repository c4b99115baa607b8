"""Tiny clips made with PyAV, in the shapes that make exact decoding hard."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

X264_OPEN = {"x264-params": "keyint=12:min-keyint=12:scenecut=0:bframes=3:b-pyramid=normal:open-gop=1:b-adapt=0"}
X264_REFRESH = {"x264-params": "keyint=12:intra-refresh=1:bframes=0:scenecut=0"}
X265 = {"x265-params": "keyint=12:min-keyint=12:open-gop=1:bframes=3:scenecut=0:log-level=none:pools=1"}
VFR = [
    0, 1, 2, 5, 6, 11, 12, 13, 20, 21, 22, 23, 30, 31, 45, 46, 47, 48,
    49, 50, 60, 61, 63, 64, 65, 90, 91, 92, 93, 94,
]  # fmt: skip

CASES: dict[str, tuple[str, dict[str, object]]] = {
    "h264 open gop, b frames, mp4": ("a.mp4", {"options": X264_OPEN}),
    "h264 open gop, mov": ("a.mov", {"options": X264_OPEN}),
    "h264 open gop, mkv": ("a.mkv", {"options": X264_OPEN}),
    "h264 open gop, flv": ("a.flv", {"options": X264_OPEN}),
    "h264 open gop, ts": ("a.ts", {"options": X264_OPEN}),
    "h264 open gop, avi": ("a.avi", {"options": X264_OPEN}),
    "h264 intra refresh": ("a.mp4", {"options": X264_REFRESH}),
    "h264 with sound": ("a.mp4", {"options": X264_OPEN, "audio": True}),
    "hevc open gop, mp4": ("a.mp4", {"codec": "libx265", "options": X265}),
    "hevc open gop, mkv": ("a.mkv", {"codec": "libx265", "options": X265}),
    "hevc open gop, ts": ("a.ts", {"codec": "libx265", "options": X265}),
    "vp9 webm": ("a.webm", {"codec": "libvpx-vp9", "options": {"cpu-used": "8", "deadline": "realtime"}}),
    "vp9 alternate references": (
        "a.webm",
        {"codec": "libvpx-vp9", "options": {"cpu-used": "5", "auto-alt-ref": "1", "lag-in-frames": "12"}},
    ),
    "vp8 alternate references": (
        "a.webm",
        {"codec": "libvpx", "options": {"cpu-used": "5", "auto-alt-ref": "1", "lag-in-frames": "12"}},
    ),
    "av1 mp4": ("a.mp4", {"codec": "libsvtav1", "options": {"preset": "12", "svtav1-params": "keyint=12:lp=1"}}),
    "av1 webm": ("a.webm", {"codec": "libsvtav1", "options": {"preset": "12", "svtav1-params": "keyint=12:lp=1"}}),
    "mpeg4 mp4": ("a.mp4", {"codec": "mpeg4", "b_frames": 2}),
    "mpeg4 avi": ("a.avi", {"codec": "mpeg4", "b_frames": 2}),
    "mpeg2 ts": ("a.ts", {"codec": "mpeg2video", "b_frames": 2}),
    "mpeg2 program stream": ("a.mpg", {"codec": "mpeg2video", "b_frames": 2}),
    "mjpeg avi": ("a.avi", {"codec": "mjpeg", "pix_fmt": "yuvj420p", "options": {"strict": "-1"}}),
    "mjpeg mov": ("a.mov", {"codec": "mjpeg", "pix_fmt": "yuvj420p", "options": {"strict": "-1"}}),
    "variable rate mp4": ("a.mp4", {"options": X264_OPEN, "pts": VFR, "n": 30}),
    "variable rate mkv": ("a.mkv", {"options": X264_OPEN, "pts": VFR, "n": 30}),
    "rotated phone video": ("a.mp4", {"options": X264_OPEN, "rotation": 90}),
    "odd size": ("a.mp4", {"codec": "libx264", "options": X264_OPEN, "pix_fmt": "yuv444p", "size": (97, 65)}),
    "odd size 4:2:0": ("a.webm", {"codec": "libvpx-vp9", "size": (97, 65), "options": {"cpu-used": "8"}}),
    "non-square pixels": ("a.mp4", {"options": X264_OPEN, "sample_aspect": Fraction(4, 3)}),
    "tall pixels": ("a.mkv", {"options": X264_OPEN, "sample_aspect": Fraction(8, 9)}),
    "negative first pts, mp4": ("a.mp4", {"options": X264_OPEN, "pts": range(-7, 41)}),
    "negative first pts, mkv": ("a.mkv", {"options": X264_OPEN, "pts": range(-7, 41)}),
    "negative first pts, kept": (
        "a.mov",
        {"options": X264_OPEN, "pts": range(-7, 41), "container_options": {"avoid_negative_ts": "disabled"}},
    ),
    "10 bit": ("a.mkv", {"codec": "libx265", "options": X265, "pix_fmt": "yuv420p10le"}),
    "fragmented mp4": ("a.mp4", {"options": X264_OPEN, "container_options": {"movflags": "frag_keyframe+empty_moov"}}),
    "one frame": ("a.mp4", {"options": X264_OPEN, "n": 1}),
}


MORE_CASES: dict[str, tuple[str, dict[str, object]]] = {
    "full range": ("a.mp4", {"options": X264_OPEN | {"color_range": "pc"}, "pix_fmt": "yuvj420p"}),
    "h264 4:4:4": ("a.mp4", {"options": X264_OPEN, "pix_fmt": "yuv444p"}),
    "h264 4:2:2": ("a.mp4", {"options": X264_OPEN, "pix_fmt": "yuv422p"}),
    "h264 10 bit": ("a.mp4", {"options": X264_OPEN, "pix_fmt": "yuv420p10le"}),
    "h264 bt709": ("a.mp4", {"options": X264_OPEN | {"colorspace": "bt709"}}),
    "h264 interlaced": ("a.mp4", {"options": {"x264-params": "interlaced=1:keyint=12"}, "size": (160, 128)}),
    "h264 cropped 1080": ("a.mp4", {"size": (1920, 1080), "n": 24}),
    "h264 cropped 98x66": ("a.mp4", {"size": (98, 66)}),
    "h264 48x32": ("a.mp4", {"size": (48, 32)}),
    "rotated 180": ("a.mp4", {"rotation": 180}),
    "rotated 270": ("a.mp4", {"rotation": 270, "options": X264_OPEN}),
    "hevc rotated": ("a.mov", {"codec": "libx265", "options": X265, "rotation": 90}),
    "hevc bt2020": (
        "a.mp4",
        {"codec": "libx265", "options": {"x265-params": "keyint=12:log-level=none:pools=1:colormatrix=bt2020nc"}},
    ),
    "hevc closed gop": (
        "a.mp4",
        {"codec": "libx265", "options": {"x265-params": X265["x265-params"].replace("open-gop=1", "open-gop=0")}},
    ),
}
"""More of them for the engines of a GPU: colours, formats, crops and turns."""


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
