"""One writer at a time, and a file system that cannot see to that is refused."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from strobe.core.errors import CannotWrite, StrobeError
from strobe.core.locks import local_locks, locked

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


def test_mounts_whose_locks_hold_on_one_machine() -> None:
    mounts = "\n".join(
        (
            "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw",
            "30 22 0:40 / /nfs rw,relatime shared:1 - nfs4 host:/x rw,vers=4.2,local_lock=none",
            "31 22 0:41 / /nfs/loose rw - nfs host:/y rw,vers=3,nolock,local_lock=all",
            "32 22 0:42 / /lustre\\040two rw,localflock - lustre 10.0.0.1@tcp:/fs rw",
            "33 22 8:2 / /plain rw,nolock - ext4 /dev/sdb1 rw",
            "34 31 8:3 / /nfs/loose/own rw - xfs /dev/sdc1 rw",
            "broken",
        )
    )
    expected = {
        "/home/run": None, "/nfs/run": None, "/nfs/loose/run": "nolock", "/nfs/loosely": None,
        "/lustre two/run": "localflock", "/plain/run": None, "/nfs/loose/own/run": None,
    }  # fmt: skip
    assert {place: local_locks(Path(place), mounts) for place in expected} == expected
    assert local_locks(Path("/data"), "") is None
