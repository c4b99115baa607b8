"""A real HTTP service in threads of this process: every request goes to one function."""

import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

Request = BaseHTTPRequestHandler


class _Http(ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients go away on purpose."""


class HttpService:
    """The service at `root`, until it is closed. `answer` gets each request and its body."""

    def __init__(self, answer: Callable[[Request, bytes], None], *, certificate: Path | None = None) -> None:
        class Handler(Request):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                with suppress(BrokenPipeError, ConnectionResetError):
                    answer(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))

            do_GET = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                """Print nothing."""

        self._http, scheme = _Http(("127.0.0.1", 0), Handler), "http"
        if certificate is not None:
            context, scheme = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "https"
            context.load_cert_chain(certificate)
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self.root = f"{scheme}://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


def send(
    request: Request, status: int, body: bytes, headers: Mapping[str, str] | None = None, *, cut: bool = False
) -> None:
    """Reply; with `cut`, close the connection in the middle."""
    request.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(body[: len(body) // 2] if cut else body)
    if cut:
        request.close_connection = True
