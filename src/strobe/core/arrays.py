"""The kinds of array that functions take and give."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bools", "Floats", "Ints", "Texts"]

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Texts = NDArray[np.object_]
