"""strobe eval on videos without labels: one command, resuming, other commands on the run, and bad input."""

import json
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_unlabelled import MODELS, clip
from PIL import Image

import strobe
from strobe.core.errors import StrobeError
from strobe.store import dataset_folder as folder

av = pytest.importorskip("av")

QUICK = ("--bootstrap", "100", "--workers", "1", "--no-report")


def sound(path: Path) -> Path:
    """Write a file without a video stream."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16000)
        for index in range(20):
            chunk = av.AudioFrame.from_ndarray(np.zeros((1, 1024), dtype=np.float32), format="fltp", layout="mono")
            chunk.sample_rate, chunk.pts = 16000, index * 1024
            container.mux(stream.encode(chunk))
        container.mux(stream.encode(None))
    return path


Called = Callable[..., str]
GAPPY = """
def gappy():
    from strobe.models.detectors.py import detector
    def forward(images):
        none = (np.zeros((0, 4)), np.zeros(0, dtype=int), np.zeros(0))
        seen = (np.array([[1.0, 1, 9, 9]]), np.array([0]), np.array([0.9]))
        return [none if mean_colour([image])[0].argmax() == 1 else seen for image in images]
    return detector(forward, ["red", "green"], name="gappy")
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with models and two clips, in which every command runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text(MODELS, encoding="utf-8")
    clip(tmp_path / "clip.mkv", "r" * 10 + "g" + "r" * 14)
    clip(tmp_path / "more/other.mkv", "b" * 15)
    return tmp_path


def evaluated(called: Called, *words: object, model: str = "make", out: str = "run", code: int = 0) -> str:
    return called("eval", *words, "-m", f"py:m.py:{model}", "-o", out, *QUICK, code=code)


def provenance(out: str = "run") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(out, "dataset/dataset.json").read_text(encoding="utf-8"))["provenance"]
    return found


def stored(root: Path) -> dict[str, bytes]:
    """Return the files of a run that do not contain times."""
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and path.name not in ("run.json", "model.json")]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files if ".build" not in path.parts}


# -- one command -------------------------------------------------------------------------------------------------


def test_videos_become_sets_that_cover_them(called: Called) -> None:
    evaluated(called, "clip.mkv", "more", "--k", 2)
    data = folder.read(Path("run/dataset"))
    assert data.info.label_space.ids == ("red", "green", "blue")
    assert (data.info.k, data.boxes, len(data.labels.frame)) == (2, None, 0)
    assert data.hints is not None
    members = data.sets.frame.tolist()
    assert len(members) == len(set(members)) == 40, "an anchor every 5 frames: each of the 25 + 15 frames in one set"
    assert (data.n_sets, set(data.frames.media)) == (8, {""}), "frames stay in the videos"
    assert Path("m.py").with_name("loads.txt").read_text() == "x", "the model is loaded once"
    results = json.loads(Path("run/results.json").read_text(encoding="utf-8"))
    assert (results["models"], results["dataset"]["n_sets"]) == ({}, 8)


def test_the_same_command_does_nothing_again_and_another_model_joins(called: Called) -> None:
    evaluated(called, "clip.mkv", "--k", 2)
    before = stored(Path("run"))
    evaluated(called, "clip.mkv", "--k", 2)
    assert stored(Path("run")) == before
    evaluated(called, "clip.mkv", model="turned")
    assert sorted(path.name for path in Path("run/predictions").iterdir()) != []
    assert stored(Path("run/dataset")) == {
        name.removeprefix("dataset/"): content for name, content in before.items() if name.startswith("dataset/")
    }
    again = json.loads(Path("run/run.json").read_text(encoding="utf-8"))
    assert list(again["models"]) == ["py:m.py:make", "py:m.py:turned"]


def test_a_run_can_be_moved_and_its_videos_too(called: Called, place: Path) -> None:
    evaluated(called, "clip.mkv", "--k", 2)
    assert json.loads(Path("run/run.json").read_text(encoding="utf-8"))["dataset"]["path"] == "dataset"
    Path("run").rename("moved")
    called("score", "moved", "--bootstrap", 100)
    called("report", "moved", "-q")
    assert (place / "moved/report.html").is_file()
    called("predict", "moved/dataset", "-m", "py:m.py:turned", "-o", "moved", "-q", "--workers", 1)
    Path("elsewhere").mkdir()
    Path("clip.mkv").rename("elsewhere/clip.mkv")
    evaluated(called, "elsewhere/clip.mkv", model="wider", out="moved", code=2)  # it has other classes
    called("eval", "elsewhere/clip.mkv", "-m", "n=py:m.py:make", "-o", "moved", *QUICK)
    assert folder.read(Path("moved/dataset")).videos.path.tolist() == [str(place / "elsewhere/clip.mkv")]


