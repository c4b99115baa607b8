"""Answers that say nothing of flicker: constant ones, guesses, ties, another model's; said wherever figures stand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strobe
from strobe.analyses.answer_patterns import AnswerPattern
from strobe.core.dataset import Dataset

N_VIDEOS = 30


@pytest.fixture(scope="module")
def data() -> Dataset:
    return strobe.example_dataset(n_videos=N_VIDEOS, k=2)


def _truth(data: Dataset) -> np.ndarray[Any, Any]:
    truth = np.full(len(data.frames), -1)
    truth[data.labels.frame] = data.labels.label
    return truth


def _scores(labels: np.ndarray[Any, Any], n_classes: int, *, seed: int = 0) -> np.ndarray[Any, Any]:
    noise = np.random.default_rng(seed).uniform(0, 0.1, (len(labels), n_classes))
    return np.asarray(np.eye(n_classes)[labels] + noise)


def _given(data: Dataset, how: str) -> np.ndarray[Any, Any]:
    """Scores for every frame of the dataset: of a good model that flickers, a constant one, a guess, or blank ones."""
    truth, n_classes = _truth(data), len(data.info.label_space)
    rng = np.random.default_rng(7)
    if how == "constant":
        return _scores(np.ones(len(truth), dtype=int), n_classes)
    if how == "guess":
        return _scores(rng.integers(0, n_classes, len(truth)), n_classes)
    if how == "blank":
        scores = _scores(truth, n_classes)
        scores[::4] = 0
        return scores
    wrong = rng.random(len(truth)) < 0.05
    return _scores(np.where(wrong, (truth + 1) % n_classes, truth), n_classes)


def test_a_constant_answer_is_named(data: Dataset) -> None:
    found = strobe.score(data, _given(data, "constant"), name="m")
    name = data.info.label_space.names[1]
    assert found.answers is not None
    assert (found.answers.constant, found.answers.n_classes) == (name, len(data.info.label_space))
    line = (
        f"it answers “{name}” on every frame, although the sets have {len(data.info.label_space)} classes; a constant "
        "answer is no evidence about flicker"
    )
    assert found.notes is not None
    assert line in found.notes
    assert line in found._repr_html_()


def test_a_guess_is_no_better_than_one_answer_and_a_good_model_is(data: Dataset) -> None:
    guess = strobe.score(data, _given(data, "guess"), name="m")
    assert guess.answers is not None
    assert guess.answers.constant is None
    assert guess.answers.best_constant in data.info.label_space.names
    assert any("that of the constant answer" in note for note in guess.notes or ())
    assert strobe.score(data, _given(data, "good"), name="m").answers is None


def test_the_best_constant_answer_against_a_plain_reference(data: Dataset) -> None:
    rng = np.random.default_rng(1)
    truth, n_classes = _truth(data), len(data.info.label_space)
    anchors = data.sets.anchor_frame
    best = np.bincount(truth[anchors], minlength=n_classes).max() / len(anchors)
    for share in np.linspace(0.3, 1.0, 8):
        wrong = rng.random(len(truth)) > share
        labels = np.where(wrong, (truth + 1) % n_classes, truth)
        found = strobe.score(data, _scores(labels, n_classes), name="m")
        right = (labels == truth)[anchors].mean()
        reported = found.answers is not None and found.answers.best_constant is not None
        if right <= best:
            assert reported
            assert found.answers is not None
            assert found.answers.best_constant_acc == pytest.approx(best)
            assert found.answers.p is None
        if right > best + 0.35:
            assert not reported


def test_few_ties_are_counted_and_not_said() -> None:
    assert AnswerPattern(n_frames=1000, tied_frames=4).sentences() == []
    assert len(AnswerPattern(n_frames=1000, tied_frames=5).sentences()) == 1
    assert len(AnswerPattern(n_frames=1000, tied_frames=4, blank_frames=1).sentences()) == 1


@pytest.fixture(scope="module")
def folder(data: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset, and a file of predictions for each way to answer."""
    root = tmp_path_factory.mktemp("patterns")
    strobe.save_dataset(data, root / "data")
    for how in ("good", "constant", "guess"):
        given = dict(zip(data.frames.key.tolist(), _given(data, how).tolist(), strict=True))
        (root / f"{how}.json").write_text(json.dumps(given))
    return root


def test_a_constant_model_beside_a_good_one(folder: Path, called: Callable[..., str]) -> None:
    run = folder / "two"
    models = ("-m", f"good=preds:{folder}/good.json", "-m", f"m=preds:{folder}/constant.json")
    called("eval", folder / "data", *models, "-o", run)
    page = (run / "report.html").read_text(encoding="utf-8")
    assert "good gets " in page
    assert "This model is excluded from this summary." in page
    assert "such a warning below the results" not in page
    compared = called("compare", run)
    assert " m: it answers “" in compared
    gated = called("gate", run, "-m", "m", "--baseline", "good", "--max-loss", "drop=5")
    assert "m: it answers “" in gated
    assert "m: it answers “" in (run / "gate/gate.md").read_text(encoding="utf-8")
    assert "m: it answers “" in (run / "gate/gate.xml").read_text(encoding="utf-8")
    cautions = json.loads((run / "gate/gate.json").read_text())["cautions"]
    assert any(caution.startswith("m: it answers") for caution in cautions)


def test_models_with_the_same_answers_are_named(folder: Path, called: Callable[..., str]) -> None:
    """docs/ci.md: two models that share their weights by mistake passed every gate in silence."""
    run, line = folder / "same", "new: it gives the same answers as base on every frame; is it the same model?"
    models = ("-m", f"base=preds:{folder}/good.json", "-m", f"new=preds:{folder}/good.json")
    assert line in called("eval", folder / "data", *models, "-o", run)
    assert line in (run / "report.html").read_text(encoding="utf-8")
    assert json.loads((run / "results.json").read_text())["models"]["new"]["answers"]["same_as"] == ["base"]
    assert line in called("score", run)
    assert "They give the same answers on every frame; are they the same model?" in called("compare", run)
    rules = ("--max-loss", "acc_pmk=5")
    assert line in called("gate", run, "-m", "new", "--baseline", "base", *rules)
    assert line in (run / "gate/gate.md").read_text(encoding="utf-8")
