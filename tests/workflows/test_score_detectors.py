"""Detectors take the same options as classifiers, and say them."""

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import strobe
from strobe.analyses.plan import ScoreOptions
from strobe.core.answers import BoxAnswers
from strobe.core.errors import StrobeError
from strobe.core.ports import Silent
from strobe.report.headline import print_headline
from strobe.store import dataset_folder as folder
from strobe.workflows.report import ReportOptions, report_run
from strobe.workflows.score import ScoreRunOptions, score_dataset, score_run

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.parametrize("draws", [100, 500])
def test_the_draws_asked_for_are_those_of_the_means_along_tracks(draws, tmp_path):
    run = shutil.copytree(GOLDEN / "runs" / "boxes-py", tmp_path / "run")
    request = ScoreRunOptions(options=ScoreOptions(replicates=draws))
    found = score_run(run, request, Silent(), dataset_path=GOLDEN / "datasets" / "boxes").results
    (model,) = found.models.values()
    assert model.settings.replicates == draws
    assert model.temporal.found_lost_rate.low is not None


def scored(dataset, boxes, tmp_path):
    """The only model's result by way of a file, and what the terminal prints of it."""
    folder.write(dataset, tmp_path / "data")
    (tmp_path / "m.json").write_text(json.dumps(boxes))
    request = ScoreRunOptions(absent="empty")
    found = score_dataset(tmp_path / "data", [f"preds:{tmp_path / 'm.json'}"], tmp_path / "run", request, Silent())
    printed = io.StringIO()
    print_headline(found, printed)
    return found.models["m"], printed.getvalue()


def as_results(dataset, names):
    """The perfect answer in the classes of these names."""
    rows = []
    for row, (x0, y0, x1, y1) in enumerate(dataset.boxes.xyxy.tolist()):
        name = dataset.info.label_space.names[int(dataset.boxes.label[row])]
        if name in names:
            rows.append(
                {
                    "image_id": str(dataset.frames.key[row]),
                    "category_id": names.index(name),
                    "bbox": [x0, y0, x1 - x0, y1 - y0],
                    "score": 0.9,
                }
            )
    listed = [{"id": place, "name": name} for place, name in enumerate(names)]
    return {"categories": listed, "annotations": rows}


def test_classes_nobody_can_find_stand_beside_the_headline(zoo, tmp_path):
    """A file whose classes lack one that the dataset shows: in the results, on the terminal and on the page."""
    dataset = zoo.dataset(n_videos=12)
    model, printed = scored(dataset, as_results(dataset, ["fox", "bird"]), tmp_path)
    top = model.ceiling
    assert top is not None
    assert (top.childless, top.n_classes, top.n_objects) == (("sheep",), 3, 60)
    assert top.objects_out_of_reach == int((dataset.boxes.label == 1).sum())
    assert model.map_orig.value == pytest.approx(top.map_orig) == pytest.approx(2 / 3)
    cost = f"{top.objects_out_of_reach} of 60 objects cannot be found, so map_orig is at most 66.7"
    said = f"the file's list of classes has no class for sheep: {cost}"
    assert said in printed
    kept = json.loads((tmp_path / "run/results.json").read_text())["models"]["m"]["ceiling"]
    assert kept["childless"] == ["sheep"]
    assert said[1:].replace("'", "&#39;") in report_run(tmp_path / "run", ReportOptions()).read_text(encoding="utf-8")
    again = score_run(tmp_path / "run", ScoreRunOptions(), Silent()).results.models["m"]
    assert again.ceiling == top, "the run remembers what its file lacked"


def answers_of(dataset, change_box, change_label):
    boxes = dataset.boxes
    return BoxAnswers.of(
        boxes.frame,
        change_label(boxes.label),
        change_box(boxes.xyxy),
        np.full(len(boxes.frame), 0.9),
        n_frames=len(dataset.frames),
        n_classes=len(dataset.info.label_space),
        model="m",
    )


@pytest.mark.parametrize(
    ("box", "label", "doubt"),
    [
        (lambda box: 2 * box, lambda label: label, "its boxes fit the true objects only when multiplied by 0.5"),
        (lambda box: box, lambda label: (label + 1) % 3, "its boxes match 60 of the examined objects, but only 0%"),
        (lambda box: box, lambda label: label, None),
    ],
)
def test_a_detector_that_means_something_else_is_told_apart_from_a_bad_one(zoo, box, label, doubt):
    """Answers of a model that was run cannot be refused any more: the doubt stands beside its figures."""
    dataset = zoo.dataset(n_videos=12)
    rng = np.random.default_rng(0)
    low = np.stack([rng.uniform(0, 150, 60), rng.uniform(0, 60, 60)], axis=1)
    moved = np.concatenate([low, low + rng.uniform(20, 40, (60, 2))], axis=1)
    dataset = replace(dataset, boxes=replace(dataset.boxes, xyxy=moved))
    found = strobe.score(dataset, answers_of(dataset, box, label))
    if doubt is None:
        assert found.answers is None
    else:
        assert found.notes[0].startswith(doubt)
        assert found.answers.misread == (found.notes[0],)


def test_true_boxes_in_shares_are_not_scored(zoo):
    """A dataset that was imported with shares of the image before that was refused."""
    dataset = zoo.dataset(n_videos=12)
    shares = dataset.boxes.xyxy / np.array([200, 100, 200, 100])
    dataset = replace(dataset, boxes=replace(dataset.boxes, xyxy=shares))
    with pytest.raises(
        StrobeError, match="all 60 true boxes end within a pixel of the corner: they look like fractions"
    ):
        strobe.score(dataset, answers_of(dataset, lambda box: box * 100, lambda label: label))
