"""Where is it? from answers to figures, a dataset with boxes, and a crop set; suggestions; boxes from CSV."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from strobe.annexes.web.review import workflow as review
from strobe.annexes.web.review.suggest import suggestions
from strobe.cli.main import main
from strobe.core.answers import BoxAnswers
from strobe.core.errors import InvalidFile, StrobeError
from strobe.core.people import BoxAnswer
from strobe.formats.import_photos import PhotoFiles
from strobe.store import dataset_folder as folders
from strobe.workflows.import_dataset import import_dataset


def word(dataset, number, annotator, box, *, stage="draw", at=0, label=None, suggested=False):
    row = int(dataset.sets.anchor_frame[number])
    space = dataset.info.label_space
    return BoxAnswer(
        answer_id=f"{annotator}-{number}-{stage}", annotator=annotator, at=f"2026-01-01T00:00:{at:02}.000000Z",
        stage=stage, frame_id=dataset.frame_ids()[row], label=label or space.ids[dataset.labels_of(row)[0]],
        decision="keep" if box else "discard", xyxy=box, reason="" if box else "several", suggested=suggested,
        seconds=3.0,
    )  # fmt: skip


@pytest.fixture
def boxed(small):
    """The small dataset, boxed by two people: alike, apart, and once discarded by both."""
    said = [
        word(small, 0, "Ann", (40, 30, 140, 130)), word(small, 0, "Bo", (42, 30, 142, 131)),
        word(small, 1, "Ann", (10, 10, 60, 60)), word(small, 1, "Bo", (10, 10, 60, 180)),
        word(small, 2, "Ann", None), word(small, 2, "Bo", None),
    ]  # fmt: skip
    folders.append_answers(small.root, "drawn", said)
    return folders.read(small.root)


@pytest.fixture
def run(capsys):
    """Runs a command as the shell does: exit code and everything it said."""

    def one(*arguments):
        with pytest.raises(SystemExit) as left:
            main([str(one) for one in arguments])
        said = capsys.readouterr()
        return SimpleNamespace(exit_code=left.value.code, output=said.out, error=said.err)

    return one


def test_status_says_what_is_kept_and_how_far_people_agree(boxed, run):
    shown = run("review", "status", boxed.root, "--ask", "box")
    assert shown.exit_code == 0, shown.error
    assert "3 of 3 images answered: 2 kept, 1 not" in shown.output
    assert "reasons to discard: several 2" in shown.output
    assert "1 image on which people disagree, pending: Ann 1, Bo 1" in shown.output
    assert "median overlap (IoU)  0.62" in shown.output
    assert not (boxed.root / "review.sqlite").exists(), "looking makes no store"
    figures = json.loads(run("review", "status", boxed.root, "--ask", "box", "--json").output)
    assert figures["table"] == {"pictures": 3, "answered": 3, "kept": 2, "discarded": 1}
    assert figures["disagreed"]["count"] == 1
    assert figures["unsettled"] == 1
    assert [one["person"] for one in figures["people"]] == ["Ann", "Bo"]


def test_inspect_says_that_people_drew_boxes(boxed, run):
    assert "drawn boxes: 6 answers of 2 people" in run("inspect", boxed.root).output


def test_export_writes_answers_figures_a_dataset_and_crops(boxed, tmp_path, run):
    before = {path: path.read_bytes() for path in boxed.root.glob("*.parquet")}
    out, crops = tmp_path / "boxed", tmp_path / "crops"
    done = run("review", "export", boxed.root, "--ask", "box", "-o", out, "--crops", crops)
    assert done.exit_code == 0, done.error
    assert f"written: {boxed.root}/drawn.parquet, drawn.json, {out}/, {crops}/" in done.output
    assert "1 image not reviewed in round two" in done.error
    assert {path: path.read_bytes() for path in before} == before, "nothing of the dataset is changed"
    made = folders.read(out)
    assert made.sets.set_id.tolist() == ["set0", "set1"]
    assert [made.boxes.of_frame(row)[0].xyxy for row in made.sets.anchor_frame.tolist()] == [
        (41, 30, 141, 130.5), (10, 10, 60, 120),
    ]  # fmt: skip
    assert made.drawn == ()
    assert made.info.provenance["boxed_from"] == boxed.digest()
    assert (out / made.frames.media[0]).is_file()
    manifest = json.loads((crops / "manifest.json").read_text())
    assert [entry["file"] for entry in manifest["crops"]] == ["n01/clip0__frame2.jpg", "n02/clip1__frame2.jpg"]
    assert manifest["crops"][1]["agreement"] == pytest.approx(50 / 170)
    with Image.open(crops / "n01/clip0__frame2.jpg") as picture:
        assert picture.size == (100, 101)
    again = import_dataset("photos", crops, tmp_path / "again", files=PhotoFiles()).dataset
    assert [again.info.label_space.ids[label] for label in again.labels.label] == ["n01", "n02"]
    figures = json.loads((boxed.root / "drawn.json").read_text())
    assert figures["schema"] == 1
    once = {path: path.stat().st_mtime_ns for path in crops.rglob("*.jpg")}
    assert run("review", "export", boxed.root, "--ask", "box", "-o", out, "--crops", crops).exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in once} == once, "again: nothing is cut twice"


def test_more_answers_do_not_change_what_was_exported(boxed, tmp_path, run):
    out, crops = tmp_path / "boxed", tmp_path / "crops"
    review.export(boxed.root, ask="box", out=out, crops=crops)
    folders.append_answers(boxed.root, "drawn", [word(boxed, 1, "Bo", (10, 10, 60, 61), stage="verify", at=9)])
    for option, place in (("-o", out), ("--crops", crops)):
        done = run("review", "export", boxed.root, "--ask", "box", option, place)
        assert done.exit_code == 2
        assert "choose another folder or remove it first" in done.error


def test_votes_decide_which_sets_get_boxes(boxed, tmp_path):
    from strobe.core.records import Verdict

    ids = boxed.frame_ids()
    votes = [
        Verdict(
            verdict_id=f"v{number}-{row}", annotator="Ann", at="2026-01-01", stage="pair",
            set_id=str(boxed.sets.set_id[number]), frame_id=ids[row], decision="similar", bad_anchor=number == 0,
        )
        for number in range(3)
        for row in boxed.sets.frame[(boxed.sets.set == number) & ~boxed.sets.is_anchor].tolist()
    ]  # fmt: skip
    folders.append_verdicts(boxed.root, votes)
    review.export(boxed.root, ask="box", out=tmp_path / "boxed")
    made = folders.read(tmp_path / "boxed")
    assert made.sets.set_id.tolist() == ["set1"], "the set of the bad anchor stays dropped"
    assert made.info.reviewed == "release"


def test_options_of_other_questions_are_refused(boxed, tmp_path, run):
    cases = [
        (("export", boxed.root, "--crops", tmp_path / "c"), "--crops crops images"),
        (("export", boxed.root, "--ask", "name", "-o", tmp_path / "c"), "--out writes sets"),
        (("serve", boxed.root, "--no-open", "--suggest", "run"), "--suggest only works with --ask box"),
        (("serve", boxed.root, "--no-open", "--agree", "0.5"), "--agree only works with --ask box"),
        (("serve", boxed.root, "--no-open", "--ask", "box", "--agree", "1.5"), "--agree"),
        (("serve", boxed.root, "--no-open", "--ask", "box", "--labels"), "--labels only works with --ask pairs"),
        (("serve", boxed.root, "--no-open", "--ask", "box", "--suggest", tmp_path / "no"), "no such run folder"),
        (("serve", boxed.root, "--no-open", "--ask", "box", "--suggest", "preds:no.json"), "no such file"),
    ]
    for arguments, message in cases:
        done = run("review", *arguments)
        assert done.exit_code == 2, arguments
        assert message in done.error, arguments


def test_no_answers_and_no_labels_are_said(small):
    with pytest.raises(StrobeError, match="no answers to --ask box to export yet"):
        review.export(small.root, ask="box")
    nothing = np.zeros(0, dtype=np.int64)
    bare = replace(small, labels=replace(small.labels, frame=nothing, label=nothing))
    from strobe.annexes.web.review.boxing import BoxQuestion
    from strobe.annexes.web.review.conduct import ReviewOptions

    with pytest.raises(StrobeError, match="no anchor has a label"):
        BoxQuestion().plan(bare, ReviewOptions(), secret=b"s")


def test_boxes_from_csv_and_what_is_refused_with_its_line(small, tmp_path, run):
    file = tmp_path / "boxes.csv"
    head = "frame,label,x0,y0,x1,y1,reason,annotator\n"
    file.write_text(
        head + "clip0/frame2,cat,1,2,30,40,,Ann\nclip1/frame2,dog,,,,,absent,Ann\nelsewhere,cat,1,1,2,2,,Ann\n"
    )
    done = run("review", "import", small.root, file, "--ask", "box")
    assert done.exit_code == 0, done.error
    assert "2 votes read, 2 new; 1 skipped because they are about frames outside the dataset" in done.output
    assert "0 new" in run("review", "import", small.root, file, "--ask", "box").output
    assert review.status(small.root, ask="box")["table"]["kept"] == 1
    for line, message in {
        "clip0/frame2,cat,1,2,1,40,,Bo": "no area",
        "clip0/frame2,cat,1,2,321,40,,Bo": "not inside the image of 320×200",
        "clip0/frame2,zebra,1,2,30,40,,Bo": "zebra",
        "clip0/frame2,cat,1,2,x,40,,Bo": "expected four numbers",
        "clip0/frame2,cat,1,2,,40,,Bo": "expected four numbers",
        "clip0/frame2,cat,,,,,,Bo": "a reason, because the image is discarded",
        "clip0/frame2,cat,1,2,30,40,,ANN": "Ann",
    }.items():
        file.write_text(head + line + "\n")
        with pytest.raises(InvalidFile, match=r"boxes\.csv: line 2: .*" + message):
            review.import_votes(small.root, file, annotator="imported", ask="box")
    assert review.status(small.root, ask="box")["answers"] == 2


def test_what_csv_export_writes_comes_in_again(boxed, tmp_path, helpers, run):
    assert run("export", boxed.root, "csv", tmp_path / "csv", "--candidates").exit_code == 0
    other = helpers.make_dataset(tmp_path / "other")
    found = review.import_votes(other.root, tmp_path / "csv/drawn.csv", annotator="x", ask="box")
    assert found == {"read": 6, "added": 6, "elsewhere": 0}
    review.export(other.root, ask="box")
    assert set(folders.read(other.root).drawn) == set(boxed.drawn)


def test_suggestions_from_a_file_and_from_a_run(small, tmp_path):
    keys = ("clip0/frame2", "clip1/frame2", "clip9/not-here")
    rows = [{"image_id": key, "category_id": "cat", "bbox": [10, 20, 100.4, 90.6], "score": 0.9} for key in keys]
    file = tmp_path / "found.json"
    file.write_text(json.dumps(rows))
    found = suggestions(small, f"preds:{file}")
    ids = small.frame_ids()
    assert found == {ids[int(small.sets.anchor_frame[number])]: (10, 20, 110, 111) for number in (0, 1)}
    from strobe.store.brought import keep_brought
    from strobe.store.frame_names import FrameNames
    from strobe.store.run_folder import Run

    run_folder = Run(tmp_path / "run")
    answers = BoxAnswers.of(
        np.array([2]), np.array([0]), np.array([[1.0, 2.0, 50.0, 60.0]]), np.array([0.5]), n_frames=len(small.frames),
        n_classes=4, model="finder",
    )  # fmt: skip
    run_folder.record(small, path=small.root, changes={})
    keep_brought(run_folder.path, answers, frames=FrameNames(small), source=file, facts={})
    assert suggestions(small, str(run_folder.path)) == {ids[2]: (1, 2, 50, 60)}
    assert suggestions(small, f"finder={run_folder.path}") == {ids[2]: (1, 2, 50, 60)}
    with pytest.raises(StrobeError, match="no predictions of nobody"):
        suggestions(small, f"nobody={run_folder.path}")
    keep_brought(
        run_folder.path, replace(answers, model="other"), frames=FrameNames(small), source=file,
        facts={},
    )  # fmt: skip
    with pytest.raises(StrobeError, match=r"several detectors \(finder, other\)"):
        suggestions(small, str(run_folder.path))
