"""Pixel-based hints about a pair for reviewers: cut, blur, motion, exposure, near-duplicate. A hint is never a verdict.

Hints are computed on small grey copies, take a few milliseconds per pair, and are the same on every machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from strobe.build.options import DropRules
from strobe.core.ports import Image
from strobe.core.tables import Hints

_THUMB = 160
"""The longer side of the grey copy used for motion and duplicates."""

_BLOCK = 8
"""The side of a block in the half-size copy."""
_REACH = 3
"""The largest motion of a block in the half-size copy, in addition to the motion of the whole frame."""

_LINES = 160
"""Sharpness is measured along about this many rows and columns at full resolution."""

DUPLICATE_MEAN, DUPLICATE_BLOCK = 0.5, 1.5
"""Limits for near-duplicates, in grey levels of 255: the mean difference, and the difference in any block."""

Grey = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameFeatures:
    """The data of one frame for hints: small copies, mean luma in [0, 1], sharpness and colour histogram."""

    grey: Grey
    half: Grey
    spectrum: NDArray[np.complex64]
    colours: NDArray[np.float64]
    luma: float
    sharpness: float
    diagonal: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PairHints:
    """The hints of one (anchor, member) pair. Its fields are the columns of the dataset's hints table."""

    cut: float = 0.0
    blur: float = 0.0
    motion: float = 0.0
    exposure: float = 0.0
    duplicate: bool = False


