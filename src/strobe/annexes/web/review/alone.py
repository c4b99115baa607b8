"""Questions about one image: which images a person may get, and which tasks an answer closes or reopens.

A kin is a group of related images. A person gets at most one image of each kin, even if it stays unanswered. A person
gets about the same number of images of each condition.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from strobe.annexes.web.review import tally
from strobe.annexes.web.review.conduct import ReviewOptions
from strobe.annexes.web.review.database import execute, execute_all
from strobe.annexes.web.review.log import LATEST, AnswerLog, round_of, say_latest
from strobe.annexes.web.review.plan import ReviewTask
from strobe.annexes.web.review.rows import record_of, row_of


class SingleImageQuestion:
    """The parts that questions about one image share. Each image has at most one task."""

    name: str
    log: AnswerLog
    real = "picture"
    controls: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    """The kinds that every person gets first."""
    together = False
    twice = False
    """Whether doubtful tasks go to round two."""
    mixed = True
    """Whether images differ in condition or kin, so that assignment must balance conditions and avoid kin."""

    # -- methods that a question may override
    # -------------------------------------------------------------------------------

    def counts(self, _answer: Any) -> bool:
        """Whether an answer counts towards the requested number."""
        return True

    def is_doubtful(self, _answers: Sequence[Any], _settings: ReviewOptions) -> bool:
        """Whether these answers of round one, one per annotator, need round two."""
        return False

    def page_of(self, task: ReviewTask, _settings: ReviewOptions) -> str:
        """Return the task itself: each image has its own page."""
        return task.task_id

    # -- assignment -------------------------------------------------------------------------------------------------

    def fresh(
        self, connection: Connection, settings: ReviewOptions, values: Mapping[str, Any], want: int
    ) -> list[ReviewTask]:
        """Return first the tasks that everyone gets, then images of the conditions that this person has seen least."""
        params = {"question": self.name, "who": values["who"]}
        tasks = (
            self._tasks(connection, _FIRST, {**params, "kinds": list(self.first), "want": want}) if self.first else []
        )
        params |= {"real": self.real, "wanted": settings.votes}
        if not self.mixed:
            rest = {"condition": "", "taken": [""], "want": want - len(tasks)}
            return tasks + self._tasks(connection, _NEXT, {**params, **rest})
        given = self._given(connection, params)
        taken = [""]
        while len(tasks) < want and given:
            condition = min(given, key=lambda name: (given[name], name))
            found = self._tasks(connection, _NEXT, {**params, "condition": condition, "taken": taken, "want": 1})
            if not found:
                del given[condition]
                continue
            given[condition] += 1
            taken.append(found[0].kin)
            tasks += found
        return tasks

    def open_for(
        self, connection: Connection, _settings: ReviewOptions, who: str, *, whole: tally.Counts, own: tally.Counts
    ) -> int:
        """Return how many more images, one per kin, this person can get."""
        del own  # the person's answers do not include images that were given but not answered
        asked = {"question": self.name, "real": self.real, "who": who}
        mine = execute(connection, _OPEN_AND_SEEN, asked).value()
        return whole[tally.KIN if self.mixed else self.real]["open1"] - int(mine)

    def _given(self, connection: Connection, asked: dict[str, Any]) -> Counter[str]:
        """Return how many images of each open condition this person was given, answered or not."""
        own = {name: asked[name] for name in ("question", "real", "who")}
        given = Counter(dict.fromkeys(tally.open_conditions(connection, self.name, self.real), 0))
        rows = execute(
            connection,
            "SELECT (SELECT t.condition FROM tasks t WHERE t.task_id = g.task_id AND t.question = :question "
            "AND t.kind = :real) AS condition FROM (SELECT task_id FROM latest WHERE annotator = :who "
            "UNION SELECT task_id FROM given WHERE annotator = :who) g",
            own,
        )
        given.update(name for name in rows.values() if name in given)
        return given

    def _tasks(self, connection: Connection, statement: str, values: dict[str, Any]) -> list[ReviewTask]:
        return [record_of(ReviewTask, row) for row in execute(connection, statement, values)]

    # -- tasks that an answer closes
    # --------------------------------------------------------------------------------------

    def follow(self, connection: Connection, answer: Any, settings: ReviewOptions) -> None:
        """Update the counters of the answer's image."""
        own = row_of(answer)
        task = execute(connection, f"SELECT * FROM tasks WHERE {self.log.own_task}", own).first()
        if task is None:
            return
        name = {"task": task["task_id"], "question": self.name}
        where = "question = :question AND task_id = :task"
        whose = {"task": task["task_id"], "who": answer.annotator}
        execute_all(
            connection,
            [
                *tally.less(settings, where, name, kins=self.mixed),
                (LATEST, self._latest(task, answer)),
                ("DELETE FROM leases WHERE task_id = :task AND annotator = :who", whose),
            ],
        )
        self._recount(connection, settings, [task["task_id"]])
        execute_all(connection, tally.more(settings, where, name, kins=self.mixed))

    def rebuild(self, connection: Connection, settings: ReviewOptions) -> None:
        """Compute every counter again from the answers."""
        own = {"question": self.name}
        mine = "SELECT task_id FROM tasks WHERE question = :question"
        execute(connection, f"DELETE FROM latest WHERE task_id IN ({mine})", own)
        self.log.find_tasks(connection)
        found = execute(connection, "SELECT * FROM tasks WHERE question = :question", own)
        tasks = {row["frame_id"]: row for row in found}
        latest: dict[tuple[str, str, int], dict[str, Any]] = {}
        for answer in self.log.select(connection, "1 = 1", {}):
            if answer.frame_id in tasks:
                row = self._latest(tasks[answer.frame_id], answer)
                latest[row["task_id"], row["annotator"], row["round"]] = row
        say_latest(connection, list(latest.values()))
        self._recount(connection, settings, None)
        tally.renew(connection, settings, self.name, kins=self.mixed)

    def _latest(self, task: Mapping[str, Any], answer: Any) -> dict[str, Any]:
        return {
            "task_id": task["task_id"],
            "annotator": answer.annotator,
            "round": round_of(answer),
            "at": answer.at,
            "verdict_id": answer.answer_id,
            "clean": int(self.counts(answer)),
            "bad": 0,
            "kin": task["kin"],
        }

    def _recount(self, connection: Connection, settings: ReviewOptions, only: list[str] | None) -> None:
        """Recompute how many answers these tasks have (None: all), which are doubtful, and which are open."""
        where = "question = :question" + ("" if only is None else " AND task_id IN :only")
        own: dict[str, Any] = {"question": self.name} | ({} if only is None else {"only": only})
        execute(
            connection,
            "UPDATE tasks SET flags = 0, votes = (SELECT count(*) FROM latest l WHERE l.task_id = tasks.task_id "
            f"AND l.round = 1 AND l.clean = 1) WHERE {where} AND (votes > 0 OR flags > 0 "
            "OR EXISTS (SELECT 1 FROM latest l WHERE l.task_id = tasks.task_id))",
            own,
        )
        doubtful = self._doubtful(connection, settings, only) if self.twice else []
        if doubtful:
            execute(connection, "UPDATE tasks SET flags = 1 WHERE task_id = :task", [{"task": one} for one in doubtful])
        execute(
            connection,
            f"UPDATE tasks SET open1 = {_OPEN1}, open2 = {_OPEN2} WHERE {where} "
            f"AND (open1 <> {_OPEN1} OR open2 <> {_OPEN2})",
            {**own, "real": self.real, "wanted": settings.votes, "verify": int(settings.verify)},
        )

    def _doubtful(self, connection: Connection, settings: ReviewOptions, only: list[str] | None) -> list[str]:
        """Return the tasks whose answers of round one need round two."""
        table, key = self.log.table, self.log.key
        rows = execute(
            connection,
            f"SELECT v.* FROM latest l JOIN {table} v ON v.{key} = l.verdict_id WHERE l.round = 1"
            + ("" if only is None else " AND l.task_id IN :only"),
            {} if only is None else {"only": only},
        )
        of_task: dict[str, list[Any]] = {}
        for row in rows:
            of_task.setdefault(row["task_id"], []).append(record_of(self.log.record, row))
        return [task for task, answers in of_task.items() if self.is_doubtful(answers, settings)]


