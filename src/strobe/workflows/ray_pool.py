"""Work on a Ray cluster: actors that are sent a function once and items after it, replaced when they die."""

import platform
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from strobe.core.errors import StrobeError, printable
from strobe.core.late import installed_version, spin_briefly
from strobe.core.locks import Lock
from strobe.core.ports import Progress
from strobe.models.cores import limit_cores

__all__ = ["RayPool"]

_IN_FLIGHT = 2
"""Items an actor holds: one it works on, and one for when that is done."""

_TRIES = 3
"""Workers that may die over one item, or before they are ready in a row."""

_PATIENCE_S = 20.0
"""How long nobody may be at work before that is said."""

_LOOK_S = 1.0
"""How often actors are asked how far they are, where nothing else comes from them."""

_ASIDE = "aside"
"""What answers such questions in an actor, beside the work."""

_ENDED = ("ActorDiedError", "ActorUnavailableError", "NodeDiedError", "RayActorError", "WorkerCrashedError")
_LOST = ("ObjectLostError", "ObjectReconstructionFailedError", "OwnerDiedError", "ObjectFetchTimedOutError")

Shard = TypeVar("Shard")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Refused:
    """An error that says all there is to say: trying again would not help."""

    line: str


class _Actor:
    """What lies in each actor: the function, made ready where it was sent to."""

    def __init__(self, held: Lock | None, version: str | None, cores: int) -> None:
        limit_cores(cores)
        spin_briefly()
        self._function: Any = None
        self._held, self._version = held, version

    def take(self, function: Any) -> object:
        """Let go of the function of before and make this one ready (`open`, where it has that, hears of that one)."""
        before, self._function = self._function, function
        getattr(before, "close", bool)()
        return self._said(lambda: self._open(before))

    def _open(self, before: Any) -> object:
        here = installed_version()
        if here != self._version:
            raise StrobeError(
                f"{printable(platform.node())} has strobe-vision {here}, the driver {self._version}; install the same "
                "version on every machine"
            )
        if self._held is not None:
            self._held.check()
        return getattr(self._function, "open", bool)(before)

    def so_far(self) -> int:
        """How much of the item at hand is done, where the function counts it; asked for while it works."""
        return getattr(self._function, "so_far", 0)

    def call(self, item: Any) -> object:
        """What the function makes of the item."""
        return self._said(lambda: self._function(item))

    def _said(self, function: Callable[[], object]) -> object:
        """Errors as text: not every one of them, nor what it holds, can be sent."""
        try:
            return function()
        except StrobeError as error:
            return _Refused(str(error))
        except Exception as error:
            return _Refused(f"a worker raised {type(error).__name__}: {printable(error, limit=300)}")


@dataclass(slots=True, eq=False)
class _PendingItem:
    """An item on its way, and how many workers died over it."""

    value: Any
    deaths: int = 0


@dataclass(slots=True, eq=False)
class _ActorHandle:
    """An actor: ready once it `holds` the function; the first of its items is the one it works on.

    `so_far` is how much it said is done of that; `asking` is the item and the question under way.
    """

    handle: Any
    holds: Any = None
    items: dict[Any, _PendingItem] = field(default_factory=dict)
    so_far: int = 0
    asking: tuple[Any, Any] | None = None


