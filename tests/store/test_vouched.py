"""Folders that vouch for their content: what is not read, what is not worked out again, and when it is after all."""

import json
import random
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from made_folder import edit_info

from strobe.core.errors import InvalidFile
from strobe.core.records import Verdict
from strobe.store import dataset_folder as folder
from strobe.store.dataset_json import read_info


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


def test_a_folder_without_a_digest_of_dataset_json_is_checked_and_digested(place: Path) -> None:
    before = folder.read(place).digest()
    edit_info(place, name="another")
    after = folder.read(place)
    assert not after.frames.is_later("key")
    assert after.digest() != before


REFUSED = (
    r"dataset\.json: its content differs from the digest in it; it is damaged or was edited; make the dataset again, "
    r'or remove "checked" to use it as it is'
)


def test_an_edited_dataset_json_is_refused_until_its_digest_is_removed(place: Path) -> None:
    path = place / "dataset.json"
    content = json.loads(path.read_text())
    content["label_space"]["names"][0] = "badger"
    path.write_text(json.dumps(content))
    for opened in (folder.read, folder.content, lambda one: folder.append_verdicts(one, [])):
        with pytest.raises(InvalidFile, match=REFUSED):
            opened(place)
    for odd in (7, {}, {"of": 7}, {**content["checked"], "digest": None}):
        edit_info(place, checked=odd)
        with pytest.raises(InvalidFile, match=REFUSED):
            folder.read(place)
    del content["checked"]
    path.write_text(json.dumps(content))
    assert folder.read(place).info.label_space.names[0] == "badger"


def test_no_flipped_bit_of_dataset_json_goes_unnoticed(place: Path) -> None:
    """A bit in a class name or in a digest changed the digest that `inspect` prints, without a word."""
    path = place / "dataset.json"
    whole, rng = path.read_bytes(), random.Random(0)
    described = read_info(place)
    silent, refused = [], 0
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            found = read_info(place)
        except InvalidFile:
            refused += 1
            continue
        # Without digests, everything is checked and computed again; spaces and line ends mean nothing.
        if found[:3] != described[:3] or found[3] not in (None, described[3]):
            silent.append((at, whole[max(0, at - 20) : at + 20], found))
    assert not silent
    assert refused > 0.9 * len(whole)


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
