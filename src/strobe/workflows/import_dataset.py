"""`strobe import`: convert a dataset of another format to a dataset folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strobe.core.errors import UnknownName, printable
from strobe.formats.importing import AS_USUAL, into, outside
from strobe.formats.registry import IMPORT_FORMATS
from strobe.formats.sampled import ImportedDataset, ImportSampling
from strobe.store.bring_media import ImportOptions


def import_dataset(
    name: str,
    source: Path | None,
    target: Path,
    *,
    how: ImportOptions = AS_USUAL,
    draw: ImportSampling | None = None,
    files: Any = None,
    options: Mapping[str, Any] | None = None,
) -> ImportedDataset:
    """Import the source, which has the format `name`, into the folder `target`. A format that is downloaded has no
    source.

    `options` are the options that the format declares. Missing options get their defaults. A format with a record of
    options takes this record as `files`. A format that chooses anchors takes `draw`.
    """
    form = IMPORT_FORMATS[name]
    values: dict[str, Any] = {"files": files or (form.record and form.record())}
    if form.record is None:
        known = [option.name for option in form.options]
        unknown = [one for one in options or () if one not in known]
        if unknown:
            raise UnknownName(f"option of {printable(name)}", unknown[0], known)
        values = {option.name: option.value for option in form.options if not option.required} | dict(options or {})
    if form.draw:
        values["draw"] = draw or ImportSampling()
    places = () if source is None else (source,)
    if source is not None and form.outside:
        outside(source, target, form.outside)
    if form.whole:
        return form.read(*places, target, how=how, **values)
    return into(target, how, lambda how: form.read(*places, target, how=how, **values))
