"""HTTP for models behind an address: one request at a time, its failures sorted by blame. Nothing is retried here.

Keys come from the environment and are sent in a header. They never appear in a message, a record or a file.
A request ends within its time-out, however slowly the service sends (`models/bounded.py`).
"""

import email.utils
import logging
import os
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from strobe.annexes.remote.bounded import ALLOWANCE, pool_classes, tls_context
from strobe.core.errors import ModelFailed, printable
from strobe.core.files import json_of
from strobe.core.late import require
from strobe.core.remote import Blame, RequestFailed, Usage
from strobe.core.secrets import remember

_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_FRAME = frozenset({400, 413, 415, 422})
MOST_BYTES = 64 * 2**20
"""The largest reply that is read, with its head."""
_WAITS_S, _LONGEST_WAIT_S = (0.25, 0.5, 1.0), 30.0
_MOST_SHOWN = 2**16
"""How much of a reply is searched for its message."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """A reply with status 200 to 299. Header names are in lower case."""

    headers: Mapping[str, str]
    body: bytes

    def json(self, what: str) -> Any:
        """Return the body as JSON; `what` names the service in the error."""
        try:
            return json_of(self.body)
        except ValueError as error:
            problem = "is nested too deeply" if "nested" in str(error) else "is not JSON"
            start = printable(self.body[:_MOST_SHOWN].decode("utf-8", "replace"), limit=80)
            raise RequestFailed(f"{what}: the reply {problem}: {start}", blame="frame") from None


class HttpClient:
    """Sends requests to one address, from many threads. It keeps `connections` open.

    `keys` are names of environment variables; the first one that is set is sent as a bearer token.
    """

    def __init__(self, address: str, *, what: str, timeout: float, connections: int, keys: Sequence[str] = ()) -> None:
        urllib3 = require("urllib3", what=what, extra="remote")
        self.address, self._what, self._timeout, self._urllib3 = check_address(address, what), what, timeout, urllib3
        self._keys, self._secret = tuple(keys), key_of(keys, what)
        keep_quiet("urllib3.connection")
        parts = urlsplit(self.address)
        proxy = None if urllib.request.proxy_bypass(parts.netloc) else urllib.request.getproxies().get(parts.scheme)
        tls = tls_context() if "https" in (parts.scheme, (proxy or "").partition(":")[0].lower()) else None
        settings = {"maxsize": connections, "block": False, "retries": False, "ssl_context": tls}
        self._pool = (
            urllib3.ProxyManager(proxy, proxy_ssl_context=tls, **settings) if proxy else urllib3.PoolManager(**settings)
        )
        self._pool.pool_classes_by_scheme = pool_classes()

    @property
    def has_key(self) -> bool:
        """Whether the environment has a key for this service."""
        return self._secret is not None

    def send(
        self, method: str, path: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> HttpReply:
        """Send one request and return its reply. Raises RequestFailed for every other outcome."""
        used = Usage(requests=1, sent_bytes=len(body or b""))
        sent = dict(headers or {})
        if self._secret is not None:
            sent["Authorization"] = f"Bearer {self._secret}"
        ALLOWANCE.start(self._timeout, MOST_BYTES)
        try:
            reply = self._pool.request(
                method, self.address + path, body=body, headers=sent, timeout=self._timeout, redirect=False,
                preload_content=False,
            )  # fmt: skip
            try:
                # We ask for no compression, and unpack none: a small reply could become a very large one.
                content = b"".join(reply.stream(2**16, decode_content=False))
            finally:
                reply.release_conn()
        except self._urllib3.exceptions.HTTPError as error:
            raise self._lost(error, used) from error
        if 200 <= reply.status < 300:
            return HttpReply(headers={name.lower(): value for name, value in reply.headers.items()}, body=content)
        raise self._refused(reply, content, used)

    def _lost(self, error: Exception, used: Usage) -> RequestFailed:
        """Return the failure of a request that got no reply."""
        names = self._urllib3.exceptions
        if ALLOWANCE.left < 0:
            return self._failed(f"the reply is larger than {MOST_BYTES:,} bytes", blame="frame", used=used)
        if isinstance(error, names.SSLError):
            why = "its certificate cannot be verified; set SSL_CERT_FILE to the certificate of its issuer"
            return self._failed(f"{why} ({error})", blame="model", used=used)
        if isinstance(error, names.LocationValueError):
            return self._failed(f"not a valid address ({error})", blame="model", used=used)
        if isinstance(error, names.NewConnectionError | names.ProxyError):  # the first is a kind of time-out
            return self._failed("nothing answers at this address; is the service running?", blame="again", used=used)
        if isinstance(error, names.TimeoutError):
            return self._failed(f"no complete reply within {self._timeout:g} s", blame="again", used=used)
        if "BadStatusLine" in str(error):
            return self._failed("what answers there is not HTTP; check the port", blame="again", used=used)
        return self._failed(f"the connection was lost ({error})", blame="again", used=used)

    def _refused(self, reply: Any, content: bytes, used: Usage) -> RequestFailed:
        """Return the failure of a request that got a reply with another status."""
        status, said = reply.status, _message(content)
        text = f"status {status}" + (f": {said}" if said else "")
        if 300 <= status < 400:
            target = reply.headers.get("Location", "another address")
            return self._failed(f"it redirects to {target}; use that address", blame="model", used=used)
        if status in (401, 403):
            names = " or ".join(self._keys)
            way = "it refused the key in" if self.has_key else "it asks for a key; set"
            return self._failed(f"{way} {names} ({text})" if names else text, blame="model", used=used)
        if status in _AGAIN or status >= 502:
            return self._failed(text, blame="again", used=used, after=_seconds(reply.headers.get("Retry-After")))
        return self._failed(text, blame="frame" if status in _FRAME else "model", used=used)

    def _failed(self, reason: str, *, blame: Blame, used: Usage, after: float | None = None) -> RequestFailed:
        return RequestFailed(f"{self._what}: {printable(reason, limit=240)}", blame=blame, after=after, used=used)


def key_of(names: Sequence[str], what: str) -> str | None:
    """Return the key in the first of these environment variables that is set. It is removed from every text."""
    named = next(((name, value) for name in names if (value := os.environ.get(name, "").strip())), None)
    if named is None:
        return None
    remember(named[1])
    if not (named[1].isascii() and named[1].isprintable()):
        raise ModelFailed(f"{what}: the key in {named[0]} has a character that no header can have")
    return named[1]


def patiently(call: Callable[[], Result], *, within: float) -> Result:
    """Call, and call again if the service asks for it. For the few requests before the first frame.

    No call starts later than this many seconds after the first one.
    """
    end = time.monotonic() + within
    for wait_s in _WAITS_S:
        try:
            return call()
        except RequestFailed as error:
            wait_s = min(error.after or wait_s, _LONGEST_WAIT_S)
            if error.blame != "again" or time.monotonic() + wait_s > end:
                raise
            time.sleep(wait_s)
    return call()


def keep_quiet(library: str) -> None:
    """Keep a library from logging the bytes of a service, which may repeat the key."""
    logging.getLogger(library).setLevel(logging.CRITICAL)


def check_address(address: str, what: str) -> str:
    """Return an http address without a slash at its end. Raises ModelFailed for anything else.

    >>> check_address("http://localhost:8080/v1/", "m")
    'http://localhost:8080/v1'
    """
    shown = printable(address.partition("?")[0].rpartition("@")[2])  # a password or a key may be in the rest
    try:
        parts = urlsplit(address)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_is_valid = urlsplit(""), False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_valid:
        raise ModelFailed(f"{what}: expected an address such as https://HOST:PORT, got {shown}")
    if "@" in parts.netloc:
        raise ModelFailed(f"{what}: the address contains a password; put the key into the environment instead")
    if parts.query or parts.fragment:
        raise ModelFailed(f"{what}: expected an address without ? and #, got {shown}?…")
    return address.rstrip("/")


def _message(content: bytes) -> str:
    """Return the error message of a reply: the text in its JSON, or its beginning."""
    text = content[:_MOST_SHOWN].decode("utf-8", "replace").strip()
    try:
        json = json_of(content)
    except ValueError:
        return printable(text, limit=160)
    for name in ("error", "detail", "message"):
        inner = json.get(name) if isinstance(json, dict) else None
        if isinstance(inner, dict):
            inner = inner.get("message")
        if isinstance(inner, str):
            return printable(inner, limit=160)
    return printable(text, limit=160)


def _seconds(text: str | None) -> float | None:
    """Return the seconds of a Retry-After header, which has a number or a date.

    >>> _seconds("7"), _seconds("soon"), _seconds(None)
    (7.0, None, None)
    """
    if text is None:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None
