"""Check true boxes against their images: unit, declared size, edges. Every dataset maker uses this."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Bools, Floats
from strobe.core.errors import InvalidValue

__all__ = ["FittedBoxes", "are_shares", "fit_boxes", "refuse_shares"]

_SHARE = 1.01
_TINY = 8
"""In images up to this size, a box may plausibly end within a pixel of the corner."""
_FEW_OUTSIDE = 0.01
_MOST_BEYOND = 0.5
_SMALLER = 1.25
_HALF_PIXEL = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedBoxes:
    """Boxes (N, 4) in pixels and inside their images, which of them are kept (N,), and notes on changes."""

    xyxy: Floats
    keep: Bools
    notes: tuple[str, ...]


def are_shares(xyxy: Floats, wh: Floats) -> Bools:
    """Return which boxes (N, 4) end within a pixel of the corner of an image of `wh` (N, 2), zero if unknown.

    >>> are_shares(np.array([[0.1, 0.2, 0.5, 0.9], [1.0, 2, 30, 40]]), np.array([[640.0, 480], [640, 480]])).tolist()
    [True, False]
    """
    tiny = ((wh > 0) & (wh <= _TINY)).all(axis=1)
    return np.asarray((np.abs(xyxy) <= _SHARE).all(axis=1) & ~tiny)


def fit_boxes(
    xyxy: Floats, *, real_wh: Floats, declared_wh: Floats, source: NDArray[np.int64], name: Callable[[int], str]
) -> FittedBoxes:
    """Return the boxes (N, 4) in pixels of the stored images; raise InvalidValue if their meaning is unclear.

    `real_wh` (N, 2) is the size of each box's image, `declared_wh` the size its annotation gives; 0 if unknown.
    `source` (N,) numbers the videos, `name` gives a box's frame in words. Fractions of the image are refused. Boxes
    for another size of the same shape are scaled. Boxes that extend beyond the image are clipped. Boxes outside it are
    dropped if they are few, else refused.
    """
    if not len(xyxy):
        return FittedBoxes(xyxy=xyxy, keep=np.zeros(0, dtype=bool), notes=())
    known, declared = (np.asarray((size > 0).all(axis=1)) for size in (real_wh, declared_wh))
    wh = np.where(known[:, None], real_wh, np.where(declared[:, None], declared_wh, 0.0))
    refuse_shares(xyxy, wh, source, name)
    other = known & declared & (real_wh != declared_wh).any(axis=1)
    notes = []
    if other.any():
        rows = np.flatnonzero(other)
        _refuse_size(xyxy[rows], real_wh[rows], declared_wh[rows], lambda place: name(int(rows[place])))
        xyxy = np.where(other[:, None], xyxy * np.tile(wh / np.maximum(declared_wh, 1), 2), xyxy)
        a, b = _size(declared_wh[rows[0]]), _size(real_wh[rows[0]])
        notes.append(
            f"{len(rows)} box(es) were made for images of another size (the first for {a}, the image has {b}): "
            "they were scaled"
        )
    inside, keep, more = _cut(xyxy, wh, name)
    return FittedBoxes(xyxy=inside, keep=keep, notes=(*notes, *more))


def refuse_shares(xyxy: Floats, wh: Floats, source: NDArray[np.int64], name: Callable[[int], str]) -> None:
    """Raise InvalidValue if all boxes (N, 4) of a video are fractions of the image; arguments as for `fit_boxes`."""
    shares = are_shares(xyxy, wh)
    if not shares.any():
        return
    _, group = np.unique(source, return_inverse=True)
    every = np.bincount(group) == np.bincount(group, weights=shares)
    bad = np.flatnonzero(every[group])
    if len(bad):
        first = int(bad[0])
        raise InvalidValue(
            f"{name(first)}: the box {_corners(xyxy[first])} ends within a pixel of the corner, as every box of its "
            f"video does ({len(bad)} in all): they look like shares of the image; write boxes in pixels, x times the "
            "width and y times the height"
        )


def _refuse_size(xyxy: Floats, real: Floats, declared: Floats, name: Callable[[int], str]) -> None:
    """Refuse boxes of another size than their image's if they cannot be scaled, or need not be."""
    scale = real / declared
    skewed = np.abs(scale[:, 0] / scale[:, 1] - 1) > 0.02 + 1 / real.min(axis=1)
    if skewed.any():
        first = int(np.flatnonzero(skewed)[0])
        turned = bool((declared[first] == real[first][::-1]).all())
        raise InvalidValue(
            f"{name(first)}: its boxes were made for an image of {_size(declared[first])}, the image has "
            f"{_size(real[first])}: {'it was turned' if turned else 'another shape'}, so they cannot be scaled; make "
            "the annotation again for these images"
        )
    beyond = (xyxy[:, 2:] > declared * 1.02 + 1).any(axis=1)
    smaller = (declared > _SMALLER * real).all(axis=1)
    within = (xyxy[:, 2:] <= real + 1).all(axis=1)
    if beyond.mean() > _MOST_BEYOND or (smaller.all() and within.all()):
        raise InvalidValue(
            f"{name(0)}: the annotation gives a size of {_size(declared[0])}, the image has {_size(real[0])}, and the "
            f"boxes (first {_corners(xyxy[0])}) fit the image as they are: correct the size in the annotation, or the "
            "boxes"
        )


def _cut(xyxy: Floats, wh: Floats, name: Callable[[int], str]) -> tuple[Floats, Bools, list[str]]:
    """Return boxes clipped to their images, those inside them, and notes on both."""
    known = (wh > 0).all(axis=1, keepdims=True)
    inside = np.where(known, np.clip(xyxy, 0.0, np.tile(wh, 2)), xyxy)
    keep = np.asarray(((inside[:, 2:] - inside[:, :2]) > 0).all(axis=1))
    outside = np.flatnonzero(~keep)
    if len(outside) > _FEW_OUTSIDE * len(xyxy):
        first = int(outside[0])
        raise InvalidValue(
            f"{name(first)}: the box {_corners(xyxy[first])} lies outside the image ({_size(wh[first])}), as "
            f"{len(outside)} of {len(xyxy)} do; boxes are x0, y0, x1, y1 in pixels of the upright image"
        )
    moved = np.abs(inside - xyxy)
    far = np.flatnonzero(keep & (moved > 0.02 * np.tile(wh, 2) + 1).any(axis=1))
    if len(xyxy) >= 5 and len(far) > _MOST_BEYOND * len(xyxy):
        first = int(far[0])
        raise InvalidValue(
            f"{name(first)}: the box {_corners(xyxy[first])} reaches beyond the image ({_size(wh[first])}), as "
            f"{len(far)} of {len(xyxy)} do: they look made for another size; boxes are x0, y0, x1, y1 in pixels of the "
            "upright image"
        )
    notes = []
    cut = int((keep & (moved > _HALF_PIXEL).any(axis=1)).sum())
    if cut:
        notes.append(f"{cut} box(es) reached beyond their image and were cut to it")
    if len(outside):
        notes.append(f"{len(outside)} box(es) lie outside their image and were left out; their labels stay")
    return np.asarray(inside), keep, notes


def _corners(box: Floats) -> str:
    return f"({', '.join(f'{value:g}' for value in box)})"


def _size(wh: Floats) -> str:
    return f"{wh[0]:.0f}×{wh[1]:.0f}"
