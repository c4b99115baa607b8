"""JPEG decoding outside the lock: the same pixels as Pillow's, or Pillow itself."""

import io
from typing import Any

import numpy as np
from PIL import Image as Pillow

from strobe.models.fast_jpeg import FastJpegSource, jpeg_facts
from strobe.store.media import decode_image


class Files:
    """A FrameSource over bytes; counts what Pillow had to decode."""

    def __init__(self, *files: bytes) -> None:
        self.files, self.decoded = files, 0

    def read_encoded(self, row: int) -> bytes:
        return self.files[row]

    def read(self, row: int) -> Any:
        self.decoded += 1
        return decode_image(self.files[row], name=f"file {row}")


def _jpeg(width: int, height: int, mode: str = "RGB", **settings: Any) -> bytes:
    rng = np.random.default_rng(width * height)
    blocks = Pillow.fromarray(rng.integers(0, 256, (9, 12, 3), dtype=np.uint8))
    buffer = io.BytesIO()
    blocks.resize((width, height), Pillow.Resampling.BICUBIC).convert(mode).save(buffer, "JPEG", **settings)
    return buffer.getvalue()


VARIANTS = [
    _jpeg(width, height, quality=quality, subsampling=subsampling, progressive=progressive)
    for width, height in ((64, 48), (33, 17), (1, 1), (500, 375))
    for quality in (30, 75, 95)
    for subsampling in (0, 1, 2)
    for progressive in (False, True)
]


def test_plain_files_have_pillows_pixels() -> None:
    files = Files(*VARIANTS)
    source = FastJpegSource(files)
    for row in range(len(VARIANTS)):
        assert np.array_equal(source.read(row), files.read(row)), row
    fast = FastJpegSource(Files(*VARIANTS))
    for row in range(10):
        fast.read(row)
    assert fast._inner.decoded == 3, "after the check Pillow is not asked again"  # type: ignore[attr-defined]


def test_what_is_not_plain_goes_to_pillow() -> None:
    exif = Pillow.Exif()
    exif[0x0112] = 6
    png = io.BytesIO()
    Pillow.new("RGB", (9, 5), (1, 2, 3)).save(png, "PNG")
    odd = [_jpeg(40, 20, exif=exif), _jpeg(40, 20, "L"), _jpeg(40, 20, "CMYK"), png.getvalue()]
    files = Files(*VARIANTS[:3], *odd)
    source = FastJpegSource(files)
    for row in range(3):
        source.read(row)
    shapes = [source.read(row).shape for row in range(3, 7)]
    assert shapes == [(40, 20, 3), (20, 40, 3), (20, 40, 3), (5, 9, 3)]
    assert files.decoded == 7


def test_a_decoder_that_differs_is_not_used() -> None:
    class Other(Files):
        def read(self, row: int) -> Any:
            return super().read(row) ^ 1

    files = Other(*VARIANTS)
    source = FastJpegSource(files)
    for row in range(6):
        assert np.array_equal(source.read(row), files.read(row))


def test_facts() -> None:
    assert jpeg_facts(_jpeg(40, 20)) == (40, 20, 3)
    assert jpeg_facts(_jpeg(40, 20, progressive=True)) == (40, 20, 3)
    assert jpeg_facts(_jpeg(40, 20, "L")) == (40, 20, 1)
    for content in (b"", b"\xff\xd8", b"\xff\xd8\xff\xe0\xff\xff", b"\xff\xd8" + b"\xff" * 40):
        assert jpeg_facts(content) is None
