"""Files for a device that decodes them itself are read by processes, or here where there are none."""

import sys
from collections.abc import Callable
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.datasets.media import MediaSource
from strobe.predict.decode_pool import can_start_workers
from strobe.predict.files import FileReader, Whole

pytestmark = pytest.mark.skipif(not can_start_workers(), reason="needs Linux")
Make = Callable[..., Dataset]


def test_files_are_read_by_a_process_once_it_is_up(colours: Make, nothing_left: None) -> None:
    dataset = colours()
    root = dataset.root or Path()
    (root / "media/00002.jpg").unlink()
    Pillow.effect_noise((900, 900), 99).save(root / "media/00003.jpg", quality=100)  # through the socket
    (root / "media/00004.zst").write_bytes(b"no file for others")
    dataset.frames.media[4] = "media/00004.zst"
    source, rows = MediaSource(dataset), list(range(7))
    reader = FileReader(source, processes=2, at_once=4)
    here = reader.read(rows)
    assert [len(first.result()) for first in reader._started] == [1, 1]
    there = reader.read(rows)
    reader.close()
    assert isinstance(here[0], bytes)
    assert isinstance(there[0], np.ndarray)
    assert len(there[3]) > Whole().n_bytes
    for row in (0, 1, 3, 5, 6):
        assert bytes(there[row]) == here[row] == (root / str(dataset.frames.media[row])).read_bytes()
    assert here[4] is there[4] is None
    assert isinstance(there[2], StrobeError)
    assert str(there[2]) == str(here[2])


def test_files_are_read_here_where_no_process_can_be_had(colours: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    source = MediaSource(colours())
    reader = FileReader(source, processes=2, at_once=4)
    reader.read([0])
    assert all(first.exception() is not None for first in reader._started)
    assert reader.read([0, 1]) == [source.read_encoded(row) for row in (0, 1)]
    reader.close()


@pytest.mark.parametrize("given_up", [True, False])
def test_a_thread_whose_processes_another_gave_up_reads_on(
    colours: Make, monkeypatch: pytest.MonkeyPatch, given_up: bool
) -> None:
    source = MediaSource(colours())
    reader = FileReader(source, processes=1, at_once=4)
    reader.read([0])
    assert reader._started[0].exception() is None
    pool = reader._pool
    assert pool is not None
    read = pool.read

    def closed_meanwhile(*asked: Any) -> Any:
        reader._pool = None if given_up else pool
        pool.close()
        return read(*asked)

    monkeypatch.setattr(pool, "read", closed_meanwhile)
    if given_up:
        assert reader.read([0, 1]) == [source.read_encoded(row) for row in (0, 1)]
    else:  # all the work is dropped
        with pytest.raises(CancelledError):
            reader.read([0, 1])
    reader.close()
