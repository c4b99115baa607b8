"""The workflow file examples/ci/strobe.yml, run step by step on a repository of its own, as a CI server would.

Once with this checkout, once with the wheel that `make dist` builds; its bill of materials and checksums are checked.
"""

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

ROOT = Path(__file__).parents[1]
FILE = ROOT / "examples" / "ci" / "strobe.yml"
VARIABLES = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

MODEL = """\
import numpy as np
from net import NAMES

def make(options):
    SHIFT = float(np.load(options.weights)["shift"])

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


def test_the_workflow_has_these_steps() -> None:
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


def _repository(
    tmp_path: Path, *, with_base: bool, bin_: Path | None = None
) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """A repository whose pull request makes the model worse by its weights alone; what runs a step's script there.

    Steps find the `strobe` of `bin_`; without one, that of this checkout.
    """
    work = tmp_path / "work"
    _dataset(work)

    def git(*words: str) -> None:
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *who, *words], cwd=work, check=True, capture_output=True)

    def model(names: list[str], shift: int) -> None:
        (work / "model.py").write_text(MODEL)
        (work / "net.py").write_text(f"NAMES = {names!r}\n")
        np.savez(work / "weights.npz", shift=shift)

    git("init", "-q", "-b", "main")
    if with_base:
        model(["circle", "square"], shift=0)
    git("add", "-A")
    git("commit", "-qm", "what main has")
    git("remote", "add", "origin", str(work))
    git("fetch", "-q", "origin")
    model(["circle", "square"], shift=45)

    variables = dict(VARIABLES)
    if bin_ is None:
        bin_ = tmp_path / "bin"
        bin_.mkdir()
        shim = bin_ / "strobe"
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m strobe "$@"\n')
        shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
    else:
        del variables["PYTHONPATH"]  # nothing of this checkout
    variables |= {"PATH": f"{bin_}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}

    def run(script: str) -> subprocess.CompletedProcess[str]:
        script = script.replace("${{ github.base_ref }}", "main")
        return subprocess.run(["bash", "-eu", "-c", script], cwd=work, env=variables, capture_output=True, text=True)

    return run


def _carried_out(run: Callable[[str], subprocess.CompletedProcess[str]]) -> dict[str, int]:
    """The exit code of each step that needs neither the CI server nor its network."""
    codes = {}
    for step in _steps():
        if step.get("name") in (None, "Install", "Comment"):
            continue
        done = run(step["run"])
        codes[step["name"]] = done.returncode
        assert done.returncode == 0 or step["name"] == "Gate", done.stdout + done.stderr
    return codes


@pytest.mark.slow
def test_its_steps_do_what_the_page_says(tmp_path: Path) -> None:
    run = _repository(tmp_path, with_base=True)
    assert _carried_out(run)["Gate"] == 1
    text = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert text.startswith("### strobe gate: failed ❌")
    assert "new against base on data: 30 sets of 30 videos, k = 1" in text
    assert "**worse**: the figure is beyond the limit" in text
    assert (tmp_path / "work/run/report.html").is_file()
    gate = next(step["run"] for step in _steps() if step.get("name") == "Gate")
    assert run(gate.replace("-m new", "-m base").replace("--baseline base", "--baseline new")).returncode == 0


@pytest.mark.slow
def test_a_base_branch_without_a_model_is_no_baseline(tmp_path: Path) -> None:
    """Before, the first pull request that brings a model failed: base/model.py was not there."""
    assert _carried_out(_repository(tmp_path, with_base=False))["Gate"] in (0, 1)
    text = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "new on data: 30 sets of 30 videos, k = 1" in text


def _check_bill(bill: dict[str, Any], wheel: Path) -> None:
    """CycloneDX's required fields, the wheel's digest, and every package that pyproject.toml asks for, once."""
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(
        r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", bill["serialNumber"]
    )
    own = bill["metadata"]["component"]
    assert own["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]
    assert own["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    sys.path.insert(0, str(ROOT / "scripts"))
    from dist_files import plain
    from matrix import project, requirements

    names = [one["name"] for one in bill["components"]]
    extras: Any = project()["optional-dependencies"]
    assert names == sorted({plain(re.split(r"[\[>=<;! ]", line)[0]) for line in requirements(extras)})
    needed = {plain(re.split(r"[>=<]", line)[0]) for line in requirements([])}
    assert {one["name"] for one in bill["components"] if one["scope"] == "required"} == needed
    assert all(one["version"] for one in bill["components"] if one["name"] in needed)
    refs = {own["bom-ref"], *(one["bom-ref"] for one in bill["components"])}
    assert {one["ref"] for one in bill["dependencies"]} == refs
    assert set(bill["dependencies"][0]["dependsOn"]) == refs - {own["bom-ref"]}


@pytest.mark.slow
def test_its_steps_run_on_the_wheel_built_here(tmp_path: Path) -> None:
    """`make dist`, then the workflow from its `pip install` on, in an environment that has no strobe."""
    dist = tmp_path / "dist"
    words = [sys.executable, str(ROOT / "scripts" / "matrix.py"), "--wheel", str(dist)]
    built = subprocess.run(words, capture_output=True, text=True)
    if built.returncode == 3:
        pytest.skip(built.stderr.strip())
    assert built.returncode == 0, built.stderr
    lines = (dist / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    made = [path for path in dist.iterdir() if path.name != "SHA256SUMS"]
    assert sums == {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in made}
    (wheel,), (bill,) = dist.glob("*.whl"), dist.glob("*.cdx.json")
    _check_bill(json.loads(bill.read_text(encoding="utf-8")), wheel)

    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    (inside,) = home.glob("lib/python*/site-packages")
    (inside / "other-packages.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")  # torch and the rest are there
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(dist), "PIP_NO_DEPS": "1", "PIP_IGNORE_INSTALLED": "1"}
    install = next(step["run"] for step in _steps() if step.get("name") == "Install")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    path = f"{home / 'bin'}:{os.environ['PATH']}"
    subprocess.run(["bash", "-eu", "-c", install], env={**clean, **offline, "PATH": path}, check=True, cwd=tmp_path)
    where = [str(home / "bin" / "python"), "-c", "import strobe; print(strobe.__file__)"]
    found = subprocess.run(where, env=clean, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert Path(found.strip()).is_relative_to(home)

    run = _repository(tmp_path, with_base=True, bin_=home / "bin")
    assert _carried_out(run)["Gate"] == 1
    assert (tmp_path / "summary.md").read_text(encoding="utf-8").startswith("### strobe gate: failed ❌")
    shutil.rmtree(home)
