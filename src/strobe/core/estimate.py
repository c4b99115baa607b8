"""A measured number always comes with its interval, its n and its method."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar

from strobe.core.codec import LEFT_OUT, Count
from strobe.core.errors import invalid

_SLACK = 1e-9
"""How far rounding may move a value: relative to the largest bound, or as a share of n."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value with its 95 % interval.

    `count` is the number of successes if the value is the proportion count/n, else None. The value is within its
    bounds, whatever the method. Bounds are None if there is no
    interval, and `reason` then explains why. `value` is None if nothing could be measured (never zero).

    >>> Estimate(value=0.5, low=0.4, high=0.6, n=100, count=50, method="clopper-pearson").text()
    '50.0 [40.0, 60.0]'
    """

    value: float | None
    low: float | None
    high: float | None
    n: Count
    count: Count | None = None
    method: str = "none"
    reason: str | None = field(default=None, metadata=LEFT_OUT)

    JSON_RULE: ClassVar[Mapping[str, Any]] = {
        "if": {"properties": {"low": {"type": "null"}}},
        "then": {"required": ["reason"]},
    }

    def __post_init__(self) -> None:
        # A score has hundreds of estimates, so a message is formatted only if a check fails.
        if self.n < 0:
            raise invalid("Estimate.n", ">= 0", self.n)
        if (self.low is None) != (self.high is None):
            raise invalid("Estimate bounds", "both or neither", (self.low, self.high))
        if self.low is None and self.reason is None:
            raise invalid("Estimate.reason", "a reason, because the bounds are null", None)
        for name in ("value", "low", "high"):
            number = getattr(self, name)
            if number is not None and not math.isfinite(number):
                raise invalid(f"Estimate.{name}", "a finite number or None", number)
        if self.count is not None and (self.value is None or abs(self.value * self.n - self.count) > _SLACK * self.n):
            raise invalid("Estimate.value", f"{self.count}/{self.n}, which is its count/n", self.value)
        if self.low is not None and self.high is not None:
            ends = (self.low, self.high) if self.value is None else (self.low, self.value, self.high)
            slack = _SLACK * max(map(abs, ends))
            if any(one > other + slack for one, other in pairwise(ends)):
                raise invalid("Estimate", "low <= value <= high", ends)

    def __repr__(self) -> str:
        bounds = "" if self.low is None or self.high is None else f" [{self.low:.4g}, {self.high:.4g}]"
        value = "None" if self.value is None else f"{self.value:.4g}"
        why = "" if self.reason is None else f", reason={self.reason!r}"
        return f"Estimate({value}{bounds}, n={self.n}{why})"

    def text(self, *, scale: float = 100.0, digits: int = 1) -> str:
        """Return the value and its interval as text, or an em dash if there is no value.

        Args:
            scale: The factor for all numbers; 100 prints per cent.
            digits: The number of digits after the decimal point.
        """
        if self.value is None:
            return "—"
        shown = f"{self.value * scale:.{digits}f}"
        ends = self.ends(scale=scale, digits=digits)
        return shown if ends is None else f"{shown} [{ends[0]}, {ends[1]}]"

    def ends(self, *, scale: float = 100.0, digits: int = 1) -> tuple[str, str] | None:
        """Return both ends as text, or None. An end that is not 0 but rounds to it has a sign behind: 0.0+.

        Otherwise a significant difference would have an interval that seems to include 0. Shares have no such sign,
        because no share is below 0.

        >>> Estimate(value=0.3, low=1e-12, high=0.6, n=9).text()
        '30.0 [0.0+, 60.0]'
        >>> Estimate(value=-0.3, low=-0.6, high=-1e-12, n=9).text()
        '-30.0 [-60.0, 0.0-]'
        """
        if self.low is None or self.high is None:
            return None
        low, high = (f"{end * scale:z.{digits}f}" for end in (self.low, self.high))
        if self.count is None and self.low > 0 and float(low) == 0:
            low += "+"
        if self.count is None and self.high < 0 and float(high) == 0:
            high += "-"
        return low, high


@dataclass(frozen=True, slots=True)
class Missing:
    """The reason why a part of the results is absent, stored in place of that part."""

    reason: str
