"""The parts that all routes share: authentication, one thread for the store, and group commits."""

import asyncio
import hashlib
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar

from fastapi import Request
from starlette.exceptions import HTTPException

from strobe.annexes.web.app import SessionCookie, page_files, page_version
from strobe.annexes.web.attempts import Attempts
from strobe.annexes.web.guard import ServerAddress
from strobe.annexes.web.review import leases, queue
from strobe.annexes.web.review.disagreements import answers_over_time, disagreements
from strobe.annexes.web.review.log import Conflict
from strobe.annexes.web.review.people import People, Person
from strobe.annexes.web.review.pictures import EncodedImage, FrameImages
from strobe.annexes.web.review.places import TableLookup
from strobe.annexes.web.review.plan import ReviewTask
from strobe.annexes.web.review.rows import Answer
from strobe.annexes.web.review.sessions import ABSOLUTE, Mode, Sessions
from strobe.annexes.web.review.store import Saved, Store
from strobe.core.dataset import Dataset
from strobe.core.ports import FrameSource

Result = TypeVar("Result")

_TASK_NAME = re.compile(r"[0-9a-f]{24}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How people log in. If `token` is None, a name is enough (loopback only). `admin_key` opens the admin page.

    `secret` seals sessions and keys.
    """

    address: ServerAddress
    secret: bytes
    token: str | None = None
    admin_key: str = ""
    invited_only: bool = False

    @property
    def is_open(self) -> bool:
        """Whether a name is enough."""
        return self.mode == "open"

    @property
    def mode(self) -> Mode:
        """The kind of log-in that the server requires."""
        return "token" if self.token is not None else "invite" if self.invited_only else "open"


class Service:
    """The state that all routes share. Store calls run on one thread in order of arrival, so there is one writer."""

    def __init__(self, dataset: Dataset, store: Store, source: FrameSource, access: Access) -> None:
        self.dataset, self.store, self.access = dataset, store, access
        self.people = People(store)
        self.sessions = Sessions(self.people, secret=access.secret, mode=access.mode)
        self.attempts = Attempts()
        secret = store.secret()
        # Answers to one question that wait in a browser are never sent to the server of another question.
        self.store_name = hashlib.sha256(b"name" + secret).hexdigest()[:12] + store.suffix
        self.places, self.pictures = TableLookup(dataset), FrameImages(dataset, source, secret=secret)
        self.deck = store.question.deck(dataset, store, self.places, self.pictures)
        self.files = page_files("review")
        own = self.files[f"{store.question.name}.html"]  # the question's part of the page
        self.files["index.html"] = self.files["index.html"].replace(b"<!-- the question -->\n", own)
        self.page_version = page_version(self.files)
        self.cookie = SessionCookie.of("session", access.address, seconds=int(ABSOLUTE.total_seconds()))
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="review-store")
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="review-reader")
        self._media = ThreadPoolExecutor(4, thread_name_prefix="review-media")
        self._waiting: list[tuple[list[Answer], asyncio.Future[list[Saved] | Conflict]]] = []
        self._saving = False
        self._door = asyncio.Lock()
        self._tasks: dict[str, ReviewTask] = {}
        self._summary: tuple[float, dict[str, Any]] = (-1e9, {})

    async def call(self, function: Callable[..., Result], *args: object) -> Result:
        """Run a store call on the store's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, partial(function, *args))

    async def enter(self, function: Callable[..., Result], *args: object) -> Result:
        """Run a store call of a log-in. Log-ins queue separately, so other requests wait for at most one log-in."""
        async with self._door:
            return await self.call(function, *args)

    async def save(self, answers: list[Answer]) -> list[Saved]:
        """Store one decision. The decision is on disk when this returns. Simultaneous decisions share one commit."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[list[Saved] | Conflict] = loop.create_future()
        self._waiting.append((answers, done))
        if not self._saving:
            self._saving = True
            self._task = loop.create_task(self._save_waiting())
        outcome = await done
        if isinstance(outcome, Conflict):
            raise outcome
        return outcome

    async def _save_waiting(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                try:
                    cast = partial(self.store.cast_each, check=leases.expect_asked)
                    outcomes = await self.call(cast, [answers for answers, _ in batch])
                except Exception as error:
                    # Nothing in this batch was stored. Every page gets an error and tries again.
                    for _, done in batch:
                        if not done.done():
                            done.set_exception(error)
                    continue
                for (_, done), outcome in zip(batch, outcomes, strict=True):
                    if not done.done():
                        done.set_result(outcome)
        finally:
            self._saving = False

    async def aside(self, function: Callable[..., Result], *args: object) -> Result:
        """Run a slow read-only function outside the store's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, partial(function, *args))

    async def session(self, secret: str) -> Person | None:
        """Return the person of this session."""
        if not secret:
            return None
        person, is_stale = await self.aside(self.sessions.find, secret)
        if is_stale:
            await self.call(self.sessions.touch, secret)
        return person

    async def is_session(self, secret: str) -> bool:
        """Return whether this is the session of somebody."""
        return (await self.session(secret)) is not None

    async def who(
        self, request: Request, *, allow: tuple[str, ...] = ("annotator", "admin"), expected: str = ""
    ) -> Person:
        """Return the person of this request, or raise 401 or 403. A page that `expected` someone else gets 401, too."""
        secret = self.cookie.secret(request)
        person = await self.session(secret)
        if person is None or (expected and person.name != expected):
            raise HTTPException(401, "log in first")
        if person.role not in allow:
            raise HTTPException(403, "observers can watch, but not vote")
        return person

    async def admin(self, request: Request) -> Person:
        """Return the person of this request if they may run the review."""
        person = await self.who(request, allow=("annotator", "observer", "admin"))
        if person.role != "admin" and not (self.access.is_open and person.role == "annotator"):
            raise HTTPException(403, "only the lead of this review can do this; open the admin link that serve printed")
        return person

    async def progress(self, name: str, *, since: str = "") -> dict[str, int]:
        """Return the counts for the page. `since` is the start of the person's day."""
        return asdict(await self.aside(partial(queue.progress, self.store, name, since=since)))

    async def summary(self) -> dict[str, Any]:
        """Return the figures for the admin page. They are at most ten seconds old, or older if they take long to
        compute.
        """
        due, figures = self._summary
        begin = time.monotonic()
        if begin > due:
            # Concurrent requests get the previous figures: computing them twice would only take longer.
            self._summary = (begin + 60, figures)
            figures = await self.aside(self._summarised)
            now = time.monotonic()
            self._summary = (now + max(10, 20 * (now - begin)), figures)
        return figures or await self.aside(lambda: self.store.question.summarise(self.dataset, (), None))

    def _summarised(self) -> dict[str, Any]:
        answers, agree = list(self.store.all()), self.store.settings.agree
        return {
            **self.store.question.summarise(self.dataset, answers, self.store.conduct()),
            "over_time": answers_over_time(answers),
            "disagreements": disagreements(answers, self.places, self.pictures, agree=agree),
        }

    async def claim(self, name: str, *, tab: str, want: int) -> list[dict[str, Any]]:
        """Assign tasks to one annotator and return their cards."""
        return await self.call(self._claimed, name, tab, want)

    def _claimed(self, name: str, tab: str, want: int) -> list[dict[str, Any]]:
        claimed = queue.claim(self.store, name, tab=tab, want=want)
        for one in claimed:  # the page will request its image and send its answer
            self._know(one.task)
        return self.deck.cards(claimed, name)

    async def picture(self, request: Request, name: str) -> EncodedImage | None:
        """Return a frame by its opaque name, or the neighbour of a task by the task's name. Anyone who is logged in may
        request it.
        """
        # Images use separate threads. They are the most frequent requests, and other requests should not wait for them.
        secret = self.cookie.secret(request)
        return await asyncio.get_running_loop().run_in_executor(self._media, self._picture, secret, name)

    def _picture(self, secret: str, name: str) -> EncodedImage | None:
        if self.sessions.find(secret)[0] is None:
            raise HTTPException(401, "log in first")
        row = self.pictures.row(name)
        if row is None:
            task = self._found(name) if _TASK_NAME.fullmatch(name) else None
            row = None if task is None else self.places.find(task.frame_id)
        return None if row is None else self.pictures.get(row)

    async def task(self, name: str) -> ReviewTask:
        """Return a task of this question by its opaque name."""
        found = self._tasks.get(name) or await self.aside(self._found, name)
        if found is None or found.question != self.store.question.name:
            raise HTTPException(404, "no such task")
        return found

    def _found(self, name: str) -> ReviewTask | None:
        """Return a task by its opaque name. Tasks never change, so each is read from the store once."""
        found = self._tasks.get(name) or self.store.task(name)
        if found is not None:
            self._know(found)
        return found

    def _know(self, task: ReviewTask) -> None:
        if len(self._tasks) > 100_000:
            self._tasks.clear()
        self._tasks[task.task_id] = task
