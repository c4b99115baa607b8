"""The answers: rows that are appended and never changed, in a separate table for each question."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from strobe.annexes.web.review.database import execute
from strobe.annexes.web.review.rows import columns, record_of, row_of
from strobe.core.errors import StrobeError
from strobe.core.moments import NO_TIME, just_after


class Conflict(StrobeError):
    """The same answer id arrived with different content."""


class NotAsked(Conflict):
    """An answer to a task that the person was never assigned."""


def round_of(answer: Any) -> int:
    """Return the round of an answer: 2 if its stage is `verify` or `joint`, otherwise 1."""
    return 2 if getattr(answer, "stage", "") in ("verify", "joint") else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLog:
    """The answers to one question. `table` has the same name as in the dataset folder, and `key` is its id column.

    `own_task` is the SQL for the task of an answer's row. `shown` selects the answers (v) to tasks (t) that undo shows.
    """

    table: str
    record: type[Any]
    key: str
    own_task: str
    shown: str

    def id_of(self, answer: Any) -> str:
        """Return the id of an answer."""
        return str(getattr(answer, self.key))

    def insert(self, connection: Connection, answer: Any) -> bool:
        """Store an answer. Return False if it already exists, raise Conflict if its id belongs to another answer."""
        if execute(connection, self._insert, row_of(answer)).n_changed:
            return True
        (there,) = self.select(connection, f"{self.key} = :id", {"id": self.id_of(answer)})
        if replace(there, at="", seconds=None) != replace(answer, at="", seconds=None):
            raise Conflict("this vote id is already taken by another vote; reload the page and decide again")
        return False

    def insert_all(self, connection: Connection, answers: Iterable[Any]) -> int:
        """Store many answers at once, skip existing answers, and return how many were new."""
        there = self._ids(connection)
        fresh = {self.id_of(answer): answer for answer in answers if self.id_of(answer) not in there}
        if fresh:
            execute(connection, self._insert, [row_of(answer) for answer in fresh.values()])
        return len(fresh)

    def in_turn(self, connection: Connection, answers: Iterable[Any]) -> Iterator[Any]:
        """Add times to answers that have none. The times follow the order of the answers and come after all earlier
        imports.
        """
        there = self._ids(connection)
        latest = f"SELECT max(at) FROM {self.table} WHERE at < '1970-01-02'"
        last = execute(connection, latest).value() or NO_TIME
        for answer in answers:
            if answer.at == NO_TIME and self.id_of(answer) not in there:
                last = just_after(last)
                yield replace(answer, at=last)
            else:
                yield answer

    def select(self, connection: Connection, where: str, values: Mapping[str, Any]) -> list[Any]:
        """Return the answers that match the condition, oldest first."""
        rows = execute(connection, f"SELECT * FROM {self.table} WHERE {where}", values)
        found = [record_of(self.record, row) for row in rows]
        # Sorted here, because databases order text differently.
        return sorted(found, key=lambda answer: (answer.at, self.id_of(answer)))

    def find_tasks(self, connection: Connection) -> None:
        """Link answers to their tasks if they arrived before the tasks were planned (an import, an empty store)."""
        own = self.own_task
        for name in ("set_id", "frame_id", "stage"):
            own = own.replace(f":{name}", f"{self.table}.{name}")
        execute(
            connection,
            f"UPDATE {self.table} SET task_id = coalesce((SELECT tasks.task_id FROM tasks WHERE {own}), '') "
            "WHERE task_id = ''",
        )

    @property
    def _insert(self) -> str:
        names = columns(self.record)
        return (
            f"INSERT INTO {self.table} ({', '.join(names)}, task_id) VALUES (:{', :'.join(names)}, "
            f"coalesce((SELECT tasks.task_id FROM tasks WHERE {self.own_task}), '')) "
            f"ON CONFLICT ({self.key}) DO NOTHING"
        )

    def _ids(self, connection: Connection) -> set[str]:
        return set(execute(connection, f"SELECT {self.key} FROM {self.table}").values())


def say_latest(connection: Connection, rows: list[dict[str, Any]]) -> None:
    """Store the latest answer of each annotator to a task in each round. An answer that is earlier than the stored one
    changes nothing.
    """
    if rows:
        execute(connection, LATEST, rows)


LATEST = """INSERT INTO latest (task_id, annotator, round, at, verdict_id, clean, bad, kin)
    VALUES (:task_id, :annotator, :round, :at, :verdict_id, :clean, :bad, :kin)
    ON CONFLICT (task_id, annotator, round) DO UPDATE SET
    at = excluded.at, verdict_id = excluded.verdict_id, clean = excluded.clean, bad = excluded.bad
    WHERE (latest.at, latest.verdict_id) < (excluded.at, excluded.verdict_id)"""
"""Stores one latest answer (`say_latest`)."""
