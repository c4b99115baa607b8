"""The interface of a question: what the store, the server and the page need from it.

All questions share people, leases, the guard, the outbox, undo and export. A question plans its tasks, makes its cards,
checks answers, decides which tasks an answer opens or closes, and computes its figures. Its page is `page/NAME.js` and
`page/NAME.html`.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

from sqlalchemy import Connection

from strobe.annexes.web.review.conduct import Conduct, ReviewOptions
from strobe.annexes.web.review.log import AnswerLog
from strobe.annexes.web.review.pictures import FrameImages
from strobe.annexes.web.review.places import TableLookup
from strobe.annexes.web.review.plan import Claimed, ReviewTask
from strobe.annexes.web.review.questions import QUESTIONS
from strobe.annexes.web.review.tally import Counts
from strobe.annexes.web.review.votes import ImportedAnswers
from strobe.core.dataset import Dataset
from strobe.core.late import load


class Deck(Protocol):
    """The cards of one question on one dataset, and answers from the page's input."""

    def told(self) -> dict[str, Any]:
        """Return the settings that the page loads when it starts."""
        ...

    def card(self, claimed: Claimed, annotator: str | None) -> dict[str, Any]:
        """Return a task as the page shows it to one annotator or to a group (None): at least `task` and `stage`."""
        ...

    def cards(self, claimed: Sequence[Claimed], annotator: str | None) -> list[dict[str, Any]]:
        """Return the cards of tasks that were claimed together: one card for each task, unless several tasks share a
        page.
        """
        return [self.card(one, annotator) for one in claimed]

    def past(self, answer: Any, task: ReviewTask) -> dict[str, Any]:
        """Return an earlier answer for undo: its `card` and the `decision`."""
        ...

    def pasts(self, answers: Sequence[tuple[Any, ReviewTask]]) -> list[dict[str, Any]]:
        """Return earlier answers in the order in which undo steps back through them."""
        return [self.past(answer, task) for answer, task in answers]

    def body(self, content: bytes) -> Any:
        """Check the page's input field by field. It has at least `task` and `who`."""
        ...

    def answer(self, body: Any, task: ReviewTask, annotator: str) -> Any:
        """Turn a checked body into an answer without a time. Raise InvalidValue if that is impossible."""
        ...


class Question(Protocol):
    """One question that people answer."""

    name: str
    log: AnswerLog
    """The log of its answers."""
    real: str
    """The kind of its regular tasks."""
    controls: tuple[str, ...]
    """The kinds of hidden controls."""
    together: bool
    """Whether a group may decide on one screen."""

    def plan(self, dataset: Dataset, settings: ReviewOptions, *, secret: bytes) -> list[ReviewTask]:
        """Return every task of a dataset, with opaque names, in a seeded order."""
        ...

    def stage(self, task: ReviewTask) -> str:
        """Return the stage of an answer in round one. In round two, the stage is always `verify`."""
        ...

    def page_of(self, task: ReviewTask, settings: ReviewOptions) -> str:
        """Return the id of a task's page in round one. Tasks with the same page are shown together."""
        ...

    def fresh(
        self, connection: Connection, settings: ReviewOptions, values: Mapping[str, Any], want: int
    ) -> list[ReviewTask]:
        """Return, in display order, open tasks for up to `want` pages. These are tasks that `who` may get and does not
        hold yet.
        """
        ...

    def open_for(self, connection: Connection, settings: ReviewOptions, who: str, *, whole: Counts, own: Counts) -> int:
        """Return how many open tasks of round one could still be given to `who`, now or when a lease ends.

        `whole` has the counts of all tasks of the question, and `own` has the counts of the person's answers (`tally`).
        """
        ...

    def follow(self, connection: Connection, answer: Any, settings: ReviewOptions) -> None:
        """Update the counters for one new answer: the tasks that it closes and reopens."""
        ...

    def rebuild(self, connection: Connection, settings: ReviewOptions) -> None:
        """Compute every counter again from the answers."""
        ...

    def deck(self, dataset: Dataset, store: Any, places: TableLookup, pictures: FrameImages) -> Deck:
        """Return the cards of a dataset whose answers are in the store."""
        ...

    def read(self, path: Path, dataset: Dataset, *, annotator: str, known: Iterable[str]) -> ImportedAnswers:
        """Read answers from a file. `annotator` is the author of answers without a name, and `known` has the names in
        use.
        """
        ...

    def summarise(self, dataset: Dataset, answers: Sequence[Any], conduct: Conduct | None) -> dict[str, Any]:
        """Return the figures of status, review.json and the admin page."""
        ...


def question_named(name: str) -> Question:
    """Return the question of that name."""
    return cast(Question, load(QUESTIONS[name].question)())
