"""The questions that people can be asked: one list, read without importing the server or its packages.

Packages cannot add a question: its answers need a table in the dataset folder, whose format is strobe's own.
"""

from dataclasses import dataclass

from strobe.core.errors import expect
from strobe.core.late import Registry
from strobe.core.people import PEOPLE


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionEntry:
    """A question as `--ask` names it. `question` is its class as "module:Class", and `asks` is its wording in the help.

    `table` stores its answers, in the review store and in the dataset folder. `settings` lists the review options that
    the question supports beyond the common ones. `takes` lists the supported options of serve and export: examples,
    suggest, plan, out, crops, unreviewed.
    """

    question: str
    asks: str
    table: str
    settings: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        expect(self.table in PEOPLE, "QuestionEntry.table", f"one of {', '.join(PEOPLE)}", self.table)


PAIRS = QuestionEntry(
    question="strobe.annexes.web.review.pairs:PairQuestion",
    asks="do two frames look the same?",
    table="verdicts",
    settings=("practice", "at_once", "hints", "labels", "show_votes"),
    takes=("examples", "out", "unreviewed"),
)
NAME = QuestionEntry(
    question="strobe.annexes.web.review.naming:NameQuestion",
    asks="what does the image show?",
    table="names",
    settings=("limit_s", "practice"),
    takes=("plan",),
)
BOX = QuestionEntry(
    question="strobe.annexes.web.review.boxing:BoxQuestion",
    asks="where is its object?",
    table="drawn",
    settings=("show_votes", "agree"),
    takes=("suggest", "out", "crops"),
)
CHECK = QuestionEntry(
    question="strobe.annexes.web.review.checking:CheckQuestion",
    asks="does a flickering set show one thing throughout?",
    table="checks",
    takes=("plan",),
)

QUESTIONS = Registry(
    "questions",
    QuestionEntry,
    "question",
    {
        "pairs": "strobe.annexes.web.review.questions:PAIRS",
        "name": "strobe.annexes.web.review.questions:NAME",
        "box": "strobe.annexes.web.review.questions:BOX",
        "check": "strobe.annexes.web.review.questions:CHECK",
    },
    closed=True,
)
"""Every question by the name that `--ask` takes. The first is the default."""
