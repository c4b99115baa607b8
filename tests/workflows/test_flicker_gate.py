"""Gate, compare and history of runs without labels: flicker is one more figure, and more of it is worse."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import strobe
from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.files import write_json
from strobe.core.ports import Silent
from strobe.core.tables import Labels
from strobe.store.run_folder import Run
from strobe.workflows.score import ScoreRunOptions, score_dataset

Called = Callable[..., tuple[int, str, str]]


def without_labels(dataset: Dataset, kept: int = 0) -> Dataset:
    """The dataset with labels on the frames of its first sets alone."""
    frames = dataset.sets.frame[dataset.sets.set < kept]
    some = np.isin(dataset.labels.frame, frames)
    return replace(dataset, labels=Labels(frame=dataset.labels.frame[some], label=dataset.labels.label[some]))


def flickering(data: Dataset, sets: list[int], *, missing: int = 0, name: str = "net") -> ClassAnswers:
    """A model with one answer throughout, except on the last frame of these sets; no answer on the last sets."""
    label, scored = np.zeros(len(data.frames), dtype=np.int64), np.ones(len(data.frames), dtype=bool)
    for one in sets:
        label[data.sets.frame[data.sets.set == one][-1]] = 1
    scored[data.sets.frame[data.sets.set >= data.n_sets - missing]] = False
    return ClassAnswers.from_labels(name, label, scored=scored)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on 60 sets of 60 videos without a label, which flicker on 10, on 11 (one newly), on 40 and on no set."""
    folder = tmp_path_factory.mktemp("flicker")
    whole = strobe.example_dataset(n_videos=60, k=2)
    data = without_labels(whole)
    strobe.save_dataset(data, folder / "data")
    cases = {"old": range(10), "same": range(11), "worse": range(40), "better": range(0)}
    for day, (name, sets) in enumerate(cases.items(), start=1):
        strobe.evaluate(folder / "data", flickering(data, list(sets)), folder / name, report=False)
        about = Run(folder / name).about()
        write_json(folder / name / "run.json", about | {"at": f"2026-03-0{day}T10:00:00+00:00"})
    part, names = flickering(data, list(range(10)), missing=5), data.info.label_space.names
    said = {str(data.frames.key[row]): names[part.label[row]] for row in np.flatnonzero(part.scored).tolist()}
    (folder / "net.json").write_text(json.dumps(said), encoding="utf-8")
    score_dataset(
        folder / "data", [f"preds:{folder}/net.json"], folder / "part", ScoreRunOptions(allow_missing=True), Silent()
    )
    strobe.save_dataset(without_labels(whole, kept=20), folder / "mixed-data")
    with pytest.warns(UserWarning, match="40 sets without a label are excluded"):
        strobe.evaluate(folder / "mixed-data", flickering(data, list(range(30, 40))), folder / "mixed", report=False)
    strobe.save_dataset(whole, folder / "labelled-data")
    strobe.evaluate(folder / "labelled-data", flickering(data, [0]), folder / "labelled", report=False)
    return folder


@pytest.mark.parametrize(
    ("limit", "fail_on", "passed", "verdict"),
    [
        (40, "figure", True, "holds"),
        (20, "figure", True, "not shown"),
        (20, "doubt", False, "not shown"),
        (15, "figure", False, "not shown"),
        (5, "shown", False, "clearly worse"),
    ],
)
def test_a_limit_on_flicker(runs: Path, limit: float, fail_on: str, passed: bool, verdict: str) -> None:
    found = strobe.gate(runs / "old", max={"flicker": limit}, fail_on=fail_on)  # type: ignore[arg-type]
    (one,) = found.checks
    assert (found.passed, one.verdict, one.figure.count, one.figure.n) == (passed, verdict, 10, 60)
    assert (found.n_sets, found.n_sources, found.unlabelled_sets) == (60, 60, None)
    assert one.detectable is not None
    assert one.limit.title == f"flicker at most {limit} %"
    # the same rule on the other side
    assert strobe.gate(runs / "old", min={"consistency": 100 - limit}, fail_on=fail_on).passed is passed  # type: ignore[arg-type]


def test_a_loss_of_flicker_is_a_rise(runs: Path, command: Called) -> None:
    found = strobe.gate(runs / "worse", against=runs / "old", max_loss={"flicker": 2})
    (one,) = found.checks
    assert (found.passed, one.verdict) == (False, "clearly worse")
    assert one.figure.value == pytest.approx(0.5)
    assert one.limit.title == "growth of flicker at most 2 points"
    assert "a larger growth is shown" in one.sentence
    better = strobe.gate(runs / "better", against=runs / "old", max_loss={"flicker": 2}).checks[0]
    assert (better.passed, better.verdict, round(better.figure.value or 0, 4)) == (True, "holds", -0.1667)
    code, out, err = command("gate", str(runs / "same"), "--against", str(runs / "old"), "--max-loss", "flicker=2")
    assert code == 0, out + err
    assert "0 sets no longer flickering, 1 set newly flickering, of 60" in out
    assert "equal models fail in" in out
    assert "Newly flickering: 1 set" in (runs / "same" / "gate" / "gate.md").read_text(encoding="utf-8")
    stored = json.loads((runs / "same" / "gate" / "gate.json").read_text(encoding="utf-8"))
    assert (stored["change"]["newly_broken"], stored["change"]["flicker"]) == (1, True)


