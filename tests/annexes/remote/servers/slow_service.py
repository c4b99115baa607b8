"""A relay in front of a service. From a moment on, it answers as a hostile service would: slowly, or without an end."""

import contextlib
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from fuzz.readers import mutated

Attack = Callable[[socket.socket], None]

GAP_S = 0.1
"""The time between two pieces."""
LIFE_S = 20.0
"""The longest time that an attack goes on, whatever the client does."""


def dripping(pieces: Callable[[], Iterator[bytes]], gap_s: float = GAP_S) -> Attack:
    def attack(link: socket.socket) -> None:
        end = time.monotonic() + LIFE_S
        for piece in pieces():
            if time.monotonic() > end:
                return
            link.sendall(piece)
            if gap_s:
                time.sleep(gap_s)
        time.sleep(max(0.0, end - time.monotonic()))

    return attack


def _head(*lines: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def _then(first: bytes, again: bytes) -> Callable[[], Iterator[bytes]]:
    def pieces() -> Iterator[bytes]:
        yield first
        while True:
            yield again

    return pieces


def _one_by_one() -> Iterator[bytes]:
    for byte in b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 10_000:
        yield bytes([byte])


SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""The empty frame with which an HTTP/2 server begins."""
CHUNKED = _head(b"Transfer-Encoding: chunked")
ATTACKS: dict[str, Attack] = {
    "silence": dripping(lambda: iter(())),
    "a body byte by byte": dripping(_then(_head(b"Content-Length: 100000"), b" ")),
    "a body without a length, byte by byte": dripping(_then(_head(), b" ")),
    "a head byte by byte": dripping(_one_by_one),
    "header lines": dripping(_then(b"HTTP/1.1 200 OK\r\n", b"X-One: 1\r\n")),
    "100 Continue": dripping(_then(b"", b"HTTP/1.1 100 Continue\r\n\r\n")),
    "100 Continue, fast": dripping(_then(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100), 0.001),
    "chunks": dripping(_then(CHUNKED, b"1\r\n \r\n")),
    "the size of a chunk": dripping(_then(CHUNKED, b"0")),
    "trailers": dripping(_then(CHUNKED + b"0\r\n", b"X-One: 1\r\n")),
    "a TLS record": dripping(_then(b"\x16\x03\x03\x40\x00", b"\x00")),
    "an HTTP/2 frame": dripping(_then(SETTINGS + b"\x00\xff\x00\x00\x00\x00", b"\x00")),
    "HTTP/2 pings": dripping(_then(SETTINGS, b"\x00\x00\x08\x06\x00\x00\x00\x00\x00" + b"1" * 8)),
}


class Relay:
    """Passes bytes to the service at `url` until `attack` is set. Links that are open then are closed.

    With `damage`, most parts of its replies are damaged.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._to = ("127.0.0.1", parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = url.replace(f":{parts.port}", f":{self._listener.getsockname()[1]}")
        self.attack: Attack | None = None
        self.damage: random.Random | None = None
        self.n_links = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.turn(None)

    def turn(self, attack: Attack | None) -> None:
        self.attack = attack
        links, self._open = self._open, []
        for link in links:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                link, _ = self._listener.accept()
                self.n_links += 1
                self._open.append(link)
                threading.Thread(target=self._answer, args=(link,), daemon=True).start()

    def _answer(self, link: socket.socket) -> None:
        with link, contextlib.suppress(OSError):
            if self.attack is not None:
                self.attack(link)
                return
            with socket.create_connection(self._to) as there:
                self._open.append(there)
                back = threading.Thread(target=_pump, args=(there, link, self.damage), daemon=True)
                back.start()
                _pump(link, there)
                back.join()


def _pump(here: socket.socket, there: socket.socket, damage: random.Random | None = None) -> None:
    with contextlib.suppress(OSError):
        while data := here.recv(2**16):
            there.sendall(data if damage is None or damage.random() < 0.3 else mutated(data, damage))
    with contextlib.suppress(OSError):
        there.shutdown(socket.SHUT_WR)
