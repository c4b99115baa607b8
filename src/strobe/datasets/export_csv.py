"""Every table of a dataset as CSV, for spreadsheets and other languages. Unknown is an empty cell."""

import csv
import io
from pathlib import Path

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.files import write_text
from strobe.core.ports import Progress
from strobe.datasets.bring_media import MediaMode
from strobe.datasets.export_media import export_media
from strobe.datasets.folder import columns_of

__all__ = ["export_csv"]


def export_csv(dataset: Dataset, target: Path, *, media: MediaMode, progress: Progress) -> list[Path]:
    """Write TABLE.csv for every table, and classes.csv; lists are joined with |. Media keep their names."""
    used = np.unique(dataset.sets.frame).tolist()
    names = {row: str(dataset.frames.media[row]) for row in used}
    export_media(dataset, target, names, mode=media, progress=progress)
    written = []
    space = dataset.info.label_space
    tables = {"classes": {"number": range(len(space)), "label": space.ids, "name": space.names}, **columns_of(dataset)}
    for table, columns in tables.items():
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        values = [column.tolist() if isinstance(column, np.ndarray) else list(column) for column in columns.values()]
        writer.writerows([_cell(value) for value in row] for row in zip(*values, strict=True))
        path = target / f"{table}.csv"
        write_text(path, out.getvalue())
        written.append(path)
    return written


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)  # the shortest text that reads back as the same number
    return "|".join(str(_cell(one)) for one in value) if isinstance(value, list) else value
