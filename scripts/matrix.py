"""Test the wheel with every installed Python, and with the newest and the lowest declared versions of its dependencies.

    python scripts/matrix.py                  each Python: newest, lowest, and without extras
    python scripts/matrix.py --short          this Python, newest
    python scripts/matrix.py --torch 3.12     also one cell with the models extra and the demo
    python scripts/matrix.py --wheel dist/    only build archive, wheel, bill of materials and checksums
    python scripts/matrix.py --short --tests  first run a few tests from the unpacked source archive

Each cell is an empty environment with the wheel and its extras, in which `scripts/smoke.py` runs every verb. The lowest
version is the lowest that pyproject.toml allows and that has a wheel for that Python. Exits with 3 if no package index
can be reached.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from dist_files import write_beside
from project_files import files, project_files

ROOT = Path(__file__).parents[1]
EXTRAS = ("report", "video", "review", "onnx")
"""The extras that a cell installs: all that do not need torch."""

QUIET = ("--quiet", "--disable-pip-version-check", "--no-input")


class NoIndex(Exception):
    """Raised if no package index can be reached."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One environment to test: a Python, the versions and the extras."""

    python: Path
    version: str
    pins: str
    extras: tuple[str, ...]
    torch: bool = False


def project() -> dict[str, object]:
    """Return the [project] table of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: dict[str, object] = tomllib.load(file)["project"]
    return found


def requirements(extras: Iterable[str]) -> list[str]:
    """Return the declared requirements of the package and these extras. Extras of strobe itself are resolved.

    >>> [line for line in requirements(["postgres"]) if "psycopg" in line or "fastapi" in line]
    ['fastapi>=0.110', 'psycopg[binary]>=3.1']
    """
    table = project()
    declared, optional = table["dependencies"], table["optional-dependencies"]
    if not isinstance(declared, list) or not isinstance(optional, dict):
        raise TypeError("pyproject.toml: expected dependencies to be a list and optional-dependencies a table")
    lines = list(declared)
    for extra in extras:
        for line in optional[extra]:
            own = re.fullmatch(r"strobe-vision\[([a-z,]+)\]", line)
            lines += requirements(own[1].split(","))[len(declared) :] if own else [line]
    return list(dict.fromkeys(lines))


def bounds(lines: Iterable[str]) -> dict[str, str]:
    """Return the lower bound of each requirement that has one.

    >>> bounds(["numpy>=1.26", "psycopg[binary]>=3.1", "lite==0.1.0", "six; platform_system != 'Windows'"])
    {'numpy': '1.26', 'psycopg': '3.1'}
    """
    found = (re.match(r"([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?>=([0-9][0-9.]*)", line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def release(version: str) -> tuple[int, ...]:
    """Return a version's numbers without trailing zeros, for comparison.

    >>> release("3.9.1.post1") > release("3.9.1") and release("10.0") == release("10")
    True
    """
    numbers = [int(part) for part in re.findall(r"\d+", version)]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def run(*words: object, timeout: float = 1800) -> subprocess.CompletedProcess[str]:
    """Run a command without this checkout on the Python path."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYENV_VERSION")}
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, env=clean, timeout=timeout)


def pip(python: Path, *words: object) -> str:
    """Run pip and return its output. Raise NoIndex, or RuntimeError with pip's last line."""
    done = run(python, "-m", "pip", *words)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr.strip()[-300:]]
        unreachable = (
            "NewConnectionError",
            "Failed to establish a new connection",
            "Temporary failure in name resolution",
        )
        if any(sign in done.stderr for sign in unreachable):
            raise NoIndex(errors[-1])
        raise RuntimeError(errors[-1])
    return done.stdout


def lowest(python: Path, lines: Iterable[str]) -> dict[str, str]:
    """Return the lowest allowed version of each requirement that has a wheel for this Python."""
    version_of = {}
    for name, bound in bounds(lines).items():
        listed = pip(python, "index", "versions", name, "--only-binary", ":all:", *QUIET[1:])
        versions = re.search(r"Available versions: (.*)", listed)
        fit = [one for one in (versions[1].split(", ") if versions else []) if release(one) >= release(bound)]
        for version in sorted(fit, key=release):
            if installs(python, f"{name}=={version}"):
                version_of[name] = version
                break
        else:
            raise RuntimeError(f"no wheel of {name}>={bound} for {python}")
    return version_of


def installs(python: Path, line: str) -> bool:
    """Return whether this version can be installed. Some versions have a wheel but depend on packages without one."""
    try:
        pip(python, "install", *QUIET, "--dry-run", "--only-binary", ":all:", line)
    except RuntimeError:
        return False
    return True


def pythons() -> dict[str, Path]:
    """Return every supported Python that pyenv has or that is on the PATH, by minor version."""
    least = release(str(project()["requires-python"]).removeprefix(">="))
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    candidates = [*sorted(root.glob("versions/3.*/bin/python"))]
    candidates += [Path(at) for minor in range(least[1], 30) if (at := shutil.which(f"python3.{minor}"))]
    found: dict[str, Path] = {}
    for candidate in candidates:
        done = run(candidate, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])")
        version = done.stdout.strip()
        if done.returncode == 0 and release(version) >= least:
            found.setdefault(version, candidate)
    return dict(sorted(found.items(), key=lambda item: release(item[0])))


def build_sdist(into: Path) -> Path:
    """Build the source archive from a copy of the project's files, with setuptools in a separate folder."""
    with tempfile.TemporaryDirectory(prefix="strobe-sdist-") as place:
        source = Path(place, "source")
        for path in project_files():
            copy = source / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        tools = Path(place, "tools")
        pip(Path(sys.executable), "install", *QUIET, "--no-compile", "--target", tools, "setuptools>=77")
        into.mkdir(parents=True, exist_ok=True)
        hook = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            [sys.executable, "-c", hook, str(into.resolve())], cwd=source, capture_output=True, text=True,
            env={**clean, "PYTHONPATH": str(tools)},
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-500:])
    (made,) = into.glob("*.tar.gz")
    return made


