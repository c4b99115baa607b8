"""eval --against and bless: a folder of clips as a regression test, against a run, a baseline file and a model."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_unlabelled import CALM, MODELS, clip

import strobe
from strobe.core.answers import ClassAnswers
from strobe.core.files import read_json, write_json
from strobe.core.seals import digest_of_json

pytest.importorskip("av")

QUICK = ("--k", "2", "--bootstrap", "100", "--workers", "1", "--no-report", "-q")
SAME = "is the same as make"
WORSE = "make is worse than calm on these 2 clips: changes_per_second 0.00/s → 4.55/s.\n"
Called = Callable[..., str]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clips, models, runs of `make`, `calm` and both, and their baseline files."""
    from strobe.cli.main import main

    folder = tmp_path_factory.mktemp("against")
    (folder / "m.py").write_text(MODELS + CALM, encoding="utf-8")
    clip(folder / "clips/a.mp4", "rrrgrrrrbrrrrrrrrrrr")
    clip(folder / "clips/b.mp4", "ggggggggggrgggg")
    for run, names in (("make", ["make"]), ("calm", ["calm"]), ("both", ["make", "calm"])):
        models = [word for name in names for word in ("-m", f"{name}=py:{folder}/m.py:{name}")]
        for words in (
            ["eval", f"{folder}/clips", *models, "-o", f"{folder}/{run}", *QUICK],
            ["bless", f"{folder}/{run}", "-o", f"{folder}/{run}.json", "-q"],
        ):
            with pytest.raises(SystemExit) as ended:
                main(words)
            assert not ended.value.code
    return folder


@pytest.fixture
def place(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, in which every command runs."""
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def called(command: Callable[..., tuple[int, str, str]]) -> Called:
    """Call strobe; what it printed, after its exit code was checked. An error is one line."""

    def call(*words: object, code: int = 0) -> str:
        ended, out, err = command(*map(str, words))
        assert ended == code, out + err
        assert code != 2 or len(err.strip().splitlines()) == 1, err
        return out + err

    return call


def models(*names: str) -> list[str]:
    return [word for name in names for word in ("-m", f"{name}=py:m.py:{name}")]


def tried(called: Called, *words: object, code: int = 0, out: str = "new") -> str:
    """Evaluate with --against; the verdict's part of the output."""
    text = called("eval", *words, "-o", out, *QUICK, code=code)
    return text.partition("; no label is used\n")[2] or text


def verdict(run: str = "new") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(run, "verdict/verdict.json").read_text(encoding="utf-8"))
    return found


# -- worse, better, the same -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("against", "asked", "code", "said"),
    [
        ("make", "make", 0, "make is the same as make (make) on these 2 clips"),
        ("make.json", "make", 0, "make is the same as make (baseline) on these 2 clips"),
        ("make=py:m.py:make", "turned", 0, "turned is the same as make on these 2 clips"),
        ("make", "calm", 0, "calm is better than make on these 2 clips: changes_per_second 4.55/s → 0.00/s.\n"),
        ("make.json", "calm", 0, "calm is better than make on these 2 clips"),
        ("make=py:m.py:make", "calm", 0, "calm is better than make on these 2 clips"),
        ("calm", "make", 1, WORSE),
        ("calm.json", "make", 1, WORSE),
        ("calm=py:m.py:calm", "make", 1, WORSE),
        ("both", "make", 0, "make is the same as make (both)"),  # of two models, that of the same name
        (
            "both.json",
            "calm",
            0,
            "calm is the same as calm (baseline) on these 2 clips: changes_per_second 0.00/s → 0.00/s.\n",
        ),
        # other classes: each model is compared on its own stability
        ("make", "animals", 0, "animals is the same as make on these 2 clips"),
        ("make.json", "animals", 0, "animals is the same as make on these 2 clips"),
        ("calm", "animals", 1, "animals is worse than calm on these 2 clips: changes_per_second 0.00/s → 4.55/s.\n"),
    ],
)
def test_a_model_against_a_run_a_file_or_a_model(
    place: Path, called: Called, against: str, asked: str, code: int, said: str
) -> None:
    text = tried(called, "clips", *models(asked), "--against", against, code=code)
    assert said in text
    assert "About these clips only (35 frames, 1.3 s): a fact, not an estimate." in text
    assert "baseline: " in text
    found = verdict()
    (pair,) = found["clips"]
    assert (found["exit_code"], found["worse"], pair["scope"]) == (code, code == 1, "these-clips")
    assert [one["video"] for one in pair["unsteady"]] == (["a", "b"] if code else [])
    if code:
        assert pair["unsteady"][0]["answers"][:2] in (["red", "green"], ["fish", "dog"])
        assert (pair["unsteady"][0]["frame"], pair["unsteady"][0]["time_s"]) == (3, pytest.approx(0.12))
    head = {0: "### strobe: not worse ✅\n", 1: "### strobe: worse ❌\n"}[code]
    assert Path("new/verdict/verdict.md").read_text(encoding="utf-8").startswith(head)


