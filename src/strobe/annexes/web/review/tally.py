"""Stored counts of all tasks and of open tasks, so that a claim does not count a million rows.

Before a change, the affected tasks are subtracted; after it, they are added again. A vote therefore costs only as much
as the tasks that it affects. The counts can be computed again from the tasks and the latest answers (`renew`).
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.database import Statement, StatementResult, execute, execute_all

KIN = "kin"
"""The value of `kind` in the row that counts groups of related images (kin) with an open image."""

Counts = Mapping[str, Mapping[str, int]]
"""Counts by kind and name. A missing count is 0."""


def less(settings: ReviewOptions, where: str, values: Mapping[str, Any], *, kins: bool = False) -> list[Statement]:
    """Return the statements that subtract the tasks matching `where`, and their answers, before they change.

    `where` must match the same tasks when they are added again (`more`). With `kins`, each kin with an open image is
    counted too.
    """
    return _added(settings, where, values, sign="-", kins=kins)


def more(settings: ReviewOptions, where: str, values: Mapping[str, Any], *, kins: bool = False) -> list[Statement]:
    """Return the statements that add the tasks again in their new state."""
    return _added(settings, where, values, sign="", kins=kins)


def renew(connection: Connection, settings: ReviewOptions, question: str, *, kins: bool = False) -> None:
    """Count all tasks of a question again."""
    own = {"question": question}
    # Prevents the use of an index, which would cause random reads.
    counted = more(settings, "question || '' = :question", own, kins=kins)
    emptied = [(f"DELETE FROM {table} WHERE question = :question", own) for table in ("counts", "own_counts")]
    execute_all(connection, [*emptied, *counted])


def whole_counts(connection: Connection, question: str) -> Counts:
    """Return counts of a question's tasks by kind: `tasks`, `open1`, `open2`, and `waiting` for anchor labels."""
    rows = execute(
        connection,
        f"SELECT kind, {', '.join(f'sum({name}) AS {name}' for name in _WHOLE_NAMES)} FROM counts "
        "WHERE question = :question GROUP BY kind",
        {"question": question},
    )
    return _by_kind(rows, _WHOLE_NAMES)


def own_counts(connection: Connection, question: str, who: str) -> Counts:
    """Count one annotator's answers by kind. `said` counts the latest answers, and `first` counts those of round one.

    `open1` and `waiting` count answers of round one whose task is open or waits. `open2` counts answers of round two
    whose task is open in that round.
    """
    own = {"question": question, "who": who}
    rows = execute(connection, "SELECT * FROM own_counts WHERE annotator = :who AND question = :question", own)
    return _by_kind(rows, _OWN_NAMES)


def open_conditions(connection: Connection, question: str, kind: str) -> list[str]:
    """Return the conditions with an open task of that kind."""
    own = {"question": question, "kind": kind}
    still = "SELECT condition FROM counts WHERE question = :question AND kind = :kind AND open1 > 0"
    return list(execute(connection, still, own).values())


def _by_kind(rows: StatementResult, names: tuple[str, ...]) -> Counts:
    found: Counts = {row["kind"]: {name: int(row[name]) for name in names} for row in rows}
    return defaultdict(lambda: dict.fromkeys(names, 0), found)


def _added(settings: ReviewOptions, where: str, values: Mapping[str, Any], *, sign: str, kins: bool) -> list[Statement]:
    wanted = {**values, "wanted": settings.votes}
    found = [(_WHOLE, wanted), (_OWN, wanted), *([(_KINS, dict(values))] if kins else [])]
    return [(said.replace("{where}", where).replace("{sign}", sign), asked) for said, asked in found]


def _put(table: str, key: str, names: tuple[str, ...], found: str) -> str:
    """Return a statement that adds a query's result to the counts of a table."""
    added = ", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in names)
    into = f"INSERT INTO {table} ({key}, {', '.join(names)}) {found}"
    return f"{into} ON CONFLICT ({key}) DO UPDATE SET {added}".replace("{waits}", _WAITS)


_WHOLE_NAMES = ("tasks", "open1", "open2", "waiting")
_OWN_NAMES = ("said", "first", "open1", "open2", "waiting")

_WAITS = "t.held = 2 AND t.position >= 0 AND t.votes < :wanted"

_WHOLE = _put(
    "counts",
    "question, kind, condition",
    _WHOLE_NAMES,
    # With plain columns, SQLite would scan all of an index that has them in this order.
    """SELECT t.question || '', t.kind || '', t.condition || '', {sign}sum(CASE WHEN t.position >= 0 THEN 1 ELSE 0 END),
    {sign}sum(t.open1), {sign}sum(t.open2), {sign}sum(CASE WHEN {waits} THEN 1 ELSE 0 END)
    FROM (SELECT * FROM tasks WHERE {where}) t WHERE 1 = 1 GROUP BY 1, 2, 3""",
)

_OWN = _put(
    "own_counts",
    "annotator, question, kind",
    _OWN_NAMES,
    """SELECT l.annotator || '', t.question || '', t.kind || '', {sign}count(*),
    {sign}sum(CASE WHEN l.round = 1 THEN 1 ELSE 0 END),
    {sign}sum(CASE WHEN l.round = 1 THEN t.open1 ELSE 0 END), {sign}sum(CASE WHEN l.round = 2 THEN t.open2 ELSE 0 END),
    {sign}sum(CASE WHEN l.round = 1 AND {waits} THEN 1 ELSE 0 END)
    FROM (SELECT * FROM tasks WHERE {where}) t JOIN latest l ON l.task_id = t.task_id WHERE 1 = 1
    GROUP BY 1, 2, 3""",
)

_KINS = _put(
    "counts",
    "question, kind, condition",
    _WHOLE_NAMES,
    """SELECT t.question, 'kin', '', 0, {sign}count(DISTINCT t.kin), 0, 0 FROM tasks t WHERE t.question = :question
    AND t.kind = 'picture' AND t.open1 = 1 AND t.kin IN (SELECT kin FROM tasks WHERE {where}) GROUP BY t.question""",
)
