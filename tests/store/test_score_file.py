"""Scores in a file: the same rows as from memory, and the same figures."""

import re
import tempfile
from typing import Any

import numpy as np
import pytest

from strobe.core import digests
from strobe.core.answers import ClassAnswers
from strobe.core.errors import CannotWrite
from strobe.store import answer_tables as score_file
from strobe.store.answer_tables import ScoreFile, scores_of


def test_any_rows_come_back_and_what_was_not_written_is_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_file, "MOST", 0)
    rng = np.random.default_rng(0)
    wanted = np.full((500, 3), np.nan, dtype=np.float32)
    file = scores_of(500, 3)
    assert isinstance(file, ScoreFile)
    for rows in (np.arange(100, 200), np.array([5, 7, 8, 499]), np.array([], dtype=np.int64)):
        values = rng.normal(size=(len(rows), 3)).astype(np.float32)
        file[rows] = wanted[rows] = values
    for rows in (np.arange(500), rng.integers(500, size=(4, 9)), np.array([-1, 5]), np.array([], dtype=np.int64)):
        np.testing.assert_array_equal(file[rows], wanted[rows])


def test_answers_from_a_file_are_those_from_memory() -> None:
    scores = np.random.default_rng(1).normal(size=(300, 4)).astype(np.float32)
    file, seen = ScoreFile(300, 4), np.arange(300) % 7 > 0
    file[np.flatnonzero(seen)] = scores[seen]
    one = ClassAnswers.from_scores("m", scores, kind="logits", scored=seen)
    two = ClassAnswers.from_scores("m", file, kind="logits", scored=seen)
    np.testing.assert_array_equal(one.label, two.label)
    np.testing.assert_array_equal(one.confidence, two.confidence)
    np.testing.assert_array_equal(one.probability, two.probability)
    rows = np.array([3, 3, 250])
    np.testing.assert_array_equal(one.share_of(rows, rows % 4), two.share_of(rows, rows % 4))
    assert one.share_of(rows, rows % 4).tolist() == one.probability[rows, rows % 4].tolist()


def test_a_disk_that_becomes_full_is_one_line(monkeypatch: pytest.MonkeyPatch, zoo: Any) -> None:
    resource = pytest.importorskip("resource", reason="no limit to a file's size on this system")
    file, values = ScoreFile(3000, 2), np.ones((3000, 2), np.float32)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    dataset = zoo.dataset(n_videos=40)
    monkeypatch.setattr(digests, "_LINES", 50)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))  # half-way through one write
    try:
        with pytest.raises(CannotWrite) as scores:
            file[np.arange(3000)] = values
        with pytest.raises(CannotWrite) as lines:
            dataset.digest()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    for caught in (scores, lines):
        where = re.escape(tempfile.gettempdir())
        said = rf"cannot write temporary files in {where}: the file would be larger .*; set TMPDIR to a folder with .*"
        assert re.fullmatch(said, str(caught.value))
