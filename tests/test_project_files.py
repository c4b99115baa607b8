"""What the README's commands, editors and other tools leave beside the sources changes no check of the project."""

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import project_files as script
import pytest
from project_files import ROOT, files, listed, project_files, tracked

READERS = [path for path in files("tests/**/*.py") if re.search(r"^from project_files ", path.read_text(), re.M)]
"""The tests that read the project."""
HELPER = (ROOT / "scripts/project_files.py", Path(__file__))

STRAY = "separately whence\nimport os, sys; x=( 1\npip install strobe\n/users/bob/x\n"
STRAY = STRAY.replace("para", "pera").replace("users", "home")
"""Misspelled, no Python, a forbidden phrase, another package's name and a path of a machine."""
LEFT = (
    "strobe-demo/run/report.html", "strobe-demo-training/run/mine.py", "runs/first/report.html", "run/notes.md",
    "site/index.html", "site/start.md", "dist/notes.md", "build/lib/strobe/core/x.py", "mutants/src/strobe/x.py",
    "env/lib/python3.11/site-packages/x.py", "env/README.md", ".idea/notes.md", ".vscode/x.py", "notes.md",
    "scratch.py", "docs/.obsidian/page.md", "tests/.idea/test_x.py", "src/strobe/core/.ipynb_checkpoints/x.py",
    "src/strobe/core/errors.py.orig", "docs/start.md~", "clip.mp4", "tests/venv/lib/x.py",
    "src/strobe_vision.egg-info/x.md",
)  # fmt: skip
UNTRACKED = ("docs/draft.md", "tests/core/test_draft.py", "src/strobe/draft.py", "src/strobe/report/draft.html")


@pytest.fixture
def littered(tmp_path: Path) -> Path:
    """A copy of the project, as from a source archive, with all that may be left in it."""
    for path in project_files():
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    for name in LEFT:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(STRAY)
    for name in ("env", "tests/venv"):
        (tmp_path / name / "pyvenv.cfg").write_text("home = x\n")
    return tmp_path


def names(paths: list[Path], root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in paths)


def test_the_examples_of_the_list() -> None:
    assert doctest.testmod(script).failed == 0


def test_the_stated_list_is_what_git_tracks() -> None:
    if of_git := tracked(ROOT):
        of_list = set(names(listed(ROOT), ROOT))
        missing = [name for name in names(of_git, ROOT) if name not in of_list]
        assert missing == [], "scripts/project_files.py does not list them"


def test_leftovers_are_not_files_of_the_project(littered: Path) -> None:
    own = names(list(project_files()), ROOT)
    assert tracked(littered) == []
    assert names(listed(littered), littered) == own
    git = ["git", "-C", str(littered), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "-f", "--", *own], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], check=True)
    for name in UNTRACKED:
        (littered / name).write_text(STRAY)
    assert names(tracked(littered), littered) == own
    assert tracked(littered / "docs") == [], "a folder of a checkout is not the project"


@pytest.mark.slow
def test_checks_pass_beside_leftovers(littered: Path) -> None:
    """Tests that read the whole project, and what `make lint` runs on files; the others list files in the same way."""
    readers = [f"tests/test_{name}.py" for name in ("architecture", "community", "docs", "words")]
    assert {ROOT / name for name in readers} < set(READERS)
    pytest_ = ["-m", "pytest", "-q", "-x", "-n", "0", "-m", "not slow and not browser", *readers]
    spelling = ["scripts/project_files.py", sys.executable, "-m", "codespell_lib"]
    lint = [
        ["-m", "ruff", "check", "--no-cache", "."],
        ["-m", "ruff", "format", "--no-cache", "--check", "."],
        spelling,
    ]
    for words in (*lint, pytest_):
        done = subprocess.run(
            [sys.executable, *words], cwd=littered, env={**os.environ, "PYTHONPATH": str(littered / "src")},
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, f"{words}: {(done.stdout + done.stderr)[-3000:]}"


def test_nothing_else_lists_the_files_of_the_project() -> None:
    own_list = re.compile(r"\bROOT\b[^\n]*\.(?:r?glob|iterdir|walk)\(|ls-files|git.{1,4}grep")
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for folder in ("tests", "scripts")
        for path in files(f"{folder}/**/*.py")
        if path not in HELPER
        for line in path.read_text(encoding="utf-8").splitlines()
        if own_list.search(line)
    ]
    assert found == []


def test_every_test_file_is_collected(pytestconfig: pytest.Config) -> None:
    """Pytest passes over folders by name, `build` among them unless pyproject.toml says otherwise."""
    passed_over = pytestconfig.getini("norecursedirs")
    for path in [*files("tests/**/test_*.py"), *files("src/strobe/**/*.py")]:
        for folder in path.relative_to(ROOT).parts[:-1]:
            assert not any(Path(folder).match(pattern) for pattern in passed_over), path
