"""What earlier versions wrote is read, used and brought up to date: a folder and runs of every format so far.

`golden/` holds folders of format 1 and runs of the code that wrote them; `golden/older/` those of later days, each made
by the code of that day.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from strobe.analyses import results
from strobe.cli.main import main
from strobe.store import dataset_folder as folders
from strobe.store import run_folder as runs
from strobe.store.dataset_json import SCHEMA

GOLDEN = Path(__file__).parent / "golden"
OLDER = sorted(path for path in (GOLDEN / "older").iterdir() if path.is_dir())
DATASETS = [*sorted((GOLDEN / "datasets").iterdir()), *(day / "fog" for day in OLDER)]
RUNS = [day / name for day in OLDER for name in ("run", "ran")]


def _json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _strobe(*words: str | Path) -> None:
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    assert left.value.code == 0, words


def test_every_format_so_far_has_a_folder_here() -> None:
    """A new format number needs a folder written by the code before it."""
    assert {_json(path / "dataset.json")["schema"] for path in DATASETS} == set(range(1, SCHEMA + 1))
    kept = [*(GOLDEN / "runs").iterdir(), *RUNS]
    assert {_json(path / "run.json")["schema"] for path in kept} == set(range(1, runs.SCHEMA + 1))
    assert {_json(path / "results.json")["schema"] for path in kept} == set(range(1, results.SCHEMA + 1))


@pytest.mark.parametrize("old", DATASETS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_dataset_stays_the_same_when_it_is_written_again(old: Path, tmp_path: Path) -> None:
    """What a run recorded of it still holds: the digests do not change."""
    before = folders.read(old)
    folders.write(before, tmp_path / "new")
    after = folders.read(tmp_path / "new")
    assert (after.digest(), after.frames_digest()) == (before.digest(), before.frames_digest())
    assert after.info == before.info


@pytest.mark.parametrize("old", RUNS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_run_is_opened_scored_and_compared(old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(old.parent, tmp_path / "old")
    shutil.copy(GOLDEN / "older" / "model.py", tmp_path / "old")
    run, data = tmp_path / "old" / old.name, tmp_path / "old" / "fog"
    before = _json(run / "results.json")
    _strobe("inspect", data)
    _strobe("compare", run.with_name("run"), run.with_name("ran"), "--dataset", data)
    _strobe("report", run, "--dataset", data, "-q")
    _strobe("score", run, "--dataset", data, "-q", "--bootstrap", "100")
    after = _json(run / "results.json")
    assert set(after["models"]) == set(before["models"])
    for name, model in before["models"].items():
        for figure in ("acc_orig", "acc_pmk", "flip_rate"):
            assert after["models"][name][figure]["value"] == model[figure]["value"], (name, figure)
    assert "Traceback" not in capsys.readouterr().err


def test_predictions_of_an_earlier_day_are_made_again_only_if_read_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`predict` into a run of an earlier version takes what it holds, unless the scores are read otherwise now.

    The earlier version took one-hot scores of a function as logits. They are read as probabilities now, so they are
    predicted once more. `test_golden` uses stored predictions of a model that is read as before.
    """
    shutil.copytree(OLDER[-1], tmp_path / "old")
    shutil.copy(GOLDEN / "older" / "model.py", tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old")
    for words in ("12 new, 0 cached", "0 new, 12 cached"):
        _strobe("predict", "fog", "-m", "py:model.py:make", "-o", "ran", "-q", "--workers", "1")
        assert words in capsys.readouterr().out


def test_a_format_of_the_future_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(OLDER[-1], tmp_path / "old")
    for name, verb in (("fog/dataset.json", "inspect"), ("run/run.json", "report"), ("ran/results.json", "report")):
        path = tmp_path / "old" / name
        content = _json(path)
        path.write_text(json.dumps({**content, "schema": 99}), encoding="utf-8")
        with pytest.raises(SystemExit) as left:
            main([verb, str(path.parent)])
        assert left.value.code == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert "format 99 is newer than this" in line
        assert "strobe supports" in line
