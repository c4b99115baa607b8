"""A server of this annex in a thread of this process, and clients that talk to it as its page does."""

import threading
import time
from collections.abc import Callable
from typing import Any

from strobe.annexes.web.guard import ServerAddress


class ServerInThread:
    """Serves the application that `make` returns for its address, until it is stopped."""

    def __init__(self, make: Callable[[ServerAddress], Any], *, port: int = 0) -> None:
        import uvicorn

        from strobe.annexes.web.serve import bind, config_of

        self._listener = bind("127.0.0.1", port)
        self.address = ServerAddress.of("127.0.0.1", self._listener.getsockname()[1])
        self.url, self.guard = self.address.url, make(self.address)
        self._server = uvicorn.Server(config_of(self.guard))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listener]}, daemon=True)
        self._thread.start()
        deadline = time.monotonic() + 60
        while not self._server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        self._clients: list[Any] = []

    def client(self, login: dict[str, Any] | None = None, **headers: str) -> Any:
        """A client with a cookie jar of its own, logged in where a body is given."""
        import httpx

        made = httpx.Client(base_url=self.url, headers={"origin": self.url, **headers}, timeout=30)
        self._clients.append(made)
        if login is not None:
            answer = made.post("/api/login", json=login)
            assert answer.status_code == 200, answer.text
        return made

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        self._server.should_exit = True
        self._thread.join(20)
        self._listener.close()
