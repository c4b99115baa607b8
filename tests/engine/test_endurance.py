"""A run that is killed, interrupted, or very long: real processes, real signals."""

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from strobe.core.dataset import Dataset
from strobe.store import dataset_folder as folder

Make = Callable[..., Dataset]

SCRIPT = """
import sys
from pathlib import Path
from strobe.core.ports import Silent
from strobe.store import dataset_folder as folder
from strobe.models.options import LoadOptions
from strobe.engine.prediction import PredictOptions
from strobe.workflows.predict import predict

class Loud(Silent):
    def task(self, label, total):
        print("go", flush=True)
        return super().task(label, total)

data, out, batch, *models = sys.argv[1:]
options = PredictOptions(load=LoadOptions(device="cpu", batch_size=int(batch)), shard_size=16)
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
def test_killed_three_times_and_finished_is_bit_identical(colours: Make, plugin: Path, tmp_path: Path) -> None:
    dataset = colours(n_sets=40, k=3)
    folder.write(dataset, tmp_path / "data")
    models = [f"py:{plugin}:slow", f"py:{plugin}:make"]
    (tmp_path / "data/media/00017.jpg").write_bytes(b"junk")
    whole = _start(tmp_path / "data", tmp_path / "whole", *models)
    _, errors = whole.communicate(timeout=300)
    assert whole.returncode == 0, errors
    hits = _kill_and_finish(tmp_path / "data", tmp_path / "run", *models, kills=3, within_s=0.25, seed=3)
    assert hits >= 2, "the kills came too late to mean anything"
    want, got = _shards(tmp_path / "whole"), _shards(tmp_path / "run")
    assert want.keys() == got.keys()
    assert want == got
    assert not list((tmp_path / "run").rglob("*.tmp")), "what a kill left half written is swept up"


MEMORY = """
import resource, sys
from pathlib import Path
from strobe.core.ports import Silent
from strobe.store import dataset_folder as folder
from strobe.models.options import LoadOptions
from strobe.engine.prediction import PredictOptions
from strobe.workflows.predict import predict

data, out, model = sys.argv[1:]
(run,) = predict(folder.read(Path(data)), [model], Path(out), PredictOptions(load=LoadOptions(device="cpu")), Silent())
if not run.ok:
    raise SystemExit(run.error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_peak_memory_does_not_grow_with_frames(colours: Make, plugin: Path, tmp_path: Path) -> None:
    # Frames are large, so that a few hundred kept in memory would show.
    peaks = []
    for n_sets in (40, 300):
        dataset = colours(f"data{n_sets}", n_sets=n_sets, k=2, size=(160, 120))
        folder.write(dataset, tmp_path / f"data{n_sets}")
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, str(tmp_path / f"data{n_sets}"), str(tmp_path / f"run{n_sets}"),
             f"py:{plugin}:make"],
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout))
    assert peaks[1] <= 1.10 * peaks[0], f"{peaks[0]} kB for some of the frames, {peaks[1]} kB for all"
