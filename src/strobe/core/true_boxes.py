"""Check true boxes against their images: unit, declared size, edges. Every dataset maker uses this."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Bools, Floats
from strobe.core.errors import InvalidValue

_SHARE = 1.01
_TINY = 8
"""In images up to this size, a box in pixels may plausibly end within a pixel of the top left corner."""
_FEW_OUTSIDE = 0.01
_MOST_BEYOND = 0.5
_SMALLER = 1.25
_HALF_PIXEL = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedBoxes:
    """Boxes (N, 4) in pixels and inside their images, with a mask of the kept boxes (N,) and notes on the changes."""

    xyxy: Floats
    keep: Bools
    notes: tuple[str, ...]


def are_shares(xyxy: Floats, wh: Floats) -> Bools:
    """Return which boxes (N, 4) look like shares of the image, because they end within a pixel of its top left corner.

    Image sizes `wh` (N, 2) are 0 if unknown.

    >>> are_shares(np.array([[0.1, 0.2, 0.5, 0.9], [1.0, 2, 30, 40]]), np.array([[640.0, 480], [640, 480]])).tolist()
    [True, False]
    """
    tiny = ((wh > 0) & (wh <= _TINY)).all(axis=1)
    return np.asarray((np.abs(xyxy) <= _SHARE).all(axis=1) & ~tiny)


def fit_boxes(
    xyxy: Floats, *, real_wh: Floats, declared_wh: Floats, source: NDArray[np.int64], name: Callable[[int], str]
) -> FittedBoxes:
    """Return the boxes (N, 4) in pixels of the stored images; raise InvalidValue if their meaning is unclear.

    `real_wh` (N, 2) is the size of each box's image, and `declared_wh` is the size that its annotation gives; 0 if
    unknown. `source` (N,) is the number of each box's video, and `name` returns the name of a box's frame. Fractions of
    the image are refused. Boxes for another image size with the same aspect ratio are scaled. Boxes that extend beyond
    the image are clipped. Boxes outside the image are dropped if they are few, else refused.
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
            f"{len(rows)} box(es) were made for images of another size and were scaled (the first: from {a} to {b})"
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
            f"{name(first)}: the box {_corners(xyxy[first])} ends within a pixel of the top left corner, as do all "
            f"boxes of its video ({len(bad)} in all); they look like fractions of the image; write boxes in pixels, "
            "x times the width and y times the height"
        )


def _refuse_size(xyxy: Floats, real: Floats, declared: Floats, name: Callable[[int], str]) -> None:
    """Refuse boxes made for another image size if they cannot be scaled, or if they already fit without scaling."""
    scale = real / declared
    skewed = np.abs(scale[:, 0] / scale[:, 1] - 1) > 0.02 + 1 / real.min(axis=1)
    if skewed.any():
        first = int(np.flatnonzero(skewed)[0])
        turned = bool((declared[first] == real[first][::-1]).all())
        raise InvalidValue(
            f"{name(first)}: its boxes were made for an image of {_size(declared[first])}, but the image is "
            f"{_size(real[first])}, {'rotated' if turned else 'another shape'}, so they cannot be scaled; annotate "
            "these images again"
        )
    beyond = (xyxy[:, 2:] > declared * 1.02 + 1).any(axis=1)
    smaller = (declared > _SMALLER * real).all(axis=1)
    within = (xyxy[:, 2:] <= real + 1).all(axis=1)
    if beyond.mean() > _MOST_BEYOND or (smaller.all() and within.all()):
        raise InvalidValue(
            f"{name(0)}: the annotation gives the size {_size(declared[0])}, but the image is {_size(real[0])} and "
            f"the boxes (first {_corners(xyxy[0])}) fit it without scaling; correct the size in the annotation, or "
            "the boxes"
        )


def _cut(xyxy: Floats, wh: Floats, name: Callable[[int], str]) -> tuple[Floats, Bools, list[str]]:
    """Return boxes clipped to their images, a mask of the boxes inside their image, and notes on all changes."""
    known = (wh > 0).all(axis=1, keepdims=True)
    inside = np.where(known, np.clip(xyxy, 0.0, np.tile(wh, 2)), xyxy)
    keep = np.asarray(((inside[:, 2:] - inside[:, :2]) > 0).all(axis=1))
    outside = np.flatnonzero(~keep)
    if len(outside) > _FEW_OUTSIDE * len(xyxy):
        first = int(outside[0])
        raise InvalidValue(
            f"{name(first)}: the box {_corners(xyxy[first])} is outside the image ({_size(wh[first])}), as "
            f"{len(outside)} of {len(xyxy)} are; boxes must be x0, y0, x1, y1 in pixels of the upright image"
        )
    moved = np.abs(inside - xyxy)
    far = np.flatnonzero(keep & (moved > 0.02 * np.tile(wh, 2) + 1).any(axis=1))
    if len(xyxy) >= 5 and len(far) > _MOST_BEYOND * len(xyxy):
        first = int(far[0])
        raise InvalidValue(
            f"{name(first)}: the box {_corners(xyxy[first])} extends beyond the image ({_size(wh[first])}), as "
            f"{len(far)} of {len(xyxy)} do; they look made for another size; boxes must be x0, y0, x1, y1 in pixels "
            "of the upright image"
        )
    notes = []
    cut = int((keep & (moved > _HALF_PIXEL).any(axis=1)).sum())
    if cut:
        notes.append(f"{cut} box(es) extended beyond their image and were clipped")
    if len(outside):
        notes.append(f"{len(outside)} box(es) are outside their image and were dropped; their labels are kept")
    return np.asarray(inside), keep, notes


def _corners(box: Floats) -> str:
    return f"({', '.join(f'{value:g}' for value in box)})"


def _size(wh: Floats) -> str:
    return f"{wh[0]:.0f}×{wh[1]:.0f}"
