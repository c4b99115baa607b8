"""Array types for function signatures, and helpers that keep arrays of millions of rows small."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.late import require

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Texts = NDArray[np.object_]

BLOCK = 2**20
"""The number of rows processed at once, so that temporary memory does not grow with the data."""


def narrow_type(low: int, high: int) -> type[np.signedinteger[Any]]:
    """Return the smallest integer type that can represent both numbers.

    >>> narrow_type(-2, 29).__name__, narrow_type(0, 40_000).__name__
    ('int8', 'int32')
    """
    fits = (kind for kind in (np.int8, np.int16, np.int32) if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return next(fits, np.int64)


def narrow(values: Ints) -> Ints:
    """Return the same numbers in the smallest type.

    Use them for comparisons and indexing only, because sums could overflow.

    >>> narrow(np.array([3, 500])).dtype.name
    'int16'
    """
    return values.astype(narrow_type(int(values.min(initial=0)), int(values.max(initial=0))), copy=False)


def blocks(n: int, many: int = BLOCK) -> Iterator[slice]:
    """Yield slices of the range below `n`, each of the given size.

    >>> [part.stop - part.start for part in blocks(5, 2)]
    [2, 2, 1]
    """
    return (slice(first, min(first + many, n)) for first in range(0, n, many))


FARTHEST = 1e9
"""The largest absolute coordinate of a pixel, so that sizes and areas of boxes can be computed."""


def are_pixels(values: NDArray[Any]) -> Bools:
    """Return which numbers can be image coordinates: finite numbers of at most a thousand million.

    >>> are_pixels(np.array([3.5, -1e308, np.nan])).tolist()
    [True, False, False]
    """
    return np.asarray(np.abs(values) <= FARTHEST)


def counts(values: Ints, n: int) -> NDArray[np.int64]:
    """Count how often each number below `n` occurs in `values`, like np.bincount but without a wide copy.

    >>> counts(np.array([2, 0, 2], dtype=np.int8), 3).tolist()
    [1, 0, 2]
    """
    if n > BLOCK:  # one such array per block would cost more than the copy
        return np.bincount(values, minlength=n)
    found = np.zeros(n, dtype=np.int64)
    for part in blocks(len(values)):
        found += np.bincount(values[part], minlength=n)
    return found


def digest_of_tensors(tensors: Mapping[str, Any]) -> str:
    """Return the sha256 of the names, shapes, types and values of torch tensors, in the order of their names."""
    torch = require("torch", what="reading weights", extra="models")
    hasher = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        hasher.update(f"{name}\t{tuple(tensor.shape)}\t{tensor.dtype}\n".encode())
        if tensor.numel():
            hasher.update(memoryview(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()))
    return hasher.hexdigest()
