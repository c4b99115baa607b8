"""The question of whether two frames look the same: its plan, counters, cards and summary."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from strobe.annexes.web.review import counters, tally
from strobe.annexes.web.review.conduct import Conduct, ReviewOptions
from strobe.annexes.web.review.database import execute
from strobe.annexes.web.review.deck import PairDeck
from strobe.annexes.web.review.pictures import FrameImages
from strobe.annexes.web.review.places import TableLookup
from strobe.annexes.web.review.plan import ReviewTask, plan
from strobe.annexes.web.review.rows import record_of
from strobe.annexes.web.review.store import Store
from strobe.annexes.web.review.votes import ImportedAnswers, read_votes
from strobe.core.dataset import Dataset
from strobe.core.records import Verdict

MOST_AT_ONCE = 40
"""The largest number of pairs per page. The rest of a larger set gets its own page."""


class PairQuestion:
    """The question of whether an anchor and a neighbour look the same.

    If requested, people first choose the anchor's labels.
    """

    name = "pairs"
    log = counters.VERDICTS
    real = "pair"
    controls = ("same", "different")
    together = True

    def plan(self, dataset: Dataset, settings: ReviewOptions, *, secret: bytes) -> list[ReviewTask]:
        """Return every pair, every anchor, and the controls."""
        return plan(dataset, secret=secret, seed=settings.seed, controls=settings.controls)

    def stage(self, task: ReviewTask) -> str:
        """Return `anchor` for an anchor alone and `pair` for all other tasks."""
        return "anchor" if task.kind == "anchor" else "pair"

    def page_of(self, task: ReviewTask, settings: ReviewOptions) -> str:
        """A pair has its own page or shares the page of its set. An anchor always has its own page."""
        return task.set_id if settings.at_once == "set" and task.kind != "anchor" else task.task_id

    def fresh(
        self, connection: Connection, settings: ReviewOptions, values: Mapping[str, Any], want: int
    ) -> list[ReviewTask]:
        """Return first the anchors that need labels, then pairs or whole sets of pairs."""

        def new_tasks(kind: str, wanted: int, most: int, where: str = "", **more: Any) -> list[ReviewTask]:
            asked = {"who": values["who"], "kind": kind, "wanted": wanted, "want": most, **more}
            rows = execute(connection, _FRESH.replace("{where}", where), asked)
            return [record_of(ReviewTask, row) for row in rows]

        tasks = new_tasks("anchor", 1, want) if settings.labels else []
        if settings.at_once == "pair":
            return tasks + (new_tasks("pair", settings.votes, want - len(tasks)) if len(tasks) < want else [])
        taken = [""]
        while len(tasks) + len(taken) - 1 < want:
            first = new_tasks("pair", settings.votes, 1, "AND t.set_id NOT IN :taken", taken=taken)
            if not first:
                break
            taken.append(first[0].set_id)
        of_set = [new_tasks("pair", settings.votes, MOST_AT_ONCE, "AND t.set_id = :set", set=one) for one in taken[1:]]
        return tasks + [task for one in of_set for task in one]

    def open_for(
        self, _connection: Connection, settings: ReviewOptions, _who: str, *, whole: tally.Counts, own: tally.Counts
    ) -> int:
        """Return the number of open tasks of round one that the person has not voted on."""
        mine = own["pair"]["open1"] + (own["pair"]["waiting"] if settings.labels else 0)
        return whole["anchor"]["open1"] + whole["pair"]["open1"] - mine

    def follow(self, connection: Connection, answer: Verdict, settings: ReviewOptions) -> None:
        """Update the counters of the pair and, if its anchor is in doubt, of its set."""
        counters.follow(connection, answer, settings)

    def rebuild(self, connection: Connection, settings: ReviewOptions) -> None:
        """Compute every counter again."""
        counters.rebuild(connection, settings)

    def deck(self, dataset: Dataset, store: Store, places: TableLookup, pictures: FrameImages) -> PairDeck:
        """Return the cards of a dataset."""
        return PairDeck(dataset, store, places, pictures)

    def read(self, path: Path, dataset: Dataset, *, annotator: str, known: Iterable[str]) -> ImportedAnswers:
        """Read the papers' annotation JSON, or CSV."""
        return read_votes(path, dataset, annotator=annotator, known=known)

    def summarise(self, dataset: Dataset, answers: Sequence[Verdict], conduct: Conduct | None) -> dict[str, Any]:
        """Return the papers' table, agreement, control pairs, reasons and pace."""
        from strobe.annexes.web.review.summary import summarise  # imported late: a server starts without SciPy

        return summarise(dataset, answers, conduct=conduct)


_FRESH = """SELECT t.* FROM tasks t WHERE t.question = 'pairs' AND t.kind = :kind AND t.open1 = 1
    AND t.votes + (SELECT count(*) FROM leases l WHERE l.task_id = t.task_id) < :wanted
    AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.task_id = t.task_id AND l.annotator = :who)
    AND NOT EXISTS (SELECT 1 FROM latest l WHERE l.task_id = t.task_id AND l.annotator = :who AND l.round = 1) {where}
    ORDER BY t.position LIMIT :want"""
"""The query checks leases first, because the tasks at the front of the queue are usually leased to other people."""
