"""`strobe synthesize`: render a dataset folder of the synthetic world."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from strobe.build.pool import worker_pool
from strobe.core.dataset import Dataset
from strobe.core.locks import writes
from strobe.core.ports import Progress
from strobe.store import dataset_folder as folder
from strobe.store.making import made_before
from strobe.synthetic.sets import SyntheticOptions, SyntheticSets, stored_clip, synthetic_dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class Synthesized:
    """The dataset, and whether the folder already had it."""

    dataset: Dataset
    was_there: bool


@writes("destination")
def synthesize(
    destination: Path, options: SyntheticOptions, *, progress: Progress | None = None, workers: int = 1
) -> Synthesized:
    """Render the clips and write the dataset folder. A finished folder with the same options stays unchanged."""
    old = made_before(destination, lambda old: old.info.provenance == options.provenance() and _whole(old))
    if old is not None:
        return Synthesized(dataset=old, was_there=True)
    folder.refuse_other_content(destination, leftovers=("media", "masks", "truth.csv"))
    dataset = rendered(options, folder=destination, progress=progress, workers=workers).dataset
    folder.write(dataset, destination)
    return Synthesized(dataset=replace(dataset, root=destination), was_there=False)


def rendered(
    options: SyntheticOptions, *, folder: Path | None = None, progress: Progress | None = None, workers: int = 1
) -> SyntheticSets:
    """Return the dataset of `synthetic_dataset`. Several processes render its clips to the same bytes."""
    if workers == 1:
        return synthetic_dataset(options, folder=folder, progress=progress)
    with worker_pool(workers) as pool:
        clips = pool.map(partial(stored_clip, options, folder), range(options.videos), chunksize=4)
        return synthetic_dataset(options, folder=folder, progress=progress, clips=clips)


def _whole(dataset: Dataset) -> bool:
    root = dataset.root or Path()
    return all((root / str(media)).is_file() for media in dataset.frames.media)
