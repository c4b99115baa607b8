"""Figures sent to TensorBoard and W&B arrive: read with TensorBoard's own reader and from W&B's offline file."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strobe.cli.main import main
from strobe.core.errors import StrobeError, UnknownName
from strobe.report.loggers import LogPlace, check_logs, opened_logs
from strobe.train.recipe import TRAININGS

GOLDEN = Path(__file__).parents[1] / "golden"


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def read_back(folder: Path) -> dict[str, list[tuple[int, float]]]:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator").EventAccumulator
    found = accumulator(str(folder))
    found.Reload()
    return {tag: [(one.step, one.value) for one in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def offline(path: Path) -> Iterator[Any]:
    """The records of W&B's offline file: a log in blocks of 32 KB, pieces of a record behind headers of seven bytes."""
    from wandb.proto import wandb_internal_pb2

    data, at, parts = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if (left := 32768 - at % 32768) < 7:
            at += left
            continue
        size, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        parts, at = parts + data[at + 7 : at + 7 + size], at + 7 + size
        if kind in (1, 4):  # whole, or the last piece
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            parts = b""
            yield record


def test_eval_sends_headline_and_curve_to_tensorboard(tmp_path: Path) -> None:
    preds = [
        word for name in ("video-logits.json", "video-labels.jsonl") for word in ("-m", f"preds:{GOLDEN}/inputs/{name}")
    ]
    assert run("eval", GOLDEN / "datasets/video", *preds, "-o", tmp_path / "run", "--no-report", "-q",
               "--bootstrap", 100, "--log", "tensorboard") == 0  # fmt: skip
    models = json.loads((tmp_path / "run/results.json").read_text())["models"]
    assert len(models) == 2
    for name, model in models.items():
        found = read_back(tmp_path / "run/tensorboard" / name)
        for key in ("acc_orig", "acc_pmk", "drop"):
            for tag, part in ((key, "value"), (f"{key}_low", "low"), (f"{key}_high", "high")):
                assert found[tag] == [(0, pytest.approx(model[key][part], rel=1e-6))]
        assert found["acc_pm"] == [(one["k"], pytest.approx(one["acc"]["value"], rel=1e-6)) for one in model["curve"]]


@pytest.mark.skipif("detector" not in TRAININGS, reason="no detector can be trained")
def test_a_training_sends_its_points_and_goes_on_in_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    few = [word for change in ("clips=8", "steps=2", "test_clips=1") for word in ("--set", change)]
    out, board = tmp_path / "tiny", tmp_path / "board"
    assert run("train", "detector", "-m", "strobe-tiny", "-o", out, *few, "-q", "--evaluations", 2,
               "--log", f"tensorboard={board}", "--log", "wandb=flicker") == 0  # fmt: skip
    history = json.loads((out / "training.json").read_text())["history"]
    found = read_back(board / "tiny")
    assert found["map_pmk"] == [(one["step"], pytest.approx(one["map_pmk"], abs=1e-6)) for one in history]
    assert [step for step, _ in found["loss"]] == [one["step"] for one in history if one["loss"] is not None]
    (file,) = (out / "wandb").glob("offline-run-*/run-*.wandb")
    steps, project = [], ""
    for record in offline(file):
        project = record.run.project or project
        items = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
        if "map_pmk" in items:
            steps.append((items["_step"], items["map_pmk"]))
    assert project == "flicker"
    assert steps == [(one["step"], pytest.approx(one["map_pmk"])) for one in history]


def test_what_cannot_be_logged_to_is_said_before_anything_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UnknownName, match="did you mean tensorboard"):
        check_logs(["tensorbord"])
    for text, said in (("wandb=", "give a project after the =, or omit the ="), ("mlflow", "tensorboard\\[=FOLDER\\]")):
        with pytest.raises(StrobeError, match=said):
            check_logs([text])
    words = (
        "eval",
        GOLDEN / "datasets/video",
        "-m",
        f"preds:{GOLDEN}/inputs/video-logits.json",
        "-o",
        tmp_path / "run",
    )
    assert run(*words, "--log", "wanbd") == 2
    assert run("train", "detector", "-m", "strobe-tiny", "-o", tmp_path / "run", "--log", "wanbd") == 2
    assert capsys.readouterr().err.count("did you mean wandb") == 2
    assert not (tmp_path / "run").exists()


def test_a_log_that_fails_on_the_way_is_said_once_and_costs_nothing(tmp_path: Path, heard: Any) -> None:
    place = LogPlace(home=tmp_path, name="a/b", group="g", facts={})
    with opened_logs(["tensorboard"], place, heard) as log:
        log.scalars({"loss": 1.0}, step=0)
        for step in (1, 2):
            log.scalars({"loss": "no number"}, step=step)  # type: ignore[dict-item]  # that is the point
    assert read_back(tmp_path / "tensorboard/a_b") == {"loss": [(0, 1.0)]}
    assert len(heard.lines) == 1
    assert "--log tensorboard stopped: " in heard.lines[0]
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StrobeError, match="cannot write to"),
        opened_logs([f"tensorboard={tmp_path / 'file'}"], place, heard),
    ):
        pass
