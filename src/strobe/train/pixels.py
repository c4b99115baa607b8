"""Frames stored once as 8-bit pixels in a memory-mapped file, and copied to the device if they fit."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from strobe.core.arrays import Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, expect
from strobe.core.files import replacing
from strobe.core.locks import locked
from strobe.core.readers import read_array
from strobe.train.windows import SEED, window


def prepared(
    dataset: Dataset,
    rows: Ints,
    fill: Callable[[NDArray[Any]], None],
    *,
    size_hw: tuple[int, int],
    facts: Mapping[str, Any],
    folder: Path,
    most_bytes: int,
) -> NDArray[np.uint8]:
    """Return the frames `rows`, which `fill` prepares, (N, H, W, 3), memory-mapped from a file in `folder`.

    `facts` contains everything that affects the prepared pixels. The file is made once for a dataset's frames and these
    facts.
    """
    names = [dataset.frames_digest(), dict(facts), hashlib.sha256(rows.tobytes()).hexdigest()]
    return kept_table(folder, names, (len(rows), *size_hw, 3), np.uint8, fill, most_bytes=most_bytes)


class StoredFrames:
    """Frames at their own sizes, one after the other in a memory-mapped file."""

    streams = False

    def __init__(self, table: NDArray[np.uint8], sizes_hw: Ints, *, device: str) -> None:
        self._table, self._sizes_hw, self._device = table, sizes_hw, device
        self._start = frame_starts(sizes_hw)

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        rows: Ints,
        fill: Callable[[NDArray[Any]], None],
        sizes_hw: Ints,
        *,
        device: str,
        folder: Path,
        most_bytes: int,
    ) -> "StoredFrames":
        """Store the frames `rows`, which have these sizes (N, 2), in a file in `folder`, once for all trainings.

        `fill` writes them to the table of all their bytes.
        """
        names = [dataset.frames_digest(), "own size", hashlib.sha256(rows.tobytes()).hexdigest()]
        shape = (int(frame_starts(sizes_hw)[-1]),)
        return cls(kept_table(folder, names, shape, np.uint8, fill, most_bytes=most_bytes), sizes_hw, device=device)

    def expect(self, *steps: tuple[Ints, Ints | None]) -> None:
        """Do nothing, because all frames are there."""

    def images(self, places: Ints, crops: Ints | None = None) -> list[Tensor]:
        """Return these frames (height, width, 3) on the device. Of `crops`, only the mirroring is applied."""
        mirrored = [False] * len(places) if crops is None else (crops[:, 2] > 0).tolist()
        images = []
        for place, turned in zip(places.tolist(), mirrored, strict=True):
            image = self._table[self._start[place] : self._start[place + 1]].reshape(*self._sizes_hw[place], 3)
            images.append(to_device(np.array(image[:, ::-1] if turned else image, order="C"), self._device))
        return images


def frame_starts(sizes_hw: Ints) -> Ints:
    """Return where each frame starts if frames of these sizes (N, 2) are stored in one file, and its end, (N + 1,)."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(3 * sizes_hw.astype(np.int64).prod(axis=1))])


def kept_table(
    folder: Path,
    names: Sequence[Any],
    shape: tuple[int, ...],
    dtype: type,
    fill: Callable[[NDArray[Any]], None],
    *,
    most_bytes: int,
) -> NDArray[Any]:
    """Return a memory-mapped table, made once for its `names`. Other processes that need it wait until it is done.

    If the tables in the folder exceed `most_bytes`, the least recently used ones are deleted.
    """
    needed = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if needed > most_bytes:
        size = "×".join(map(str, shape))
        raise StrobeError(
            f"a table of {size} values needs {needed / 1e9:.1f} GB of scratch space, more than "
            f"<<cache_gb={most_bytes / 1e9:g}>>; raise <<cache_gb>>"
        )
    digest = hashlib.sha256(json.dumps(names, sort_keys=True).encode()).hexdigest()
    path = folder / f"{digest[:32]}.npy"
    if not path.is_file():
        with locked(path.with_suffix(".lock"), busy=None):
            if not path.is_file():  # another training of the same frames may have made it during the wait
                _make(path, shape, dtype, fill, most_bytes=most_bytes - needed)
    os.utime(path)  # mark as used
    table = read_array(path, mapped=True, hint="remove this cache of prepared frames")
    expect(table.shape == shape and table.dtype == dtype, str(path), f"a table {shape}", table.shape)
    return np.asarray(table)


def _make(
    path: Path, shape: tuple[int, ...], dtype: type, fill: Callable[[NDArray[Any]], None], *, most_bytes: int
) -> None:
    _make_room(path.parent, most_bytes)
    with replacing(path) as temporary:
        table = np.lib.format.open_memmap(temporary, mode="w+", dtype=dtype, shape=shape)
        fill(table)
        table.flush()


