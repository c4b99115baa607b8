"""docs/python.md and the notebook, run as they stand."""

import json
import os
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import matplotlib
import numpy as np
import pytest
from PIL import Image

import strobe

matplotlib.use("agg")

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
NOTEBOOK = ROOT / "examples" / "first-study.ipynb"


def _clip(path: Path, seed: int) -> None:
    noise = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    picture = np.asarray(Image.fromarray(noise).resize((72, 64), Image.Resampling.BICUBIC))
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=Fraction(25))
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        for shift in range(8):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture[:, shift : shift + 64]), format="rgb24")
            out.mux(stream.encode(frame))
        out.mux(stream.encode())


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two clips and two photos, where the page says they lie."""
    (tmp_path / "clips").mkdir()
    for place, name in enumerate(("fox", "owl")):
        _clip(tmp_path / "clips" / f"{name}.mp4", place)
        folder = tmp_path / "photos" / name
        folder.mkdir(parents=True)
        colour = np.random.default_rng(place).integers(0, 255, (80, 96, 3), dtype=np.uint8)
        Image.fromarray(colour).save(folder / "1.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_page_runs_from_top_to_bottom(sandbox: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        exec(compile(block, "docs/python.md", "exec"), names)
    assert repr(names["dataset"]) in PAGE
    assert repr(names["found"])[:58] in PAGE
    assert np.array_equal(names["first"].scores, names["again"].scores)
    assert not np.array_equal(names["first"].scores, names["other"].scores)
    assert set(names["done"].scores) == {"linear", "zeros"}
    assert names["done"].report == Path("run/report.html")
    assert (sandbox / "run" / "report.html").is_file()
    assert (names["mine"].n_sets, names["shaken"].n_sets) == (2, 2)
    with pytest.raises(strobe.StrobeError) as caught:
        strobe.score(names["dataset"], names["scores"][:, :7], keys=names["keys"])
    assert str(caught.value) in PAGE


def test_the_page_names_every_verb() -> None:
    verbs = "load_dataset predict score evaluate compare report build simulate synthesize gate history"
    for name in verbs.split():
        assert re.search(rf"`{name}\(|strobe\.{name}\b|`{name}`", PAGE), name


# -- the notebook --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(ROOT / "scripts"), str(NOTEBOOK), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "run" / "report.html").is_file()
    now, shipped = json.loads(done.stdout), json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    dataset = ["<Dataset synthetic: 24 sets, 216 frames, 24 sources, 12 classes, k = 4>"]
    assert _said(now)[0] == _said(shipped)[0] == dataset
    assert [len(one) for one in _said(now)] == [len(one) for one in _said(shipped)]


RUN = """\
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from run_notebook import run
json.dump(run(Path(sys.argv[2]), Path(sys.argv[3])), sys.stdout)
"""


def _said(notebook: Any) -> list[list[str]]:
    """What the cells that say something say, as text."""
    cells = [
        ["".join(one["data"]["text/plain"]) for one in cell.get("outputs", ()) if "data" in one]
        for cell in notebook["cells"]
    ]
    return [cell for cell in cells if cell]


def test_the_shipped_notebook_has_its_outputs_and_is_small() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    outputs = [one for cell in json.loads(text)["cells"] for one in cell.get("outputs", ())]
    assert len(text) < 150 * 1024
    assert not any(one["output_type"] == "error" for one in outputs)
    assert sum("image/png" in one.get("data", {}) for one in outputs) == 4
    assert sum("text/html" in one.get("data", {}) for one in outputs) >= 6
