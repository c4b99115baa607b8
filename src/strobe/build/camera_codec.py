"""Encode a clip with a real H.264 encoder and decode it again."""

import io
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from strobe.core.errors import StrobeError, expect
from strobe.core.late import require
from strobe.core.ports import Image
from strobe.core.records import PictType

# BT.601 in studio range, which encoders and players assume for small video without colour metadata.
_TO_YUV = np.array(
    [[65.481, 128.553, 24.966], [-37.797, -74.203, 112.0], [112.0, -93.786, -18.214]], dtype=np.float32
) / np.float32(255)
_TO_RGB = np.linalg.inv(_TO_YUV.astype(np.float64)).astype(np.float32)
_ZERO = np.array([16, 128, 128], dtype=np.float32)


def h264_round_trip(
    frames: NDArray[np.uint8], *, fps: int, crf: int, gop: int
) -> tuple[NDArray[np.uint8], tuple[PictType, ...]]:
    """Return the frames (T, H, W, 3) as decoded from the encoded clip, and each frame's type (I, P or B).

    The encoder x264 runs on one thread. Colour is converted here with proper rounding, because the library's fast
    conversion darkens every frame by a level. So the same frames give the same pixels on every machine with the same
    libraries.
    """
    av = require("av", what="the H.264 round trip", extra="video")
    count, height, width = frames.shape[:3]
    expect(height % 2 == 0 and width % 2 == 0, "frames", "even sides for H.264", (width, height))
    buffer = io.BytesIO()
    try:
        with av.open(buffer, "w", format="mp4") as container:
            # Without cpu-independent, x264's AVX-512 code gives different bits from run to run.
            tuning = f"keyint={gop}:scenecut=0:cpu-independent=1"
            settings = {"crf": str(crf), "preset": "medium", "threads": "1", "x264-params": tuning}
            stream = container.add_stream("libx264", rate=fps, options=settings)
            stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
            stream.time_base = stream.codec_context.time_base = Fraction(1, fps)
            for index, pixels in enumerate(frames):
                frame = av.VideoFrame.from_ndarray(_to_yuv420(pixels), format="yuv420p")
                frame.pts, frame.time_base = index, Fraction(1, fps)
                container.mux(stream.encode(frame))
            container.mux(stream.encode(None))
        buffer.seek(0)
        seen = np.empty_like(frames)
        types: list[PictType] = []
        with av.open(buffer, format="mp4") as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1
            for frame in container.decode(stream):
                seen[len(types)] = _from_yuv420(frame.to_ndarray(format="yuv420p"))
                types.append(cast(PictType, {1: "I", 2: "P", 3: "B"}.get(int(frame.pict_type), "")))
    except (av.FFmpegError, ValueError) as error:
        raise StrobeError(f"the H.264 round trip failed ({error}); disable the encoder or update PyAV") from error
    expect(len(types) == count, "decoded frames", f"as many as were encoded ({count})", len(types))
    return seen, tuple(types)


def _to_yuv420(pixels: Image) -> NDArray[np.uint8]:
    """Return the planes stacked as PyAV expects: luma, then the two chroma planes at half the resolution."""
    height, width = pixels.shape[:2]
    yuv = pixels.astype(np.float32) @ _TO_YUV.T + _ZERO
    chroma = yuv[:, :, 1:].reshape(height // 2, 2, width // 2, 2, 2).mean(axis=(1, 3))
    planes = [yuv[:, :, 0].ravel(), chroma[:, :, 0].ravel(), chroma[:, :, 1].ravel()]
    levels = np.rint(np.clip(np.concatenate(planes), 0, 255)).astype(np.uint8)
    return np.asarray(levels.reshape(height * 3 // 2, width))


def _from_yuv420(planes: NDArray[np.uint8]) -> Image:
    rows, width = planes.shape
    height = rows * 2 // 3
    flat, n = planes.ravel(), height * width
    halves = (flat[n : n + n // 4], flat[n + n // 4 :])
    chroma = [
        np.asarray(
            PillowImage.fromarray(half.reshape(height // 2, width // 2).astype(np.float32)).resize(
                (width, height), PillowImage.Resampling.BILINEAR
            )
        )
        for half in halves
    ]
    yuv = np.stack([flat[:n].reshape(height, width).astype(np.float32), *chroma], axis=-1)
    return np.asarray(np.rint(np.clip((yuv - _ZERO) @ _TO_RGB.T, 0, 255)), dtype=np.uint8)
