"""`strobe score` on a file of boxes: figures, and one line with exit code 2 for whatever is wrong with it."""

import json

import pytest

from strobe.store import dataset_folder as folder


@pytest.fixture(scope="module")
def place(tmp_path_factory, zoo):
    """A dataset folder and its perfect answer with one fox called sheep, as COCO results."""
    root = tmp_path_factory.mktemp("score")
    dataset = zoo.dataset()
    folder.write(dataset, root / "zoo")
    rows = []
    for row, key in enumerate(dataset.frames.key):
        x0, y0, x1, y1 = dataset.boxes.xyxy[row].tolist()
        label = dataset.info.label_space.names[int(dataset.boxes.label[row])]
        rows.append(
            {"image_id": str(key), "category_id": label, "bbox": [x0, y0, x1 - x0, y1 - y0], "score": 0.9 - row / 100}
        )
    rows[3]["category_id"] = "sheep"
    (root / "boxes.json").write_text(json.dumps(rows))
    return root


def test_figures_from_coco_results(place, command):
    code, out, err = command(
        "score", place / "zoo", "-m", f"preds:{place / 'boxes.json'}", "-o", place / "run", "--json", "-q"
    )
    assert code == 0, err
    model = json.loads(out)["models"]["boxes"]
    assert model["task"] == "detection"
    assert model["map_orig"]["value"] == 1.0
    assert model["map_pmk"]["value"] == pytest.approx((51 / 101 + 1 / 2 + 1) / 3)
    assert model["localization"]["map_pmk"]["value"] == 1.0
    assert model["errors"]["classification"] == 1
    # The run keeps the boxes: it is scored again without the file, with other settings.
    code, out, err = command("score", place / "run", "--iou", "0.5:0.95", "--json", "-q")
    assert code == 0, err
    assert len(json.loads(out)["models"]["boxes"]["settings"]["iou"]) == 10


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[0].update(bbox=[0, 0, float("nan"), 3]), "NaN or infinity"),
        (lambda rows: rows[0].update(category_id="wolf"), "unknown class"),
        (lambda rows: rows[0].update(image_id="nowhere.png"), "are not in zoo"),
        (lambda rows: rows.pop(0), "frames have no box"),
        (lambda rows: rows.insert(0, 7), "cannot be read as a result"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_code_2(place, command, tmp_path, change, message):
    rows = json.loads((place / "boxes.json").read_text())
    change(rows)
    (tmp_path / "bad.json").write_text(json.dumps(rows))
    code, _, err = command("score", place / "zoo", "-m", f"preds:{tmp_path / 'bad.json'}", "-q")
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1


def tree(path):
    return (
        {one.relative_to(path): one.read_bytes() for one in path.rglob("*") if one.is_file()} if path.exists() else {}
    )


def test_boxes_from_a_file_are_a_model_like_any_other(place, command, tmp_path):
    models = ["-m", f"preds:{place / 'boxes.json'}", "-m", f"other=preds:{place / 'boxes.json'}"]
    code, _, err = command("eval", place / "zoo", *models, "-o", tmp_path / "run", "-q")
    assert code == 0, err
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert "no report" not in err
    assert "boxes" in page
    assert (tmp_path / "run/tables/detection.csv").is_file()
    code, out, err = command("compare", tmp_path / "run")
    assert code == 0, err
    assert "boxes" in out
    assert "by the class of their most confident box" in err
    code, _, err = command("report", tmp_path / "run", "-q")
    assert code == 0, err
    code, out, err = command("predict", place / "zoo", *models, "-o", tmp_path / "predicted", "-q")
    assert code == 0, err
    assert "stored in the run folder" in out
    code, out, err = command("score", tmp_path / "predicted", "--json", "-q")
    assert list(json.loads(out)["models"]) == ["boxes", "other"]


def test_as_many_boxes_as_frames_and_as_few(place, command, tmp_path):
    rows = json.loads((place / "boxes.json").read_text())
    assert len(rows) == 20
    (tmp_path / "none.json").write_text(json.dumps({"images": [], "categories": [], "annotations": []}))
    code, _, err = command(
        "eval", place / "zoo", "-m", f"preds:{tmp_path / 'none.json'}", "-o", tmp_path / "run", "--empty-frames", "-q"
    )
    assert code == 0, err
    results = json.loads((tmp_path / "run/results.json").read_text())
    assert results["models"]["none"]["task"] == "detection"
    assert results["models"]["none"]["map_orig"]["value"] == 0.0


@pytest.mark.parametrize(
    ("change", "more", "message"),
    [
        (lambda rows: rows[0].update(category_id="wolf"), [], "unknown class"),
        (lambda rows: rows.pop(0), [], "frames have no box"),
        (lambda rows: rows.clear(), ["--allow-missing"], "nothing can be scored"),
        (lambda rows: rows[0].update(bbox=[0, 0, -4, 3]), [], "negative"),
    ],
)
@pytest.mark.parametrize("verb", ["score", "eval", "predict"])
def test_a_refused_file_leaves_nothing_behind(place, command, tmp_path, change, more, message, verb):
    rows = json.loads((place / "boxes.json").read_text())
    change(rows)
    (tmp_path / "bad.json").write_text(json.dumps(rows))
    if verb == "predict" and more:
        return  # it has no such option, and scores nothing
    words = [verb, place / "zoo", "-m", f"preds:{tmp_path / 'bad.json'}", "-o"]
    code, _, err = command(*words, tmp_path / "new", *more, "-q")
    assert code == 2, err
    assert message in err
    assert not (tmp_path / "new").exists()
    assert command("score", place / "zoo", "-m", f"preds:{place / 'boxes.json'}", "-o", tmp_path / "run", "-q")[0] == 0
    before = tree(tmp_path / "run")
    assert command(*words, tmp_path / "run", *more, "-q")[0] == 2
    assert tree(tmp_path / "run") == before
    assert command("score", tmp_path / "run", "-q")[0] == 0


def test_boxes_on_a_dataset_without_boxes_leave_nothing_behind(place, command, tmp_path, zoo):
    folder.write(zoo.dataset(boxes=False), tmp_path / "plain")
    words = ["score", tmp_path / "plain", "-m", f"preds:{place / 'boxes.json'}", "-o", tmp_path / "run", "-q"]
    code, _, err = command(*words)
    assert code == 2
    assert "no boxes" in err
    assert not (tmp_path / "run").exists()
