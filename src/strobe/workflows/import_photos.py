"""Import labelled photos: class folders, a CSV, or ILSVRC's validation images."""

from dataclasses import dataclass, replace
from pathlib import Path

from strobe.core.errors import StrobeError, printable
from strobe.datasets.bring_media import ImportOptions
from strobe.datasets.format import LABEL_SPACE, FormatOption, ImportFormat
from strobe.datasets.import_photos import Still, ilsvrc_classes, import_photos, of_wordnet
from strobe.datasets.making import advice_on_classes
from strobe.datasets.sampled import ImportedDataset

__all__ = ["FORMAT", "PhotoFiles", "read_photos"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhotoFiles:
    """Files that annotate the photos: a CSV of labels (or the classes of every photo), and boxes.

    By default, the class folders give the labels.
    """

    labels: Path | None = None
    label: tuple[str, ...] = ()
    boxes: Path | None = None
    label_space: str | None = None


def read_photos(source: Path, target: Path, *, files: PhotoFiles, how: ImportOptions) -> ImportedDataset:
    """Read labelled photos: class folders (names or WordNet ids), a CSV, or ILSVRC's validation images."""
    from strobe.build.camera_photos import find_photos, fitted_photos, photo_files

    if not source.is_dir():
        raise StrobeError(f"no such folder: {printable(source)}; pass the folder of the photos")
    listed = None
    if files.labels is None and files.boxes is None and not files.label:
        listed = ilsvrc_classes(source, list(photo_files([source])))
    photos, found = find_photos(
        [source], labels=files.labels or listed, label=files.label, boxes=files.boxes, label_space=files.label_space
    )
    fitted: tuple[str, ...] = ()
    if files.boxes is not None:
        photos, fitted = fitted_photos(photos, files.boxes)
    chosen = found if files.label_space else of_wordnet(found.ids) or replace(found, name=target.resolve().name)
    stills = [
        Still(
            key=photo.name,
            labels=tuple(chosen.index(found.ids[label]) for label in photo.labels),
            boxes=tuple(replace(box, label=chosen.index(found.ids[box.label])) for box in photo.boxes),
        )
        for photo in photos
    ]
    advice = advice_on_classes(chosen) if files.label_space is None and files.boxes is None else None
    done = import_photos(
        stills, source, target, label_space=chosen, how=how, with_boxes=files.boxes is not None
    )  # fmt: skip
    return replace(done, notes=(*done.notes, *fitted, *((advice,) if advice else ())))


FORMAT = ImportFormat(
    read=read_photos,
    about="""Photos, one set each (k = 0): SRC/<class>/<file> by name or WordNet id, or a flat folder with --labels.

    ILSVRC's validation images are recognised by their names. Their labels are read below SRC from
    LOC_val_solution.csv, a list of WordNet ids (…synset_labels.txt), or the devkit's ground truth and meta.mat.
    """,
    example="ILSVRC2012_val/ data/val --media link",
    options=(
        FormatOption(
            name="labels", kind=Path, help="CSV file,label. Use several rows for a photo with several right answers."
        ),
        FormatOption(name="label", several=True, help="A class that every photo shows. May be repeated."),
        FormatOption(name="boxes", kind=Path, help="CSV file,label,x0,y0,x1,y1 or COCO JSON, to score detectors, too."),
        LABEL_SPACE,
    ),
    record=PhotoFiles,
    outside="photos",
)
