"""Detect the files that a plugin opens, through Python's audit events, because its answers may depend on them.

Only files opened through Python's `open` are detected. Files that a library opens directly (onnxruntime, safetensors,
torch.jit) are not. Weights in such formats count if the plugin's source names them.
"""

import os
import site
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["OPENED_BY_LIBRARIES", "Watch", "watching"]

OPENED_BY_LIBRARIES = frozenset(
    (
        ".onnx",
        ".data",
        ".safetensors",
        ".pt",
        ".pth",
        ".pt2",
        ".ts",
        ".torchscript",
        ".bin",
        ".param",
        ".gguf",
        ".tflite",
        ".pb",
        ".caffemodel",
        ".prototxt",
        ".weights",
        ".cfg",
        ".xml",
        ".engine",
        ".plan",
        ".trt",
        ".h5",
        ".hdf5",
        ".keras",
    )
)
"""Suffixes of weight files that libraries open without Python's `open`."""

_SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/usr", "/lib", "/lib64", "/bin", "/System", "/Library")


@dataclass(slots=True, eq=False)
class Watch:
    """The files opened while watching: files read, by absolute path and as written in the call, and files written."""

    _read: dict[str, str] = field(default_factory=dict)
    _written: set[str] = field(default_factory=set)

    def see(self, name: Any, mode: Any, flags: Any) -> None:
        """Record one `open` event."""
        if isinstance(name, bytes):
            name = os.fsdecode(name)
        if not isinstance(name, str) or name.endswith((".pyc", ".py")):  # own_imports records modules
            return
        absolute = str(Path(name).resolve())
        if Path(absolute).parent.suffix in (".egg-info", ".dist-info"):  # libraries read these to find other packages
            return
        writes = any(sign in mode for sign in "wax+") if isinstance(mode, str) else flags & (os.O_WRONLY | os.O_RDWR)
        if writes:
            self._written.add(absolute)
        else:
            self._read.setdefault(absolute, name)

    def files(self, home: Path) -> list[Path]:
        """Return files that were read and not written, sorted.

        System and package files count only if they are in `home`.
        """
        foreign = [place for place in _foreign() if not _within(str(home), place)]
        names = [name for name in self._read if name not in self._written and _is_file(name)]
        own = [name for name in names if not any(_within(name, place) for place in foreign)]
        inside = [name for name in own if _within(name, str(home)) or not any(_within(name, p) for p in _foreign())]
        return sorted(map(Path, inside))

    def strayed(self, home: Path) -> list[Path]:
        """Return files that were read relative to the working directory although `home` has a file of the same name."""
        misplaced = []
        for path in self.files(home):
            written = self._read[str(path)]
            twin = home / written
            if not Path(written).is_absolute() and _is_file(str(twin)) and not path.samefile(twin):
                misplaced.append(path)
        return misplaced


_WATCHES: list[Watch] = []


@contextmanager
def watching(watch: Watch | None = None) -> Iterator[Watch]:
    """Record every file opened in any thread until the context ends, in a new or an existing Watch."""
    _hooked()
    watch = watch or Watch()
    _WATCHES.append(watch)
    try:
        yield watch
    finally:
        _WATCHES.remove(watch)


@cache
def _hooked() -> None:
    """Install the audit hook. Hooks cannot be removed, so there is only one, installed when a plugin is loaded."""
    sys.addaudithook(_hear)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _WATCHES and event == "open":
        for watch in tuple(_WATCHES):
            watch.see(*arguments)


def _is_file(name: str) -> bool:
    try:
        return stat.S_ISREG(Path(name).stat().st_mode)
    except (OSError, ValueError):
        return False


def _within(name: str, folder: str) -> bool:
    return name.startswith(folder.rstrip(os.sep) + os.sep)


@cache
def _foreign() -> tuple[str, ...]:
    """Return the folders of the system, Python, packages and caches."""
    packages = [*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parents[1])]
    home = [str(Path(place).expanduser()) for place in ("~/.cache", "~/.config", "~/.local")]
    return (*_SYSTEM, sys.prefix, sys.base_prefix, sys.exec_prefix, *packages, *home)
