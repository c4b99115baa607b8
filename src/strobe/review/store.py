"""Votes, appended and never changed, and the queue that follows from them.

Every vote is one transaction: the row itself, the latest word of that annotator, and the counters of the task. The
counters only ever repeat what the votes say (`rebuild` makes them anew), so the votes alone are the truth.
"""

import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, text

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.records import Verdict
from strobe.review.plan import Conduct, ReviewSettings, Task, candidates_digest, plan
from strobe.review.rows import NO_TIME, latest_row, row_of_task, row_of_verdict, task_of, verdict_of
from strobe.review.schema import Database

__all__ = ["Conflict", "Saved", "Store", "timestamp"]

_COLUMNS = (
    "verdict_id, annotator, at, stage, set_id, frame_id, decision, label_right, reason, bad_anchor, labels, note, "
    "seconds, page_version"
)


class Conflict(StrobeError):
    """The same vote id came again with another content: one of the two is not what it says it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The acknowledgement of one vote; `fresh` is False for a replay."""

    verdict: Verdict
    fresh: bool


def timestamp(seconds: float) -> str:
    """A moment as text that sorts by time: UTC to the microsecond.

    >>> timestamp(0.25)
    '1970-01-01T00:00:00.250000Z'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Store:
    """The votes and the queue of one dataset in one database (a VerdictStore)."""

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
            secret = self._secret(connection)
            connection.execute(text("UPDATE tasks SET position = -1"))
            tasks = plan(dataset, secret=secret, seed=settings.seed, controls=settings.controls)
            connection.execute(
                text(
                    "INSERT INTO tasks (task_id, kind, position, set_id, frame_id) "
                    "VALUES (:task_id, :kind, :position, :set_id, :frame_id) "
                    "ON CONFLICT (task_id) DO UPDATE SET position = excluded.position"
                ),
                [row_of_task(task) for task in tasks],
            )
            self._insert_all(connection, dataset.verdicts)
            self._rebuild(connection)

    def _remember(self, connection: Connection, settings: ReviewSettings) -> None:
        """Keep the settings, and since when earlier votes are shown or hidden: agreement asks that of each vote."""
        before = meta(connection, "settings")
        kept = meta(connection, "shown_votes")
        shown = json.loads(kept) if kept else []
        if not shown:
            shown = [["", settings.show_votes if before is None else json.loads(before)["show_votes"]]]
        if shown[-1][1] != settings.show_votes:
            last = connection.execute(text("SELECT max(at) FROM verdicts")).scalar()
            now = timestamp(self.clock())
            shown.append([now if last is None or now > last else _just_after(last), settings.show_votes])
        set_meta(connection, "settings", json.dumps(asdict(settings)))
        set_meta(connection, "shown_votes", json.dumps(shown))

    def last_settings(self) -> ReviewSettings | None:
        """The settings the review was last run with, so that other commands leave its queue as it is; None if never."""
        conduct = self.conduct()
        return None if conduct is None else conduct.settings

    def conduct(self) -> Conduct | None:
        """How the review is run, or None where it never was (only imports). Who is paused is not waited for."""
        with self.database.read() as connection:
            kept = meta(connection, "settings")
            if kept is None:
                return None
            people = connection.execute(text("SELECT name FROM annotators WHERE role = 'annotator' AND paused = 0"))
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

    def _secret(self, connection: Connection) -> bytes:
        found = meta(connection, "secret")
        if found is None:
            found = secrets.token_hex(32)
            set_meta(connection, "secret", found)
        return bytes.fromhex(found)

    def secret(self) -> bytes:
        """What opaque names are made with; never leaves the server."""
        with self.database.write() as connection:
            return self._secret(connection)

    # -- votes -----------------------------------------------------------------------------------------------------

    def append(self, verdict: Verdict) -> bool:
        """Keep a vote as it is; False if it was already there. The queue follows."""
        with self.database.write() as connection:
            fresh = self._insert(connection, verdict)
            if fresh:
                self._follow(connection, verdict)
            return fresh

    def extend(self, verdicts: Iterable[Verdict]) -> int:
        """Keep votes made elsewhere, all or none; how many were new comes back.

        Those without a time get one in the order they come in, after those taken in before: the last word counts.
        """
        with self.database.write() as connection:
            fresh = self._insert_all(connection, self._in_turn(connection, verdicts))
            self._rebuild(connection)
            return fresh

    def _in_turn(self, connection: Connection, verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
        there = set(connection.execute(text("SELECT verdict_id FROM verdicts")).scalars())
        first_day = {"end": "1970-01-02"}
        last = connection.execute(text("SELECT max(at) FROM verdicts WHERE at < :end"), first_day).scalar() or NO_TIME
        for verdict in verdicts:
            if verdict.at == NO_TIME and verdict.verdict_id not in there:
                last = _just_after(last)
                yield replace(verdict, at=last)
            else:
                yield verdict

    def _insert_all(self, connection: Connection, verdicts: Iterable[Verdict]) -> int:
        """Many votes at once, those already there left out; their tasks are found by the rebuild that must follow."""
        there = set(connection.execute(text("SELECT verdict_id FROM verdicts")).scalars())
        fresh = {verdict.verdict_id: verdict for verdict in verdicts if verdict.verdict_id not in there}
        if fresh:
            names = _COLUMNS.split(", ")
            connection.execute(
                text(f"INSERT INTO verdicts ({_COLUMNS}, task_id) VALUES (:{', :'.join(names)}, '')"),  # noqa: S608
                [row_of_verdict(verdict) for verdict in fresh.values()],
            )
        return len(fresh)

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
            last = connection.execute(text("SELECT at FROM verdicts ORDER BY at DESC LIMIT 1")).scalar()
            now = timestamp(self.clock())
            for verdicts in decisions:
                saved = []
                try:
                    with connection.begin_nested():
                        for verdict in verdicts:
                            if last is not None and now <= last:
                                now = _just_after(last)
                            stamped = replace(verdict, at=now)
                            fresh = self._insert(connection, stamped)
                            if fresh:
                                last = now
                                self._follow(connection, stamped)
                            saved.append(Saved(verdict=stamped, fresh=fresh))
                    out.append(saved)
                except Conflict as conflict:
                    out.append(conflict)
        return out

    def all(self) -> Iterator[Verdict]:
        """Every vote ever cast, oldest first."""
        with self.database.read() as connection:
            found = [verdict_of(row) for row in connection.execute(text(f"SELECT {_COLUMNS} FROM verdicts")).mappings()]  # noqa: S608
        # Sorted here: databases differ in how they order text.
        yield from sorted(found, key=lambda verdict: (verdict.at, verdict.verdict_id))

    def history(self, annotator: str, *, before: int | None = None, limit: int = 50) -> list[tuple[int, Verdict, Task]]:
        """What an annotator said last of each task, newest first: what undo walks back through.

        What was decided together is undone together; a vote that it, or round two, overtook is not shown as theirs.
        """
        where = "" if before is None else "AND v.seq < :before"
        with self.database.read() as connection:
            rows = connection.execute(
                text(
                    f"SELECT v.*, t.kind, t.position FROM verdicts v JOIN tasks t ON t.task_id = v.task_id "  # noqa: S608
                    f"WHERE v.annotator = :who AND v.stage <> 'joint' {where} AND NOT EXISTS (SELECT 1 FROM verdicts w "
                    "WHERE w.task_id = v.task_id AND w.annotator = v.annotator "
                    "AND (w.at, w.verdict_id) > (v.at, v.verdict_id)) ORDER BY v.seq DESC LIMIT :limit"
                ),
                {"who": annotator, "before": before, "limit": limit},
            ).mappings()
            return [(int(row["seq"]), verdict_of(row), task_of(row)) for row in rows]

    def names(self) -> list[str]:
        """Everyone who takes part or ever voted, also votes made elsewhere; who takes part first."""
        with self.database.read() as connection:
            people = connection.execute(text("SELECT name FROM annotators")).scalars().all()
            voters = connection.execute(text("SELECT DISTINCT annotator FROM verdicts")).scalars().all()
        return list(dict.fromkeys([*sorted(people), *sorted(voters)]))

    def votes_on(self, task: Task) -> list[Verdict]:
        """Every vote on one task, oldest first."""
        return self._votes("task_id = :name", {"name": task.task_id})

    def votes_on_anchors(self, set_ids: Sequence[str]) -> list[Verdict]:
        """Every vote of the label stage on these sets' anchors (one or more), oldest first."""
        names = {f"s{place}": set_id for place, set_id in enumerate(set_ids)}
        listed = ", ".join(f":{key}" for key in names)
        return self._votes(
            f"task_id IN (SELECT task_id FROM tasks WHERE kind = 'anchor' AND set_id IN ({listed}))",  # noqa: S608
            names,
        )

    def _votes(self, where: str, values: Mapping[str, str]) -> list[Verdict]:
        with self.database.read() as connection:
            rows = connection.execute(
                text(f"SELECT {_COLUMNS} FROM verdicts WHERE {where} ORDER BY at, verdict_id"),  # noqa: S608
                values,
            ).mappings()
            return [verdict_of(row) for row in rows]

    def task(self, task_id: str) -> Task | None:
        """A task by its opaque name."""
        with self.database.read() as connection:
            row = (
                connection.execute(text("SELECT * FROM tasks WHERE task_id = :id"), {"id": task_id}).mappings().first()
            )
        return None if row is None else task_of(row)

    def _insert(self, connection: Connection, verdict: Verdict) -> bool:
        values = row_of_verdict(verdict)
        added = connection.execute(
            text(
                f"INSERT INTO verdicts ({_COLUMNS}, task_id) VALUES (:verdict_id, :annotator, :at, :stage, :set_id, "  # noqa: S608
                ":frame_id, :decision, :label_right, :reason, :bad_anchor, :labels, :note, :seconds, :page_version, "
                "coalesce((SELECT task_id FROM tasks WHERE set_id = :set_id AND frame_id = :frame_id AND "
                "(kind = 'anchor') = (:stage = 'anchor')), '')) ON CONFLICT (verdict_id) DO NOTHING"
            ),
            values,
        ).rowcount
        if added:
            return True
        found = connection.execute(
            text(f"SELECT {_COLUMNS} FROM verdicts WHERE verdict_id = :id"),  # noqa: S608
            {"id": verdict.verdict_id},
        )
        row = found.mappings().one()
        if replace(verdict_of(row), at="", seconds=None) != replace(verdict, at="", seconds=None):
            raise Conflict("this vote id is already taken by another vote; reload the page and decide again")
        return False

    # -- counters --------------------------------------------------------------------------------------------------

    def _follow(self, connection: Connection, verdict: Verdict) -> None:
        """Bring the counters up to one new vote."""
        kind = "= 'anchor'" if verdict.stage == "anchor" else "<> 'anchor'"
        found = connection.execute(
            text(f"SELECT * FROM tasks WHERE set_id = :set AND frame_id = :frame AND kind {kind}"),  # noqa: S608
            {"set": verdict.set_id, "frame": verdict.frame_id},
        )
        task = found.mappings().first()
        if task is None:
            return
        connection.execute(text(_UPSERT_LATEST), latest_row(task["task_id"], verdict))
        connection.execute(
            text("DELETE FROM leases WHERE task_id = :task AND annotator = :who"),
            {"task": task["task_id"], "who": verdict.annotator},
        )
        self._recount(connection, {"task": task["task_id"]}, "task_id = :task")
        after = connection.execute(
            text("SELECT bads FROM tasks WHERE task_id = :task"), {"task": task["task_id"]}
        ).scalar_one()
        if task["kind"] == "anchor" or after or task["bads"]:
            self._reopen(connection, {"set": verdict.set_id}, "set_id = :set")
        else:
            self._reopen(connection, {"task": task["task_id"]}, "task_id = :task", hold=False)

    def _recount(self, connection: Connection, values: Mapping[str, Any], where: str) -> None:
        connection.execute(
            text(
                f"""UPDATE tasks SET
                votes = (SELECT count(*) FROM latest l WHERE l.task_id = tasks.task_id AND l.round = 1),
                flags = (SELECT count(*) FROM latest l WHERE l.task_id = tasks.task_id AND l.round = 1 AND l.clean = 0),
                voters = (SELECT count(DISTINCT l.annotator) FROM latest l WHERE l.task_id = tasks.task_id),
                bads = (SELECT count(*) FROM latest l WHERE l.task_id = tasks.task_id AND l.bad = 1 AND NOT EXISTS (
                    SELECT 1 FROM latest m WHERE m.task_id = l.task_id AND m.annotator = l.annotator
                    AND m.round <> l.round AND (m.at, m.verdict_id) > (l.at, l.verdict_id)))
                WHERE {where}"""  # noqa: S608
            ),
            values,
        )

    def _reopen(self, connection: Connection, values: Mapping[str, Any], where: str, *, hold: bool = True) -> None:
        """Say anew which tasks are open in round one and in round two; `hold` also which sets are held back."""
        if hold:
            connection.execute(
                text(f"UPDATE tasks SET held = {_HELD} WHERE {where}"),  # noqa: S608
                {**values, "labels": int(self.settings.labels)},
            )
        connection.execute(
            text(
                f"""UPDATE tasks SET
                open1 = CASE WHEN position < 0 THEN 0
                    WHEN kind = 'pair' AND votes < :wanted AND held = 0 THEN 1
                    WHEN kind = 'anchor' AND :labels = 1 AND votes < 1 AND held IN (0, 2) THEN 1
                    WHEN kind IN ('same', 'different') THEN 1 ELSE 0 END,
                open2 = CASE WHEN kind = 'pair' AND position >= 0 AND :verify = 1 AND votes >= :wanted AND flags > 0
                    AND (held = 0 OR bads > 0) THEN 1 ELSE 0 END
                WHERE {where}"""  # noqa: S608
            ),
            {
                **values,
                "wanted": self.settings.votes,
                "labels": int(self.settings.labels),
                "verify": int(self.settings.verify),
            },
        )

    def _rebuild(self, connection: Connection) -> None:
        """Make every counter anew from the votes."""
        connection.execute(text("DELETE FROM latest"))
        tasks = {
            (row["set_id"], row["frame_id"], row["kind"] == "anchor"): row["task_id"]
            for row in connection.execute(text("SELECT task_id, kind, set_id, frame_id FROM tasks")).mappings()
        }
        rows = connection.execute(text(f"SELECT {_COLUMNS} FROM verdicts ORDER BY at, verdict_id")).mappings().all()  # noqa: S608
        latest: dict[tuple[str, str, int], dict[str, Any]] = {}
        for verdict in map(verdict_of, rows):
            task = tasks.get((verdict.set_id, verdict.frame_id, verdict.stage == "anchor"))
            if task is not None:
                row = latest_row(task, verdict)
                latest[task, verdict.annotator, row["round"]] = row
        if latest:
            connection.execute(text(_UPSERT_LATEST), list(latest.values()))
        # A vote may have come before its task was laid out (an import into an empty store).
        connection.execute(
            text(
                "UPDATE verdicts SET task_id = coalesce((SELECT t.task_id FROM tasks t WHERE "
                "t.set_id = verdicts.set_id AND t.frame_id = verdicts.frame_id "
                "AND (t.kind = 'anchor') = (verdicts.stage = 'anchor')), '') "
                "WHERE task_id = ''"
            )
        )
        self._recount(connection, {}, "1 = 1")
        self._reopen(connection, {}, "1 = 1")


