"""Trials of people who named images elsewhere: a tiny CSV by hand, what is refused and in which words."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image

from strobe.annexes.releases.trials import TrialFiles
from strobe.cli.main import cli
from strobe.core.errors import StrobeError
from strobe.store import dataset_folder as folder
from strobe.workflows.import_dataset import import_dataset
from strobe.workflows.inspect import inspect, lines

HEAD = "subj,session,trial,rt,object_response,category,condition,imagename"
ANN = [
    "ann,1,1,0.5,cat,cat,0,0001_pet_s01_0_cat_00_cat1.png",
    "ann,1,2,1.5,dog,dog,0,0002_pet_s01_0_dog_00_dog1.png",
    "ann,1,3,NaN,na,dog,0,0003_pet_s01_0_dog_00_dog2.png",
]
BO = [
    "bo,1,1,2.0,dog,dog,0,0001_pet_s02_0_dog_00_dog2.png",
    "bo,1,2,0.75,dog,cat,0,0002_pet_s02_0_cat_00_cat1.png",
    "bo,1,3,1.0,none,dog,0,0003_pet_s02_0_dog_00_dog1.png",
]


def trials(path: Path, *parts: list[str], head: str = HEAD) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(parts, start=1):
        (path / f"subject-{number}.csv").write_text("\n".join([head, *rows]) + "\n")
    return path


def test_a_tiny_study_by_hand_from_csv_to_results(tmp_path: Path) -> None:
    """Ann is right on two of three, one too late; bo on one of three. They share no error, and one success."""
    source = trials(tmp_path / "csv", ANN, BO)
    done = import_dataset("trials", source, tmp_path / "set", files=TrialFiles())
    data = folder.read(tmp_path / "set")
    assert done.notes[0] == "6 answers of 2 people"
    assert data.frames.key.tolist() == ["0_cat_00_cat1.png", "0_dog_00_dog1.png", "0_dog_00_dog2.png"]
    assert data.info.label_space.ids == ("cat", "dog")
    assert {(one.annotator, one.said, one.label, one.seconds) for one in data.names} == {
        ("ann", "class", "cat", 0.5), ("ann", "class", "dog", 1.5), ("ann", "late", "", None),
        ("bo", "class", "dog", 2.0), ("bo", "class", "dog", 0.75), ("bo", "none", "", 1.0),
    }  # fmt: skip
    assert "  names: 6 answers of 2 people" in list(lines(inspect(tmp_path / "set")))
    said = CliRunner().invoke(cli, ["score", str(tmp_path / "set"), "-o", str(tmp_path / "run"), "--json"])
    assert said.exit_code == 0, said.output
    (score,) = json.loads((tmp_path / "run/results.json").read_text())["people"]["scores"]
    assert (score["accuracy"]["count"], score["accuracy"]["n"]) == (3, 6)
    assert score["said"] == {"class": 4, "none": 1, "unsure": 0, "late": 1}
    assert (score["majority"]["count"], score["no_majority"]) == (0, 3)
    # ann 110, bo 001: observed 0, chance ⅔·⅓ + ⅓·⅔ = 4/9.
    assert score["consistency"]["value"] == pytest.approx((0 - 4 / 9) / (1 - 4 / 9))
    # No two agree on an image; of six answers one is cat, three dog, one none, one late.
    chance = (1 + 9 + 1 + 1) / 36
    assert score["fleiss_kappa"]["value"] == pytest.approx(-chance / (1 - chance))
    assert score["seconds"]["median"]["value"] == 1.0


def test_eval_and_report_need_no_model_where_people_named_pictures(tmp_path: Path) -> None:
    import_dataset("trials", trials(tmp_path / "csv", ANN, BO), tmp_path / "set", files=TrialFiles())
    said = CliRunner().invoke(cli, ["eval", str(tmp_path / "set"), "-o", str(tmp_path / "run"), "-q"])
    assert said.exit_code == 0, said.output
    assert re.search(r"2 people +50\.0", said.output)
    assert "People get 50.0" in (tmp_path / "run/report.html").read_text()
    preds = tmp_path / "net.csv"
    preds.write_text("frame,label\n" + "".join(f"{key},dog\n" for key in folder.read(tmp_path / "set").frames.key))
    said = CliRunner().invoke(
        cli, ["eval", str(tmp_path / "set"), "-m", f"net=preds:{preds}", "-o", str(tmp_path / "run"), "--no-report"]
    )
    assert said.exit_code == 0, said.output
    (score,) = json.loads((tmp_path / "run/results.json").read_text())["people"]["scores"]
    (net,) = score["models"]
    assert (net["accuracy"]["count"], net["accuracy"]["n"]) == (2, 3)
    assert net["difference"]["value"] == pytest.approx(1 / 2 - 2 / 3)
    # net 011: with ann 110 observed ⅓, chance 5/9; with bo 001 observed ⅔, chance 4/9.
    assert net["consistency"]["value"] == pytest.approx(((1 / 3 - 5 / 9) / (4 / 9) + (2 / 3 - 4 / 9) / (5 / 9)) / 2)
    for name in ("people", "people_models", "people_consistency", "headline"):
        assert (tmp_path / f"run/tables/{name}.csv").is_file()


def test_pictures_come_with_their_names(tmp_path: Path) -> None:
    source, images = trials(tmp_path / "csv", ANN, BO), tmp_path / "images" / "deep"
    images.mkdir(parents=True)
    for number, name in enumerate(("0_cat_00_cat1.png", "0_dog_00_dog1.png", "0_dog_00_dog2.png")):
        Image.new("RGB", (8, 6), (number, 0, 0)).save(images / f"000{number}_pet_dnn_{name}")
    import_dataset("trials", source, tmp_path / "set", files=TrialFiles(images=tmp_path / "images"))
    data = folder.read(tmp_path / "set")
    assert all((tmp_path / "set" / media).is_file() for media in data.frames.media)
    assert data.frames.width.tolist() == [8, 8, 8]
    # The pictures' identity is their name: the same with and without the files.
    import_dataset("trials", source, tmp_path / "bare", files=TrialFiles())
    assert folder.read(tmp_path / "bare").frame_ids() == data.frame_ids()
    (images / "0000_pet_dnn_0_cat_00_cat1.png").unlink()
    with pytest.raises(StrobeError, match=r"1 of 3 images are not below .*first 0_cat_00_cat1.png"):
        import_dataset("trials", source, tmp_path / "other", files=TrialFiles(images=tmp_path / "images"))


def test_the_same_again_adds_nothing_and_one_person_more_is_added(tmp_path: Path) -> None:
    source = trials(tmp_path / "csv", ANN)
    import_dataset("trials", source, tmp_path / "set", files=TrialFiles())
    again = import_dataset("trials", source, tmp_path / "set", files=TrialFiles())
    assert again.notes[0] == "it already exists; nothing was changed"
    assert len(folder.read(tmp_path / "set").names) == 3
    trials(tmp_path / "csv", ANN, BO)
    more = import_dataset("trials", source, tmp_path / "set", files=TrialFiles())
    assert more.notes[0] == "3 answers were added"
    assert len(folder.read(tmp_path / "set").names) == 6
    trials(tmp_path / "csv", [ANN[0].replace("0.5,cat", "0.5,dog"), *ANN[1:]], BO)
    with pytest.raises(StrobeError, match="already has a different answer of ann"):
        import_dataset("trials", source, tmp_path / "set", files=TrialFiles())
    assert len(folder.read(tmp_path / "set").names) == 6


def test_columns_that_are_not_needed_and_names_without_a_prefix(tmp_path: Path) -> None:
    head = "Subj,object_response,category,imagename"
    rows = ["ann,unsure,cat,a.png", "ann,dog,dog,b.png", "", "bo,cat,cat,a.png"]
    data = import_dataset(
        "trials", trials(tmp_path / "csv", rows, head=head), tmp_path / "set", files=TrialFiles()
    ).dataset
    assert data.frames.key.tolist() == ["a.png", "b.png"]
    assert [one.said for one in data.names] == ["unsure", "class", "class"]
    assert {one.seconds for one in data.names} == {None}


def test_classes_that_were_never_shown_can_be_named(tmp_path: Path) -> None:
    source = trials(tmp_path / "csv", [ANN[0].replace("0.5,cat", "0.5,owl"), *ANN[1:]])
    with pytest.raises(StrobeError, match=r"subject-1.csv: line 2: object_response: 'owl' is not one of the 2 classes"):
        import_dataset("trials", source, tmp_path / "set", files=TrialFiles())
    data = import_dataset("trials", source, tmp_path / "set", files=TrialFiles(classes=("owl", "cat", "dog"))).dataset
    assert data.info.label_space.ids == ("owl", "cat", "dog")
    assert data.names[0].label == "owl"


BAD = {
    "unknown class": ([ANN[0].replace("cat,cat", "kat,cat"), *ANN[1:]], r"line 2: object_response: 'kat' .*mean cat\?"),
    "empty answer": ([ANN[0].replace("cat,cat", ",cat")], r"line 2: object_response: empty; write na"),
    "time in words": ([ANN[0], ANN[1].replace("1.5", "fast")], r"line 3: rt: expected seconds .*'fast'"),
    "negative time": ([ANN[0].replace("0.5", "-1")], r"line 2: rt: expected seconds .*'-1'"),
    "endless time": ([ANN[0].replace("0.5", "inf")], r"line 2: rt: expected seconds .*'inf'"),
    "an image twice": (
        [*ANN, ANN[0].replace("1,1,", "1,4,", 1)],
        r"line 5: ann already answered 0_cat_00_cat1.png at sub",
    ),
    "a trial twice": (
        [*ANN, ANN[0].replace("cat1", "cat9")],
        r"line 5: trial 1 of session 1 of ann also appears at .*two peo",
    ),
    "two spellings": ([ANN[0], ANN[1].replace("ann", "Ann")], r"line 3: the name 'Ann' differs from 'ann'"),
    "one person, two names": ([ANN[0], ANN[1].replace("ann", "anna")], r"line 3: image names use s01 .*use one name"),
    "two people, one name": (
        [ANN[0], ANN[1].replace("s01", "s02")],
        r"line 3: image names for ann use s02 .*unique name",
    ),
    "two classes": (
        [ANN[2], BO[0].replace("dog,dog", "dog,cat")],
        r"line 3: 0_dog_00_dog2.png has the category cat here",
    ),
    "short row": ([ANN[0], "ann,1"], r"line 3: 2 cells, expected 8"),
    "no name": ([ANN[0].replace("ann", "")], r"line 2: subj: empty"),
    "strange name": ([ANN[0].replace("ann", "<b>")], r"line 2: name: expected"),
    "no image": ([ANN[0].replace("0_cat_00_cat1.png", "")], r"line 2: imagename: .* is not the name of an image"),
    "nothing": ([], "it contains no trials"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_are_refused_in_one_line_and_nothing_is_written(tmp_path: Path, case: str) -> None:
    rows, words = BAD[case]
    with pytest.raises(StrobeError, match=words) as refused:
        import_dataset("trials", trials(tmp_path / "csv", rows), tmp_path / "set", files=TrialFiles())
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "set").exists()
