"""Who gets which pair next: leased, so that no two people get the same pair by accident, and returned after a time-out.

A second tab gets other pairs; when there are no others left it takes over the first tab's.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import Connection

from strobe.review import leases
from strobe.review.database import execute
from strobe.review.plan import Task
from strobe.review.rows import task_of
from strobe.review.store import Store

__all__ = ["Claimed", "Progress", "claim", "claim_joint", "own_progress", "progress", "whole_progress"]

Stage = Literal["anchor", "pair", "verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A task given to an annotator, and the stage their vote on it belongs to."""

    task: Task
    stage: Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the review has come, and one annotator's part in it.

    `open_for_me` counts what this annotator could still be given, now or when a lease runs out: pairs and anchors of
    round one without a vote of theirs, and pairs of round two without one. Zero where all that is left is for others.
    `pairs_waiting` of the `pairs_open` wait for their anchor's labels.
    """

    pairs: int = 0
    pairs_open: int = 0
    pairs_waiting: int = 0
    anchors: int = 0
    anchors_open: int = 0
    verify: int = 0
    verify_mine: int = 0
    mine: int = 0
    open_for_me: int = 0


def claim(store: Store, annotator: str, *, tab: str, want: int) -> list[Claimed]:
    """Up to `want` tasks for this tab, those it already holds first; their leases start anew."""
    now = store.clock()
    values = {"who": annotator, "tab": tab, "expires": now + store.settings.lease_s}
    with store.database.write(durable=False) as connection:
        leases.expire(connection, now)
        tasks = leases.held(connection, values, here=True)[:want]
        for kind, wanted in (("anchor", 1), ("pair", store.settings.votes)):
            if len(tasks) < want:
                tasks += _fresh(connection, values, kind, wanted, want - len(tasks))
        if len(tasks) < want:
            # Nothing new: what this annotator's other tabs hold is better finished here than waited for.
            tasks += leases.held(connection, values, here=False)[: want - len(tasks)]
        tasks = _with_control(connection, store, values, tasks)
        leases.hold(connection, values, tasks)
        out = [Claimed(task=task, stage="anchor" if task.kind == "anchor" else "pair") for task in tasks]
        if len(out) < want:
            out += _verify(connection, [annotator], want - len(out))
    return out


def claim_joint(store: Store, members: Sequence[str], *, want: int) -> list[Claimed]:
    """Round-two pairs that not every member of a group has decided yet."""
    with store.database.read() as connection:
        return _verify(connection, members, want)


def progress(store: Store, annotator: str) -> Progress:
    """The counts shown on the page."""
    return own_progress(store, annotator, whole_progress(store))


def whole_progress(store: Store) -> Progress:
    """The counts of the whole review; each is answered from an index."""
    with store.database.read() as connection:

        def count(where: str) -> int:
            values = {"wanted": store.settings.votes} if ":wanted" in where else {}
            return int(execute(connection, f"SELECT count(*) FROM tasks WHERE {where}", values).scalar_one())  # noqa: S608

        labels = store.settings.labels
        waiting = count("kind = 'pair' AND held = 2 AND position >= 0 AND votes < :wanted") if labels else 0
        return Progress(
            pairs=count("kind = 'pair' AND position >= 0"),
            pairs_open=count("kind = 'pair' AND open1 = 1") + waiting,
            pairs_waiting=waiting,
            anchors=count("kind = 'anchor' AND position >= 0") if labels else 0,
            anchors_open=count("kind = 'anchor' AND open1 = 1"),
            verify=count("open2 = 1"),
        )


def own_progress(store: Store, annotator: str, whole: Progress) -> Progress:
    """The counts of the whole with one annotator's part."""
    values = {"who": annotator, "labels": int(store.settings.labels), "wanted": store.settings.votes}
    with store.database.read() as connection:
        mine = execute(connection, "SELECT count(*) FROM latest WHERE annotator = :who", values).scalar_one()
        verify_mine = execute(
            connection,
            "SELECT count(*) FROM tasks t WHERE t.open2 = 1 AND EXISTS (SELECT 1 FROM latest l WHERE "
            "l.task_id = t.task_id AND l.annotator = :who AND l.round = 2)",
            values,
        ).scalar_one()
        # Counted fresh, unlike the whole: among the last pairs a second is long.
        at_hand = execute(connection, _OPEN_FOR_ME, values).scalar_one()
    open_for_me = max(0, int(at_hand) + whole.pairs_waiting - int(verify_mine))
    return replace(whole, mine=int(mine), verify_mine=int(verify_mine), open_for_me=open_for_me)


