"""When a service is asked: the rate, the back-off after a failure, the budget of a command, and the breaker."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from strobe.core.errors import StrobeError
from strobe.core.remote import RequestFailed, RequestLimits, Usage

_FIRST_S, _LAST_S = 0.5, 60.0
"""The back-off before the first retry, and the largest."""
_LONGEST_S = 300.0
"""The longest wait that a service can ask for."""
_SPREAD = 0.1
"""After a wait that the service asked for, requests start within this share of it, not all at once."""
_FAILURES = 16
"""The smallest number of failures in a row that ends a model."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The time, and a way to wait that an event ends early."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[threading.Event, float], object] = threading.Event.wait


def backoff(failed: int, error: RequestFailed, rng: np.random.Generator) -> float:
    """Return the seconds to wait after this many failures of a request: doubled each time, half of it at random.

    If the service asked for a wait (`Retry-After`), it is the least, up to five minutes.

    >>> rng = np.random.default_rng(0)
    >>> 0.5 <= backoff(2, RequestFailed("busy", blame="again"), rng) <= 1
    True
    >>> 7 <= backoff(1, RequestFailed("busy", blame="again", after=7), rng) <= 7.7
    True
    """
    own = min(_LAST_S, _FIRST_S * 2.0 ** min(failed - 1, 30)) * rng.uniform(0.5, 1.0)
    asked = min(error.after or 0.0, _LONGEST_S)
    return float(max(own, asked * (1 + _SPREAD * rng.uniform())))


class Pacer:
    """Spaces the requests of all threads, and pauses all of them if the service asks for it."""

    def __init__(self, per_second: float, clock: Clock, stop: threading.Event) -> None:
        self._gap, self._clock, self._stop = 1 / per_second if per_second else 0.0, clock, stop
        self._next, self._guard = 0.0, threading.Lock()

    def pause(self, seconds: float) -> None:
        """Let no request start for this time."""
        with self._guard:
            self._next = max(self._next, self._clock.now() + min(seconds, _LONGEST_S))

    def wait(self) -> None:
        """Wait until the next request may start, or until the stop."""
        with self._guard:
            now = self._clock.now()
            start = max(now, self._next)
            if self._gap:
                self._next = start + self._gap
        if start > now:
            self._clock.wait(self._stop, start - now)


class Breaker:
    """Counts failures in a row. A success resets the count."""

    def __init__(self, concurrency: int) -> None:
        self.most = max(_FAILURES, 2 * concurrency)
        self._row = 0
        self.any_success = False

    def succeeded(self) -> None:
        """Record a success."""
        self._row, self.any_success = 0, True

    def failed(self, error: RequestFailed) -> bool:
        """Record a failure and return whether the model must end.

        A service that refuses images is there, so these failures count only before the first success.
        """
        self._row += error.blame != "frame" or not self.any_success
        return self._row >= self.most


class BudgetUsedUp(StrobeError):
    """Raised if another request would exceed the budget of the command."""


@dataclass(slots=True, kw_only=True)
class Budget:
    """What a command may spend on all its models: requests, with every try, and money at the user's prices."""

    max_requests: int | None = None
    max_cost: float | None = None
    spent: float = 0.0
    _started: int = 0
    _flying: dict[str, int] = field(default_factory=dict)
    _costs: dict[str, tuple[float, int]] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def check(self, name: str, limits: RequestLimits) -> None:
        """Raise an error if the cost is limited and this model has no prices."""
        if self.max_cost is not None and not limits.cost(Usage(requests=1, input_tokens=1, output_tokens=1)):
            raise StrobeError(
                f"{name}: <<max_cost>> needs prices; add price_request, price_input or price_output to <<limits>>"
            )

    def take(self, name: str, limits: RequestLimits) -> None:
        """Reserve one request. Raises BudgetUsedUp if it would exceed the budget.

        A request that waits for its answer counts with the mean cost of the model's requests.
        """
        with self._guard:
            if self.max_requests is not None and self._started >= self.max_requests:
                raise BudgetUsedUp(f"the budget of {self.max_requests:,} request(s) is used up")
            flying = self._flying.get(name, 0)
            if self.max_cost is not None:
                total, n = self._costs.get(name, (0.0, 0))
                each = max(total / n if n else 0.0, limits.price_request)
                if self.spent + (flying + 1) * each > self.max_cost * (1 + 1e-9):
                    raise BudgetUsedUp(f"the budget of {self.max_cost:g} is used up")
            self._started += 1
            self._flying[name] = flying + 1

    def pay(self, name: str, used: Usage) -> None:
        """Record what a reserved request used."""
        with self._guard:
            total, n = self._costs.get(name, (0.0, 0))
            self._costs[name] = total + used.cost, n + 1
            self.spent += used.cost
            self._flying[name] -= 1
