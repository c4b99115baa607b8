"""COCO JSON with the COCO video fields: videos, images with video_id and frame_id, annotations with instance_id.

As extensions of COCO, an image lists the categories it shows (`category_ids`, because classification needs no boxes),
and `sets` lists the perturbation sets. Boxes are x, y, width, height, as in COCO.
"""

from typing import Any

import numpy as np

from strobe.core.dataset import Dataset
from strobe.core.files import json_text
from strobe.formats.export_media import Outgoing, picture_name, refuse_rendered
from strobe.formats.registry import ExportFormat
from strobe.store.bring_media import MediaMode
from strobe.store.tables import variant_columns


def export_coco(dataset: Dataset, *, media: MediaMode) -> Outgoing:
    """Return annotations.json and images/. Category and image ids are table positions plus one."""
    used = np.unique(dataset.sets.frame).tolist()
    refuse_rendered(dataset, used, mode=media)
    names = {row: _file_name(dataset, row) for row in used}
    return Outgoing(
        files={"annotations.json": json_text(_document(dataset, used, names))},
        images={row: f"images/{name}" for row, name in names.items()},
    )


def _file_name(dataset: Dataset, row: int) -> str:
    stored = "" if dataset.frames.recipe[row] else picture_name(str(dataset.frames.media[row])).removeprefix("media/")
    return stored or str(dataset.frames.key[row])


def _document(dataset: Dataset, used: list[int], names: dict[int, str]) -> dict[str, Any]:
    info, frames, sets = dataset.info, dataset.frames, dataset.sets
    known = dataset.labels.by_frame()
    labels = {row: [label + 1 for label in known.get(row, ())] for row in used}
    kept = sorted({int(frames.video[row]) for row in used})
    more = variant_columns(dataset)
    return {
        "info": {
            "description": info.name,
            "version": info.version,
            "licence": info.licence,
            "strobe": {"digest": dataset.digest(), "k": info.k, "axis": info.axis, "label_source": info.label_source},
        },
        "licenses": [],
        "videos": [_video(dataset, row) for row in kept],
        "images": [
            {
                "id": row + 1,
                "video_id": int(frames.video[row]) + 1,
                "frame_id": int(frames.index[row]),
                "file_name": names[row],
                "width": int(frames.width[row]),
                "height": int(frames.height[row]),
                "category_ids": sorted(labels[row]),
            }
            for row in used
        ],
        "categories": [
            {"id": index + 1, "name": name, "encode_name": label_id}
            for index, (label_id, name) in enumerate(zip(info.label_space.ids, info.label_space.names, strict=True))
        ],
        "annotations": _annotations(dataset, set(used)),
        "sets": [
            {
                "id": place + 1,
                "name": str(sets.set_id[place]),
                "anchor_image_id": int(anchor) + 1,
                "members": [
                    {"image_id": int(sets.frame[row]) + 1, "distance": float(sets.distance[row])}
                    for row in np.flatnonzero((sets.set == place) & ~sets.is_anchor)
                ],
                **{name: values[place] for name, values in more.get("set_info", {}).items() if name != "set_id"},
            }
            for place, anchor in enumerate(sets.anchor_frame)
        ],
        **({"variants": _rows(more["variants"])} if "variants" in more else {}),
    }


def _rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    plain = {name: np.asarray(values, dtype=object).tolist() for name, values in columns.items()}
    return [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]


def _video(dataset: Dataset, row: int) -> dict[str, Any]:
    videos = dataset.videos
    fps = videos.fps(row)
    out: dict[str, Any] = {"id": row + 1, "name": str(videos.name[row]) or str(videos.video_id[row])}
    if fps is not None:
        out["fps"] = f"{fps.numerator}/{fps.denominator}" if fps.denominator > 1 else fps.numerator
    return out


def _annotations(dataset: Dataset, used: set[int]) -> list[dict[str, Any]]:
    boxes = dataset.boxes
    if boxes is None:
        return []
    out = []
    for place in range(len(boxes.frame)):
        row = int(boxes.frame[place])
        if row not in used:
            continue
        x0, y0, x1, y1 = map(float, boxes.xyxy[place])
        entry = {
            "id": place + 1,
            "image_id": row + 1,
            "video_id": int(dataset.frames.video[row]) + 1,
            "category_id": int(boxes.label[place]) + 1,
            "bbox": [x0, y0, x1 - x0, y1 - y0],
            "area": (x1 - x0) * (y1 - y0),
            "iscrowd": int(boxes.crowd[place]),
        }
        if int(boxes.track[place]) >= 0:
            entry["instance_id"] = int(boxes.track[place])
        out.append(entry)
    return out


FORMAT = ExportFormat(make=export_coco)
