"""The review server: a few small routes over the store. GET requests change nothing. Media have opaque names."""

import asyncio
import hmac
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from strobe.annexes.web.app import LOG, client_address, image_response, set_up
from strobe.annexes.web.guard import Guard
from strobe.annexes.web.review import leases, queue
from strobe.annexes.web.review.log import Conflict
from strobe.annexes.web.review.people import Person
from strobe.annexes.web.review.requests import (
    Claim,
    Invite,
    JointClaim,
    JointDecision,
    Login,
    Pause,
    ReleaseBody,
    SetDecision,
)
from strobe.annexes.web.review.service import Access, Service
from strobe.annexes.web.review.store import Store
from strobe.core.annotators import checked_name
from strobe.core.codec import encode
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, StrobeError
from strobe.core.ports import FrameSource

RowNumber = Annotated[int, Query(ge=0, le=2**63 - 1)]
"""The largest row number of the log that the database supports."""

PAGE = 50
"""The number of earlier answers in one response for undo."""

_PAGES = {"/": "index.html", "/admin": "admin.html"}


def make_app(dataset: Dataset, store: Store, source: FrameSource, access: Access) -> Guard:
    """Return the server as an ASGI application. The store must be prepared for the dataset."""
    server = Service(dataset, store, source, access)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    # A failure is one of the database or the disk, not of the request. The page keeps the decision and tries again.
    failed = 503, "the server could not do this now; the page keeps your decision and sends it again"
    set_up(app, server.files, _PAGES, failed=failed, statuses={Conflict: 409})
    _add_media(app, server)
    _add_session(app, server)
    _add_review(app, server)
    if store.question.together:
        _add_several(app, server)
    _add_admin(app, server)
    return Guard(app, address=access.address, cookie=server.cookie.name, is_session=server.is_session)


def _add_media(app: FastAPI, server: Service) -> None:
    async def media(name: str, request: Request) -> Response:
        try:
            picture = await server.picture(request, name)
        except StrobeError as error:
            # The error names files of this machine, so it is logged and not sent.
            LOG.warning("an image cannot be read: %s", error)
            raise HTTPException(422, "this image cannot be read") from error
        if picture is None:
            raise HTTPException(404, "no such image")
        return image_response(picture.content, picture.media_type)

    app.add_api_route("/media/{name}", media, methods=["GET"])


def _add_session(app: FastAPI, server: Service) -> None:
    access = server.access

    @app.get("/api/session")
    async def session(request: Request) -> dict[str, Any]:
        person = await server.session(server.cookie.secret(request))
        needs = {"open": "name", "token": "token", "invite": "key"}[access.mode]
        out: dict[str, Any] = {"page_version": server.page_version, "needs": needs, "person": None}
        if person is not None:
            out |= {
                "person": asdict(person),
                "is_admin": person.role == "admin" or (access.is_open and person.role == "annotator"),
                "dataset": server.dataset.name,
                "store": server.store_name,
                "lease_s": server.store.settings.lease_s,
                "ask": server.store.question.name,
                "goal": server.store.settings.goal,
                "guidelines": server.store.settings.guidelines or "",
                **server.deck.told(),
            }
        return out

    @app.post("/api/login")
    async def login(body: Login, request: Request) -> Response:
        known = bool(body.key) and await server.aside(_knows, server, body.key)
        async with server.attempts.one(client_address(request), body.name, key=body.key, known=known):
            person = await server.enter(_admit, server, body)
        secret = await server.enter(server.sessions.open, person)
        return server.cookie.begin({"name": person.name, "role": person.role}, secret)

    @app.post("/api/logout")
    async def logout(request: Request) -> Response:
        secret = server.cookie.secret(request)
        if secret:
            await server.call(server.sessions.close, secret)
        return server.cookie.end()

    @app.post("/api/my-link")
    async def my_link(request: Request) -> dict[str, str]:
        person = await server.who(request, allow=("annotator", "observer"))
        key = await server.call(server.sessions.new_key, person)
        return {"link": f"{access.address.url}/#key={key}"}


def _knows(server: Service, key: str) -> bool:
    """Return whether this is the key of somebody, or of the lead."""
    lead = server.access.admin_key
    return bool(lead and hmac.compare_digest(key.encode(), lead.encode())) or server.sessions.by_key(key) is not None


def _admit(server: Service, body: Login) -> Person:
    """Return the person who logs in, or raise 403. All failures look the same, so that guessing reveals nothing."""
    access, people = server.access, server.people
    if body.key:
        if access.admin_key and hmac.compare_digest(body.key.encode(), access.admin_key.encode()):
            return replace(people.add("admin", "admin"), role="admin")
        person = server.sessions.by_key(body.key)
        if person is None:
            raise HTTPException(403, "this link is not valid or has expired; ask for a new one")
        return person
    if not access.is_open:
        if access.token is None or not hmac.compare_digest(body.token.encode(), access.token.encode()):
            raise HTTPException(403, "the token is wrong")
        name = checked_name(body.name)
        known = people.known_name(name)
        if known != name or people.find(known) is not None:
            raise HTTPException(403, "this name is taken: open your personal link, or choose another name")
    person = people.add(body.name)
    if person.role == "admin":
        raise HTTPException(403, "this name is taken: choose another name")
    return person