def features_of(image: Image) -> FrameFeatures:
    """Return the features of one frame: small copies and a few numbers."""
    from PIL import Image as Pillow

    height, width = image.shape[:2]
    factor = max(1, round(max(height, width) / _THUMB))
    # Every second row is enough for a mean over many rows, at half the cost.
    rows = image if factor < 4 or factor % 2 else np.ascontiguousarray(image[::2])
    small = np.asarray(Pillow.fromarray(rows).reduce((factor, factor * len(rows) // height or 1))).astype(np.float32)
    grey = small @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    bins = (small.astype(np.uint8) >> 6).astype(np.int64)
    colours = np.bincount((bins[..., 0] * 16 + bins[..., 1] * 4 + bins[..., 2]).ravel(), minlength=64) / grey.size
    return FrameFeatures(
        grey=grey,
        half=_halved(grey),
        spectrum=_spectrum(grey),
        colours=colours,
        luma=float(grey.mean(dtype=np.float64)) / 255,
        sharpness=_sharpness(image[..., 1]),
        diagonal=float(np.hypot(*grey.shape)),
    )


def _halved(grey: Grey) -> Grey:
    even = grey[: max(2, grey.shape[0] // 2 * 2), : max(2, grey.shape[1] // 2 * 2)]
    if min(even.shape) < 2:
        return even
    return np.asarray((even[::2, ::2] + even[1::2, ::2] + even[::2, 1::2] + even[1::2, 1::2]) / 4, dtype=np.float32)


def _sharpness(plane: NDArray[np.uint8]) -> float:
    """Return the RMS of second differences along some rows and columns. Their points are a 640th of the frame apart."""
    step = max(1, round(max(plane.shape) / 640))
    rows = plane[:: max(1, plane.shape[0] // _LINES)].astype(np.int16)
    columns = plane[:, :: max(1, plane.shape[1] // _LINES)].astype(np.int16).T
    energy, count = 0.0, 0
    for lines in (rows, columns):
        second = lines[:, 2 * step :] - 2 * lines[:, step:-step] + lines[:, : -2 * step]
        flat = second.ravel().astype(np.float32)
        energy += float(flat @ flat)
        count += flat.size
    # Rounding to integer levels contributes 1/12 · (1 + 4 + 1). It is subtracted because it is not sharpness.
    return float(np.sqrt(max(0.0, energy / max(1, count) - 0.5)))


def cut_score(before: FrameFeatures, after: FrameFeatures) -> float:
    """Return a score in [0, 1] of how likely it is that two neighbouring frames show different scenes.

    The score is high only if both the colours and the layout change. Motion does not change the colours, and a flash
    does not change the layout.
    """
    if before.grey.shape != after.grey.shape:
        return 1.0
    colours = float(np.abs(before.colours - after.colours).sum()) / 2
    a, b = before.half - before.half.mean(), after.half - after.half.mean()
    norm = float(np.sqrt((a * a).sum() * (b * b).sum()))
    alike = float((a * b).sum()) / norm if norm > 1e-6 else 1.0
    return float(np.sqrt(colours * min(1.0, max(0.0, 1.0 - alike))))


def pair_hints(anchor: FrameFeatures, member: FrameFeatures, *, cut: float) -> PairHints:
    """Return the hints of a pair. `cut` is the highest cut score between the two frames."""
    blur = float(np.log2((member.sharpness + 0.1) / (anchor.sharpness + 0.1)))
    exposure = member.luma - anchor.luma
    if anchor.grey.shape != member.grey.shape:
        return PairHints(cut=cut, blur=blur, motion=100.0, exposure=exposure)
    difference = np.abs(member.grey - anchor.grey)
    duplicate = float(difference.mean()) < DUPLICATE_MEAN and _largest_block(difference) < DUPLICATE_BLOCK
    motion = 0.0 if duplicate else _motion(anchor, member)
    return PairHints(cut=cut, blur=blur, motion=motion, exposure=exposure, duplicate=duplicate)


def set_hints(features: Mapping[int, FrameFeatures], anchor: int, members: Sequence[int]) -> list[PairHints]:
    """Return, by frame index, the hints of every member compared with the anchor, with zeros for the anchor itself.

    A member's cut score is the highest score between neighbouring frames on the way to the anchor.
    """
    order = sorted({anchor, *members})
    middle = order.index(anchor)
    steps = [cut_score(features[a], features[b]) for a, b in pairwise(order)]
    worst = {
        index: max(steps[min(middle, place) : max(middle, place)], default=0.0) for place, index in enumerate(order)
    }
    return [
        PairHints() if index == anchor else pair_hints(features[anchor], features[index], cut=worst[index])
        for index in members
    ]


def _largest_block(difference: Grey) -> float:
    side = 2 * _BLOCK
    height, width = difference.shape[0] // side * side, difference.shape[1] // side * side
    if not height or not width:
        return float(difference.mean())
    blocks = difference[:height, :width].reshape(height // side, side, width // side, side)
    return float(blocks.mean(axis=(1, 3)).max())


def _motion(anchor: FrameFeatures, member: FrameFeatures) -> float:
    """Return the mean displacement in per cent of the diagonal.

    It is the shift of the whole frame plus the motion of single blocks.
    """
    whole = _shift(anchor, member)
    moved, weight = _blocks(anchor.half, member.half, whole)
    if not weight.sum() > 0:
        return 0.0
    lengths = np.hypot(moved[..., 0], moved[..., 1]) * 2  # a pixel of the half-size copy is two pixels
    return float((lengths * weight).sum() / weight.sum()) * 100 / anchor.diagonal


def _spectrum(grey: Grey) -> NDArray[np.complex64]:
    window = np.outer(*(np.hanning(side + 2)[1:-1] for side in grey.shape))
    spectrum: NDArray[np.complex64] = np.fft.rfft2((grey - grey.mean()) * window).astype(np.complex64)
    return spectrum


def _shift(anchor: FrameFeatures, member: FrameFeatures) -> tuple[int, int]:
    """Return the (down, right) shift that best aligns the two images, by phase correlation; zero if no shift helps."""
    a, b = anchor.grey, member.grey
    cross = np.conj(anchor.spectrum) * member.spectrum
    surface = np.fft.irfft2(cross / (np.abs(cross) + 1e-3), s=a.shape)
    peak = np.unravel_index(int(surface.argmax()), surface.shape)
    down, right = ((int(at) + side // 2) % side - side // 2 for at, side in zip(peak, a.shape, strict=True))
    if (down, right) == (0, 0) or _apart(a, b, down, right) >= _apart(a, b, 0, 0):
        return 0, 0
    return down, right


def _apart(a: Grey, b: Grey, down: int, right: int) -> float:
    """Return the mean difference between `b` and the shifted `a` where they overlap."""
    height, width = a.shape
    of_a = a[max(0, -down) : height - max(0, down), max(0, -right) : width - max(0, right)]
    of_b = b[max(0, down) : height - max(0, -down), max(0, right) : width - max(0, -right)]
    return float(np.abs(of_a - of_b).mean()) if of_a.size else np.inf


def _blocks(a: Grey, b: Grey, whole: tuple[int, int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each block's displacement from `a` to `b` in pixels (down, right), and a weight based on its texture."""
    rows, columns = b.shape[0] // _BLOCK, b.shape[1] // _BLOCK
    if not rows or not columns:
        return np.zeros((1, 1, 2)), np.zeros((1, 1))
    height, width = rows * _BLOCK, columns * _BLOCK
    near = round(whole[0] / 2), round(whole[1] / 2)
    down, right = (np.clip(near[0], -height, height), np.clip(near[1], -width, width))
    pad = _REACH + max(abs(int(down)), abs(int(right)))
    wide = np.pad(a, pad, mode="edge")
    span = 2 * _REACH + 1
    top, left = pad - int(down) - _REACH, pad - int(right) - _REACH
    area = wide[top : top + height + span - 1, left : left + width + span - 1]
    target = b[:height, :width]
    # (span, span, height, width): `b` against `a` at every shift, reversed so that the index grows with the shift.
    shifted = np.lib.stride_tricks.sliding_window_view(area, (height, width))[::-1, ::-1]
    apart = np.abs(shifted - target).reshape(span, span, rows, _BLOCK, columns, _BLOCK)
    cost = apart.sum(axis=5).sum(axis=3).astype(np.float64) / _BLOCK**2
    steps = np.arange(span) - _REACH
    # A small penalty on motion makes blocks without texture move with the frame instead of at random.
    cost += 0.05 * np.hypot(steps[:, None], steps[None, :])[:, :, None, None]
    best = cost.reshape(span * span, rows, columns).argmin(axis=0)
    moved = np.stack([best // span - _REACH + down, best % span - _REACH + right], axis=-1).astype(np.float64)
    moved += _between(cost, best // span, best % span)
    texture = target.reshape(rows, _BLOCK, columns, _BLOCK).std(axis=(1, 3)).astype(np.float64)
    return moved, np.where(texture > 2.0, texture, 0.0)


def _between(cost: NDArray[np.float64], i: NDArray[np.intp], j: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the subpixel offset of the minimum from the best integer shift, by a parabola through three points."""
    rows, columns = np.indices(i.shape)
    parts = []
    for axis in (0, 1):
        at, last = (i, j)[axis], cost.shape[axis] - 1
        low, high = np.maximum(at - 1, 0), np.minimum(at + 1, last)
        before = cost[low, j, rows, columns] if axis == 0 else cost[i, low, rows, columns]
        after = cost[high, j, rows, columns] if axis == 0 else cost[i, high, rows, columns]
        middle = cost[i, j, rows, columns]
        bend = before - 2 * middle + after
        inside = (at > 0) & (at < last) & (bend > 1e-9)
        parts.append(np.where(inside, (before - after) / (2 * np.where(inside, bend, 1.0)), 0.0))
    return np.stack(parts, axis=-1)


def dropped_rows(rules: DropRules, hints: Hints) -> dict[str, NDArray[np.bool_]]:
    """Return the rows that each rule drops: changes of at least this size, in either direction. Rules may overlap."""
    thresholds = {name: getattr(rules, name) for name in ("cut", "blur", "motion", "exposure")}
    given = {name: value for name, value in thresholds.items() if value is not None}
    found = {name: np.abs(getattr(hints, name)) >= value for name, value in given.items()}
    return found | ({"duplicate": hints.duplicate.astype(bool)} if rules.duplicate else {})