_OPEN1 = "CASE WHEN position < 0 OR (kind = :real AND votes >= :wanted) THEN 0 ELSE 1 END"

_OPEN2 = """CASE WHEN position >= 0 AND kind = :real AND :verify = 1 AND votes >= :wanted AND flags > 0
    THEN 1 ELSE 0 END"""


_FIRST = """SELECT t.* FROM tasks t WHERE t.question = :question AND t.kind IN :kinds AND t.open1 = 1
    AND NOT EXISTS (SELECT 1 FROM latest l WHERE l.task_id = t.task_id AND l.annotator = :who)
    AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.task_id = t.task_id AND l.annotator = :who)
    ORDER BY t.position LIMIT :want"""

_OPEN = "t.question = :question AND t.kind = :real AND t.open1 = 1"

_NEXT = f"""SELECT t.* FROM tasks t WHERE {_OPEN} AND t.condition = :condition AND t.kin NOT IN :taken
    AND NOT EXISTS (SELECT 1 FROM latest l WHERE l.annotator = :who AND l.kin = t.kin)
    AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.annotator = :who AND l.kin = t.kin)
    AND NOT EXISTS (SELECT 1 FROM given g WHERE g.annotator = :who AND g.kin = t.kin AND g.task_id <> t.task_id)
    AND t.votes + (SELECT count(*) FROM leases l WHERE l.task_id = t.task_id) < :wanted
    ORDER BY t.position LIMIT :want"""

_OPEN_AND_SEEN = f"""SELECT count(*) FROM (
    SELECT l.kin FROM latest l WHERE l.annotator = :who
    UNION SELECT g.kin FROM given g WHERE g.annotator = :who
    AND NOT EXISTS (SELECT 1 FROM tasks o WHERE o.task_id = g.task_id AND o.open1 = 1)) seen
    WHERE EXISTS (SELECT 1 FROM tasks t WHERE {_OPEN} AND t.kin = seen.kin)"""
"""Counts each kin that is open only for other people.

The caller subtracts this count, so that both counts use an index.
"""
