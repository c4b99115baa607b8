"""What a question is: everything the store, the server and the page need to know of one, and nothing more.

People, leases, the guard, the outbox, undo and export are shared. A question supplies its plan, its cards, the check of
an answer, what an answer opens or closes, and what follows from all of them; its page is `page/NAME.js` and
`page/NAME.html`.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from sqlalchemy import Connection

from strobe.core.dataset import Dataset
from strobe.core.errors import UnknownName
from strobe.review.conduct import Conduct, ReviewOptions
from strobe.review.log import AnswerLog
from strobe.review.pictures import FrameImages
from strobe.review.places import TableLookup
from strobe.review.plan import Claimed, ReviewTask
from strobe.review.tally import Counts
from strobe.review.votes import ImportedAnswers

__all__ = ["QUESTIONS", "TABLES", "Deck", "Question", "question_named"]

QUESTIONS = {
    "pairs": "strobe.review.pairs:PairQuestion",
    "name": "strobe.review.naming:NameQuestion",
    "box": "strobe.review.boxing:BoxQuestion",
}
"""The questions by the name `--ask` takes (`conduct.ASK`)."""

TABLES = {"pairs": "verdicts", "name": "names", "box": "drawn"}
"""Where the answers to each lie: for who asks no more of a question than that, as each brings much along."""


class Deck(Protocol):
    """The cards of one question on one dataset, and answers of what comes back."""

    def told(self) -> dict[str, Any]:
        """What the page is told at the start."""
        ...

    def card(self, claimed: Claimed, annotator: str | None) -> dict[str, Any]:
        """A task as the page shows it to one annotator, or to a group (None): at least `task` and `stage`."""
        ...

    def cards(self, claimed: Sequence[Claimed], annotator: str | None) -> list[dict[str, Any]]:
        """The cards of tasks that were claimed together: one each, unless some stand on one page."""
        return [self.card(one, annotator) for one in claimed]

    def past(self, answer: Any, task: ReviewTask) -> dict[str, Any]:
        """An answer already given, for undo: its `card` and the `decision`."""
        ...

    def pasts(self, answers: Sequence[tuple[Any, ReviewTask]]) -> list[dict[str, Any]]:
        """Answers already given, in the order they come in, as the page walks back through them."""
        return [self.past(answer, task) for answer, task in answers]

    def body(self, content: bytes) -> Any:
        """What the page sent, checked field by field; it has at least `task` and `who`."""
        ...

    def answer(self, body: Any, task: ReviewTask, annotator: str) -> Any:
        """A checked body as an answer without a time; InvalidValue where it cannot be one."""
        ...


class Question(Protocol):
    """One thing asked of people."""

    name: str
    log: AnswerLog
    """Where its answers lie."""
    real: str
    """The kind of its tasks that is the work itself."""
    controls: tuple[str, ...]
    """The kinds that are hidden among them."""
    together: bool
    """Whether a group may decide on one screen."""

    def plan(self, dataset: Dataset, settings: ReviewOptions, *, secret: bytes) -> list[ReviewTask]:
        """Every task of a dataset, opaquely named, in a seeded order."""
        ...

    def stage(self, task: ReviewTask) -> str:
        """The stage of an answer to a task of round one; that of round two is `verify`."""
        ...

    def page_of(self, task: ReviewTask, settings: ReviewOptions) -> str:
        """The name of the page a task of round one stands on: tasks of one name are shown at once."""
        ...

    def fresh(
        self, connection: Connection, settings: ReviewOptions, values: Mapping[str, Any], want: int
    ) -> list[ReviewTask]:
        """Open tasks for up to `want` pages that `who` may be given and does not hold yet, the first to show first."""
        ...

    def open_for(self, connection: Connection, settings: ReviewOptions, who: str, *, whole: Counts, own: Counts) -> int:
        """How many open tasks of round one could still be given to `who`, now or when a lease runs out.

        `whole` are the counts of all its tasks, `own` those of what they said (`tally`).
        """
        ...

    def follow(self, connection: Connection, answer: Any, settings: ReviewOptions) -> None:
        """Bring the counters up to one new answer: what it closes, what it opens again."""
        ...

    def rebuild(self, connection: Connection, settings: ReviewOptions) -> None:
        """Make every counter anew from the answers."""
        ...

    def deck(self, dataset: Dataset, store: Any, places: TableLookup, pictures: FrameImages) -> Deck:
        """The cards of a dataset, whose answers lie in the store."""
        ...

    def read(self, path: Path, dataset: Dataset, *, annotator: str, known: Iterable[str]) -> ImportedAnswers:
        """Answers made elsewhere: those of a file; `annotator` gave those that do not say who, `known` are in use."""
        ...

    def summarise(self, dataset: Dataset, answers: Sequence[Any], conduct: Conduct | None) -> dict[str, Any]:
        """What follows from the answers: the figures of status, review.json and the admin page."""
        ...


def question_named(name: str) -> Question:
    """The question of that name."""
    if name not in QUESTIONS:
        raise UnknownName("question", name, QUESTIONS)
    module, _, attribute = QUESTIONS[name].partition(":")
    return cast(Question, getattr(import_module(module), attribute)())
