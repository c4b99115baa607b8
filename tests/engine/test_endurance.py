"""A long run: its memory does not grow."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from strobe.core.dataset import Dataset
from strobe.store import dataset_folder as folder

Make = Callable[..., Dataset]
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
