"""Without PyTorch: what runs, with the same answers as with it, and what ends in one line that names the extra."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from strobe.cli.demo import DEMOS
from strobe.models.options import LoadOptions
from strobe.models.providers import bundled, declared

sys.path.insert(0, str(Path(__file__).parent))
from absent import ABSENT

SCRIPT = Path(__file__).parent / "absent.py"


def _run(*words: Any, torch: bool = False) -> subprocess.CompletedProcess[str]:
    start = ["-m", "strobe"] if torch else [str(SCRIPT)]
    return subprocess.run([sys.executable, *start, *map(str, words)], capture_output=True, text=True, check=False)


_WALK = """
import json, sys
sys.path.insert(0, {folder!r})
import absent
absent.hide()
from strobe.core.errors import StrobeError
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
found = {{}}
for name, more in json.loads(sys.argv[1]):
    try:
        load_model(name, LoadOptions(device="cpu", **more))
        found[name + str(more)] = ""
    except StrobeError as error:
        found[name + str(more)] = str(error)
assert not set(sys.modules) & set(absent.ABSENT)
print(json.dumps(found))
"""


def _walk(models: list[tuple[str, dict[str, Any]]]) -> dict[str, str]:
    """Load models without PyTorch. Returns the error of each, or an empty text."""
    code = _WALK.format(folder=str(SCRIPT.parent))
    done = subprocess.run([sys.executable, "-c", code, json.dumps(models)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_every_provider_runs_or_names_its_extra() -> None:
    """The list of providers is the code's own."""
    packages = {one.example: one for _, one in declared() if one.package in ABSENT}
    assert {"timm", "torchvision", "open_clip", "transformers", "torch"} & {one.package for one in packages.values()}
    found = _walk([(example, {}) for example in packages])
    for example, one in packages.items():
        line = found[f"{example}{{}}"]
        assert "\n" not in line
        assert " needs the package " in line, example
        assert line.endswith(f"pip install 'strobe-vision[{one.extra}]'"), line


def test_every_bundled_model_runs_or_names_its_extra() -> None:
    needs = {name: one for name, one in bundled().items() if one.package in ABSENT} | {"strobe-net-boxes": None}
    found = _walk([(name, {}) for name in bundled()])
    for name in bundled():
        line = found[f"{name}{{}}"]
        if name == "strobe-net-boxes":  # it has no weights with or without PyTorch
            assert line
        elif name in needs:
            assert line.endswith("needs the package torch: pip install 'strobe-vision[models]'"), line
        else:
            assert line == "", line


@pytest.mark.parametrize(
    "more", [{"backend": "torch"}, {"precision": "bfloat16"}, {"compile": True}, {"pretrained": False}]
)
@pytest.mark.parametrize("name", ["efficientnet-lite0", "strobe-world", "strobe-tiny"])
def test_what_only_torch_does_names_its_extra(name: str, more: dict[str, Any]) -> None:
    LoadOptions(**more)
    (line,) = _walk([(name, dict(more))]).values()
    assert line.startswith(name)
    assert line.endswith("pip install 'strobe-vision[models]'"), line
    assert "\n" not in line


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small dataset that was made without PyTorch."""
    folder = tmp_path_factory.mktemp("world")
    done = _run("synthesize", folder / "data", "--videos", 4, "--size", 64, "--k", 3, "-q")
    assert done.returncode == 0, done.stderr
    return folder


def test_answers_do_not_depend_on_whether_torch_is_installed(world: Path) -> None:
    words = [
        "-m",
        "strobe-world",
        "-m",
        "efficientnet-lite0",
        "-m",
        "strobe-tiny",
        "-m",
        "crop:truth:strobe-world",
        "-q",
    ]
    for name, torch in (("without", False), ("with", True)):
        done = _run("predict", world / "data", *words, "-o", world / name, torch=torch)
        assert "strobe-world" not in done.stderr, done.stderr
    files = {
        name: {
            path.relative_to(world / name / "predictions"): path.read_bytes()
            for path in sorted((world / name / "predictions").rglob("*.parquet"))
        }
        for name in ("without", "with")
    }
    assert len(files["without"]) >= 3
    assert files["without"] == files["with"]


@pytest.mark.parametrize(
    "words",
    [
        ["vary", "attack", "DATA", "OUT", "-m", "efficientnet-lite0"],
        ["vary", "attack", "DATA", "OUT", "-m", "strobe-world"],
        *(["demo", f"--{name}", "-o", "OUT"] for name in ("training", "generator", "autoencoder") if name in DEMOS),
        ["train", "tent", "DATA", "-m", "strobe-world", "-o", "OUT"],
    ],
)
def test_what_needs_gradients_says_so_first(words: list[str], world: Path) -> None:
    places = {"DATA": str(world / "data"), "OUT": str(world / "out")}
    done = _run(*(places.get(word, word) for word in words))
    assert done.returncode == 2, done.stderr
    assert done.stderr.strip().count("\n") == 0, done.stderr
    assert "strobe-vision[models]" in done.stderr or words[0] == "train", done.stderr
    assert not (world / "out").exists()


def test_doctor_names_what_is_missing_and_what_it_is_for() -> None:
    lines = _run("doctor").stdout.splitlines()
    rows = {line.split()[1]: line for line in lines if line.strip().startswith(("✓", "✗"))}
    for package in ("torch", "timm", "efficientnet_lite_pytorch"):
        assert "missing: pip install 'strobe-vision[models]'" in rows[package]
    assert "✓" in rows["onnxruntime"]
    assert "GPUs, training, gradients" in rows["torch"]
    assert any("images/s (efficientnet-lite0)" in line for line in lines)
