"""Checks on every request: exact Host and Origin, size, and rate. Adds security headers to every answer."""

import asyncio
import ipaddress
import json
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from strobe.core.errors import StrobeError, printable

MAX_BODY = 256 * 1024
"""The largest request body in bytes. A decision is well under a kilobyte."""

BODY_S = 30.0
"""The longest time in seconds for a request body to arrive."""

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
]


_HOST_NAME = re.compile(r"[a-z0-9._-]+|[0-9a-f.]*:[0-9a-f:.]+")
"""Matches a host as browsers send it: ASCII (xn-- for other letters), or an IPv6 address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """The exact values of Host and Origin that the server accepts.

    >>> ServerAddress.of("127.0.0.1", 8321).url
    'http://127.0.0.1:8321'
    """

    url: str
    hosts: frozenset[str]
    origins: frozenset[str]

    @classmethod
    def of(cls, host: str, port: int, public_url: str | None = None) -> "ServerAddress":
        """Return the accepted names for a bind address, and for the public address if there is one."""
        urls = []
        if public_url is not None:
            urls.append(_checked_url(public_url))
        elif host in ("0.0.0.0", "::", ""):  # noqa: S104 (compared, not bound)
            raise StrobeError(
                "a server on all interfaces needs <<public_url=http://NAME:PORT>>, the address people will type: "
                "requests for any other Host are refused"
            )
        if is_loopback(host):
            urls += [f"http://{_in_url(name)}:{port}" for name in (host, "127.0.0.1", "localhost", "::1")]
        elif public_url is None:
            urls.append(f"http://{_in_url(host)}:{port}")
        # Browsers omit the default port from Host and Origin.
        origins = frozenset(urls) | {_without_default_port(url) for url in urls}
        return cls(url=urls[0], hosts=frozenset(urlsplit(url).netloc for url in origins), origins=origins)


def _checked_url(public_url: str) -> str:
    """Return the address as browsers write it in Origin, or raise a one-line error."""
    try:
        parts = urlsplit(public_url)
        name, port = parts.hostname or "", parts.port
    except ValueError:  # an invalid port, or unbalanced brackets
        parts, name, port = urlsplit(""), "", 0
    lawful = (
        parts.scheme in ("http", "https")
        and _HOST_NAME.fullmatch(name) is not None
        and port != 0
        and "@" not in parts.netloc
        and parts.path in ("", "/")
        and not parts.query
        and not parts.fragment
    )
    if not lawful:
        # The part before the @ may contain a password, so it is not shown.
        shown = printable(public_url.rsplit("@", 1)[-1])
        raise StrobeError(
            "<<public_url>>: expected https://name[:port] with a port from 1 to 65535, without user, path or query, "
            f"got {shown!r}"
        )
    return f"{parts.scheme}://{_in_url(name)}" + ("" if port is None else f":{port}")


def checked_proxies(given: Sequence[str]) -> list[str]:
    """Return the addresses of proxies, or raise a one-line error."""
    for one in given:
        try:
            ipaddress.ip_network(one)
        except ValueError:
            raise StrobeError(f"<<proxy>>: expected an address such as 10.0.0.2, got {printable(one)!r}") from None
    return list(given)


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _without_default_port(url: str) -> str:
    parts = urlsplit(url)
    usual = {"http": ":80", "https": ":443"}[parts.scheme]
    return f"{parts.scheme}://{parts.netloc.removesuffix(usual)}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    return host in ("127.0.0.1", "::1", "localhost")


@dataclass(slots=True)
class RateLimit:
    """A token bucket per caller: `burst` requests at once, then `per_s` per second."""

    per_s: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)

    def allows(self, caller: str) -> bool:
        """Whether this caller may make one more request now.

        >>> rate = RateLimit(per_s=1, burst=2, clock=lambda: 0.0)
        >>> [rate.allows("ann"), rate.allows("ann"), rate.allows("ann"), rate.allows("bo")]
        [True, True, False, True]
        """
        now = self.clock()
        level, then = self._buckets.get(caller, (self.burst, now))
        level = min(self.burst, level + (now - then) * self.per_s)
        if len(self._buckets) > 20_000:  # bounds memory: every caller starts again with a full bucket
            self._buckets.clear()
        self._buckets[caller] = (level - 1 if level >= 1 else level, now)
        return level >= 1


class Guard:
    """ASGI middleware around the whole server. `is_session` tells whether a cookie is that of somebody logged in."""

    def __init__(
        self, app: ASGIApp, *, address: ServerAddress, cookie: str, is_session: Callable[[str], Awaitable[bool]]
    ) -> None:
        self._app, self._is_session = app, is_session
        self._address = address
        self._cookie = cookie.encode() + b"="
        self._rates = {
            "media": RateLimit(per_s=200, burst=2000),
            "other": RateLimit(per_s=60, burst=600),
            # Limits each address regardless of cookies. Otherwise each invented session would get its own bucket.
            "address": RateLimit(per_s=1500, burst=3000),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request, then pass it on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return None
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        refusal = self._refusal(scope, headers) or await self._over_rate(scope, headers)
        if refusal is not None:
            await _answer(send, *refusal)
            return None
        sending = _HeaderSender(send, scope["path"])
        try:
            if scope["method"] == "POST":
                try:
                    async with asyncio.timeout(BODY_S):
                        body = await _body(receive)
                except TimeoutError:
                    return await _answer(send, 408, "the request did not arrive in time")
                if len(body) > MAX_BODY:
                    return await _answer(send, 413, f"the request is larger than {MAX_BODY} bytes")
                receive = _after(body, receive)
            await self._app(scope, receive, sending)
        except asyncio.CancelledError:
            # The server stops before the body of this request has arrived. The page tries again.
            if not sending.started:
                await _answer(send, 503, "the server is being stopped")

    def _refusal(self, scope: Scope, headers: dict[bytes, list[bytes]]) -> tuple[int, str] | None:
        if b"transfer-encoding" in headers and (b"content-length" in headers or scope["http_version"] == "1.0"):
            return (
                400,
                "a request must have exactly one length",
            )  # a proxy may follow the other header and see a different request
        hosts = headers.get(b"host", [])
        if len(hosts) != 1 or hosts[0].decode("latin-1").lower() not in self._address.hosts:
            return 421, "this server does not answer to that host name"
        method = scope["method"]
        if method not in ("GET", "HEAD", "POST"):
            return 405, "only GET and POST are allowed"
        if method == "POST":
            origins = headers.get(b"origin", [])
            if len(origins) != 1 or origins[0].decode("latin-1") not in self._address.origins:
                return 403, "requests from other sites are refused"
            if headers.get(b"sec-fetch-site", [b"same-origin"])[0] != b"same-origin":
                return 403, "requests from other sites are refused"
            kind = headers.get(b"content-type", [b""])[0].split(b";")[0].strip().lower()
            if kind != b"application/json":
                return 415, "expected application/json"
            length = headers.get(b"content-length", [b"0"])[0]
            if not length.isdigit() or int(length) > MAX_BODY:
                return 413, f"the request is larger than {MAX_BODY} bytes"
        return None

    async def _over_rate(self, scope: Scope, headers: dict[bytes, list[bytes]]) -> tuple[int, str] | None:
        path = scope["path"]
        if path == "/api/login":
            return None  # `Attempts` limits log-ins, because it knows which ones fail
        address = (scope.get("client") or ("?",))[0]
        cookies = [part.strip() for part in b";".join(headers.get(b"cookie", [])).split(b";")]
        own = [
            cookie.removeprefix(self._cookie).decode("latin-1") for cookie in cookies if cookie.startswith(self._cookie)
        ]
        session = own[-1].strip('"')[:400] if own else ""
        # Who is logged in is not held up by others at the same address.
        if not self._rates["address"].allows(address) and not (session and await self._is_session(session)):
            return 429, "too many requests; wait a moment"
        kind = "media" if path.startswith(("/media/", "/static/")) else "other"
        # Limits each session if there is one, because a team may share one address.
        return None if self._rates[kind].allows(session or address) else (429, "too many requests; wait a moment")


async def _body(receive: Receive) -> bytes:
    """Read the body of a request, but stop once it exceeds the limit."""
    body, more = b"", True
    while more and len(body) <= MAX_BODY:
        message = await receive()
        body += message.get("body", b"")
        more = bool(message.get("more_body"))
    return body


def _after(body: bytes, receive: Receive) -> Receive:
    """Return a receive channel that delivers this body again."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again


class _HeaderSender:
    """Sends a response and adds the headers that every response has."""

    def __init__(self, send: Send, path: str) -> None:
        self._send = send
        self._path = path
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers: list[Any] = [*message.get("headers", []), *_HEADERS]
            if not any(name == b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-cache" if self._path.startswith("/static/") else b"no-store"))
            message = {**message, "headers": headers}
        await self._send(message)


async def _answer(send: Send, status: int, error: str) -> None:
    body = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *_HEADERS]
    if status == 429:
        headers.append((b"retry-after", b"2"))
    if status in (400, 408, 413):
        headers.append((b"connection", b"close"))  # the rest of the connection is not read
    headers.append((b"cache-control", b"no-store"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