def test_classes_from_a_file_or_a_shipped_space(called: Called) -> None:
    Path("classes.txt").write_text("\ufeffblue\n\nred\ngreen\n", encoding="utf-8")
    evaluated(called, "clip.mkv", "--label-space", "classes.txt", "--k", 2)
    assert folder.read(Path("run/dataset")).info.label_space.ids == ("blue", "red", "green")
    Path("classes.json").write_text('["blue", "red"]', encoding="utf-8")
    called("eval", "clip.mkv", "-m", "py:m.py:make", "-m", "py:m.py:wider", "-o", "two", "--label-space",
           "classes.json", *QUICK)  # fmt: skip
    assert len(folder.read(Path("two/dataset")).info.label_space) == 2
    evaluated(called, "clip.mkv", "--label-space", "classes.json", code=2)


def test_sets_without_labels_stop_at_the_first_other_answer(called: Called) -> None:
    clip(Path("long.mkv"), "ggggggggrrrrrgbrrrrrrgggg")
    words = ("clip.mkv", "long.mkv", "--k", 5, "--every", 1)
    evaluated(called, *words)
    said = evaluated(called, *words, "--stop-early", out="early")
    assert "stopped early, ran " in said
    full, early = (json.loads(Path(run, "results.json").read_text())["flicker"] for run in ("run", "early"))
    for name, one in early["models"].items():
        whole = full["models"][name]
        assert (one["flicker"], one["consistency"]) == (whole["flicker"], whole["consistency"])
        assert one["flip_rate"]["value"] is None
        assert one["stopped_early"]["ran"] < one["stopped_early"]["frames"]
    called("report", "early", "-q")
    evaluated(called, *words, out="early")  # a full run completes it
    assert json.loads(Path("early/results.json").read_text())["flicker"] == full


def test_python_takes_videos(place: Path) -> None:
    def colour(images: Sequence[Any]) -> Any:
        return np.array([image.reshape(-1, 3).mean(axis=0) for image in images], dtype=np.float32)

    done = strobe.evaluate(
        ["clip.mkv", place / "more"], {"mine": colour}, "run", labels=["red", "green", "blue"], k=2, report=False
    )
    assert (done.scores, done.failed, done.results.dataset.n_sets) == ({}, {}, 8)
    again = strobe.evaluate("clip.mkv", "py:m.py:make", "two", label_space=["green", "red"], every=4, report=False)
    assert again.results.dataset.n_sets == 4
    Path("broken.mp4").write_bytes(b"no video")
    with pytest.warns(UserWarning, match=r"skipped: broken\.mp4"):
        strobe.evaluate(["clip.mkv", "broken.mp4"], "py:m.py:make", "three", report=False)
    with pytest.raises(StrobeError, match="need a dataset that names their frames"):
        strobe.evaluate("clip.mkv", strobe.ClassAnswers.from_labels("old", [0]), "four")
    dataset = strobe.build("clip.mkv", "data", unlabelled=True, label_space=["red", "green"], k=2)
    assert dataset.info.label_space.ids == ("red", "green")


# -- other videos, options and models in the same run ------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("clip.mkv", "more"), "run is a run on other videos (clip)"),
        (("changed/clip.mkv",), "is not the video that run was made with"),
        (("clip.mkv", "--k", "3"), "run was made with --k 2 and --every 5"),
        (("clip.mkv", "--every", "2"), "run was made with --k 2 and --every 5"),
        (("clip.mkv", "--label-space", "coco-80"), "run was made with other classes (m classes)"),
    ],
)
def test_a_run_keeps_its_videos_and_options(called: Called, place: Path, words: tuple[str, ...], said: str) -> None:
    clip(place / "changed/clip.mkv", "rrrrgrrrr")
    evaluated(called, "clip.mkv", "--k", 2)
    before = stored(Path("run"))
    (error,) = evaluated(called, *words, code=2).strip().splitlines()
    assert said in error
    assert stored(Path("run")) == before


