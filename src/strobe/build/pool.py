"""Worker processes for long work on many files."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import InvalidStateError, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

__all__ = ["worker_pool"]


@contextmanager
def worker_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with us: at once on Ctrl-C or an error, and when we are killed."""
    # spawn: a forked copy of a process with threads (progress bars, BLAS, FFmpeg) can hang.
    context = multiprocessing.get_context("spawn")
    others = {process.pid for process in multiprocessing.active_children()}
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent)
    usual = threading.excepthook
    try:
        yield pool
    except BaseException:
        # Ctrl-C or a full disk: nobody waits for work that is half done; it does not count.
        threading.excepthook = _quiet(usual)
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            if process.pid not in others:
                process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        threading.excepthook = usual


def _quiet(usual: Callable[[threading.ExceptHookArgs], Any]) -> Callable[[threading.ExceptHookArgs], None]:
    """Say nothing of work that was cancelled before its process went: the pool's own thread stumbles over it."""

    def hook(told: threading.ExceptHookArgs) -> None:
        if told.exc_type is not InvalidStateError:
            usual(told)

    return hook


def _end_with_parent() -> None:
    """Workers of a killed command must not live on and write beside the one that resumes it; Ctrl-C is the parent's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
