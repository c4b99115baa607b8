"""Packed frames: every pixel comes back, the file is what its description says, damage is seen."""

import hashlib
import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.core.errors import StrobeError
from strobe.core.packed import is_packed, is_sealed, packed, packed_size, unpacked


def digest(image: np.ndarray) -> str:
    return hashlib.sha256(image.tobytes()).hexdigest()


def some_image(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 70), st.integers(1, 40), st.integers(0, 99), st.booleans())
def test_every_pixel_comes_back(height: int, width: int, seed: int, smooth: bool) -> None:
    image = some_image(height, width, seed)
    if smooth:
        image = (image // 8 + np.arange(height, dtype=np.uint8)[:, None, None]).astype(np.uint8)
    data = packed(image, digest(image))
    assert is_packed(data)
    assert packed_size(data) == (width, height)
    assert is_sealed(data, digest(image))
    found = unpacked(data)
    assert found.flags.c_contiguous
    assert found.flags.writeable
    np.testing.assert_array_equal(found, image)
    assert packed(found, digest(image)) == data


def test_it_is_a_numpy_file_to_any_zstd() -> None:
    """As docs/formats.md says how to read it without us."""
    image = some_image(37, 21)
    plain = pa.CompressedInputStream(pa.BufferReader(packed(image, digest(image))), "zstd").read()
    differences = np.load(io.BytesIO(plain))
    np.testing.assert_array_equal(np.cumsum(differences, axis=0, dtype=np.uint8), image)


def test_the_seal_is_of_file_and_pixels() -> None:
    image, other = some_image(9, 9), some_image(9, 9, seed=1)
    data = packed(image, digest(image))
    assert not is_sealed(data, digest(other))
    for place in (30, 60, len(data) - 1):
        damaged = bytearray(data)
        damaged[place] ^= 1
        assert not is_sealed(bytes(damaged), digest(image))
    assert not is_packed(b"")
    assert not is_packed(b"\x89PNG\r\n\x1a\n")


def test_damage_is_an_error_or_other_pixels_and_nothing_else() -> None:
    image, rng = some_image(24, 16), np.random.default_rng(3)
    data = packed(image, digest(image))
    for end in (0, 8, 20, 55, 60, len(data) - 1):
        with pytest.raises((StrobeError, ValueError, OSError)):
            unpacked(data[:end])
    for _ in range(60):
        damaged = bytearray(data)
        damaged[rng.integers(16, len(data))] = rng.integers(0, 256)
        try:
            unpacked(bytes(damaged))
        except (StrobeError, ValueError, OSError, MemoryError):
            continue


def test_a_file_as_it_was_first_written_is_read() -> None:
    old = bytes.fromhex(
        "5e2a4d18300000007374726f626520310200000003000000e5d7083e6ae4be9304bd2c517407ca6419eea347faf5f4b2d929"
        "4e7d97822b5528b52ffd2092e502000405934e554d5059010076007b276465736372273a20277c7531272c2027666f727472"
        "616e5f6f72646546616c73652c20277368617065273a2028322c20332c2033292c207d200a00010203040506070809030080"
        "f00d770ebbce32"
    )
    np.testing.assert_array_equal(unpacked(old), np.arange(18, dtype=np.uint8).reshape(2, 3, 3))
