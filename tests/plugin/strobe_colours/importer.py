"""An import format: images with a table `file,label`."""

import csv
from pathlib import Path

from strobe.core.errors import InvalidFile
from strobe.core.labels import LabelSpace
from strobe.formats.import_photos import Still, import_photos
from strobe.formats.registry import FormatOption, ImportFormat
from strobe.formats.sampled import ImportedDataset
from strobe.store.bring_media import ImportOptions


def read(source: Path, target: Path, *, table: str, how: ImportOptions) -> ImportedDataset:
    """Make a set of each image. strobe writes the tables into the folder `target`."""
    with (source / table).open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.reader(file) if row]
    if not rows or any(len(row) != 2 for row in rows):
        raise InvalidFile(source / table, "expected rows of file,label")
    classes = LabelSpace.of_names("colours", sorted({label for _, label in rows}))
    stills = [Still(key=file, labels=(classes.index(label),)) for file, label in rows]
    return import_photos(stills, source, target, label_space=classes, how=how, format="colour-table")


FORMAT = ImportFormat(
    read=read,
    what="Images with a table of labels.",
    about="SRC/<file> and SRC/colours.csv, a table of file,label without a header.",
    example="colours/ data/colours --table colours.csv",
    options=(FormatOption(name="table", default="colours.csv", help="The table below SRC."),),
    outside="images",
)
