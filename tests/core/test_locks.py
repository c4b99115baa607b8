"""One writer at a time, and a file system that cannot see to that is refused."""

import errno
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from strobe.core.errors import CannotWrite, InvalidFile, StrobeError
from strobe.core.locks import LOCK, locked, writes, writing

fcntl = pytest.importorskip("fcntl", reason="no such locks on this system")


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_refused_and_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def cannot(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", cannot)
    (tmp_path / "old").mkdir()
    for place in ("old/.lock", "new/deep/.lock"):
        said = pytest.raises(CannotWrite, match=rf"its file system cannot lock \({os.strerror(code)}\)")
        with said as caught, locked(tmp_path / place, busy="busy"):
            pytest.fail("went on without a lock")
        assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.rglob("*")] == ["old"]
    with locked(tmp_path / "cache/.lock", busy=None):  # who would only wait goes on
        pass


def test_a_lock_that_somebody_else_could_have_too_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "run/.lock"
    with locked(lock, busy="busy") as held:
        again = pickle.loads(pickle.dumps(held))
        again.check()  # whoever asks for it is turned away, as it should be
        with pytest.raises(StrobeError), locked(lock, busy="busy"):
            pytest.fail("two hold it")
        again.check()  # nor has who was turned away changed what it says
        token = lock.read_bytes()
    assert not lock.exists()
    again.check()  # not held any more: not the same lock
    lock.parent.mkdir()
    lock.write_bytes(token)  # as another machine sees it where locks hold on one only: there, and free
    with pytest.raises(CannotWrite, match="locks on its file system work on one machine only"):
        again.check()
    lock.unlink()
    again.check()  # a machine that does not see the folder


def test_who_holds_a_folder_may_ask_again_and_nobody_else(tmp_path: Path) -> None:
    @writes("out")
    def made(source: Path, out: Path) -> str:
        (out / "a").write_text("a")
        return source.name

    folder = tmp_path / "set"
    with writing(folder) as held, writing(tmp_path / "." / "set") as again:
        assert again is held
        assert made(tmp_path / "in", out=folder) == "in"
        with ThreadPoolExecutor(1) as pool, pytest.raises(StrobeError, match="another strobe command is writing to"):
            pool.submit(made, tmp_path, folder).result()
    assert [path.name for path in folder.iterdir()] == ["a"]
    with writing(tmp_path / "other"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
    with pytest.raises(StrobeError, match=r"a is a file; choose a folder to write to"), writing(folder / "a"):
        pytest.fail("held a file")


def test_a_lock_that_a_kill_left_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("of a process that is dead")
    with writing(tmp_path):
        assert (tmp_path / LOCK).read_text() != "of a process that is dead"
    assert not list(tmp_path.iterdir())


def test_a_lock_removed_while_another_waits_for_it_is_made_anew(tmp_path: Path) -> None:
    """The file goes when it is free: whoever had it open already must not hold a file without a name."""
    lock, order = tmp_path / LOCK, []
    waiting = threading.Event()

    def second() -> None:
        waiting.set()
        with locked(lock, busy=None):
            order.append("second")
            with pytest.raises(StrobeError, match="busy"), locked(lock, busy="busy"):
                pytest.fail("two hold it")

    with ThreadPoolExecutor(1) as pool:
        with locked(lock, busy="busy"):
            done = pool.submit(second)
            waiting.wait(60)
            order.append("first")
        done.result(timeout=60)
    assert order == ["first", "second"]


def test_a_link_or_a_pipe_is_no_lock(tmp_path: Path) -> None:
    """A lock is emptied when it is taken: a stranger's `.lock` as a link must not empty a file of mine."""
    mine, folder = tmp_path / "mine.txt", tmp_path / "set"
    mine.write_text("mine")
    folder.mkdir()
    (folder / LOCK).symlink_to(mine)
    with pytest.raises(StrobeError), writing(folder):
        pytest.fail("held a link")
    assert mine.read_text() == "mine"
    (folder / LOCK).unlink()
    os.mkfifo(folder / LOCK)
    with pytest.raises(InvalidFile, match="not one of strobe's lock files"), writing(folder):
        pytest.fail("held a pipe")


def test_a_folder_with_a_way_out_is_not_written_to(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    (folder / "media/dog").mkdir(parents=True)
    (folder / "mine").symlink_to(tmp_path)  # no folder that strobe writes to: somebody's own
    with writing(folder):
        pass
    (folder / "media/dog/out").symlink_to(tmp_path)
    with pytest.raises(InvalidFile, match=r"media/dog/out: a link that leads out of the folder"), writing(folder):
        pytest.fail("would write through it")