def _add_review(app: FastAPI, server: Service) -> None:
    store = server.store

    @app.post("/api/claim")
    async def claim(body: Claim, request: Request) -> dict[str, Any]:
        person = await server.who(request, expected=body.who)
        counts = server.progress(person.name, since=body.since)
        if person.paused:
            return {"tasks": [], "paused": True, "progress": await counts}
        tasks, progress = await asyncio.gather(server.claim(person.name, tab=body.tab, want=body.want), counts)
        return {"tasks": tasks, "paused": False, "progress": progress, "page_version": server.page_version}

    @app.post("/api/release")
    async def release(body: ReleaseBody, request: Request) -> dict[str, bool]:
        person = await server.who(request)
        await server.call(partial(leases.release, store, person.name, tab=body.tab))
        return {"ok": True}

    @app.post("/api/decisions")
    async def decide(request: Request) -> dict[str, Any]:
        # Decisions of a paused person are still accepted: they were made before the pause reached the page.
        body = server.deck.body(await request.body())
        person = await server.who(request, expected=body.who)
        task = await server.task(body.task)
        (saved,) = await server.save([server.deck.answer(body, task, person.name)])
        return {"saved": store.question.log.id_of(saved.answer), "fresh": saved.fresh}

    @app.get("/api/history")
    async def history(request: Request, before: RowNumber | None = None) -> dict[str, Any]:
        person = await server.who(request)
        rows = await server.call(partial(store.history, person.name, before=before, limit=PAGE))
        past = await server.call(server.deck.pasts, [(answer, task) for _, answer, task in rows])
        return {"decisions": past, "before": rows[-1][0] if len(rows) == PAGE else None}


def _add_several(app: FastAPI, server: Service) -> None:
    """Add the routes for one person's decisions on several pairs, and for a joint decision of several people on one
    pair.
    """
    store = server.store

    @app.post("/api/decisions/set")
    async def decide_set(body: SetDecision, request: Request) -> dict[str, Any]:
        person = await server.who(request, expected=body.who)
        votes = [server.deck.answer(vote, await server.task(vote.task), person.name) for vote in body.votes]
        saved = await server.save(votes)
        return {"saved": [one.answer.verdict_id for one in saved], "fresh": all(one.fresh for one in saved)}

    @app.post("/api/joint/claim")
    async def joint_claim(body: JointClaim, request: Request) -> dict[str, Any]:
        await server.admin(request)
        members = [await server.call(server.people.known_name, name) for name in body.members]
        claimed = await server.call(partial(queue.claim_joint, store, list(dict.fromkeys(members)), want=body.want))
        return {"tasks": await server.call(server.deck.cards, claimed, None)}

    @app.post("/api/joint/decisions")
    async def joint_decide(body: JointDecision, request: Request) -> dict[str, Any]:
        await server.admin(request)

        votes = []
        for vote in body.votes:
            member = await server.call(server.people.add, checked_name(vote.member))
            if member.role != "annotator":
                raise InvalidValue(f"{member.name} is not an annotator")
            votes.append(server.deck.answer(vote, await server.task(vote.task), member.name))
        saved = await server.save(votes)
        return {"saved": [one.answer.verdict_id for one in saved], "fresh": all(one.fresh for one in saved)}


def _add_admin(app: FastAPI, server: Service) -> None:
    people = server.people

    @app.get("/api/watch")
    async def watch(request: Request) -> dict[str, Any]:
        person = await server.who(request, allow=("observer", "admin", "annotator"))
        if person.role == "annotator" and not server.access.is_open:
            raise HTTPException(403, "only observers and the lead of this review can open this page")
        may_run = person.role == "admin" or (server.access.is_open and person.role == "annotator")
        # Only the lead sees what each person answered.
        hidden = () if may_run else ("disagreements",)
        return {
            "may_run": may_run,
            "dataset": server.dataset.name,
            "ask": server.store.question.name,
            "together": server.store.question.together,
            "settings": encode(server.store.settings),
            "people": [asdict(one) for one in await server.call(people.all)],
            "progress": await server.progress(person.name),
            "summary": {name: part for name, part in (await server.summary()).items() if name not in hidden},
        }

    @app.post("/api/admin/invite")
    async def invite(body: Invite, request: Request) -> dict[str, str]:
        await server.admin(request)
        person = await server.call(people.invite, body.name, body.role)
        key = await server.call(server.sessions.new_key, person)
        return {"name": person.name, "link": f"{server.access.address.url}/#key={key}"}

    @app.post("/api/admin/pause")
    async def pause(body: Pause, request: Request) -> dict[str, bool]:
        await server.admin(request)
        if body.action == "revoke":
            await server.call(server.sessions.revoke, body.name)
        else:
            await server.call(partial(people.pause, body.name, paused=body.action == "pause"))
        return {"ok": True}
