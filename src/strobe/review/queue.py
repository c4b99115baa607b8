"""Who gets which task next: leased, so that no two people get the same by accident, and returned after a time-out.

A second tab gets other tasks; when there are no others left it takes over the first tab's.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from strobe.review import leases
from strobe.review.database import execute
from strobe.review.plan import Claimed, Task
from strobe.review.rows import record_of
from strobe.review.store import Store

__all__ = ["Progress", "claim", "claim_joint", "own_progress", "progress", "whole_progress"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a question has come, and one annotator's part in it.

    `open_for_me` counts what this annotator could still be given, now or when a lease runs out: tasks of round one
    without an answer of theirs, and tasks of round two without one. Zero where all that is left is for others.
    `tasks_waiting` of the `tasks_open` wait for their anchor's labels.
    """

    tasks: int = 0
    tasks_open: int = 0
    tasks_waiting: int = 0
    anchors: int = 0
    anchors_open: int = 0
    verify: int = 0
    verify_mine: int = 0
    mine: int = 0
    today: int = 0
    open_for_me: int = 0


def claim(store: Store, annotator: str, *, tab: str, want: int) -> list[Claimed]:
    """Up to `want` pages of tasks for this tab, those it already holds first; their leases start anew."""
    now, question = store.clock(), store.question

    def pages(tasks: Sequence[Task]) -> list[str]:
        return list(dict.fromkeys(question.page_of(task, store.settings) for task in tasks))

    def first(tasks: list[Task], most: int) -> list[Task]:
        kept = set(pages(tasks)[:most])
        return [task for task in tasks if question.page_of(task, store.settings) in kept]

    values = {"who": annotator, "tab": tab, "expires": now + store.settings.lease_s, **_own(store)}
    with store.database.write(durable=False) as connection:
        leases.expire(connection, now)
        tasks = first(leases.held(connection, values, here=True), want)
        if len(pages(tasks)) < want:
            tasks += question.fresh(connection, store.settings, values, want - len(pages(tasks)))
        if len(pages(tasks)) < want:
            # Nothing new: what this annotator's other tabs hold is better finished here than waited for.
            tasks += first(leases.held(connection, values, here=False), want - len(pages(tasks)))
        if store.settings.at_once == "pair":
            tasks = _with_control(connection, store, values, tasks)
        else:
            for page in pages(tasks):
                tasks += _control_of_set(connection, store, values, tasks, page)
        leases.hold(connection, values, tasks)
        out = [Claimed(task=task, stage=question.stage(task)) for task in tasks]
        if len(pages(tasks)) < want:
            out += _verify(connection, store, [annotator], want - len(pages(tasks)))
    return out


def claim_joint(store: Store, members: Sequence[str], *, want: int) -> list[Claimed]:
    """Round-two tasks that not every member of a group has decided yet."""
    with store.database.read() as connection:
        return _verify(connection, store, members, want)


def progress(store: Store, annotator: str) -> Progress:
    """The counts shown on the page."""
    return own_progress(store, annotator, whole_progress(store))


def whole_progress(store: Store) -> Progress:
    """The counts of the whole; each is answered from an index."""
    values = {**_own(store), "wanted": store.settings.votes}
    with store.database.read() as connection:

        def count(where: str) -> int:
            asked = {name: value for name, value in values.items() if f":{name}" in where or name == "question"}
            found = execute(connection, f"SELECT count(*) FROM tasks WHERE question = :question AND {where}", asked)  # noqa: S608
            return int(found.scalar_one())

        labels = store.settings.labels
        waiting = count("kind = :real AND held = 2 AND position >= 0 AND votes < :wanted") if labels else 0
        return Progress(
            tasks=count("kind = :real AND position >= 0"),
            tasks_open=count("kind = :real AND open1 = 1") + waiting,
            tasks_waiting=waiting,
            anchors=count("kind = 'anchor' AND position >= 0") if labels else 0,
            anchors_open=count("kind = 'anchor' AND open1 = 1"),
            verify=count("open2 = 1"),
        )


