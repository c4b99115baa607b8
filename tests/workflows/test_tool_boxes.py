"""Boxes in files of other tools are the same boxes, on a clip and in memory; messages show what does not match."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from strobe.api.given import answers_of
from strobe.core.answers import BoxAnswers
from strobe.core.dataset import Dataset
from strobe.formats.bring import FileOptions
from strobe.formats.read_detections import read_detections
from strobe.store import dataset_folder as folder

pytest.importorskip("av")

TESTS = Path(__file__).parents[1]
TOOLS = TESTS / "formats" / "tools"
FILES = ("ultralytics", "fiftyone", "mot.txt", "coco-video.json", "coco-tracks.json")
FPS = 10


@pytest.fixture(scope="module")
def made() -> Iterator[ModuleType]:
    """The script that makes the files with the tools."""
    sys.path.insert(0, str(TESTS / "formats"))
    import made_tool_boxes

    yield made_tool_boxes
    sys.path.remove(str(TESTS / "formats"))


@pytest.fixture
def called(command: Callable[..., tuple[int, str, str]], tmp_path: Path, made: ModuleType) -> Callable[..., str]:
    """Call strobe where there is a clip of fifteen frames; what it printed, after its exit code was checked."""
    made.clip(tmp_path / "clip.mkv", fps=FPS)

    def call(*words: object, code: int = 0) -> str:
        ended, out, err = command(*map(str, words))
        assert ended == code, out + err
        return out + err

    return call


@pytest.fixture
def dataset(called: Callable[..., str], tmp_path: Path) -> Dataset:
    """The dataset that a command makes of the clip."""
    words = ("eval", tmp_path / "clip.mkv", "-m", f"preds:{TOOLS / 'coco-video.json'}", "-o", tmp_path / "run")
    called(*words, "--k", 2, "--bootstrap", 100, "--no-report", "--workers", 1)
    return folder.read(tmp_path / "run" / "dataset")


def check(found: BoxAnswers, dataset: Dataset, made: ModuleType, *, classes: bool = True, rel: float = 1e-6) -> None:
    """The boxes are those that the tools were given, up to the digits that a tool writes."""
    assert found.scored.all()
    for frame, boxes in made.BOXES.items():
        rows = np.flatnonzero(found.frame == int(np.flatnonzero(dataset.frames.index == frame)[0]))
        wanted = sorted(boxes, key=lambda box: -box[1])
        assert len(rows) == len(wanted), frame
        for row, (label, score, xyxy) in zip(rows.tolist(), wanted, strict=True):
            assert found.xyxy[row] == pytest.approx(xyxy, rel=rel, abs=1e-3)
            assert found.score[row] == pytest.approx(score)
            if classes:
                assert dataset.info.label_space.names[int(found.label[row])] == made.NAMES[label]


@pytest.mark.parametrize("name", FILES)
def test_each_tools_file_has_the_same_boxes(dataset: Dataset, made: ModuleType, name: str) -> None:
    found = read_detections(TOOLS / name, dataset)
    check(found.answers, dataset, made, classes=name != "mot.txt", rel=1e-4)  # six digits of the image's size
    assert any("matched by" in note for note in found.notes)


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_scored_on_a_clip_without_a_model(called: Callable[..., str], tmp_path: Path, name: str) -> None:
    """Both objects live for 1.5 s. The first is lost for 0.3 s, the second for 0.1 s."""
    run = tmp_path / "own"
    said = called(
        "eval", tmp_path / "clip.mkv", "-m", f"mine=preds:{TOOLS / name}",
        "-o", run, "--k", 2, "--bootstrap", 100, "--no-report", "--workers", 1,
    )  # fmt: skip
    assert "boxes without labels" in said
    score = json.loads((run / "results.json").read_text(encoding="utf-8"))["flicker"]["detectors"]["mine"]
    assert (score["objects"], score["outages"], score["class_changes"]) == (2, 2, 0)
    figures = {key: one["value"] for key, one in score["measures"].items()}
    assert figures["outage_seconds"] == pytest.approx(60 * 0.4 / 3)
    assert figures["completeness"] == pytest.approx(1 - 0.4 / 3)
    assert figures["longest_outage"] == pytest.approx(0.3)
    outages = {(one["first"], one["last"], one["label"]) for one in score["longest"]}
    names = {label for *_, label in outages}
    assert {(first, last) for first, last, _ in outages} == {(4, 6), (9, 9)}
    assert names == ({"class 0"} if name == "mot.txt" else {"person", "dog"})


def test_detectors_with_other_classes_are_compared(called: Callable[..., str], tmp_path: Path) -> None:
    for name, classes in (("old", ["dog"]), ("new", ["dog", "cat"])):
        boxes = "[([[8, 8, 40, 40]], [0], [0.9]) for _ in images]"
        (tmp_path / f"{name}.py").write_text(
            "from strobe.models.detectors.py import detector\n\n"
            f"def make():\n    return detector(lambda images: {boxes}, {classes}, name={name!r})\n"
        )
        words = ("eval", tmp_path / "clip.mkv", "-m", f"{name}=py:{tmp_path / name}.py:make", "-o", tmp_path / name)
        called(*words, "--k", 2, "--no-report", "--workers", 1)
    said = called("compare", tmp_path / "old", tmp_path / "new")
    assert "new is the same as old on clip: outage_seconds 0.00 s/min → 0.00 s/min" in said


def test_frames_are_matched_by_time(dataset: Dataset, made: ModuleType, tmp_path: Path) -> None:
    data = made.coco_video()
    for image in data["images"]:
        image["timestamp"] = image.pop("frame_id") / FPS + 0.02
    path = tmp_path / "times.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    found = read_detections(path, dataset)
    check(found.answers, dataset, made)
    assert "its frames are matched by time" in found.notes


def test_detections_of_supervision(dataset: Dataset, made: ModuleType) -> None:
    pytest.importorskip("supervision", reason="supervision is not installed; docs/detection.md says how to try it")
    found: Any = answers_of(made.supervision(), dataset, FileOptions()).answers
    check(found, dataset, made)
    by_number: Any = answers_of(dict(enumerate(made.supervision())), dataset, FileOptions()).answers
    check(by_number, dataset, made)
