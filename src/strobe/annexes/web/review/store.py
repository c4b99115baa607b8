"""Answers, appended and never changed, and the queue that follows from them.

Every answer is one transaction: its row, the annotator's latest answer, and the counters of the task.
"""

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from strobe.annexes.web.review.conduct import Conduct, ReviewOptions
from strobe.annexes.web.review.database import Database, execute, fill, meta, roomy, set_meta
from strobe.annexes.web.review.log import AnswerLog, Conflict
from strobe.annexes.web.review.plan import ReviewTask, candidates_digest
from strobe.annexes.web.review.question import Question, question_named
from strobe.annexes.web.review.questions import QUESTIONS
from strobe.annexes.web.review.rows import Answer, columns, record_of, row_of
from strobe.core.codec import decode, encode
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.files import json_of
from strobe.core.moments import just_after, timestamp

Content = tuple[str, str]
"""Digests of the content of a dataset folder: its tables, and people's answers (`store.dataset_folder.content`)."""

Check = Callable[[Connection, AnswerLog, Sequence[Answer]], None]
"""Raises Conflict if answers must not be accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The acknowledgement of one answer. `fresh` is False if the answer was already stored."""

    answer: Any
    fresh: bool


class Store:
    """The answers to all questions on one dataset in one database, and the queue of the current question."""

    def __init__(self, url: str, *, ask: str = "pairs", clock: Callable[[], float] = time.time) -> None:
        self.question: Question = question_named(ask)
        self.database = Database(url)
        self.clock = clock
        self.settings = ReviewOptions()

    @property
    def suffix(self) -> str:
        """The suffix of this question's settings in the database.

        Pairs have none, because they were the first question.
        """
        return _suffix(self.question.name)

    def close(self) -> None:
        """Close the connections."""
        self.database.close()

    # -- the dataset -----------------------------------------------------------------------------------------------

    def prepare(
        self, dataset: Dataset, settings: ReviewOptions, *, remember: bool = True, content: Content | None = None
    ) -> None:
        """Bind the store to a dataset's candidates, plan the question's tasks, and import the answers in the folder.

        The settings are stored unless nobody chose them, as in an import before the first `serve`. Work already done
        for the same `content` and equivalent settings is skipped.
        """
        self.settings = settings
        with self.database.write() as connection:
            if remember:
                self._remember(connection, settings)
            known, laid_out = self._laid_out(connection), _laid_out(content, settings)
            has_changed = content is None or known[0] != laid_out[0]
            if has_changed or known != laid_out:
                with roomy(connection):
                    if has_changed:
                        self._lay_out(connection, dataset, content)
                    has_changed = bool(self._take_in(connection, dataset)) or has_changed
                    if has_changed:
                        self.question.rebuild(connection, settings)
            set_meta(connection, self._kept("laid_out"), json.dumps(laid_out))
        if has_changed:
            self.database.tidy()

    def is_laid_out(self, settings: ReviewOptions, content: Content) -> bool:
        """Whether `prepare` has nothing to do. Then it does not read the dataset."""
        with self.database.read() as connection:
            return self._laid_out(connection) == _laid_out(content, settings)

    def took_in(self, before: Content, after: Content, n: int) -> None:
        """Record that the store has all answers that an export wrote, so that the next start does not compare them.

        This is recorded only if it was already recorded before the export, and if folder and store have the same number
        `n` of answers to this question.
        """
        with self.database.write() as connection:
            known = self._laid_out(connection)
            here = execute(connection, f"SELECT count(*) FROM {self.question.log.table}").value()
            if known[1] == before[1] and here == n:
                set_meta(connection, self._kept("laid_out"), json.dumps([known[0], after[1]]))

    def _laid_out(self, connection: Connection) -> list[str]:
        """Return the digests of the content that the tasks were planned from, and of the folder's answers at that time.

        An unknown digest is empty.
        """
        return list(json_of(meta(connection, self._kept("laid_out")) or "[]")) or ["", ""]

    def _lay_out(self, connection: Connection, dataset: Dataset, content: Content | None) -> None:
        set_meta(connection, "candidates", self._check(connection, dataset))
        set_meta(connection, "candidates_of", "" if content is None else content[0])
        tasks = sorted(
            self.question.plan(dataset, self.settings, secret=_secret(connection)), key=lambda task: task.task_id
        )
        there = execute(
            connection,
            "SELECT task_id FROM tasks WHERE question = :question AND position >= 0",
            {"question": self.question.name},
        )
        gone = set(there.values()) - {task.task_id for task in tasks}
        if gone:
            asked_no_more = "UPDATE tasks SET position = -1 WHERE task_id = :task"
            execute(connection, asked_no_more, [{"task": name} for name in sorted(gone)])
        names = columns(ReviewTask)
        # A new task is assumed open. `rebuild` closes the few that are not.
        if execute(connection, "SELECT 1 FROM tasks LIMIT 1").first() is None:
            fill(connection, "tasks", [*names, "open1"], ((*_task_row(task, names), 1) for task in tasks))
            return
        new = ", ".join(f"{name} = excluded.{name}" for name in names if name != "task_id")
        other = " OR ".join(f"tasks.{name} <> excluded.{name}" for name in names if name != "task_id")
        execute(
            connection,
            f"INSERT INTO tasks ({', '.join(names)}, open1) VALUES (:{', :'.join(names)}, 1) "
            f"ON CONFLICT (task_id) DO UPDATE SET {new} WHERE {other}",
            [dict(zip(names, _task_row(task, names), strict=True)) for task in tasks],
        )

    def _take_in(self, connection: Connection, dataset: Dataset) -> int:
        """Store the folder's answers to all questions, and return how many to this one were new."""
        fresh = 0
        for name, entry in QUESTIONS.working().items():
            answers = getattr(dataset, entry.table)
            found = question_named(name).log.insert_all(connection, answers) if answers else 0
            if name == self.question.name:
                fresh = found
            elif found:  # the counters of that question do not include them yet
                set_meta(connection, f"laid_out{_suffix(name)}", "[]")
        return fresh

    def _remember(self, connection: Connection, settings: ReviewOptions) -> None:
        """Store the settings, and since when earlier votes are shown or hidden.

        Agreement needs to know this for each vote.
        """
        before = meta(connection, self._kept("settings"))
        kept = meta(connection, self._kept("shown_votes"))
        shown = json_of(kept) if kept else []
        if not shown:
            shown = [["", settings.show_votes if before is None else json_of(before)["show_votes"]]]
        if shown[-1][1] != settings.show_votes:
            last = self._last(connection)
            now = timestamp(self.clock())
            shown.append([now if last is None or now > last else just_after(last), settings.show_votes])
        set_meta(connection, self._kept("settings"), json.dumps(encode(settings)))
        set_meta(connection, self._kept("shown_votes"), json.dumps(shown))

    def _kept(self, name: str) -> str:
        return name + self.suffix

    def _last(self, connection: Connection) -> str | None:
        last = execute(connection, f"SELECT at FROM {self.question.log.table} ORDER BY at DESC LIMIT 1")
        found = last.value()
        return None if found is None else str(found)

    def conduct(self) -> Conduct | None:
        """Return how the review is run, or None if answers were only imported. Paused people are left out."""
        with self.database.read() as connection:
            kept = meta(connection, self._kept("settings"))
            if kept is None:
                return None
            people = execute(connection, "SELECT name FROM annotators WHERE role = 'annotator' AND paused = 0")
            return Conduct(
                settings=decode(ReviewOptions, json_of(kept)),
                people=tuple(sorted(people.values())),
                shown=tuple((since, on) for since, on in json_of(meta(connection, self._kept("shown_votes")) or "[]")),
            )

    def check(self, dataset: Dataset, content: Content) -> None:
        """Raise an error if the store belongs to the candidates of another dataset."""
        with self.database.read() as connection:
            if meta(connection, "candidates_of") != content[0]:
                self._check(connection, dataset)

    def _check(self, connection: Connection, dataset: Dataset) -> str:
        digest = candidates_digest(dataset)
        if meta(connection, "candidates") not in (None, digest):
            raise StrobeError(
                f"the review database {self.database.shown} belongs to another dataset: its candidates differ from "
                f"those of {dataset.name}; give {dataset.name} its own database with <<db>>"
            )
        return digest

    def secret(self) -> bytes:
        """The key of opaque names. It never leaves the server."""
        with self.database.write() as connection:
            return _secret(connection)

    # -- answers ---------------------------------------------------------------------------------------------------

    def append(self, answer: Answer) -> bool:
        """Store an answer unchanged and update the queue. Return False if it already exists."""
        with self.database.write() as connection:
            return self._keep(connection, answer)

    def _keep(self, connection: Connection, answer: Answer) -> bool:
        fresh = self.question.log.insert(connection, answer)
        if fresh:
            self.question.follow(connection, answer, self.settings)
        return fresh

    def extend(self, answers: Iterable[Answer]) -> int:
        """Store answers given elsewhere, all or none, and return how many were new.

        Answers without a time get increasing times, later than those of earlier imports, so that the last answer
        counts.
        """
        log = self.question.log
        with self.database.write() as connection, roomy(connection):
            fresh = log.insert_all(connection, log.in_turn(connection, answers))
            self.question.rebuild(connection, self.settings)
        self.database.tidy()
        return fresh

    def cast(self, answers: Sequence[Answer]) -> list[Saved]:
        """Store the answers of one decision, all or none, with the server's time. A repeated answer changes nothing."""
        (outcome,) = self.cast_each([answers])
        if isinstance(outcome, Conflict):
            raise outcome
        return outcome

    def cast_each(
        self, decisions: Sequence[Sequence[Answer]], *, check: Check | None = None
    ) -> list[list[Saved] | Conflict]:
        """Store several decisions with one commit, each all or none. A refused decision does not affect the others.

        `check` raises Conflict if the answers of a decision must not be accepted (`leases.expect_asked`). Times never
        decrease, even if the clock does, so that the latest answer is the last to arrive.
        """
        out: list[list[Saved] | Conflict] = []
        with self.database.write() as connection:
            last = self._last(connection)
            now = timestamp(self.clock())
            for answers in decisions:
                saved = []
                try:
                    if check is not None:
                        check(connection, self.question.log, answers)
                    # A single refused answer has changed nothing. With several, the earlier ones must be undone.
                    with connection.begin_nested() if len(answers) > 1 else nullcontext():
                        for answer in answers:
                            if last is not None and now <= last:
                                now = just_after(last)
                            stamped = replace(answer, at=now)
                            fresh = self._keep(connection, stamped)
                            if fresh:
                                last = now
                            saved.append(Saved(answer=stamped, fresh=fresh))
                    out.append(saved)
                except Conflict as conflict:
                    out.append(conflict)
        return out

    def all(self) -> Iterator[Any]:
        """Return every answer to this question, oldest first."""
        with self.database.read() as connection:
            found = self.question.log.select(connection, "1 = 1", {})
        yield from found

    def history(
        self, annotator: str, *, before: int | None = None, limit: int = 50
    ) -> list[tuple[int, Any, ReviewTask]]:
        """Return an annotator's last answer to each task, newest first, for undo.

        An answer that a later one replaced, in any round, is not included.
        """
        log = self.question.log
        where = "" if before is None else "AND v.seq < :before"
        later = f"(w.at, w.{log.key}) > (v.at, v.{log.key})"
        with self.database.read() as connection:
            last = execute(
                connection,
                f"SELECT v.seq, v.task_id AS of_task, v.{log.key} AS id FROM {log.table} v "
                f"JOIN tasks t ON t.task_id = v.task_id WHERE v.annotator = :who AND {log.shown} {where} "
                f"AND NOT EXISTS (SELECT 1 FROM {log.table} w WHERE w.task_id = v.task_id "
                f"AND w.annotator = v.annotator AND {later}) ORDER BY v.seq DESC LIMIT :limit",
                {"who": annotator, "before": before, "limit": limit},
            )
            rows = list(last)
            if not rows:
                return []
            ids = {"ids": [row["id"] for row in rows]}
            answers = {log.id_of(one): one for one in log.select(connection, f"{log.key} IN :ids", ids)}
            names = {"names": [row["of_task"] for row in rows]}
            found = execute(connection, "SELECT * FROM tasks WHERE task_id IN :names", names)
            tasks = {row["task_id"]: record_of(ReviewTask, row) for row in found}
        return [(int(row["seq"]), answers[row["id"]], tasks[row["of_task"]]) for row in rows]

    def names(self) -> list[str]:
        """Return everyone who takes part or ever answered, including imported answers.

        People who take part come first.
        """
        with self.database.read() as connection:
            people = sorted(execute(connection, "SELECT name FROM annotators").values())
            with_answers: set[str] = set()
            for table in (entry.table for entry in QUESTIONS.working().values()):
                with_answers.update(execute(connection, _SPOKE.replace("{table}", table)).values())
        return list(dict.fromkeys([*people, *sorted(with_answers)]))

    def answers_on(self, where: str, values: Mapping[str, Any]) -> list[Any]:
        """Return every answer to this question that matches the condition, oldest first."""
        with self.database.read() as connection:
            return self.question.log.select(connection, where, values)

    def task_of(self, answer: Answer) -> ReviewTask | None:
        """Return the task of an answer."""
        with self.database.read() as connection:
            own = f"SELECT * FROM tasks WHERE {self.question.log.own_task}"
            row = execute(connection, own, row_of(answer)).first()
        return None if row is None else record_of(ReviewTask, row)

    def task(self, task_id: str) -> ReviewTask | None:
        """Return a task by its opaque name."""
        with self.database.read() as connection:
            row = execute(connection, "SELECT * FROM tasks WHERE task_id = :id", {"id": task_id}).first()
        return None if row is None else record_of(ReviewTask, row)


