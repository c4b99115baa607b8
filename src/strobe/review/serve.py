"""Running the server: bind first, then say where, then serve until told to stop."""

import contextlib
import errno
import logging
import socket
from collections.abc import Callable

import uvicorn

from strobe.core.errors import StrobeError, printable
from strobe.review.guard import Guard

__all__ = ["bind", "run"]


def bind(host: str, port: int) -> socket.socket:
    """A listening socket, or one line that says why not. Port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol must be named: asyncio switches off Nagle's delay (40 ms an answer) only where it is.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise StrobeError(
                f"port {port} is taken; choose another with --port, or --port 0 for any free one"
            ) from error
        raise StrobeError(f"cannot listen on {printable(host)}:{port}: {error.strerror or error}") from error
    return listener


def run(app: Guard, listener: socket.socket, *, on_ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM. Requests are not logged: addresses and names are nobody's business."""

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            on_ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # A request still open at Ctrl-C is cut off after a while and told so (the guard): no matter for the log.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            await super().shutdown(sockets=sockets)

    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_keep_alive=30, lifespan="off",
        ws="none", timeout_graceful_shutdown=3, limit_concurrency=2000, h11_max_incomplete_event_size=16 * 1024,
    )  # fmt: skip
    # Ctrl-C is how a server is stopped, not an accident; uvicorn has finished what was under way when it raises it.
    with contextlib.suppress(KeyboardInterrupt):
        Server(config).run(sockets=[listener])
