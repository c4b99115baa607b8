"""`strobe export RUN flickers`: the frames around planted flips, the answers, and majority answers as pseudo-labels."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import strobe
from strobe.cli.main import main
from strobe.core.answers import BoxAnswers, ClassAnswers
from strobe.core.dataset import Dataset

Called = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two videos with a set of seven frames each. `net` changes on one frame; `boxes` loses an object on one frame."""
    folder = tmp_path_factory.mktemp("flickers")
    with pytest.raises(SystemExit) as ended:
        main(["synthesize", str(folder / "data"), "--videos", "2", "--size", "32", "--k", "3", "-q"])
    assert not ended.value.code
    data = strobe.load_dataset(folder / "data")
    label = np.zeros(len(data.frames), dtype=np.int64)
    label[middle(data)] = 1
    strobe.evaluate(data, ClassAnswers.from_labels("net", label), folder / "run", report=False)
    truth = data.boxes
    assert truth is not None
    kept = (truth.frame != middle(data)) | (truth.track != truth.track[truth.frame == middle(data)][0])
    found = BoxAnswers.of(
        truth.frame[kept], truth.label[kept], truth.xyxy[kept], np.full(int(kept.sum()), 0.9),
        n_frames=len(data.frames), n_classes=len(data.info.label_space), model="boxes",
    )  # fmt: skip
    strobe.evaluate(data, found, folder / "boxes-run", report=False)
    return folder


def middle(data: Dataset) -> int:
    """The anchor of the first set."""
    return int(data.sets.anchor_frame[0])


def rows_of(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_frames_around_flips(place: Path, tmp_path: Path, command: Called) -> None:
    data = strobe.load_dataset(place / "data")
    code, out, err = command("export", place / "run", "flickers", tmp_path / "out", "-q")
    assert code == 0, out + err
    flips = rows_of(tmp_path / "out" / "flickers.csv")
    names, at = data.info.label_space.names, int(data.frames.index[middle(data)])
    assert [(row["answer_before"], row["answer_after"], int(row["frame"])) for row in flips] == [
        (names[0], names[1], at), (names[1], names[0], at + 1)
    ]  # fmt: skip
    assert {row["model"] for row in flips} == {"net"}
    assert list(flips[0]) == [
        "video", "frame", "time_s", "model", "event", "answer_before", "answer_after", "confidence_before",
        "confidence_after", "file_before", "file",
    ]  # fmt: skip
    files = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("images/*"))
    answers = rows_of(tmp_path / "out" / "answers.csv")
    assert sorted(row["file"] for row in answers) == files
    assert [int(row["frame"]) for row in answers] == [at - 2, at - 1, at, at + 1, at + 2]
    with Image.open(tmp_path / "out" / flips[0]["file"]) as image:
        assert image.size == (32, 32)
    assert "pseudo" not in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert command("export", place / "run", "flickers", tmp_path / "out")[0] == 0  # the same again changes nothing


def test_majority_answers_are_marked_as_pseudo_labels(place: Path, tmp_path: Path, command: Called) -> None:
    data = strobe.load_dataset(place / "data")
    assert command("export", place / "run", "flickers", tmp_path / "coco", "--layout", "coco")[0] == 0
    found = json.loads((tmp_path / "coco" / "pseudo-labels.json").read_text(encoding="utf-8"))
    assert found["info"]["pseudo_labels"] is True
    assert [one["category_ids"] for one in found["images"]] == [[1]] * 5
    assert all((tmp_path / "coco" / "images" / one["file_name"]).is_file() for one in found["images"])
    assert "Nobody has checked them" in (tmp_path / "coco" / "README.md").read_text(encoding="utf-8")
    assert command("export", place / "run", "flickers", tmp_path / "yolo", "--layout", "yolo")[0] == 0
    (only,) = (tmp_path / "yolo" / "train").iterdir()
    assert only.name == data.info.label_space.names[0].replace(" ", "_")
    assert len(list(only.iterdir())) == 5


def test_boxes_of_a_detector(place: Path, tmp_path: Path, command: Called) -> None:
    data = strobe.load_dataset(place / "data")
    truth = data.boxes
    assert truth is not None
    lost = np.flatnonzero(truth.frame == middle(data))[0]
    assert command("export", place / "boxes-run", "flickers", tmp_path / "coco", "--layout", "coco")[0] == 0
    (gap,) = rows_of(tmp_path / "coco" / "flickers.csv")
    assert (gap["event"], float(gap["confidence_before"])) == ("outage", 0.9)
    found = json.loads((tmp_path / "coco" / "pseudo-labels.json").read_text(encoding="utf-8"))
    (filled,) = [one for one in found["annotations"] if one.get("interpolated")]
    assert (filled["image_id"], filled["category_id"]) == (middle(data) + 1, int(truth.label[lost]) + 1)
    x0, y0, x1, y1 = truth.xyxy[lost]
    assert np.abs(np.array(filled["bbox"]) - [x0, y0, x1 - x0, y1 - y0]).max() < 4
    assert all(one["pseudo_label"] for one in found["annotations"])
    assert command("export", place / "boxes-run", "flickers", tmp_path / "yolo", "--layout", "yolo")[0] == 0
    images = sorted(path.stem for path in (tmp_path / "yolo" / "images").iterdir())
    labels = sorted(path.stem for path in (tmp_path / "yolo" / "labels").iterdir())
    assert images == labels
    lines = next((tmp_path / "yolo" / "labels").iterdir()).read_text(encoding="utf-8").splitlines()
    numbers = np.array([line.split() for line in lines], dtype=float)
    assert ((numbers[:, 1:] >= 0) & (numbers[:, 1:] <= 1)).all()
    assert "# The labels here are pseudo-labels" in (tmp_path / "yolo" / "pseudo-labels.yaml").read_text("utf-8")


def test_what_is_refused(place: Path, tmp_path: Path, command: Called) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep", encoding="utf-8")
    code, _, err = command("export", place / "run", "flickers", tmp_path / "mine")
    assert (code, "contains other files (notes.txt)" in err) == (2, True)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    code, _, err = command("export", place / "data", "coco", tmp_path / "coco", "--layout", "yolo")
    assert (code, "--layout only works with flickers" in err) == (2, True)
    data = strobe.load_dataset(place / "data")
    steady = ClassAnswers.from_labels("steady", np.zeros(len(data.frames), dtype=np.int64))
    strobe.evaluate(data, steady, tmp_path / "steady", report=False)
    code, _, err = command("export", tmp_path / "steady", "flickers", tmp_path / "out")
    assert (code, "no model changes its answer" in err) == (2, True)
    strobe.evaluate(data, steady, place / "run", report=False)
    code, _, err = command("export", place / "run", "flickers", tmp_path / "out", "--layout", "coco")
    assert (code, "choose one with -m: " in err) == (2, True)
