"""Open a dataset folder once: read and check it, then pass it from step to step of a command."""

from dataclasses import dataclass
from pathlib import Path

from strobe.core.dataset import Dataset
from strobe.core.derivation import reviewed
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import reading
from strobe.datasets import folder
from strobe.runs.folder import Run, Subset

__all__ = ["ALL", "Opened", "kept"]

ALL = Path("all")
"""Pass this value instead of a subset file to select every video, even if the run was scored on a subset."""


def kept(dataset: Dataset) -> Dataset:
    """Return the sets that review kept, or all of them if nobody voted."""
    return reviewed(dataset) if dataset.info.reviewed == "votes" and dataset.verdicts else dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A dataset folder in memory: every candidate, and the part of it that is scored.

    `subset` is the requested part of the videos, or the part that the run was scored on. None means all videos.
    """

    path: Path
    candidates: Dataset
    dataset: Dataset
    subset: Subset | None = None

    @classmethod
    def of(
        cls, path: Path, *, subset: Path | None = None, reviewed_only: bool = True, run: Run | None = None
    ) -> "Opened":
        """Open a folder. The scored sets are those of the videos in the subset file.

        If there are votes, only sets that review kept are scored. Without a file, the subset of `run` is used. `ALL`
        instead of a file selects every video.
        """
        candidates = dataset = folder.read(path)
        if subset is not None:
            part = _read_subset(subset, candidates)
        else:
            part = _remembered(run, candidates) if run is not None and run.exists else None
        if reviewed_only:
            dataset = kept(dataset)
        if part is not None:
            dataset = dataset.only_videos(part.videos)
        return cls(path=path, candidates=candidates, dataset=dataset, subset=part)

    @classmethod
    def of_run(cls, run: Run, *, moved_to: Path | None = None, subset: Path | None = None) -> "Opened":
        """Open the dataset of a run, at the path in run.json or at its new path.

        Check that it has the run's frames. Without a `subset`, the part that the run was scored on is used.
        """
        path = moved_to or run.dataset_path
        if moved_to is None and not folder.is_dataset(path):
            raise StrobeError(
                f"the dataset of {printable(run.path)} is no longer at {printable(path)}; pass its new path with "
                "--dataset"
            )
        opened = cls.of(path, subset=subset, run=run)
        if not run.is_on(opened.candidates):
            raise StrobeError(
                f"{printable(run.path)} has predictions for other frames than those in {printable(path)}; pass the "
                f"right "
                "dataset with --dataset, or predict again into another folder"
            )
        return opened


def _remembered(run: Run, candidates: Dataset) -> Subset | None:
    """Return the subset that the run was scored on, checked against the dataset."""
    if not run.is_on(candidates):  # another check raises an error for this case
        return None
    subset = run.subset()
    gone = set() if subset is None else set(subset.videos) - set(candidates.videos.video_id)
    if subset is not None and gone:
        are = "is" if len(gone) == 1 else "are"
        raise StrobeError(
            f"{printable(run.path)}: {len(gone)} of the {len(subset.videos)} videos of the subset "
            f"{printable(subset.name)} {are} not in {printable(candidates.name)}; use --subset FILE, or --subset all "
            "for every set"
        )
    return subset


def _read_subset(path: Path, candidates: Dataset) -> Subset | None:
    """Return the videos that a text file names, or None for `ALL`."""
    if path == ALL:
        return None
    with reading(path, hint="pass a text file with one video name per line"):
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not names:
        raise InvalidFile(path, "it has no video names", hint="write one name per line")
    return Subset(name=path.name, videos=tuple(candidates.ids_of_videos(names)))
