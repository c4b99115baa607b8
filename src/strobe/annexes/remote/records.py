"""Models behind an address in the results: what their answers cost, and what they answered outside the classes."""

from dataclasses import dataclass, field

from strobe.core.codec import LEFT_OUT, Count
from strobe.core.remote import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideAnswer:
    """An answer that is none of the classes, and the number of frames that got it."""

    said: str
    frames: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteScore:
    """One model: what the requests for its stored answers used, and its answers outside the classes.

    `outside` has the most frequent answers first. Rare answers beyond the first thousand are counted as `others`.
    """

    spent: Usage
    outside: tuple[OutsideAnswer, ...] = ()
    others: Count | None = field(default=None, metadata=LEFT_OUT)
