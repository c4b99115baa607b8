"""Decode the videos of a build on the actors of a Ray cluster. Actors send frames; only the driver writes."""

import platform
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from strobe.annexes.ray.pool import RayPool
from strobe.build.extract import ExtractJob, ExtractOutcome, done_before, land, run_job
from strobe.core.errors import StrobeError, printable
from strobe.core.late import require

_PIECE = 2**26
"""Bytes of media per message, small enough to send a long video through a small object store."""


@dataclass(frozen=True, slots=True)
class _Extracted:
    """The result of a job on an actor: the outcome, and the references to its media in the object store."""

    job: ExtractJob
    outcome: ExtractOutcome
    pieces: list[Any]

    def fetched(self, get: Callable[[Any], Any]) -> ExtractOutcome:
        """Fetch the media in the driver and write every file to its place."""
        if self.outcome.fragment is not None and not self.outcome.reused:
            land(self.job, self.outcome.fragment, self._files(get))
        return self.outcome

    def _files(self, get: Callable[[Any], Any]) -> Iterator[tuple[str, bytes]]:
        for piece in self.pieces:
            table = get(piece)
            yield from zip(table.column("name").to_pylist(), table.column("content").to_pylist(), strict=True)


class _Extracting:
    """Runs a job in a temporary folder and sends the result."""

    def __call__(self, job: ExtractJob) -> _Extracted:
        """Return the result of one video."""
        if not job.path.is_file():
            raise StrobeError(
                f"{printable(platform.node())} cannot access the video {printable(job.path)}, which every machine "
                "needs under this path; mount it there, or run without this machine"
            )
        ray = require("ray", what="<<engine=ray>>", extra="ray")
        with tempfile.TemporaryDirectory(prefix="strobe-build-") as folder:
            aside = replace(job, aside=Path(folder))
            outcome = run_job(aside)
            final = aside.media[1]
            pieces = [ray.put(piece) for piece in _pieces(final)] if final.is_dir() else []
            return _Extracted(job, outcome, pieces)


def _pieces(folder: Path) -> Iterator[pa.Table]:
    """Yield the files of a folder with their names, in small groups."""
    names: list[str] = []
    contents: list[bytes] = []
    for path in sorted(folder.iterdir()):
        names.append(path.name)
        contents.append(path.read_bytes())
        if sum(map(len, contents)) >= _PIECE:
            yield pa.table({"name": names, "content": pa.array(contents, pa.large_binary())})
            names, contents = [], []
    if names:
        yield pa.table({"name": names, "content": pa.array(contents, pa.large_binary())})


def extract_away(jobs: Sequence[ExtractJob], pool: RayPool) -> Iterator[ExtractOutcome]:
    """Yield the outcome of every job. If workers die repeatedly on a job, its outcome is an error."""

    def given_up(job: ExtractJob, why: str) -> ExtractOutcome:
        return ExtractOutcome(
            name=job.name, problem=f"{printable(job.path.name)}: the decoder crashed on this video ({why})"
        )

    sent = [
        replace(job, path=job.path.absolute(), threads=pool.cores, done=done_before(job))
        for job in jobs
        if job.path.is_file()
    ]
    yield from (
        run_job(job) for job in jobs if not job.path.is_file()
    )  # missing files are reported as in a local build
    yield from pool.map(_Extracting(), sent, given_up=given_up)
