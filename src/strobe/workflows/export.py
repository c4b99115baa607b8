"""`strobe export`: a dataset folder in, another format out."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, UnknownName, printable
from strobe.core.late import load
from strobe.core.ports import Progress, Silent
from strobe.datasets.bring_media import MediaMode
from strobe.workflows.opening import Opened

__all__ = ["FORMATS", "Exported", "export"]

FORMATS = {
    "imagenet-vid-robust": ("strobe.datasets.export_vid_robust:export_vid_robust", "metadata/pmsets.json"),
    "coco": ("strobe.datasets.export_coco:export_coco", "annotations.json"),
    "csv": ("strobe.datasets.export_csv:export_csv", "sets.csv"),
}
"""Every format: its exporter, and the file that says an export is complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was written: the files (images not among them) and the dataset they hold."""

    dataset: Dataset
    files: tuple[Path, ...]


def export(
    folder: Path,
    form: str,
    target: Path,
    *,
    media: MediaMode = "none",
    candidates: bool = False,
    progress: Progress | None = None,
) -> Exported:
    """Write the dataset in another format. Where people have voted, what they kept; `candidates` asks for everything.

    An interrupted export of images goes on when it is started again.
    """
    if form not in FORMATS:
        raise UnknownName("export format", form, FORMATS, hint=f"known: {', '.join(FORMATS)}")
    reference, last = FORMATS[form]
    if (target / last).exists():
        raise StrobeError(f"{printable(target / last)} is already there; choose another folder or remove it first")
    if target.exists() and not target.is_dir():
        raise StrobeError(f"{printable(target)} is a file; the last argument is the folder to write to")
    dataset = Opened.of(folder, reviewed_only=not candidates).dataset
    write: Callable[..., list[Path]] = load(reference)
    files = write(dataset, target, media=media, progress=progress or Silent())
    return Exported(dataset=dataset, files=tuple(files))