def test_missing_sets_decide_by_bounds(runs: Path) -> None:
    """10 of 55 sets flicker and 5 are missing: over all sets, from 10 to 15 of 60."""
    allowed = strobe.gate(runs / "part", max={"flicker": 60}, allow_missing=True)
    (one,) = allowed.checks
    assert allowed.passed
    assert allowed.missing_sets == 5
    assert one.extremes is not None
    assert [end.count for end in one.extremes] == [10, 15]
    (unclear,) = strobe.gate(runs / "part", max={"flicker": 20}, allow_missing=True).checks
    assert (unclear.verdict, unclear.passed) == ("cannot tell", False)
    (steady,) = strobe.gate(runs / "part", min={"consistency": 80}, allow_missing=True).checks
    assert (steady.verdict, steady.passed) == ("cannot tell", False)
    assert strobe.gate(runs / "part", max={"flicker": 5}, fail_on="shown", allow_missing=True).passed is False
    (loss,) = strobe.gate(runs / "part", against=runs / "old", max_loss={"flicker": 30}, allow_missing=True).checks
    assert loss.extremes is not None
    assert [round(60 * (end.value or 0)) for end in loss.extremes] == [0, 5]
    (flips,) = strobe.gate(runs / "part", max={"flip_rate": 90}, allow_missing=True).checks
    assert flips.verdict == "cannot tell"


def test_labels_on_some_sets(runs: Path) -> None:
    """Accuracy is judged on the sets with a label, and flicker on all of them."""
    found = strobe.gate(runs / "mixed", max={"flicker": 30}, min={"acc_orig": 1})
    assert [one.figure.n for one in found.checks] == [20, 60]
    assert found.checks[1].figure.count == 10
    assert "flicker is measured on all 60 sets, with and without a label" in (found.cautions or ())


def test_no_flicker_is_one_line(runs: Path, command: Called) -> None:
    with pytest.raises(StrobeError, match="has no flicker: every set has a label, so accuracy is measured instead"):
        strobe.gate(runs / "labelled", max={"flicker": 20})
    code, _, err = command("gate", str(runs / "labelled"), "--max", "flicker=20")
    assert (code, len(err.strip().splitlines())) == (2, 1)
    with pytest.raises(StrobeError, match="none of the 60 sets has a label"):
        strobe.gate(runs / "old", min={"acc_pmk": 50})


def test_a_plan(runs: Path) -> None:
    assert strobe.plan_gate({"flicker": 2})[0].videos == strobe.plan_gate({"acc_pmk": 2})[0].videos
    (measured,) = strobe.plan_gate({"flicker": 2}, run=runs / "same", against=runs / "old")
    assert measured.measured_on == 60


def test_compare_names_what_changed(runs: Path, command: Called) -> None:
    found = strobe.compare(runs / "old", runs / "worse")
    assert [one.metric for one in found] == ["flicker"]
    one = found[0]
    assert (one.n_sets, one.only_a, one.only_b, one.test) == (60, 0, 30, "exact McNemar")
    assert one.p_holm is not None
    assert one.p_holm < 0.05
    assert "worse/net flickers more than old/net: it changes its answer in more sets (+50.0 points" in one.sentence
    code, out, err = command("compare", str(runs / "old"), str(runs / "same"), str(runs / "better"))
    assert code == 0, out + err
    assert "No significant difference between old/net and same/net in flicker (−1.7 points" in out
    assert "From old/net to same/net: 0 sets no longer flickering, 1 set newly flickering, of 60." in out
    assert "  no longer flickering: " in out
    assert "without a label" not in out


def test_compare_with_labels_on_some_sets(runs: Path, tmp_path: Path) -> None:
    data = strobe.load_dataset(runs / "mixed-data")
    with pytest.warns(UserWarning, match="without a label"):
        strobe.evaluate(runs / "mixed-data", flickering(data, [1, 2], name="other"), tmp_path / "run", report=False)
    found = strobe.compare(runs / "mixed", tmp_path / "run")
    assert [(one.metric, one.n_sets) for one in found] == [
        ("acc_orig", 20), ("acc_pmk", 20), ("drop", 20), ("flicker", 60)
    ]  # fmt: skip


def test_history_of_flicker(runs: Path, tmp_path: Path, command: Called) -> None:
    names = ("old", "same", "worse", "better")
    found = strobe.history(*(runs / name for name in names))
    assert [round(60 * (step.tested.value or 0)) for step in found.steps] == [10, 11, 40, 0]
    assert [step.clearly for step in found.steps] == [None, None, "worse", "better"]
    assert [step.best for step in found.steps] == [None, "old", "old", "old"]
    assert found.steps[3].clearly_first == "better"
    code, out, err = command("history", *(str(runs / name) for name in names), "-o", str(tmp_path / "out"))
    assert code == 0, out + err
    assert "flicker since the previous, points" in out
    rows = list(csv.DictReader((tmp_path / "out" / "history.csv").read_text(encoding="utf-8").splitlines()))
    assert "acc_pmk" not in rows[0]
    assert float(rows[2]["flicker"]) == pytest.approx(2 / 3)
    assert (tmp_path / "out" / "history.png").stat().st_size > 1000