def test_one_clip_says_nothing_about_other_videos(place: Path, called: Called) -> None:
    words = ("clips/a.mp4", *models("calm", "make"), "--against", "calm=py:m.py:calm")
    text = tried(called, *words, code=1)
    assert "make is worse than calm on a: " in text
    assert "1 video says nothing about other videos; 6 are needed." in text
    text = tried(called, *words, "--for", "other-videos", code=3)
    assert "Inconclusive: whether make is worse than calm on other videos (1 seen)" in text
    assert Path("new/verdict/verdict.md").read_text(encoding="utf-8").startswith("### strobe: inconclusive ⚠️\n")
    assert verdict()["exit_code"] == 3
    text = tried(called, *words, "--for", "this-recording", code=3)
    assert "a is shorter than 10 s, so the interval may be too narrow" in text


def test_a_model_that_fails_is_not_compared(place: Path, called: Called) -> None:
    text = tried(called, "clips", *models("make", "broken"), "--against", "make.json", code=2)
    assert "failed: broken" in text
    assert not Path("new/verdict").exists()


def test_nothing_runs_if_the_baseline_cannot_be_used(place: Path, called: Called) -> None:
    for against, message in (
        ("nowhere.json", "no such file: nowhere.json; write it with strobe bless"),
        ("clips", "clips is not a run folder"),
        ("new", "--against: new is also the output; write the new run to another folder"),
    ):
        if against == "new":
            shutil.copytree("make", "new")
            before = sorted(Path("new").rglob("*"))
        assert message in tried(called, "clips", *models("calm"), "--against", against, code=2)
    assert sorted(Path("new").rglob("*")) == before


# -- other frames and other machines ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("against", "message"),
    [
        ("make", "make is on different frames than new: another clip, other bytes of it, or other sets; run the old"),
        ("make.json", "make.json was made on other frames than new: another clip, other bytes of it, or other sets"),
    ],
)
def test_other_frames_are_refused(place: Path, called: Called, against: str, message: str) -> None:
    clip(Path("clips/b.mp4"), "ggggggggggrgggb")
    text = tried(called, "clips", *models("make"), "--against", against, code=2)
    assert message in text
    assert "baseline again" in text
    assert not Path("new/verdict").exists()


def on_another_machine(file: Path, **changes: Any) -> None:
    """Change where a run or a baseline was made."""
    path = file / "run.json" if file.is_dir() else file
    data = {key: value for key, value in read_json(path).items() if key != "sha256"} | changes
    write_json(path, data if file.is_dir() else {**data, "sha256": digest_of_json(data)})


@pytest.mark.parametrize("against", ["calm", "calm.json"])
def test_another_machine_has_a_tolerance(place: Path, called: Called, against: str) -> None:
    on_another_machine(Path(against), cpu="Abacus 1")
    text = tried(called, "clips", *models("make"), "--against", against, code=1)
    assert WORSE in text, "more than 1 % of the frames can change"
    assert "the runs are from different CPUs (Abacus 1, " in text
    assert "a change that 1 % of frames could make counts as the same" in text
    rows = {one["measure"]: one for one in verdict()["clips"][0]["differences"]}
    assert rows["changes_per_second"]["tolerance"] == pytest.approx(0.5)
    assert (rows["longest_stray"]["verdict"], rows["flicker"]["tolerance"]) == (None, pytest.approx(0.05))
    versions = read_json(Path("make/run.json"))["versions"] | {"numpy": "1.0", "strobe": "0.0"}
    on_another_machine(Path("make"), versions=versions)
    text = tried(called, "clips", *models("make"), "--against", "make")
    assert "the runs were made with different versions of numpy; a change" in text


def test_another_decoder_gives_other_frames(place: Path, called: Called) -> None:
    data = read_json(Path("make.json"))["models"]
    data["make"]["decode"] = "cuda"
    on_another_machine(Path("make.json"), models=data)
    text = tried(called, "clips", *models("make"), "--against", "make.json", code=2)
    assert "make (baseline) saw frames decoded by cuda, make by cpu: these are different frames" in text


