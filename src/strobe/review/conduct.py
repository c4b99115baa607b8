"""How a review is run: its settings, and the store's record of these settings."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from strobe.core.codec import LEFT_OUT, decode
from strobe.core.errors import InvalidValue, expect
from strobe.core.files import read_json
from strobe.core.inside import inside
from strobe.core.records import Verdict

__all__ = ["AT_ONCE", "HINTS", "Conduct", "Example", "ReviewOptions", "exported_conduct"]

AT_ONCE = ("pair", "set")
"""What one page of pairs can show: one pair, or all pairs of a set."""

HINTS = ("after", "before", "never")
"""When people see the hints of a pair: after their vote, before it, or never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A pair with a known answer, to practise on. `note` explains it."""

    set_id: str
    frame_id: str
    decision: Literal["similar", "dissimilar", "unsure"]
    reason: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewOptions:
    """Settings of a review. The settings may change between two starts of the server without any loss.

    `votes` is the number of annotators per task in round one. `controls` is the share of hidden controls. `labels` adds
    a label stage before the pairs. `verify` adds round two, with earlier votes shown or hidden. For names only:
    `limit_s` is the time in which a person sees and answers an image, and `practice` is the number of practice images
    for each person. For boxes only: `agree` is the IoU below which two boxes need round two. For pairs only: `at_once`
    is what a page of round one shows, `hints` is when people see hints, and `examples` are the pairs that people
    practise on first. `goal` is each person's daily number of answers, and `guidelines` is the project's text.
    """

    votes: int = 1
    seed: int = 0
    lease_s: float = 600.0
    controls: float = 0.04
    labels: bool = False
    verify: bool = True
    show_votes: bool = False
    limit_s: float | None = field(default=None, metadata=LEFT_OUT)
    practice: int | None = field(default=None, metadata=LEFT_OUT)
    agree: float | None = field(default=None, metadata=LEFT_OUT)
    at_once: Literal["pair", "set"] = "pair"
    hints: Literal["after", "before", "never"] = "after"
    examples: tuple[Example, ...] = ()
    goal: int | None = field(default=None, metadata=LEFT_OUT)
    guidelines: str | None = field(default=None, metadata=LEFT_OUT)

    def __post_init__(self) -> None:
        expect(self.votes >= 1, "votes", ">= 1", self.votes)
        expect(self.lease_s > 0, "lease", "more than 0 seconds", self.lease_s)
        expect(0 <= self.controls <= 0.5, "controls", "a share from 0 to 0.5", self.controls)
        expect(self.limit_s is None or self.limit_s > 0, "limit", "more than 0 seconds", self.limit_s)
        expect(self.practice is None or self.practice >= 0, "practice", ">= 0", self.practice)
        expect(self.goal is None or self.goal >= 1, "goal", ">= 1", self.goal)
        expect(self.at_once in AT_ONCE, "at_once", f"one of {', '.join(AT_ONCE)}", self.at_once)
        expect(self.hints in HINTS, "hints", f"one of {', '.join(HINTS)}", self.hints)
        expect(self.agree is None or 0 < self.agree <= 1, "agree", "an overlap above 0, up to 1", self.agree)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """How a review is run, as recorded in its store. The votes alone do not show these facts.

    `people` are the annotators that round two waits for. `shown` records since when round two shows or hides earlier
    votes, oldest first. A vote's `at` is compared with these times.
    """

    settings: ReviewOptions
    people: tuple[str, ...] = ()
    shown: tuple[tuple[str, bool], ...] = ()

    def showed_votes(self, at: str) -> bool:
        """Whether round two showed earlier votes at that time.

        >>> conduct = Conduct(settings=ReviewOptions(), shown=(("", True), ("2026-02", False)))
        >>> conduct.showed_votes("2026-01-31"), conduct.showed_votes("2026-02-01")
        (True, False)
        """
        return next((on for since, on in reversed(self.shown) if since <= at), self.settings.show_votes)

    def is_alone(self, verdict: Verdict) -> bool:
        """Whether a vote is independent. Joint decisions are not independent, and neither are votes of round two if
        earlier votes were shown.
        """
        return verdict.stage != "joint" and (verdict.stage != "verify" or not self.showed_votes(verdict.at))

    @classmethod
    def from_json(cls, data: object) -> "Conduct | None":
        """Read the record from review.json, for folders without a store. Return None if the record is invalid."""
        try:
            return decode(cls, data)
        except InvalidValue:
            return None


def exported_conduct(folder: Path, name: str = "review.json") -> Conduct | None:
    """Return how a review was run, as recorded by its last export, or None if there is no record."""
    path = inside(folder, name)
    figures = read_json(path) if path.is_file() else None
    return Conduct.from_json(figures.get("conduct") if isinstance(figures, dict) else None)
