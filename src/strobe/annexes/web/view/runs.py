"""The table of runs: a row for each model of each run, with its figures, and the state of every run."""

from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from strobe.analyses.gate import measures_by_name
from strobe.analyses.model_results import figures_of, flicker_figures
from strobe.annexes.web.view.finding import Signature, is_current, signature, state_of
from strobe.annexes.web.view.library import Library
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.estimate import Estimate
from strobe.core.files import inside, matching, read_json
from strobe.core.names import short_names
from strobe.core.parquet import read_footer
from strobe.core.seals import damaged_files
from strobe.report.wording import counted, with_interval
from strobe.store.run_folder import AGAIN, OUTDATED, Run

COLUMNS = (
    "acc_orig",
    "acc_pmk",
    "drop",
    "map_orig",
    "map_pmk",
    "flicker",
    "flip_rate",
    "coverage",
    "noise",
    "beyond_noise",
)
"""The first figures of the table, in order; figures that no run has are omitted."""


@cache
def columns() -> tuple[str, ...]:
    """Return the figures of the table: the first ones, and every other measure of one model that the page shows."""
    others = [name for name, one in measures_by_name().items() if one.headline and one.family != "forms"]
    return tuple(dict.fromkeys([*COLUMNS, *others]))


class RunTable:
    """The rows of all runs. Results are read once and again when they change."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._held: dict[str, tuple[Signature, dict[str, Any]]] = {}

    def content(self) -> dict[str, Any]:
        """Return the runs and datasets for the page."""
        library = self._library
        found = library.look()
        runs = [self._run(key, path, found.run_names[key]) for key, path in found.runs.items()]
        names = _dataset_names(library.datasets)
        datasets = [
            {
                "id": key,
                "name": name,
                "runs": sum(one["dataset"] == key for one in runs),
                "version": index.version if (index := library.opened(key)) is not None else 0,
            }
            for key, name in names.items()
        ]
        known = {name for run in runs for row in run["models"] for name in row["figures"]}
        return {
            "runs": [{**run, "dataset_name": names.get(run["dataset"], "")} for run in runs],
            "datasets": sorted(datasets, key=lambda one: (-one["runs"], one["name"])),
            "columns": [name for name in columns() if name in known],
            "live": any(run["state"] == "running" for run in runs),
        }

    def _run(self, key: str, path: Path, name: str) -> dict[str, Any]:
        dataset, problem = self._library.dataset_of(key)
        out: dict[str, Any] = {"id": key, "name": printable(name), "dataset": dataset, "problem": ""}
        try:
            mark = signature(path)
            held = self._held.get(key)
            if held is None or held[0] != mark:
                held = (mark, _facts(path))
                self._held[key] = held
            out |= held[1]
        except (StrobeError, OSError) as error:
            return {**out, "at": "", "state": "stopped", "models": [], "problem": self._without_paths(str(error), key)}
        complete = bool(out["total"]) and all(row["frames"] >= out["total"] for row in out["models"])
        state = state_of(path, complete=complete)
        problems = [problem, *self._library.problems(key)]
        return {**out, "state": state, "problem": self._without_paths("; ".join(filter(None, problems)), key)}

    def _without_paths(self, text: str, run: str) -> str:
        """Return a message for the page, in which the folders of this machine have their short names."""
        found = self._library.found
        paths = {str(found.runs[run]): found.run_names[run]}
        paths |= {str(path): path.name for path in self._library.datasets.values()}
        for path in sorted(paths, key=len, reverse=True):
            text = text.replace(path, paths[path])
        return printable(text, limit=600)


def _facts(path: Path) -> dict[str, Any]:
    """Return what the files of a run say: when it was made, its models, their frames and figures."""
    run = Run(path)
    about = run.about()
    figures: Mapping[str, dict[str, Estimate]] = {}
    note = ""
    if (path / "results.json").is_file():
        try:
            figures = results_figures(path)
            if Run(path).is_outdated():
                figures, note = {}, OUTDATED
            if damaged := damaged_files(path):
                note = f"{counted(len(damaged), 'file')} damaged, first {damaged[0]}; {AGAIN}"
        except StrobeError as error:
            note = printable(error)
    done = _frames_done(path)
    names = list(dict.fromkeys([*run.asked(), *figures, *done]))
    total = max((_n_frames(path), *done.values()), default=0) if not is_current(path) else max(done.values(), default=0)
    return {
        "at": str(about.get("at", "")),
        "note": note,
        "total": total,
        "models": [
            {
                "model": name,
                "frames": done.get(name, 0),
                "figures": {one: _cell(one, found) for one, found in figures.get(name, {}).items() if one in columns()},
            }
            for name in names
            if name in done or name in figures or not done
        ],
    }


def results_figures(run: Path) -> dict[str, dict[str, Estimate]]:
    """Return the figures of every model in results.json, by the names of the tables."""
    results = Run(run).results()
    out = {name: figures_of(model) for name, model in results.models.items()}
    if results.flicker is not None:
        for name, score in results.flicker.models.items():
            out.setdefault(name, {})
            out[name] = {**flicker_figures(score), **out[name]}
        for name, detector in (results.flicker.detectors or {}).items():
            out[name] = {**detector.measures, **out.get(name, {})}
    return out


def _cell(name: str, found: Estimate) -> dict[str, Any]:
    measure = measures_by_name()[name]
    text = with_interval(found)
    if measure.unit != "share":
        text = f"{found.text(scale=1, digits=measure.digits)}{'' if found.value is None else measure.suffix}"
    return {"v": found.value, "low": found.low, "high": found.high, "n": found.n, "text": text}


def _frames_done(path: Path) -> dict[str, int]:
    """Return how many frames each model answered, read from the heads of the files."""
    from strobe.store.brought import brought_files
    from strobe.store.journal import SUFFIX, read_journal
    from strobe.store.shards import facts_of, plain_name, shard_models

    out: dict[str, int] = {}
    try:
        for name in shard_models(path):
            start = f"predictions/{plain_name(name)}/{facts_of(path, name)['key']}"
            journals = [read_journal(one).table for one in matching(path, f"{start}{SUFFIX}")]
            waiting = sum(len(journal) for journal in journals if journal is not None)
            out[name] = waiting + sum(read_footer(shard).n_rows for shard in matching(path, f"{start}-*.parquet"))
        for name, (file, _) in brought_files(path).items():
            out[name] = read_footer(file).n_rows
    except (OSError, KeyError, TypeError) as error:
        raise InvalidFile(path, "its predictions cannot be read now") from error
    return out


def _n_frames(path: Path) -> int:
    """Return the number of frames of the run's dataset."""
    return max((read_footer(file).n_rows for file in matching(path, "frames/*.parquet")), default=0)


def _dataset_names(datasets: Mapping[str, Path]) -> dict[str, str]:
    """Return the name of each dataset. Equal names also have their folder: every run of a clip makes one."""
    names = {key: _dataset_name(path) for key, path in datasets.items()}
    folders = short_names([str(path.resolve()) for path in datasets.values()])
    many = Counter(names.values())
    return {
        key: name if many[name] == 1 else f"{name} ({printable(folder)})"
        for (key, name), folder in zip(names.items(), folders, strict=True)
    }


def _dataset_name(path: Path) -> str:
    try:
        return printable(read_json(inside(path, "dataset.json"))["name"])
    except (StrobeError, OSError, ValueError, KeyError, TypeError):
        return printable(path.name)
