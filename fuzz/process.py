"""Run one strobe command in a forked process, and watch its time, its memory and its exit.

The parent imports the modules of all commands and never computes, so that a child starts clean within milliseconds.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["GROWTH", "LIMIT_S", "Done", "call", "preload", "watch"]

LIMIT_S = 20.0
"""A command that takes more seconds counts as hung. Overloaded machines get more time."""

GROWTH = 2 << 30
"""A command whose resident memory grows by more bytes is a finding."""

_MODULES = (
    "strobe.cli.main",
    "numpy",
    "scipy.stats",
    "scipy.optimize",
    "scipy.sparse",
    "pyarrow.parquet",
    "pyarrow.compute",
    "PIL.Image",
    "PIL.PngImagePlugin",
    "PIL.JpegImagePlugin",
    "av",
    "defusedxml.ElementTree",
    "matplotlib.figure",
    "matplotlib.backends.backend_svg",
    "jinja2",
    "sqlalchemy",
    "sqlalchemy.dialects.sqlite",
    "onnxruntime",
    "torchvision.io",  # saves four seconds in every child that reads frames; torch is imported for generators anyway
    "rich.console",
    "rich.progress",
    "rich.table",
    "csv",
    "sqlite3",
    "multiprocessing.pool",
    "concurrent.futures.process",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The end of a process: its exit code (None with a reason), its output, its duration and its memory."""

    code: int | None
    ended: str
    stdout: str
    stderr: str
    seconds: float
    grown: int
    answer: object = None


def preload() -> None:
    """Import the modules that commands import late, if installed, so that children need not import them."""
    for name in _MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    from strobe.cli.main import COMMANDS
    from strobe.core.late import load

    for item in COMMANDS.values():
        load(item.object)
    source = Path(sys.modules["strobe"].__file__ or "").parent
    for path in sorted(source.rglob("[!_]*.py")):
        parts = path.relative_to(source.parent).with_suffix("").parts
        if parts[1] not in ("models", "train"):  # these import large libraries, which make forks slow
            with contextlib.suppress(ImportError):
                importlib.import_module(".".join(parts))
    gc.collect()
    gc.freeze()  # otherwise the first garbage collection in a child copies every page


def call(
    words: Sequence[str],
    *,
    cwd: Path,
    limit_s: float = LIMIT_S,
    before: Callable[[], None] | None = None,
    kill_after_s: float | None = None,
) -> Done:
    """Run `strobe WORDS` in a child, after `before`. `kill_after_s` sends SIGKILL after that many seconds."""

    def job() -> object:
        from strobe.cli.main import main

        _be_nobody_special()
        if before is not None:
            before()
        try:
            main(list(words))
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        return 0

    done = watch(job, cwd=cwd, limit_s=limit_s, kill_after_s=kill_after_s)
    code = done.answer if isinstance(done.answer, int) else done.code
    ended = f"exit {code}" if isinstance(done.answer, int) else done.ended
    return Done(code=code, ended=ended, stdout=done.stdout, stderr=done.stderr, seconds=done.seconds, grown=done.grown)


def watch(job: Callable[[], object], *, cwd: Path, limit_s: float = LIMIT_S, kill_after_s: float | None = None) -> Done:
    """Run the job in a forked child and return its result, passed as JSON.

    At the limit, the child's group is killed.
    """
    streams = {name: _unnamed(cwd) for name in ("stdout", "stderr", "answer")}
    begin = time.perf_counter()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _be_child(job, cwd, streams)
    ended, grown = _wait(pid, begin, limit_s * _patience(), kill_after_s)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # kill processes that the child started and that still run
    texts = {name: _read(handle) for name, handle in streams.items()}
    code = int(ended.removeprefix("exit ")) if ended.startswith("exit ") else None
    return Done(
        code=code,
        ended=ended,
        stdout=texts["stdout"],
        stderr=texts["stderr"],
        grown=grown,
        seconds=time.perf_counter() - begin,
        answer=json.loads(texts["answer"] or "null"),
    )


def _patience() -> float:
    """Return the factor for time limits: the machine's load per core, times FUZZ_PATIENCE."""
    crowd = os.getloadavg()[0] / (os.cpu_count() or 1)
    return max(1.0, crowd) * float(os.environ.get("FUZZ_PATIENCE", "1"))


def _unnamed(beside: Path) -> int:
    """Return the descriptor of an open file without a name."""
    del beside
    return os.memfd_create("fuzz") if hasattr(os, "memfd_create") else _temporary()


def _temporary() -> int:
    import tempfile

    handle, name = tempfile.mkstemp()
    os.unlink(name)  # noqa: PTH108 (only the descriptor is used)
    return handle


def _read(handle: int, most: int = 1 << 20) -> str:
    size = os.fstat(handle).st_size
    os.lseek(handle, 0, os.SEEK_SET)
    data = os.read(handle, min(size, most))
    os.close(handle)
    return data.decode("utf-8", errors="replace")


def _be_child(job: Callable[[], object], cwd: Path, said: dict[str, int]) -> None:
    """Run the job and end this process. Never returns."""
    code = 99
    try:
        os.setsid()
        os.chdir(cwd)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(said["stdout"], 1)
        os.dup2(said["stderr"], 2)
        sys.stdout, sys.stderr = _stream(1), _stream(2)
        _limit_memory()
        answer = job()
        os.write(said["answer"], json.dumps(answer).encode())
        code = 0
    except BaseException:  # an error must not continue into the parent's code
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _stream(handle: int):  # type: ignore[no-untyped-def]  # a text stream over the handle
    return os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape", closefd=False, buffering=1)


def _be_nobody_special() -> None:
    """Drop root's right to ignore file permissions (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH). Normal users lack it."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return
    import ctypes

    libc = ctypes.CDLL(None)
    for capability in (1, 2):
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP, for child processes too
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, sets)
    for place in range(3):  # effective, permitted, inheritable
        sets[place] &= ~0b110
    libc.capset(header, sets)


def _limit_memory() -> None:
    """Limit memory to twice the watched growth, so that one case cannot stop the machine.

    The limit applies to data, not to addresses, because libraries such as torch map far more memory than they use.
    """
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 (creates fewer objects)
        now = int(file.read().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (now + 2 * GROWTH, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _resident(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:  # noqa: PTH123 (as above)
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError):
        return 0


def _wait(pid: int, begin: float, limit_s: float, kill_after_s: float | None) -> tuple[str, int]:
    """Wait for the process, checking every few milliseconds. Returns how it ended and how much its memory grew."""
    first, grown, pause = _resident(pid), 0, 0.001
    while True:
        ended, status, used = os.wait4(pid, os.WNOHANG)
        now = time.perf_counter() - begin
        if ended:
            peak = used.ru_maxrss * 1024 - first
            code = os.waitstatus_to_exitcode(status)
            return (f"exit {code}" if code >= 0 else f"signal {-code}"), max(grown, peak)
        grown = max(grown, _resident(pid) - first)
        reason = "grew past 2 GB" if grown > GROWTH else f"hung ({limit_s:g} s)" if now > limit_s else ""
        if kill_after_s is not None and now >= kill_after_s:
            reason = "killed"
        if reason:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return reason, grown
        wait = pause if kill_after_s is None else min(pause, max(kill_after_s - now, 0.0002))
        time.sleep(wait)
        pause = min(pause * 1.3, 0.02)
