"""The four interfaces to stored data: media, tables, shards of answers, and the commit of a run.

Only the local disk implements them. Any other kind of store needs to implement only these four. All other work uses
local files, for example a cache of the tables.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import Answers
from strobe.core.dataset import Dataset
from strobe.core.locks import Lock
from strobe.core.ports import AnswerStore, FrameSource
from strobe.core.remote import Usage


class Media(FrameSource, Protocol):
    """The stored images of a dataset. They never change, and are checked against the digests in the tables."""

    def read_stored(self, row: int) -> bytes:
        """Return the stored file's bytes, in any format."""


class Tables(Protocol):
    """The tables of a dataset by name. They are small, and a copy is identified by its SHA-256."""

    def has(self, name: str) -> bool:
        """Return whether the dataset has this table."""

    def path(self, name: str) -> Path:
        """Return a local file with this table, or where it would be."""

    def sha256(self, name: str) -> str:
        """Return the digest of the table's file."""


class Shards(AnswerStore, Protocol):
    """A model's answers in a run: shards that are written once under a name and never change."""

    def read(self, *, kind: str = "logits") -> Answers:
        """Return all stored answers, aligned with the frames of the dataset. `kind` is the type of the scores."""

    def append(self, rows: NDArray[np.int64], answers: Answers | None, used: Usage, *, device: str = "") -> None:
        """Store answers as they come, with what their requests used. They survive a kill."""

    def fold(self) -> None:
        """Write the answers that were stored as they came as a shard."""

    def spent(self) -> Usage:
        """Return what the requests for the stored answers used."""


class Commit(Protocol):
    """The commit of a run: results become visible in one step, and only one process writes at a time."""

    @property
    def exists(self) -> bool:
        """Whether something was committed before."""

    def about(self) -> dict[str, Any]:
        """Return the facts of the last commit."""

    def predicting(self) -> AbstractContextManager[Lock]:
        """Lock the run for writing shards. If a new run gets none, it is removed."""

    def stage(self) -> AbstractContextManager[Path]:
        """Yield a folder for files. On success, all of them are committed together."""

    def record(
        self,
        dataset: Dataset,
        *,
        path: Path,
        changes: Mapping[str, Any],
        stage: Path | None = None,
        asked: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Commit these facts, or add them to the staged files."""
