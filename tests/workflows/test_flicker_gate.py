"""Gate, compare and history of runs without labels: flicker is one more figure, and more of it is worse."""

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import strobe
from strobe.analyses import video_measures as measures
from strobe.analyses.clips import ClipComparison, Scope
from strobe.analyses.gate import measures_by_name
from strobe.analyses.measures import measure, measures_of
from strobe.analyses.video_measures import VideoAnswers
from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.files import write_json
from strobe.core.ports import Silent
from strobe.core.tables import Labels
from strobe.metrics.columns import Column, share
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
    ("limit", "scope", "passed", "verdict"),
    [
        (40, "other-videos", True, "pass"),
        (20, "these-clips", True, "pass"),
        (20, "other-videos", None, "inconclusive"),
        (15, "these-clips", False, "worse"),
        (15, "other-videos", None, "inconclusive"),
        (5, "other-videos", False, "regression"),
    ],
)
def test_a_limit_on_flicker(runs: Path, limit: float, scope: Scope, passed: bool | None, verdict: str) -> None:
    found = strobe.gate(runs / "old", max={"flicker": limit}, scope=scope)
    (one,) = found.checks
    assert (found.passed, one.verdict, one.figure.count, one.figure.n) == (passed, verdict, 10, 60)
    assert (found.n_sets, found.n_sources, found.unlabelled_sets) == (60, 60, None)
    assert (one.videos is not None) is (passed is None)
    assert one.limit.title == f"flicker at most {limit} %"
    # the same rule on the other side
    assert strobe.gate(runs / "old", min={"consistency": 100 - limit}, scope=scope).passed is passed


def test_a_loss_of_flicker_is_a_rise(runs: Path, command: Called) -> None:
    found = strobe.gate(runs / "worse", against=runs / "old", max_loss={"flicker": 2})
    (one,) = found.checks
    assert (found.passed, one.verdict) == (False, "worse")
    assert one.figure.value == pytest.approx(0.5)
    assert one.limit.title == "growth of flicker at most 2 points"
    better = strobe.gate(runs / "better", against=runs / "old", max_loss={"flicker": 2}).checks[0]
    assert (better.passed, better.verdict, round(better.figure.value or 0, 4)) == (True, "pass", -0.1667)
    code, out, err = command("gate", str(runs / "same"), "--against", str(runs / "old"), "--max-loss", "flicker=2")
    assert code == 0, out + err
    assert "net is worse than old/net on these 60 clips: stray_frames 3.3 % → 3.7 %.\n" in out
    assert "newly unsteady: 1 place (old/net keeps its answer there)\n  clip-010 frame 4  cat → dog\n" in out
    assert "newly unsteady: 1 place" in (runs / "same" / "gate" / "gate.md").read_text(encoding="utf-8")
    (stored,) = json.loads((runs / "same" / "gate" / "gate.json").read_text(encoding="utf-8"))["clips"]
    assert (stored["verdict"], len(stored["unsteady"]), stored["steady"]) == ("worse", 1, [])


def test_missing_sets_decide_by_bounds(runs: Path) -> None:
    """10 of 55 sets flicker and 5 are missing: over all sets, from 10 to 15 of 60."""
    allowed = strobe.gate(runs / "part", max={"flicker": 60}, allow_missing=True)
    (one,) = allowed.checks
    assert allowed.passed
    assert allowed.missing_sets == 5
    assert one.extremes is not None
    assert [round(60 * (end.value or 0)) for end in one.extremes] == [10, 15]
    (unclear,) = strobe.gate(runs / "part", max={"flicker": 20}, allow_missing=True).checks
    assert (unclear.verdict, unclear.passed) == ("inconclusive", None)
    (steady,) = strobe.gate(runs / "part", min={"consistency": 80}, allow_missing=True).checks
    assert (steady.verdict, steady.passed) == ("inconclusive", None)
    (beyond,) = strobe.gate(runs / "part", max={"flicker": 5}, allow_missing=True).checks
    assert (beyond.verdict, beyond.passed) == ("worse", False), "beyond the limit whatever the missing sets are"
    (loss,) = strobe.gate(runs / "part", against=runs / "old", max_loss={"flicker": 30}, allow_missing=True).checks
    assert loss.extremes is not None
    assert [round(60 * (end.value or 0)) for end in loss.extremes] == [0, 5]
    (flips,) = strobe.gate(runs / "part", max={"flip_rate": 90}, allow_missing=True).checks
    assert (flips.verdict, flips.passed) == ("pass", True), "a share over sets is bounded like flicker"


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
    (rate,) = strobe.plan_gate({"longest_stray": 0.1}, run=runs / "same", against=runs / "old")
    assert (rate.limit.unit, rate.measured_on) == ("frames", 60)
    assert "a loss of 0.2 frames fails" in repr(
        strobe.plan_gate({"longest_stray": 0.1}, run=runs / "same", against=runs / "old")
    )


