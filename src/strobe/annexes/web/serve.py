"""Run the server: bind, print the address, then serve until stopped."""

import asyncio
import contextlib
import errno
import logging
import socket
import time
from collections.abc import Callable, Sequence

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from strobe.annexes.web.guard import Guard, checked_proxies
from strobe.core.errors import StrobeError, printable

HEAD_S = 20.0
"""The longest time in seconds for the head of a request to arrive."""


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket, or raise a one-line error. Port 0 chooses a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only with a named protocol does asyncio disable Nagle's delay (40 ms per answer).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise StrobeError(
                f"port {port} is in use; choose another port with <<port>>, or a free one with <<port=0>>"
            ) from error
        raise StrobeError(f"cannot listen on {printable(host)}:{port}: {error.strerror or error}") from error
    return listener


class _InTime(H11Protocol):
    """Closes a connection if the head of a request does not arrive in time. uvicorn itself would wait forever."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # like uvicorn's
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop()

    def _watch(self) -> None:
        """Start the timer on connection or at the first byte of a request's head, and stop it at the last byte."""
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._late is None:
            self._late = self.loop.call_later(HEAD_S, self.timeout_keep_alive_handler)

    def _stop(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class ThrottledLog(logging.Filter):
    """Logs a repeated message only now and then, with a count, so that nobody can fill the log."""

    def __init__(self, *, every_s: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._every_s, self._clock = every_s, clock
        self._seen: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log the message: not if the same text was logged recently."""
        now, text = self._clock(), record.getMessage()
        since, kept_back = self._seen.get(text, (-1e9, 0))
        if now - since < self._every_s:
            self._seen[text] = (since, kept_back + 1)
            return False
        if len(self._seen) > 1000:
            self._seen.clear()
        self._seen[text] = (now, 0)
        if kept_back:
            record.msg, record.args = f"{text} (repeated {kept_back} times before)", ()
        return True


def config_of(app: Guard, proxies: Sequence[str] = ()) -> uvicorn.Config:
    """Return uvicorn's configuration. Only these proxies may name the address of somebody else (X-Forwarded-For)."""
    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=checked_proxies(proxies),
        timeout_keep_alive=30,
        lifespan="off",
        ws="none",
        http=_InTime,
        timeout_graceful_shutdown=3,
        limit_concurrency=2000,
        h11_max_incomplete_event_size=16 * 1024,
    )


def run(app: Guard, listener: socket.socket, *, proxies: Sequence[str] = (), on_ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM. Requests are not logged, because they contain addresses and names."""

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            on_ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # A request still open after Ctrl-C is cancelled after a while. The guard answers it, so uvicorn's error is
            # not logged.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            await super().shutdown(sockets=sockets)

    config = config_of(app, proxies)
    for name in ("uvicorn.error", "asyncio", "strobe.annexes.web"):
        logging.getLogger(name).addFilter(ThrottledLog())
    # Ctrl-C is the normal way to stop. uvicorn raises it after finishing the requests in progress.
    with contextlib.suppress(KeyboardInterrupt):
        Server(config).run(sockets=[listener])
