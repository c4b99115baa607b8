"""Flicker without labels beside plain loops, and the bounds it sets on accuracy."""

from collections import Counter
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.core.errors import InvalidValue
from strobe.metrics.flicker import (
    alternations,
    changed,
    first_change,
    most_frequent_share,
    spells,
    sure_flips,
    timelines,
)
from strobe.metrics.pmk import first_wrong

SETS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=9), min_size=1, max_size=8)


def columns(sets: list[list[int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The answers, sets and levels of rows; the first answer of a set is the anchor's."""
    answer = np.array([value for one in sets for value in one])
    row = np.repeat(np.arange(len(sets)), [len(one) for one in sets])
    level = np.concatenate([np.arange(len(one)) for one in sets])
    return answer, row, level


@given(SETS)
def test_first_change_and_shares_beside_plain_loops(sets: list[list[int]]) -> None:
    answer, row, level = columns(sets)
    first = first_change(answer, row, level, level == 0, n_sets=len(sets), never=99)
    assert first.tolist() == [next((k for k, a in enumerate(one) if a != one[0]), 99) for one in sets]
    share = most_frequent_share(answer, row, n_sets=len(sets))
    assert np.allclose(share, [max(Counter(one).values()) / len(one) for one in sets])
    order = np.random.default_rng(0).permutation(len(answer))  # the order of rows does not matter
    mixed = first_change(answer[order], row[order], level[order], level[order] == 0, n_sets=len(sets), never=99)
    assert mixed.tolist() == first.tolist()
    assert np.allclose(most_frequent_share(answer[order], row[order], n_sets=len(sets)), share)


@given(SETS, st.lists(st.integers(0, 3), min_size=8, max_size=8))
def test_bounds_hold_whatever_the_labels(sets: list[list[int]], labels: list[int]) -> None:
    """With one right answer per set: acc_pmk <= consistency, drop <= flicker, frame accuracy <= most frequent share."""
    answer, row, level = columns(sets)
    wrong = answer != np.array(labels)[row]
    for k in range(int(level.max()) + 1):
        inside = level <= k
        lost = first_wrong(wrong[inside], row[inside], level[inside], n_sets=len(sets), never=k + 1)
        first = first_change(answer[inside], row[inside], level[inside], level[inside] == 0, n_sets=len(sets), never=99)
        holds, steady = lost > k, first > k
        assert holds.mean() <= steady.mean()
        assert ((lost > 0) & ~holds).mean() <= (~steady).mean()
        assert not (holds & ~steady).any()
    right = np.bincount(row, ~wrong, minlength=len(sets)) / np.bincount(row, minlength=len(sets))
    assert (right <= most_frequent_share(answer, row, n_sets=len(sets)) + 1e-12).all()


@given(SETS)
def test_spells_beside_groupby(lines: list[list[int]]) -> None:
    answer, line, _ = columns(lines)
    found = spells(answer, line)
    plain = [[(value, len(list(run))) for value, run in groupby(one)] for one in lines]
    assert list(zip(found.answer.tolist(), found.length.tolist(), strict=True)) == [run for one in plain for run in one]
    returns = [
        0 < place < len(one) - 1 and one[place - 1][0] == one[place + 1][0]
        for one in plain
        for place in range(len(one))
    ]
    assert found.returns.tolist() == returns
    assert answer[found.start].tolist() == found.answer.tolist()


def test_no_answers_have_no_spells() -> None:
    none = spells(np.zeros(0, dtype=int), np.zeros(0, dtype=int))
    columns = (none.start, none.length, none.answer, none.timeline, none.returns)
    assert [part.tolist() for part in columns] == [[]] * 5
    assert none.returns.dtype == bool


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), max_size=30))
def test_alternations_beside_a_counter(rows: list[tuple[int, int, int]]) -> None:
    rows = [row for row in rows if row[0] != row[1]]
    before, after, video = np.array(rows, dtype=int).reshape(-1, 3).T
    found = alternations(before, after, video)
    plain = Counter(tuple(sorted(row[:2])) for row in rows)
    pairs = list(zip(found.one.tolist(), found.other.tolist(), strict=True))
    assert dict(zip(pairs, found.flips.tolist(), strict=True)) == dict(plain)
    assert found.flips.tolist() == sorted(plain.values(), reverse=True)
    videos = {pair: len({row[2] for row in rows if tuple(sorted(row[:2])) == pair}) for pair in plain}
    assert dict(zip(pairs, found.videos.tolist(), strict=True)) == videos


@given(st.sets(st.tuples(st.integers(0, 2), st.integers(0, 12)), max_size=25))
def test_timelines_beside_a_plain_loop(frames: set[tuple[int, int]]) -> None:
    given_order = list(frames)
    video, index = np.array(given_order, dtype=int).reshape(-1, 2).T
    order, line = timelines(video, index)
    assert [given_order[place] for place in order] == sorted(frames)
    number, plain = -1, []
    for place, (clip, at) in enumerate(sorted(frames)):
        number += not (place and sorted(frames)[place - 1] == (clip, at - 1))
        plain.append(number)
    assert line.tolist() == plain


def test_sure_flips_need_both_sides() -> None:
    answer, confidence = np.array([1, 2, 2, 3]), np.array([0.5, 0.5, np.nan, 0.9])
    flips, surely = sure_flips(answer, confidence, np.arange(3), np.arange(1, 4), sure=0.5)
    assert (flips.tolist(), surely.tolist()) == ([True, False, True], [True, False, False])


def test_bad_input_is_named() -> None:
    with pytest.raises(InvalidValue, match="one anchor per set"):
        changed(np.array([1, 2]), np.array([0, 0]), np.array([True, True]), n_sets=1)
    with pytest.raises(InvalidValue, match="different for the frames"):
        timelines(np.array([0, 0]), np.array([3, 3]))
    with pytest.raises(InvalidValue, match="sure"):
        sure_flips(np.array([1, 2]), np.ones(2), np.array([0]), np.array([1]), sure=1.5)
    with pytest.raises(InvalidValue, match="at least one row per set"):
        most_frequent_share(np.array([1]), np.array([0]), n_sets=2)
