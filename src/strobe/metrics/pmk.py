"""pm-k accuracy: a set is right at k if its anchor and every member within k are right."""

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Bools, Ints
from strobe.core.errors import expect


def first_wrong(wrong: Bools, set_row: Ints, level: Ints, *, n_sets: int, never: int) -> NDArray[np.int32]:
    """Return the smallest level at which each set (n_sets,) has a wrong frame; `never` if all are right.

    `wrong`, `set_row` and `level` are (N,): one entry per frame of a set, including the anchor at level 0.

    >>> wrong, set_row, level = np.array([False, True, True]), np.array([0, 0, 1]), np.array([0, 2, 0])
    >>> first_wrong(wrong, set_row, level, n_sets=3, never=11).tolist()
    [2, 0, 11]
    """
    expect(wrong.shape == set_row.shape == level.shape, "wrong", "as many values as set_row and level", wrong.shape)
    out = np.full(n_sets, never, dtype=np.int32)
    np.minimum.at(out, set_row[wrong], level[wrong].astype(np.int32))
    return out


def right_at(first: Ints, *, k: int) -> Bools:
    """Return whether each set is right at each level from 0 to `k`, (S, k + 1): true below its first wrong level.

    >>> right_at(np.array([0, 2, 9]), k=2).tolist()
    [[False, False, False], [True, True, False], [True, True, True]]
    """
    return np.asarray(first[:, None] > np.arange(k + 1)[None, :])


def settled(seen: Bools, wrong: Bools, is_anchor: Bools, start: Ints) -> Bools:
    """Return whether each set's result at 0 and at k is known, (S,).

    It is known if all frames of the set were predicted, or if the anchor and a wrong frame were predicted. `seen`,
    `wrong` and `is_anchor` are (N,), ordered by set; set s begins at `start[s]`, and every set has one anchor.

    >>> seen, wrong = np.array([True, False, True, True, False]), np.array([False, False, True, False, False])
    >>> settled(seen, wrong, np.array([True, False, False, True, False]), np.array([0, 3])).tolist()
    [True, False]
    """
    expect(seen.shape == wrong.shape == is_anchor.shape, "seen", "the shape of wrong and is_anchor", seen.shape)
    whole = np.logical_and.reduceat(seen, start)
    return np.asarray(whole | (seen[is_anchor] & np.logical_or.reduceat(seen & wrong, start)))