class RayPool:
    """An Executor on a Ray cluster: up to `actors` of them, each with so many cores and such a share of a GPU.

    An actor that dies, alone or with its node, is replaced, and what it held is given to others; what it may still send
    is not listened to. Only the item it worked on is held against it: the third death over one ends the work. `held` is
    the lock under which results are written, which each of them tries: it must not be had twice.
    """

    def __init__(
        self, ray: Any, *, actors: int, cores: int, gpus: float, say: Progress, held: Lock | None = None
    ) -> None:
        self.cores, self.gpus = cores, gpus
        self._ray, self._most, self._say = ray, actors, say
        self._hired: list[_ActorHandle] = []
        self._sent: tuple[Any, Any] = (None, None)
        self._died_early, self._was_said, self._held = 0, False, held
        self._idle_since: float | None = None
        # Ray's own restarts would run an item again that was answered already.
        how = {"num_cpus": cores, "num_gpus": gpus, "max_restarts": 0, "max_task_retries": 0}
        made = ray.remote(concurrency_groups={_ASIDE: 1}, **how)(_Actor)
        self._actor = made.options(scheduling_strategy="SPREAD")

    def close(self) -> None:
        """Let go of every actor."""
        for one in list(self._hired):
            self._dismiss(one)

    def map(
        self,
        function: Callable[[Shard], Result],
        shards: Iterable[Shard],
        *,
        given_up: Callable[[Shard, str], Result] | None = None,
        watch: Callable[[int], None] | None = None,
    ) -> Iterator[Any]:
        """The results as they come; shards are taken from the iterable only when there is room for them.

        A result may lie in the object store in pieces: with `fetched(get)` it is got and made whole, before the actor
        may go. `given_up` is what stands for a shard over which workers die, with the reason; without one that is the
        end. `watch` hears how much of what is being worked on is done, where the function counts that (`so_far`).
        """
        if self._sent[0] is not function:
            self._sent = (function, self._ray.put(function))
        many = min(self._most, len(shards)) if isinstance(shards, Sized) else self._most
        if not many:
            return
        fresh, again = (_PendingItem(one) for one in shards), deque[_PendingItem]()
        asked: dict[Any, _ActorHandle] = {}
        for one in self._hired[:many]:
            self._introduce(one, asked)
        try:
            while self._give(fresh, again, asked):
                while len(self._hired) < many:
                    self._hired.append(_ActorHandle(self._actor.remote(self._held, installed_version(), self.cores)))
                    self._introduce(self._hired[-1], asked)
                done = self._next(asked)
                if done is None:
                    if watch is not None:
                        watch(self._so_far())
                    continue
                one = asked[done]
                try:
                    answer = self._got(done)
                except self._ray.exceptions.RayError as error:
                    yield from self._lose(one, error, again, asked, given_up)
                    continue
                del asked[done]
                self._died_early = 0
                if one.items.pop(done, None) is None:
                    one.holds = function
                else:
                    one.so_far = 0
                    yield answer
        finally:
            for one in set(asked.values()):  # still busy with what nobody waits for any more
                self._dismiss(one)

    def _introduce(self, one: _ActorHandle, asked: dict[Any, _ActorHandle]) -> None:
        """Send the actor the function, unless it has it from before."""
        function, sent = self._sent
        if one.holds is not function:
            one.holds = None
            asked[one.handle.take.remote(sent)] = one

    def _give(self, fresh: Iterator[_PendingItem], again: deque[_PendingItem], asked: dict[Any, _ActorHandle]) -> bool:
        """Give actors that are ready what they have room for, one each before a second; whether there is work left."""
        for depth in range(1, _IN_FLIGHT + 1):
            for one in self._hired:
                if one.holds is not self._sent[0] or len(one.items) >= depth:
                    continue
                item = again.popleft() if again else next(fresh, None)
                if item is None:
                    return any(one.items for one in self._hired)
                reference = one.handle.call.remote(item.value)
                one.items[reference], asked[reference] = item, one
        return True

    def _next(self, asked: dict[Any, _ActorHandle]) -> Any:
        """The next answer there is; None after a moment without. Said once where nobody is at work for long."""
        done, _ = self._ray.wait(list(asked), num_returns=1, timeout=_LOOK_S)
        if done:
            return done[0]
        now = time.monotonic()
        if any(one.holds for one in self._hired):
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = now
        elif now - self._idle_since > _PATIENCE_S and not self._was_said:
            self._was_said = True
            share = f" and {self.gpus:g} of a GPU" if self.gpus else ""
            self._say.note(f"waiting for a Ray worker with {self.cores} core(s){share}: it starts, or nobody has room")
        return None

    def _so_far(self) -> int:
        """How much is done of the items at hand, as far as actors have said; and ask them again."""
        for one in self._hired:
            item = next(iter(one.items), None)
            if one.asking is not None:
                asked_about, question = one.asking
                if not self._ray.wait([question], timeout=0)[0]:
                    continue
                one.asking = None
                with suppress(self._ray.exceptions.RayError):  # it died; its items say so
                    one.so_far = self._ray.get(question) if asked_about == item else 0
            if item is not None:
                one.asking = (item, one.handle.so_far.options(concurrency_group=_ASIDE).remote())
        return sum(one.so_far for one in self._hired)

    def _lose(
        self, one: _ActorHandle, error: Exception, again: deque[_PendingItem], asked: dict[Any, _ActorHandle],
        given_up: Callable[[Any, str], Any] | None,
    ) -> Iterator[Any]:  # fmt: skip
        """An actor is gone: what it had answered before, then its items to the others, another in its place."""
        why = _reason(error)
        for reference in [reference for reference, who in asked.items() if who is one]:
            del asked[reference]
        self._dismiss(one)
        for reference in list(one.items):
            if (answer := self._answered(reference)) is None:
                break
            del one.items[reference]
            yield answer
        left = list(one.items.values())
        self._died_early += one.holds is None
        if self._died_early >= _TRIES:
            raise StrobeError(f"{_TRIES} Ray workers died before they were ready ({why}); finished work is kept")
        if left:
            left[0].deaths += 1
            if left[0].deaths >= _TRIES and given_up is None:
                raise StrobeError(
                    f"{_TRIES} Ray workers died over {printable(left[0].value)} ({why}); finished work is kept"
                )
            if left[0].deaths >= _TRIES and given_up is not None:
                yield given_up(left.pop(0).value, why)
        again.extendleft(reversed(left))
        self._say.note(f"a Ray worker died ({why}); its work is given to others")

    def _got(self, reference: Any, timeout: float | None = None) -> Any:
        found = self._ray.get(reference, timeout=timeout)
        if isinstance(found, _Refused):
            raise StrobeError(found.line)
        return found.fetched(self._ray.get) if hasattr(found, "fetched") else found

    def _answered(self, reference: Any) -> Any:
        """The answer an actor gave before it died, where it is at hand; None where there is none."""
        try:
            return self._got(reference, timeout=0)
        except self._ray.exceptions.RayError:  # among them that it takes longer
            return None

    def _dismiss(self, one: _ActorHandle) -> None:
        if one in self._hired:
            self._hired.remove(one)
            self._ray.kill(one.handle, no_restart=True)


def _reason(error: Exception) -> str:
    """Why an actor is gone, in a few words out of Ray's many."""
    text = str(error)
    low = text.lower()
    if "out of memory" in low or "node_out_of_memory" in low or "low on memory" in low:
        return "its node ran out of memory"
    if "no module named" in low:
        return printable(text[low.index("no module named") :].splitlines()[0], limit=80) + " on its node"
    if type(error).__name__ in _LOST:
        return "what it sent was lost with its node"
    if type(error).__name__ not in _ENDED:
        return printable(f"{type(error).__name__}: {text}", limit=120)
    gone = "node has died" in low or "node is dead" in low or "node died" in low or "node_died" in low
    return "its node is gone" if gone else "its process ended"
