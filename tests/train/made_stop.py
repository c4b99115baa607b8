"""A training that is broken off."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from strobe.core.ports import Silent


class Stop(Exception):
    pass


class StopAfter(Silent):
    """A progress that breaks the work off after so many steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def task(self, label: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:
        return nullcontext(self._advance if "steps" in label else lambda _: None)

    def _advance(self, units: int) -> None:
        self.left -= units
        if self.left == 0:
            raise Stop
