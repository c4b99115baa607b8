"""Counters of the pair queue: latest votes, votes per task, open and held tasks.

They can always be computed again from the votes (`rebuild`).
"""

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from strobe.annexes.web.review import tally
from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.database import Statement, execute, execute_all
from strobe.annexes.web.review.log import LATEST, AnswerLog, round_of, say_latest
from strobe.annexes.web.review.rows import row_of
from strobe.core.derivation import is_clean
from strobe.core.records import Verdict

VERDICTS = AnswerLog(
    table="verdicts",
    record=Verdict,
    key="verdict_id",
    own_task="question = 'pairs' AND set_id = :set_id AND frame_id = :frame_id "
    "AND (kind = 'anchor') = (:stage = 'anchor')",
    # Undo does not offer single votes of a joint decision.
    shown="v.stage <> 'joint'",
)
"""The votes on pairs."""


def follow(connection: Connection, verdict: Verdict, settings: ReviewOptions) -> None:
    """Update the counters for one new vote."""
    found = execute(connection, f"SELECT * FROM tasks WHERE {VERDICTS.own_task}", row_of(verdict))
    task = found.first()
    if task is None:
        return
    name = {"task": task["task_id"]}
    # A vote on an anchor opens or closes its whole set.
    of_set = bool(task["kind"] == "anchor" or verdict.bad_anchor or task["bads"])
    where = "question = 'pairs' AND set_id = :set" if of_set else "task_id = :task"
    values = {"set": verdict.set_id} if of_set else name
    execute_all(
        connection,
        [
            *tally.less(settings, where, values),
            (LATEST, _latest_row(task["task_id"], verdict)),
            ("DELETE FROM leases WHERE task_id = :task AND annotator = :who", {**name, "who": verdict.annotator}),
            _recounted(name, "task_id = :task"),
            *_reopened(settings, values, where, hold=where if of_set else ""),
            *tally.more(settings, where, values),
        ],
    )


def rebuild(connection: Connection, settings: ReviewOptions) -> None:
    """Compute every counter again from the votes. Only differences are written, because most tasks have no vote."""
    own = "SELECT 1 FROM tasks t WHERE t.task_id = latest.task_id AND t.question = 'pairs'"
    execute(connection, f"DELETE FROM latest WHERE EXISTS ({own})")
    VERDICTS.find_tasks(connection)
    found = execute(connection, "SELECT verdict_id, task_id FROM verdicts WHERE task_id <> ''")
    task_of = {str(row["verdict_id"]): str(row["task_id"]) for row in found}
    latest: dict[tuple[str, str, int], dict[str, Any]] = {}
    for verdict in VERDICTS.select(connection, "task_id <> ''", {}):
        row = _latest_row(task_of[verdict.verdict_id], verdict)
        latest[row["task_id"], verdict.annotator, row["round"]] = row
    say_latest(connection, list(latest.values()))
    voted = _EVERY + " AND (voters > 0 OR task_id IN (SELECT task_id FROM latest))"
    # Without the label stage, only votes against an anchor hold a set back, and few anchors have votes.
    hold = _EVERY + ("" if settings.labels else f" AND (held <> 0 OR set_id IN ({_ACCUSED}))")
    execute_all(connection, [_recounted({}, voted), *_reopened(settings, {}, _EVERY, hold=hold)])
    tally.renew(connection, settings, "pairs")


def _latest_row(task_id: str, verdict: Verdict) -> dict[str, Any]:
    return {
        "task_id": task_id,
        "annotator": verdict.annotator,
        "round": round_of(verdict),
        "at": verdict.at,
        "verdict_id": verdict.verdict_id,
        # Only a vote on the quality of an anchor holds its pairs back. A vote on labels only lists labels.
        "clean": int(is_clean(replace(verdict, label_right=None) if verdict.stage == "anchor" else verdict)),
        "bad": int(verdict.bad_anchor),
        "kin": "",
    }


def _recounted(values: dict[str, Any], where: str) -> Statement:
    return (
        f"""UPDATE tasks SET
        votes = (SELECT count(*) FROM latest l WHERE l.task_id = tasks.task_id AND l.round = 1),
        flags = (SELECT count(*) FROM latest l WHERE l.task_id = tasks.task_id AND l.round = 1 AND l.clean = 0),
        voters = (SELECT count(DISTINCT l.annotator) FROM latest l WHERE l.task_id = tasks.task_id),
        bads = (SELECT count(*) FROM latest l WHERE l.task_id = tasks.task_id AND l.bad = 1 AND NOT EXISTS (
            SELECT 1 FROM latest m WHERE m.task_id = l.task_id AND m.annotator = l.annotator
            AND m.round <> l.round AND (m.at, m.verdict_id) > (l.at, l.verdict_id)))
        WHERE {where}""",
        values,
    )


def _reopened(settings: ReviewOptions, values: dict[str, Any], where: str, *, hold: str) -> list[Statement]:
    """Return the statements that recompute `held` where `hold` matches, then which tasks are open in each round."""
    values = {**values, "labels": int(settings.labels)}
    held = (f"UPDATE tasks SET held = {_HELD} WHERE {hold}", values)
    opened = (
        f"UPDATE tasks SET open1 = {_OPEN1}, open2 = {_OPEN2} WHERE {where} "
        f"AND (open1 <> {_OPEN1} OR open2 <> {_OPEN2})",
        {**values, "wanted": settings.votes, "verify": int(settings.verify)},
    )
    return [held, opened] if hold else [opened]


_OPEN1 = """CASE WHEN position < 0 THEN 0
    WHEN kind = 'pair' AND votes < :wanted AND held = 0 THEN 1
    WHEN kind = 'anchor' AND :labels = 1 AND votes < 1 AND held IN (0, 2) THEN 1
    WHEN kind IN ('same', 'different') THEN 1 ELSE 0 END"""

_OPEN2 = """CASE WHEN kind = 'pair' AND position >= 0 AND :verify = 1 AND votes >= :wanted AND flags > 0
    AND (held = 0 OR bads > 0) THEN 1 ELSE 0 END"""

_EVERY = "question || '' = 'pairs'"
"""Matches all tasks without an index. An index would cause random reads, which take ten times as long."""

_ACCUSED = f"SELECT set_id FROM tasks WHERE {_EVERY} AND (bads > 0 OR (kind = 'anchor' AND votes > 0))"

_HELD = """
    (CASE WHEN EXISTS (SELECT 1 FROM tasks o WHERE o.question = 'pairs' AND o.set_id = tasks.set_id AND (
        (o.kind = 'pair' AND o.bads > 0 AND 2 * (o.voters - o.bads) <= o.voters)
        OR (o.kind = 'anchor' AND o.votes > 0 AND 2 * (o.votes - o.flags) <= o.votes)))
        THEN 1 ELSE 0 END)
    + (CASE WHEN :labels = 1 AND EXISTS (SELECT 1 FROM tasks o WHERE o.question = 'pairs' AND o.set_id = tasks.set_id
        AND o.kind = 'anchor' AND o.votes = 0) THEN 2 ELSE 0 END)"""
"""The reasons to hold a task back: 1 if the set has a bad anchor, 2 if its anchor waits for labels."""
