"""Detect whether a file in a folder was opened or changed, by any library, through the kernel's inotify."""

import ctypes
import os
import struct
from pathlib import Path

__all__ = ["Watcher"]

_EVENTS = {
    0x20: "opened",
    0x2: "changed",
    0x100: "made",
    0x200: "removed",
    0x40: "moved away",
    0x80: "moved here",
    0x4: "changed the permissions of",
}
_HEAD = struct.Struct("iIII")


class Watcher:
    """Watches a folder and everything below it. Works only on Linux; elsewhere it reports no events."""

    def __init__(self, folder: Path) -> None:
        self._names: dict[int, Path] = {}
        libc = ctypes.CDLL(None, use_errno=True)
        self._handle = libc.inotify_init1(os.O_NONBLOCK) if hasattr(libc, "inotify_init1") else -1
        if self._handle < 0:
            return
        for path in (folder, *folder.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                number = libc.inotify_add_watch(self._handle, os.fsencode(path), sum(_EVENTS))
                self._names[number] = path.relative_to(folder)

    def events(self) -> list[str]:
        """Return a description of each event so far, without repetitions, and stop watching."""
        if self._handle < 0:
            return []
        descriptions: dict[str, None] = {}
        try:
            while data := os.read(self._handle, 1 << 16):
                place = 0
                while place < len(data):
                    number, mask, _, length = _HEAD.unpack_from(data, place)
                    name = os.fsdecode(data[place + _HEAD.size : place + _HEAD.size + length].rstrip(b"\0"))
                    word = next((word for bit, word in _EVENTS.items() if mask & bit), "")
                    if word:
                        descriptions[f"{word} {(self._names.get(number, Path()) / name).as_posix()}"] = None
                    place += _HEAD.size + length
        except BlockingIOError:
            pass
        finally:
            os.close(self._handle)
        return list(descriptions)
