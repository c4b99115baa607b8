"""The workflow file of docs/ci.md, run step by step on a repository of its own, as a CI server would."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
FILE = ROOT / "examples" / "ci" / "strobe.yml"
VARIABLES = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

MODEL = """\
import numpy as np

NAMES = {names!r}
SHIFT = {shift}

def make():
    def scores(images):
        # the class stands in the first pixels of the frame, as the test wrote it; a shifted model misreads some
        found = np.zeros((len(images), len(NAMES)))
        for row, image in enumerate(images):
            place = int(image[0, 0, 0])
            wrong = int(image[0, 0, 1]) < SHIFT
            found[row, (place + wrong) % len(NAMES)] = 1.0
        return found
    return scores, NAMES
"""


def _steps() -> list[dict[str, Any]]:
    return list(yaml.safe_load(FILE.read_text(encoding="utf-8"))["jobs"]["gate"]["steps"])


def test_the_page_shows_the_file() -> None:
    text = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"<!-- examples/ci/strobe.yml -->\n```yaml\n(.*?)```", text, re.DOTALL)
    assert shown == FILE.read_text(encoding="utf-8")
    assert [step.get("uses", step.get("name")) for step in _steps()] == [
        "actions/checkout@v4", "actions/setup-python@v5", "Install",
        "Run the model of the base branch and the new one", "Gate", "Summary", "Comment", "actions/upload-artifact@v4",
    ]  # fmt: skip


def _dataset(work: Path) -> None:
    """data/: thirty clips of one class each, whose frames say their class and how hard they are in a pixel."""
    from PIL import Image

    rows = ["video,label"]
    for clip in range(30):
        place = work / "frames" / f"clip-{clip:02d}"
        place.mkdir(parents=True)
        rows.append(f"{place.name},{('circle', 'square')[clip % 2]}")
        for frame in range(3):
            image = Image.new("RGB", (16, 16), (90, 90, 90))
            image.putpixel((0, 0), (clip % 2, 3 * clip + frame, 0))
            image.save(place / f"{frame:06d}.png")
    (work / "labels.csv").write_text("\n".join(rows))
    words = ["import", "frames", "frames", "data", "--labels", "labels.csv", "--k", "1", "-q"]
    subprocess.run([sys.executable, "-m", "strobe", *words], cwd=work, env=VARIABLES, check=True, capture_output=True)


@pytest.mark.slow
def test_its_steps_do_what_the_page_says(tmp_path: Path) -> None:
    work = tmp_path / "work"
    _dataset(work)

    def git(*words: str) -> None:
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *who, *words], cwd=work, check=True, capture_output=True)

    (work / "model.py").write_text(MODEL.format(names=["circle", "square"], shift=0))
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-qm", "the model of main")
    git("remote", "add", "origin", str(work))
    git("fetch", "-q", "origin")
    (work / "model.py").write_text(MODEL.format(names=["circle", "square"], shift=45))

    bin_, summary = tmp_path / "bin", tmp_path / "summary.md"
    bin_.mkdir()
    shim = bin_ / "strobe"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m strobe "$@"\n')
    shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
    variables = {**VARIABLES, "PATH": f"{bin_}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(summary)}

    def run(script: str) -> subprocess.CompletedProcess[str]:
        script = script.replace("${{ github.base_ref }}", "main")
        return subprocess.run(["bash", "-e", "-c", script], cwd=work, env=variables, capture_output=True, text=True)

    codes = {}
    for step in _steps():
        if step.get("name") in (None, "Install", "Comment"):  # the CI server's own, and what needs its network
            continue
        done = run(step["run"])
        codes[step["name"]] = done.returncode
        assert done.returncode == 0 or step["name"] == "Gate", done.stdout + done.stderr
    assert codes["Gate"] == 1
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("### strobe gate: failed ❌")
    assert "new against base on data: 30 sets of 30 videos, k = 1" in text
    assert "**clearly worse**: a larger loss is shown" in text
    assert (work / "run" / "report.html").is_file()
    gate = next(step["run"] for step in _steps() if step.get("name") == "Gate")
    assert run(gate.replace("-m new --baseline base", "-m base --baseline new")).returncode == 0