def test_models_with_other_classes_are_refused_with_a_way_out(called: Called) -> None:
    words = [word for model in ("broken", "make", "turned", "other", "wider") for word in ("-m", f"py:m.py:{model}")]
    said = called("eval", "clip.mkv", *words, "-o", "run", "-q", *QUICK, code=1)
    assert "failed: py:m.py:other: its 3 classes are not the 3 classes of py:m.py:make" in said
    assert "failed: py:m.py:wider: its 4 classes are not the 3 classes of py:m.py:make" in said
    assert all(part in said for part in ("choose another folder with -o", "--label-space", "it does not load"))
    models = json.loads(Path("run/run.json").read_text(encoding="utf-8"))["models"]
    assert [name for name, facts in models.items() if facts["status"] == "done"] == ["py:m.py:make", "py:m.py:turned"]


def test_a_detector_is_followed_by_its_boxes(called: Called) -> None:
    said = evaluated(called, "clip.mkv", model="blobs", out="links")
    assert "boxes without labels" in said
    found = json.loads(Path("links/results.json").read_text(encoding="utf-8"))
    assert (found["models"], list(found["flicker"]["detectors"])) == ({}, ["py:m.py:blobs"])
    called("report", "links", "-q")
    page = Path("links/report.html").read_text(encoding="utf-8").split("<script")[0]
    assert "Of every minute that an object lives" in page
    assert "mAP" not in page
    assert "acc_orig" not in page


def test_a_detector_needs_boxes_where_there_are_labels(called: Called) -> None:
    called("eval", "clip.mkv", "-m", "boxes:py:m.py:blobs", "-o", "run", *QUICK)
    assert folder.read(Path("run/dataset")).info.label_space.ids == ("red", "green")
    called("build", "clip.mkv", "data", "--label", "red", "--k", 2, "-q")
    said = evaluated(called, "data", model="blobs", out="labelled", code=2)
    assert all(part in said for part in ("data has no boxes", "--boxes", "boxes:"))
    assert not list(Path().glob("labelled/predictions/*/*.parquet"))


# -- bad input ---------------------------------------------------------------------------------------------------


def bad_inputs(place: Path) -> None:
    sound(place / "sound.mp4")
    clip(place / "one.mkv", "r")
    Image.new("RGB", (32, 24)).save(place / "still.jpg")
    Path("notes.mp4").write_text("not a video", encoding="utf-8")
    Path("empty").mkdir()
    Path("texts").mkdir()
    Path("texts/notes.txt").write_text("nothing", encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sound.mp4",), "no video could be used: sound.mp4"),
        (("one.mkv",), "no video could be used: one.mkv: it has 1 frame, but at least 2 are needed"),
        (("still.jpg",), "no video could be used: still.jpg: not a video that can be read"),
        (("notes.mp4",), "no video could be used: notes.mp4"),
        (("empty",), "empty is not a dataset folder, because it has no dataset.json, and it has no videos"),
        (("texts",), "it has no videos"),
        (("clip.mkv", "empty"), "it has no videos"),
        (("nowhere.mp4",), "no such file or folder: nowhere.mp4"),
        (("clip.mkv", "clip.mkv"), "is given twice"),
        (("clip.mkv", "--label-space", "nothing"), "unknown label space 'nothing'; or give a file"),
        (("clip.mkv", "--label-space", "nothing.txt"), "no such file: nothing.txt; write one class per line"),
        (("clip.mkv", "--compare-review"), "--compare-review needs a dataset"),
        (("clip.mkv", "--judge", "mine"), "unknown model for --judge 'mine'"),
    ],
)
def test_bad_input_is_one_line(called: Called, place: Path, words: tuple[str, ...], said: str) -> None:
    bad_inputs(place)
    (error,) = evaluated(called, *words, "-q", code=2).strip().splitlines()
    assert said in error
    assert not Path("run").exists()


def test_detectors_without_labels_are_gated_compared_and_followed(called: Called, place: Path) -> None:
    """One of the 21 frames of the set has no box, at 25 frames per second: 2.86 seconds of each minute."""
    (place / "m.py").write_text(MODELS + GAPPY, encoding="utf-8")
    words = ("-m", "blobs=py:m.py:blobs", "-m", "gappy=py:m.py:gappy")
    called("eval", "clip.mkv", *words, "-o", "run", *QUICK)
    said = called("compare", "run")
    assert "gappy is worse than blobs on clip: outage_seconds 0.00 s/min → 2.86 s/min." in said
    rule = ("gate", "run", "-m", "gappy", "-q")
    assert "FAILED  outage_seconds at most 2 s/min: 2.86" in called(*rule, "--max", "outage_seconds=2", code=1)
    assert "passed  completeness at least 90 %: 95.2" in called(*rule, "--min", "completeness=90")
    lost = called(*rule, "--baseline", "blobs", "--max-loss", "longest_outage=0.01", code=1)
    assert "FAILED  growth of longest_outage at most 0.01 s: 0.04 s" in lost
    assert "2.86 worse" in re.sub(" +", " ", called("history", "run"))
    assert "unknown measure for --max 'flip_rate'" in called(*rule, "--max", "flip_rate=2", code=2)
    both = ("-m", "gappy=py:m.py:gappy", "-m", "make=boxes:py:m.py:blobs", "--against", "gappy")
    said = called("eval", "clip.mkv", *both, "-o", "run", *QUICK, code=2)
    assert "gappy and make cannot be compared, because one is a classifier and the other a detector" in said


