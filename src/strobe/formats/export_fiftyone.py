"""FiftyOne's own folder format (`fiftyone.types.FiftyOneDataset`): metadata.json, samples.json and, on request, data/.

A sample is a frame. The field `ground_truth` holds the labels, and `boxes` holds the boxes. `sets`, `distances` and the
tag `anchor` describe the perturbation sets. Ids are derived from the frames, so that the same dataset gives the same
file.
"""

import hashlib
from typing import Any

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.files import json_text
from strobe.core.packed import PACKED_SUFFIX
from strobe.formats.export_media import Outgoing, picture_name, refuse_rendered
from strobe.formats.registry import ExportFormat
from strobe.store.bring_media import MediaMode
from strobe.store.media import MediaSource

_VERSION = "1.0.0"
"""The FiftyOne version of these documents. Later versions migrate them on loading."""

_FIELDS, _LABELS = "fiftyone.core.fields.", "fiftyone.core.labels."


def export_fiftyone(dataset: Dataset, *, media: MediaMode) -> Outgoing:
    """Return the two JSON documents.

    Images are written to data/, or stay in place and are referenced by absolute path.
    """
    used = np.unique(dataset.sets.frame).tolist()
    refuse_rendered(dataset, used, mode="copy")
    if bare := sum(not dataset.frames.media[row] for row in used):
        raise StrobeError(
            f"{bare} of {len(used)} frames have no stored image, which FiftyOne needs; build without "
            "<<reference=True>>, or import with the media"
        )
    if media == "none" and any(str(dataset.frames.media[row]).endswith(PACKED_SUFFIX) for row in used):
        raise StrobeError("FiftyOne cannot read packed frames; pass <<media=copy>>, which unpacks them")
    inside = {row: f"data/{picture_name(str(dataset.frames.media[row])).removeprefix('media/')}" for row in used}
    source = MediaSource(dataset)
    paths = {row: source.path(row).as_posix() for row in used} if media == "none" else inside
    samples = _samples(dataset, used, paths)
    return Outgoing(
        files={"samples.json": json_text({"samples": samples}), "metadata.json": json_text(_metadata(dataset))},
        images=inside,
    )


def _id(*parts: object) -> dict[str, str]:
    return {"$oid": hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:24]}


def _samples(dataset: Dataset, used: list[int], paths: dict[int, str]) -> list[dict[str, Any]]:
    frames, sets, names = dataset.frames, dataset.sets, dataset.info.label_space.names
    ids, labels, digest = dataset.frame_ids(), dataset.labels.by_frame(), dataset.digest()
    member_of: dict[int, list[tuple[str, float, bool]]] = {row: [] for row in used}
    for place, row, distance, is_anchor in zip(sets.set, sets.frame, sets.distance, sets.is_anchor, strict=True):
        member_of[int(row)].append((str(sets.set_id[place]), float(distance), bool(is_anchor)))
    boxes = _boxes(dataset)
    seconds = frames.time_s
    out = []
    for row in used:
        classes_of = [
            {"_id": _id(digest, ids[row], "label", label), "_cls": "Classification", "tags": [], "label": names[label]}
            for label in labels.get(row, ())
        ]
        sample: dict[str, Any] = {
            "_id": _id(digest, ids[row]),
            "filepath": paths[row],
            "tags": ["anchor"] if any(is_anchor for _, _, is_anchor in member_of[row]) else ["member"],
            "metadata": {"_cls": "ImageMetadata", "width": int(frames.width[row]), "height": int(frames.height[row])},
            "_media_type": "image",
            "_rand": int(_id(ids[row])["$oid"][:12], 16) / 16**12,
            "ground_truth": {"_cls": "Classifications", "classifications": classes_of},
            "key": str(frames.key[row]),
            "video": str(dataset.videos.name[frames.video[row]]),
            "index": int(frames.index[row]),
            "seconds": None if np.isnan(seconds[row]) else float(seconds[row]),
            "sets": [name for name, _, _ in member_of[row]],
            "distances": [distance for _, distance, _ in member_of[row]],
        }
        if dataset.boxes is not None:
            sample["boxes"] = {"_cls": "Detections", "detections": boxes.get(row, [])}
        out.append(sample)
    return out


def _boxes(dataset: Dataset) -> dict[int, list[dict[str, Any]]]:
    """Return each frame's detections: corner and size as fractions of the image, as in FiftyOne."""
    detections: dict[int, list[dict[str, Any]]] = {}
    boxes, frames = dataset.boxes, dataset.frames
    if boxes is None:
        return detections
    names, digest = dataset.info.label_space.names, dataset.digest()
    for index, row in enumerate(boxes.frame.tolist()):
        width, height = int(frames.width[row]), int(frames.height[row])
        if not (width and height):
            raise StrobeError("FiftyOne stores boxes as fractions of the image, but the size of some images is unknown")
        x0, y0, x1, y1 = map(float, boxes.xyxy[index])
        entry: dict[str, Any] = {
            "_id": _id(digest, "box", index),
            "_cls": "Detection",
            "attributes": {},
            "tags": [],
            "label": names[int(boxes.label[index])],
            "bounding_box": [x0 / width, y0 / height, (x1 - x0) / width, (y1 - y0) / height],
            "iscrowd": bool(boxes.crowd[index]),
        }
        if int(boxes.track[index]) >= 0:
            entry["index"] = int(boxes.track[index])
        detections.setdefault(row, []).append(entry)
    return detections


def _metadata(dataset: Dataset) -> dict[str, Any]:
    info, digest = dataset.info, dataset.digest()
    fields = [
        _field("id", "ObjectIdField", db="_id"),
        _field("filepath", "StringField"),
        _field("tags", "ListField", of="StringField"),
        _field("metadata", "EmbeddedDocumentField", document="fiftyone.core.metadata.ImageMetadata"),
        _field("_media_type", "StringField"),
        _field("_rand", "FloatField"),
        _field("_dataset_id", "ObjectIdField"),
        _field("ground_truth", "EmbeddedDocumentField", document=_LABELS + "Classifications"),
        _field("key", "StringField"),
        _field("video", "StringField"),
        _field("index", "IntField"),
        _field("seconds", "FloatField"),
        _field("sets", "ListField", of="StringField"),
        _field("distances", "ListField", of="FloatField"),
    ]
    if dataset.boxes is not None:
        fields.append(_field("boxes", "EmbeddedDocumentField", document=_LABELS + "Detections"))
    about = {"digest": digest, "k": info.k, "axis": info.axis, "label_source": info.label_source}
    return {
        "_id": _id(digest),
        "name": info.name,
        "version": _VERSION,
        "persistent": False,
        "media_type": "image",
        "tags": ["strobe"],
        "info": {"strobe": about, "licence": info.licence, "version": info.version},
        "app_config": {},
        "default_classes": list(info.label_space.names),
        "sample_fields": fields,
    }


def _field(
    name: str, kind: str, *, of: str | None = None, document: str | None = None, db: str | None = None
) -> dict[str, Any]:
    return {
        "name": name,
        "ftype": _FIELDS + kind,
        "embedded_doc_type": document,
        "subfield": of and _FIELDS + of,
        "fields": [],
        "db_field": db or name,
        "description": None,
        "info": None,
        "read_only": False,
    }


FORMAT = ExportFormat(make=export_fiftyone)