def own_progress(store: Store, annotator: str, whole: Progress, *, since: str = "") -> Progress:
    """The counts of the whole with one annotator's part; `since` is when their day began."""
    values = {"who": annotator, "question": store.question.name}
    own = "l.task_id = t.task_id AND t.question = :question"
    mine = "SELECT count(*) FROM latest l WHERE l.annotator = :who"
    with store.database.read() as connection:
        # By each of their few answers, and not by the many tasks: databases would start at either end of a join.
        done = execute(connection, f"{mine} AND EXISTS (SELECT 1 FROM tasks t WHERE {own})", values).scalar_one()  # noqa: S608
        today = 0
        if since:
            recent = f"{mine} AND l.at >= :since AND EXISTS (SELECT 1 FROM tasks t WHERE {own})"  # noqa: S608
            today = int(execute(connection, recent, {**values, "since": since}).scalar_one())
        again = f"{mine} AND l.round = 2 AND EXISTS (SELECT 1 FROM tasks t WHERE {own} AND t.open2 = 1)"  # noqa: S608
        verify_mine = int(execute(connection, again, values).scalar_one())
        # Counted fresh, unlike the whole: among the last tasks a second is long.
        verify = "SELECT count(*) FROM tasks WHERE question = :question AND open2 = 1"
        at_hand = int(execute(connection, verify, {"question": values["question"]}).scalar_one()) - verify_mine
        at_hand += store.question.open_for(connection, store.settings, annotator)
    open_for_me = max(0, at_hand + whole.tasks_waiting)
    return replace(whole, mine=int(done), today=today, verify_mine=verify_mine, open_for_me=open_for_me)


def _own(store: Store) -> dict[str, str]:
    return {"question": store.question.name, "real": store.question.real}


def _verify(connection: Connection, store: Store, members: Sequence[str], want: int) -> list[Claimed]:
    rows = execute(
        connection,
        "SELECT t.* FROM tasks t WHERE t.question = :question AND t.open2 = 1 AND (SELECT count(*) FROM latest l "
        "WHERE l.task_id = t.task_id AND l.round = 2 AND l.annotator IN :members) < :n ORDER BY t.position LIMIT :want",
        {"question": store.question.name, "members": list(members), "n": len(members), "want": want},
    ).mappings()
    return [Claimed(task=record_of(Task, row), stage="verify") for row in rows]


def _control(
    connection: Connection, store: Store, values: dict[str, Any], tasks: list[Task], set_id: str | None = None
) -> Task | None:
    """The control that is due to this annotator beside these tasks, of that set where one is named; None if none is."""
    hidden, real, share = store.question.controls, store.question.real, store.settings.controls
    n_real = sum(task.kind == real for task in tasks)
    if not hidden or not share:
        return None
    own = {"who": values["who"], "question": store.question.name}
    kinds = execute(
        connection,
        "SELECT (SELECT t.kind FROM tasks t WHERE t.task_id = l.task_id AND t.question = :question) AS kind "
        "FROM latest l WHERE l.annotator = :who AND l.round = 1",
        own,
    )
    done = Counter(kinds.scalars())
    given = sum(done[kind] for kind in hidden) + sum(task.kind in hidden for task in tasks)
    if given >= share * (done[real] + n_real):
        return None
    found = execute(
        connection,
        "SELECT t.* FROM tasks t WHERE t.question = :question AND t.kind IN :kinds AND t.open1 = 1 AND NOT EXISTS "  # noqa: S608
        "(SELECT 1 FROM latest l WHERE l.task_id = t.task_id AND l.annotator = :who) "
        f"{'AND t.set_id = :set ' if set_id else ''}ORDER BY t.position, t.kind LIMIT 1",
        {**own, "kinds": list(hidden), **({"set": set_id} if set_id else {})},
    )
    row = found.mappings().first()
    return None if row is None else record_of(Task, row)


def _with_control(connection: Connection, store: Store, values: dict[str, Any], tasks: list[Task]) -> list[Task]:
    """The claimed tasks with a control among them where one is due; never the first, never two at once."""
    n_real = sum(task.kind == store.question.real for task in tasks)
    if n_real < 2 or any(task.kind in store.question.controls for task in tasks):
        return tasks
    control = _control(connection, store, values, tasks)
    if control is None:
        return tasks
    # A place that looks like chance and needs no state: the control's own opaque name decides it.
    place = len(tasks) - n_real + 1 + int(control.task_id[:8], 16) % (n_real - 1)
    return [*tasks[:place], control, *tasks[place:-1]]


def _control_of_set(
    connection: Connection, store: Store, values: dict[str, Any], tasks: list[Task], set_id: str
) -> list[Task]:
    """A control to stand among the pairs of a set, where one is due and the set has one; never two in a set."""
    of_set = [task for task in tasks if task.set_id == set_id and task.kind != "anchor"]
    if len(of_set) < 2 or any(task.kind in store.question.controls for task in of_set):
        return []
    control = _control(connection, store, values, tasks, set_id)
    return [] if control is None else [control]
