"""Values no file should hold: each ends in one line that names the file, never in a traceback."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import strobe
from strobe.cli.main import main

GIANT = "x" * 200_000
"""More than one CSV field may hold."""


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run the command line; its one line, which must be an error the user can mend."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    said = capsys.readouterr().err
    assert ended.value.code == 2, said
    lines = [line for line in said.splitlines() if line.startswith("strobe: ")]
    assert len(lines) == 1, said
    return lines[0]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return strobe.save_dataset(strobe.example_dataset(), tmp_path / "data")


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("k", "1e999", "dataset.k: expected a whole number"),
        ("k", "-1e999", "dataset.k: expected a whole number"),
        ("k", "NaN", "dataset.k: expected a whole number"),
        ("k", "1" + "0" * 30, "dataset.k: expected a whole number"),
        ("k", "2.5", "dataset.k: expected a whole number"),
        ("k", "[]", "dataset.k: expected a whole number"),
        ("label_space", '{"name": 7, "ids": ["a"], "names": ["a"]}', "label_space.name: expected text"),
        ("label_space", '{"name": "a", "ids": [7], "names": ["a"]}', "label_space.ids[0]: expected text"),
        ("label_space", '{"name": "a", "ids": [[]], "names": ["a"]}', "label_space.ids[0]: expected text"),
        ("label_space", '{"name": "a", "ids": ["a"], "names": "a"}', "label_space.names: expected a list"),
        ("label_space", "7", "label_space: expected an object"),
    ],
)
def test_dataset_json(field: str, value: str, problem: str, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = data / "dataset.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content[field] = "HERE"
    path.write_text(json.dumps(content).replace('"HERE"', value), encoding="utf-8")
    assert problem in refused(["inspect", str(data)], capsys)


def _coco(change: dict[str, Any]) -> str:
    document: dict[str, Any] = {
        "videos": [{"id": 1, "name": "v"}],
        "categories": [{"id": 1, "name": "dog"}],
        "images": [
            {"id": n, "video_id": 1, "frame_id": n, "file_name": f"v/{n}.png", "width": 64, "height": 48}
            for n in range(30)
        ],
        "annotations": [{"id": n, "image_id": n, "category_id": 1, "bbox": [1, 1, 20, 20]} for n in range(30)],
    }
    for part, fields in change.items():
        document[part][0] |= fields
    return json.dumps(document)


@pytest.mark.parametrize("value", [[[]], 0.5, [7], {"a": 1}, "dog", [None]])
def test_category_ids(value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "ann.json"
    path.write_text(_coco({"images": {"category_ids": value}}), encoding="utf-8")
    said = refused(["import", "coco-vid", str(path), str(tmp_path / "out"), "--no-media", "-q"], capsys)
    assert "images[0]: expected category_ids to be a list of known categories" in said


@pytest.mark.parametrize("value", [10**30, -(10**30), float("inf")])
@pytest.mark.parametrize("verb", ["import", "build", "simulate"])
def test_track_in_coco(verb: str, value: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, photo = tmp_path / "ann.json", tmp_path / "photos/v/0.png"
    photo.parent.mkdir(parents=True)
    Image.fromarray(np.full((48, 64, 3), 90, dtype=np.uint8)).save(photo)
    path.write_text(_coco({"annotations": {"track_id": value}}), encoding="utf-8")
    given = {
        "import": ["coco-vid", str(path), str(tmp_path / "out"), "--no-media"],
        "build": [_clip(tmp_path / "v.mp4"), str(tmp_path / "out"), "--boxes", str(path)],
        "simulate": [str(tmp_path / "photos"), str(tmp_path / "out"), "--boxes", str(path)],
    }
    assert "ann.json" in refused([verb, *given[verb], "-q"], capsys)


@pytest.mark.parametrize("verb", ["build", "simulate"])
@pytest.mark.parametrize("value", ["1" + "0" * 30, "-1" + "0" * 30])
def test_track_in_csv(verb: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, photo = tmp_path / "boxes.csv", tmp_path / "photos/dog/a.png"
    photo.parent.mkdir(parents=True)
    Image.fromarray(np.full((48, 64, 3), 90, dtype=np.uint8)).save(photo)
    rows = {
        "build": f"video,frame,label,x0,y0,x1,y1,track\nv,5,dog,1,1,20,20,{value}\n",
        "simulate": f"file,label,x0,y0,x1,y1,track\ndog/a.png,dog,1,1,20,20,{value}\n",
    }
    path.write_text(rows[verb], encoding="utf-8")
    source = _clip(tmp_path / "v.mp4") if verb == "build" else str(tmp_path / "photos")
    said = refused([verb, source, str(tmp_path / "out"), "--boxes", str(path), "-q"], capsys)
    assert "boxes.csv: line 2" in said
    assert "track" in said


def _clip(path: Path) -> str:
    av = pytest.importorskip("av")
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for index in range(30):
            pixels = np.full((48, 64, 3), 4 * index, dtype=np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode(None))
    return str(path)