_HELD = """
    (CASE WHEN EXISTS (SELECT 1 FROM tasks o WHERE o.set_id = tasks.set_id AND (
        (o.kind = 'pair' AND o.bads > 0 AND 2 * (o.voters - o.bads) <= o.voters)
        OR (o.kind = 'anchor' AND o.votes > 0 AND 2 * (o.votes - o.flags) <= o.votes)))
        THEN 1 ELSE 0 END)
    + (CASE WHEN :labels = 1 AND EXISTS (SELECT 1 FROM tasks o WHERE o.set_id = tasks.set_id AND o.kind = 'anchor'
        AND o.votes = 0) THEN 2 ELSE 0 END)"""
"""Why a task is held back: 1 the set has a bad anchor, 2 its anchor waits for its labels."""

_UPSERT_LATEST = """INSERT INTO latest (task_id, annotator, round, at, verdict_id, clean, bad)
    VALUES (:task_id, :annotator, :round, :at, :verdict_id, :clean, :bad)
    ON CONFLICT (task_id, annotator, round) DO UPDATE SET
    at = excluded.at, verdict_id = excluded.verdict_id, clean = excluded.clean, bad = excluded.bad
    WHERE (latest.at, latest.verdict_id) < (excluded.at, excluded.verdict_id)"""


def meta(connection: Connection, name: str) -> str | None:
    """A setting kept in the database."""
    value = connection.execute(text("SELECT value FROM meta WHERE name = :name"), {"name": name}).scalar()
    return None if value is None else str(value)


def set_meta(connection: Connection, name: str, value: str) -> None:
    """Keep a setting in the database."""
    connection.execute(
        text("INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = :value"),
        {"name": name, "value": value},
    )


def _just_after(moment: str) -> str:
    seconds = datetime.fromisoformat(moment).timestamp()
    return timestamp(round(seconds + 2e-6, 6))