def test_detectors_that_lack_frames_decide_nothing(called: Called) -> None:
    evaluated(called, "clip.mkv")
    keys = folder.read(Path("run/dataset")).frames.key.tolist()
    for name, some in (("whole", keys), ("half", keys[3:])):
        rows = [{"image_id": key, "category_id": 0, "bbox": [1, 1, 8, 8], "score": 0.9} for key in some]
        Path(f"{name}.json").write_text(json.dumps(rows), encoding="utf-8")
    words = ("-m", "whole=preds:whole.json", "-m", "half=preds:half.json", "--allow-missing", "-o", "boxes", *QUICK)
    called("eval", "run/dataset", *words)
    assert "1 of 1 sets lack answers of one model, so each detector is measured on" in called(
        "compare", "boxes", "--allow-missing"
    )
    rule = ("gate", "boxes", "-m", "half", "--baseline", "whole", "--max-loss", "completeness=5", "--allow-missing")
    assert "none of the 1 sets has all its answers" in called(*rule, code=2)


def test_a_run_needs_a_model_with_answers(called: Called) -> None:
    Path("mine.json").write_text("{}", encoding="utf-8")
    said = called("eval", "clip.mkv", "-m", "preds:mine.json", "-o", "run", *QUICK, code=2)
    assert "mine.json: it contains no predictions" in said
    assert "no model given" in called("eval", "clip.mkv", "-o", "run", *QUICK, code=2)
    assert "no model could run" in evaluated(called, "clip.mkv", model="broken", code=2)


def test_options_of_videos_are_refused_for_a_dataset(called: Called, place: Path) -> None:
    strobe.save_dataset(strobe.example_dataset(), place / "data")
    assert "are for videos, and data is a dataset" in evaluated(called, "data", "--every", 3, code=2)
    assert "data is a dataset, which must be given alone" in evaluated(called, "data", "clip.mkv", code=2)
    evaluated(called, "clip.mkv")
    assert "run is a run; give its dataset or its videos" in evaluated(called, "run", out="x", code=2)
    shutil.copytree("run/dataset", "two/dataset")
    info = json.loads(Path("two/dataset/dataset.json").read_text(encoding="utf-8"))
    del info["provenance"]["given"], info["checked"]
    Path("two/dataset/dataset.json").write_text(json.dumps(info), encoding="utf-8")
    assert "was not made from videos by strobe eval" in evaluated(called, "clip.mkv", out="two", code=2)


# -- classes of one's own ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", "", "a.txt: it has no classes"),
        ("a.txt", "cat\ndog\ncat\n", "a.txt: line 3: the class 'cat' is already on line 1"),
        ("a.json", '{"cat": 1}', "a.json: expected a list of class names"),
        ("a.json", '["cat", 3]', "a.json: expected a list of class names"),
        ("a.json", '["cat", "cat"]', "entry 2: the class 'cat' is already on entry 1"),
        ("a.json", "[", "a.json: line 1, column 2: not JSON"),
    ],
)
def test_bad_files_of_classes(called: Called, name: str, content: str, said: str) -> None:
    Path(name).write_text(content, encoding="utf-8")
    assert said in called("eval", "clip.mkv", "-m", "py:m.py:make", "-o", "run", "--label-space", name, code=2)
    assert said in called("build", "clip.mkv", "run", "--unlabelled", "--label-space", name, code=2)
    assert not Path("run").exists()


def test_a_run_on_a_dataset_takes_no_videos_and_the_reverse(called: Called) -> None:
    Path("classes.txt").write_text("red\ngreen\nblue\n", encoding="utf-8")
    called("build", "clip.mkv", "data", "--unlabelled", "--label-space", "classes.txt", "--k", 2, "-q")
    evaluated(called, "data")
    assert "run contains a run on a dataset (data); choose another" in evaluated(called, "clip.mkv", code=2)
    evaluated(called, "more", out="videos")
    assert "contains a run on other frames" in evaluated(called, "data", out="videos", code=2)
