"""Worker processes for long tasks on many files."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import InvalidStateError, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any


@contextmanager
def worker_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Open a pool whose processes end with this process.

    They end at once on Ctrl-C, on an error, and if this process is killed.
    """
    # Use spawn, because a forked copy of a process with threads (progress bars, BLAS, FFmpeg) can hang.
    context = multiprocessing.get_context("spawn")
    others = {process.pid for process in multiprocessing.active_children()}
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent)
    usual = threading.excepthook
    try:
        yield pool
    except BaseException:
        # On Ctrl-C or a full disk, do not wait for unfinished work, because its results would not be used.
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
    """Suppress the errors that the pool's thread raises if work is cancelled before its worker process has ended."""

    def hook(event: threading.ExceptHookArgs) -> None:
        if event.exc_type is not InvalidStateError:
            usual(event)

    return hook


def _end_with_parent() -> None:
    """End a worker when its parent is killed, so that the worker does not write alongside the resumed run.

    The parent handles Ctrl-C.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