def build_wheel(into: Path) -> Path:
    """Build the wheel from the source archive, and check that it contains every file of the package."""
    with tempfile.TemporaryDirectory(prefix="strobe-wheel-") as place:
        sdist = build_sdist(Path(place, "sdist"))
        pip(Path(sys.executable), "wheel", *QUIET, "--no-deps", "--wheel-dir", Path(place, "made"), sdist)
        (made,) = Path(place, "made").glob("*.whl")
        held = set(zipfile.ZipFile(made).namelist())
        wanted = [path.relative_to(ROOT / "src").as_posix() for path in files("src/strobe/**/*")]
        if missing := [path for path in wanted if path not in held]:
            raise RuntimeError(f"not in the wheel: {', '.join(missing[:10])}")
        into.mkdir(parents=True, exist_ok=True)
        for pattern in ("*.whl", "*.tar.gz", "*.cdx.json", "SHA256SUMS"):  # removes files of an earlier version
            for old in into.glob(pattern):
                old.unlink()
        shutil.copy(sdist, into / sdist.name)
        return Path(shutil.copy(made, into / made.name))


def run_its_tests(sdist: Path) -> bool:
    """Run a few tests of every kind from the unpacked source archive. Returns whether they passed."""
    some = (
        "tests/core/test_labels.py",
        "tests/metrics/test_pmk.py",
        "tests/workflows/test_export_doors.py::test_a_leaderboard_over_many_runs",
        "tests/test_community.py",
        "src/strobe/core",
    )
    with tempfile.TemporaryDirectory(prefix="strobe-sdist-") as place:
        with tarfile.open(sdist) as archive:
            archive.extractall(place, filter="data")
        (root,) = Path(place).iterdir()
        words = [sys.executable, "-m", "pytest", "-q", "-x", *some]
        done = subprocess.run(words, cwd=root, env={**os.environ, "PYTHONPATH": str(root / "src")})
    return done.returncode == 0


def try_cell(cell: Cell, wheel: Path) -> tuple[bool, str]:
    """Install into an empty environment and run the smoke test. Returns whether it passed, and a message."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="strobe-matrix-") as place:
        home = Path(place, "venv")
        made = run(cell.python, "-m", "venv", home)
        if made.returncode:
            return False, made.stderr.strip()[-300:]
        python = home / "bin" / "python"
        target = f"strobe-vision[{','.join(cell.extras)}] @ {wheel.resolve().as_uri()}" if cell.extras else str(wheel)
        try:
            pins = lowest(python, requirements(cell.extras)) if cell.pins == "lowest" else {}
            exact = [f"{name}=={version}" for name, version in pins.items()]
            pip(python, "install", *QUIET, "--no-compile", "--only-binary", ":all:", target, *exact)
        except RuntimeError as error:
            return False, f"install: {error}"
        installed = time.perf_counter() - begin
        done = run(python, ROOT / "scripts/smoke.py", *(["--torch"] if cell.torch else []))
        took = f"install {installed:.0f} s, smoke {time.perf_counter() - begin - installed:.0f} s"
        if pins:
            took += "; " + " ".join(exact)
        if done.returncode:
            failed = [line.strip() for line in done.stdout.splitlines() if "FAILED" in line]
            return False, "; ".join(failed or [done.stderr.strip()[-300:]])
        return True, took


def cells(options: argparse.Namespace) -> Iterator[Cell]:
    """Yield the cells in the order of the table."""
    if options.short:
        version = "{}.{}".format(*sys.version_info)
        yield Cell(python=Path(sys.executable), version=version, pins="newest", extras=("report", "video", "onnx"))
        return
    for version, python in pythons().items():
        if options.python and version not in options.python:
            continue
        for pins in options.pins.split(","):
            yield Cell(python=python, version=version, pins=pins, extras=EXTRAS)
        yield Cell(python=python, version=version, pins="newest", extras=())
        if version == options.torch:
            yield Cell(python=python, version=version, pins="newest", extras=("demo", "models"), torch=True)


def main() -> None:
    """Print the table. Exits with 1 if a cell failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="this Python and the newest versions only")
    parser.add_argument("--python", action="append", help="only this Python, e.g. 3.12 (repeatable)")
    parser.add_argument("--pins", default="newest,lowest", help="newest, lowest or both")
    parser.add_argument("--torch", metavar="PYTHON", help="also test the demo with torch, with this Python")
    parser.add_argument("--wheel", type=Path, help="build source archive and wheel into this folder and stop")
    parser.add_argument("--tests", action="store_true", help="first run a few tests from the unpacked source archive")
    options = parser.parse_args()
    try:
        if options.wheel:
            print(build_wheel(options.wheel), *write_beside(options.wheel), sep="\n")
            return
        with tempfile.TemporaryDirectory(prefix="strobe-dist-") as place:
            wheel = build_wheel(Path(place))
            print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
            failed = 0
            if options.tests:
                (sdist,) = Path(place).glob("*.tar.gz")
                failed += not run_its_tests(sdist)
            for cell in cells(options):
                ok, said = try_cell(cell, wheel)
                failed += not ok
                extras = ",".join(cell.extras) or "base"
                print(f"{cell.version:<5} {cell.pins:<7} {extras:<25} {'ok' if ok else 'FAILED':<7} {said}", flush=True)
    except NoIndex as error:
        print(f"no package index can be reached: {error}", file=sys.stderr)
        sys.exit(3)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
