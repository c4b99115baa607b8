"""Detectors that ignore their frames, and boxes that seem to be meant otherwise: reported wherever figures stand."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strobe
from strobe.core.dataset import Dataset

N_VIDEOS = 24


@pytest.fixture(scope="module")
def data(zoo: Any) -> Dataset:
    """A video with one moving object each, of three classes, in different places."""
    dataset: Dataset = zoo.dataset(n_videos=N_VIDEOS, k=1)
    rng = np.random.default_rng(0)
    low = np.repeat(np.stack([rng.uniform(0, 120, N_VIDEOS), rng.uniform(0, 50, N_VIDEOS)], axis=1), 3, axis=0)
    low += rng.uniform(0, 3, low.shape)
    xyxy = np.concatenate([low, low + 35], axis=1)
    assert dataset.boxes is not None
    return replace(dataset, boxes=replace(dataset.boxes, xyxy=xyxy))


def _answers(data: Dataset, how: str) -> dict[int, list[tuple[int, tuple[float, ...], float]]]:
    """A box for each frame, of a good detector that flickers, or of one that ignores the frame."""
    assert data.boxes is not None
    rng, out = np.random.default_rng(3), {}
    for frame, (label, box) in enumerate(zip(data.boxes.label.tolist(), data.boxes.xyxy.tolist(), strict=True)):
        corner = rng.uniform(0, 60, 2)
        out[frame] = {
            "good": [(label, tuple(box), 0.9)] if rng.random() > 0.1 else [],
            "same": [(0, (60.0, 20.0, 95.0, 55.0), float(rng.uniform(0.1, 1)))],
            "none": [],
            "one class": [(1, tuple(box), 0.9)] if rng.random() > 0.1 else [],
            "guess": [(int(rng.integers(3)), (*corner, *(corner + 40)), float(rng.random()))],
            "twice": [(label, tuple(2 * one for one in box), 0.9)],
        }[how]
    return out


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ("same", "it gives the same box on every frame: an answer that never changes is no evidence about flicker"),
        ("none", "it gives no box of the classes here on any frame: an answer that never changes is no evidence "
                 "about flicker"),
        ("one class", "all its boxes have the class “sheep”, but the objects have 3 classes: a class that never "
                      "changes is no evidence about flicker"),
        ("guess", "that of the boxes it gave for other videos"),
        ("good", None),
    ],
)  # fmt: skip
def test_boxes_that_ignore_the_frame_are_named(zoo: Any, data: Dataset, how: str, line: str | None) -> None:
    found: Any = strobe.score(data, zoo.table(data, _answers(data, how)), name="m")
    if line is None:
        assert found.answers is None
        return
    assert any(line in note for note in found.notes)
    assert found.answers.is_idle is (how != "one class"), "boxes of one class may still move and disappear"
    assert line in found._repr_html_()


def test_boxes_of_other_videos_against_a_plain_reference(zoo: Any, data: Dataset) -> None:
    """Each anchor with the boxes of the next video's anchor, scored alone, by the public score."""
    answers = _answers(data, "guess")
    found: Any = strobe.score(data, zoo.table(data, answers), name="m")
    anchors = data.sets.frame[data.sets.is_anchor].tolist()
    moved = {frame: [] for frame in answers} | {
        one: answers[other] for one, other in zip(anchors, anchors[1:] + anchors[:1], strict=True)
    }
    own, other = (
        np.mean([one.ap_orig for one in strobe.score(data, zoo.table(data, given), name="m").chosen_frames])
        for given in (answers, moved)
    )
    assert (found.answers.own_ap, found.answers.other_ap) == (pytest.approx(own), pytest.approx(other))
    assert (found.answers.p is None) == (own <= other)


def _write(data: Dataset, how: str, place: Path, names: tuple[str, ...] = ("fox", "sheep", "bird")) -> str:
    own = data.info.label_space.names
    rows = [
        {"image_id": str(data.frames.key[frame]), "category_id": names.index(own[label]), "score": score,
         "bbox": [box[0], box[1], box[2] - box[0], box[3] - box[1]]}
        for frame, boxes in _answers(data, how).items() for label, box, score in boxes if own[label] in names
    ]  # fmt: skip
    listed = [{"id": place, "name": name} for place, name in enumerate(names)]
    place.write_text(json.dumps({"annotations": rows, "categories": listed}))
    return f"{place.stem}=preds:{place}"


SCORED = ("--empty-frames", "--box-format", "xywh", "--box-units", "pixels")


@pytest.mark.parametrize("how", ["same", "guess"])
def test_a_page_of_boxes_that_ignore_the_frame_does_not_praise_them(
    data: Dataset, tmp_path: Path, called: Callable[..., str], how: str
) -> None:
    strobe.save_dataset(data, tmp_path / "data")
    good, idle = (_write(data, one, tmp_path / f"{name}.json") for one, name in (("good", "good"), (how, "m")))
    said = called("eval", tmp_path / "data", "-m", idle, "-o", tmp_path / "alone", *SCORED)
    assert "m: it" in said
    page = (tmp_path / "alone/report.html").read_text(encoding="utf-8")
    assert (
        "m is not shown to be better than boxes that ignore the image, so these results are weak evidence about "
        "flicker." in page
    )
    called("eval", tmp_path / "data", "-m", idle, "-m", good, "-o", tmp_path / "two", *SCORED)
    page = (tmp_path / "two/report.html").read_text(encoding="utf-8")
    assert "good reaches " in page
    assert "m reaches " not in page
    assert "This model is excluded from this summary." in page


def test_every_verb_prints_the_doubts_about_boxes(data: Dataset, tmp_path: Path, called: Callable[..., str]) -> None:
    """`compare`, `gate` and `history` print what `eval` prints: boxes twice too large, classes out of reach."""
    strobe.save_dataset(data, tmp_path / "data")
    models = [
        _write(data, "good", tmp_path / "old.json", names=("fox", "bird")),
        _write(data, "twice", tmp_path / "new.json"),
    ]
    run = tmp_path / "run"
    lines = [
        "new: its boxes fit the true objects only when multiplied by 0.5",
        "the file's list of classes has no class for sheep: ",
    ]
    gate = ("gate", run, "-m", "new", "--baseline", "old", "--max-loss", "map_pmk=100")
    chosen = ("-m", models[0], "-m", models[1])
    for words in (("eval", tmp_path / "data", *chosen, "-o", run, *SCORED), ("compare", run), gate, ("history", run)):
        said = called(*words)
        assert [line for line in lines if line not in said] == [], words[0]
    for words in (("compare", run, "--json"), ("history", run, "--json"), (*gate, "--json")):
        assert all(line in called(*words) for line in lines), words[0]
    assert all(line in repr(strobe.compare(run)) for line in lines)
