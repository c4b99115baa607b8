"""Choose the next tasks of each person.

Leases ensure that two people never get the same task at once, and end after a time-out.

A second tab gets other tasks. If no other task is left, or if the person already holds the allowed number, the second
tab takes over the tasks of the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from strobe.annexes.web.review import leases, tally
from strobe.annexes.web.review.database import execute, execute_all
from strobe.annexes.web.review.plan import Claimed, ReviewTask
from strobe.annexes.web.review.rows import record_of
from strobe.annexes.web.review.store import Store
from strobe.core.moments import timestamp

REST_S = 3600.0
"""The seconds after which round two shows a person a task that this person answered in round one."""

_TODAY = """SELECT count(*) FROM latest l WHERE l.annotator = :who AND l.at >= :since
    AND EXISTS (SELECT 1 FROM tasks t WHERE t.task_id = l.task_id AND t.question = :question)"""

_CONTROL = """SELECT t.* FROM tasks t WHERE t.question = :question AND t.kind = :kind AND t.open1 = 1
    AND NOT EXISTS (SELECT 1 FROM latest l WHERE l.task_id = t.task_id AND l.annotator = :who) {where}
    ORDER BY t.position LIMIT 1"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewProgress:
    """The progress of a question, overall and for one annotator.

    `open_for_me` counts the tasks of both rounds that this annotator has not answered and could still get, now or when
    a lease ends. It is zero if only other people can do the rest. Of these tasks, `resting` were answered by this
    annotator less than `REST_S` ago. Of the `tasks_open`, `tasks_waiting` wait for the labels of their anchor.
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
    resting: int = 0


def claim(store: Store, annotator: str, *, tab: str, want: int) -> list[Claimed]:
    """Return up to `want` pages of tasks for this tab, beginning with the tasks that it already holds.

    All their leases are renewed.
    """
    now, question = store.clock(), store.question

    def pages(tasks: Sequence[ReviewTask]) -> list[str]:
        return list(dict.fromkeys(question.page_of(task, store.settings) for task in tasks))

    def first(tasks: list[ReviewTask], most: int) -> list[ReviewTask]:
        kept = set(pages(tasks)[:most])
        return [task for task in tasks if question.page_of(task, store.settings) in kept]

    values = {"who": annotator, "tab": tab, "expires": now + store.settings.lease_s, **_own(store)}
    with store.database.write() as connection:
        leases.expire(connection, now)
        here, elsewhere = leases.held(connection, values)
        tasks = first(here, want)
        room = leases.MOST_HELD[store.settings.at_once] - len(pages(here + elsewhere))
        if (more := min(want - len(pages(tasks)), room)) > 0:
            tasks += question.fresh(connection, store.settings, values, more)
        if len(pages(tasks)) < want:
            # Nothing new is left: take over the tasks of this annotator's other tabs.
            tasks += first(elsewhere, want - len(pages(tasks)))
        if store.settings.at_once == "pair":
            tasks = _with_control(connection, store, values, tasks)
        else:
            for page in pages(tasks):
                tasks += _control_of_set(connection, store, values, tasks, page)
        leases.hold(connection, values, tasks)
        out = [Claimed(task=task, stage=question.stage(task)) for task in tasks]
        if len(pages(tasks)) < want and _verify_left(connection, store, annotator):
            out += _verify(connection, store, [annotator], want - len(pages(tasks)))
    return out


def claim_joint(store: Store, members: Sequence[str], *, want: int) -> list[Claimed]:
    """Return round-two tasks that not every member of a group has decided yet, also those just answered."""
    with store.database.write() as connection:
        return _verify(connection, store, members, want, rest=False)


def progress(store: Store, annotator: str, *, since: str = "") -> ReviewProgress:
    """Return the counts for the page, overall and for one annotator. `since` is the start of the annotator's day.

    All counts except those of the day are stored (`tally`), so that the cost does not grow with the work done.
    """
    question, labels = store.question, store.settings.labels
    values = {"who": annotator, "question": question.name, "since": since}
    with store.database.read() as connection:
        whole = tally.whole_counts(connection, question.name)
        own = tally.own_counts(connection, question.name, annotator)
        today = int(execute(connection, _TODAY, values).value()) if since else 0
        at_hand = question.open_for(connection, store.settings, annotator, whole=whole, own=own)
        verify, verify_mine = (sum(count["open2"] for count in counts) for counts in (whole.values(), own.values()))
        resting = 0
        if verify > verify_mine:
            resting = int(execute(connection, _RESTING, {**values, "rested": _rested(store)}).value())
    real, anchors = whole[question.real], whole["anchor"]
    waiting = real["waiting"] if labels else 0
    return ReviewProgress(
        tasks=real["tasks"],
        tasks_open=real["open1"] + waiting,
        tasks_waiting=waiting,
        anchors=anchors["tasks"] if labels else 0,
        anchors_open=anchors["open1"],
        verify=verify,
        verify_mine=verify_mine,
        mine=sum(count["said"] for count in own.values()),
        today=today,
        open_for_me=max(0, at_hand + verify - verify_mine + waiting),
        resting=resting,
    )


def _own(store: Store) -> dict[str, str]:
    return {"question": store.question.name, "real": store.question.real}


def _verify_left(connection: Connection, store: Store, annotator: str) -> int:
    """Return how many tasks of round two an annotator has not decided yet."""
    question = store.question.name
    whole, own = tally.whole_counts(connection, question), tally.own_counts(connection, question, annotator)
    return sum(one["open2"] for one in whole.values()) - sum(one["open2"] for one in own.values())


def _verify(
    connection: Connection, store: Store, members: Sequence[str], want: int, *, rest: bool = True
) -> list[Claimed]:
    """Return tasks of round two; with `rest`, not those that a member answered less than `REST_S` ago."""
    rows = execute(
        connection,
        "SELECT t.* FROM tasks t WHERE t.question = :question AND t.open2 = 1 AND (SELECT count(*) FROM latest l "
        "WHERE l.task_id = t.task_id AND l.round = 2 AND l.annotator IN :members) < :n "
        "AND NOT EXISTS (SELECT 1 FROM latest l WHERE l.task_id = t.task_id AND l.round = 1 "
        "AND l.annotator IN :members AND l.at > :rested) ORDER BY t.position LIMIT :want",
        {
            "question": store.question.name,
            "members": list(members),
            "n": len(members),
            "want": want,
            "rested": _rested(store) if rest else "9",
        },
    )
    claimed = [Claimed(task=record_of(ReviewTask, row), stage="verify") for row in rows]
    execute_all(connection, leases.ask(members, [one.task.task_id for one in claimed], round_number=2))
    return claimed


_RESTING = """SELECT count(*) FROM latest l JOIN tasks t ON t.task_id = l.task_id
    WHERE l.annotator = :who AND l.round = 1 AND l.at > :rested AND t.question = :question AND t.open2 = 1
    AND NOT EXISTS (SELECT 1 FROM latest m WHERE m.task_id = l.task_id AND m.annotator = :who AND m.round = 2)"""


def _rested(store: Store) -> str:
    """Return the time before which an answer of round one is old enough for round two."""
    return timestamp(store.clock() - REST_S)


def _control(
    connection: Connection, store: Store, values: dict[str, Any], tasks: list[ReviewTask], set_id: str | None = None
) -> ReviewTask | None:
    """Return the control that is due with these tasks, or None.

    With a `set_id`, only controls of that set are considered.
    """
    hidden, real, share = store.question.controls, store.question.real, store.settings.controls
    n_real = sum(task.kind == real for task in tasks)
    if not hidden or not share:
        return None
    own = {"who": values["who"], "question": store.question.name}
    done = tally.own_counts(connection, store.question.name, values["who"])
    given = sum(done[kind]["first"] for kind in hidden) + sum(task.kind in hidden for task in tasks)
    if given >= share * (done[real]["first"] + n_real):
        return None
    of_set, named = ("AND t.set_id = :set", {"set": set_id}) if set_id else ("", {})
    first = []
    for kind in hidden:  # one kind at a time: no index orders rows of several kinds, so all rows would be sorted
        rows = execute(connection, _CONTROL.replace("{where}", of_set), {**own, "kind": kind, **named})
        first += [record_of(ReviewTask, row) for row in rows]
    return min(first, key=lambda task: (task.position, task.kind), default=None)


def _with_control(
    connection: Connection, store: Store, values: dict[str, Any], tasks: list[ReviewTask]
) -> list[ReviewTask]:
    """Insert a control into the claimed tasks if one is due.

    A control is never the first task, and at most one is inserted.
    """
    n_real = sum(task.kind == store.question.real for task in tasks)
    if n_real < 2 or any(task.kind in store.question.controls for task in tasks):
        return tasks
    control = _control(connection, store, values, tasks)
    if control is None:
        return tasks
    # The position follows from the control's opaque name, so it looks random but is not stored.
    place = len(tasks) - n_real + 1 + int(control.task_id[:8], 16) % (n_real - 1)
    return [*tasks[:place], control, *tasks[place:-1]]


def _control_of_set(
    connection: Connection, store: Store, values: dict[str, Any], tasks: list[ReviewTask], set_id: str
) -> list[ReviewTask]:
    """Return a control to show among the pairs of a set, if one is due and the set has one. A set never shows two
    controls.
    """
    of_set = [task for task in tasks if task.set_id == set_id and task.kind != "anchor"]
    if len(of_set) < 2 or any(task.kind in store.question.controls for task in of_set):
        return []
    control = _control(connection, store, values, tasks, set_id)
    return [] if control is None else [control]
