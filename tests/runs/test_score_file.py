"""Scores in a file: the same rows as from memory, and the same figures."""

import numpy as np
import pytest

from strobe.core.answers import ClassAnswers
from strobe.runs import score_file
from strobe.runs.score_file import ScoreFile, scores_of


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
