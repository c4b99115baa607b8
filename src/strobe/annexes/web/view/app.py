"""The viewer's server: small routes over the library. GET requests change nothing. Images have opaque names."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Body, FastAPI, Query, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from strobe.annexes.web.app import SessionCookie, client_address, image_response, page_files, page_version, set_up
from strobe.annexes.web.attempts import Attempts
from strobe.annexes.web.guard import Guard, ServerAddress
from strobe.annexes.web.view.access import COOKIE_S, ViewKeys, ViewPerson
from strobe.annexes.web.view.exports import sets_csv, subset_text
from strobe.annexes.web.view.filters import KNOWN, Selection, SetFilter
from strobe.annexes.web.view.index import DatasetIndex
from strobe.annexes.web.view.library import Library
from strobe.annexes.web.view.one_set import set_content
from strobe.annexes.web.view.requests import CompareBody, SelectionBody, TagBody, ViewLogin
from strobe.annexes.web.view.runs import RunTable
from strobe.annexes.web.view.tags import add_rows, checked_tag, tags_csv
from strobe.annexes.web.view.timelines import timeline, video_rows
from strobe.core.annotators import checked_note
from strobe.core.errors import InvalidValue, printable

MOST_ROWS = 240
"""The most sets in one answer."""

Place = Annotated[str, Query(pattern=r"^[0-9a-f]{12}$")]
Row = Annotated[int, Query(ge=0, le=2**31 - 1)]
Limit = Annotated[int, Query(ge=1, le=MOST_ROWS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewWork:
    """Work that connects other rooms: compare models of runs, and write sets as a dataset folder.

    `compare` takes (run folder, model) pairs and returns the comparison in words. `write` takes the index, the rows of
    sets, a name and a description of the selection, and returns the new folder.
    """

    compare: Callable[[Sequence[tuple[Path, str]]], dict[str, Any]]
    write: Callable[[DatasetIndex, Sequence[int], str, str], Path]


class _Viewer:
    """The state that all routes share."""

    def __init__(self, library: Library, keys: ViewKeys, work: ViewWork, address: ServerAddress) -> None:
        self.library, self.keys, self.work, self.address = library, keys, work, address
        self.runs, self.attempts = RunTable(library), Attempts()
        self.files = page_files("view")
        self.page_version = page_version(self.files)
        self.cookie = SessionCookie.of("view", address, seconds=COOKIE_S)

    def person(self, request: Request) -> ViewPerson:
        """Return the person of this request, or raise 401."""
        person = self.keys.person_of_cookie(self.cookie.secret(request))
        if person is None:
            raise HTTPException(401, "open the link that strobe view printed")
        return person

    async def is_session(self, cookie: str) -> bool:
        """Return whether this is the session of somebody."""
        return self.keys.person_of_cookie(cookie) is not None

    def owner(self, request: Request) -> ViewPerson:
        """Return the person of this request if it may write."""
        person = self.person(request)
        if person.role != "owner":
            raise HTTPException(403, "your link is read-only; the person who runs strobe view can do this")
        return person

    def index(self, request: Request, data: str) -> DatasetIndex:
        """Return a dataset for someone who is logged in."""
        self.person(request)
        return self.library.index(data)


def make_view_app(library: Library, keys: ViewKeys, work: ViewWork, address: ServerAddress) -> Guard:
    """Return the server as an ASGI application."""
    viewer = _Viewer(library, keys, work, address)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    failed = 422, "this could not be done; the terminal that runs strobe view shows why"
    set_up(app, viewer.files, {"/": "index.html"}, failed=failed, statuses={})
    _add_media(app, viewer)
    _add_session(app, viewer)
    _add_runs(app, viewer)
    _add_sets(app, viewer)
    _add_doing(app, viewer)
    return Guard(app, address=address, cookie=viewer.cookie.name, is_session=viewer.is_session)


def _add_media(app: FastAPI, viewer: _Viewer) -> None:
    def media(data: str, name: str, request: Request, small: bool) -> Response:
        viewer.person(request)
        if data not in viewer.library.datasets:
            raise HTTPException(404, "no such image")
        images = viewer.library.images(data)
        row = images.images.row(name)
        if row is None:
            raise HTTPException(404, "no such image")
        found = images.small(row) if small else images.images.get(row)
        return image_response(found.content, found.media_type)

    @app.get("/media/{data}/{name}")
    def full(data: str, name: str, request: Request) -> Response:
        return media(data, name, request, small=False)

    @app.get("/media/{data}/{name}/small")
    def small(data: str, name: str, request: Request) -> Response:
        return media(data, name, request, small=True)


def _add_session(app: FastAPI, viewer: _Viewer) -> None:
    @app.get("/api/session")
    def session(request: Request) -> dict[str, Any]:
        person = viewer.keys.person_of_cookie(viewer.cookie.secret(request))
        out: dict[str, Any] = {"page_version": viewer.page_version, "person": None}
        return out if person is None else {**out, "person": person.name, "may_write": person.role == "owner"}

    @app.post("/api/login")
    async def login(body: ViewLogin, request: Request) -> Response:
        person = viewer.keys.person_of_key(body.key)
        async with viewer.attempts.one(client_address(request), "", key=body.key[:40], known=person is not None):
            if person is None:
                raise HTTPException(403, "this link is not valid; ask for a new one")
        return viewer.cookie.begin({"name": person.name, "role": person.role}, viewer.keys.seal(person))

    @app.post("/api/logout")
    def logout() -> Response:
        return viewer.cookie.end()


def _add_runs(app: FastAPI, viewer: _Viewer) -> None:
    @app.get("/api/runs")
    def runs(request: Request) -> dict[str, Any]:
        viewer.person(request)
        return viewer.runs.content()

    @app.post("/api/compare")
    def compare(body: Annotated[CompareBody, Body()], request: Request) -> dict[str, Any]:
        viewer.person(request)
        found = viewer.work.compare([(viewer.library.run_path(run), model) for run, model in body.rows])
        data = {viewer.library.dataset_of(run)[0] for run, _ in body.rows}
        key = data.pop() if len(data) == 1 else ""
        if key:
            viewer.library.index(key)
            shown = {(one.run, one.model): one.shown for one in viewer.library.models(key).values()}
            found["rows"] = [shown.get((run, model), model) for run, model in body.rows]
        return {**found, "data": key}


def _query(request: Request) -> SetFilter:
    return SetFilter.of(request.query_params.multi_items())


def _add_sets(app: FastAPI, viewer: _Viewer) -> None:
    library = viewer.library

    @app.get("/api/sets")
    def sets(data: Place, request: Request, offset: Row = 0, limit: Limit = 60, facets: bool = False) -> dict[str, Any]:
        index, wanted = viewer.index(request, data), _query(request)
        rows, images = library.rows(index, wanted), library.images(data)
        masks = index.tags()[1]
        models = list(index.models.values())
        anchors, videos = index.dataset.sets.anchor_frame, index.dataset.videos.name
        out: dict[str, Any] = {
            "version": index.version,
            "total": len(rows),
            "models": list(index.models),
            "sets": [
                {
                    "row": row,
                    "name": printable(index.names[row]),
                    "label": printable(index.labels_text[row]),
                    "video": printable(videos[index.video[row]]),
                    "i": "" if images.missing else images.name(int(anchors[row])),
                    "m": [int(model.status[row]) for model in models],
                    "t": [tag for tag, mask in masks.items() if mask[row]],
                }
                for row in rows[offset : offset + limit].tolist()
            ],
        }
        if facets:
            out["facets"] = Selection(index, wanted).facets()
            out["about"] = _about(index, images.missing)
        return out

    @app.get("/api/set")
    def one_set(data: Place, row: Row, request: Request) -> dict[str, Any]:
        index = viewer.index(request, data)
        if row >= index.n_sets:
            raise HTTPException(404, "no such set")
        content = set_content(index, library.images(data), row, library.frame_answers(index))
        rows = library.rows(index, _query(request))
        (place,) = (rows == row).nonzero()
        at = int(place[0]) if len(place) else -1
        near = {"at": at, "total": len(rows)}
        if at >= 0:
            near["before"] = int(rows[at - 1]) if at > 0 else -1
            near["after"] = int(rows[at + 1]) if at + 1 < len(rows) else -1
        return {**content, "near": near, "classes": list(index.dataset.info.label_space.names)}

    @app.get("/api/videos")
    def videos(data: Place, request: Request, offset: Row = 0, limit: Limit = 60) -> dict[str, Any]:
        index, wanted = viewer.index(request, data), _query(request)
        search = str(request.query_params.get("vq", ""))[:200]
        found = video_rows(index, library.rows(index, wanted), search=search, offset=offset, limit=limit)
        return {**found, "models": list(index.models), "about": _about(index, library.images(data).missing)}

    @app.get("/api/video")
    def video(data: Place, row: Row, request: Request) -> dict[str, Any]:
        index = viewer.index(request, data)
        if row >= len(index.dataset.videos):
            raise HTTPException(404, "no such video")
        return timeline(index, row, library.frame_answers(index))


def _about(index: DatasetIndex, missing: str) -> dict[str, Any]:
    data = index.dataset
    return {
        "name": printable(data.name),
        "n_sets": index.n_sets,
        "k": data.info.k,
        "labelled": bool(data.labelled.any()),
        "no_images": printable(missing, limit=300),
        "is_video": data.info.axis == "frame-offset",
    }


def _items(query: str) -> list[tuple[str, str]]:
    """Return the items of a query in a body. A query that cannot be read must not select every set."""
    items = parse_qsl(query.lstrip("?"), keep_blank_values=True)
    if (query and not items) or not {key for key, _ in items} <= KNOWN:
        raise InvalidValue("query: expected the filters of the page's address")
    return items


def _add_doing(app: FastAPI, viewer: _Viewer) -> None:
    library = viewer.library

    def selected(data: str, query: str) -> tuple[DatasetIndex, list[int]]:
        index = library.index(data)
        wanted = SetFilter.of(_items(query))
        return index, library.rows(index, wanted).tolist()

    @app.post("/api/tag")
    def tag(body: Annotated[TagBody, Body()], request: Request) -> dict[str, Any]:
        person = viewer.owner(request)
        if (body.row is None) == (body.query is None):
            raise InvalidValue("expected either row or query")
        text = checked_note(body.text.strip()) if body.act == "note" else checked_tag(body.text)
        index, rows = (
            selected(body.data, body.query or "") if body.row is None else (library.index(body.data), [body.row])
        )
        if any(row >= index.n_sets for row in rows):
            raise HTTPException(404, "no such set")
        ids = [str(one) for one in index.dataset.sets.set_id[rows].tolist()]
        return {
            "rows": add_rows(index.path, ids, who=person.name, act=body.act, text=text, check=index.expect_in_place)
        }

    @app.post("/api/selection")
    def selection(body: Annotated[SelectionBody, Body()], request: Request) -> dict[str, Any]:
        viewer.owner(request)
        index, rows = selected(body.data, body.query)
        if not rows:
            raise InvalidValue("no set is selected")
        folder = viewer.work.write(index, rows, body.name, body.query)
        return {"sets": len(rows), "folder": str(folder)}

    @app.get("/api/export")
    def export(data: Place, form: Annotated[str, Query(pattern="^(csv|subset|tags)$")], request: Request) -> Response:
        index = viewer.index(request, data)
        if form == "tags":
            content, name = tags_csv(index.tags()[0]), "tags.csv"
        else:
            rows = library.rows(index, _query(request))
            make = sets_csv if form == "csv" else subset_text
            content, name = make(index, rows.tolist()), "sets.csv" if form == "csv" else "subset.txt"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type="text/plain; charset=utf-8", headers=headers)