# -- the file ---------------------------------------------------------------------------------------------------------


def broken_file(how: str, data: dict[str, Any], text: str) -> str:
    """The text of a damaged baseline file, with its digest set anew unless the file was cut or edited."""
    model = data["models"]["make"]
    changes: dict[str, Any] = {
        "format": {"format": 2},
        "no models": {"models": {}},
        "date": {"at": "yesterday"},
        "length": {"n_frames": 36},
        "class": {"models": {"make": {**model, "answers": [[9, 35]]}}},
        "empty": {"models": {"make": {**model, "answers": []}}},
        "type": {"models": {"make": {**model, "answers": "many"}}},
    }
    if how in changes:
        data = {key: value for key, value in data.items() if key != "sha256"} | changes[how]
        return json.dumps({**data, "sha256": digest_of_json(data)})
    return {"cut": text[:200], "edited": text.replace("11", "12", 1), "other": "[1, 2]", "run": '{"format": 1}'}[how]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("cut", "base.json"),
        ("edited", "its digest does not match its content; write it again with strobe bless"),
        ("other", "it is not a baseline; write it with strobe bless"),
        ("run", "it is not a baseline; write it with strobe bless"),
        ("format", "format: expected 1, got 2"),
        ("no models", "models: expected at least one"),
        ("date", "at: expected a date and time with a time zone"),
        ("length", "answers: expected 36 frames"),
        ("class", "answers: expected places in classes"),
        ("empty", "answers: expected at least one"),
        ("type", "answers"),
    ],
)
def test_a_damaged_baseline_is_one_line(place: Path, called: Called, how: str, message: str) -> None:
    text = Path("make.json").read_text(encoding="utf-8")
    Path("base.json").write_text(broken_file(how, json.loads(text), text), encoding="utf-8")
    said = tried(called, "clips", *models("make"), "--against", "base.json", code=2)
    assert message in said
    assert "base.json" in said
    assert not Path("new").exists(), "it is read before a model runs"


def test_a_baseline_that_claims_a_billion_frames_is_not_written_out(place: Path, called: Called) -> None:
    """Its digests are right: that of the file, and that of the frames."""
    data = {key: value for key, value in read_json(Path("make.json")).items() if key != "sha256"}
    data["n_frames"] = 10**12
    data["models"]["make"]["answers"] = [[0, 10**12]]
    Path("base.json").write_text(json.dumps({**data, "sha256": digest_of_json(data)}))
    assert "base.json was made on other frames" in tried(
        called, "clips", *models("make"), "--against", "base.json", code=2
    )


def test_bless_writes_one_small_file_and_nothing_else_changes_it(place: Path, called: Called) -> None:
    said = called("bless", "both", "-o", "kept/base.json", "-m", "make") if Path("kept").mkdir() is None else ""
    assert "kept/base.json: make on 35 frames of 2 videos, " in said
    assert ", 0 days old\n" in said
    data = read_json(Path("kept/base.json"))
    assert list(data["models"]) == ["make"]
    assert data["models"]["make"]["answers"][:4] == [[0, 3], [1, 1], [0, 4], [2, 1]]
    assert sum(length for _, length in data["models"]["make"]["answers"]) == data["n_frames"] == 35
    results = json.loads(Path("both/results.json").read_text())["flicker"]["models"]["make"]
    assert data["models"]["make"]["figures"]["flicker"] == results["flicker"]["value"] == 3 / 7
    assert Path("kept/base.json").stat().st_size < 4000
    before = Path("kept/base.json").read_bytes()
    assert called("bless", "both", "-o", "kept/base.json", "-m", "make")
    assert Path("kept/base.json").read_bytes() == before, "the same run gives the same file"
    tried(called, "clips", *models("calm"), "--against", "kept/base.json")
    called("score", "new", "-q")
    for bad in (("bless", "both", "-m", "nobody"), ("bless", "clips"), ("bless", "nowhere")):
        called(*bad, "-o", "kept/base.json", code=2)
    assert Path("kept/base.json").read_bytes() == before
    assert [path.name for path in Path("kept").iterdir()] == ["base.json"], "no half-written file is left"
    assert called("bless", "new", "-o", "kept/base.json")
    assert list(read_json(Path("kept/base.json"))["models"]) == ["calm"]


