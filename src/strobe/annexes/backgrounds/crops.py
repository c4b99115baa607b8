"""Import crops paired with their originals, with the share of each image that its box covers."""

from collections.abc import Iterator
from pathlib import Path

from strobe.annexes.backgrounds.imagenet_a import import_crops
from strobe.annexes.backgrounds.ladder_table import write_ladder
from strobe.annexes.backgrounds.ladders import LadderPicture
from strobe.core.dataset import Dataset
from strobe.formats.importing import into, outside
from strobe.formats.registry import FormatOption, ImportFormat
from strobe.formats.sampled import ImportedDataset
from strobe.store import dataset_folder as folder
from strobe.store.bring_media import ImportOptions


def read_into(
    source: Path, target: Path, *, originals: Path, label_space: str | None, how: ImportOptions
) -> ImportedDataset:
    """Import crops paired with their originals: a folder of images, or the dataset folder of the originals."""
    outside(originals, target, "originals")
    wholes = originals / "media" if folder.is_dataset(originals) else originals
    done = into(target, how, lambda how: import_crops(source, wholes, target, label_space=label_space, how=how))
    if done.dataset.boxes is not None and how.media != "none":
        write_ladder(
            target, list(_areas(done.dataset))
        )  # equal content gives equal bytes, so writing it again changes nothing
    return done


def _areas(dataset: Dataset) -> Iterator[LadderPicture]:
    """Return the share of each image that its box covers, as background ladders store it."""
    frames, ids = dataset.frames, dataset.frame_ids()
    boxes = dataset.boxes
    for row, sides in () if boxes is None else zip(boxes.frame.tolist(), boxes.xyxy.tolist(), strict=True):
        width, height = int(frames.width[row]), int(frames.height[row])
        x0, y0, x1, y1 = sides
        yield LadderPicture(
            picture=str(frames.key[row]),
            frame_id=ids[row],
            size_wh=(width, height),
            xyxy=(x0, y0, x1, y1),
            area_share=min(1.0, (x1 - x0) * (y1 - y0) / (width * height)),
            boxes="true",
        )


FORMAT = ImportFormat(
    read=read_into,
    about="""SRC/<class>/<file name of the original>: one crop per image, as in ImageNet-A-Plus or review export
    --crops.

    Each image gives one set: the original is the anchor, the crop the member, and models resize both without cropping.
    The variant "usual" is the original with each model's own preprocessing. manifest.json adds the boxes.
    """,
    example="imagenet-a-plus/ data/plus --originals imagenet-a/",
    options=(
        FormatOption(
            name="originals",
            kind=Path,
            required=True,
            help="Folder <class>/<file> of the originals, or their dataset.",
        ),
        FormatOption(
            name="label_space",
            help="A shipped label space that models choose from. Default: imagenet-a, or the folder names.",
        ),
    ),
    outside="crops",
    whole=True,
)
