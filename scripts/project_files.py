"""The files of the project, for every check that reads the project; never what a command or an editor left beside them.

In a git checkout these are the tracked files. Elsewhere, as in an unpacked source archive, these are the files of the
lists below, without hidden folders, caches and environments.

python scripts/project_files.py                  print the files
python scripts/project_files.py codespell        run a command on the files
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "scripts", "fuzz", "benchmarks", "docs", "deploy", "examples", ".github", ".ci")
FILES = (
    "CHANGELOG.md", "CITATION.cff", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "Makefile",
    "README.md", "SECURITY.md", "conftest.py", "constraints.txt", "action.yml", "mkdocs.yml", "pyproject.toml",
    "setup.py", ".gitignore", ".pre-commit-config.yaml",
)  # fmt: skip
"""What the top of the project has. tests/test_project_files.py compares both lists with the tracked files."""
MADE = ("__pycache__", "node_modules", "*.egg-info")
"""Folders that tools make inside of these folders; so are hidden folders and folders with a pyvenv.cfg."""


@cache
def project_files(root: Path = ROOT) -> tuple[Path, ...]:
    """Return every file of the project below `root`, sorted."""
    return tuple(sorted(tracked(root) or listed(root)))


def files(pattern: str, root: Path = ROOT) -> list[Path]:
    """Return the files of the project whose path below `root` matches a pattern; `**` is any number of folders.

    >>> [path.name for path in files("src/strobe/__*.py")]
    ['__init__.py', '__main__.py']
    >>> files("*.md") == [path for path in files("**/*.md") if path.parent == ROOT]
    True
    """
    head, deep, tail = pattern.rpartition("**/")
    found = []
    for path in project_files(root):
        relative = path.relative_to(root)
        below = not deep or relative.as_posix().startswith(head)
        if below and relative.match(tail) and (deep or len(relative.parts) == len(Path(pattern).parts)):
            found.append(path)
    return found


def tracked(root: Path) -> list[Path]:
    """Return the tracked files; none if `root` is not the top of a git checkout, or without git."""
    # core.fsmonitor=false: a check runs no program that the settings of the checkout name
    git = ["git", "-c", "core.fsmonitor=false", "-C", str(root)]
    try:
        top = subprocess.run([*git, "rev-parse", "--show-toplevel"], capture_output=True, text=True)
        if top.returncode or Path(top.stdout.strip()).resolve() != root.resolve():
            return []
        names = subprocess.run([*git, "ls-files", "-z"], capture_output=True, text=True, check=True).stdout
    except OSError:
        return []
    return [path for name in names.split("\0") if name and (path := root / name).is_file()]


def listed(root: Path) -> list[Path]:
    """Return the files of the stated list."""
    found = [root / name for name in FILES]
    for folder in FOLDERS:
        for place, inner, names in os.walk(root / folder):
            inner[:] = [name for name in inner if not _is_made(Path(place, name))]
            found += [Path(place, name) for name in names if not name.endswith((".pyc", ".orig", ".rej", ".swp", "~"))]
    return [path for path in found if path.is_file()]


def _is_made(folder: Path) -> bool:
    is_named = any(folder.match(pattern) for pattern in (".*", *MADE))
    return is_named or (folder / "pyvenv.cfg").is_file()


if __name__ == "__main__":
    names = [path.relative_to(ROOT).as_posix() for path in project_files()]
    if sys.argv[1:]:
        os.chdir(ROOT)
        os.execvp(sys.argv[1], [*sys.argv[1:], *names])
    print(*names, sep="\n")
