"""Whole numbers of variable length, in the encoding of Parquet footers and ONNX files."""

import mmap


def read_varint(content: bytes | mmap.mmap, place: int) -> tuple[int, int]:
    """Return the unsigned number at `place` and the place after it.

    Raises ValueError if the number has more than 64 bits.

    >>> read_varint(bytes([0xAC, 0x02, 7]), 0)
    (300, 2)
    """
    value = shift = 0
    while True:
        byte = content[place]
        value, place, shift = value | (byte & 127) << shift, place + 1, shift + 7
        if byte < 128:
            return value, place
        if shift > 63:
            raise ValueError("the number has more than 64 bits")
