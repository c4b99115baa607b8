"""Answers stored as they come: nothing that was acknowledged is lost, and a flipped bit changes no answer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strobe
from strobe.core.answers import BoxAnswers, ClassAnswers
from strobe.core.errors import InvalidFile
from strobe.core.records import Detections
from strobe.core.remote import Usage
from strobe.core.tasks import Task
from strobe.store import shards
from strobe.store.frame_names import FrameNames
from strobe.store.shards import KEY_FACTS, ModelShards

DATASET = strobe.example_dataset(n_videos=2, k=2)  # ten frames


def _store(run: Path, task: Task = Task.CLASSIFICATION, note: Any = None) -> ModelShards:
    facts = dict.fromkeys(KEY_FACTS, "")
    return ModelShards(run, "far", facts=facts, frames=FrameNames(DATASET), task=task, n_classes=3, note=note)


def _one(row: int) -> ClassAnswers:
    scores = np.array([[row, 0.1, row / 7]], dtype=np.float32)
    return ClassAnswers.from_scores(
        "far", scores, kind="logits", own_label=np.array([0], np.int32), own_confidence=np.array([0.5], np.float32)
    )


def _outside(said: str) -> ClassAnswers:
    found = ClassAnswers.from_scores(
        "far", np.zeros((1, 3), np.float32), kind="logits", outside=np.array([True]),
        own_label=np.array([-1], np.int32), own_confidence=np.array([np.nan], np.float32),
    )  # fmt: skip
    return replace(found, said={0: said})


def _filled(run: Path, rows: tuple[int, ...] = (4, 1, 7, 2)) -> ModelShards:
    store = _store(run)
    for row in rows:
        store.append(np.array([row]), _one(row), Usage(requests=2, retries=1, cost=0.25))
    return store


def _journal(store: ModelShards) -> Path:
    (path,) = store.folder.glob("*.journal")
    return path


def test_a_reader_sees_the_journal_and_a_writer_folds_it(tmp_path: Path) -> None:
    store = _filled(tmp_path)
    before = _store(tmp_path).read()
    assert np.flatnonzero(before.scored).tolist() == [1, 2, 4, 7]
    assert _journal(store).is_file(), "a reader changes nothing"
    assert _store(tmp_path).spent() == Usage(requests=8, retries=4, cost=1.0)
    done, n_errors = _store(tmp_path).stored()
    assert (np.flatnonzero(done).tolist(), n_errors) == ([1, 2, 4, 7], 0)
    assert [path.suffix for path in store.folder.iterdir()] == [".parquet"]
    np.testing.assert_array_equal(_store(tmp_path).read().scores, before.scores)  # type: ignore[union-attr]
    assert _store(tmp_path).spent() == Usage(requests=8, retries=4, cost=1.0)


def test_words_failures_and_answers_in_one_journal(tmp_path: Path) -> None:
    store = _filled(tmp_path, rows=(3,))
    store.append(np.array([5]), _outside("a zebra\n\u2028or not"), Usage(requests=1))
    failed = ClassAnswers.from_scores(
        "far", np.full((1, 3), np.nan, np.float32), kind="logits", reasons={0: "status 500"},
        own_label=np.array([-1], np.int32), own_confidence=np.array([np.nan], np.float32),
    )  # fmt: skip
    store.append(np.array([6]), failed, Usage(requests=6, retries=5, failed=1))
    for _ in range(2):  # from the journal, then from the shard
        found = _store(tmp_path).read()
        assert isinstance(found, ClassAnswers)
        assert found.said == {5: "a zebra\n\u2028or not"}
        assert found.reasons == {6: "status 500"}
        assert np.flatnonzero(found.scored).tolist() == [3, 5]
        assert _store(tmp_path).stored()[1] == 1
    assert np.flatnonzero(_store(tmp_path).stored(retry_errors=True)[0]).tolist() == [3, 5]
    assert _store(tmp_path).read().said == {5: "a zebra\n\u2028or not"}  # type: ignore[union-attr]


def test_boxes(tmp_path: Path) -> None:
    store = _store(tmp_path, Task.DETECTION)
    box = Detections(xyxy=np.array([[0.0, 0, 4, 4]]), label=np.array([2], np.int32), score=np.array([0.9]))
    none = Detections(xyxy=np.zeros((0, 4)), label=np.zeros(0, np.int32), score=np.zeros(0))
    for row, found in ((8, box), (2, none), (5, box)):
        store.append(np.array([row]), BoxAnswers.of_frames([found], n_classes=3), Usage(requests=1))
    for _ in range(2):
        answers = _store(tmp_path, Task.DETECTION).read()
        assert isinstance(answers, BoxAnswers)
        assert answers.frame.tolist() == [5, 8]
        assert np.flatnonzero(answers.scored).tolist() == [2, 5, 8]
        store.fold()


def test_a_kill_between_the_shard_and_the_journal_does_no_harm(tmp_path: Path) -> None:
    store = _filled(tmp_path)
    content = _journal(store).read_bytes()
    store.fold()
    (store.folder / f"{store.key}.journal").write_bytes(content)
    assert np.flatnonzero(_store(tmp_path).read().scored).tolist() == [1, 2, 4, 7]
    done, _ = _store(tmp_path).stored()
    assert np.flatnonzero(done).tolist() == [1, 2, 4, 7]
    assert len(list(store.folder.iterdir())) == 1
    assert _store(tmp_path).spent().requests == 8


def test_a_journal_becomes_a_shard_when_it_is_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "_FOLD_ROWS", 3)
    store = _filled(tmp_path, rows=(0, 9, 3, 4, 1, 7, 2))
    assert len(list(store.folder.glob("*.parquet"))) == 2
    assert np.flatnonzero(_store(tmp_path).read().scored).tolist() == [0, 1, 2, 3, 4, 7, 9]


def test_any_cut_loses_at_most_the_last_line(tmp_path: Path) -> None:
    """A kill during a write leaves a part of the last line."""
    store = _filled(tmp_path)
    content = _journal(store).read_bytes()
    lines = content.splitlines(keepends=True)
    start = len(content) - len(lines[-1])
    for end in (start, start + 1, start + 20, len(content) - 1):
        _journal(store).write_bytes(content[:end])
        assert np.flatnonzero(_store(tmp_path).read().scored).tolist() == [1, 4, 7], end


def test_a_damaged_line_is_reported_and_its_frame_is_asked_again(tmp_path: Path) -> None:
    store, notes = _filled(tmp_path), []
    lines = _journal(store).read_bytes().splitlines(keepends=True)
    lines[1] = lines[1][:60] + b"?" + lines[1][61:]
    _journal(store).write_bytes(b"".join(lines))
    with pytest.raises(InvalidFile, match="line 2 is damaged; run the same predict command"):
        _store(tmp_path).read()
    done, _ = _store(tmp_path, note=notes.append).stored()
    assert np.flatnonzero(done).tolist() == [2, 4, 7]
    assert ".journal: line 2 is damaged; the frames are asked again" in notes[0]
    assert np.flatnonzero(_store(tmp_path).read().scored).tolist() == [2, 4, 7]


def test_no_flipped_bit_changes_an_answer(tmp_path: Path) -> None:
    """For any bit: the file is refused, or answers are missing, but no answer differs."""
    store = _filled(tmp_path)
    content, right = _journal(store).read_bytes(), _store(tmp_path).read().scores  # type: ignore[union-attr]
    rng = np.random.default_rng(0)
    refused = 0
    for place in rng.choice(len(content) * 8, 300, replace=False).tolist():
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << (place % 8)
        _journal(store).write_bytes(damaged)
        try:
            found = _store(tmp_path).read()
        except InvalidFile:
            refused += 1
            continue
        seen = np.flatnonzero(found.scored)
        np.testing.assert_array_equal(found.scores[seen], right[seen])  # type: ignore[union-attr,index]
    assert refused > 250
