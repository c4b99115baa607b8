"""Run `strobe review serve` with timers inside. Only review_load.py uses it.

    python benchmarks/review_timed_server.py OUT.json serve DATASET …

The times that annotators see include the machine that simulates fifty of them. This script measures the server's own
part, in seconds: each claim and decision from arrival to response, the store's part of a claim in wall and CPU time,
and how long a write blocked all other writers, for a claim or sign-in (`passing`) and for decisions (`lasting`). It
writes the results when the server ends.
"""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from strobe.annexes.web import serve
from strobe.annexes.web.review import queue
from strobe.annexes.web.review.command import command
from strobe.annexes.web.review.database import Database

WATCHED = {"/api/claim": "claim", "/api/decisions": "decision"}


def main() -> None:
    """Serve with timers, and write the results."""
    out = Path(sys.argv[1])
    names = (*WATCHED.values(), "store_claim", "store_claim_cpu", "passing", "lasting")
    found: dict[str, list[float]] = {name: [] for name in names}
    claim, run, write = queue.claim, serve.run, Database.write

    @contextmanager
    def watched_write(self: Database, *, durable: bool = True) -> Iterator[Any]:
        with write(self, durable=durable) as connection:
            begin = time.perf_counter()
            yield connection
        found["lasting" if durable else "passing"].append(time.perf_counter() - begin)

    def watched_claim(*args: Any, **options: Any) -> Any:
        begin, used = time.perf_counter(), time.thread_time()
        try:
            return claim(*args, **options)
        finally:
            found["store_claim"].append(time.perf_counter() - begin)
            found["store_claim_cpu"].append(time.thread_time() - used)

    def watched_run(app: Any, *args: Any, **options: Any) -> None:
        async def watched(scope: Any, receive: Any, send: Any) -> None:
            begin = time.perf_counter()
            await app(scope, receive, send)
            if scope.get("path") in WATCHED:
                found[WATCHED[scope["path"]]].append(time.perf_counter() - begin)

        try:
            run(watched, *args, **options)  # type: ignore[arg-type]  # an ASGI application
        finally:
            out.write_text(json.dumps(found), encoding="utf-8")

    queue.claim, serve.run = watched_claim, watched_run
    Database.write = watched_write  # type: ignore[method-assign]  # in this process only
    command(sys.argv[2:])


if __name__ == "__main__":
    main()
