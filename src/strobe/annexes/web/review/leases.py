"""Leases: a task given to a person is reserved for them for a while.

A lease belongs to an annotator and one of their tabs, and a person holds a few at a time. The assignment is recorded
permanently (`asked`). The person may answer the task even after the lease has ended, and may change the answer. People
without an assignment cannot answer.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from strobe.annexes.web.review.database import Statement, execute, execute_all
from strobe.annexes.web.review.log import AnswerLog, NotAsked, round_of
from strobe.annexes.web.review.plan import ReviewTask
from strobe.annexes.web.review.rows import Answer, record_of, row_of
from strobe.annexes.web.review.store import Store

MOST_HELD = {"pair": 24, "set": 6}
"""How many pages one person may hold in all their tabs, for each value of `ReviewOptions.at_once`."""


def expire(connection: Connection, now: float) -> None:
    """Release expired leases."""
    execute(connection, "DELETE FROM leases WHERE expires <= :now", {"now": now})


def held(connection: Connection, values: Mapping[str, Any]) -> tuple[list[ReviewTask], list[ReviewTask]]:
    """Return the open tasks of this `question` that `who` holds: in this `tab`, and in their other tabs."""
    rows = list(
        execute(
            connection,
            "SELECT t.*, l.tab FROM leases l JOIN tasks t ON t.task_id = l.task_id WHERE l.annotator = :who "
            "AND t.question = :question AND t.open1 = 1 ORDER BY t.kind = :real, t.position",
            {name: values[name] for name in ("who", "question", "real")},
        )
    )
    here = [record_of(ReviewTask, row) for row in rows if row["tab"] == values["tab"]]
    return here, [record_of(ReviewTask, row) for row in rows if row["tab"] != values["tab"]]


def hold(connection: Connection, values: Mapping[str, Any], tasks: Sequence[ReviewTask]) -> None:
    """Lease these tasks to `who` in this `tab` until the leases expire."""
    if not tasks:
        return
    given = [task.task_id for task in tasks]
    lease = {name: values[name] for name in ("who", "tab", "expires")}
    execute_all(connection, [(_LEASE, {**lease, "given": given}), *ask([values["who"]], given, round_number=1)])
    akin = [task.task_id for task in tasks if task.kin not in ("", task.task_id)]
    if akin:  # permanent: after the lease ends, the person has still seen the image
        execute(
            connection,
            "INSERT INTO given (annotator, kin, task_id) SELECT :who, kin, task_id FROM tasks WHERE task_id IN :akin "
            "ON CONFLICT (annotator, kin) DO NOTHING",
            {"who": values["who"], "akin": akin},
        )


def ask(people: Sequence[str], task_ids: Sequence[str], *, round_number: int) -> list[Statement]:
    """Record that these people were assigned these tasks in a round. From then on they may answer."""
    return [(_ASK, {"who": who, "round": round_number, "given": list(task_ids)}) for who in people if task_ids]


def expect_asked(connection: Connection, log: AnswerLog, answers: Sequence[Answer]) -> None:
    """Raise NotAsked unless each answer's person was assigned its task in its round, or answered it before."""
    for answer in answers:
        who = {"who": answer.annotator, "round": round_of(answer)}
        if not execute(connection, _MAY_ANSWER.replace("{own_task}", log.own_task), {**row_of(answer), **who}).value():
            raise NotAsked(
                f"this task was never given to {answer.annotator}, so the answer is refused; reload the page"
            )


def release(store: Store, annotator: str, *, tab: str) -> None:
    """Release all leases of this tab, because its person left."""
    with store.database.write(durable=False) as connection:
        values = {"who": annotator, "tab": tab}
        execute(connection, "DELETE FROM leases WHERE annotator = :who AND tab = :tab", values)


_LEASE = """INSERT INTO leases (task_id, annotator, tab, expires, kin) SELECT task_id, :who, :tab, :expires, kin
    FROM tasks WHERE task_id IN :given
    ON CONFLICT (task_id, annotator) DO UPDATE SET tab = excluded.tab, expires = excluded.expires"""

_ASK = """INSERT INTO asked (task_id, annotator, round) SELECT task_id, :who, :round FROM tasks WHERE task_id IN :given
    ON CONFLICT (task_id, annotator, round) DO NOTHING"""

_OWN = "task_id = t.task_id AND annotator = :who AND round = :round"

_MAY_ANSWER = f"""SELECT 1 FROM (SELECT task_id FROM tasks WHERE {{own_task}}) t
    WHERE EXISTS (SELECT 1 FROM asked WHERE {_OWN}) OR EXISTS (SELECT 1 FROM latest WHERE {_OWN})"""
"""Selects a row if a person may answer. An earlier answer is enough, because it may have been imported."""
