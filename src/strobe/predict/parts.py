"""What the engine hands over: shards of work, and the answers that come back of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import Answers
from strobe.core.arrays import Ints
from strobe.core.errors import expect

__all__ = ["Shard", "ShardResult"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A unit of work: frame rows, and for each model those of them it has not seen.

    Batches are cut at fixed places of `rows`, so a resumed run makes the batches an unbroken one would have made.
    """

    rows: Ints
    needed: Mapping[str, Ints]

    def __post_init__(self) -> None:
        expect(len(self.rows) > 0 and bool((np.diff(self.rows) > 0).all()), "Shard.rows", "ascending, each once", None)


@dataclass(slots=True, kw_only=True)
class ShardResult:
    """What came back of a shard: rows (ascending) and answers per model that ran, and a line for each that failed."""

    parts: dict[str, tuple[NDArray[np.int64], Answers]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    forward_s: dict[str, float] = field(default_factory=dict)
    complete: bool = True
