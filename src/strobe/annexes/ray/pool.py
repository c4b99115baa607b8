"""Run work on a Ray cluster. Actors receive a function once and then items, and are replaced if they die."""

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

_IN_FLIGHT = 2
"""Items per actor: one in progress and one waiting."""

_TRIES = 3
"""How many workers may die while they process one item, or in succession before they are ready."""

_PATIENCE_S = 20.0
"""Seconds without any working actor until a note is printed."""

_LOOK_S = 1.0
"""Seconds to wait for a result before actors are asked for their progress."""

_ASIDE = "aside"
"""The concurrency group of an actor that answers progress requests during the work."""

_ENDED = ("ActorDiedError", "ActorUnavailableError", "NodeDiedError", "RayActorError", "WorkerCrashedError")
_LOST = ("ObjectLostError", "ObjectReconstructionFailedError", "OwnerDiedError", "ObjectFetchTimedOutError")

Shard = TypeVar("Shard")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class _Refused:
    """An error that a retry would not fix."""

    line: str


class _Actor:
    """The code in each actor, which prepares and calls the function."""

    def __init__(self, held: Lock | None, version: str | None, cores: int) -> None:
        limit_cores(cores)
        spin_briefly()
        self._function: Any = None
        self._held, self._version = held, version

    def take(self, function: Any) -> object:
        """Release the previous function and prepare this one. Its `open`, if any, receives the previous function."""
        before, self._function = self._function, function
        getattr(before, "close", bool)()
        return self._said(lambda: self._open(before))

    def _open(self, before: Any) -> object:
        here = installed_version()
        if here != self._version:
            raise StrobeError(
                f"{printable(platform.node())} has strobe-vision {here}, the driver has {self._version}; install the "
                "same version on every machine"
            )
        if self._held is not None:
            self._held.check()
        return getattr(self._function, "open", bool)(before)

    def so_far(self) -> int:
        """Return the progress of the current item, if the function counts it. Called during the work."""
        return getattr(self._function, "so_far", 0)

    def call(self, item: Any) -> object:
        """Return the function's result for the item."""
        return self._said(lambda: self._function(item))

    def _said(self, function: Callable[[], object]) -> object:
        """Convert errors to text, because not all of them can be pickled."""
        try:
            return function()
        except StrobeError as error:
            return _Refused(str(error))
        except Exception as error:
            return _Refused(f"a worker raised {type(error).__name__}: {printable(error, limit=300)}")


@dataclass(slots=True, eq=False)
class _PendingItem:
    """An item in progress, and the number of workers that died while processing it.

    A `retried` item was assigned to a worker that died. No other item waits behind it, because the retried item may
    kill workers. Results that are stored in pieces are lost with their worker.
    """

    value: Any
    deaths: int = 0
    retried: bool = False


@dataclass(slots=True, eq=False)
class _ActorHandle:
    """An actor. It is ready once `holds` is the current function. The first of its items is in progress.

    `so_far` is the reported progress of that item. `asking` has the item and its pending progress request.
    """

    handle: Any
    holds: Any = None
    items: dict[Any, _PendingItem] = field(default_factory=dict)
    so_far: int = 0
    asking: tuple[Any, Any] | None = None


