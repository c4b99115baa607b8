"""Find frames and sets of a dataset by name, on demand. Nothing is precomputed for every frame."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, printable
from strobe.core.records import frame_id


class TableLookup:
    """Finds the rows of frames, sets, labels and members by name, by searching the columns of the tables."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def frame(self, name: str) -> int:
        """Return the row of a frame."""
        row = self.find(name)
        if row is None:
            raise InvalidValue(f"{self._dataset.name} has no frame {printable(name)}")
        return row

    def find(self, name: str) -> int | None:
        """Return the row of a frame, or None if the dataset has no such frame."""
        video, _, index = name.rpartition(":")
        row = self._videos.get(video)
        if row is None or not index.isdecimal():
            return None
        wanted = row * self._span + int(index)
        found = self._frames.of(wanted)
        # Only the exact spelling that strobe writes is accepted: "a:07" is not a frame.
        return found[0] if found and self.frame_id(found[0]) == name else None

    def frame_id(self, row: int) -> str:
        """Return the name of a frame."""
        frames = self._dataset.frames
        return frame_id(str(self._dataset.videos.video_id[frames.video[row]]), int(frames.index[row]))

    def anchor(self, set_id: str) -> int:
        """Return the frame row of a set's anchor."""
        return int(self._anchors[self._sets[set_id]])

    def member(self, set_id: str, frame: str) -> int | None:
        """Return the row in `sets` of a set's candidate, or None for the anchor and for frames outside the set."""
        number, row = self._sets.get(set_id), self.find(frame)
        if number is None or row is None:
            return None
        sets = self._dataset.sets
        begin, end = np.searchsorted(sets.set, np.array([number, number + 1], dtype=sets.set.dtype)).tolist()
        rows = np.flatnonzero((sets.frame[begin:end] == row) & ~sets.is_anchor[begin:end])
        return begin + int(rows[0]) if len(rows) else None

    def labels(self, row: int) -> frozenset[int]:
        """Return the labels of a frame."""
        label = self._dataset.labels.label
        return frozenset(int(label[place]) for place in self._labels.of(row))

    def sets_of(self, row: int) -> list[str]:
        """Return the sets of a frame, in the order of the table."""
        sets = self._dataset.sets
        return [str(sets.set_id[sets.set[place]]) for place in self._of_frame.of(row)]

    @cached_property
    def _videos(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self._dataset.videos.video_id.tolist())}

    @cached_property
    def _sets(self) -> dict[str, int]:
        return {str(name): number for number, name in enumerate(self._dataset.sets.set_id.tolist())}

    @cached_property
    def _anchors(self) -> Ints:
        return self._dataset.sets.anchor_frame

    @cached_property
    def _span(self) -> int:
        return int(self._dataset.frames.index.max(initial=0)) + 1

    @cached_property
    def _frames(self) -> "_Sorted":
        frames = self._dataset.frames
        return _Sorted(frames.video.astype(np.int64) * self._span + frames.index)

    @cached_property
    def _labels(self) -> "_Sorted":
        return _Sorted(self._dataset.labels.frame)

    @cached_property
    def _of_frame(self) -> "_Sorted":
        return _Sorted(self._dataset.sets.frame)


class _Sorted:
    """A column to search by value. It is sorted once, and only if it is not sorted already."""

    def __init__(self, column: NDArray[np.int64] | Ints) -> None:
        self._column = column
        self._order = None if bool((column[1:] >= column[:-1]).all()) else np.argsort(column, kind="stable")

    def of(self, value: int) -> list[int]:
        """Return the positions of a value, ascending."""
        wanted = self._column.dtype.type(value)  # a search value of another type would convert the column
        begin, end = (int(np.searchsorted(self._column, wanted, side=s, sorter=self._order)) for s in ("left", "right"))
        return list(range(begin, end)) if self._order is None else sorted(self._order[begin:end].tolist())
