"""The files of the pages: those that review and viewer share, and those of one of them. No other file is sent."""

from collections.abc import Mapping
from importlib import resources
from typing import Literal

from starlette.exceptions import HTTPException
from starlette.responses import Response

_TYPES = {"html": "text/html; charset=utf-8", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def page_files(part: Literal["review", "view"]) -> dict[str, bytes]:
    """Return the files of a page by name."""
    web = resources.files("strobe.annexes.web")
    found = [entry for folder in (web / "page", web / part / "page") for entry in folder.iterdir()]
    return {entry.name: entry.read_bytes() for entry in found if entry.name.rsplit(".")[-1] in _TYPES}


def file_response(files: Mapping[str, bytes], name: str) -> Response:
    """Return a file of a page, or raise 404."""
    content = files.get(name)
    if content is None:
        raise HTTPException(404, "no such file")
    return Response(content, media_type=_TYPES[name.rsplit(".")[-1]])
