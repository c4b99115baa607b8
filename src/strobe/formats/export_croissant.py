"""Croissant 1.0 metadata (JSON-LD, mlcommons.org/croissant) of a dataset folder, with the tables it describes."""

from pathlib import Path
from typing import Any

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.files import inside, json_text, sha256_of_file
from strobe.formats.export_card import description
from strobe.formats.export_media import Outgoing
from strobe.formats.registry import ExportFormat
from strobe.store.bring_media import MediaMode
from strobe.store.tables import schemas

_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The JSON-LD context, copied from the specification."""

_TYPES = {"string": "sc:Text", "int64": "sc:Integer", "double": "sc:Float", "bool": "sc:Boolean"}
_KEYS = {"videos": "video_id", "frames": "frame_id", "variants": "variant", "set_info": "set_id"}
"""The key column of each table. Columns with the same name have the same meaning in every table.

References are left out, because mlcroissant 1.1 would join the tables by them and then read only the first requested
record set.
"""


def export_croissant(dataset: Dataset, *, media: MediaMode) -> Outgoing:
    """Return croissant.json, dataset.json and the tables as stored. Images are written to media/ on request.

    If the target is the dataset's own folder, only croissant.json is added.
    """
    if dataset.root is None:
        raise StrobeError(f"the dataset {printable(dataset.name)} has no folder")
    names = [name for name in schemas(dataset.schema) if (dataset.root / f"{name}.parquet").is_file()]
    # In write order: once dataset.json is written, the folder is a complete dataset.
    files: dict[str, str | bytes] = {}
    files |= {
        name: inside(dataset.root, name).read_bytes() for name in (*(f"{one}.parquet" for one in names), "dataset.json")
    }
    files["croissant.json"] = json_text(_document(dataset, dataset.root, names))
    stored = {} if media == "none" else {row: str(name) for row, name in enumerate(dataset.frames.media) if name}
    return Outgoing(files=files, images=stored)


def _document(dataset: Dataset, root: Path, names: list[str]) -> dict[str, Any]:
    info = dataset.info
    about = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": info.name,
        "description": description(dataset),
        "version": info.version if info.version.count(".") == 2 else f"{info.version}.0.0",
        "keywords": ["robustness", "video", "strobe"],
        "isLiveDataset": False,
    }
    if info.licence:
        about["license"] = info.licence
    return {
        **about,
        "distribution": [
            _file(root / "dataset.json", "application/json"),
            *(_file(root / f"{name}.parquet", "application/x-parquet") for name in names),
        ],
        "recordSet": [_records(dataset, name) for name in names],
    }


def _file(path: Path, kind: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": path.name,
        "name": path.name,
        "contentUrl": path.name,
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": kind,
        "sha256": sha256_of_file(path),
    }


def _records(dataset: Dataset, name: str) -> dict[str, Any]:
    out: dict[str, Any] = {"@type": "cr:RecordSet", "@id": name, "name": name}
    if name in _KEYS:
        out["key"] = {"@id": f"{name}/{_KEYS[name]}"}
    out["field"] = [_field(name, column) for column in schemas(dataset.schema)[name].arrow]
    return out


def _field(table: str, column: Any) -> dict[str, Any]:
    kind, is_list = str(column.type), str(column.type).startswith("list<")
    inner = str(column.type.value_type) if is_list else kind
    out: dict[str, Any] = {
        "@type": "cr:Field",
        "@id": f"{table}/{column.name}",
        "name": column.name,
        "dataType": _TYPES[inner],
        "source": {"fileObject": {"@id": f"{table}.parquet"}, "extract": {"column": column.name}},
    }
    if is_list:
        out["repeated"] = True
    return out


FORMAT = ExportFormat(make=export_croissant, into_its_own=True)