def test_what_has_no_baseline_file(place: Path, called: Called) -> None:
    data = strobe.example_dataset()
    strobe.save_dataset(data, "data")
    always = ClassAnswers.from_labels("net", np.zeros(len(data.frames), dtype=np.int64))
    strobe.evaluate("data", always, "labelled", report=False)
    assert "no stretches of video without labels" not in called("bless", "labelled", "-o", "x.json", code=2)
    called("eval", "clips", *models("blobs"), "-o", "boxes", *QUICK)
    assert "has no classifier, so there is nothing to make a baseline of" in called(
        "bless", "boxes", "-o", "x.json", "-q", code=2
    )
    assert not Path("x.json").exists()


# -- with labels ----------------------------------------------------------------------------------------------------


def test_with_labels_accuracy_is_judged(tmp_path: Path, called: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = strobe.example_dataset(n_videos=12, k=1)
    strobe.save_dataset(data, "data")
    truth = np.empty(len(data.frames), dtype=np.int64)
    truth[data.labels.frame] = data.labels.label
    names = data.info.label_space.names
    for name, wrong in (("good", 0), ("bad", 9), ("fair", 1)):
        label = truth.copy()
        for one in range(wrong):
            row = data.sets.frame[data.sets.set == one][-1]
            label[row] = 1 - label[row]
        said = dict(zip(data.frames.key.tolist(), (names[one] for one in label), strict=True))
        Path(f"{name}.json").write_text(json.dumps(said), encoding="utf-8")

    def judged(*words: str, code: int) -> str:
        return called("eval", "data", *words, "--no-report", "--bootstrap", "100", "-q", code=code)

    judged("-m", "preds:bad.json", "-m", "preds:good.json", "-o", "old", code=0)
    text = judged("-m", "good=preds:fair.json", "-o", "new", "--against", "old", code=1)
    assert "the verdict is about these sets: a lower acc_pmk is worse" in text
    assert [(one["a"], one["b"]) for one in verdict()["comparisons"] if one["metric"] == "acc_pmk"] == [
        ("old/good", "new/good")
    ], "models of the older run are not compared with each other"
    assert judged("-m", "bad=preds:fair.json", "-o", "up", "--against", "old", code=0)
    judged("-m", "good=preds:fair.json", "-o", "new", "--against", "old", "--for", "other-videos", code=3)
    judged("-m", "good=preds:bad.json", "-o", "low", "--against", "old", "--for", "other-videos", code=1)
    judged("-m", "preds:fair.json", "-m", "preds:good.json", "-o", "three", "--against", "preds:fair.json", code=0)
    for words, message in (
        (("-o", "x", "--against", "old", "--for", "this-recording"), "is for videos without labels"),
        (("-o", "y", "--against", "make.json"), "no such file: make.json"),
    ):
        assert message in judged("-m", "preds:good.json", *words, code=2)


# -- strobe.toml ----------------------------------------------------------------------------------------------------


def test_a_folder_of_clips_is_a_regression_test(place: Path, called: Called) -> None:
    settings = 'models = ["make=py:m.py:make"]\nagainst = "baseline.json"\n'
    Path("clips/strobe.toml").write_text(settings, encoding="utf-8")
    assert "no such file: clips/baseline.json" in tried(called, "clips", code=2)
    shutil.copy("calm.json", "clips/baseline.json")
    assert WORSE in tried(called, "clips", code=1)
    Path("clips/strobe.toml").write_text(settings + 'for = "other-videos"\n', encoding="utf-8")
    tried(called, "clips", code=3)
    assert WORSE in tried(called, "clips", "--for", "these-clips", code=1), "an option counts more"
    tried(called, "clips", "--against", "make.json", "--for", "these-clips")
    tried(called, "clips", *models("calm"), "--for", "these-clips", out="calm-again")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('model = ["m"]', "clips/strobe.toml: unknown key model; known: against, for, models"),
        ('models = "m"', "models: expected a list, got 'm'"),
        ("against = 1", "against: expected text or null, got 1"),
        ('for = "ever"', "for: expected these-clips or this-recording or other-videos, got"),
        ("models = [", "clips/strobe.toml: it is not TOML: "),
        (b"\xff", "clips/strobe.toml"),
    ],
)
def test_bad_settings_are_one_line(place: Path, called: Called, text: str | bytes, message: str) -> None:
    Path("clips/strobe.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert message in tried(called, "clips", *models("make"), code=2)
    assert not Path("new").exists()
