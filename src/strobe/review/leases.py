"""Leases: a task given to someone is nobody else's for a while.

A lease belongs to an annotator and one of their tabs. A vote is never refused for want of a lease: leases keep people
apart, votes are work done.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from strobe.review.database import execute
from strobe.review.plan import Task
from strobe.review.rows import record_of
from strobe.review.store import Store

__all__ = ["expire", "held", "hold", "release"]


def expire(connection: Connection, now: float) -> None:
    """Take back what was held too long."""
    execute(connection, "DELETE FROM leases WHERE expires <= :now", {"now": now})


def held(connection: Connection, values: Mapping[str, Any], *, here: bool) -> list[Task]:
    """What `who` holds in this `tab`, or in their others, of this `question`, and can still be decided."""
    rows = execute(
        connection,
        "SELECT t.* FROM leases l JOIN tasks t ON t.task_id = l.task_id WHERE l.annotator = :who "
        f"AND l.tab {'=' if here else '<>'} :tab AND t.question = :question AND t.open1 = 1 "
        "ORDER BY t.kind = :real, t.position",
        values,
    )
    return [record_of(Task, row) for row in rows]


def hold(connection: Connection, values: Mapping[str, Any], tasks: Sequence[Task]) -> None:
    """Give these tasks to `who` in this `tab` until they expire."""
    held = [task.task_id for task in tasks]
    if held:
        execute(
            connection,
            "INSERT INTO leases (task_id, annotator, tab, expires, kin) SELECT task_id, :who, :tab, :expires, kin "
            "FROM tasks WHERE task_id IN :held "
            "ON CONFLICT (task_id, annotator) DO UPDATE SET tab = excluded.tab, expires = excluded.expires",
            {**{name: values[name] for name in ("who", "tab", "expires")}, "held": held},
        )
    akin = [task.task_id for task in tasks if task.kin not in ("", task.task_id)]
    if akin:  # for good: a lease ends, what was seen stays seen
        execute(
            connection,
            "INSERT INTO given (annotator, kin, task_id) SELECT :who, kin, task_id FROM tasks WHERE task_id IN :akin "
            "ON CONFLICT (annotator, kin) DO NOTHING",
            {"who": values["who"], "akin": akin},
        )


def release(store: Store, annotator: str, *, tab: str) -> None:
    """Give back what this tab holds: its person left."""
    with store.database.write(durable=False) as connection:
        values = {"who": annotator, "tab": tab}
        execute(connection, "DELETE FROM leases WHERE annotator = :who AND tab = :tab", values)
