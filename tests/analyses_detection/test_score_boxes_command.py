"""`strobe score` on a file of boxes: figures, and one line with exit code 2 for whatever is wrong with it."""

import json

import pytest

from strobe.cli.main import main
from strobe.datasets import folder


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


@pytest.fixture
def strobe(capsys):
    """The command line in this process: (exit code, stdout, stderr)."""

    def run(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        out = capsys.readouterr()
        return left.value.code, out.out, out.err

    return run


def test_figures_from_coco_results(place, strobe):
    code, out, err = strobe(
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
    code, out, err = strobe("score", place / "run", "--iou", "0.5:0.95", "--json", "-q")
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
def test_what_is_wrong_is_one_line_and_exit_code_2(place, strobe, tmp_path, change, message):
    rows = json.loads((place / "boxes.json").read_text())
    change(rows)
    (tmp_path / "bad.json").write_text(json.dumps(rows))
    code, _, err = strobe("score", place / "zoo", "-m", f"preds:{tmp_path / 'bad.json'}", "-q")
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
