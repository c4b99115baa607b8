"""The review server: a few small routes over the store. Nothing changes by GET; media go by opaque name."""

import asyncio
import hashlib
import hmac
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import resources
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, StrobeError, printable
from strobe.core.ports import FrameSource
from strobe.core.records import Verdict
from strobe.review import queue
from strobe.review.deck import Deck
from strobe.review.guard import Guard, ServerAddress
from strobe.review.people import People, Person, checked_name, checked_note
from strobe.review.pictures import Pictures
from strobe.review.plan import Task
from strobe.review.requests import Claim, Decision, Invite, JointClaim, JointDecision, Login, Pause, Release
from strobe.review.store import Conflict, Store
from strobe.review.summary import summarise

__all__ = ["Access", "make_app"]

Result = TypeVar("Result")

_PAGES = {"/": "index.html", "/admin": "admin.html"}
_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may come in. `token` None: names are enough (loopback only). `admin_key` opens the admin page."""

    address: ServerAddress
    token: str | None = None
    admin_key: str = ""
    invited_only: bool = False

    @property
    def is_open(self) -> bool:
        """Whether a name is enough."""
        return self.token is None and not self.invited_only


class _Server:
    """What the routes share. Store calls run on one thread: one writer, first come first served."""

    def __init__(self, dataset: Dataset, store: Store, source: FrameSource, access: Access) -> None:
        self.dataset, self.store, self.access = dataset, store, access
        self.people = People(store)
        secret = store.secret()
        self.store_name = hashlib.sha256(b"name" + secret).hexdigest()[:12]
        self.pictures = Pictures(dataset, source, secret=secret)
        self.deck = Deck(dataset, store, self.pictures)
        self.files = _page_files()
        self.page_version = hashlib.sha256(b"".join(sorted(self.files.values()))).hexdigest()[:12]
        port = access.address.url.rsplit(":", 1)[-1].strip("/")
        self.cookie = f"strobe_session_{port if port.isdigit() else 'web'}"
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="review-store")
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="review-media")
        self._summary: tuple[float, dict[str, Any]] = (-1e9, {})
        self._whole: tuple[float, queue.Progress] = (-1e9, queue.Progress())

    async def call(self, function: Callable[..., Result], *args: object, **options: object) -> Result:
        """Run a store call on the store's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._writer, partial(function, *args, **options))

    async def aside(self, function: Callable[..., Result], *args: object) -> Result:
        """Run something slow that only reads, beside the store's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, partial(function, *args))

    async def session(self, secret: str) -> Person | None:
        """Whose session this is; asked of the store only the first time."""
        if not secret:
            return None
        return self.people.remembered(secret) or await self.call(self.people.by_session, secret)

    async def who(self, request: Request, *, allow: tuple[str, ...] = ("annotator", "admin")) -> Person:
        """Whose request this is, or 401 / 403."""
        secret = request.cookies.get(self.cookie, "")
        person = await self.session(secret)
        if person is None:
            raise HTTPException(401, "log in first")
        if person.role not in allow:
            raise HTTPException(403, "you are an observer: you can watch, not vote")
        return person

    async def admin(self, request: Request) -> Person:
        """Whose request this is, if they may run the review."""
        person = await self.who(request, allow=("annotator", "observer", "admin"))
        if person.role != "admin" and not (self.access.is_open and person.role == "annotator"):
            raise HTTPException(403, "only for who runs this review; open the admin link printed at the start")
        return person

    async def progress(self, name: str) -> dict[str, int]:
        """The counts for the page: a person's own fresh, the whole at most a second old."""
        then, whole = self._whole
        if time.monotonic() - then > 1:
            whole = await self.aside(queue.whole_progress, self.store)
            self._whole = (time.monotonic(), whole)
        return asdict(await self.aside(queue.own_progress, self.store, name, whole))

    async def summary(self) -> dict[str, Any]:
        """The figures for the admin page, at most ten seconds old."""
        then, figures = self._summary
        if time.monotonic() - then > 10:
            figures = await self.aside(lambda: summarise(self.dataset, list(self.store.all())))
            self._summary = (time.monotonic(), figures)
        return figures

    def verdict(self, body: Decision, task: Task, annotator: str, stage: str) -> Verdict:
        """A checked decision as a vote."""
        if (task.kind == "anchor") != (body.stage == "anchor"):
            raise InvalidValue("stage: expected anchor for an anchor and pair or verify for a pair")
        if body.reason and body.decision != "dissimilar":
            raise InvalidValue("reason: only a dissimilar pair has one")
        space = self.dataset.info.label_space
        return Verdict(
            verdict_id=body.verdict_id,
            annotator=annotator,
            at="",
            stage=stage,  # type: ignore[arg-type]
            set_id=task.set_id,
            frame_id=task.frame_id,
            decision=body.decision,
            label_right=body.label_right,
            reason=body.reason,
            bad_anchor=body.bad_anchor,
            labels=tuple(space.ids[space.index(label)] for label in body.labels),
            note=checked_note(body.note),
            seconds=body.seconds,
            page_version=body.page_version,
        )

    def task(self, name: str) -> Task:
        """A task by its opaque name."""
        found = self.store.task(name)
        if found is None:
            raise HTTPException(404, "no such task")
        return found


