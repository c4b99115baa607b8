"""What the engine hands over: shards of work, and the predictions that come back of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import expect
from strobe.core.records import Detections

__all__ = ["Part", "Shard", "ShardResult"]

Ints = NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A unit of work: frame rows, and for each model those of them it has not seen.

    Batches are cut at fixed places of `rows`, so a resumed run makes the batches an unbroken one would have made.
    """

    rows: Ints
    needed: Mapping[str, Ints]

    def __post_init__(self) -> None:
        expect(len(self.rows) > 0 and bool((np.diff(self.rows) > 0).all()), "Shard.rows", "ascending, each once", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One model's predictions for some frames, ascending by row.

    `scores` (N, C) are in the dataset's classes, or `detections` one per row. `error` says of a row why there is no
    prediction; its scores are NaN and are stored as null.
    """

    row: Ints
    error: tuple[str | None, ...]
    scores: NDArray[np.float32] | None = None
    raw_label: NDArray[np.int32] | None = None
    raw_confidence: NDArray[np.float32] | None = None
    detections: tuple[Detections | None, ...] | None = None

    def __post_init__(self) -> None:
        n = len(self.row)
        expect(len(self.error) == n, "Part.error", "one per row", len(self.error))
        expect((self.scores is None) != (self.detections is None), "Part", "scores or detections", None)
        held = self.detections if self.scores is None else self.scores
        expect(held is not None and len(held) == n, "Part", "one prediction per row", n)
        expect(bool((np.diff(self.row) > 0).all()), "Part.row", "ascending, each once", None)

    def __len__(self) -> int:
        return len(self.row)


@dataclass(slots=True, kw_only=True)
class ShardResult:
    """What came back of a shard: a part per model that ran, and a line for each that failed."""

    parts: dict[str, Part] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    forward_s: dict[str, float] = field(default_factory=dict)
    dropped_boxes: dict[str, int] = field(default_factory=dict)
    complete: bool = True