def test_compare_names_what_changed(runs: Path, command: Called) -> None:
    (one,) = strobe.compare(runs / "old", runs / "worse")
    assert isinstance(one, ClipComparison)
    assert (one.old, one.new, one.scope, one.lead, one.verdict) == (
        "old/net", "worse/net", "these-clips", "stray_frames", "worse"
    )  # fmt: skip
    figures = {found.measure: round(found.change or 0, 4) for found in one.differences}
    assert (figures["flicker"], figures["flip_rate"], figures["stray_frames"]) == (0.5, 0.125, 0.1)
    assert ([spot.video for spot in one.unsteady], one.steady) == ([f"clip-{n:03}" for n in range(10, 40)], ())
    assert {(spot.frame, spot.time_s, spot.answers, spot.changes) for spot in one.unsteady} == {
        (4, None, ("cat", "dog"), 1)
    }
    assert one.leading is not None
    assert one.leading.p_others is not None
    assert one.leading.p_others < 1e-6
    (others,) = strobe.compare(runs / "old", runs / "worse", scope="other-videos")
    assert (others.scope, others.verdict) == ("other-videos", "regression")
    (recording,) = strobe.compare(runs / "old", runs / "worse", scope="this-recording")
    assert (recording.scope, recording.verdict) == ("this-recording", "inconclusive"), "one set a clip has no blocks"
    code, out, err = command("compare", str(runs / "old"), str(runs / "same"), str(runs / "better"))
    assert code == 0, out + err
    assert "same/net is worse than old/net on these 60 clips: stray_frames 3.3 % → 3.7 %.\n" in out
    assert "better/net is better than old/net on these 60 clips: stray_frames 3.3 % → 0.0 %.\n" in out
    assert "newly steady: 11 places (better/net keeps its answer there), the first 10\n" in out
    assert out.count("About these clips only (300 frames): a fact, not an estimate. For other videos: ") == 3
    assert "without a label" not in out


def test_compare_with_labels_on_some_sets(runs: Path, tmp_path: Path) -> None:
    data = strobe.load_dataset(runs / "mixed-data")
    with pytest.warns(UserWarning, match="without a label"):
        strobe.evaluate(runs / "mixed-data", flickering(data, [1, 2], name="other"), tmp_path / "run", report=False)
    found = strobe.compare(runs / "mixed", tmp_path / "run")
    assert [(one.metric, one.n_sets) for one in found] == [("acc_orig", 20), ("acc_pmk", 20), ("drop", 20)]


def test_history_of_flicker(runs: Path, tmp_path: Path, command: Called) -> None:
    names = ("old", "same", "worse", "better")
    found = strobe.history(*(runs / name for name in names))
    assert {step.measure for step in found.steps} == {"stray_frames"}
    assert [round(300 * (step.tested.value or 0)) for step in found.steps] == [10, 11, 40, 0]
    assert [step.clearly for step in found.steps] == [None, "worse", "worse", "better"], "facts about these clips"
    assert [step.best for step in found.steps] == [None, "old", "old", "old"]
    assert found.steps[3].clearly_first == "better"
    code, out, err = command("history", *(str(runs / name) for name in names), "-o", str(tmp_path / "out"))
    assert code == 0, out + err
    assert "stray_frames since the previous, points" in out
    assert "better and worse are facts about these clips" in out
    rows = list(csv.DictReader((tmp_path / "out" / "history.csv").read_text(encoding="utf-8").splitlines()))
    assert "acc_pmk" not in rows[0]
    assert float(rows[2]["stray_frames"]) == pytest.approx(2 / 15, abs=1e-6)
    assert (tmp_path / "out" / "history.png").stat().st_size > 1000