class RayPool:
    """An Executor on a Ray cluster with up to `actors` actors, each with some cores and a share of a GPU.

    If an actor dies, alone or with its node, it is replaced, and its items go to other actors. Its late results are
    ignored. A death counts only for the item in progress, and the third death on one item ends the work. `held` is the
    lock for writing results. Each actor checks that it cannot take this lock.
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
        # Ray's own restarts would repeat an item that was already answered.
        how = {"num_cpus": cores, "num_gpus": gpus, "max_restarts": 0, "max_task_retries": 0}
        made = ray.remote(concurrency_groups={_ASIDE: 1}, **how)(_Actor)
        self._actor = made.options(scheduling_strategy="SPREAD")

    def close(self) -> None:
        """Release every actor."""
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
        """Yield results as they arrive. A shard is read from the iterable only when an actor is free for it.

        A result may be in the object store in pieces. Its method `fetched(get)` fetches and joins the pieces before the
        actor is released. If workers die repeatedly on a shard, `given_up` makes a result from the reason. Without
        `given_up`, such a shard ends the work. `watch` receives the progress of the current items, if the function
        counts it (`so_far`).
        """
        if self._sent[0] is not function:
            self._sent = (function, self._ray.put(function))
        n_actors = min(self._most, len(shards)) if isinstance(shards, Sized) else self._most
        if not n_actors:
            return
        fresh, again = (_PendingItem(actor) for actor in shards), deque[_PendingItem]()
        actor_of: dict[Any, _ActorHandle] = {}
        for actor in self._hired[:n_actors]:
            self._introduce(actor, actor_of)
        try:
            while self._give(fresh, again, actor_of):
                while len(self._hired) < n_actors:
                    self._hired.append(_ActorHandle(self._actor.remote(self._held, installed_version(), self.cores)))
                    self._introduce(self._hired[-1], actor_of)
                done = self._next(actor_of)
                if done is None:
                    if watch is not None:
                        watch(self._so_far())
                    continue
                actor = actor_of[done]
                try:
                    answer = self._got(done)
                except self._ray.exceptions.RayError as error:
                    yield from self._lose(actor, error, again, actor_of, given_up)
                    continue
                del actor_of[done]
                self._died_early = 0
                if actor.items.pop(done, None) is None:
                    actor.holds = function
                else:
                    actor.so_far = 0
                    yield answer
        finally:
            for actor in set(actor_of.values()):  # still busy with an item whose result is no longer needed
                self._dismiss(actor)

    def _introduce(self, actor: _ActorHandle, actor_of: dict[Any, _ActorHandle]) -> None:
        """Send the function to the actor, unless the actor already has it."""
        function, sent = self._sent
        if actor.holds is not function:
            actor.holds = None
            actor_of[actor.handle.take.remote(sent)] = actor

    def _give(
        self, fresh: Iterator[_PendingItem], again: deque[_PendingItem], actor_of: dict[Any, _ActorHandle]
    ) -> bool:
        """Give one item to each ready actor, then a second item to each. Return whether work is left."""
        for depth in range(1, _IN_FLIGHT + 1):
            for actor in self._hired:
                if actor.holds is not self._sent[0] or len(actor.items) >= depth:
                    continue
                if any(item.retried for item in actor.items.values()):
                    continue
                item = again.popleft() if again else next(fresh, None)
                if item is None:
                    return any(actor.items for actor in self._hired)
                reference = actor.handle.call.remote(item.value)
                actor.items[reference], actor_of[reference] = item, actor
        return True

    def _next(self, asked: dict[Any, _ActorHandle]) -> Any:
        """Return the next answer, or None after a short wait. Print a note once if no actor works for a long time."""
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
            self._say.note(
                f"waiting for a Ray worker with {self.cores} core(s){share}: it is starting, or no node has room"
            )
        return None

    def _so_far(self) -> int:
        """Return the reported progress of the current items, and send new progress requests."""
        for actor in self._hired:
            item = next(iter(actor.items), None)
            if actor.asking is not None:
                asked_about, question = actor.asking
                if not self._ray.wait([question], timeout=0)[0]:
                    continue
                actor.asking = None
                with suppress(self._ray.exceptions.RayError):  # the actor died; its items report this
                    actor.so_far = self._ray.get(question) if asked_about == item else 0
            if item is not None:
                actor.asking = (item, actor.handle.so_far.options(concurrency_group=_ASIDE).remote())
        return sum(actor.so_far for actor in self._hired)

    def _lose(
        self,
        actor: _ActorHandle,
        error: Exception,
        again: deque[_PendingItem],
        actor_of: dict[Any, _ActorHandle],
        given_up: Callable[[Any, str], Any] | None,
    ) -> Iterator[Any]:
        """Handle the loss of an actor: yield its last answer, give its items to others, and start a replacement."""
        why = _reason(error)
        for reference in [reference for reference, who in actor_of.items() if who is actor]:
            del actor_of[reference]
        self._dismiss(actor)
        for reference in list(actor.items):
            if (answer := self._answered(reference)) is None:
                break
            del actor.items[reference]
            yield answer
        items = list(actor.items.values())
        for item in items:
            item.retried = True
        self._died_early += actor.holds is None
        if self._died_early >= _TRIES:
            raise StrobeError(f"{_TRIES} Ray workers died before they were ready ({why}); finished work is kept")
        if items:
            items[0].deaths += 1
            if items[0].deaths >= _TRIES and given_up is None:
                raise StrobeError(
                    f"{_TRIES} Ray workers died while processing {printable(items[0].value)} ({why}); finished work is "
                    "kept"
                )
            if items[0].deaths >= _TRIES and given_up is not None:
                yield given_up(items.pop(0).value, why)
        again.extendleft(reversed(items))
        self._say.note(f"a Ray worker died ({why}); others take over its work")

    def _got(self, reference: Any, timeout: float | None = None) -> Any:
        found = self._ray.get(reference, timeout=timeout)
        if isinstance(found, _Refused):
            raise StrobeError(found.line)
        return found.fetched(self._ray.get) if hasattr(found, "fetched") else found

    def _answered(self, reference: Any) -> Any:
        """Return the answer that an actor gave before it died, or None."""
        try:
            return self._got(reference, timeout=0)
        except self._ray.exceptions.RayError:  # including a timeout
            return None

    def _dismiss(self, one: _ActorHandle) -> None:
        if one in self._hired:
            self._hired.remove(one)
            self._ray.kill(one.handle, no_restart=True)


def _reason(error: Exception) -> str:
    """Return a short reason why an actor died."""
    text = str(error)
    low = text.lower()
    if "out of memory" in low or "node_out_of_memory" in low or "low on memory" in low:
        return "its node ran out of memory"
    if "no module named" in low:
        return printable(text[low.index("no module named") :].splitlines()[0], limit=80) + " on its node"
    if type(error).__name__ in _LOST:
        return "its result was lost with its node"
    if type(error).__name__ not in _ENDED:
        return printable(f"{type(error).__name__}: {text}", limit=120)
    gone = "node has died" in low or "node is dead" in low or "node died" in low or "node_died" in low
    return "its node is gone" if gone else "its process ended"
