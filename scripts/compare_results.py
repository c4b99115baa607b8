"""Compare two results, two runs or two datasets, and print the path of every figure that differs.

    python scripts/compare_results.py BEFORE AFTER [--ignore KEY…] [--allow-new] [--digits N]

BEFORE and AFTER are two results.json files, two run folders or two dataset folders. From a run folder, the script reads
results.json, tables/*.csv, the files in predictions/ and external/, and the dataset's digests in run.json. From a
dataset folder, it reads dataset.json and the tables. Numbers must be equal, unless --digits allows a tolerance. Rows
are matched by frame id, so the order of rows and their distribution over shards do not matter. --ignore takes a key,
which is ignored everywhere (`version`), or a path (`settings.seed`). --allow-new accepts keys that only AFTER has.
Exits with 1 if anything differs.
"""

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Leaf = str | int | float | bool | None

_MISSING = object()


@dataclass
class Found:
    """The differences found. Every line starts with the path of the figure."""

    n_compared: int = 0
    differ: list[str] = field(default_factory=list)
    only_before: list[str] = field(default_factory=list)
    only_after: list[str] = field(default_factory=list)

    def same(self, *, allow_new: bool = False) -> bool:
        """Return whether nothing differs. `allow_new` accepts keys that only AFTER has."""
        return not self.differ and not self.only_before and (allow_new or not self.only_after)


@dataclass(frozen=True)
class Rules:
    """Keys or paths to ignore, and the number of significant digits to compare (None: all)."""

    ignore: tuple[str, ...] = ()
    digits: int | None = None

    def skips(self, path: str) -> bool:
        """Return whether to ignore this path or its last key."""
        last = path.rpartition(".")[2].partition("[")[0]
        return path in self.ignore or last in self.ignore

    def equal(self, before: Leaf, after: Leaf) -> bool:
        """Return whether two JSON leaves are equal. True differs from 1, and NaN equals NaN."""
        if isinstance(before, bool) or isinstance(after, bool):
            return before is after
        if isinstance(before, float) and isinstance(after, float) and before != before:
            return after != after
        if before == after:
            return True
        numbers = isinstance(before, int | float) and isinstance(after, int | float)
        return self.digits is not None and numbers and f"{before:.{self.digits}g}" == f"{after:.{self.digits}g}"


def compare(before: Any, after: Any, rules: Rules, found: Found, path: str = "") -> Found:
    """Compare two JSON values recursively, and record the differences in `found`."""
    if path and rules.skips(path):
        return found
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            below = f"{path}.{key}" if path else str(key)
            _step(before.get(key, _MISSING), after.get(key, _MISSING), rules, found, below)
    elif isinstance(before, list) and isinstance(after, list):
        for place in range(max(len(before), len(after))):
            left = before[place] if place < len(before) else _MISSING
            right = after[place] if place < len(after) else _MISSING
            _step(left, right, rules, found, f"{path}[{place}]")
    else:
        found.n_compared += 1
        plain = not isinstance(before, dict | list) and not isinstance(after, dict | list)
        if not (plain and rules.equal(before, after)):
            found.differ.append(f"{path}: {_short(before)} → {_short(after)}")
    return found


def _step(before: Any, after: Any, rules: Rules, found: Found, path: str) -> None:
    if before is not _MISSING and after is not _MISSING:
        compare(before, after, rules, found, path)
    elif not rules.skips(path):
        (found.only_before if after is _MISSING else found.only_after).append(path)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}…"


# -- folders as plain values ---------------------------------------------------------------------------------------


def content(path: Path) -> Any:
    """Return the content of a results file, a run folder or a dataset folder as plain JSON values."""
    if path.is_file():
        return json.loads(path.read_text(encoding="utf-8"))
    if (path / "dataset.json").is_file():
        return _dataset(path)
    if (path / "run.json").is_file() or (path / "results.json").is_file():
        return _run(path)
    raise SystemExit(f"{path}: expected a results.json, a run folder or a dataset folder")


def _dataset(folder: Path) -> dict[str, Any]:
    info = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
    # Digests depend on the Parquet library's version, so they are dropped and the tables are compared by content.
    info["files"] = sorted(info.get("files", {}))
    tables = {path.stem: keyed(rows_of([path])) for path in sorted(folder.glob("*.parquet"))}
    return {"dataset": info, "tables": tables}


def _run(folder: Path) -> dict[str, Any]:
    out: dict[str, Any] = {}
    if (folder / "run.json").is_file():
        about = json.loads((folder / "run.json").read_text(encoding="utf-8"))["dataset"]
        out["run"] = {"dataset": {key: value for key, value in about.items() if key != "path"}}
    if (folder / "results.json").is_file():
        out["results"] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    out["tables"] = {path.stem: _csv(path) for path in sorted((folder / "tables").glob("*.csv"))}
    out["predictions"] = {
        path.parent.name: _model(path) for path in sorted((folder / "predictions").glob("*/model.json"))
    }
    out["external"] = {
        path.stem: {"said": _said(path), "frames": keyed(rows_of([path]))}
        for path in sorted((folder / "external").glob("*.parquet"))
    }
    return out


def _model(path: Path) -> dict[str, Any]:
    facts = json.loads(path.read_text(encoding="utf-8"))
    shards = sorted(path.parent.glob(f"{facts['key']}-*.parquet"))
    return {"model": facts, "frames": keyed(rows_of(shards))}


def _said(path: Path) -> dict[str, str]:
    metadata = pq.read_schema(path).metadata or {}
    return {key.decode(): value.decode() for key, value in metadata.items() if key.startswith(b"strobe.")}


def _csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rows_of(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the rows of several Parquet files."""
    return [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]


def keyed(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return rows keyed by the fewest leading columns that identify them.

    They are sorted, so that order does not matter.
    """
    columns = list(rows[0]) if rows else []
    for n in range(1, min(len(columns), 3) + 1):
        names = ["/".join(str(row[column]) for column in columns[:n]) for row in rows]
        if len(set(names)) == len(rows):
            return dict(sorted(zip(names, rows, strict=True)))
    return {f"row {place}": row for place, row in enumerate(sorted(rows, key=lambda row: json.dumps(row, default=str)))}


def report(found: Found) -> Iterator[str]:
    """Yield one line per difference, and a summary."""
    yield from found.differ
    yield from (f"only before: {path}" for path in found.only_before)
    yield from (f"only after: {path}" for path in found.only_after)
    yield (
        f"{found.n_compared} figures compared: {len(found.differ)} differ, "
        f"{len(found.only_before)} only before, {len(found.only_after)} only after"
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--ignore", nargs="*", action="extend", default=[], metavar="KEY")
    parser.add_argument("--allow-new", action="store_true")
    parser.add_argument("--digits", type=int, default=None)
    arguments = parser.parse_args(argv)
    rules = Rules(ignore=tuple(arguments.ignore), digits=arguments.digits)
    found = compare(content(arguments.before), content(arguments.after), rules, Found())
    print("\n".join(report(found)))
    return 0 if found.same(allow_new=arguments.allow_new) else 1


if __name__ == "__main__":
    sys.exit(main())
