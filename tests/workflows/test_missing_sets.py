"""A gate decides whatever the missing sets are, or is inconclusive; every verb says how many are missing."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import strobe
from strobe.analyses.classification import Prepared, score
from strobe.analyses.clips import ModelColumns
from strobe.analyses.comparison import columns_of
from strobe.analyses.gate import figure_of, losses_of
from strobe.analyses.model_results import CLASSIFICATION, ClassificationScore
from strobe.analyses.plan import ScoreOptions
from strobe.core.answers import ClassAnswers, State
from strobe.core.dataset import Dataset
from strobe.metrics.intervals import proportion

Called = Callable[..., str]
MISSING = "--allow-missing"
OTHERS = ("--for", "other-videos")
ONE = "1 set lacks predictions: the figure over all sets is between"


@pytest.fixture
def forty() -> Dataset:
    return strobe.example_dataset(n_videos=40, k=3)


def answers(dataset: Dataset, name: str, *, fails: int = 0, damaged: int = 0) -> ClassAnswers:
    """A model that fails on a member of the first sets; of the first `damaged` sets that member cannot be read."""
    label = np.zeros(len(dataset.frames), dtype=np.int64)
    label[dataset.labels.frame] = dataset.labels.label
    last = np.array([dataset.sets.frame[dataset.sets.set == one][-1] for one in range(dataset.n_sets)])
    label[last[:fails]] = 1 - label[last[:fails]]
    found = ClassAnswers.from_labels(name, label)
    state = found.state.copy()
    state[last[:damaged]] = State.UNREADABLE
    reasons = dict.fromkeys(last[:damaged].tolist(), "cannot be decoded")
    return replace(found, state=state, label=np.where(state == State.UNREADABLE, -1, label), reasons=reasons)


@pytest.fixture
def called(command: Callable[..., tuple[int, str, str]]) -> Called:
    """Call strobe; what it printed, after its exit code was checked."""

    def call(*words: object, code: int = 0) -> str:
        ended, out, err = command(*words)
        assert ended == code, out + err
        return out + err

    return call


@pytest.fixture
def place(forty: Dataset, tmp_path: Path, called: Called) -> Path:
    """Runs of a model that fails 17 sets, whole and without one member of each of them; and of perfect ones."""
    folder = strobe.save_dataset(forty, tmp_path / "data")
    names = forty.info.label_space.names
    for run, fails, damaged in (("intact", 17, 0), ("best", 0, 0), ("damaged", 17, 17), ("one", 1, 1)):
        one = answers(forty, "net", fails=fails, damaged=damaged)
        rows = np.flatnonzero(one.scored).tolist()
        found = {str(forty.frames.key[row]): names[one.label[row]] for row in rows}
        (tmp_path / run).mkdir()
        (tmp_path / run / "net.json").write_text(json.dumps(found), encoding="utf-8")
        called("score", folder, "-m", f"preds:{tmp_path / run}/net.json", "-o", tmp_path / run / "run", MISSING)
    return tmp_path


def test_damaged_members_do_not_open_a_gate(place: Path, called: Called) -> None:
    said = called("gate", MISSING, place / "intact" / "run", "--min", "acc_pmk=80", code=1)
    assert "57.5 [40.9, 73.0] %: worse, the figure is beyond the limit" in said
    said = called("gate", MISSING, place / "damaged" / "run", "--min", "acc_pmk=80", code=3)
    assert "40 sets of 40 videos, k = 3, 17 of them with missing predictions" in said
    assert "inconclusive, 17 sets lack predictions: the figure over all sets is between 57.5 % and 100.0 %" in said
    written = json.loads((place / "damaged" / "run" / "gate" / "gate.json").read_text(encoding="utf-8"))
    assert written["missing_sets"] == 17
    assert [round(one["value"], 3) for one in written["checks"][0]["extremes"]] == [0.575, 1]


@pytest.mark.parametrize(
    ("rule", "verdict", "code"),
    [
        (("--min", "acc_pmk=90"), f"pass, {ONE} 97.5 % and 100.0 %; the figure is within the limit", 0),
        (("--min", "acc_pmk=80", *OTHERS), f"pass, {ONE} 97.5 % and 100.0 %; the interval is within the limit", 0),
        (("--min", "acc_pmk=90", *OTHERS), f"inconclusive, {ONE} 97.5 % and 100.0 %; predict them", 3),  # [86.8, 99.9]
        (("--min", "acc_pmk=98"), f"inconclusive, {ONE} 97.5 % and 100.0 %; predict them", 3),
        (("--max", "drop=15"), f"pass, {ONE} 0.0 % and 2.5 %; the figure is within the limit", 0),
        (("--max", "drop=2"), f"inconclusive, {ONE} 0.0 % and 2.5 %", 3),
        (("--max", "drop=-1"), f"worse, {ONE} 0.0 % and 2.5 %; the figure is beyond the limit", 1),
        (("--max", "drop=-15", *OTHERS), f"regression, {ONE} 0.0 % and 2.5 %; the interval is beyond the limit", 1),
        (("--min", "mean_frame=50"), "inconclusive, 1 set lacks predictions, and their effect cannot be", 3),
    ],
)
def test_a_verdict_holds_whatever_the_missing_set_is(place, called, rule, verdict, code) -> None:
    assert verdict in called("gate", MISSING, place / "one" / "run", *rule, code=code)


def test_a_loss_is_bounded_over_what_either_lacks(place: Path, called: Called) -> None:
    rule = ("--max-loss", "acc_pmk=20")
    said = called("gate", MISSING, place / "one" / "run", "--against", place / "best" / "run", *rule)
    assert f"pass, {ONE} 0.0 % and 2.5 %; the figure is within the limit" in said
    said = called("gate", MISSING, place / "damaged" / "run", "--against", place / "best" / "run", *rule, code=3)
    assert "inconclusive, 17 sets lack predictions: the figure over all sets is between 0.0 % and 42.5 %" in said
    said = called("gate", MISSING, place / "best" / "run", "--against", place / "damaged" / "run", *rule)
    assert "pass, 17 sets" in said  # whatever the baseline lacks, a perfect model loses nothing
    assert "between −42.5 % and 0.0 %" in said


def test_a_file_that_cannot_be_read_is_missing(tmp_path: Path, called: Called) -> None:
    """The same by a model that runs: a set with a damaged file opens no gate that its model fails."""
    folder = tmp_path / "data"
    dataset = strobe.synthesize(folder, videos=6, size=32, k=1, seed=1)
    row = int(dataset.sets.frame[dataset.sets.set == 0][-1])
    (folder / dataset.frames.media[row]).write_bytes(b"damaged")
    classes = dataset.info.label_space.names
    always_first = f"lambda images: [[1.0] + [0.0] * {len(classes) - 1}] * len(images)"
    model = f"def make():\n    return ({always_first}), {list(classes)!r}\n"
    (tmp_path / "net.py").write_text(model, encoding="utf-8")
    run = tmp_path / "run"
    called("eval", folder, "-m", f"py:{tmp_path}/net.py:make", "-o", run, "--no-report", code=0)
    said = called("gate", run, "--max", "drop=10", code=3)
    assert "6 sets of 6 videos, k = 1, 1 of them with missing predictions" in said
    assert f"inconclusive, {ONE} 0.0 % and 16.7 %" in said


def test_the_extremes_by_hand(forty: Dataset) -> None:
    prepared = Prepared(forty, ScoreOptions())
    new = score(forty, answers(forty, "new", fails=9, damaged=4), prepared=prepared)
    old = score(forty, answers(forty, "old", damaged=6), prepared=prepared)

    def columns(found: ClassificationScore) -> ModelColumns:
        own = columns_of(found)
        return ModelColumns(name=found.model, columns=own, own=own, scored=found.scored)

    videos = forty.video_of_set
    for name, low, high in (("acc_orig", 36, 40), ("acc_pmk", 31, 35), ("drop", 5, 9)):
        found = figure_of(columns(new), name, ScoreOptions())
        assert found.n_missing == 4
        for one, count in zip(found.extremes, (low, high), strict=True):
            assert one == proportion(np.arange(40) < count, videos, interval="auto"), name
    alone = figure_of(columns(replace(new, k=0)), "drop", ScoreOptions()).extremes
    assert [one.value for one in alone] == [0.0, 0.0], "without members, no missing set can break"
    losses = losses_of(CLASSIFICATION, columns(new), columns(old)).values()
    assert {one.n_missing for one in losses} == {6}
    assert [round(40 * one.extremes.lowest.value) for one in losses] == [-6, -1, -1]
    assert [round(40 * one.extremes.highest.value) for one in losses] == [4, 9, 9]
    whole = columns(score(forty, answers(forty, "whole"), prepared=prepared))
    assert figure_of(whole, "drop", ScoreOptions()).extremes is None


def test_compare_and_history_say_how_many_are_missing(place: Path, called: Called) -> None:
    said = called("compare", MISSING, place / "best" / "run", place / "damaged" / "run")
    assert "n = 23, 17 sets with missing predictions not compared" in said
    found = json.loads(called("compare", MISSING, place / "best" / "run", place / "damaged" / "run", "--json"))
    assert {one["missing_sets"] for one in found} == {17}
    said = called(
        "history",
        MISSING,
        place / "best" / "run",
        place / "damaged" / "run",
        "--order",
        "given",
        "-o",
        place / "history",
    )
    assert "damaged·run: 17 of 40 sets unscored" in said
    with (place / "history" / "history.csv").open(newline="", encoding="utf-8") as file:
        assert [row["unscored_sets"] for row in csv.DictReader(file)] == ["0", "17"]


def test_python_warns(forty: Dataset) -> None:
    excluded = "17 sets without all predictions are excluded from all figures"
    said = f"{excluded}; over all sets acc_pmk is between 57.5 and 100.0 %"
    with pytest.warns(UserWarning, match=said):
        found = strobe.score(forty, answers(forty, "net", fails=17, damaged=17))
    assert found.notes == (said,)
