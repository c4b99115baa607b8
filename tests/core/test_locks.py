"""One writer at a time, and a file system that cannot see to that is refused."""

import errno
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from strobe.core.errors import CannotWrite, StrobeError
from strobe.core.locks import locked

fcntl = pytest.importorskip("fcntl", reason="no such locks on this system")


def test_a_second_one_is_told_and_the_first_goes_on(tmp_path: Path) -> None:
    lock = tmp_path / "a/b/.lock"
    with locked(lock, busy="busy"):
        with pytest.raises(StrobeError, match=r"^busy$"), locked(lock, busy="busy"):
            pytest.fail("two hold it")
        assert lock.is_file()
    with locked(lock, busy="busy"):
        pass


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
    assert lock.read_bytes() == b""
    again.check()  # not held any more: not the same lock
    lock.write_bytes(token)  # as another machine sees it where locks hold on one only: there, and free
    with pytest.raises(CannotWrite, match="locks of its file system hold on one machine only"):
        again.check()
    lock.unlink()
    again.check()  # a machine that does not see the folder
