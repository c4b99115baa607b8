"""`strobe import` for background studies: ImageNet-A and crops of it, ImageNet-9, ObjectNet."""

from collections.abc import Iterator
from pathlib import Path

from strobe.core.dataset import Dataset
from strobe.core.ladders import LadderPicture
from strobe.datasets import folder
from strobe.datasets.bring_media import ImportOptions
from strobe.datasets.import_imagenet_9 import import_imagenet_9
from strobe.datasets.import_imagenet_a import import_crops, import_imagenet_a
from strobe.datasets.import_objectnet import import_objectnet
from strobe.datasets.ladder_table import write_ladder
from strobe.datasets.sampled import ImportedDataset
from strobe.workflows.importing import AS_USUAL, into, outside

__all__ = ["from_crops", "from_imagenet_9", "from_imagenet_a", "from_objectnet"]


def from_imagenet_a(
    source: Path, target: Path, *, label_space: str | None = None, how: ImportOptions = AS_USUAL
) -> ImportedDataset:
    """Import ImageNet-A as released: folders named by WordNet id, a choice among its 200 classes."""
    outside(source, target, "images")
    return into(target, how, lambda how: import_imagenet_a(source, target, label_space=label_space, how=how))


def from_crops(
    source: Path, target: Path, *, originals: Path, label_space: str | None = None, how: ImportOptions = AS_USUAL
) -> ImportedDataset:
    """Import crops paired with their originals: a folder of images, or the dataset folder of the originals."""
    outside(source, target, "crops")
    outside(originals, target, "originals")
    wholes = originals / "media" if folder.is_dataset(originals) else originals
    done = into(target, how, lambda how: import_crops(source, wholes, target, label_space=label_space, how=how))
    if done.dataset.boxes is not None and how.media != "none":
        write_ladder(
            target, list(_areas(done.dataset))
        )  # equal content gives equal bytes, so that writing again is harmless
    return done


def _areas(dataset: Dataset) -> Iterator[LadderPicture]:
    """Return the share of each image that its box covers, as background ladders store it."""
    frames, ids = dataset.frames, dataset.frame_ids()
    boxes = dataset.boxes
    for row, sides in () if boxes is None else zip(boxes.frame.tolist(), boxes.xyxy.tolist(), strict=True):
        width, height = int(frames.width[row]), int(frames.height[row])
        x0, y0, x1, y1 = sides
        yield LadderPicture(
            picture=str(frames.key[row]), frame_id=ids[row], size_wh=(width, height), xyxy=(x0, y0, x1, y1),
            area_share=min(1.0, (x1 - x0) * (y1 - y0) / (width * height)), boxes="true",
        )  # fmt: skip


def from_imagenet_9(source: Path, target: Path, *, how: ImportOptions = AS_USUAL) -> ImportedDataset:
    """Import ImageNet-9 with every variation in the folder."""
    outside(source, target, "images")
    return into(target, how, lambda how: import_imagenet_9(source, target, how=how))


def from_objectnet(
    source: Path, target: Path, *, classes: Path | None = None, border: int = 2, how: ImportOptions = AS_USUAL
) -> ImportedDataset:
    """Import the ObjectNet images whose class a model of ILSVRC-2012 has, without their border."""
    outside(source, target, "images")
    return into(target, how, lambda how: import_objectnet(source, target, classes=classes, border=border, how=how))
