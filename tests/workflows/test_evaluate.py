"""strobe eval, the whole way on small images: files and models together, failures, resuming, bad input."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import strobe
import strobe.core.digests as digests_module
import strobe.workflows.score as score_module
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.results import Results
from strobe.cli.main import main
from strobe.core.builder import DatasetBuilder, frame_list_digest
from strobe.core.codec import encode
from strobe.core.dataset import DatasetInfo
from strobe.core.errors import MissingExtra, StrobeError
from strobe.core.files import sha256_of_file
from strobe.core.labels import LabelSpace
from strobe.core.ports import Silent
from strobe.core.tables import texts
from strobe.engine.running import Running
from strobe.report import page as page_module
from strobe.report.headline import print_headline
from strobe.store import dataset_folder as folder
from strobe.workflows.evaluate import Evaluation, evaluate
from strobe.workflows.predict import predict
from strobe.workflows.score import ScoreRunOptions, score_run

COLOURS = ("red", "green", "blue")
QUICK = ScoreRunOptions(options=ScoreOptions(replicates=100, control_seeds=3))
PLUGIN = """
import numpy as np
from pathlib import Path

CLASSES = ["red", "green", "blue"]
CALLS = Path(__file__).with_name("calls.txt")

def mean_colour(images):
    if images[0].shape == (24, 32, 3):  # not the image that a function is tried on
        with CALLS.open("a") as file:
            file.write(f"{len(images)}\\n")
    return np.array([image.reshape(-1, 3).mean(axis=0) / 10 for image in images], dtype=np.float32)

def make():
    return mean_colour, CLASSES

def stops_half_way():
    seen = []
    def forward(images):
        seen.extend(images if images[0].shape == (24, 32, 3) else ())
        if len(seen) > 12 and not Path(__file__).with_name("go-on").exists():
            raise RuntimeError("the power is out")
        return mean_colour(images)
    return forward, CLASSES

def never():
    def forward(images):
        raise RuntimeError("not today")
    return forward, CLASSES
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Five videos of five frames, each frame mostly of its label's colour."""
    (tmp_path / "mine.py").write_text(PLUGIN)
    return paint(tmp_path / "data", n_videos=5)


def paint(root: Path, *, n_videos: int) -> Path:
    rng = np.random.default_rng(3)
    (root / "media").mkdir(parents=True, exist_ok=True)
    grown = DatasetBuilder()
    for number in range(n_videos):
        video = grown.video(video_id=frame_list_digest([str(number)]), name=f"clip{number}")
        rows = []
        for index in range(5):
            pixels = rng.integers(0, 90, (24, 32, 3), dtype=np.uint8)
            pixels[:, :, number % 3] += 120
            name = f"media/{number}-{index}.png"
            Image.fromarray(pixels).save(root / name)
            key = f"clip{number}/{index}"
            sha = sha256_of_file(root / name)
            rows.append(grown.frame(video=video, index=index, key=key, media=name, labels=[number % 3], sha256=sha))
        grown.set(set_id=f"s{number}", anchor=rows[2], members=[(rows[i], i - 2) for i in (0, 1, 3, 4)])
    info = DatasetInfo(name="colours", label_space=LabelSpace.of_names("colours", COLOURS), k=2)
    folder.write(grown.build(info), root, overwrite=True)
    return root


def predictions(data: Path, *, wrong: int = 0) -> dict[str, str]:
    """A prediction file's content: the right class, but for the first `wrong` frames."""
    dataset = folder.read(data)
    labels = {int(row): COLOURS[label] for row, label in zip(dataset.labels.frame, dataset.labels.label, strict=True)}
    said = {str(key): labels[row] for row, key in enumerate(dataset.frames.key)}
    for key in list(said)[:wrong]:
        said[key] = COLOURS[(COLOURS.index(said[key]) + 1) % 3]
    return said


