"""How a review is run: its settings, and the store's record of these settings."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from strobe.analyses.voting import RoundTwo
from strobe.core.codec import LEFT_OUT, decode
from strobe.core.errors import InvalidValue, expect
from strobe.core.files import inside, read_json
from strobe.core.options import check_options, option

PROXY = "A reverse proxy in front of the server. Its X-Forwarded-For is believed, and nobody else's. May be repeated."
"""The help of an option of all servers."""

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
class ServeOptions:
    """The address and the people. Without a token or invited names, the server is reachable only from this machine."""

    db: str | None = option(
        None,
        "Database of the answers: postgresql://user@host/name. Default: DATASET/review.sqlite.",
        metavar="URL",
        envvar="STROBE_REVIEW_DB",
    )
    host: str = option("127.0.0.1", "Address to listen on.")
    port: int = option(8321, "Port. 0 chooses a free one.", least=0, most=65535)
    public_url: str | None = option(
        None, "The address that people open, if it differs from host and port.", metavar="URL"
    )
    proxy: tuple[str, ...] = option((), PROXY, metavar="ADDRESS")
    token: str | None = option(
        None,
        "Shared secret that people enter to join. Prefer the environment variable.",
        envvar="STROBE_REVIEW_TOKEN",
    )
    invite: tuple[str, ...] = option((), "Print a personal link for this annotator. May be repeated.", metavar="NAME")
    observers: tuple[str, ...] = option(
        (), "Print a read-only link for this person. May be repeated.", flag="--observer", metavar="NAME"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewOptions:
    """Settings of a review. The settings may change between two starts of the server without any loss.

    For names only: `limit_s` and `practice`. For boxes only: `agree`. For pairs only: `at_once`, `hints` and
    `examples`, the pairs that people practise on first. `guidelines` is the project's text. `sample` is a
    digest of the sets that people are asked about, if these are a sample.
    """

    votes: int = option(1, "Annotators per pair or image in the first round.", least=1)
    labels: bool = option(False, "Start with a label stage, in which people add or remove labels of each anchor.")
    verify: bool = option(True, "Second round: everyone sees doubtful pairs, or boxes that differ.")
    show_votes: bool = option(False, "Show earlier votes or boxes in the second round.")
    agree: float | None = option(
        None,
        "IoU below which two boxes differ. Default: 0.7.",
        metavar="IOU",
        least=0,
        most=1,
        above=True,
        rule="an overlap above 0, up to 1",
        metadata=LEFT_OUT,
    )
    controls: float = option(
        0.04, "Share of hidden control questions.", least=0, most=0.5, rule="a share from 0 to 0.5"
    )
    lease_s: float = 600.0
    limit_s: float | None = option(
        None,
        "Seconds that an image is shown and can be named.",
        flag="--limit",
        metavar="SECONDS",
        least=0,
        above=True,
        rule="more than 0 seconds",
        metadata=LEFT_OUT,
    )
    practice: int | None = option(
        None,
        "Number of images or pairs to practise on, with the answers. Default: 5 images (at most a quarter of the "
        "groups), or the pairs of --examples.",
        metavar="N",
        least=0,
        metadata=LEFT_OUT,
    )
    at_once: Literal["pair", "set"] = option(
        "pair", "pair: one pair at a time. set: a whole set, in which all frames are similar except those you mark."
    )
    hints: Literal["after", "before", "never"] = option(
        "after", "When people see the hints of a pair, if the dataset has hints."
    )
    goal: int | None = option(None, "Daily goal of answers per person.", metavar="N", least=1, metadata=LEFT_OUT)
    seed: int = 0
    examples: tuple[Example, ...] = ()
    guidelines: str | None = field(default=None, metadata=LEFT_OUT)
    sample: str | None = field(default=None, metadata=LEFT_OUT)

    def __post_init__(self) -> None:
        check_options(self)
        expect(self.lease_s > 0, "lease", "more than 0 seconds", self.lease_s)
        expect(self.at_once in AT_ONCE, "at_once", f"one of {', '.join(AT_ONCE)}", self.at_once)
        expect(self.hints in HINTS, "hints", f"one of {', '.join(HINTS)}", self.hints)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """How a review is run, as recorded in its store. The votes alone do not show these facts.

    `people` are the annotators that round two waits for. `shown` records since when round two shows or hides earlier
    votes, oldest first. A vote's `at` is compared with these times.
    """

    settings: ReviewOptions
    people: tuple[str, ...] = ()
    shown: tuple[tuple[str, bool], ...] = ()

    @property
    def round_two(self) -> RoundTwo:
        """When round two showed earlier votes."""
        return RoundTwo(shown=self.shown, otherwise=self.settings.show_votes)

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
