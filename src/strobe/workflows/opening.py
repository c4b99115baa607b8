"""A dataset folder opened once: read, checked, and handed from verb to verb."""

from dataclasses import dataclass
from pathlib import Path

from strobe.core.dataset import Dataset
from strobe.core.derivation import reviewed
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import reading
from strobe.datasets import folder
from strobe.runs.folder import Run

__all__ = ["Opened", "kept"]


def kept(dataset: Dataset) -> Dataset:
    """What review kept, where people have voted; else all of it."""
    return reviewed(dataset) if dataset.info.reviewed == "votes" and dataset.verdicts else dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A dataset folder as it was read: every candidate, and the part of it that is scored."""

    path: Path
    candidates: Dataset
    dataset: Dataset

    @classmethod
    def of(cls, path: Path, *, subset: Path | None = None, reviewed_only: bool = True) -> "Opened":
        """Scored is what review kept where there are votes, and only the videos a subset file names."""
        candidates = dataset = folder.read(path)
        part = None if subset is None else _read_subset(subset)
        if reviewed_only:
            dataset = kept(dataset)
        if part is not None:
            dataset = dataset.only_videos(part)
        return cls(path=path, candidates=candidates, dataset=dataset)

    @classmethod
    def of_run(cls, run: Run, *, moved_to: Path | None = None, subset: Path | None = None) -> "Opened":
        """The dataset of a run, where run.json says it lies or where it was moved to; checked to be the run's."""
        path = moved_to or Path(run.about()["dataset"]["path"])
        if moved_to is None and not folder.is_dataset(path):
            raise StrobeError(
                f"the dataset of {printable(run.path)} is no longer at {printable(path)}; say where it lies now with "
                "--dataset"
            )
        opened = cls.of(path, subset=subset)
        if not run.is_on(opened.candidates):
            raise StrobeError(
                f"{printable(run.path)} was predicted on other frames than {printable(path)} holds; name the right "
                "dataset with --dataset, or predict again into another folder"
            )
        return opened


def _read_subset(path: Path) -> list[str]:
    with reading(path, hint="give a text file with one video name a line"):
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    names = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not names:
        raise InvalidFile(path, "no video names in it", hint="one name a line")
    return names
