"""The votes themselves: rows appended and never changed."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from strobe.core.errors import StrobeError
from strobe.core.records import Verdict
from strobe.review.counters import OWN_TASK
from strobe.review.database import execute
from strobe.review.moments import NO_TIME, just_after
from strobe.review.rows import VERDICT_COLUMNS, row_of_verdict, verdict_of

__all__ = ["Conflict", "in_turn", "insert", "insert_all", "votes"]

_INSERT = (
    f"INSERT INTO verdicts ({', '.join(VERDICT_COLUMNS)}, task_id) VALUES (:{', :'.join(VERDICT_COLUMNS)}, "  # noqa: S608
    f"coalesce((SELECT task_id FROM tasks WHERE {OWN_TASK}), '')) ON CONFLICT (verdict_id) DO NOTHING"
)


class Conflict(StrobeError):
    """The same vote id came again with another content: one of the two is not what it says it is."""


def insert(connection: Connection, verdict: Verdict) -> bool:
    """Keep a vote; False if it was already there, Conflict where its id is another vote's."""
    if execute(connection, _INSERT, row_of_verdict(verdict)).rowcount:
        return True
    (there,) = votes(connection, "verdict_id = :id", {"id": verdict.verdict_id})
    if replace(there, at="", seconds=None) != replace(verdict, at="", seconds=None):
        raise Conflict("this vote id is already taken by another vote; reload the page and decide again")
    return False


def insert_all(connection: Connection, verdicts: Iterable[Verdict]) -> int:
    """Keep many votes at once, those already there left out; how many were new comes back."""
    there = _ids(connection)
    fresh = {verdict.verdict_id: verdict for verdict in verdicts if verdict.verdict_id not in there}
    if fresh:
        execute(connection, _INSERT, [row_of_verdict(verdict) for verdict in fresh.values()])
    return len(fresh)


def in_turn(connection: Connection, verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
    """Votes with a time for those without: in the order they come in, after those taken in before."""
    there = _ids(connection)
    last = execute(connection, "SELECT max(at) FROM verdicts WHERE at < '1970-01-02'").scalar() or NO_TIME
    for verdict in verdicts:
        if verdict.at == NO_TIME and verdict.verdict_id not in there:
            last = just_after(last)
            yield replace(verdict, at=last)
        else:
            yield verdict


def votes(connection: Connection, where: str, values: Mapping[str, Any]) -> list[Verdict]:
    """The votes of which that is true, oldest first."""
    rows = execute(connection, f"SELECT * FROM verdicts WHERE {where}", values).mappings()  # noqa: S608
    # Sorted here: databases differ in how they order text.
    return sorted(map(verdict_of, rows), key=lambda verdict: (verdict.at, verdict.verdict_id))


def _ids(connection: Connection) -> set[str]:
    return set(execute(connection, "SELECT verdict_id FROM verdicts").scalars())
