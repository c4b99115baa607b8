"""Files are whole or not at all, whatever fails on the way."""

import contextlib
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from strobe.core.errors import CannotWrite, InvalidFile, StrobeError
from strobe.core.files import make_folder, read_json, replacing, sha256_of_file, write_bytes, write_json, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_error_in_the_middle_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with pytest.raises(RuntimeError), replacing(path) as temporary:  # noqa: PT012 (the body is what breaks)
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EACCES, "no write permission"),
        (errno.EROFS, "the file system is read-only"),
        (errno.EDQUOT, "quota"),
    ],
)
def test_os_errors_become_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, reason: str) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(CannotWrite, match=reason) as caught:
        write_text(path, "new")
    assert "\n" not in str(caught.value)
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_write_the_system_cuts_short_leaves_nothing(tmp_path: Path) -> None:
    """A real failure half-way: the process may write 4 kB to a file and no more."""
    write_bytes(tmp_path / "a.bin", b"old")
    code = (
        "import resource, sys; from pathlib import Path; from strobe.core.files import write_bytes\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "from strobe.core.errors import CannotWrite\n"
        "try: write_bytes(Path(sys.argv[1]), b'x' * 100_000)\n"
        "except CannotWrite as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "a.bin"], capture_output=True, text=True)
    assert done.stdout.startswith("cannot write "), done.stderr
    assert (tmp_path / "a.bin").read_bytes() == b"old"
    assert names(tmp_path) == ["a.bin"]


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWrite, match=r"already exists|is a file, not a folder"):
        make_folder(tmp_path / "file")
    with pytest.raises(CannotWrite, match="a parent is a file"):
        write_text(tmp_path / "file/inner/a.txt", "")
    (tmp_path / "folder").mkdir()
    with pytest.raises(CannotWrite, match="it is a folder"):
        write_text(tmp_path / "folder", "")
    assert names(tmp_path) == ["file", "folder"]


def test_json_round_trip_and_refusals(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"b": [1, None, "é"], "a": 0.1})
    assert read_json(path) == {"b": [1, None, "é"], "a": 0.1}
    assert list(json.loads(path.read_text())) == ["b", "a"]
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, float("nan"))
    assert read_json(path)["a"] == 0.1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"a": [1, 2', "line 1, column 12: not JSON .*; is it truncated"),
        (b"", "line 1, column 1: not JSON"),
        (b'{"a": "\xff"}', "not UTF-8 text"),
        (b"[" * 100_000, "nested too deep"),
        (b"1" * 5000, "not JSON"),
    ],
)
def test_broken_json_is_one_line_that_says_where(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(InvalidFile, match=problem) as caught:
        read_json(path)
    assert "\n" not in str(caught.value)


def test_no_such_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(StrobeError, match=r"no such file: .*x\.json; look there"):
        read_json(tmp_path / "x.json", hint="look there")
    with pytest.raises(StrobeError, match="cannot read"):
        read_json(tmp_path)


def test_sha256(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256_of_file(tmp_path / "a").startswith("ba7816bf8f01cfea")
    if hasattr(os, "mkfifo"):  # opening one waits for who writes to it
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(InvalidFile, match="pipe: not a regular file"):
            sha256_of_file(tmp_path / "pipe")


def test_what_a_kill_left_is_used_up_by_the_next_who_writes_the_file(tmp_path: Path) -> None:
    """One name per file: `replacing` in a child that dies inside it, then again here."""
    child = os.fork()
    if child == 0:
        with replacing(tmp_path / "a.txt") as temporary:
            temporary.write_text("half, and longer than what comes")
            os._exit(0)
    os.waitpid(child, 0)
    assert len(list(tmp_path.iterdir())) == 1
    write_text(tmp_path / "a.txt", "whole")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.txt": "whole"}


@pytest.mark.parametrize("way", ["link", "hard link", "folder", "held"])
def test_a_temporary_name_that_is_taken_is_left_alone(tmp_path: Path, way: str) -> None:
    (tmp_path / "mine").write_text("mine")
    taken = tmp_path / "x" / ".a.txt.strobe.tmp"
    taken.parent.mkdir()
    with contextlib.ExitStack() as stack:
        if way == "held":
            stack.enter_context(replacing(taken.parent / "a.txt")).write_text("the other's")
        else:
            makers = {"link": lambda: taken.symlink_to(tmp_path / "mine"), "folder": taken.mkdir}
            makers.get(way, lambda: os.link(tmp_path / "mine", taken))()
        write_text(taken.parent / "a.txt", "whole")
        assert (taken.parent / "a.txt").read_text() == "whole"
    assert (tmp_path / "mine").read_text() == "mine"
    assert (taken.parent / "a.txt").read_text() == ("the other's" if way == "held" else "whole")
    assert os.path.lexists(taken) == (way != "held")
