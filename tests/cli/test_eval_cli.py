"""strobe eval and score from the shell: every bad input is one line and leaves nothing; terminals, pipes, Ctrl-C."""

import contextlib
import io
import json
import math
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import strobe
from strobe.cli.main import main
from strobe.core.dataset import Dataset

VERBS = {"score": [], "eval": ["--no-report"]}


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    made = strobe.example_dataset(n_videos=12, k=3)
    strobe.save_dataset(made, tmp_path / "data")
    return made


def scores_of(dataset: Dataset, *, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(len(dataset.frames), 2))
    return {str(key): row.tolist() for key, row in zip(dataset.frames.key, scores, strict=True)}


def go(*words: object) -> tuple[int, str, str]:
    """The command in this process: exit code, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0), out.getvalue(), err.getvalue()


def first(changed: Any) -> Callable[[dict[str, Any]], str]:
    return lambda scores: json.dumps({**scores, next(iter(scores)): changed})


FILES: dict[str, tuple[str, Callable[[dict[str, Any]], str], str]] = {
    "truncated": ("m.json", lambda s: json.dumps(s)[:-30], "is it truncated?"),
    "NaN": ("m.json", first([math.nan, 1.0]), "NaN"),
    "+inf": ("m.json", first([math.inf, 1.0]), "+inf"),
    "all -inf": ("m.json", first([-math.inf, -math.inf]), "only −inf"),
    "wrong length": ("m.json", lambda s: json.dumps({key: [1.0, 2.0, 3.0] for key in s}), "3 scores per frame"),
    "unknown frame": ("m.json", lambda s: json.dumps({**s, "nobody": [0.0, 1.0]}), "1 of 85 frames are not in example"),
    "duplicate in JSON": ("m.json", lambda s: json.dumps(s)[:-1] + f', "{next(iter(s))}": [0, 1]}}', "appears twice"),
    "duplicate in CSV": ("m.csv", lambda s: "frame,label\n" + "".join(f"{key},cat\n" for key in [*s, *s]), "twice"),
    "label number": ("m.json", lambda s: json.dumps(dict.fromkeys(s, 7)), "class 7 is outside pets (0–1)"),
    "label name": ("m.json", lambda s: json.dumps(dict.fromkeys(s, "cow")), "unknown class of pets 'cow'"),
    "missing frame": ("m.json", lambda s: json.dumps(dict(list(s.items())[1:])), "1 of 84 frames have no prediction"),
    "no file": ("", lambda s: "", "no such file"),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", FILES)
def test_bad_predictions_leave_nothing(dataset: Dataset, tmp_path: Path, name: str, verb: str) -> None:
    file, make, expected = FILES[name]
    if file:
        (tmp_path / file).write_text(make(scores_of(dataset)))
    spec = f"preds:{tmp_path / (file or 'nowhere.json')}"
    code, out, err = go(verb, tmp_path / "data", "-m", spec, "-o", tmp_path / "run", *VERBS[verb])
    assert (code, out) == (2, "")
    assert expected in err
    assert len(err.splitlines()) == 1, err
    assert not (tmp_path / "run").exists()


def _without_digests(folder: Path, **changes: Any) -> None:
    """dataset.json as an older or foreign writer would leave it: no digests of its files."""
    content = json.loads((folder / "dataset.json").read_text())
    del content["files"], content["checked"]
    (folder / "dataset.json").write_text(json.dumps({**content, **changes}))


def _no_anchor(folder: Path) -> None:
    _without_digests(folder)
    table = pq.read_table(folder / "sets.parquet")
    rows = zip(table["is_anchor"].to_pylist(), table["set_id"].to_pylist(), strict=True)
    pq.write_table(table.filter(pa.array([not (anchor and name == "clip-003") for anchor, name in rows])),
                   folder / "sets.parquet")  # fmt: skip


def _no_sets(folder: Path) -> None:
    _without_digests(folder)
    pq.write_table(pq.read_table(folder / "sets.parquet").slice(0, 0), folder / "sets.parquet")


DATASETS: dict[str, tuple[Callable[[Path], None], str]] = {
    "empty": (_no_sets, "no sets; an empty dataset cannot be scored"),
    "a set without an anchor": (_no_anchor, "set 'clip-003' has 0 anchors"),
    "a newer schema": (lambda folder: _without_digests(folder, schema=99), "format 99 is newer"),
    "no folder": (lambda folder: shutil.rmtree(folder), "no such"),
    "damaged": (lambda folder: (folder / "frames.parquet").write_bytes(b"PAR1"), "frames.parquet"),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", DATASETS)
def test_bad_datasets_leave_nothing(dataset: Dataset, tmp_path: Path, name: str, verb: str) -> None:
    change, expected = DATASETS[name]
    (tmp_path / "m.json").write_text(json.dumps(scores_of(dataset)))
    change(tmp_path / "data")
    code, out, err = go(verb, tmp_path / "data", "-m", f"preds:{tmp_path}/m.json", "-o", tmp_path / "run", *VERBS[verb])
    assert (code, out) == (2, "")
    assert expected in err
    assert len(err.splitlines()) == 1, err
    assert not (tmp_path / "run").exists()


def test_words_that_do_not_go_together(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps(scores_of(dataset)))
    spec = f"preds:{tmp_path}/m.json"
    assert go("score", tmp_path / "data", "-m", spec, "-o", tmp_path / "run", "-q")[0] == 0
    for words, expected in (
        (("score", tmp_path / "run", "-o", tmp_path / "other"), "scored in place"),
        (("score", tmp_path / "run", "-m", spec), "to add a file, pass the dataset"),
        (("score", tmp_path / "run", "-m", "nobody"), "has no predictions of nobody; its models are m"),
        (("score", tmp_path / "data", "-m", spec, "--dataset", tmp_path), "--dataset needs a run folder"),
        (("score", tmp_path / "data", "-m", spec, "-m", "m=preds:other.json"), "two models are called m"),
        (("score", tmp_path / "data", "-m", spec, "--bootstrap", "7"), "0, or 100 to 1,000,000 draws"),
        (("score", tmp_path / "data", "-m", spec, "--seed", "-1"), "--seed"),
        (("score", tmp_path / "data", "-m", spec, "--compare-review"), "no votes"),
        (("eval", tmp_path / "data", "-m", "preds:x.json"), "--out"),
        (("eval", tmp_path / "data", "-m", spec, "-o", tmp_path / "e", "--show", "m", "--no-report"), "--no-report"),
    ):
        code, _, err = go(*words)
        assert code == 2, err
        assert len(err.splitlines()) == 1, err
        assert expected in err


def test_json_is_all_there_is(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps(scores_of(dataset)))
    words = ("-m", f"preds:{tmp_path}/m.json", "-o", tmp_path / "run", "--json")
    for verb in VERBS:
        code, out, err = go(verb, tmp_path / "data", *words, *VERBS[verb])
        assert (code, err) == (0, "")
        assert json.loads(out) == json.loads((tmp_path / "run/results.json").read_text())


def on_a_terminal(*words: str) -> str:
    """What a person sees: the command on a pseudo-terminal of 100 columns."""
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "strobe", *words], stdout=theirs, stderr=theirs,
        env=os.environ | {"COLUMNS": "100", "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # Linux ends a closed terminal with an error
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    assert done.wait() == 0, shown
    return shown.decode()


def test_rich_on_a_terminal_and_plain_in_a_pipe(dataset: Dataset, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps(scores_of(dataset)))
    words = ["score", str(tmp_path / "data"), "-m", f"preds:{tmp_path}/m.json"]
    shown = on_a_terminal(*words)
    assert "┃" in shown
    assert "\x1b[" in shown
    code, piped, _ = go(*words)
    assert code == 0
    assert "┃" not in piped
    assert "\x1b" not in piped
    figures = re.findall(r"\d+\.\d \[\d+\.\d, \d+\.\d\]", piped)
    assert len(figures) == 3
    assert all(figure in shown for figure in figures)


def test_ctrl_c_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    assert go("synthesize", tmp_path / "data", "--videos", 1, "--k", 1, "--size", 32, "-q")[0] == 0
    # Sent from within: one that comes between Python's last look and a read that waits is seen after the read alone.
    (tmp_path / "stopped.py").write_text("import signal\ndef make():\n    signal.raise_signal(signal.SIGINT)\n")
    command = [sys.executable, "-m", "strobe", "eval", "data", "-m", "py:stopped.py:make", "-o", "run"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 130
    assert ended.stdout == ""
    assert "interrupted; finished work is kept" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "run").exists()


def test_eval_shows_the_models_asked_for_first(dataset: Dataset, tmp_path: Path) -> None:
    for seed, name in enumerate("ab"):
        (tmp_path / f"{name}.json").write_text(json.dumps(scores_of(dataset, seed=seed)))
    models = ["-m", f"preds:{tmp_path}/a.json", "-m", f"preds:{tmp_path}/b.json"]
    for first in "ab":
        words = ["eval", tmp_path / "data", *models, "-o", tmp_path / "run", "--show", first, "--bootstrap", 100, "-q"]
        assert go(*words)[0] == 0
        page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
        data = json.loads(re.search(r'id="gallery-data">(.*?)</script>', page, re.DOTALL)[1])  # type: ignore[index]
        assert data["models"][0] == first
    code, _, err = go(*words[:-5], "--show", "nobody", "--bootstrap", 100, "-q")
    assert code == 2
    assert not (tmp_path / "run" / "report.html").exists(), "the earlier one would pass for this one's"
    assert "no report: --show:" in err
    assert "has no results of nobody; its models are" in err


@pytest.mark.parametrize("verb", VERBS)
def test_what_was_asked_for_first_is_what_was_before(dataset: Dataset, tmp_path: Path, verb: str) -> None:
    for name, seed in (("old", 0), ("new", 1)):
        (tmp_path / f"{name}.json").write_text(json.dumps(scores_of(dataset, seed=seed)))
    files = [f"preds:{tmp_path / name}.json" for name in ("old", "new")]
    run = tmp_path / "run"
    assert go(verb, tmp_path / "data", "-m", files[0], "-m", files[1], "-o", run, *VERBS[verb])[0] == 0
    assert [(one.a, one.b) for one in strobe.compare(run).of("acc_pmk")] == [("old", "new")]
    assert list(strobe.history(run).to_frame()["model"]) == ["old", "new"]
    if verb == "eval":  # drawn once
        assert go("report", run)[0] == 0
        assert "old → new" in (run / "report.html").read_text()