def test_each_line_of_a_history_is_compared_with_itself(runs: Path, tmp_path: Path) -> None:
    data = strobe.load_dataset(runs / "data")
    for day, (first, second) in enumerate([(10, 40), (11, 30)], start=1):
        both = {
            "a": flickering(data, list(range(first)), name="a"),
            "b": flickering(data, list(range(second)), name="b"),
        }
        strobe.evaluate(runs / "data", both, tmp_path / f"run-{day}", report=False)
    found = strobe.history(tmp_path / "run-1", tmp_path / "run-2", order="given")
    assert {name: [step.clearly for step in steps] for name, steps in found.lines().items()} == {
        "a": [None, "worse"], "b": [None, "better"]
    }  # fmt: skip


@pytest.fixture
def one_more(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One more declaration in `MEASURES`, which nothing else knows."""

    @measure(worse="more", lead=9)
    def ends_apart(video: VideoAnswers) -> Column:
        """Share of sets whose last frame gets another answer than the first."""
        last = np.append(video.plan.start[1:], len(video.plan.frame)) - 1
        differs = video.labels[video.plan.frame[video.plan.start]] != video.labels[video.plan.frame[last]]
        return share(differs, video.plan.cluster, measured=video.scored)

    monkeypatch.setattr(measures, "MEASURES", (*measures.MEASURES, ends_apart))
    measures_of.cache_clear()
    yield
    monkeypatch.undo()
    measures_of.cache_clear()


@pytest.mark.usefixtures("one_more")
def test_a_measure_is_one_declaration(runs: Path, tmp_path: Path, command: Called) -> None:
    """It is scored, written, compared, gated, followed over time and shown without another line."""
    data = strobe.load_dataset(runs / "data")
    for name, n in (("one", 10), ("two", 30)):
        strobe.evaluate(runs / "data", flickering(data, list(range(n))), tmp_path / name)
    results = json.loads((tmp_path / "two" / "results.json").read_text(encoding="utf-8"))
    assert results["flicker"]["models"]["net"]["measures"]["ends_apart"]["value"] == 0.5
    with (tmp_path / "two" / "tables" / "flicker.csv").open(encoding="utf-8") as file:
        assert [float(row["ends_apart"]) for row in csv.DictReader(file)] == [0.5]
    assert "ends_apart" in (tmp_path / "two" / "report.html").read_text(encoding="utf-8")
    (pair,) = strobe.compare(tmp_path / "one", tmp_path / "two")
    assert isinstance(pair, ClipComparison)
    assert (pair.lead, pair.verdict) == ("ends_apart", "worse")
    rules = {"max": {"ends_apart": 40}, "max_loss": {"ends_apart": 60}}
    found = strobe.gate(tmp_path / "two", against=tmp_path / "one", scope="other-videos", **rules)
    assert [(round(60 * (one.figure.value or 0)), one.verdict) for one in found.checks] == [
        (20, "pass"),
        (30, "inconclusive"),
    ]
    steps = strobe.history(tmp_path / "one", tmp_path / "two", order="given").steps
    assert [(step.measure, step.clearly) for step in steps] == [("ends_apart", None), ("ends_apart", "worse")]
    code, out, _ = command("compare", str(tmp_path / "one"), str(tmp_path / "two"))
    assert (code, "ends_apart 16.7 % → 50.0 %" in out) == (0, True)
    assert "ends_apart" in measures_by_name(), "the viewer's columns"
