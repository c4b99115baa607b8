"""Gates and history: decided by the figure or by the interval, said for people, pull requests and machines."""

import csv
import html
import json
import shutil
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strobe
from strobe.analyses.clips import ModelColumns
from strobe.analyses.gate import Check, Gate, Limit, Quantity, check, judge, outcome
from strobe.analyses.plan import ScoreOptions
from strobe.core.answers import ClassAnswers
from strobe.core.builder import DatasetBuilder
from strobe.core.codec import decode, encode
from strobe.core.estimate import Estimate
from strobe.core.files import read_json, write_json
from strobe.metrics.paired import least_videos
from strobe.report.gate import as_markdown
from strobe.store.run_folder import Run


def _wrong(data: strobe.Dataset, sets: list[int]) -> ClassAnswers:
    """A model that is right but on the last frame of these sets."""
    label = np.empty(len(data.frames), dtype=np.int64)
    label[data.labels.frame] = data.labels.label
    for one in sets:
        row = data.sets.frame[data.sets.set == one][-1]
        label[row] = 1 - label[row]
    return ClassAnswers.from_labels("net", label)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four checkpoints of `net` on 60 sets of 60 videos: wrong on 10, on 11 (one newly), on 40 and on none."""
    folder = tmp_path_factory.mktemp("gate")
    data = strobe.example_dataset(n_videos=60, k=2)
    strobe.save_dataset(data, folder / "data")
    few = strobe.example_dataset(n_videos=4, k=2)
    strobe.save_dataset(few, folder / "few")
    cases = {"old": range(10), "same": range(11), "worse": range(40), "better": []}
    for day, (name, sets) in enumerate(cases.items(), start=1):
        strobe.evaluate(folder / "data", _wrong(data, list(sets)), folder / name, report=False)
        about = Run(folder / name).about()
        write_json(folder / name / "run.json", about | {"at": f"2026-03-0{day}T10:00:00+00:00"})
    for name, sets in {"few-old": [], "few-new": [0]}.items():
        strobe.evaluate(folder / "few", _wrong(few, sets), folder / name, report=False)
    return folder


# -- the rule ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "value", "high", "reason", "these_clips", "other_videos", "videos"),
    [
        (0.02, 0.03, 0.04, None, "worse", "regression", None),
        (-0.01, 0.03, 0.04, None, "worse", "inconclusive", 79),  # 50 × (0.025 / 0.02)²
        (-0.03, 0.005, 0.04, None, "pass", "inconclusive", 2450),
        (-0.03, 0.0, 0.01, None, "pass", "pass", None),  # exactly what is allowed
        (None, 0.02, None, "one video", "worse", "inconclusive", None),
        (-1.0, 0.0, 1.0, "4 videos cannot give a significant result", "pass", "inconclusive", None),
    ],
)
def test_a_limit_judges_the_figure_or_the_interval(low, value, high, reason, these_clips, other_videos, videos) -> None:
    limit = Limit(kind="max_loss", measure="acc_pmk", value=1.0)
    loss = Estimate(value=value, low=low, high=high, n=50, reason=reason)
    old = {"old": {"acc_pmk": Quantity(figure=loss)}}
    for scope, verdict in (("these-clips", these_clips), ("other-videos", other_videos)):
        (found,) = judge([limit], ModelColumns(name="new"), old, options=ScoreOptions(), scope=scope, n_videos=50)
        assert (found.verdict, found.figure.value) == (verdict, value)
        assert found.passed is {"pass": True, "inconclusive": None}.get(verdict, False)
    assert found.videos == videos
    assert ("videos like these would decide" in found.sentence) is (videos is not None)


def test_a_lower_limit_is_an_upper_limit_turned() -> None:
    def verdicts(value: float, low: float, high: float) -> list[str]:
        found = Estimate(value=value, low=low, high=high, n=40)
        limit = Limit(kind="min", measure="acc_pmk", value=50)
        return [check(limit, found, scope=scope, n_videos=40).verdict for scope in ("these-clips", "other-videos")]

    assert verdicts(0.5, 0.4, 0.6) == ["pass", "inconclusive"]
    assert verdicts(0.6, 0.5, 0.7) == ["pass", "pass"]
    assert verdicts(0.4, 0.3, 0.49) == ["worse", "regression"]


def test_a_failure_counts_more_than_an_inconclusive_rule() -> None:
    limit, figure = Limit(kind="max", measure="drop", value=10), Estimate(value=0.1, low=0.0, high=0.2, n=9)
    good, bad, unclear = (
        Check(limit=limit, figure=figure, verdict=verdict, sentence="")
        for verdict in ("pass", "regression", "inconclusive")
    )
    assert [outcome(some) for some in ([good], [good, unclear], [good, unclear, bad])] == [True, None, False]


@pytest.mark.parametrize(
    ("measure", "at", "figure", "title"),
    [
        ("changes_per_second", 12.0, 12.0, "changes_per_second at most 12/s"),
        ("seconds_between_changes", 0.5, 0.5, "seconds_between_changes at most 0.5 s"),
        ("flip_rate", 40.0, 0.4, "flip_rate at most 40 %"),
    ],
)
def test_a_limit_is_in_the_unit_of_its_measure(measure: str, at: float, figure: float, title: str) -> None:
    limit = Limit(kind="max", measure=measure, value=at)
    found = Estimate(value=figure, low=None, high=None, n=9, reason="one video")
    assert limit.title == title
    assert check(limit, found).verdict == "pass"
    assert check(limit, replace(found, value=figure * 1.001)).verdict == "worse"


# -- the command ---------------------------------------------------------------------------------------------------


def test_gate_passes_and_fails(runs: Path, command: Any, tmp_path: Path) -> None:
    rules = ["--against", runs / "old", "--max-loss", "acc_pmk=1", "--min", "acc_pmk=50", "--max", "drop=60"]
    code, out, _ = command("gate", runs / "worse", *rules, "-o", tmp_path)
    assert code == 1
    assert "FAILED  loss of acc_pmk at most 1 point: 50.0 [" in out
    assert " points: worse, the figure is beyond the limit\n" in out
    assert "From old/net to net: 0 sets newly held, 30 sets newly broken, of 60." in out
    assert out.rstrip().endswith("FAILED: 3 of 3 checks")
    code, out, _ = command("gate", runs / "same", *rules, "-o", tmp_path)
    assert code == 1
    assert "FAILED  loss of acc_pmk at most 1 point: 1.7 [" in out
    assert "about these clips: a fact about the clips of the run" in out
    assert "passed  acc_pmk at least 50 %: 81.7 [" in out
    code, out, _ = command("gate", runs / "same", *rules, "--for", "other-videos", "-o", tmp_path)
    assert code == 3, "nothing fails, and one rule is inconclusive"
    assert "inconclusive  loss of acc_pmk at most 1 point: 1.7 [" in out
    assert " videos like these would decide\n" in out
    assert out.rstrip().endswith("INCONCLUSIVE: 1 of 3 checks")
    code, out, _ = command("gate", runs / "same", *rules, "--for", "other-videos", "-o", tmp_path, "--json")
    written = json.loads(out)
    assert (code, written["passed"], written["scope"]) == (3, None, "other-videos")
    assert [one["verdict"] for one in written["checks"]] == ["inconclusive", "pass", "pass"]
    assert written["checks"][0]["videos"] > 60
    code, out, _ = command("gate", runs / "worse", *rules, "--for", "other-videos", "-o", tmp_path)
    assert (code, "regression, the interval is beyond the limit" in out) == (1, True)
    assert command("gate", runs / "better", *rules, "--for", "other-videos", "-q")[0] == 0
    assert sorted(path.name for path in (runs / "better" / "gate").iterdir()) == ["gate.json", "gate.md", "gate.xml"]


def test_few_videos_are_inconclusive_about_others(runs: Path, command: Any, tmp_path: Path) -> None:
    words = ["gate", runs / "few-new", "--against", runs / "few-old", "--max-loss", "acc_pmk=1", "-o", tmp_path, "-q"]
    code, out, _ = command(*words)
    assert (code, "worse, the figure is beyond the limit" in out) == (1, True), "on these clips, it is a fact"
    turned = ["gate", runs / "few-old", "--against", runs / "few-new", *words[4:]]
    assert command(*turned)[0] == 0
    for some in (words, turned):
        code, out, _ = command(*some, "--for", "other-videos")
        assert code == 3
        assert "inconclusive, 4 videos cannot give a significant result" in out
        assert f"; --max-loss needs at least {least_videos()} videos\n" in out
    text = (Path(__file__).parents[2] / "docs/ci.md").read_text(encoding="utf-8")
    assert f"at least {least_videos()} videos" in text
    assert "| ⚠️ |" in (tmp_path / "gate.md").read_text()
    failures = ElementTree.parse(tmp_path / "gate.xml").getroot().get("failures")
    assert failures == "1", "a CI server that reads only JUnit sees the inconclusive rule"


def test_what_is_written(runs: Path, command: Any, tmp_path: Path) -> None:
    rules = ["--against", runs / "old", "--max-loss", "acc_pmk=1", "--max", "flip_rate=90"]
    command("gate", runs / "worse", *rules, "-o", tmp_path)
    text = (tmp_path / "gate.md").read_text(encoding="utf-8")
    assert text.startswith("### strobe gate: failed ❌\n")
    assert "| ❌ | loss of acc_pmk at most 1 point | 50.0 [" in text
    assert "<details><summary>Newly broken: 30 sets</summary>" in text
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()
    assert (suite.tag, suite.get("tests"), suite.get("failures")) == ("testsuites", "2", "1")
    assert [case.get("name") for case in suite.iter("testcase")] == [
        "loss of acc_pmk at most 1 point", "flip_rate at most 90 %",
    ]  # fmt: skip
    assert next(suite.iter("failure")).get("type") == "worse"
    said = read_json(tmp_path / "gate.json")
    assert encode(decode(Gate, said)) == said
    spiteful = replace(decode(Gate, said), model="a|b <img src=x> [c](http://d)")
    assert "a\\|b &lt;img src=x&gt; \\[c\\](http://d)" in as_markdown(spiteful)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no limit given; use for example --max-loss acc_pmk=1, --min acc_pmk=50 or --max drop=10"),
        (["--max-loss", "acc_pmk"], "expected MEASURE=NUMBER, e.g. --max-loss acc_pmk=1, got 'acc_pmk'"),
        (["--min", "=5"], "expected MEASURE=NUMBER"),
        (["--min", "acc_pmk=0.5"], "would be 0.5 per cent; write 50 for 50 per cent"),
        (["--min", "acc_pmk=nan"], "--min acc_pmk: expected at most 100, got nan"),
        (["--min", "acc_pm10=5"], "unknown measure for --min 'acc_pm10'; did you mean"),
        (["--max", "bg-gap=5"], "unknown measure for --max 'bg-gap'; net has acc_orig, acc_pmk, drop"),
        (["--max-loss", "acc_pmk=1"], "needs a baseline; add --against RUN or --baseline MODEL"),
        (["--max-loss", "map_pmk=1", "--against", "old"], "--max-loss takes acc_orig, acc_pmk, drop"),
        (["--max-loss", "bg-gap=2"], "unknown measure for --max-loss 'bg-gap'; --max-loss takes a measure that two"),
        (["--max", "drop=1", "--for", "ever"], "'ever' is not one of 'these-clips', 'this-recording', 'other-videos'"),
        (["--min", "acc_pmk=5", "-m", "other"], "-m: RUNS/same has no predictions of other; its models are net"),
        (["--min", "acc_pmk=5", "--baseline", "net"], "RUNS/same has the models net; choose one with -m"),
        (["--max-loss", "acc_pmk=1", "--against", "same"], "is given twice"),
        (["--max-loss", "acc_pmk=1", "--against", "few-old"], "are runs on different frames"),
        (
            ["--max-loss", "acc_pmk=1", "--against", "nowhere"],
            "no such run folder: RUNS/nowhere; use --baseline for a model of the same run",
        ),
    ],
)
def test_gate_refuses_in_one_line(runs: Path, command: Any, words: list[str], message: str) -> None:
    given = [runs / word if place and words[place - 1] == "--against" else word for place, word in enumerate(words)]
    code, out, err = command("gate", runs / "same", *given, "-q")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message.replace("RUNS", str(runs)) in err
    assert not (runs / "same" / "gate").exists()


def test_gate_of_detectors_and_two_models_of_one_run(zoo: Any, command: Any, tmp_path: Path) -> None:
    data = zoo.dataset(n_videos=12)
    strobe.save_dataset(data, tmp_path / "data")
    good, bad = zoo.perfect(data), zoo.perfect(data)
    for frame in range(0, 40):
        bad[frame] = []
    both = {"good": zoo.table(data, good), "bad": zoo.table(data, bad)}
    strobe.evaluate(tmp_path / "data", both, tmp_path / "run", report=False)
    rules = ["--max-loss", "map_pmk=2", "--max-loss", "drop=50", "--min", "map_pmk=60", "--max", "coverage=100"]
    code, out, _ = command("gate", tmp_path / "run", "-m", "bad", "--baseline", "good", *rules)
    assert code == 1
    assert "FAILED  loss of map_pmk at most 2 points" in out
    assert " points: worse, the figure is beyond the limit\n" in out
    assert command("gate", tmp_path / "run", "-m", "bad", "--baseline", "good", *rules, "--for", "other-videos")[0] == 1
    plan = ["--plan", "--max-loss", "map_pmk=2", "--json"]
    code, out, err = command("gate", tmp_path / "run", "-m", "bad", "--baseline", "good", *plan)
    assert code == 0, err
    assert [(one["churn"], one["measured_on"]) for one in json.loads(out)] == [(None, 12)]
    code, out, _ = command("gate", tmp_path / "run", "--baseline", "bad", "--max-loss", "map_pmk=2", "-q")
    assert code == 0  # of two models, the other one is meant
    assert "good against bad on zoo" in out
    code, out, _ = command("history", tmp_path / "run", "-o", tmp_path / "history", "-q")
    assert code == 0
    assert "map_pmk since the previous" in out
    code, out, _ = command("compare", tmp_path / "run", "-m", "good", "-m", "bad", "-q")
    told = [line for line in out.splitlines() if line.startswith("From good to bad")]
    found = strobe.compare(tmp_path / "run")
    drops = [one.sentence for name in ("drop", "map_drop") for one in found.of(name)]
    assert ["mAP" in one for one in drops] == [False, True], "both drops stand here, so they need two names"
    assert len(told) == 2, "two lists, and each says which it is"
    assert told[0].startswith("From good to bad, by the class of the most confident box: ")
    assert told[1].endswith("(held: AP is above 0 on the anchor, and no frame has a lower AP).")


def test_paths_are_shown_as_the_report_does(runs: Path, command: Any, tmp_path: Path) -> None:
    data = strobe.example_dataset(n_videos=60, k=2)
    new, old, alone = (f"py:/srv/nets/{name}:make" for name in ("new/mine.py", "old/mine.py", "other.py"))
    both = {name: replace(_wrong(data, list(range(n))), model=name) for name, n in ((old, 2), (new, 9), (alone, 3))}
    strobe.evaluate(runs / "data", both, tmp_path / "run", report=False)
    words = ["-m", new, "--baseline", old, "--max-loss", "acc_pmk=1", "-o", tmp_path / "gate"]
    _, out, _ = command("gate", tmp_path / "run", *words, "-q")
    assert out.startswith("py:new·mine.py:make against py:old·mine.py:make on example: 60 sets of 60 videos, k = 2\n")
    assert "From py:old·mine.py:make to py:new·mine.py:make: " in out
    assert not [path for path in ("gate.md", "gate.xml") if "/srv" in (tmp_path / "gate" / path).read_text()]
    said = read_json(tmp_path / "gate" / "gate.json")
    assert (said["model"], said["short"]) == (new, {new: "py:new·mine.py:make", old: "py:old·mine.py:make"})
    _, out, _ = command("history", tmp_path / "run", "-o", tmp_path / "history", "-q")
    assert [line.split()[0] for line in out.splitlines()[2:5]] == [
        "py:old·mine.py:make", "py:new·mine.py:make", "py:other.py:make",
    ]  # fmt: skip
    assert [step["model"] for step in read_json(tmp_path / "history" / "history.json")["steps"]] == [old, new, alone]
    assert command("export", tmp_path / "run", "leaderboard", tmp_path / "board")[0] == 0
    (board,) = read_json(tmp_path / "board" / "leaderboard.json")["boards"]
    assert {entry["model"] for entry in board["entries"]} == {
        "py:old·mine.py:make", "py:new·mine.py:make", "py:other.py:make",
    }  # fmt: skip
    assert "/srv" not in (tmp_path / "board" / "leaderboard.csv").read_text()


# -- what the default catches --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dominated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """44 sets of 8 videos, 23 of them of one; `old` is always right, `new` loses 13 anchors of seven videos."""
    folder = tmp_path_factory.mktemp("dominated")
    grown, lost = DatasetBuilder(), []
    for video, (size, wrong) in enumerate(zip([23, *[3] * 7], [7, *[1] * 6, 0], strict=True)):
        row = grown.video(video_id=f"{video:016x}", name=f"clip-{video}")
        for place in range(size):
            anchor = grown.frame(video=row, index=place, key=f"clip-{video}/{place}.jpg", labels=[0])
            grown.set(set_id=f"clip-{video}@{place}", anchor=anchor, members=[])
            lost.append(int(place < wrong))
    strobe.save_dataset(grown.build(replace(strobe.example_dataset().info, name="dominated", k=0)), folder / "data")
    both = {"old": np.zeros(44, dtype=int), "new": np.array(lost)}
    given = {name: ClassAnswers.from_labels(name, label) for name, label in both.items()}
    strobe.evaluate(folder / "data", given, folder / "run", report=False)
    return folder / "run"


def test_a_loss_on_these_clips_may_be_inconclusive_about_others(dominated: Path, command: Any, tmp_path: Path) -> None:
    (found,) = strobe.compare(dominated).of("acc_orig")
    assert found.p_holm == pytest.approx(1 / 64)
    words = ["gate", dominated, "-m", "new", "--baseline", "old", "--max-loss", "acc_orig=5", "-o", tmp_path, "-q"]
    code, out, _ = command(*words)
    assert code == 1
    assert "FAILED  loss of acc_orig at most 5 points: 29.5 [0.0+, " in out
    assert command(*words, "--for", "other-videos")[0] == 3
    assert not strobe.gate(dominated, model="new", baseline="old", max_loss={"acc_orig": 5}).passed


def test_effective_videos_are_printed_where_one_video_dominates(dominated: Path, command: Any, tmp_path: Path) -> None:
    note = "few of the 8 videos hold most of the 44 sets, so the intervals are based on 3.3 effective videos"
    run = shutil.copytree(dominated, tmp_path / "run")
    code, out, _ = command("score", run, "--dataset", dominated.parent / "data")
    assert code == 0
    assert f"a {note}" in " ".join(out.split())
    model = json.loads((run / "results.json").read_text(encoding="utf-8"))["models"]["new"]
    assert model["effective_videos"] == pytest.approx(44**2 / (23**2 + 7 * 3**2))
    assert command("report", run, "--dataset", dominated.parent / "data", "-q")[0] == 0
    assert f"A {note}" in html.unescape((run / "report.html").read_text(encoding="utf-8"))
    dataset = strobe.load_dataset(dominated.parent / "data")
    one = strobe.score(dataset, ClassAnswers.from_labels("old", np.zeros(44, dtype=int)))
    assert f"a {note}" in html.unescape(one._repr_html_())


def test_a_loss_is_held_against_every_baseline(runs: Path, command: Any, tmp_path: Path) -> None:
    words = ["gate", runs / "same", "--max-loss", "acc_pmk=2", "-o", tmp_path]
    assert command(*words, "--against", runs / "old", "-q")[0] == 0
    code, out, _ = command(*words, "--against", runs / "old", "--against", runs / "better", "-q")
    assert code == 1
    assert out.startswith("net against old/net and better/net on example: 60 sets of 60 videos")
    assert "passed  loss of acc_pmk at most 2 points against old/net: 1.7 [" in out
    assert "FAILED  loss of acc_pmk at most 2 points against better/net: 18.3 [" in out
    assert "From old/net to net: " in out
    assert "From better/net to net: 0 sets newly held, 11 sets newly broken, of 60." in out
    said = read_json(tmp_path / "gate.json")
    assert (said["baseline"], said["baselines"]) == ("old/net", ["old/net", "better/net"])
    assert [one["against"] for one in said["checks"]] == ["old/net", "better/net"]
    assert [one["newly_broken"] for one in said["changes"]] == [1, 11]
    text = (tmp_path / "gate.md").read_text(encoding="utf-8")
    assert "| ❌ | loss of acc\\_pmk at most 2 points against better/net |" in text
    assert "against better/net" in (tmp_path / "gate.xml").read_text(encoding="utf-8")
    found = strobe.gate(runs / "same", against=[runs / "old", runs / "better"], max_loss={"acc_pmk": 2})
    assert [one.passed for one in found.checks] == [True, False]
    # two models of one run, and one of each of two runs, go the same way
    data = strobe.example_dataset(n_videos=60, k=2)
    three = {name: _wrong(data, list(range(n))) for name, n in (("first", 0), ("last", 10), ("new", 11))}
    strobe.evaluate(runs / "data", three, tmp_path / "run", report=False)
    rules = ["gate", tmp_path / "run", "--baseline", "last", "--baseline", "first", "--max-loss", "acc_pmk=2", "-q"]
    code, out, _ = command(*rules)
    assert (code, out.splitlines()[0][:35]) == (1, "new against last and first on examp")


def test_how_many_videos_a_margin_takes(runs: Path, command: Any) -> None:
    code, out, _ = command("gate", "--plan", "--max-loss", "acc_pmk=2", "--json")
    (plan,) = json.loads(out)
    assert code == 0
    assert [(row["scope"], row["videos"]) for row in plan["rows"]] == [("these-clips", 677), ("other-videos", 2716)]
    assert all(row["false_alarms"] <= 0.05 and row["detected"] >= 0.8 for row in plan["rows"])
    _, out, _ = command("gate", "--plan", "--max-loss", "acc_pmk=2")
    assert out.startswith("loss of acc_pmk at most 2 points, 10 % of the sets change between equal models (assumed)\n")
    assert "  these-clips      677              5.0 %                    91.9 %\n" in out
    assert "in simulation" not in out, "nothing was measured"
    _, out, _ = command("gate", runs / "same", "--against", runs / "old", "--plan", "--max-loss", "acc_pmk=2", "-q")
    assert out.startswith("loss of acc_pmk at most 2 points, 1.67 % of the sets change between equal models (measured")
    assert "equal models then failed in 5 to 13 % of cases if the run had 25 videos" in out, "as simulation shows"
    assert not (runs / "same" / "gate").exists()
    assert strobe.plan_gate({"acc_pmk": 2}, churn=20)[0].videos == 1353
    assert "(measured on 60 videos)" in repr(strobe.plan_gate({"acc_pmk": 2}, run=runs / "same", against=runs / "old"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--plan"], "no limit to plan for; use for example --max-loss acc_pmk=2"),
        (["--plan", "--min", "acc_pmk=50"], "--plan supports only --max-loss; remove --min and --max"),
        (["--plan", "--max-loss", "acc_pmk=0"], "acc_pmk=0: expected a margin from above 0 to 25 points"),
        (["--plan", "--max-loss", "map_pmk=2"], "depends on the data; give a run and a baseline"),
        (["--plan", "--churn", "5", "--max-loss", "changes_per_second=2"], "depends on the data; give a run and a b"),
        (["--max-loss", "acc_pmk=2"], "Missing argument 'RUN'"),
        (["RUN", "--max-loss", "acc_pmk=2", "--churn", "5"], "--churn only works with --plan"),
        (["RUN", "--plan", "--max-loss", "acc_pmk=2", "--churn", "5"], "a run and its baseline determine the churn"),
        (["RUN", "--plan", "--max-loss", "acc_pmk=2"], "use one --against RUN or one --baseline MODEL"),
    ],
)
def test_a_plan_is_refused_in_one_line(runs: Path, command: Any, words: list[str], message: str) -> None:
    code, out, err = command("gate", *(runs / "same" if word == "RUN" else word for word in words), "-q")
    assert (code, out) == (2, "")
    assert message in err


# -- history -------------------------------------------------------------------------------------------------------


def test_history_goes_by_time(runs: Path, command: Any, tmp_path: Path) -> None:
    folders = [runs / name for name in ("better", "old", "worse", "same")]
    code, out, err = command("history", *folders, "-o", tmp_path / "out")
    assert code == 0, err
    rows = [line for line in out.splitlines() if "2026-03" in line]
    assert [row.split()[0] for row in rows] == ["old", "same", "worse", "better"]
    assert rows[0].endswith("—")
    assert rows[1].endswith("not significant")
    assert rows[2].endswith("clearly worse")
    assert rows[3].endswith("clearly better")
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir()) == [".csv", ".json", ".png", ".svg"]
    said = read_json(tmp_path / "out" / "history.json")
    assert [step["pmk"]["count"] for step in said["steps"]] == [50, 49, 20, 60]
    header, first, *_ = (tmp_path / "out" / "history.csv").read_text().splitlines()
    assert header.startswith("step,line,run,model,at,acc_orig,acc_orig_low")
    assert first.startswith("old,net,old,net,2026-03-01T10:00:00+00:00,1.0,")
    _, out, _ = command("history", *folders, "--order", "given", "--json")
    assert [step["name"] for step in json.loads(out)["steps"]] == ["better", "old", "worse", "same"]
    code, out, err = command("history", runs / "old", "-m", "nobody", "-q")
    assert (code, err) == (2, "strobe: the runs have no predictions of nobody\n")


def test_in_python(runs: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    found = strobe.gate(runs / "worse", against=runs / "old", max_loss={"acc_pmk": 1}, max={"drop": 90})
    assert not found.passed
    assert [one.verdict for one in found.checks] == ["worse", "pass"]
    assert repr(found).splitlines()[-1] == "FAILED: 1 of 2 checks"
    assert "<td>worse</td>" in found._repr_html_()
    with pytest.raises(strobe.StrobeError, match=r'max_loss=\{"acc_pmk": …\} needs a baseline; add against=RUN'):
        strobe.gate(runs / "old", max_loss={"acc_pmk": 1})
    steps = strobe.history(runs / "old", runs / "same", runs / "worse")
    assert steps.to_frame()["clearly"].tolist() == ["", "", "worse"]
    assert "clearly worse" in repr(steps)
    assert steps._repr_html_().count("<tr>") == 4
    assert [text.get_text() for text in steps.plot().get_xticklabels()] == ["old", "same", "worse"]


def test_history_sees_a_slow_decline(tmp_path: Path, command: Any) -> None:
    """75 → 71.7 → 68.3 → 65 → 55: no step shows it, the first and the best do; so does a gate with a fixed baseline."""
    data = strobe.example_dataset(n_videos=60, k=2)
    strobe.save_dataset(data, tmp_path / "data")
    for place, n in enumerate((15, 17, 19, 21, 27), start=1):
        run = tmp_path / f"epoch-{place}"
        strobe.evaluate(tmp_path / "data", _wrong(data, list(range(n))), run, report=False)
        write_json(run / "run.json", Run(run).about() | {"at": f"2026-03-0{place}T10:00:00+00:00"})
    folders = [tmp_path / f"epoch-{place}" for place in range(1, 6)]
    code, out, _ = command("history", *folders, "-o", tmp_path / "out", "-q")
    assert code == 0
    assert "clearly" not in "".join(line for line in out.splitlines() if "2026-03" in line)
    assert "clearly worse" in out, "no step shows the loss of 20 points, the first and the best do"
    rows = [line for line in out.splitlines() if line.startswith("epoch-5 ")]
    assert rows[1].count("clearly worse") == 2
    assert rows[1].endswith("clearly worse (epoch-1)")
    last = read_json(tmp_path / "out" / "history.json")["steps"][-1]
    assert "clearly" not in last
    assert (last["clearly_first"], last["clearly_best"], last["best"]) == ("worse", "worse", "epoch-1")
    assert last["since_first"]["value"] == pytest.approx(-0.2)
    *_, row = csv.DictReader((tmp_path / "out" / "history.csv").read_text().splitlines())
    assert [row[name] for name in ("clearly", "clearly_first", "clearly_best", "best")] == [
        "",
        "worse",
        "worse",
        "epoch-1",
    ]
    assert float(row["since_best_high"]) < 0
    assert "than the best" in (tmp_path / "out" / "history.svg").read_text()
    found = strobe.history(*folders)
    assert found.to_frame()["clearly_best"].tolist()[-1] == "worse"
    assert "clearly worse" in found._repr_html_()
    rules = ["--max-loss", "acc_pmk=15", "-q", "-o", tmp_path / "gate"]
    assert command("gate", folders[4], "--against", folders[3], *rules)[0] == 0
    assert command("gate", folders[4], "--against", folders[3], "--against", folders[0], *rules)[0] == 1
