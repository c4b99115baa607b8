"""Models that answer over a network: what they may be asked, what they answer, and how a request fails."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import StrobeError, UnknownName, expect
from strobe.core.records import Detections

Blame = Literal["again", "frame", "model"]
"""What a failed request means: ask again, this frame has no answer, or the model cannot be asked at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """How a service may be asked: `concurrency` requests at the same time, `per_second` (0 for no limit), `timeout` in
    seconds for one try, and `retries` after the first try.

    Prices are the user's: `price_request` for one request, `price_input` and `price_output` for a million tokens.

    >>> RequestLimits.of({"concurrency": 4, "price_input": 2.5}).concurrency
    4
    """

    concurrency: int = 8
    per_second: float = 0.0
    timeout: float = 60.0
    retries: int = 5
    price_request: float = 0.0
    price_input: float = 0.0
    price_output: float = 0.0

    def __post_init__(self) -> None:
        expect(1 <= self.concurrency <= 1024, "limits: concurrency", "1–1024", self.concurrency)
        expect(self.concurrency == int(self.concurrency), "limits: concurrency", "an integer", self.concurrency)
        expect(0 <= self.per_second <= 1e6, "limits: per_second", "0–1,000,000", self.per_second)
        expect(0 < self.timeout <= 86_400, "limits: timeout", "more than 0 and at most 86,400 seconds", self.timeout)
        expect(0 <= self.retries <= 100, "limits: retries", "0–100", self.retries)
        expect(self.retries == int(self.retries), "limits: retries", "an integer", self.retries)
        for name in ("price_request", "price_input", "price_output"):
            expect(0 <= getattr(self, name) <= 1e9, f"limits: {name}", "0–1e9", getattr(self, name))

    @classmethod
    def of(cls, given: Mapping[str, float] | None) -> "RequestLimits":
        """Return the limits with these values; the others have their defaults."""
        known = [field.name for field in fields(cls)]
        unknown = next((name for name in given or {} if name not in known), None)
        if unknown is not None:
            raise UnknownName("limit", unknown, known, hint=f"the limits are {', '.join(known)}")
        whole = {name: int(value) if name in ("concurrency", "retries") and value == int(value) else value
                 for name, value in (given or {}).items()}  # fmt: skip
        return cls(**whole)  # type: ignore[arg-type]  # the checks in __post_init__ cover the types

    def cost(self, spent: "Usage") -> float:
        """Return what this usage costs at these prices."""
        tokens = spent.input_tokens * self.price_input + spent.output_tokens * self.price_output
        return spent.requests * self.price_request + tokens / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What requests used: their number, with every try; bytes sent; tokens, if the service counts them.

    The engine counts the `retries` among the requests, the frames that have `failed`, and the `cost` at the user's
    prices.
    """

    requests: int = 0
    sent_bytes: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    retries: int = 0
    failed: int = 0
    cost: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum.

        >>> (Usage(requests=1, sent_bytes=10) + Usage(requests=2)).requests
        3
        """
        return Usage(**{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(Usage)})

    def __sub__(self, other: "Usage") -> "Usage":
        """Return the difference."""
        return Usage(**{field.name: getattr(self, field.name) - getattr(other, field.name) for field in fields(Usage)})

    def text(self) -> str:
        """Return the numbers in words.

        >>> Usage(requests=12, sent_bytes=3_400_000, retries=2).text()
        '12 requests (2 retries), 3.4 MB sent'
        """
        again = f" ({self.retries:,} retr{'y' if self.retries == 1 else 'ies'})" if self.retries else ""
        line = (
            f"{self.requests:,} request{'' if self.requests == 1 else 's'}{again}, {self.sent_bytes / 1e6:,.1f} MB sent"
        )
        tokens = self.input_tokens + self.output_tokens
        line += f", {self.input_tokens:,} + {self.output_tokens:,} tokens" if tokens else ""
        return line + (f", cost {self.cost:,.4g}" if self.cost else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteAnswer:
    """The answer to one image: `scores` (C,) over the model's classes, or `found` boxes.

    With neither, the answer is outside the model's classes. `said` is the text of the answer, if the service gave one.
    """

    scores: NDArray[np.float32] | None = None
    found: Detections | None = None
    said: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The answers to one request, one per image in order, and what the request used."""

    answers: tuple[RemoteAnswer, ...]
    used: Usage = Usage(requests=1)


class RequestFailed(StrobeError):
    """A request without a usable answer.

    `blame` says what follows from it. `after` is the number of seconds that the service asked to wait (`Retry-After`).
    `used` is what the failed try used.
    """

    def __init__(self, reason: str, *, blame: Blame, after: float | None = None, used: Usage | None = None) -> None:
        super().__init__(reason)
        self.blame, self.after, self.used = blame, after, used or Usage(requests=1)
