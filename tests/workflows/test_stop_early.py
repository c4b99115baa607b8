"""--stop-early on a rendered world with a bundled model: the figures of a full run, resumed, completed, reported."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strobe
from strobe.cli.main import main
from strobe.core.answers import ClassAnswers, State
from strobe.store import dataset_folder as folder
from strobe.store.run_folder import Run

MODELS = ("strobe-world", "strobe-world-linf")
SETTLED = ("acc_orig", "acc_pmk", "drop", "per_class", "per_class_median", "by_fps", "unscored")
BY_LABEL = (*SETTLED, "curve", "per_offset", "mean_frame", "flip_rate", "first_failure", "frame_types", "reasons")
PLUGIN = """
from pathlib import Path

import strobe
import torch

def make():
    torch.set_num_threads(1)
    asked, model = [], strobe.load_model("strobe-world")
    def forward(images):
        asked.extend(images)
        if len(asked) > int(Path(__file__).with_name("most").read_text()):
            raise RuntimeError("the power is out")
        return model.forward([model.prepare(image) for image in images])
    return forward, list(model.spec.label_space.names), "logits"
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixteen clips, k = 3, and a full run of two models beside them."""
    root = tmp_path_factory.mktemp("world")
    said(["synthesize", str(root / "data"), "--videos", "16", "--k", "3", "--size", "64", "-q"])
    said(["eval", str(root / "data"), *models(), "--no-report", "-q", "-o", str(root / "full")])
    return root


def models(names: tuple[str, ...] = MODELS) -> list[str]:
    return [part for name in names for part in ("-m", name)]


def said(words: list[str], code: int = 0) -> None:
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == code


def results(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "results.json").read_text())
    return found


def answers(data: Path, run: Path, name: str) -> ClassAnswers:
    found = Run(run).models(folder.read(data), only=[name])[0].load()
    assert isinstance(found, ClassAnswers)
    return found


def test_figures_are_the_full_runs_and_a_full_run_completes_them(world: Path, capsys: Any) -> None:
    data, run = world / "data", world / "early"
    said(["eval", str(data), *models(), "--stop-early", "-o", str(run)])
    printed = capsys.readouterr()
    full, early = results(world / "full"), results(run)
    for name in MODELS:
        one, whole = early["models"][name], full["models"][name]
        assert {key: one[key] for key in SETTLED} == {key: whole[key] for key in SETTLED}
        counts = one["stopped_early"]
        assert counts["least"] <= counts["ran"] < counts["frames"] == early["dataset"]["n_frames"]
        found = answers(data, run, name)
        assert int(found.scored.sum()) == counts["ran"]
        assert (answers(data, world / "full", name).label[found.scored] == found.label[found.scored]).all()
        line = (
            f"{name}: stopped early, ran {counts['ran']:,} of {counts['frames']:,} frames "
            f"(at least {counts['least']:,} are needed)"
        )
        assert line in printed.out
        assert line in printed.err
        assert line in (run / "report.html").read_text()
        assert json.loads((run / "run.json").read_text())["models"][name]["stopped_early"] == counts
    page = re.search(r'id="gallery-data">(.*?)</script>', (run / "report.html").read_text(), flags=re.DOTALL)
    views = [view for one in json.loads(page[1] if page else "")["sets"] for view in one["m"]]
    blank = [(view.get("q", []), [place for place, right in enumerate(view["r"]) if right is None]) for view in views]
    assert any(asked for asked, _ in blank)
    assert all(asked == none for asked, none in blank), "what has no answer was never asked about, and says so"
    assert [one["difference"] for one in early["comparison"]] == [one["difference"] for one in full["comparison"]]
    assert early["trend"] == full["trend"]
    assert early["offset_error_all_models"] == []
    tables = {path.name for path in (run / "tables").iterdir()}
    assert {"headline.csv", "per_class.csv", "comparison.csv", "sets.csv"} <= tables
    assert not {"curve.csv", "per_offset.csv", "first_failure.csv", "smoothing.csv", "frame_types.csv"} & tables
    assert "first_wrong_distance" not in (run / "tables" / "sets.csv").read_text()
    figures = {path.name for path in (run / "figures").iterdir()}
    assert not {"curve.svg", "per_offset.svg", "first_failure.svg", "smoothing.svg"} & figures

    # The same again runs nothing; scored, compared and held against limits as any run.
    said(["predict", str(data), *models(), "--stop-early", "-o", str(run), "-q"])
    assert capsys.readouterr().out.count(": 0 new,") == 2
    before = results(run)
    said(["score", str(run), "-q"])
    said(["report", str(run), "-q"])
    assert results(run) == before
    said(["compare", str(run), "-q"])
    said(["gate", str(run), "-m", MODELS[0], "--min", "acc_pmk=0", "-q"])
    said(["gate", str(run), "-m", MODELS[0], "--min", "flip_rate=0", "-q"], code=3)
    assert "nothing was measured: it needs every frame" in capsys.readouterr().out
    said(["score", str(run), "--k", "1", "-q"], code=2)
    assert "sets are undecided at k = 1; run strobe eval" in capsys.readouterr().err
    for words in (
        ["history", str(run)],
        ["compare", str(run)],
        ["gate", str(run), "-m", MODELS[0], "--min", "acc_pmk=0"],
    ):
        said([*words, "--k", "1", "-q"], code=2)
        assert "sets are undecided at k = 1; run strobe eval" in capsys.readouterr().err
    with pytest.raises(strobe.StrobeError, match="sets are undecided at k = 1"):
        strobe.history(run, k=1)
    said(["history", str(run), "--k", "1", "--allow-missing", "-q"])
    assert f"{MODELS[0]}: 1 of 16 sets unscored\n" in capsys.readouterr().out
    said(["score", str(run), "--k", "1", "--allow-missing", "-q"])

    # A full run completes it, asking for what was skipped alone.
    capsys.readouterr()
    said(["predict", str(data), *models(), "-o", str(run), "-q"])
    printed = capsys.readouterr()
    for name in MODELS:
        counts = before["models"][name]["stopped_early"]
        assert f"{name}: {counts['frames'] - counts['ran']} new, {counts['ran']} cached" in printed.out
    said(["score", str(run), "-q"])
    for name in MODELS:
        one, whole = results(run)["models"][name], full["models"][name]
        assert one.keys() == whole.keys()
        assert {key: one[key] for key in BY_LABEL} == {key: whole[key] for key in BY_LABEL}


def test_a_broken_run_goes_on_as_an_unbroken_one(world: Path, tmp_path: Path, capsys: Any) -> None:
    plugin, most = tmp_path / "mine.py", tmp_path / "most"
    plugin.write_text(PLUGIN)
    words = ["-m", f"mine=py:{plugin}:make", "--trust", "--batch-size", "4", "--stop-early", "-q"]
    seen = {}
    for name, limits in (("unbroken", [10**6]), ("broken", [10, 21, 10**6])):
        run = tmp_path / name
        for limit in limits:
            most.write_text(str(limit))
            said(["eval", str(world / "data"), *words, "--no-report", "-o", str(run)], code=0 if limit > 99 else 2)
            if limit < 99:
                said(["score", str(run), "-q"], code=2)
                assert "mine was stopped early, and " in capsys.readouterr().err
        seen[name] = answers(world / "data", run, "mine")
    one, other = seen.values()
    assert one.state.tolist() == other.state.tolist()
    assert (one.state == State.SKIPPED).any()
    np.testing.assert_array_equal(one.scores, other.scores)
    assert results(tmp_path / "unbroken")["models"] == results(tmp_path / "broken")["models"]


def test_a_file_that_is_gone_leaves_its_set_out_as_in_a_full_run(world: Path, tmp_path: Path) -> None:
    data = shutil.copytree(world / "data", tmp_path / "data")
    dataset = folder.read(data)
    found = answers(data, world / "full", MODELS[0])
    wrong = np.flatnonzero(~dataset.right_rows(found.label)[dataset.sets.is_anchor])
    members = np.flatnonzero((dataset.sets.set == wrong[0]) & ~dataset.sets.is_anchor)
    (data / str(dataset.frames.media[dataset.sets.frame[members[0]]])).unlink()
    for name, more in (("full", []), ("early", ["--stop-early"])):
        said(["eval", str(data), "-m", MODELS[0], "--no-report", "-q", "-o", str(tmp_path / name), *more])
    full, early = (results(tmp_path / name)["models"][MODELS[0]] for name in ("full", "early"))
    assert full["unscored"] == {"frames": 1, "sets": 1}
    assert {key: early[key] for key in SETTLED} == {key: full[key] for key in SETTLED}


def test_what_cannot_stop_early_is_refused_in_one_line(world: Path, tmp_path: Path, capsys: Any) -> None:
    data, run = world / "data", tmp_path / "run"
    said(["predict", str(data), "-m", "strobe-tiny", "--stop-early", "-o", str(run), "-q"], code=2)
    assert "strobe-tiny: a detector's pm-k is mAP on the worst frames and needs every frame" in capsys.readouterr().out
    said(["vary", "corruption", str(data), str(tmp_path / "varied"), "--kind", "gaussian_noise", "-q"])
    capsys.readouterr()
    said(["eval", str(tmp_path / "varied"), "-m", MODELS[0], "--stop-early", "-o", str(run), "-q"], code=2)
    assert "--stop-early: varied has variants" in capsys.readouterr().err
    assert not run.exists()


def test_python_has_it_too(world: Path, tmp_path: Path) -> None:
    running = strobe.Running(stop_early=True)
    found = strobe.evaluate(world / "data", MODELS[0], tmp_path / "run", running=running, report=False)
    one, whole = found.scores[MODELS[0]], results(world / "full")["models"][MODELS[0]]
    assert one.acc_pmk.count == whole["acc_pmk"]["count"]
    assert "flip_rate" in one._repr_html_()
    assert list(one.to_frame("set")["holds"])
    with pytest.raises(strobe.StrobeError, match="strobe-world has no curve: it needs every frame"):
        one.plot()
    given: Callable[..., Any] = strobe.predict
    answered = given(world / "data", MODELS[0], running=running)
    assert int((answered.state == State.SKIPPED).sum()) == one.stopped_early.frames - one.stopped_early.ran
    assert strobe.score(world / "data", answered).acc_pmk == one.acc_pmk