def _page_files() -> dict[str, bytes]:
    """The page's files, read once: what is not among them cannot be asked for."""
    folder = resources.files("strobe.review") / "page"
    return {entry.name: entry.read_bytes() for entry in folder.iterdir() if entry.name.rsplit(".")[-1] in _TYPES}


def make_app(dataset: Dataset, store: Store, source: FrameSource, access: Access) -> Guard:
    """The server as an ASGI application. The store must be prepared for the dataset."""
    server = _Server(dataset, store, source, access)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    _handle_errors(app)
    _add_page(app, server)
    _add_session(app, server)
    _add_review(app, server)
    _add_admin(app, server)
    return Guard(app, address=access.address, cookie=server.cookie)


def _handle_errors(app: FastAPI) -> None:
    def answer(status: int, error: str) -> JSONResponse:
        return JSONResponse({"error": printable(error)}, status_code=status)

    async def refused(_request: Request, error: Exception) -> JSONResponse:
        if isinstance(error, HTTPException):
            return answer(error.status_code, str(error.detail))
        if isinstance(error, RequestValidationError):
            # Field names only: what was sent is not sent back.
            fields = sorted({".".join(str(part) for part in one["loc"][1:]) or "body" for one in error.errors()})
            return answer(422, f"not understood: {', '.join(fields)}")
        if isinstance(error, ClientDisconnect):
            return answer(413, "the request is too large")
        return answer(409 if isinstance(error, Conflict) else 422, str(error))

    for kind in (HTTPException, RequestValidationError, ClientDisconnect, StrobeError):
        app.add_exception_handler(kind, refused)


def _add_page(app: FastAPI, server: _Server) -> None:
    def file(name: str) -> Response:
        content = server.files.get(name)
        if content is None:
            raise HTTPException(404, "no such file")
        return Response(content, media_type=_TYPES[name.rsplit(".")[-1]])

    for path, page in _PAGES.items():
        app.add_api_route(path, partial(file, page), methods=["GET"])
    app.add_api_route("/static/{name}", file, methods=["GET"])

    async def media(name: str, request: Request) -> Response:
        await server.who(request, allow=("annotator", "observer", "admin"))
        picture = await server.aside(server.pictures.get, name)
        if picture is None:
            raise HTTPException(404, "no such picture")
        headers = {"cache-control": "private, max-age=86400, immutable"}
        return Response(picture.content, media_type=picture.media_type, headers=headers)

    app.add_api_route("/media/{name}", media, methods=["GET"])


def _add_session(app: FastAPI, server: _Server) -> None:
    access, people = server.access, server.people

    @app.get("/api/session")
    async def session(request: Request) -> dict[str, Any]:
        person = await server.session(request.cookies.get(server.cookie, ""))
        out: dict[str, Any] = {"page_version": server.page_version, "needs": _needs(access), "person": None}
        if person is not None:
            space = server.dataset.info.label_space
            out |= {
                "person": asdict(person),
                "is_admin": person.role == "admin" or (access.is_open and person.role == "annotator"),
                "dataset": server.dataset.name,
                "store": server.store_name,
                "classes": [{"id": i, "name": n} for i, n in zip(space.ids, space.names, strict=True)],
                "labels_stage": server.store.settings.labels,
            }
        return out

    @app.post("/api/login")
    async def login(body: Login) -> Response:
        person, role = await server.call(_admit, server, body)
        secret = await server.call(people.open_session, person, role=role)
        answer = JSONResponse({"name": person.name, "role": role})
        answer.set_cookie(
            server.cookie, secret, httponly=True, samesite="strict", path="/", max_age=90 * 86400,
            secure=access.address.url.startswith("https:"),
        )  # fmt: skip
        return answer

    @app.post("/api/logout")
    async def logout(request: Request) -> Response:
        secret = request.cookies.get(server.cookie, "")
        if secret:
            await server.call(people.close_session, secret)
        answer = JSONResponse({"ok": True})
        answer.delete_cookie(server.cookie, path="/", httponly=True, samesite="strict")
        return answer

    @app.post("/api/my-link")
    async def my_link(request: Request) -> dict[str, str]:
        person = await server.who(request, allow=("annotator", "observer"))
        key = await server.call(people.new_key, person.name)
        return {"link": f"{access.address.url}/#key={key}"}


def _needs(access: Access) -> str:
    return "name" if access.is_open else "key" if access.token is None else "token"


