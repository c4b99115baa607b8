"""Models of many runs on leaderboards: one board for each dataset, k and task, with the best model at the top."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strobe.analyses.model_results import ModelResult
from strobe.analyses.results import Results
from strobe.core.codec import encode
from strobe.core.errors import printable
from strobe.core.estimate import Estimate
from strobe.core.names import shown_models
from strobe.core.tasks import Task
from strobe.report.page import render
from strobe.report.tables import as_csv, spread
from strobe.report.view import Cell

_NAMES = {Task.CLASSIFICATION: ("acc_orig", "acc_pmk", "drop"), Task.DETECTION: ("map_orig", "map_pmk", "drop")}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderboardRun:
    """A run with its short name, its results, the digest of each model's weights, and its date, if they are known."""

    run: str
    results: Results
    weights: Mapping[str, str]
    at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Board:
    """Comparable results: the same sets, scored in the same way. The best entry comes first.

    `shown` maps every model of the runs to its display name.
    """

    about: dict[str, Any]
    task: Task
    entries: list[tuple[LeaderboardRun, str, ModelResult]]
    shown: Mapping[str, str]

    def rank(self, place: int) -> int:
        """Return one plus the number of models with a higher figure. Equal figures share a rank."""
        own = _score(self.entries[place][2])
        return 1 + sum(_score(model) > own for _, _, model in self.entries)


def _score(model: ModelResult) -> float:
    value = model.headline.pmk.value
    return -1.0 if value is None else value


def _boards(runs: Sequence[LeaderboardRun]) -> list[_Board]:
    boards: dict[tuple[Any, ...], _Board] = {}
    shown = shown_models(name for run in runs for name in run.results.models)
    for run in runs:
        dataset, settings = run.results.dataset, run.results.settings
        about = {
            "dataset": dataset.name,
            "digest": dataset.digest,
            "k": dataset.k,
            "n_sets": dataset.n_sets,
            "n_videos": dataset.n_videos,
            "axis": dataset.axis,
            "reviewed": dataset.reviewed,
            "subset": settings.subset,
            "merge": settings.merge,
        }
        for key in ("unlabelled_sets", "sets_without_votes"):
            if count := getattr(dataset, key):
                about[key] = count
        for name, model in run.results.models.items():
            empty = _Board(about=about, task=model.task, entries=[], shown=shown)
            board = boards.setdefault((*about.values(), model.task), empty)
            board.entries.append((run, name, model))
    for board in boards.values():
        board.entries.sort(key=lambda entry: (-_score(entry[2]), entry[1], entry[0].run))
    return sorted(boards.values(), key=lambda board: (board.about["dataset"], board.about["k"], board.task.value))


def _entry(board: _Board, place: int) -> dict[str, Any]:
    run, name, model = board.entries[place]
    return {
        "rank": board.rank(place),
        "model": board.shown[name],
        "run": run.run,
        "at": run.at or None,
        "model_type": getattr(model, "model_type", None),
        "weights": run.weights.get(name),
        "strobe": run.results.strobe,
        "unscored_sets": model.unscored.sets,
    }


def leaderboard_json(runs: Sequence[LeaderboardRun]) -> dict[str, Any]:
    """Return the boards with every figure as in results.json."""
    return {
        "schema": 1,
        "boards": [
            {
                **board.about,
                "task": board.task.value,
                "entries": [
                    _entry(board, index)
                    | {key: encode(found) for key, found in zip(_NAMES[board.task], entry[2].headline, strict=True)}
                    for index, entry in enumerate(board.entries)
                ],
            }
            for board in _boards(runs)
        ],
    }


def leaderboard_page(runs: Sequence[LeaderboardRun]) -> str:
    """Return the boards as one self-contained HTML page with sortable tables.

    Raises:
        MissingExtra: jinja2 is not installed.
    """
    every = _boards(runs)
    boards = [
        {
            "board": board,
            "differs": _differs(board, every),
            "measures": _NAMES[board.task],
            "rows": [(_entry(board, index), entry[2].headline) for index, entry in enumerate(board.entries)],
            "settings": _settings(board),
            "records": _records(board),
        }
        for board in every
    ]
    return render(
        "leaderboard.html.j2",
        {"title": "Leaderboard · strobe", "boards": boards, "n_runs": len(runs)},
        scripts=("page.js",),
    )


_DIFFERENT = {"digest": "sets", "k": "k", "axis": "axis", "subset": "subset", "merge": "class merging"}


def _differs(board: _Board, boards: Sequence[_Board]) -> list[str]:
    """Return in what the other boards of the same dataset's name differ from this one, or an empty list."""
    others = [one for one in boards if one is not board and one.about["dataset"] == board.about["dataset"]]
    names = [name for key, name in _DIFFERENT.items() if any(one.about[key] != board.about[key] for one in others)]
    return ["task", *names] if any(one.task is not board.task for one in others) else names


_REVIEWED = {"none": "not reviewed", "release": "reviewed before its release", "votes": "reviewed by votes"}


def _settings(board: _Board) -> list[tuple[str, str]]:
    """Return what must agree for two models to be comparable: the sets and the way of scoring."""
    about = board.about
    size = f"{about['n_sets']:,} sets of {about['n_videos']:,} videos, {_REVIEWED.get(about['reviewed'], '')}"
    out = [
        ("Dataset", f"{about['dataset']}, k = {about['k']}, axis {about['axis']}"),
        ("Dataset digest", about["digest"]),
        ("Size", size),
        ("Class merging", about["merge"]),
        ("Subset", about["subset"] or "none"),
    ]
    for key, text in (("unlabelled_sets", "without a label"), ("sets_without_votes", "without any vote")):
        if key in about:
            out.append(("Excluded", f"{about[key]} sets {text}"))
    return [(name, printable(text, limit=400)) for name, text in out]


def _records(board: _Board) -> list[tuple[str, str, Estimate]]:
    """Return the models that were the best of their board when they were run, by date, the newest first."""
    dated = sorted((entry for entry in board.entries if entry[0].at), key=lambda entry: entry[0].at)
    records: list[tuple[str, str, Estimate]] = []
    best = -1.0
    for run, name, model in dated:
        if _score(model) > best:
            best = _score(model)
            records.append((run.at, board.shown[name], model.headline.pmk))
    return records[::-1]


def leaderboard_csv(runs: Sequence[LeaderboardRun]) -> str:
    """Return the boards as one table with a row per model and run."""
    rows: list[dict[str, Cell]] = []
    for board in _boards(runs):
        for index, entry in enumerate(board.entries):
            row = {**board.about, "task": board.task.value, **_entry(board, index)}
            for key, found in zip(_NAMES[board.task], entry[2].headline, strict=True):
                row |= spread(key, found)
            rows.append(row)
    return as_csv(rows)
