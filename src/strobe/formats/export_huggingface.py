"""A folder for Hugging Face `datasets`: Parquet with embedded images, a table of the sets, and README.md.

`load_dataset(FOLDER, "frames", split="test")` returns decoded images with their labels, boxes and sets. The table
"sets" has a row per member. The Parquet files store the features, so that `datasets` need not guess types.
"""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from strobe.core.dataset import Dataset
from strobe.core.files import make_folder, replacing
from strobe.core.late import load
from strobe.core.ports import FrameSource, Image, Progress
from strobe.formats.export_card import card
from strobe.formats.export_media import Outgoing
from strobe.formats.registry import ExportFormat
from strobe.store.bring_media import MediaMode
from strobe.store.tables import variant_columns

_SHARD_BYTES = 200_000_000
"""A file of frames is closed when its images reach this number of bytes."""
_GROUP = 100
"""The number of rows read at once. It is small, because images are large."""

_USE = """
    from datasets import load_dataset
    frames = load_dataset("FOLDER", "frames", split="test")
    sets = load_dataset("FOLDER", "sets", split="test")
"""


def export_huggingface(dataset: Dataset, *, media: MediaMode) -> Outgoing:  # noqa: ARG001 (every exporter's signature)
    """Return README.md and the table of the sets. `write_frames` writes the images first."""
    where = {"frames": f"frames/{_stem(dataset)}-*.parquet", "sets": "sets/sets.parquet"}
    configs = [
        {"config_name": name, "default": name == "frames", "data_files": [{"split": "test", "path": path}]}
        for name, path in where.items()
    ]
    buffer = io.BytesIO()
    pq.write_table(_sets(dataset), buffer, compression="zstd")
    text = card(dataset, use=_USE, more={"configs": configs})
    files: dict[str, str | bytes] = {"sets/sets.parquet": buffer.getvalue(), "README.md": text}
    return Outgoing(files=files, also=(where["frames"],))


