"""Every table of a dataset as CSV, for spreadsheets and other languages. Unknown values are empty cells."""

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.quoting import csv_text
from strobe.formats.export_media import Outgoing, picture_name
from strobe.formats.registry import ExportFormat
from strobe.store.bring_media import MediaMode
from strobe.store.tables import columns_of


def export_csv(dataset: Dataset, *, media: MediaMode) -> Outgoing:
    """Return TABLE.csv for every table, and classes.csv, with lists joined by |.

    Exported media keep their names, except packed frames, which become PNG.
    """
    files: dict[str, str | bytes] = {}
    space = dataset.info.label_space
    tables = {name: table.whole() for name, table in columns_of(dataset).items()}
    tables = {"classes": {"number": [*range(len(space))], "label": [*space.ids], "name": [*space.names]}, **tables}
    if media != "none":
        names = [name and picture_name(name) for name in tables["frames"]["media"]]
        tables["frames"] = {**tables["frames"], "media": names}
    for table, columns in tables.items():
        rows = ([_cell(value) for value in row] for row in zip(*columns.values(), strict=True))
        files[f"{table}.csv"] = csv_text(columns, rows)
    used = np.unique(dataset.sets.frame).tolist()
    return Outgoing(files=files, images={row: picture_name(str(dataset.frames.media[row])) for row in used})


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)  # the shortest text that parses to the same number
    return "|".join(str(_cell(one)) for one in value) if isinstance(value, list) else value


FORMAT = ExportFormat(make=export_csv, people=True)
