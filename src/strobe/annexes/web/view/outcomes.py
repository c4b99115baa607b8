"""Each model's outcome on each set, as columns over all candidate sets of a dataset.

A scored run has them in tables/sets.parquet. For other runs, the functions that write this table compute them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.detection import has_boxes
from strobe.analyses.detection import score as score_boxes
from strobe.analyses.plan import Plan, ScoreOptions
from strobe.analyses.scoring import ModelSets, box_sets, class_sets, set_facts
from strobe.analyses.variants_view import overall
from strobe.analyses.video_plan import no_flicker, without_cuts
from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Floats
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile
from strobe.core.files import inside
from strobe.core.parquet import numbers_of, read_bounded
from strobe.core.seals import check_file
from strobe.store.run_folder import AGAIN, StoredModel
from strobe.studies.unlabelled.score import first_changes

STATUS = ("unscored", "holds", "breaks", "wrong")
"""The outcomes of a model on a set. A column of outcomes holds indices into this list."""

_UNSCORED, _HOLDS, _BREAKS, _WRONG = range(4)
_COLUMNS = ("anchor_right", "holds", "first_wrong_distance", "worst_confidence", "worst_answer")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcomes:
    """One model on every candidate set, (S,) each.

    `answer` is a class, the number of classes for no class, or −1 if unknown: the answer on the set's worst frame.
    `confidence` is the confidence of that answer, and `distance` is the distance of the first wrong frame (NaN: none).
    `strength` is how striking the set is: a confident wrong answer near a right anchor. It is 0 if there is none.
    """

    status: NDArray[np.uint8]
    answer: NDArray[np.int32]
    confidence: NDArray[np.float32]
    distance: NDArray[np.float32]
    strength: NDArray[np.float32]
    has_labels: bool = True

    def counts(self) -> dict[str, int]:
        """Return how many sets have each outcome."""
        found = np.bincount(self.status, minlength=len(STATUS))
        return dict(zip(STATUS, found.tolist(), strict=True))


def _outcomes(
    rows: NDArray[np.int64], columns: Mapping[str, NDArray[Any]], n_sets: int, *, reach: float, has_labels: bool = True
) -> Outcomes:
    """Return the outcomes from the columns of some sets. Columns that a stopped model lacks are unknown."""
    status = np.full(n_sets, _UNSCORED, dtype=np.uint8)
    right, holds = columns["anchor_right"].astype(bool), columns["holds"].astype(bool)
    status[rows] = np.where(holds, _HOLDS, np.where(right, _BREAKS, _WRONG))
    full: dict[str, NDArray[Any]] = {
        "first_wrong_distance": np.full(n_sets, np.nan, dtype=np.float32),
        "worst_confidence": np.full(n_sets, np.nan, dtype=np.float32),
        "worst_answer": np.full(n_sets, -1, dtype=np.int32),
    }
    for name, column in full.items():
        if name in columns:
            column[rows] = columns[name]
    return Outcomes(
        status=status,
        answer=full["worst_answer"],
        confidence=full["worst_confidence"],
        distance=full["first_wrong_distance"],
        strength=_strength(status, full["worst_confidence"], full["first_wrong_distance"], reach),
        has_labels=has_labels,
    )


def _strength(status: NDArray[np.uint8], confidence: Floats, distance: Floats, reach: float) -> NDArray[np.float32]:
    """Return the strength of each flicker; among single images, that of each wrong answer."""
    sure = np.where(np.isfinite(confidence), confidence, 0.5)
    near = 1.25 - np.where(np.isfinite(distance), distance, reach) / max(reach, 1.0)
    fails = status == (_BREAKS if reach > 0 else _WRONG)
    return np.where(fails, sure * near, 0.0).astype(np.float32)


class SetRows:
    """The row of each set of a dataset by its id and by its short name in tables/sets."""

    def __init__(self, dataset: Dataset, short: NDArray[Any]) -> None:
        self._by = {str(name): row for row, name in enumerate(short.tolist())}
        self._by |= {str(name): row for row, name in enumerate(dataset.sets.set_id.tolist())}

    def rows(self, names: list[str]) -> NDArray[np.int64]:
        """Return the row of each name, or −1 if the dataset has no such set."""
        return np.array([self._by.get(name, -1) for name in names], dtype=np.int64)


def stored_outcomes(run: Path, dataset: Dataset, places: SetRows) -> dict[str, Outcomes]:
    """Return the outcomes in tables/sets.parquet of a scored run, by model; empty if the run has no such table."""
    path = inside(run, "tables/sets.parquet")
    if not path.is_file():
        return {}
    check_file(run, "tables/sets.parquet", hint=AGAIN)
    table, _ = read_bounded(path, ("set_id", "set", "model", *_COLUMNS))
    known = set(table.column_names)
    name = "set_id" if "set_id" in known else "set"
    if not {name, "model", "anchor_right", "holds"} <= known:
        raise InvalidFile(path, "it lacks columns", hint="run strobe score again")
    sets, names = _codes(table.column(name))
    rows = places.rows(names)[sets]
    models, model_names = _codes(table.column("model"))
    columns = {one: _numbers(table, one, dataset) for one in _COLUMNS if one in known}
    out, reach = {}, _reach(dataset)
    for index, model in enumerate(model_names):
        use = (models == index) & (rows >= 0)
        out[model] = _outcomes(
            rows[use], {one: column[use] for one, column in columns.items()}, dataset.n_sets, reach=reach
        )
    return out


def _reach(dataset: Dataset) -> float:
    return float(np.abs(dataset.sets.distance).max())


def _codes(column: Any) -> tuple[NDArray[np.int64], list[str]]:
    """Return a column of texts as indices and their texts."""
    coded = column.combine_chunks()
    coded = coded if str(coded.type).startswith("dictionary") else coded.dictionary_encode()
    if hasattr(coded, "chunks"):  # several chunks share one dictionary after unification
        coded = coded.unify_dictionaries().combine_chunks()
    return numbers_of(coded.indices).astype(np.int64), coded.dictionary.to_pylist()


def _numbers(table: Any, name: str, dataset: Dataset) -> NDArray[Any]:
    """Return a column as numbers: NaN for unknown numbers, and a class as its index."""
    column = table.column(name)
    if name == "worst_answer":
        codes, names = _codes(column)
        classes = {one: place for place, one in reversed(list(enumerate(dataset.info.label_space.names)))}
        known = np.array([classes.get(one, len(classes)) for one in names], dtype=np.int32)
        return np.asarray(known[codes])
    missing = numbers_of(column.is_null())
    values = numbers_of(column)
    return np.where(missing, np.nan, values).astype(np.float32) if values.dtype.kind == "f" else values


def computed_outcomes(
    model: StoredModel, candidates: Dataset, dataset: Dataset, places: SetRows, *, k: int | None
) -> Outcomes:
    """Compute the outcomes from predictions, which may still be incomplete. `dataset` is the part that is scored."""
    answers, n = model.load(), candidates.n_sets
    reach = _reach(candidates)
    if isinstance(answers, BoxAnswers) and has_boxes(dataset):
        part = overall(dataset)
        how = ScoreOptions(k=k, bootstrap=False)
        found = box_sets(part, set_facts(part), answers, score_boxes(part, answers, model=model.name, how=how))
        return _of_sets(found, part, places, n, reach)
    if dataset.labelled.any():
        part = dataset.labelled_sets()
        return _of_sets(class_sets(part, set_facts(part), answers.as_classes(), k=k), part, places, n, reach)
    part = dataset if no_flicker(dataset) is not None else without_cuts(dataset, k)[0] or dataset
    plan = Plan(part, ScoreOptions(k=k))
    first = first_changes(plan, answers.as_classes())
    known = np.flatnonzero(first >= 0)
    steady = first[known] > plan.k
    columns = {
        "anchor_right": np.ones(len(known), dtype=bool),
        "holds": steady,
        "first_wrong_distance": np.where(steady, np.nan, first[known]).astype(np.float32),
    }
    rows = places.rows(list(map(str, part.sets.set_id[known].tolist())))
    return _outcomes(rows, columns, n, reach=reach, has_labels=False)


def _of_sets(found: ModelSets, part: Dataset, places: SetRows, n: int, reach: float) -> Outcomes:
    rows = places.rows(list(map(str, part.sets.set_id[found.row].tolist())))
    known = rows >= 0
    columns = {name: found.columns[name][known] for name in _COLUMNS if name in found.columns}
    if "worst_answer" in columns:
        last = len(part.info.label_space)
        columns["worst_answer"] = np.where(columns["worst_answer"] < 0, last, columns["worst_answer"])
    return _outcomes(rows[known], columns, n, reach=reach)
