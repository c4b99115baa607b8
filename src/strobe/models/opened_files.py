"""Files that code opens while it runs, as Python's audit events report them: what a plugin's answers may follow from.

Only what goes through Python's `open` is seen, and not what a library opens by itself (onnxruntime, safetensors,
torch.jit). Weights in such formats count where a plugin's text names them.
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
"""Endings of files with weights that libraries open without Python's `open`."""

_SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/usr", "/lib", "/lib64", "/bin", "/System", "/Library")


@dataclass(slots=True, eq=False)
class Watch:
    """The files opened while it was on: read, by their whole paths and as they were written, and written to."""

    _read: dict[str, str] = field(default_factory=dict)
    _written: set[str] = field(default_factory=set)

    def see(self, name: Any, mode: Any, flags: Any) -> None:
        """One event `open`."""
        if isinstance(name, bytes):
            name = os.fsdecode(name)
        if not isinstance(name, str) or name.endswith((".pyc", ".py")):  # modules are known by other ways
            return
        whole = str(Path(name).resolve())
        writes = any(sign in mode for sign in "wax+") if isinstance(mode, str) else flags & (os.O_WRONLY | os.O_RDWR)
        if writes:
            self._written.add(whole)
        else:
            self._read.setdefault(whole, name)

    def files(self, home: Path) -> list[Path]:
        """What was read and not written, sorted; files of the system and of packages are left out, but in `home`."""
        foreign = [place for place in _foreign() if not _within(str(home), place)]
        names = [name for name in self._read if name not in self._written and _is_file(name)]
        own = [name for name in names if not any(_within(name, place) for place in foreign)]
        inside = [name for name in own if _within(name, str(home)) or not any(_within(name, p) for p in _foreign())]
        return sorted(map(Path, inside))

    def strayed(self, home: Path) -> list[Path]:
        """What was read by a relative path from the working directory, where `home` has a file of that name, too."""
        found = []
        for path in self.files(home):
            written = self._read[str(path)]
            twin = home / written
            if not Path(written).is_absolute() and _is_file(str(twin)) and not path.samefile(twin):
                found.append(path)
        return found


_WATCHES: list[Watch] = []


@contextmanager
def watching(watch: Watch | None = None) -> Iterator[Watch]:
    """A watch over every file that is opened, in whatever thread, until it is left; or one that goes on."""
    _hooked()
    watch = watch or Watch()
    _WATCHES.append(watch)
    try:
        yield watch
    finally:
        _WATCHES.remove(watch)


@cache
def _hooked() -> None:
    """Hooks cannot be taken out again, so there is one, and only where a plugin is loaded."""
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
    """Folders of the system, of Python, of packages and of caches."""
    packages = [*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parents[1])]
    home = [str(Path(place).expanduser()) for place in ("~/.cache", "~/.config", "~/.local")]
    return (*_SYSTEM, sys.prefix, sys.base_prefix, sys.exec_prefix, *packages, *home)
