"""Prove that an annex can be deleted: copy the tree without it, and check that the rest still works.

    python scripts/delete_annex.py [NAME…] [--drawn SEED] [--tests PATH…] [--runs RUN…]

An annex is a folder below src/strobe/annexes. For each one, the script copies the tree without that folder, without
tests/annexes/NAME and without the pages docs/annexes/NAME.md and NAME-*.md. It writes the command line reference and
the schema of results again, and takes the links to pages that went out of the other pages. In the copy, it runs
`strobe --help`, scores and reports the golden runs, and runs tests of the house: a quick selection, or --tests
(`--tests tests` is all of them).

tests/annexes/NAME/without.toml lists commands on data that needs the annex, as `[[command]]` with `words` and `says`.
They run in a copy of the folder of that file. Each must exit with 2 and print one line that contains `says`.
--drawn takes one annex, chosen by the seed, such as a commit. Exits with 1 if anything failed.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from project_files import project_files

ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"\[([^\]\n]*)\]\(([^)\s]+)\)")
QUICK = (
    "tests/core",
    "tests/metrics",
    "tests/test_architecture.py",
    "tests/test_golden.py",
    "tests/test_snapshots.py",
    "tests/test_docs.py",
)


def annexes(root: Path) -> list[str]:
    """Return the names of the annexes of a tree."""
    return sorted(path.parent.name for path in (root / "src/strobe/annexes").glob("*/annex.py"))


def copy_without(root: Path, name: str, copy: Path) -> None:
    """Copy the files of the project without an annex."""
    pages = f"docs/annexes/{name}"
    gone = (f"src/strobe/annexes/{name}/", f"tests/annexes/{name}/", f"{pages}.md", f"{pages}-")
    for source in project_files(root):
        file = source.relative_to(root).as_posix()
        if not file.startswith(gone):
            (copy / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy / file)
    for script in ("make_cli_reference.py", "make_results_schema.py"):
        if (copy / "scripts" / script).is_file():
            run(copy, [f"scripts/{script}"], copy)
    _unlink(root, copy)
    commit = "git init -q && git add -A && git -c user.name=copy -c user.email=copy@localhost commit -q -m copy"
    subprocess.run(commit, shell=True, cwd=copy, check=True)  # tests list the files of the repository


def _unlink(root: Path, copy: Path) -> None:
    """Take links to pages that are gone out of the pages of the copy, and these pages out of the site's menu."""

    def kept(folder: Path, match: re.Match[str]) -> str:
        target = match[2].partition("#")[0]
        return match[0] if "://" in target or (folder / target).exists() else match[1]

    for page in [*copy.glob("*.md"), *copy.glob("docs/**/*.md")]:
        text = page.read_text(encoding="utf-8")
        page.write_text(_LINK.sub(partial(kept, page.parent), text), encoding="utf-8")
    if (menu := copy / "mkdocs.yml").is_file():
        lines = menu.read_text(encoding="utf-8").splitlines(keepends=True)
        named = [(line, re.search(r"[\w/-]+\.md$", line.strip())) for line in lines]
        pages = [(line, page[0]) for line, page in named if page]
        gone = [
            line for line, page in pages if (root / "docs" / page).is_file() and not (copy / "docs" / page).is_file()
        ]
        menu.write_text("".join(line for line in lines if line not in gone), encoding="utf-8")


def run(copy: Path, words: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python on the code of the copy."""
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "COLUMNS": "100"}
    environment["NO_COLOR"] = "1"
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)


def faults(root: Path, name: str, work: Path, tests: Sequence[str], runs: Sequence[str]) -> Iterator[str]:
    """Yield what does not work without the annex."""
    copy = work / "tree"
    copy_without(root, name, copy)
    whole, rest = (run(tree, ["-m", "strobe", "--help"], work) for tree in (root, copy))
    if rest.returncode != 0:
        yield f"strobe --help: {rest.stderr.strip()}"
    lost = [line.strip() for line in whole.stdout.splitlines() if line not in rest.stdout.splitlines()]
    print(f"{name}: lines of strobe --help that went: {lost or 'none'}", flush=True)
    golden = shutil.copytree(copy / "tests/golden", work / "golden")
    about = json.loads((golden / "made.json").read_text(encoding="utf-8"))["runs"]
    for one in runs or about:
        where = ["--dataset", f"datasets/{about[one]['dataset']}", "--quiet"]
        subset = ["--subset", "inputs/subset.txt"] if "--subset" in about[one]["score"] else []
        score = ["score", f"runs/{one}", *where[:2], *about[one]["score"], "--bootstrap", "200", "--quiet"]
        for words in (score, ["report", f"runs/{one}", *where, *subset, "--gallery", "2"]):
            done = run(copy, ["-m", "strobe", *words], golden)
            if done.returncode != 0:
                yield f"strobe {' '.join(words)}: {done.stderr.strip()}"
    yield from _messages(root, name, copy, work)
    if tests:
        chosen = ["-q", "-n", "0", "-m", "not slow and not browser and not servers", *tests]
        done = run(copy, ["-m", "pytest", *chosen], copy)
        print(f"{name}: {done.stdout.strip().splitlines()[-1:]}", flush=True)
        if done.returncode != 0:
            yield f"tests: {done.stdout[-4000:]}{done.stderr[-1000:]}"


def _messages(root: Path, name: str, copy: Path, work: Path) -> Iterator[str]:
    path = root / "tests/annexes" / name / "without.toml"
    if not path.is_file():
        yield f"tests/annexes/{name}/without.toml is missing; list commands on data that needs the annex"
        return
    folder = shutil.copytree(path.parent, work / "data")
    commands = tomllib.loads(path.read_text(encoding="utf-8")).get("command", [])
    if not commands:
        yield f"tests/annexes/{name}/without.toml lists no [[command]]"
    for command in commands:
        done = run(copy, ["-m", "strobe", *command["words"]], folder)
        said = done.stderr.strip()
        if done.returncode != 2 or len(said.splitlines()) != 1 or command["says"] not in said:
            words = " ".join(command["words"])
            expected = f"expected exit code 2 and one line with {command['says']!r}"
            yield f"strobe {words}: {expected}, got {done.returncode}: {said}"


def main(argv: Sequence[str] | None = None) -> int:
    """Check the annexes that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--drawn", metavar="SEED", help="check one annex, chosen by this seed")
    parser.add_argument("--tests", nargs="*", default=list(QUICK), metavar="PATH")
    parser.add_argument("--runs", nargs="*", default=[], metavar="RUN", help="golden runs; default: all")
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to copy")
    arguments = parser.parse_args(argv)
    there = annexes(arguments.root)
    if unknown := sorted(set(arguments.names) - set(there)):
        raise SystemExit(f"no such annex: {', '.join(unknown)}; there are: {', '.join(there) or 'none'}")
    if not there:
        print("no annexes")
        return 0
    names = [random.Random(arguments.drawn).choice(there)] if arguments.drawn else arguments.names or there
    failed = False
    for name in names:
        with tempfile.TemporaryDirectory() as work:
            found = list(faults(arguments.root, name, Path(work), arguments.tests, arguments.runs))
        failed = failed or bool(found)
        print("\n".join([f"{name}: {'FAILED' if found else 'can be deleted'}", *found]), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
