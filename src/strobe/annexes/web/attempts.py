"""Delays after failed log-ins: the delay grows with each failure. Other people are not delayed."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException

FREE, LONGEST_S = 5, 60.0
"""The number of consecutive failures without a wait, per account and address, and the longest wait in seconds.

The first wait is one second. Each further failure doubles it.
"""

GUESSES, GUESSES_PER_S, QUEUE_S = 60, 5.0, 10.0
"""Limits for one address, over all its accounts.

These are the failures allowed at once, the failures allowed per second after that, and the longest time in seconds that
a log-in waits.
"""

_MOST = 20_000


@dataclass(slots=True)
class Attempts:
    """Recent failures by account and address."""

    clock: Callable[[], float] = time.monotonic
    _failed: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)
    _line: dict[str, float] = field(default_factory=dict)

    @asynccontextmanager
    async def one(self, address: str, account: str, *, key: str = "", known: bool = False) -> AsyncIterator[None]:
        """Guard one log-in attempt, which counts as failed if the block raises 403. Raise 429 if the attempt comes too
        soon.

        A `key` is too long to guess. So a `known` one never waits, whatever else comes from this address, and wrong
        ones hold up nobody who logs in by name.
        """
        if known:
            yield
            return
        if key:
            address, account = f"{address} by key", key
        now = self.clock()
        count, last = self._failed.get((address, account), (0, now))
        pause = min(LONGEST_S, 2.0 ** (count - FREE)) if count >= FREE else 0.0
        wait = self._line.get(address, now) - GUESSES / GUESSES_PER_S - now
        if now < last + pause or wait > QUEUE_S:
            raise HTTPException(429, "too many attempts; wait a minute and try again")
        for kept in (self._failed, self._line):
            if len(kept) > _MOST:  # bounds memory: all callers start again at zero
                kept.clear()
        # An attempt counts as failed until it succeeds. Otherwise many simultaneous guesses would cause no wait.
        self._failed[address, account] = (count + 1, now)
        self._line[address] = max(now, self._line.get(address, now)) + 1 / GUESSES_PER_S
        failed = False
        try:
            await asyncio.sleep(max(0.0, wait))
            yield
        except HTTPException as error:
            failed = error.status_code == 403
            raise
        finally:
            if not failed:
                self._forgive(address, account)

    def _forgive(self, address: str, account: str) -> None:
        self._failed.pop((address, account), None)
        if address in self._line:
            self._line[address] -= 1 / GUESSES_PER_S
