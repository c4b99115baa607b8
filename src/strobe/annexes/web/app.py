"""What the servers of review and viewer share: errors as JSON, the files of the pages, and the session's cookie."""

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import Any, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException

from strobe.annexes.web.guard import ServerAddress
from strobe.core.errors import InvalidValue, StrobeError, UnknownName, printable

LOG = logging.getLogger("strobe.annexes.web")

_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class Body(BaseModel):
    """The body of a request. Other fields than those declared are refused."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)


def page_files(part: Literal["review", "view"]) -> dict[str, bytes]:
    """Return the files of a page by name: those that review and viewer share, and its own. No other file is sent."""
    web = resources.files("strobe.annexes.web")
    found = [entry for folder in (web / "page", web / part / "page") for entry in folder.iterdir()]
    return {entry.name: entry.read_bytes() for entry in found if entry.name.rsplit(".")[-1] in _TYPES}


def page_version(files: Mapping[str, bytes]) -> str:
    """Return a short digest of a page's files."""
    return hashlib.sha256(b"".join(sorted(files.values()))).hexdigest()[:12]


def set_up(
    app: FastAPI,
    files: Mapping[str, bytes],
    pages: Mapping[str, str],
    *,
    failed: tuple[int, str],
    statuses: Mapping[type[StrobeError], int],
) -> None:
    """Add these files and pages (path → file) to an application, and answer every error as JSON.

    `statuses` are those of errors whose text is sent. Any other error of strobe may name files of this machine: it is
    logged, and the status and text of `failed` are sent.
    """
    known = {InvalidValue: 422, UnknownName: 422, **statuses}

    async def refused(_request: Request, error: Exception) -> JSONResponse:
        status = next((status for kind, status in known.items() if isinstance(error, kind)), 0)
        text = str(error)
        if isinstance(error, HTTPException):
            status, text = error.status_code, str(error.detail)
        elif isinstance(error, RequestValidationError | ValidationError):
            # The response names the invalid fields and never repeats the submitted values.
            skip = isinstance(error, RequestValidationError)
            fields = sorted({".".join(str(part) for part in one["loc"][skip:]) or "body" for one in error.errors()})
            status, text = 422, f"invalid fields: {', '.join(fields)}"
        elif not status:
            LOG.error("a request failed: %s", error)
            status, text = failed
        return JSONResponse({"error": printable(text, limit=600)}, status_code=status)

    for kind in (HTTPException, RequestValidationError, ValidationError, StrobeError):
        app.add_exception_handler(kind, refused)

    def file(name: str) -> Response:
        content = files.get(name)
        if content is None:
            raise HTTPException(404, "no such file")
        return Response(content, media_type=_TYPES[name.rsplit(".")[-1]])

    for path, page in pages.items():
        app.add_api_route(path, partial(file, page), methods=["GET"])
    app.add_api_route("/static/{name}", file, methods=["GET"])


def image_response(content: bytes, media_type: str) -> Response:
    """Return an image, which the browser may keep for a day."""
    return Response(content, media_type=media_type, headers={"cache-control": "private, max-age=86400, immutable"})


@dataclass(frozen=True, slots=True)
class SessionCookie:
    """The cookie of a session. Servers on other ports of one machine have other names."""

    name: str
    seconds: int
    is_secure: bool

    @classmethod
    def of(cls, part: Literal["session", "view"], address: ServerAddress, *, seconds: int) -> "SessionCookie":
        """Return the cookie of a server at this address."""
        port = address.url.rsplit(":", 1)[-1].strip("/")
        name = f"strobe_{part}_{port if port.isdigit() else 'web'}"
        return cls(name, seconds, address.url.startswith("https:"))

    def secret(self, request: Request) -> str:
        """Return the secret of the request's session, or nothing."""
        return request.cookies.get(self.name, "")

    def begin(self, content: Mapping[str, Any], secret: str) -> Response:
        """Return the answer to a log-in."""
        answer = JSONResponse(dict(content))
        answer.set_cookie(
            self.name,
            secret,
            httponly=True,
            samesite="strict",
            path="/",
            max_age=self.seconds,
            secure=self.is_secure,
        )
        return answer

    def end(self) -> Response:
        """Return the answer to a log-out."""
        answer = JSONResponse({"ok": True})
        answer.delete_cookie(self.name, path="/", httponly=True, samesite="strict")
        return answer


def client_address(request: Request) -> str:
    """Return the address that a request comes from."""
    return request.client.host if request.client else "?"
