"""Connections on which a whole request is bounded: in time, from its first connection to its last byte, and in bytes.

The time-out of a socket bounds a single call. A service that sends a byte now and then would never reach it.
"""

import socket
import ssl
import threading
import time
from functools import cache
from typing import Any

from strobe.core.late import require

_CONNECT_S = 10.0
"""The longest time to connect."""


class Allowance(threading.local):
    """What the request that this thread sends may still use: the time `until` a moment, and `left` bytes of reply."""

    until = 0.0
    left = 0

    def start(self, seconds: float, n_bytes: int) -> None:
        """Start a request."""
        self.until, self.left = time.monotonic() + seconds, n_bytes

    def timed(self, made: socket.socket, most: float = threading.TIMEOUT_MAX) -> None:
        """Let the next call of a socket end in time. Raises TimeoutError if no time is left."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        made.settimeout(min(left, most))

    def read(self, n_bytes: int) -> int:
        """Count bytes that have come. Raises OSError if they are too many."""
        self.left -= n_bytes
        if self.left < 0:
            raise OSError("the reply is too large")
        return n_bytes


ALLOWANCE = Allowance()


class _Bounded(socket.socket):
    """A socket on which each call keeps to the allowance of its thread."""

    def connect(self, address: Any) -> None:
        ALLOWANCE.timed(self, _CONNECT_S)
        super().connect(address)

    def recv(self, *given: Any) -> bytes:
        ALLOWANCE.timed(self)
        found = super().recv(*given)
        ALLOWANCE.read(len(found))
        return found

    def recv_into(self, *given: Any) -> int:
        ALLOWANCE.timed(self)
        return ALLOWANCE.read(super().recv_into(*given))

    def send(self, *given: Any) -> int:
        ALLOWANCE.timed(self)
        return super().send(*given)

    def sendall(self, *given: Any) -> None:
        ALLOWANCE.timed(self)
        super().sendall(*given)


class _BoundedTls(_Bounded, ssl.SSLSocket):
    """The same for TLS."""

    def do_handshake(self, block: bool = False) -> None:
        ALLOWANCE.timed(self)
        super().do_handshake(block)


def tls_context() -> ssl.SSLContext:
    """Return the usual context, for connections that keep to the allowance."""
    context = ssl.create_default_context()
    context.sslsocket_class = _BoundedTls
    return context


@cache
def pool_classes() -> dict[str, Any]:
    """Return the connection pools of urllib3 by scheme, with connections that keep to the allowance."""
    urllib3 = require("urllib3", what="a model behind an address", extra="remote")
    errors = urllib3.exceptions

    def dialled(self: Any) -> socket.socket:
        host, failed = self.host.strip("[]"), OSError("no address")
        try:
            for family, kind, protocol, _, place in socket.getaddrinfo(host, self.port, type=socket.SOCK_STREAM):
                made = _Bounded(family, kind, protocol)
                try:
                    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    made.connect(place)
                    return made
                except OSError as error:  # the next address may answer, if time is left
                    made.close()
                    failed = error
        except UnicodeError as error:
            raise errors.LocationParseError(host) from error
        except OSError as error:
            failed = error
        if isinstance(failed, TimeoutError):
            raise errors.ConnectTimeoutError(self, "timed out") from failed
        raise errors.NewConnectionError(self, str(failed)) from failed

    pools = {"http": urllib3.HTTPConnectionPool, "https": urllib3.HTTPSConnectionPool}
    return {
        scheme: type("Pool", (pool,), {"ConnectionCls": type("Link", (pool.ConnectionCls,), {"_new_conn": dialled})})
        for scheme, pool in pools.items()
    }
