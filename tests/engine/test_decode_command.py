"""A command that decodes on processes leaves none behind: Ctrl-C in a terminal, and a kill."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from made_decoding import gone, workers_of

import strobe.engine.prediction as workflow
from strobe.core.dataset import Dataset
from strobe.core.ports import Silent
from strobe.engine.decode_pool import can_start_workers
from strobe.engine.running import Running
from strobe.store import dataset_folder as folder
from strobe.workflows.predict import predict

pytestmark = pytest.mark.skipif(not can_start_workers(), reason="needs Linux")
Make = Callable[..., Dataset]

PLUGIN = """
import time
from pathlib import Path
import numpy as np
from strobe.core.labels import LabelSpace
from strobe.core.records import ModelSpec
from strobe.models.exact_resize import SentPlan
from strobe.models.plan import ImagePlan

HERE = Path(__file__).parent

class Slow:
    preparation = SentPlan(ImagePlan(size_hw=(24, 24), resize=26))
    spec = ModelSpec(name="slow", provider="test", task="classification", weights="0" * 64, batch_size=1,
                     label_space=LabelSpace.of_names("colours", ["red", "green", "blue"]))

    def prepare(self, image):
        raise RuntimeError("frames are prepared by the workers")

    def forward(self, prepared):
        late = (HERE / "signalled").exists()
        with (HERE / "batches").open("a") as file:
            file.write("late\\n" if late else "early\\n")
        time.sleep(3 if late else 0.02)
        return np.array([image.reshape(-1, 3).mean(axis=0) for image in prepared], dtype=np.float32)

def make():
    return Slow()
"""

COMMAND = """
import sys
from dataclasses import replace
import strobe.engine.prediction as workflow
from strobe.cli.main import main

chosen, in_flight = workflow.engine_options, int(sys.argv[1])
workflow.decode_processes = lambda options, models, source, n_cores: 2
workflow.engine_options = lambda *args, **named: replace(chosen(*args, **named), in_flight=in_flight, shard_size=8)
main(sys.argv[2:])
"""
"""`strobe predict` as on a GPU machine, with a model that needs none. No guard: workers do not run it again."""


def _start(
    started: Any, data: Path, out: Path, plugin: Path, *, in_flight: int
) -> tuple[subprocess.Popen[str], list[int]]:
    """The command at work, and its workers."""
    arguments = ["predict", str(data), "-m", f"py:{plugin}:make", "-o", str(out)]
    process = started(
        [sys.executable, "-c", COMMAND, str(in_flight), *arguments],
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    until = time.monotonic() + 30
    while time.monotonic() < until and process.poll() is None:
        if len(list((out / "predictions").rglob("*.parquet"))) > 1:
            return process, workers_of(process.pid)
        time.sleep(0.05)
    process.kill()
    raise AssertionError(f"no predictions: {process.communicate()[1]}")


@pytest.fixture
def command(colours: Make, tmp_path: Path, started: Any) -> Callable[..., tuple[subprocess.Popen[str], list[int]]]:
    folder.write(colours(n_sets=30, k=3), tmp_path / "data")
    (tmp_path / "slow.py").write_text(PLUGIN)
    return partial(_start, started, tmp_path / "data", tmp_path / "run", tmp_path / "slow.py")


@pytest.mark.slow
@pytest.mark.parametrize("in_flight", [1, 2])
def test_ctrl_c_in_a_terminal_ends_everything_with_the_batch_under_way(
    in_flight: int, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, workers = command(in_flight=in_flight)
    assert len(workers) == 2
    (tmp_path / "signalled").touch()
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130, errors
    assert "finished work is kept" in errors
    for word in ("Traceback", "resource_tracker", "leaked", "Warning"):
        assert word not in errors
    begun = (tmp_path / "batches").read_text().split()
    assert begun.count("late") <= in_flight + 1, "it ends with the batches under way, not with the work"
    assert gone(workers, within_s=60)
    (tmp_path / "signalled").unlink()
    monkeypatch.setattr(workflow, "decode_processes", lambda options, models, source, n_cores: 2)
    data, model = folder.read(tmp_path / "data"), f"py:{tmp_path / 'slow.py'}:make"
    (run,) = predict(data, [model], tmp_path / "run", Running(device="cpu"), Silent())
    assert run.outcome is not None
    assert run.outcome.n_kept >= 16
    assert run.outcome.n_kept + run.outcome.n_new == 210


@pytest.mark.slow
def test_workers_end_when_the_command_is_killed(command: Any) -> None:
    process, workers = command(in_flight=2)
    assert len(workers) == 2
    process.kill()
    process.communicate()
    assert gone(workers, within_s=60)
