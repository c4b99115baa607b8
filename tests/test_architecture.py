"""The rules of the house that import-linter does not see."""

import ast
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src/strobe").rglob("*.py"))
MACHINE_PATHS = "/(home|root|Users)/[a-z]+/|/" + "work/(main|shared)"
HEAVY = ("torch", "timm", "matplotlib", "fastapi", "sqlalchemy", "av", "scipy.stats", "pyarrow", "transformers")


def _run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


@pytest.mark.parametrize("entry", ["import strobe", "from strobe.cli.main import cli"])
def test_start_imports_nothing_heavy(entry: str) -> None:
    done = _run(f"import sys; {entry}; print([m for m in {HEAVY!r} if m in sys.modules])")
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@pytest.mark.timing
def test_help_is_quick() -> None:
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "strobe", "--help"], capture_output=True, text=True)
        times.append(time.perf_counter() - begin)
        assert done.returncode == 0
    assert min(times) < 0.5, f"strobe --help took {min(times):.2f} s at best"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_house_rules(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 450, "a file past 450 lines is asking to be two"
    tree = ast.parse(text)
    if path.name == "__init__.py" and path.parent.name != "strobe":
        assert not text.strip(), "sub-package __init__.py stay empty"
    for node in ast.walk(tree):
        assert not isinstance(node, ast.Assert), f"line {node.lineno}: expect() instead of assert"
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in [*tree.body, *(part for one in classes for part in one.body)]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            assert node.args.kwarg is None, f"line {node.lineno}: no public **kwargs"


def test_no_machine_paths() -> None:
    done = subprocess.run(
        ["git", "grep", "-nE", MACHINE_PATHS, "--", ".", f":!tests/{Path(__file__).name}"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if "/home/someone/" not in line and "/home/ubuntu/" not in line]
    assert not lines, "\n".join(lines[:10])


def test_public_api_is_sorted_and_documented() -> None:
    import strobe

    assert list(strobe.__all__) == sorted(strobe.__all__)
    for name in strobe.__all__:
        assert getattr(strobe, name).__doc__, f"strobe.{name} has no docstring"