_SPOKE = """WITH RECURSIVE spoke(name) AS (SELECT min(annotator) FROM {table} UNION ALL
    SELECT (SELECT min(annotator) FROM {table} WHERE annotator > spoke.name) FROM spoke WHERE spoke.name IS NOT NULL)
    SELECT name FROM spoke WHERE name IS NOT NULL"""
"""All names with answers, one by one through the index, because there are few names and many answers."""


def _task_row(task: ReviewTask, names: Sequence[str]) -> list[Any]:
    """Return the values of a task's columns. A task without a kin is its own kin."""
    return [getattr(task, name) or (task.task_id if name == "kin" else getattr(task, name)) for name in names]


_LAYOUT = 1
"""The version of planning and counting. After it changes, every store plans and counts its tasks again."""

_NO_MATTER = ("lease_s", "show_votes", "limit_s", "at_once", "hints", "examples", "goal", "guidelines")
"""Settings that change neither the tasks nor which of them are open."""


def _laid_out(content: Content | None, settings: ReviewOptions) -> list[str]:
    if content is None:
        return ["", ""]
    asked = {name: value for name, value in encode(settings).items() if name not in _NO_MATTER}
    of = json.dumps([_LAYOUT, content[0], asked], sort_keys=True)
    return [hashlib.sha256(of.encode()).hexdigest(), content[1]]


def _suffix(question: str) -> str:
    return "" if question == "pairs" else f":{question}"


def _secret(connection: Connection) -> bytes:
    found = meta(connection, "secret")
    if found is None:
        found = secrets.token_hex(32)
        set_meta(connection, "secret", found)
    return bytes.fromhex(found)