def _make_room(folder: Path, most_bytes: int) -> None:
    files = sorted(folder.glob("*.npy"), key=lambda path: path.stat().st_mtime)
    total = sum(path.stat().st_size for path in files)
    for path in files:
        if total <= most_bytes:
            return
        total -= path.stat().st_size
        path.unlink(missing_ok=True)
        path.with_suffix(".lock").unlink(missing_ok=True)


class Pixels:
    """Prepared frames for fast access: in the device's memory if they fit into half of its free memory."""

    streams = False

    def __init__(self, table: NDArray[np.uint8], *, device: str) -> None:
        self.device = device
        self.on_device = device.startswith("cuda") and table.nbytes <= torch.cuda.mem_get_info(device)[0] // 2
        self._table = table
        self._tensor = _on(table, device) if self.on_device else None
        self.side_hw: tuple[int, int] = (table.shape[1], table.shape[2])
        self._reach = (max(self.side_hw) + 1) // 2
        self._windows = [_windows(side, self._reach).to(device) for side in self.side_hw] if self.on_device else []

    def __len__(self) -> int:
        return len(self._table)

    def expect(self, *steps: tuple[Ints, Ints | None]) -> None:
        """Do nothing, because all frames are there."""

    def take(self, rows: Ints, crops: Ints | None = None) -> Tensor:
        """Return these frames (N, 3, H, W), 8 bits, channels last in memory, on the device.

        `crops` (N, 3) gives the window's shift in pixels, down and to the right, and whether it is mirrored. Pixels
        beyond an edge are reflected.
        """
        if self._tensor is None:
            return to_device(self._host(rows, crops), self.device).permute(0, 3, 1, 2)
        if crops is None:
            return self._tensor[torch.from_numpy(rows).to(self.device)].permute(0, 3, 1, 2)
        # Only one copy to the device and three gathers, because a training step at 64 pixels takes only a few
        # milliseconds.
        told = torch.from_numpy(_lines_of(rows, crops, self._reach)).pin_memory().to(self.device, non_blocking=True)
        return _gathered(self._tensor, self._windows, told).permute(0, 3, 1, 2)

    def _host(self, rows: Ints, crops: Ints | None) -> NDArray[np.uint8]:
        if crops is None:
            return self._table[rows]
        out = np.empty((len(crops), *self.side_hw, 3), dtype=np.uint8)
        for index, (row, (down, right, mirrored)) in enumerate(zip(rows, crops[:, :SEED].tolist(), strict=True)):
            out[index] = window(self._table[row], down, right, mirrored=bool(mirrored))
        return out


def to_device(pixels: NDArray[np.uint8], device: str) -> Tensor:
    """Return the pixels as a tensor on the device."""
    found = torch.from_numpy(pixels)
    return found.pin_memory().to(device, non_blocking=True) if device.startswith("cuda") else found


def _lines_of(rows: Ints, crops: Ints, reach: int) -> Ints:
    """Return each frame's row, and its row in the tables of vertical and of horizontal windows, (3, N)."""
    return np.stack([rows, reach + crops[:, 0], reach + crops[:, 1] + (2 * reach + 1) * crops[:, 2]])


def _gathered(table: Tensor, windows: Sequence[Tensor], told: Tensor) -> Tensor:
    """Return the windows (N, H, W, 3) of frames of a table on its device."""
    y, x = windows[0][told[1]], windows[1][told[2]]
    return table[told[0][:, None, None], y[:, :, None], x[:, None, :]]


def _on(table: NDArray[np.uint8], device: str) -> Tensor:
    """Copy the table to the device's memory in parts, so that the host needs no second copy."""
    found = torch.empty(table.shape, dtype=torch.uint8, device=device)
    for start in range(0, len(table), 4096):
        found[start : start + 4096] = torch.from_numpy(np.array(table[start : start + 4096])).to(device)
    return found


def _windows(length: int, reach: int) -> Tensor:
    """Return the indices of windows shifted by −reach … reach, (2 reach + 1, length), followed by the same mirrored.

    >>> _windows(4, 1).tolist()
    [[1, 0, 1, 2], [0, 1, 2, 3], [1, 2, 3, 2], [2, 1, 0, 1], [3, 2, 1, 0], [2, 3, 2, 1]]
    """
    place = torch.arange(length)[None] + torch.arange(-reach, reach + 1)[:, None]
    found = length - 1 - (length - 1 - place.abs()).abs()
    return torch.cat([found, found.flip(1)])
