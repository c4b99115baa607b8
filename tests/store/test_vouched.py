"""Folders that vouch for their content: what is not read, what is not worked out again, and when it is after all."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from made_folder import edit_info

from strobe.core.errors import InvalidFile
from strobe.core.records import Verdict
from strobe.store import dataset_folder as folder


@pytest.fixture
def place(zoo, tmp_path: Path) -> Path:
    return folder.write(zoo.dataset(n_videos=3), tmp_path / "set")


def test_texts_stay_on_disk_until_somebody_asks(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strobe.core.dataset.digest_of", lambda data: pytest.fail("the digest was worked out again"))
    data = folder.read(place)
    assert len(data.digest()) == len(data.frames_digest()) == 64
    assert all(data.frames.is_later(name) for name in ("key", "sha256", "media", "pts", "pict_type"))
    assert data.frames.key[0]
    assert not data.frames.is_later("key")
    assert data.frames.is_later("media")


def test_a_large_column_that_is_looked_at_once_is_not_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = folder.read(place)
    monkeypatch.setattr("strobe.core.tables.BLOCK", 0)
    large = folder.read(place)
    assert large.frames.passing("time_num").tolist() == small.frames.time_num.tolist()
    assert large.frames.is_later("time_num")
    monkeypatch.undo()
    small.frames.passing("pict_type")
    assert not small.frames.is_later("pict_type")


def test_what_was_touched_since_is_checked_and_worked_out(place: Path) -> None:
    before = folder.read(place).digest()
    edit_info(place, name="another")
    after = folder.read(place)
    assert not after.frames.is_later("key")
    assert after.digest() != before
    edit_info(place, checked={"of": "0", "digest": "0", "frames_digest": "0"})
    assert folder.read(place).digest() == after.digest()


def test_a_damaged_table_is_still_refused(place: Path) -> None:
    table = pq.read_table(place / "labels.parquet")
    pq.write_table(table.slice(1), place / "labels.parquet")
    with pytest.raises(InvalidFile, match=r"labels.parquet: its content differs from the digest in dataset.json"):
        folder.read(place)


def test_votes_change_the_digest_though_the_rest_is_vouched_for(place: Path) -> None:
    data = folder.read(place)
    ids, sets = data.frame_ids(), data.sets
    row = int(np.flatnonzero(~sets.is_anchor)[0])
    vote = Verdict(
        verdict_id="1", annotator="Ann", at="2026-01-01T00:00:00+00:00", stage="pair", decision="similar",
        set_id=str(sets.set_id[sets.set[row]]), frame_id=ids[int(sets.frame[row])],
    )  # fmt: skip
    with_vote = folder.append_verdicts(place, [vote])
    again = folder.read(place)
    assert again.frames.is_later("key")
    assert again.digest() == with_vote.digest() != data.digest()
    assert again.frames_digest() == data.frames_digest()
