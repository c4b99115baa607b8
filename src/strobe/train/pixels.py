"""Prepared frames: made once, kept as 8-bit pixels in one memory-mapped file, on the device where they fit."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from strobe.core.arrays import Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, StrobeError, expect
from strobe.core.files import make_folder, replacing
from strobe.core.ports import Image, Progress

__all__ = ["Pixels", "kept_table", "prepared"]

_TOGETHER = 64
"""Frames prepared between two words of progress."""


def prepared(
    dataset: Dataset,
    rows: Ints,
    read: Callable[[int], Image],
    *,
    size_hw: tuple[int, int],
    facts: Mapping[str, Any],
    folder: Path,
    most_bytes: int,
    progress: Progress,
) -> NDArray[np.uint8]:
    """The frames `rows` as `read` prepares them, (N, H, W, 3), memory-mapped from a file in `folder`.

    `facts` says all that changes what `read` gives. The file is made once for a dataset's frames and these facts.
    """

    def fill(table: NDArray[Any]) -> None:
        def one(place: int) -> None:
            table[place] = read(int(rows[place]))

        with progress.task("frames prepared", len(rows)) as advance, ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            for start in range(0, len(rows), _TOGETHER):
                part = range(start, min(len(rows), start + _TOGETHER))
                list(pool.map(one, part))
                advance(len(part))

    names = [dataset.frames_digest(), dict(facts), hashlib.sha256(rows.tobytes()).hexdigest()]
    return kept_table(folder, names, (len(rows), *size_hw, 3), np.uint8, fill, most_bytes=most_bytes)


def kept_table(
    folder: Path,
    names: Sequence[Any],
    shape: tuple[int, ...],
    dtype: type,
    fill: Callable[[NDArray[Any]], None],
    *,
    most_bytes: int,
) -> NDArray[Any]:
    """A table made once for what `names` it and memory-mapped ever after.

    The tables used longest ago go where all in the folder together are more than `most_bytes`.
    """
    needed = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    if needed > most_bytes:
        size = "×".join(map(str, reversed(shape[1:3])))
        raise StrobeError(
            f"{shape[0]:,} frames of {size} need {needed / 1e9:.1f} GB, more than --cache-gb {most_bytes / 1e9:g}; "
            "allow more, or use a smaller --image-size"
        )
    digest = hashlib.sha256(json.dumps(names, sort_keys=True).encode()).hexdigest()
    path = folder / f"{digest[:32]}.npy"
    if not path.is_file():
        make_folder(folder)
        _make_room(folder, most_bytes - needed)
        with replacing(path) as temporary:
            table = np.lib.format.open_memmap(temporary, mode="w+", dtype=dtype, shape=shape)
            fill(table)
            table.flush()
    os.utime(path)  # used now
    try:
        found = np.load(path, mmap_mode="r")
    except (ValueError, OSError, EOFError) as error:
        raise InvalidFile(path, "prepared frames that cannot be read", hint="remove it") from error
    expect(found.shape == shape and found.dtype == dtype, str(path), f"a table {shape}", found.shape)
    return np.asarray(found)


def _make_room(folder: Path, most_bytes: int) -> None:
    files = sorted(folder.glob("*.npy"), key=lambda path: path.stat().st_mtime)
    total = sum(path.stat().st_size for path in files)
    for path in files:
        if total <= most_bytes:
            return
        total -= path.stat().st_size
        path.unlink(missing_ok=True)


class Pixels:
    """Prepared frames where a step finds them at once: in the device's memory where half of what is free holds them."""

    def __init__(self, table: NDArray[np.uint8], *, device: str) -> None:
        self.device = device
        self.on_device = device.startswith("cuda") and table.nbytes <= torch.cuda.mem_get_info(device)[0] // 2
        self._table = table
        self._tensor = _on(table, device) if self.on_device else None
        self.side_hw: tuple[int, int] = (table.shape[1], table.shape[2])

    def __len__(self) -> int:
        return len(self._table)

    def take(self, rows: Ints, crops: Ints | None = None) -> Tensor:
        """These frames (N, 3, H, W), 8 bits, channels last in memory, on the device.

        `crops` (N, 3) says by how many pixels the window moves down and to the right, and whether it is mirrored; what
        comes in over an edge is the edge mirrored.
        """
        if self._tensor is None:
            return torch.from_numpy(self._host(rows, crops)).to(self.device, non_blocking=True).permute(0, 3, 1, 2)
        if crops is None:
            return self._tensor[torch.from_numpy(rows).to(self.device)].permute(0, 3, 1, 2)
        # One copy to the device and one gather: at 64 pixels a step takes a millisecond or two.
        told = torch.from_numpy(np.column_stack([rows, crops])).pin_memory().to(self.device, non_blocking=True)
        y, x = (_window(length, told[:, 1 + axis], torch) for axis, length in enumerate(self.side_hw))
        x = torch.where(told[:, 3:] > 0, x.flip(1), x)
        return self._tensor[told[:, 0, None, None], y[:, :, None], x[:, None, :]].permute(0, 3, 1, 2)

    def _host(self, rows: Ints, crops: Ints | None) -> NDArray[np.uint8]:
        if crops is None:
            return self._table[rows]
        y, x = (_window(length, crops[:, axis], np) for axis, length in enumerate(self.side_hw))
        x = np.where(crops[:, 2:] > 0, x[:, ::-1], x)
        out = np.empty((len(rows), *self.side_hw, 3), dtype=np.uint8)
        for place, row in enumerate(rows):
            out[place] = self._table[row][y[place][:, None], x[place][None, :]]
        return out


def _on(table: NDArray[np.uint8], device: str) -> Tensor:
    """The table in the device's memory; a part at a time, so that the host needs no second copy."""
    found = torch.empty(table.shape, dtype=torch.uint8, device=device)
    for start in range(0, len(table), 4096):
        found[start : start + 4096] = torch.from_numpy(np.array(table[start : start + 4096])).to(device)
    return found


def _window(length: int, shift: Any, library: Any) -> Any:
    """Places (N, length) of a window moved by `shift`; over an edge they run back."""
    if library is torch:
        place = torch.arange(length, device=shift.device)[None] + shift[:, None]
        return length - 1 - (length - 1 - place.abs()).abs()
    place = np.arange(length)[None] + shift[:, None]
    return length - 1 - np.abs(length - 1 - np.abs(place))