def write_frames(dataset: Dataset, source: FrameSource, target: Path, *, progress: Progress) -> list[Path]:
    """Write the files of frames, each atomically. Existing files are left unchanged.

    Their names contain the dataset's digest, so files of another dataset are never reused.
    """
    used = np.unique(dataset.sets.frame).tolist()
    schema = _schema(dataset)
    rows = _FrameTable(dataset)
    written = []
    with progress.task("images", len(used)) as advance:
        # Files are split by count, so that the start of each file is known without reading the earlier files.
        for number, part in enumerate(_parts(used, dataset)):
            path = target / "frames" / f"{_stem(dataset)}-{number:05d}.parquet"
            written.append(path)
            if not path.is_file():
                make_folder(path.parent)
                with replacing(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
                    for start in range(0, len(part), _GROUP):
                        some = [rows.of(row, _encoded(source, row)) for row in part[start : start + _GROUP]]
                        writer.write_table(pa.Table.from_pylist(some, schema=schema))
                        advance(len(some))
            else:
                advance(len(part))
    return written


def _stem(dataset: Dataset) -> str:
    return f"frames-{dataset.digest()[:12]}"


def _parts(used: list[int], dataset: Dataset) -> Iterator[list[int]]:
    """Split rows into files of similar size, estimated from pixels: a PNG takes up to three bytes per pixel."""
    part: list[int] = []
    size = 0
    for row in used:
        cost = 2 * int(dataset.frames.width[row]) * int(dataset.frames.height[row]) or 1_000_000
        if part and size + cost > _SHARD_BYTES:
            yield part
            part, size = [], 0
        part.append(row)
        size += cost
    yield part


def _encoded(source: FrameSource, row: int) -> bytes:
    """Return the stored file, or a PNG of the pixels if the frame has no file."""
    return source.read_encoded(row) or _png(source.read(row))


def _png(pixels: Image) -> bytes:
    buffer = io.BytesIO()
    load("PIL.Image:fromarray")(pixels).save(buffer, format="png")
    return buffer.getvalue()


class _FrameTable:
    """Makes the rows of the frames table."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset, self._ids, self._labels = dataset, dataset.frame_ids(), dataset.labels.by_frame()
        self._sets: dict[int, list[dict[str, Any]]] = {}
        sets = dataset.sets
        for place, row, distance in zip(sets.set.tolist(), sets.frame.tolist(), sets.distance.tolist(), strict=True):
            self._sets.setdefault(row, []).append({"set": str(sets.set_id[place]), "distance": distance})
        self._boxes: dict[int, list[int]] = {}
        if dataset.boxes is not None:
            for place, row in enumerate(dataset.boxes.frame.tolist()):
                self._boxes.setdefault(row, []).append(place)

    def of(self, row: int, content: bytes) -> dict[str, Any]:
        """Return one row, with the image file embedded."""
        frames, key = self._dataset.frames, str(self._dataset.frames.key[row])
        seconds = float(frames.time_s[row])
        out: dict[str, Any] = {
            "image": {"bytes": content, "path": key.rpartition("/")[2]},
            "key": key,
            "frame_id": self._ids[row],
            "video": str(self._dataset.videos.name[frames.video[row]]),
            "index": int(frames.index[row]),
            "seconds": None if np.isnan(seconds) else seconds,
            "labels": list(self._labels.get(row, ())),
            "sets": self._sets.get(row, []),
        }
        if self._dataset.boxes is not None:
            boxes, places = self._dataset.boxes, self._boxes.get(row, [])
            x0, y0, x1, y1 = boxes.xyxy[places].T
            out["objects"] = {
                "bbox": np.stack([x0, y0, x1 - x0, y1 - y0], axis=1).tolist(),
                "category": boxes.label[places].tolist(),
                "track": [None if track < 0 else track for track in boxes.track[places].tolist()],
                "crowd": boxes.crowd[places].tolist(),
            }
        return out


def _schema(dataset: Dataset) -> pa.Schema:
    """Return the columns, and the `datasets` feature type of each."""
    text, integer, number = pa.string(), pa.int64(), pa.float64()
    classes = {"names": list(dataset.info.label_space.names), "_type": "ClassLabel"}
    kinds = {name: {"dtype": name, "_type": "Value"} for name in ("string", "int64", "float64", "bool")}
    columns: dict[str, tuple[pa.DataType, Any]] = {
        "image": (pa.struct([("bytes", pa.binary()), ("path", text)]), {"_type": "Image"}),
        "key": (text, kinds["string"]),
        "frame_id": (text, kinds["string"]),
        "video": (text, kinds["string"]),
        "index": (integer, kinds["int64"]),
        "seconds": (number, kinds["float64"]),
        "labels": (pa.list_(integer), [classes]),
        "sets": (
            pa.list_(pa.struct([("set", text), ("distance", number)])),
            [{"set": kinds["string"], "distance": kinds["float64"]}],
        ),
    }
    if dataset.boxes is not None:
        kind = pa.struct(
            [
                ("bbox", pa.list_(pa.list_(number))),
                ("category", pa.list_(integer)),
                ("track", pa.list_(integer)),
                ("crowd", pa.list_(pa.bool_())),
            ]
        )
        inside = {
            "bbox": [[kinds["float64"]]],
            "category": [classes],
            "track": [kinds["int64"]],
            "crowd": [kinds["bool"]],
        }
        columns["objects"] = (kind, inside)
    features = {name: feature for name, (_, feature) in columns.items()}
    about = json.dumps({"info": {"features": features}})
    return pa.schema([(name, kind) for name, (kind, _) in columns.items()], metadata={"huggingface": about})


def _sets(dataset: Dataset) -> pa.Table:
    """Return one row per member, with the facts about its set."""
    sets, ids = dataset.sets, dataset.frame_ids()
    of_set = {name: list(values) for name, values in variant_columns(dataset).get("set_info", {}).items()}
    of_set.pop("set_id", None)
    columns: dict[str, Any] = {
        "set": sets.set_id[sets.set].tolist(),
        "frame_id": [ids[row] for row in sets.frame.tolist()],
        "key": dataset.frames.key[sets.frame].tolist(),
        "distance": sets.distance,
        "is_anchor": sets.is_anchor,
        **{name: [values[place] for place in sets.set.tolist()] for name, values in of_set.items()},
    }
    return pa.table(columns)


FORMAT = ExportFormat(
    make=export_huggingface,
    write_frames=write_frames,
    no_media="the huggingface format stores images inside its Parquet files; remove <<media>>",
)
