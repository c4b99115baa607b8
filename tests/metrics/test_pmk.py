import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strobe.metrics.pmk import first_wrong, right_at

rows = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.booleans()), max_size=40)


@given(rows)
def test_right_at_every_k_equals_the_definition(cases: list[tuple[int, int, bool]]) -> None:
    set_row, level = (np.array([case[i] for case in cases], dtype=np.int64) for i in (0, 1))
    wrong = np.array([case[2] for case in cases], dtype=bool)
    first = first_wrong(wrong, set_row, level, n_sets=5, never=6)
    found = right_at(first, k=5)
    for number in range(5):
        for k in range(6):
            expected = all(not bad for where, far, bad in cases if where == number and far <= k)
            assert found[number, k] == expected


@given(rows)
def test_the_curve_never_rises(cases: list[tuple[int, int, bool]]) -> None:
    set_row, level = (np.array([case[i] for case in cases], dtype=np.int64) for i in (0, 1))
    wrong = np.array([case[2] for case in cases], dtype=bool)
    counts = right_at(first_wrong(wrong, set_row, level, n_sets=5, never=6), k=5).sum(axis=0)
    assert (np.diff(counts) <= 0).all()
