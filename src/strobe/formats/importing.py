"""The steps that all imports share: check the target, write the tables, report notes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from shutil import rmtree

from strobe.core.errors import InvalidValue, StrobeError, printable
from strobe.core.locks import writes
from strobe.core.ports import Progress
from strobe.formats.sampled import ImportedDataset
from strobe.store import dataset_folder as folder
from strobe.store.bring_media import ImportOptions
from strobe.store.making import classes_alike
from strobe.store.opening import frame_source

AS_USUAL = ImportOptions()
"""The default options of an import: copy images, compute no hints and report no progress."""


@writes("target")
def into(target: Path, how: ImportOptions, make: Callable[[ImportOptions], ImportedDataset]) -> ImportedDataset:
    """Make the dataset and write its tables. Media of an interrupted import are reused.

    If the same dataset already exists, nothing is written. If the folder has another dataset, an error is raised.
    """
    if folder.is_dataset(target):
        return _there_already(target, how, make)
    if target.is_dir() and any(path.name != "media" and not path.name.startswith(".") for path in target.iterdir()):
        raise StrobeError(f"{printable(target)} is not empty and is not a dataset folder; choose another folder")
    media = target / "media"
    fresh = not media.exists()
    try:
        done = make(how)
    except InvalidValue:  # the boxes do not match the images, so remove everything that was written
        if fresh:
            rmtree(media, ignore_errors=True)
        raise
    if how.hints:
        done = with_hints(done, target, how.progress)
    folder.write(done.dataset, target)
    classes = done.dataset.info.label_space
    alike = (
        classes_alike(classes) if classes.ids == classes.names else None
    )  # the classes of a shipped label space are well defined
    return replace(done, notes=(*done.notes, alike)) if alike else done


def _there_already(
    target: Path, how: ImportOptions, make: Callable[[ImportOptions], ImportedDataset]
) -> ImportedDataset:
    """Return the dataset in the folder if it equals the result of this import, apart from later votes."""
    try:
        old = folder.read(target)
        done = make(replace(how, look_only=True))
        done = with_hints(done, target, how.progress) if how.hints else done
    except StrobeError as error:
        reason = f"{printable(target)} already contains a dataset, and this import cannot be compared with it ({error})"
        raise StrobeError(f"{reason}; choose another folder or remove it first") from error
    new = done.dataset
    same = replace(old, verdicts=new.verdicts, info=replace(old.info, reviewed=new.info.reviewed))
    if same.digest() != new.digest():
        raise StrobeError(
            f"{printable(target)} already contains a dataset made with other settings; choose another folder or "
            "remove it first"
        )
    return ImportedDataset(dataset=old, notes=("it already exists; nothing was changed", *done.notes))


def with_hints(done: ImportedDataset, target: Path, say: Progress) -> ImportedDataset:
    """Return the dataset with the hints of its images."""
    from strobe.build.hinting import hints_of

    hints, n_unread = hints_of(done.dataset, frame_source(replace(done.dataset, root=target)), progress=say)
    unread = (f"{n_unread} image(s) could not be read; these images have no hints",) if n_unread else ()
    return ImportedDataset(dataset=replace(done.dataset, hints=hints), notes=(*done.notes, *unread))


def outside(source: Path, target: Path, what: str) -> None:
    """Raise an error if the target is inside the imported folder."""
    if target.resolve().is_relative_to(source.resolve()):
        raise StrobeError(f"{printable(target)} is inside {printable(source)}; choose a folder outside the {what}")
