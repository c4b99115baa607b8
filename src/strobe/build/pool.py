"""Worker processes for long work on many files."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

__all__ = ["worker_pool"]


@contextmanager
def worker_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with us: at once on Ctrl-C or an error, and when we are killed."""
    # spawn: a forked copy of a process with threads (progress bars, BLAS, FFmpeg) can hang.
    context = multiprocessing.get_context("spawn")
    others = {process.pid for process in multiprocessing.active_children()}
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent)
    try:
        yield pool
    except BaseException:
        # Ctrl-C or a full disk: nobody waits for work that is half done; it does not count.
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            if process.pid not in others:
                process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


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
