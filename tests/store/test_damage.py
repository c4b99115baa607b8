"""Random damage to any file: what comes out is the content or one line of StrobeError, never anything else."""

import json
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_folder import edit_info

from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import InvalidFile, StrobeError
from strobe.core.labels import LabelSpace
from strobe.core.records import Verdict
from strobe.core.tasks import Task
from strobe.formats.prediction_files import FileOptions
from strobe.formats.read_detections import task_of_file
from strobe.formats.read_predictions import read_predictions
from strobe.store import dataset_folder as folder


def example() -> Dataset:
    made = DatasetBuilder()
    for v in range(3):
        video = made.video(video_id=f"v{v}", name=f"clip{v}", fps=Fraction(30000, 1001), codec="h264")
        rows = [
            made.frame(video=video, index=i, key=f"clip{v}/{i}.png", labels=[v], pict_type="P", pts=i * 1001)
            for i in range(5)
        ]
        made.box(frame=rows[0], label=v, xyxy=(0, 0, 4.5, 4), track=v)
        made.set(set_id=f"clip{v}@2", anchor=rows[2], members=[(rows[i], i - 2) for i in (0, 1, 3, 4)])
        made.verdict(
            Verdict(
                verdict_id=f"{v}", annotator="ann", at="2026-01-01T00:00:00Z", stage="pair", set_id=f"clip{v}@2",
                frame_id=f"v{v}:1", decision="similar", labels=("cat",), note="ok",
            )
        )  # fmt: skip
    return made.build(DatasetInfo(name="x", label_space=LabelSpace.of_names("pets", ["cat", "dog", "fox"]), k=2))


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    out = bytearray(content)
    how = int(rng.integers(4))
    if how == 0:
        return bytes(out[: rng.integers(len(out))])
    if how == 1:
        at = int(rng.integers(len(out)))
        out[at:at] = rng.bytes(int(rng.integers(1, 20)))
        return bytes(out)
    for at in rng.integers(0, len(out), int(rng.integers(1, 6))):
        out[at] = int(rng.integers(256)) if how == 2 else int(rng.choice(list(b'0123456789-.eEnN",[]{}:\n')))
    return bytes(out)


@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_folder(tmp_path: Path, seed: int) -> None:
    place = folder.write(example(), tmp_path / "set")
    edit_info(place, files={})  # so that damage gets past the hashes
    rng = np.random.default_rng(seed)
    refused = 0
    for path in sorted(place.iterdir()):
        whole = path.read_bytes()
        for _ in range(12):
            path.write_bytes(damaged(whole, rng))
            try:
                folder.read(place)
            except StrobeError as error:
                refused += 1
                assert "\n" not in str(error)  # noqa: PT017 (either outcome is fine)
        path.write_bytes(whole)
    folder.read(place)
    assert refused > 30


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ending", ["json", "jsonl", "csv", "parquet"])
def test_a_damaged_prediction_file(tmp_path: Path, seed: int, ending: str) -> None:
    data = example()
    rng = np.random.default_rng(seed)
    scores = {key: row.tolist() for key, row in zip(data.frames.key, rng.normal(size=(15, 3)).round(3), strict=True)}
    path = tmp_path / f"p.{ending}"
    if ending == "json":
        path.write_text(json.dumps(scores))
    elif ending == "jsonl":
        path.write_text("\n".join(json.dumps({"frame": key, "scores": row}) for key, row in scores.items()))
    elif ending == "csv":
        path.write_text("frame,0,1,2\n" + "\n".join(",".join([key, *map(str, row)]) for key, row in scores.items()))
    else:
        pq.write_table(pa.table({"frame": list(scores), "scores": list(scores.values())}), path)
    whole = path.read_bytes()
    refused = 0
    for _ in range(40):
        path.write_bytes(damaged(whole, rng))
        try:
            options = FileOptions(allow_missing=bool(rng.integers(2)), ignore_extra=bool(rng.integers(2)))
            read_predictions(path, data, options)
        except StrobeError as error:
            refused += 1
            assert "\n" not in str(error)  # noqa: PT017 (either outcome is fine)
    assert refused > 10


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_pipe_or_a_folder_for_a_table_is_neither_waited_for_nor_read(tmp_path: Path, make: Any) -> None:
    place = folder.write(example(), tmp_path / "set")
    (place / "sets.parquet").unlink()
    make(place / "sets.parquet")
    with pytest.raises(InvalidFile, match=r"sets\.parquet: (the file is missing|not a regular file)"):
        folder.read(place)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
@pytest.mark.parametrize("ending", ["json", "jsonl", "csv", "parquet"])
def test_a_pipe_for_predictions_is_not_waited_for(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"p.{ending}"
    os.mkfifo(path)
    assert task_of_file(path) is Task.CLASSIFICATION
    with pytest.raises(InvalidFile, match="not a regular file"):
        read_predictions(path, example())
