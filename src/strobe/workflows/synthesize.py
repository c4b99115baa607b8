"""`strobe synthesize`: a dataset folder from the synthetic world."""

from dataclasses import dataclass, replace
from pathlib import Path

from strobe.core.dataset import Dataset
from strobe.core.ports import Progress
from strobe.datasets import folder
from strobe.datasets.making import made_before
from strobe.synthetic.sets import SyntheticOptions, synthetic_dataset

__all__ = ["Synthesized", "synthesize"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthesized:
    """The dataset, and whether it was there already."""

    dataset: Dataset
    was_there: bool


def synthesize(destination: Path, options: SyntheticOptions, *, progress: Progress | None = None) -> Synthesized:
    """Render the clips and write the dataset folder; a finished one made with the same options is left as it is."""
    old = made_before(destination, lambda old: old.info.provenance == options.provenance() and _whole(old))
    if old is not None:
        return Synthesized(dataset=old, was_there=True)
    folder.refuse_other_content(destination, leftovers=("media", "masks", "truth.csv"))
    dataset = synthetic_dataset(options, folder=destination, progress=progress).dataset
    folder.write(dataset, destination)
    return Synthesized(dataset=replace(dataset, root=destination), was_there=False)


def _whole(dataset: Dataset) -> bool:
    root = dataset.root or Path()
    return all((root / str(media)).is_file() for media in dataset.frames.media)
