"""The background paper's comparison: the lines of docs/annexes/backgrounds.md, on rendered images and on a fixture in
the layouts of ILSVRC, ImageNet-A and ImageNet-A-Plus.
"""

import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_imports import refused, run
from PIL import Image

from strobe.core.people import NameAnswer
from strobe.store import dataset_folder as folder

torch = pytest.importorskip("torch")
timm = pytest.importorskip("timm")
pytest.importorskip("strobe.annexes.backgrounds.crops")
pytest.importorskip("strobe.annexes.train.detectors")

PAGE = Path(__file__).parents[3] / "docs/annexes/backgrounds.md"
RAY, DOG, FOX = "n01498041", "n02106662", "n02120505"  # stingray and German shepherd are in ImageNet-A, grey fox is not
SMALL = "--set steps=2 --set batch=2 --set pyramid=16 --image-size 64 --evaluations 1 --threads 1 -q"


def lines(title: str) -> list[str]:
    """The command lines of a section, continued ones joined."""
    section = PAGE.read_text(encoding="utf-8").partition(f"{title}\n")[2].partition("\n##")[0]
    return re.findall(r"^    (strobe .*)$", section.replace(" \\\n       ", ""), re.MULTILINE)


def _photo(path: Path, seed: int, size: tuple[int, int] = (48, 40)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """ILSVRC's training folders with Kaggle's boxes, ImageNet-A, its crops, and a small classifier of 1,000 classes."""
    rows = [("ImageId", "PredictionString")]
    for place, wnid in enumerate((RAY, DOG, FOX)):
        for number in range(4):
            name = f"{wnid}_{number}"
            _photo(tmp_path / "ILSVRC2012/train" / wnid / f"{name}.JPEG", 10 * place + number)
            if number < 3:  # ILSVRC has boxes for a part of its photos
                rows.append((name, f"{wnid} 4 5 30 35 {wnid} 20 8 44 30 " if number else f"{wnid} 2 2 40 38 "))
    rows.append(("n01440764_999", "n01440764 1 1 9 9 "))  # a photo that is not here
    with (tmp_path / "LOC_train_solution.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    for place, (wnid, name) in enumerate(
        [(RAY, "0.000116_digital clock _ fox_0.865662.jpg"), (RAY, "0.2_b.jpg"), (DOG, "0.1_c.jpg"), (DOG, "0.3_d.jpg")]
    ):
        _photo(tmp_path / "imagenet-a" / wnid / name, 100 + place)
        _photo(tmp_path / "imagenet-a-plus" / wnid / name, 200 + place, (20, 24))
    torch.manual_seed(5)
    torch.save(timm.create_model("test_resnet").state_dict(), tmp_path / "cls.pth")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STROBE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def _named(path: Path) -> None:
    """What two people may answer on the page of `review serve`: one is right on whole images, the other never."""
    data = folder.read(path)
    ids, keys = data.frame_ids(), data.frames.key.tolist()
    answers = [
        NameAnswer(
            answer_id=f"{who}-{row}", annotator=who, at="2026-01-01T00:00:00.000000Z", frame_id=ids[row], said="class",
            label=(RAY if (RAY in key) == (who == "Ann") else DOG), condition="anchor", seconds=1.0,
        )
        for row, key in enumerate(keys) if key.startswith("whole/") for who in ("Ann", "Bob")
    ]  # fmt: skip
    folder.append_answers(path, "names", answers)


def _backbones(run_folder: Path) -> dict[str, Any]:
    (one,) = json.loads((run_folder / "results.json").read_text())["studies"]["backbones"]
    return {**one, "rows": {row["role"]: row for row in one["rows"]}}


def test_the_lines_of_the_page_run_in_order(here: Path) -> None:
    shown = lines("### ImageNet-A")
    assert [line.split()[1] for line in shown] == ["import", "train", "import", "eval", "import", "review", "eval"]
    for line in shown:
        line = line.replace("timm:resnet50.a1_in1k@", "timm:test_resnet@").replace(
            "timm:resnet50.a1_in1k", "timm:test_resnet@cls.pth"
        )
        if line.startswith("strobe review serve"):
            _named(here / "data/cut")
            continue
        more = {"train": SMALL, "eval": "--no-report --device cpu"}.get(line.split()[1], "-q")
        said = run(*shlex.split(f"{line} {more}")[1:])
        if line.startswith("strobe eval"):
            assert "as classifier and as detector: timm:test_resnet" in said
    loc = folder.read(here / "data/loc")
    assert (loc.n_sets, loc.info.label_space.name) == (9, "ilsvrc-2012")  # photos without a box are left out
    assert loc.boxes is not None
    assert loc.boxes.xyxy.tolist()[:2] == [[2, 2, 40, 38], [4, 5, 30, 35]]
    natural, cut = _backbones(here / "run-a"), _backbones(here / "run-plus")
    assert natural["n"] == cut["n"] == 4
    assert list(natural["rows"]) == ["classifier", "detector", "detected-crop"]
    assert list(cut["rows"]) == ["classifier", "detector", "detected-crop", "oracle-crop"]
    assert cut["people"]["value"] == 0.5
    for row in cut["rows"].values():
        if row["role"] != "oracle-crop":  # nobody named a crop
            assert row["below_people"]["value"] == pytest.approx(0.5 - row["accuracy"]["value"])
    header = (here / "run-plus/tables/backbones.csv").read_text().splitlines()[0]
    assert header.startswith("backbone,n,role,model,accuracy,")
    assert "below_people" in header


def test_the_lines_on_rendered_images_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STROBE_CACHE", str(tmp_path / "cache"))
    shown = lines("## One backbone as classifier and as detector")
    assert [line.split()[1] for line in shown] == ["synthesize", "train", "train", "eval"]
    for line in shown:
        more = {"train": "--device cpu --evaluations 1 -q", "eval": "--device cpu"}.get(line.split()[1], "-q")
        run(*shlex.split(f"{line} {more}")[1:])
    found = _backbones(tmp_path / "same")
    assert (found["backbone"], found["n"]) == ("timm:test_resnet", 60)
    assert list(found["rows"]) == ["classifier", "detector", "detected-crop", "oracle-crop"]
    page = (tmp_path / "same/report.html").read_text(encoding="utf-8")
    assert "Does a detector do better?" in page
    assert "As classifier and as detector: timm:test_resnet" in page


def test_boxes_of_ilsvrc_that_cannot_be_read_are_one_line(here: Path) -> None:
    words = ("import", "photos", here / "ILSVRC2012/train", here / "out", "--boxes", here / "bad.csv")
    (here / "bad.csv").write_text(f"ImageId,PredictionString\n{RAY}_0,{RAY} 1 2 3\n")
    assert "bad.csv: line 2: not a list of boxes" in refused(*words)
    (here / "bad.csv").write_text(f"ImageId,PredictionString\nelsewhere,{RAY} 1 2 3 4\n")
    assert "bad.csv: it lists none of the photos" in refused(*words)
    (here / "bad.csv").write_text(f"ImageId,PredictionString\n{RAY}_0,{RAY} 1 two 3 4\n")
    assert "bad.csv: line 2: could not convert" in refused(*words)
    assert not (here / "out").exists()
