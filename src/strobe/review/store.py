"""Votes, appended and never changed, and the queue that follows from them.

Every vote is one transaction: the row itself, the latest word of that annotator, and the counters of the task.
"""

import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace

from sqlalchemy import Connection

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.records import Verdict
from strobe.review import counters, log
from strobe.review.conduct import Conduct, ReviewSettings
from strobe.review.database import Database, execute, meta, set_meta
from strobe.review.log import Conflict
from strobe.review.moments import just_after, timestamp
from strobe.review.plan import Task, candidates_digest, plan
from strobe.review.rows import row_of_task, task_of, verdict_of

__all__ = ["Saved", "Store"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The acknowledgement of one vote; `fresh` is False for a replay."""

    verdict: Verdict
    fresh: bool


class Store:
    """The votes and the queue of one dataset in one database."""

    def __init__(self, url: str, *, clock: Callable[[], float] = time.time) -> None:
        self.database = Database(url)
        self.clock = clock
        self.settings = ReviewSettings()

    def close(self) -> None:
        """Give the connections back."""
        self.database.close()

    # -- the dataset -----------------------------------------------------------------------------------------------

    def prepare(self, dataset: Dataset, settings: ReviewSettings, *, remember: bool = True) -> None:
        """Bind the store to a dataset's candidates, lay out its tasks and take in the votes the folder already has.

        The settings are remembered, except where nobody chose them (an import before the first `serve`).
        """
        self.settings = settings
        with self.database.write() as connection:
            set_meta(connection, "candidates", self._check(connection, dataset))
            if remember:
                self._remember(connection, settings)
            execute(connection, "UPDATE tasks SET position = -1")
            secret = _secret(connection)
            tasks = plan(dataset, secret=secret, seed=settings.seed, controls=settings.controls)
            execute(
                connection,
                "INSERT INTO tasks (task_id, kind, position, set_id, frame_id) "
                "VALUES (:task_id, :kind, :position, :set_id, :frame_id) "
                "ON CONFLICT (task_id) DO UPDATE SET position = excluded.position",
                [row_of_task(task) for task in tasks],
            )
            log.insert_all(connection, dataset.verdicts)
            counters.rebuild(connection, settings)

    def _remember(self, connection: Connection, settings: ReviewSettings) -> None:
        """Keep the settings, and since when earlier votes are shown or hidden: agreement asks that of each vote."""
        before = meta(connection, "settings")
        kept = meta(connection, "shown_votes")
        shown = json.loads(kept) if kept else []
        if not shown:
            shown = [["", settings.show_votes if before is None else json.loads(before)["show_votes"]]]
        if shown[-1][1] != settings.show_votes:
            last = execute(connection, "SELECT max(at) FROM verdicts").scalar()
            now = timestamp(self.clock())
            shown.append([now if last is None or now > last else just_after(last), settings.show_votes])
        set_meta(connection, "settings", json.dumps(asdict(settings)))
        set_meta(connection, "shown_votes", json.dumps(shown))

    def conduct(self) -> Conduct | None:
        """How the review is run, or None where it never was (only imports). Who is paused is not waited for."""
        with self.database.read() as connection:
            kept = meta(connection, "settings")
            if kept is None:
                return None
            people = execute(connection, "SELECT name FROM annotators WHERE role = 'annotator' AND paused = 0")
            return Conduct(
                settings=ReviewSettings(**json.loads(kept)),
                people=tuple(sorted(people.scalars())),
                shown=tuple((since, on) for since, on in json.loads(meta(connection, "shown_votes") or "[]")),
            )

    def check(self, dataset: Dataset) -> None:
        """Raise unless the store holds votes on this dataset's candidates, or none at all."""
        with self.database.read() as connection:
            self._check(connection, dataset)

    def _check(self, connection: Connection, dataset: Dataset) -> str:
        digest = candidates_digest(dataset)
        if meta(connection, "candidates") not in (None, digest):
            raise StrobeError(
                f"the review database {self.database.shown} belongs to other candidates than those of "
                f"{dataset.name}; give this dataset its own with --db"
            )
        return digest

    def secret(self) -> bytes:
        """What opaque names are made with; never leaves the server."""
        with self.database.write() as connection:
            return _secret(connection)

    # -- votes -----------------------------------------------------------------------------------------------------

    def append(self, verdict: Verdict) -> bool:
        """Keep a vote as it is; False if it was already there. The queue follows."""
        with self.database.write() as connection:
            return self._keep(connection, verdict)

    def _keep(self, connection: Connection, verdict: Verdict) -> bool:
        fresh = log.insert(connection, verdict)
        if fresh:
            counters.follow(connection, verdict, self.settings)
        return fresh

    def extend(self, verdicts: Iterable[Verdict]) -> int:
        """Keep votes made elsewhere, all or none; how many were new comes back.

        Those without a time get one in the order they come in, after those taken in before: the last word counts.
        """
        with self.database.write() as connection:
            fresh = log.insert_all(connection, log.in_turn(connection, verdicts))
            counters.rebuild(connection, self.settings)
            return fresh

    def cast(self, verdicts: list[Verdict]) -> list[Saved]:
        """Keep the votes of one decision, all or none, stamped with the server's time; replays change nothing."""
        (outcome,) = self.cast_each([verdicts])
        if isinstance(outcome, Conflict):
            raise outcome
        return outcome

    def cast_each(self, decisions: list[list[Verdict]]) -> list[list[Saved] | Conflict]:
        """Keep several decisions with one commit, each all or none; one that is refused leaves the others be.

        Stamps never run backwards, even where the clock does, so that the latest word is the last to arrive.
        """
        out: list[list[Saved] | Conflict] = []
        with self.database.write() as connection:
            last = execute(connection, "SELECT at FROM verdicts ORDER BY at DESC LIMIT 1").scalar()
            now = timestamp(self.clock())
            for verdicts in decisions:
                saved = []
                try:
                    with connection.begin_nested():
                        for verdict in verdicts:
                            if last is not None and now <= last:
                                now = just_after(last)
                            stamped = replace(verdict, at=now)
                            fresh = self._keep(connection, stamped)
                            if fresh:
                                last = now
                            saved.append(Saved(verdict=stamped, fresh=fresh))
                    out.append(saved)
                except Conflict as conflict:
                    out.append(conflict)
        return out

    def all(self) -> Iterator[Verdict]:
        """Every vote ever cast, oldest first."""
        with self.database.read() as connection:
            found = log.votes(connection, "1 = 1", {})
        yield from found

    def history(self, annotator: str, *, before: int | None = None, limit: int = 50) -> list[tuple[int, Verdict, Task]]:
        """What an annotator said last of each task, newest first: what undo walks back through.

        What was decided together is undone together; a vote that it, or round two, overtook is not shown as theirs.
        """
        where = "" if before is None else "AND v.seq < :before"
        with self.database.read() as connection:
            rows = execute(
                connection,
                f"SELECT v.*, t.kind, t.position FROM verdicts v JOIN tasks t ON t.task_id = v.task_id "  # noqa: S608
                f"WHERE v.annotator = :who AND v.stage <> 'joint' {where} AND NOT EXISTS (SELECT 1 FROM verdicts w "
                "WHERE w.task_id = v.task_id AND w.annotator = v.annotator "
                "AND (w.at, w.verdict_id) > (v.at, v.verdict_id)) ORDER BY v.seq DESC LIMIT :limit",
                {"who": annotator, "before": before, "limit": limit},
            ).mappings()
            return [(int(row["seq"]), verdict_of(row), task_of(row)) for row in rows]

    def names(self) -> list[str]:
        """Everyone who takes part or ever voted, also votes made elsewhere; who takes part first."""
        with self.database.read() as connection:
            people = execute(connection, "SELECT name FROM annotators").scalars().all()
            voters = execute(connection, "SELECT DISTINCT annotator FROM verdicts").scalars().all()
        return list(dict.fromkeys([*sorted(people), *sorted(voters)]))

    def votes_on(self, task: Task) -> list[Verdict]:
        """Every vote on one task, oldest first."""
        with self.database.read() as connection:
            return log.votes(connection, "task_id = :name", {"name": task.task_id})

    def votes_on_anchors(self, set_ids: Iterable[str]) -> list[Verdict]:
        """Every vote of the label stage on these sets' anchors, oldest first."""
        anchors = "task_id IN (SELECT task_id FROM tasks WHERE kind = 'anchor' AND set_id IN :sets)"
        with self.database.read() as connection:
            return log.votes(connection, anchors, {"sets": list(set_ids)})

    def task(self, task_id: str) -> Task | None:
        """A task by its opaque name."""
        with self.database.read() as connection:
            row = execute(connection, "SELECT * FROM tasks WHERE task_id = :id", {"id": task_id}).mappings().first()
        return None if row is None else task_of(row)


def _secret(connection: Connection) -> bytes:
    found = meta(connection, "secret")
    if found is None:
        found = secrets.token_hex(32)
        set_meta(connection, "secret", found)
    return bytes.fromhex(found)