def _admit(server: _Server, body: Login) -> tuple[Person, Any]:
    """Who logs in and as what, or 403. Equal answers for equal failures: a guess learns nothing."""
    access, people = server.access, server.people
    if body.key:
        if access.admin_key and hmac.compare_digest(body.key.encode(), access.admin_key.encode()):
            return replace(people.add("admin", "admin"), role="admin"), "admin"
        person = people.by_key(body.key)
        if person is None:
            raise HTTPException(403, "this link is not valid (any more); ask for a new one")
        return person, person.role
    if not access.is_open:
        if access.token is None or not hmac.compare_digest(body.token.encode(), access.token.encode()):
            raise HTTPException(403, "the token is not right")
        known = people.find(checked_name(body.name))
        if known is not None:
            raise HTTPException(403, "this name is taken: open your personal link, or choose another name")
    person = people.add(body.name)
    if person.role == "admin":
        raise HTTPException(403, "this name is taken: choose another name")
    return person, person.role


def _add_review(app: FastAPI, server: _Server) -> None:
    store = server.store

    @app.post("/api/claim")
    async def claim(body: Claim, request: Request) -> dict[str, Any]:
        person = await server.who(request)
        counts = await server.progress(person.name)
        if person.paused:
            return {"tasks": [], "paused": True, "progress": counts}
        claimed = await server.call(queue.claim, store, person.name, tab=body.tab, want=body.want)
        tasks = await server.call(lambda: [server.deck.card(one, person.name) for one in claimed])
        return {"tasks": tasks, "paused": False, "progress": counts, "page_version": server.page_version}

    @app.post("/api/release")
    async def release(body: Release, request: Request) -> dict[str, bool]:
        person = await server.who(request)
        await server.call(queue.release, store, person.name, tab=body.tab)
        return {"ok": True}

    @app.post("/api/decisions")
    async def decide(body: Decision, request: Request) -> dict[str, Any]:
        # A paused person's decisions are still taken: they were made before the pause reached the page.
        person = await server.who(request)

        def save() -> dict[str, Any]:
            verdict = server.verdict(body, server.task(body.task), person.name, body.stage)
            (saved,) = store.cast([verdict])
            return {"saved": body.verdict_id, "fresh": saved.fresh}

        return await server.call(save)

    @app.get("/api/history")
    async def history(request: Request, before: int | None = None) -> dict[str, Any]:
        person = await server.who(request)
        rows = await server.call(store.history, person.name, before=before, limit=50)
        return {"decisions": await server.call(lambda: [server.deck.past(*row) for row in rows])}

    @app.post("/api/joint/claim")
    async def joint_claim(body: JointClaim, request: Request) -> dict[str, Any]:
        await server.admin(request)
        members = [checked_name(name) for name in body.members]
        claimed = await server.call(queue.claim_joint, store, members, want=body.want)
        return {"tasks": await server.call(lambda: [server.deck.card(one, None) for one in claimed])}

    @app.post("/api/joint/decisions")
    async def joint_decide(body: JointDecision, request: Request) -> dict[str, Any]:
        await server.admin(request)

        def save() -> dict[str, Any]:
            votes = []
            for vote in body.votes:
                member = server.people.add(checked_name(vote.member))
                if member.role != "annotator":
                    raise InvalidValue(f"{member.name} is no annotator")
                votes.append(server.verdict(vote, server.task(vote.task), member.name, "joint"))
            saved = store.cast(votes)
            return {"saved": [one.verdict.verdict_id for one in saved], "fresh": all(one.fresh for one in saved)}

        return await server.call(save)


def _add_admin(app: FastAPI, server: _Server) -> None:
    people = server.people

    @app.get("/api/watch")
    async def watch(request: Request) -> dict[str, Any]:
        person = await server.who(request, allow=("observer", "admin", "annotator"))
        if person.role == "annotator" and not server.access.is_open:
            raise HTTPException(403, "only for observers and who runs this review")
        may_run = person.role == "admin" or (server.access.is_open and person.role == "annotator")
        return {
            "may_run": may_run,
            "dataset": server.dataset.name,
            "settings": asdict(server.store.settings),
            "people": [asdict(one) for one in await server.call(people.all)],
            "progress": await server.progress(person.name),
            "summary": await server.summary(),
        }

    @app.post("/api/admin/invite")
    async def invite(body: Invite, request: Request) -> dict[str, str]:
        await server.admin(request)
        person = await server.call(people.add, body.name, body.role)
        if person.role != body.role:
            raise InvalidValue(f"{person.name} is already here as {person.role}")
        key = await server.call(people.new_key, person.name)
        return {"name": person.name, "link": f"{server.access.address.url}/#key={key}"}

    @app.post("/api/admin/pause")
    async def pause(body: Pause, request: Request) -> dict[str, bool]:
        await server.admin(request)
        if body.action == "revoke":
            await server.call(people.revoke, body.name)
        else:
            await server.call(people.pause, body.name, paused=body.action == "pause")
        return {"ok": True}
