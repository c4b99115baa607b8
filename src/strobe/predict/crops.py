"""Frames cropped to a box before a model sees them. The crop is a view between the frame source and the preparation."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from strobe.core.arrays import Floats
from strobe.core.crops import cut_of, fitted
from strobe.core.errors import expect
from strobe.core.ports import FrameSource, Image, SendableSource

__all__ = ["Crops"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Crops:
    """The crop of each frame as picklable data: its box, and how the crop is fitted to the input.

    `boxes` is (F, 4) in pixels of the frame, NaN for frames that stay uncropped. All frames are marked as model inputs
    and are never cropped again. A model resizes crops without keeping the aspect ratio, unless they are first padded to
    a square. `said` is part of the answers' cache key.
    """

    boxes: Floats
    context: float = 1.0
    fit: str = "squash"
    said: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expect(self.boxes.ndim == 2 and self.boxes.shape[1] == 4, "Crops.boxes", "shape (F, 4)", self.boxes.shape)

    def of(self, source: FrameSource) -> FrameSource:
        """Return the source with its frames cropped."""
        known = np.flatnonzero(np.isfinite(self.boxes).all(axis=1)).tolist()
        boxes = {row: tuple(self.boxes[row].tolist()) for row in known}
        made = _SendableCropped if isinstance(source, SendableSource) else _Cropped
        return made(source, boxes, self.context, self.fit)

    def digest(self, frame_ids: Sequence[str]) -> str:
        """Return a digest that changes if a box, its frame or the fitting changes."""
        hasher = hashlib.sha256(json.dumps([self.context, self.fit, list(frame_ids)]).encode())
        hasher.update(np.ascontiguousarray(self.boxes, dtype=np.float64).tobytes())
        return hasher.hexdigest()[:16]


class _Cropped:
    """A FrameSource that wraps another source, crops every frame to its box, and fits the crop to a model's input."""

    def __init__(self, inner: FrameSource, boxes: Mapping[int, tuple[float, ...]], context: float, fit: str) -> None:
        self._inner, self._boxes, self._context, self._fit = inner, boxes, context, fit

    def read(self, row: int) -> Image:
        """Return the crop, or the whole frame if the frame has no box."""
        image, box = self._inner.read(row), self._boxes.get(row)
        if box is not None:
            at = cut_of(box, (image.shape[1], image.shape[0]), context=self._context)
            if at is not None:
                image = np.ascontiguousarray(image[at[1] : at[3], at[0] : at[2]])
        return fitted(image, self._fit)

    def read_encoded(self, row: int) -> bytes | None:  # noqa: ARG002 (part of the protocol)
        """Return None, because the file contains the uncropped frame."""
        return None


class _SendableCropped(_Cropped):
    """Cropped frames from a source that other processes can read."""

    _inner: SendableSource

    def only(self, rows: Sequence[int]) -> "_SendableCropped":
        """Return a source that contains only these rows."""
        boxes = {row: self._boxes[row] for row in rows if row in self._boxes}
        return _SendableCropped(self._inner.only(rows), boxes, self._context, self._fit)