def _fresh(connection: Connection, values: dict[str, Any], kind: str, wanted: int, want: int) -> list[Task]:
    rows = execute(
        connection,
        "SELECT t.* FROM tasks t WHERE t.kind = :kind AND t.open1 = 1 AND NOT EXISTS (SELECT 1 FROM latest l "
        "WHERE l.task_id = t.task_id AND l.annotator = :who AND l.round = 1) AND NOT EXISTS (SELECT 1 FROM "
        "leases l WHERE l.task_id = t.task_id AND l.annotator = :who) AND t.votes + (SELECT count(*) FROM leases l "
        "WHERE l.task_id = t.task_id) < :wanted ORDER BY t.position LIMIT :want",
        {**values, "kind": kind, "wanted": wanted, "want": want},
    ).mappings()
    return [task_of(row) for row in rows]


def _verify(connection: Connection, members: Sequence[str], want: int) -> list[Claimed]:
    rows = execute(
        connection,
        "SELECT t.* FROM tasks t WHERE t.open2 = 1 AND (SELECT count(*) FROM latest l WHERE l.task_id = t.task_id "
        "AND l.round = 2 AND l.annotator IN :members) < :n ORDER BY t.position LIMIT :want",
        {"members": list(members), "n": len(members), "want": want},
    ).mappings()
    return [Claimed(task=task_of(row), stage="verify") for row in rows]


def _with_control(connection: Connection, store: Store, values: dict[str, Any], tasks: list[Task]) -> list[Task]:
    """The claimed pairs with a control among them where one is due; never the first, never two at once."""
    pairs = sum(task.kind == "pair" for task in tasks)
    share = store.settings.controls
    if not share or pairs < 2 or any(task.kind in ("same", "different") for task in tasks):
        return tasks
    rows = execute(
        connection,
        "SELECT t.kind = 'pair' AS real, count(*) AS n FROM latest l JOIN tasks t ON t.task_id = l.task_id "
        "WHERE l.annotator = :who AND l.round = 1 AND t.kind <> 'anchor' GROUP BY t.kind = 'pair'",
        values,
    ).mappings()
    done = {bool(row["real"]): int(row["n"]) for row in rows}
    if done.get(False, 0) >= share * (done.get(True, 0) + pairs):
        return tasks
    found = execute(
        connection,
        "SELECT t.* FROM tasks t WHERE t.kind IN ('same', 'different') AND t.open1 = 1 AND NOT EXISTS "
        "(SELECT 1 FROM latest l WHERE l.task_id = t.task_id AND l.annotator = :who) "
        "ORDER BY t.position, t.kind LIMIT 1",
        values,
    )
    row = found.mappings().first()
    if row is None:
        return tasks
    control = task_of(row)
    # A place that looks like chance and needs no state: the control's own opaque name decides it.
    place = 1 + int(control.task_id[:8], 16) % (len(tasks) - 1)
    return [*tasks[:place], control, *tasks[place:-1]]


_OPEN_FOR_ME = """SELECT (SELECT count(*) FROM tasks WHERE open2 = 1)
    + (SELECT count(*) FROM tasks WHERE kind = 'anchor' AND open1 = 1)
    + (SELECT count(*) FROM tasks WHERE kind = 'pair' AND open1 = 1)
    - (SELECT count(*) FROM latest l JOIN tasks t ON t.task_id = l.task_id WHERE l.annotator = :who AND l.round = 1
        AND (t.kind = 'pair' AND t.open1 = 1
            OR :labels = 1 AND t.kind = 'pair' AND t.held = 2 AND t.position >= 0 AND t.votes < :wanted))"""
"""All of round two and of what is open in round one; what is theirs is subtracted, so that the counts use indexes."""
