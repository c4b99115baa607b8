"""The frames of a dataset by their ids in stored answers, and the record of a run's frames (`frames/`)."""

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from strobe.core.arrays import blocks
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.files import matching
from strobe.core.parquet import arrow_of
from strobe.core.records import frame_id
from strobe.core.tables import recipe_of
from strobe.store.answer_tables import Rows, digest_in_name, read_columns, write_named

FRAMES = "frames"
_PIXEL_DIGITS = 16
"""The number of stored digits of a frame's SHA-256, which is enough to detect a replaced frame."""


class FrameNames:
    """A dataset's frames, by their ids in stored answers.

    The record also has the ids of the frames that have not changed since earlier states of the dataset.
    """

    def __init__(self, dataset: Dataset, run: Path | None = None) -> None:
        self._dataset = dataset
        self._file = None if dataset.root is None else dataset.root / "dataset.json"
        self._was_stored = self._file is not None and self._file.is_file()
        self.digest = dataset.frames_digest()
        self.earlier = {} if run is None else self._earlier(run)

    def __len__(self) -> int:
        return len(self._dataset.frames)

    @cached_property
    def _row(self) -> Mapping[str, int]:
        return {name: row for row, name in enumerate(self._dataset.frame_ids())}

    def ids(self, rows: Rows | range) -> list[str]:
        """Return the ids of these frames."""
        dataset, chosen = self._dataset, np.asarray(rows)
        videos, index = dataset.videos.video_id[dataset.frames.video[chosen]], dataset.frames.index[chosen]
        return list(map(frame_id, videos.tolist(), index.tolist()))

    def key(self, row: int) -> str:
        """Return the frame's name in its source, for messages."""
        return str(self._dataset.frames.key[row])

    def check_dataset(self) -> None:
        """Raise StrobeError if the dataset's folder is gone, so that its frames are not stored as unreadable."""
        if self._was_stored and self._file is not None and not self._file.is_file():
            raise StrobeError(
                f"the dataset {printable(self._file.parent)} was removed or moved while it was in use; put it back, "
                "and run the command again"
            )

    def _earlier(self, run: Path) -> Mapping[str, frozenset[str]]:
        """The ids whose pixels are unchanged, for every earlier state of the dataset in this run."""
        unchanged: dict[str, frozenset[str]] = {}
        held = {path.name.partition(".")[0]: path for path in matching(run, f"{FRAMES}/*.parquet")}
        others = {digest: path for digest, path in held.items() if digest != self.digest}
        now = set(zip(self._dataset.frame_ids(), pixels_of(self._dataset), strict=True)) if others else set()
        for digest, path in others.items():
            table = read_columns(path, ["frame_id", "pixels"], hint="remove it", sha256=digest_in_name(path))
            rows = zip(table.column("frame_id").to_pylist(), table.column("pixels").to_pylist(), strict=True)
            unchanged[digest] = frozenset(name for name, pixel in now.intersection(rows))
        return unchanged

    def places(self, table: pa.Table, digest: str, *, near: int = 0) -> Rows:
        """Return the row of each answer in a table for the frames of `digest`.

        It is −1 if the frame was removed or replaced.

        `near` is a guess at the row of the first answer. Answers are mostly in frame order, in which case no lookup is
        needed.
        """
        ids = table.column("frame_id")
        if digest == self.digest and near + len(ids) <= len(self):
            rows = range(near, near + len(ids))
            if len(ids) and pa.chunked_array([arrow_of(pa, self.ids(rows))]).equals(ids):
                return np.arange(near, near + len(ids), dtype=np.int64)
        same = self._row if digest == self.digest else self.earlier.get(digest, frozenset())
        return np.array([self._row.get(name, -1) if name in same else -1 for name in ids.to_pylist()], dtype=np.int64)


def pixels_of(dataset: Dataset, rows: slice = slice(None)) -> list[str]:
    """Return a text per frame that identifies the pixels that a model gets: the file's digest, and how it is read."""
    columns = (getattr(dataset.frames, name)[rows].tolist() for name in ("sha256", "as_input", "recipe"))
    marks = zip(*columns, strict=True)
    return [
        sha[:_PIXEL_DIGITS]
        + (f" {int(as_input)} {json.dumps(recipe_of(recipe), sort_keys=True)}" if as_input or recipe else "")
        for sha, as_input, recipe in marks
    ]


def keep_frames(folder: Path, dataset: Dataset, *, run: Path) -> None:
    """Store the dataset's current frames in `folder`, unless the run already has them."""
    digest = dataset.frames_digest()
    if not matching(run, f"{FRAMES}/{digest}.*"):
        parts = [
            (arrow_of(pa, dataset.frame_ids(rows)), arrow_of(pa, pixels_of(dataset, rows)))
            for rows in blocks(len(dataset.frames))
        ]
        columns = {
            name: pa.chunked_array(part, pa.string())
            for name, part in zip(("frame_id", "pixels"), zip(*parts, strict=True), strict=True)
        }
        write_named(folder / FRAMES / f"{digest}.parquet", columns, {"schema": "1"})