class Noting(Silent):
    """Keeps what is noted."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def note(self, text: str) -> None:
        self.notes.append(text)


def go(
    data: Path,
    *models: str,
    request: ScoreRunOptions = QUICK,
    report: bool = False,
    show: Any = (),
    notes: list[str] | None = None,
) -> Evaluation:
    heard = Noting([] if notes is None else notes)
    return evaluate(
        data, models, data.parent / "run", prediction=Running(shard_size=5), request=request, progress=heard,
        with_report=report, show=show,
    )  # fmt: skip


def counts(found: Results, model: str) -> tuple[int, int, int]:
    one = found.models[model]
    return one.acc_orig.count, one.acc_pmk.count, one.acc_orig.n


def test_a_model_and_a_file_in_one_command(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data.parent / "theirs.json").write_text(json.dumps(predictions(data, wrong=1)))
    plugin = f"py:{data.parent}/mine.py:make"
    found = go(data, plugin, f"preds:{data.parent}/theirs.json", report=True)
    assert counts(found.results, plugin) == (5, 5, 5)
    assert counts(found.results, "theirs") == (5, 4, 5)
    assert found.report is not None
    page = found.report.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert not found.failed
    # A person reads the file's name; results and tables have the run's own, by which it is asked for again.
    told = io.StringIO()
    print_headline(found.results, told)
    with pytest.raises(SystemExit):
        main(["compare", str(data.parent / "run"), "-q"])
    for text in (page, told.getvalue(), capsys.readouterr().out):
        assert "py:mine.py:make" in text
        assert plugin not in text
    assert "py:mine.py:make: weights and preprocessing" in page
    assert "From py:mine.py:make to theirs" in page
    assert plugin in (data.parent / "run/tables/sets.csv").read_text(encoding="utf-8")
    assert json.loads((data.parent / "run/results.json").read_text())["models"] == json.loads(
        json.dumps(encode(found.results.models))
    )


def test_the_same_command_again_predicts_nothing(data: Path) -> None:
    plugin = f"py:{data.parent}/mine.py:make"
    first = go(data, plugin)
    calls = (data.parent / "calls.txt").read_text()
    again = go(data, plugin)
    assert (data.parent / "calls.txt").read_text() == calls
    assert again.results == first.results


def test_a_model_that_stops_half_way_sinks_nobody_and_resumes(data: Path) -> None:
    good, bad = f"py:{data.parent}/mine.py:make", f"py:{data.parent}/mine.py:stops_half_way"
    (data.parent / "theirs.json").write_text(json.dumps(predictions(data)))
    found = go(data, bad, good, f"preds:{data.parent}/theirs.json")
    assert [one.name for one in found.failed] == [bad]
    assert "the power is out" in str(found.failed[0].error)
    assert set(found.results.models) == {good, "theirs"}
    # A later command for another model still works, and says what it left out.
    later = go(data, good)
    assert set(later.results.models) == {good, "theirs"}
    assert len(later.left_out) == 1
    assert "frames have no prediction yet" in later.left_out[0]
    with pytest.raises(StrobeError, match="run the same predict command again"):
        score_run(data.parent / "run", QUICK, Silent())
    (data.parent / "go-on").touch()
    (data.parent / "calls.txt").unlink()
    done = go(data, bad, good)
    assert not done.failed
    assert counts(done.results, bad) == (5, 5, 5)
    again = sum(int(line) for line in (data.parent / "calls.txt").read_text().split())
    assert 0 < again < 25, "only what was missing is predicted"


def test_nothing_runs_when_scoring_would_be_refused(data: Path) -> None:
    plugin = f"py:{data.parent}/mine.py:make"
    (data.parent / "types.csv").write_text("model,standard\nx,perhaps\n")
    for request, said in (
        (replace(QUICK, options=replace(QUICK.options, k=9)), "k: expected at most 2"),
        (replace(QUICK, compare_review=True), "no votes"),
        (replace(QUICK, types=data.parent / "types.csv"), "line 2"),
        (replace(QUICK, subset=data.parent / "nowhere.txt"), "no such file"),
    ):
        with pytest.raises(StrobeError, match=said):
            go(data, plugin, request=request)
        assert not (data.parent / "calls.txt").exists()
        assert not (data.parent / "run").exists()


def test_a_model_to_show_that_does_not_run_is_refused_first(data: Path) -> None:
    plugin = f"py:{data.parent}/mine.py:make"
    with pytest.raises(StrobeError, match="model to --show"):
        go(data, plugin, show=("resnet5O",))
    assert not (data.parent / "calls.txt").exists()
    assert not (data.parent / "run").exists()


def test_no_model_at_all_is_an_error(data: Path) -> None:
    never = f"py:{data.parent}/mine.py:never"
    for models, first in (((never,), ""), ((never, f"again={never}"), "first ")):
        notes: list[str] = []
        with pytest.raises(StrobeError, match=rf"^no model could run; {first}py:.*never: .*not today"):
            go(data, *models, notes=notes)
        assert sum("is skipped" in note for note in notes) == (0 if len(models) == 1 else len(models))
    with pytest.raises(StrobeError, match="no model given"):
        go(data)


def test_a_file_cannot_take_the_name_of_a_model_that_was_run(data: Path) -> None:
    plugin = f"py:{data.parent}/mine.py:make"
    go(data, plugin)
    (data.parent / "theirs.json").write_text(json.dumps(predictions(data)))
    with pytest.raises(StrobeError, match="choose another name for the file with -m NAME=preds:FILE"):
        go(data, f"{plugin}=preds:{data.parent}/theirs.json")
    assert not (data.parent / "run/external").exists()


def test_without_images_nothing_is_begun(data: Path) -> None:
    dataset = folder.read(data)
    bare = replace(dataset, frames=replace(dataset.frames, media=np.full(len(dataset.frames), "", dtype=object)))
    folder.write(bare, data.parent / "bare")
    with pytest.raises(StrobeError, match="has no images"):
        go(data.parent / "bare", f"py:{data.parent}/mine.py:make")
    assert not (data.parent / "run").exists()


def test_a_run_in_which_nothing_ran_leaves_no_folder(tmp_path):
    made = strobe.example_dataset(n_videos=2, k=1)
    frames = replace(made.frames, media=texts([f"media/{row}.png" for row in range(len(made.frames))]))
    strobe.save_dataset(replace(made, frames=frames), tmp_path / "data")
    with pytest.raises(StrobeError, match="no model could run"):
        evaluate(
            tmp_path / "data", ["py:nowhere.py:make"], tmp_path / "run", prediction=Running(),
            request=ScoreRunOptions(), progress=Silent(),
        )  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_the_dataset_is_read_once(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data.parent / "theirs.json").write_text(json.dumps(predictions(data)))
    reads, digests, tables = [], [], []
    read, lines, write_tables = folder.read, digests_module._sorted, score_module.write_tables
    monkeypatch.setattr(folder, "read", lambda path: (reads.append(path), read(path))[1])
    monkeypatch.setattr(digests_module, "_sorted", lambda n, part: (digests.append(1), lines(n, part))[1])
    monkeypatch.setattr(score_module, "write_tables", lambda *said: (tables.append(1), write_tables(*said))[1])
    go(data, f"py:{data.parent}/mine.py:make", f"preds:{data.parent}/theirs.json", report=True)
    assert len(reads) == 1
    assert len(tables) == 1
    assert len(digests) <= 10, "each table is hashed once: frames, and all of them"


def test_a_dataset_that_grew_is_predicted_where_it_grew(data: Path) -> None:
    plugin, calls = f"py:{data.parent}/mine.py:make", data.parent / "calls.txt"
    go(data, plugin)
    assert sum(int(line) for line in calls.read_text().split()) == 25
    calls.unlink()
    paint(data, n_videos=7)
    found = go(data, plugin)
    assert sum(int(line) for line in calls.read_text().split()) == 10
    assert counts(found.results, plugin) == (7, 7, 7)
    # An image that was replaced is looked at again; and so it stays.
    calls.unlink()
    Image.fromarray(np.zeros((24, 32, 3), dtype=np.uint8)).save(data / "media/0-0.png")
    dataset = folder.read(data)
    sha = texts([sha256_of_file(data / name) for name in dataset.frames.media.tolist()])
    folder.write(replace(dataset, frames=replace(dataset.frames, sha256=sha)), data, overwrite=True)
    go(data, plugin)
    assert calls.read_text() == "5\n", "with its batch, which is kept whole"
    calls.unlink()
    go(data, plugin)
    assert not calls.exists()
    assert score_run(data.parent / "run", QUICK, Silent()).results.dataset.n_sets == 7


def test_a_file_brought_for_other_frames_is_left_out_and_said(data: Path) -> None:
    plugin, file = f"py:{data.parent}/mine.py:make", data.parent / "theirs.json"
    file.write_text(json.dumps(predictions(data)))
    go(data, plugin, f"preds:{file}")
    paint(data, n_videos=6)
    found = go(data, plugin)
    assert list(found.results.models) == [plugin]
    assert "pass a file that has them" in found.left_out[0]
    file.write_text(json.dumps(predictions(data)))
    assert list(go(data, f"preds:{file}").results.models) == [plugin, "theirs"]


def test_a_name_goes_before_every_spec(data: Path) -> None:
    (data.parent / "theirs.json").write_text(json.dumps(predictions(data)))
    found = go(data, f"mine=py:{data.parent}/mine.py:make", f"x=preds:{data.parent}/theirs.json", report=True)
    assert list(found.results.models) == ["mine", "x"]
    assert found.report is not None
    with pytest.raises(StrobeError, match="two models are called mine"):
        go(data, f"mine=py:{data.parent}/mine.py:make", f"mine=preds:{data.parent}/theirs.json")
    with pytest.raises(StrobeError, match="already has predictions of a model called mine"):
        go(data, f"mine=preds:{data.parent}/theirs.json")
    with pytest.raises(StrobeError, match="a name must refer to one model"):
        go(data, "lite=efficientnet-lite*")
    failed = go(data, "mine=py:nowhere.py:make", f"x=preds:{data.parent}/theirs.json").failed
    assert [one.name for one in failed] == ["mine"]
    typo = go(data, "z=py:nowhere.py:make", f"new=py:{data.parent}/mine.py:make")
    assert [one.name for one in typo.failed] == ["z"]
    about = json.loads((data.parent / "run/run.json").read_text())
    assert about["models"]["z"]["status"] == "failed"
    again = go(data, f"x=py:{data.parent}/mine.py:make", f"y=preds:{data.parent}/theirs.json")
    assert "the run already has a file with this name" in str(again.failed[0].error)
    about = json.loads((data.parent / "run/run.json").read_text())
    assert {name: one["status"] for name, one in about["models"].items()} == {"new": "done", "x": "failed"}


def test_an_earlier_checkpoint_under_the_same_name_is_kept_and_said(data: Path) -> None:
    notes: list[str] = []

    spec, run = f"py:{data.parent}/mine.py:make", data.parent / "run"

    def predicted() -> Any:
        return predict(folder.read(data), [spec], run, Running(shard_size=5), Noting(notes))[0].outcome

    predicted()
    (data.parent / "mine.py").write_text(PLUGIN + "# another checkpoint\n")
    assert predicted().n_new == 25
    assert any("its weights changed; the predictions of the earlier checkpoint (weights" in line for line in notes)
    assert len(list(run.glob("predictions/*/model-*.json"))) == 1
    (data.parent / "mine.py").write_text(PLUGIN)
    assert predicted().n_new == 0, "back to the first"


def test_decoding_on_a_device_that_is_not_there_is_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec, run = f"a=py:{data.parent}/mine.py:make", data.parent / "run"
    for verb in ("predict", "eval"):
        with pytest.raises(SystemExit) as ended:
            main([verb, str(data), "-m", spec, "-o", str(run), "--device", "cpu", "--decode", "device", "-q"])
        assert ended.value.code == 2
        said = capsys.readouterr().err
        assert "--decode device needs models on CUDA, and no model of this command runs on CUDA; remove it" in said
        assert said.count("\n") == 1
        assert not run.exists()
    with pytest.raises(StrobeError, match=r'^running.decode="device" needs models on CUDA'):
        strobe.predict(data, spec, running=strobe.Running(device="cpu", decode="device"))


def test_a_model_beside_the_device_that_decodes_is_said(data: Path) -> None:
    if not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("needs a CUDA device")
    notes: list[str] = []
    spec, options = f"a=py:{data.parent}/mine.py:make", Running(decode="device")
    assert predict(folder.read(data), [spec], data.parent / "run", options, Noting(notes))[0].ok
    assert "a: frames are decoded exactly on the CPU, because --decode device is for models on CUDA" in notes


def test_a_report_that_cannot_be_written_is_said_and_the_old_one_goes(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (data.parent / "theirs.json").write_text(json.dumps(predictions(data)))
    words = ["eval", str(data), "-m", f"preds:{data.parent}/theirs.json", "-o", str(data.parent / "run"), "-q"]

    def left(*more: str) -> object:
        with pytest.raises(SystemExit) as stop:
            main([*words, *more])
        return stop.value.code

    assert left() == 0
    page = data.parent / "run/report.html"
    assert page.is_file()

    def missing(*_: object, **__: object) -> None:
        raise MissingExtra("the report", "jinja2", "report")

    monkeypatch.setattr(page_module, "require", missing)
    capsys.readouterr()
    assert left() == 2
    said = capsys.readouterr()
    assert "no report: " in said.err
    assert "jinja2" in said.err
    assert "theirs" in said.out, "the figures are there"
    assert not page.exists()
    assert left("--no-report") == 0
