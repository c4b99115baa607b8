"""Measure the cost of storing frames, and the effect of lossy formats on a classifier's answers.

    python benchmarks/storage.py VIDEO… [--every 2] [--no-model]

For each format, the script prints the milliseconds to encode and decode a frame, its size in MB, the largest change of
a pixel, and how many frames change the model's top-1 class or its confidence.
"""

import argparse
import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Pillow

from strobe.build.decode import Reader
from strobe.build.store import FrameEncoder
from strobe.core.packed import is_packed, unpacked
from strobe.core.ports import Image


def pillow(kind: str, settings: dict[str, Any]) -> Callable[[Image], bytes]:
    def encode(image: Image) -> bytes:
        buffer = io.BytesIO()
        Pillow.fromarray(image).save(buffer, kind, **settings)
        return buffer.getvalue()

    return encode


DEFAULT = "zstd (packed, default)"

STORES: dict[str, Callable[[Image], bytes]] = {
    DEFAULT: FrameEncoder("zstd").encode,
    "png (FFmpeg)": FrameEncoder("png").encode,
    "png (Pillow, level 1)": pillow("PNG", {"compress_level": 1}),
    "png (Pillow, level 6)": pillow("PNG", {"compress_level": 6}),
    "webp lossless": FrameEncoder("webp").encode,
    "jpeg 95, 4:4:4": FrameEncoder("jpeg").encode,
    "jpeg 95, 4:2:0": pillow("JPEG", {"quality": 95}),
    "jpeg 75, 4:2:0": pillow("JPEG", {"quality": 75}),
}


def decode(data: bytes) -> Image:
    if is_packed(data):
        return unpacked(data)
    with Pillow.open(io.BytesIO(data)) as picture:
        return np.asarray(picture.convert("RGB"))


def probabilities(model: Any, images: list[Image]) -> np.ndarray:
    from strobe.core.labels import confidence_of

    rows = [model.forward([model.prepare(image) for image in images[at : at + 8]]) for at in range(0, len(images), 8)]
    return np.asarray(confidence_of(np.concatenate(rows).astype(np.float64), kind="logits"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", nargs="+", type=Path)
    parser.add_argument("--every", type=int, default=2)
    parser.add_argument("--no-model", action="store_true")
    options = parser.parse_args()
    model = None
    if not options.no_model:
        from strobe.models.lite import load
        from strobe.models.options import LoadOptions, ModelName

        model = load(ModelName("bundled", "efficientnet-lite0"), LoadOptions(device="cpu"))
    for path in options.videos:
        with Reader.open(path) as reader:
            images = [frame.image for frame in reader.frames(range(0, len(reader.index), options.every))]
        print(f"{path.name}: {len(images)} frames of {images[0].shape[1]}×{images[0].shape[0]}")
        before = probabilities(model, images) if model is not None else None
        for name, encode in STORES.items():
            begin = time.process_time()
            files = [encode(image) for image in images]
            middle = time.process_time()
            back = [decode(data) for data in files]
            end = time.process_time()
            far = max(int(np.abs(a.astype(np.int16) - b).max()) for a, b in zip(images, back, strict=True))
            line = (
                f"  {name:22} encode {1e3 * (middle - begin) / len(images):6.1f} ms, "
                f"decode {1e3 * (end - middle) / len(images):5.1f} ms, "
                f"{sum(map(len, files)) / len(files) / 1e6:.3f} MB, largest change {far}"
            )
            if before is not None and (
                far or name == DEFAULT
            ):  # the default format is lossless and serves as a control
                after = probabilities(model, back)
                flips = int((after.argmax(axis=1) != before.argmax(axis=1)).sum())
                top = before.argmax(axis=1)
                swing = np.abs(after - before)[np.arange(len(top)), top]
                line += f", top-1 changes on {flips}, confidence by {swing.mean():.3f} (max {swing.max():.3f})"
            print(line, flush=True)


if __name__ == "__main__":
    main()
