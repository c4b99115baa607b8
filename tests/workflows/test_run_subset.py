"""A run remembers the subset it was scored on, by content; every later command judges the same sets, or refuses."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strobe
from strobe.core.answers import ClassAnswers
from strobe.core.files import read_json, write_json
from strobe.store.run_folder import Run


def _net(data: strobe.Dataset, broken: int) -> ClassAnswers:
    """A model that is right but on the last frame of the first sets."""
    label = np.empty(len(data.frames), dtype=np.int64)
    label[data.labels.frame] = data.labels.label
    for one in range(broken):
        row = data.sets.frame[data.sets.set == one][-1]
        label[row] = 1 - label[row]
    return ClassAnswers.from_labels("net", label)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """36 videos, a file that names the last 12, and a run of two models scored on these."""
    data = strobe.example_dataset(n_videos=36, k=2)
    strobe.save_dataset(data, tmp_path / "data")
    (tmp_path / "held-out.txt").write_text("\n".join(data.videos.name[24:]))
    both = {"start": _net(data, 30), "steady": _net(data, 26)}
    strobe.evaluate(tmp_path / "data", both, tmp_path / "run", videos=tmp_path / "held-out.txt", report=False)
    return tmp_path


def _n_sets(run: Path) -> int:
    return int(read_json(run / "results.json")["dataset"]["n_sets"])


def test_every_later_command_judges_the_sets_of_the_run(place: Path, command: Any) -> None:
    run = place / "run"
    (place / "held-out.txt").unlink()  # what counts is stored with the run
    _, out, _ = command("compare", run, "-m", "start", "-m", "steady", "--json")
    assert {one["n_sets"] for one in json.loads(out)} == {12}
    _, out, err = command("compare", run)
    assert "n = 12" in out
    assert "run was scored on the subset held-out.txt (12 videos); use --subset all for every set" in err
    _, out, _ = command("gate", run, "-m", "steady", "--baseline", "start", "--min", "acc_pmk=1", "-q")
    assert out.startswith("steady against start on example: 12 sets of 12 videos (subset held-out.txt), k = 2\n")
    assert read_json(run / "gate" / "gate.json")["subset"] == "held-out.txt"
    _, out, _ = command("history", run, "-o", place / "history", "-q")
    assert out.startswith("example: 12 sets (subset held-out.txt), k = 2; ")
    assert read_json(place / "history" / "history.json")["subset"] == "held-out.txt"
    before = read_json(run / "results.json")
    _, out, _ = command("score", run, "-q")
    assert "12 sets of 12 videos (subset held-out.txt)" in out
    assert read_json(run / "results.json")["dataset"] == before["dataset"]
    assert command("report", run, "-q")[0] == 0
    assert strobe.gate(run, model="steady", min={"acc_pmk": 1}).n_sets == 12
    assert {one.n_sets for one in strobe.compare(run)} == {12}
    assert strobe.history(run).n_sets == 12
    assert strobe.report(run).is_file()


def test_a_model_that_is_added_is_scored_on_the_same_sets(place: Path, command: Any) -> None:
    run = place / "run"
    strobe.evaluate(place / "data", {"third": _net(strobe.load_dataset(place / "data"), 0)}, run, report=False)
    assert _n_sets(run) == 12
    assert command("compare", run, "-m", "start", "-m", "third", "-q")[1].count("n = 12") == 3


def test_a_subset_is_left_and_replaced(place: Path, command: Any) -> None:
    run, at = place / "run", read_json(place / "run" / "run.json")["at"]
    write_json(run / "run.json", Run(run).about() | {"at": "2026-03-01T10:00:00+00:00"})
    assert at
    _, out, _ = command("gate", run, "-m", "steady", "--min", "acc_pmk=1", "--subset", "all", "-q")
    assert "36 sets of 36 videos, k = 2" in out
    assert strobe.gate(run, model="steady", min={"acc_pmk": 1}, videos="all").n_sets == 36
    assert "12 sets" in command("history", run, "-q")[1]  # to judge all once does not change the run
    command("score", run, "--subset", "all", "-q")
    assert _n_sets(run) == 36
    assert "36 sets" in command("history", run, "-q")[1]
    other = place / "other.txt"
    other.write_text("# some\n" + "\n".join(strobe.load_dataset(place / "data").videos.name[:20]))
    command("score", run, "--subset", other, "-q")
    assert "20 sets (subset other.txt)" in command("history", run, "-q")[1]
    assert read_json(run / "run.json")["at"] == "2026-03-01T10:00:00+00:00"  # scoring again predicts nothing


def test_two_runs_on_different_subsets_are_refused(place: Path, command: Any) -> None:
    data = strobe.load_dataset(place / "data")
    strobe.evaluate(place / "data", _net(data, 3), place / "whole", report=False)
    (place / "held-out.txt").write_text("\n".join(data.videos.name[20:]))  # the same name, other videos
    strobe.evaluate(place / "data", _net(data, 3), place / "changed", videos=place / "held-out.txt", report=False)
    line = (
        f"{place}/run was scored on the subset held-out.txt (12 videos), {place}/OTHER on WHAT; choose the same "
        "for both with --subset FILE, or --subset all for every set\n"
    )
    for other, what in (("whole", "all sets"), ("changed", "the subset held-out.txt (16 videos)")):
        said = f"strobe: {line}".replace("OTHER", other).replace("WHAT", what)
        for words in (["compare", place / "run", place / other], ["history", place / "run", place / other]):
            assert command(*words, "-q") == (2, "", said)
        rules = ["-m", "steady", "--against", place / other, "--max-loss", "acc_pmk=1"]
        assert command("gate", place / "run", *rules, "-q") == (2, "", said)
        with pytest.raises(strobe.StrobeError, match='videos=FILE, or videos="all" for every set'):
            strobe.compare(place / "run", place / other)
    _, out, _ = command("compare", place / "run", place / "whole", "--subset", place / "held-out.txt", "-q")
    assert "n = 16" in out
    strobe.evaluate(place / "data", _net(data, 3), place / "same", videos=place / "held-out.txt", report=False)
    assert "16 sets" in command("history", place / "same", place / "changed", "-q")[1]


def test_a_dataset_that_lost_the_videos_is_refused(place: Path, command: Any) -> None:
    about = read_json(place / "run" / "run.json")
    about["subset"]["videos"][0] = "gone"
    del about["sha256"]
    write_json(place / "run" / "run.json", about)
    code, out, err = command("history", place / "run", "-q")
    assert (code, out) == (2, "")
    assert "1 of the 12 videos of the subset held-out.txt is not in example" in err
    assert err.rstrip().endswith("use --subset FILE, or --subset all for every set")
    for wrong in ("held-out.txt", {"name": "x"}, {"name": "x", "videos": []}, {"name": "x", "videos": [1]}):
        write_json(place / "run" / "run.json", about | {"subset": wrong})
        code, _, err = command("history", place / "run", "-q")
        assert (code, err.count("\n")) == (2, 1)
        assert "subset" in err


def test_a_run_that_was_only_predicted_takes_the_subset_of_the_other(place: Path, command: Any) -> None:
    shutil.copytree(place / "run", place / "predicted")
    about = read_json(place / "predicted" / "run.json")
    write_json(
        place / "predicted" / "run.json",
        {key: value for key, value in about.items() if key not in ("subset", "sha256")},
    )
    (place / "predicted" / "results.json").unlink()
    assert "36 sets" in command("history", place / "predicted", "-q")[1]
    assert "12 sets (subset held-out.txt)" in command("history", place / "run", place / "predicted", "-q")[1]
