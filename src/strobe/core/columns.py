"""Convert Arrow columns to numpy and back, by their bytes.

The functions of pyarrow (`pa.array`, `pa.scalar`, `to_numpy`, `np.asarray`) import pandas if it is installed. This
import would take a quarter of the time of one scoring run. This module does not import pyarrow; callers pass the module
as an argument.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Bools

__all__ = ["arrow_of", "numbers_of"]


def numbers_of(column: Any) -> NDArray[Any]:
    """Return an Arrow column of numbers or booleans as a numpy array; values at nulls are undefined.

    The column may have several chunks.

    A single chunk of numbers is not copied and is read-only.
    """
    parts = [_numbers(chunk) for chunk in getattr(column, "chunks", [column])]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype=_dtype(column)), *parts])


_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}
"""Types with different names in Arrow and numpy."""


def _dtype(column: Any) -> np.dtype[Any]:
    name = str(column.type)
    found = np.dtype(_NAMES.get(name, name))
    if found.kind not in "biuf":
        raise TypeError(f"expected a column of numbers, got {name}")
    return found


def _numbers(chunk: Any) -> NDArray[Any]:
    kind, begin, n = _dtype(chunk), chunk.offset, len(chunk)
    if not n:  # it may have no buffer
        return np.empty(0, dtype=kind)
    data = chunk.buffers()[1]
    if kind.kind == "b":
        return np.unpackbits(np.frombuffer(data, np.uint8), count=begin + n, bitorder="little")[begin:].view(bool)
    return np.frombuffer(data, kind, count=n, offset=begin * kind.itemsize)


def arrow_of(pa: Any, values: "NDArray[Any] | Sequence[str]", missing: Bools | None = None) -> Any:
    """Return an Arrow array of texts, or of numpy numbers or booleans.

    It is null where `missing` is true; `pa` is pyarrow.
    """
    if not isinstance(values, np.ndarray):
        coded = [value.encode() for value in values]
        ends = np.cumsum([0, *map(len, coded)], dtype=np.int32)
        return pa.StringArray.from_buffers(len(coded), pa.py_buffer(ends), pa.py_buffer(b"".join(coded)))
    data = np.packbits(values, bitorder="little") if values.dtype.kind == "b" else np.ascontiguousarray(values)
    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, pa.py_buffer(data)])
