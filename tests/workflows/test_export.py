"""Exports: COCO loads where COCO is read, CSV says what the tables say."""

import csv
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from made_exports import made
from PIL import Image

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, UnknownName
from strobe.formats.sampled import ImportSampling
from strobe.store import dataset_folder as folder
from strobe.store.media import MediaSource
from strobe.workflows.export import export
from strobe.workflows.import_dataset import import_dataset


def test_coco_loads_in_pycocotools_and_comes_back(tmp_path: Path) -> None:
    coco = pytest.importorskip("pycocotools.coco")
    data = folder.read(made(tmp_path / "set"))
    export(tmp_path / "set", "coco", tmp_path / "out", media="link", candidates=True)
    loaded = coco.COCO(str(tmp_path / "out/annotations.json"))
    assert len(loaded.imgs) == 10
    assert len(loaded.anns) == 10
    for image in loaded.imgs.values():
        with Image.open(tmp_path / "out/images" / image["file_name"]) as picture:
            assert picture.size == (image["width"], image["height"])
    back = import_dataset(
        "coco-vid",
        tmp_path / "out/annotations.json",
        tmp_path / "back",
        draw=ImportSampling(k=4),
        options={"images": tmp_path / "out/images"},
    ).dataset
    assert back.info.label_space == data.info.label_space
    assert back.videos.fps(0) == Fraction(30000, 1001)
    assert np.unique(back.boxes.xyxy, axis=0).tolist() == np.unique(data.boxes.xyxy, axis=0).tolist()
    assert sorted(back.boxes.track.tolist()) == sorted(data.boxes.track.tolist())
    assert sorted(back.boxes.crowd.tolist()) == sorted(data.boxes.crowd.tolist())


def test_csv_says_what_the_tables_say(tmp_path: Path) -> None:
    data = folder.read(made(tmp_path / "set"))
    export(tmp_path / "set", "csv", tmp_path / "out", media="copy", candidates=True)

    def rows(name: str) -> list[dict[str, str]]:
        with (tmp_path / f"out/{name}.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    assert [row["frame_id"] for row in rows("frames")] == data.frame_ids()
    assert [float(row["distance"]) for row in rows("sets")] == data.sets.distance.tolist()
    assert [row["is_anchor"] == "true" for row in rows("sets")] == data.sets.is_anchor.tolist()
    assert [float(row["x1"]) for row in rows("boxes")] == data.boxes.xyxy[:, 2].tolist()
    assert rows("boxes")[0]["track"] == ""
    assert rows("frames")[0]["pts"] == ""
    assert rows("verdicts")[0]["labels"] == "a|b"
    assert rows("verdicts")[0]["note"] == 'says "hm", twice'
    assert len(rows("classes")) == 30
    assert (tmp_path / "out/media/clip1/4.png").is_file()


@pytest.mark.parametrize("mode", ["copy", "link"])
def test_packed_frames_are_pictures_for_others(tmp_path: Path, mode: str) -> None:
    root = made(tmp_path / "set", ending=".zst")
    for form, place in (
        ("coco", "images/clip1/4.png"), ("csv", "media/clip1/4.png"), ("fiftyone", "data/clip1/4.png"),
    ):  # fmt: skip
        for _ in range(2):  # the same again changes nothing
            export(root, form, tmp_path / form, media=mode, candidates=True)
        with Image.open(tmp_path / form / place) as picture:
            assert np.asarray(picture)[0, 0].tolist() == [1, 4, 0], form
        assert not list((tmp_path / form).rglob("*.zst"))
    assert "media/clip1/4.png" in (tmp_path / "csv/frames.csv").read_text()
    files = export(root, "huggingface", tmp_path / "hf", candidates=True).files
    assert pq.read_table(files[0]).column("image")[0]["bytes"].as_py().startswith(b"\x89PNG")
    # A Croissant folder is a dataset folder, which we read ourselves.
    export(root, "croissant", tmp_path / "again", media=mode, candidates=True)
    there = (tmp_path / "again/media/clip1/4.zst").stat()
    assert (there.st_ino == (root / "media/clip1/4.zst").stat().st_ino) is (mode == "link")
    assert MediaSource(folder.read(tmp_path / "again")).read(9)[0, 0].tolist() == [1, 4, 0]
    with pytest.raises(StrobeError, match="pass --media copy, which unpacks them"):
        export(root, "fiftyone", tmp_path / "none", candidates=True)


def voted(root: Path) -> Dataset:
    data = folder.read(made(root))
    folder.append_verdicts(root, [replace(data.verdicts[0], verdict_id="2", frame_id="v0:3", decision="dissimilar")])
    return folder.read(root)


def test_votes_decide_what_is_exported(tmp_path: Path) -> None:
    voted(tmp_path / "set")
    kept = export(tmp_path / "set", "coco", tmp_path / "kept")
    assert kept.dataset.sets.distance.tolist() == [-1.0, 0.0]
    everything = export(tmp_path / "set", "coco", tmp_path / "all", candidates=True)
    assert everything.dataset.n_sets == 2
    assert len(json.loads((tmp_path / "kept/annotations.json").read_text())["images"]) == 2


def test_bad_requests(tmp_path: Path) -> None:
    root = made(tmp_path / "set")
    with pytest.raises(UnknownName, match="did you mean coco"):
        export(root, "cocoa", tmp_path / "out")
    for _ in range(2):  # the same again is no error
        export(root, "coco", tmp_path / "out")
    (tmp_path / "out/annotations.json").write_text("mine")
    with pytest.raises(StrobeError, match="already exists"):
        export(root, "coco", tmp_path / "out")
    assert (tmp_path / "out/annotations.json").read_text() == "mine"
    (tmp_path / "file").write_text("")
    with pytest.raises(StrobeError, match=r"is a file|not a folder"):
        export(root, "coco", tmp_path / "file")
    data = folder.read(root)
    bare = replace(data, frames=replace(data.frames, media=np.full(10, "", dtype=object)), verdicts=())
    folder.write(bare, tmp_path / "bare")
    with pytest.raises(StrobeError, match=r"10 of 10 frames have no stored image .*--media none"):
        export(tmp_path / "bare", "csv", tmp_path / "media", media="copy")
    assert not (tmp_path / "media").exists()
