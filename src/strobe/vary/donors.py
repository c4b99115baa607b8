"""Whose ground an image gets: a seeded derangement, so that no image is its own donor and each lends about once."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Ground", "donors_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """An image: its row, a name to order it by, its source, its classes, and whether it has a ground to lend.

    Images of one source, frames of one video, have one ground: they do not lend to each other.
    """

    row: int
    name: str
    source: int
    labels: frozenset[int]
    gives: bool = True


def donors_of(grounds: Sequence[Ground], *, shared: bool, seed: int) -> dict[int, int]:
    """The donor's row for every image that gets one, of an image that shares a class (or, else, shares none).

    Images are shuffled and put in the order of their classes. In it, an image of the same class lies next to each; a
    image of another lies as far on as the largest class is large. Both are one round trip: where it can be, each
    lends once. Where that one does not fit, the next that does is taken. The order in which images come is no matter.

    >>> four = [Ground(row=row, name=f"{row}", source=row, labels=frozenset({row // 2})) for row in range(4)]
    >>> donors_of(four, shared=True, seed=0), sorted(donors_of(four, shared=False, seed=0)) == [0, 1, 2, 3]
    ({0: 1, 1: 0, 2: 3, 3: 2}, True)
    """
    ordered = sorted(grounds, key=lambda one: one.name)
    turn = np.random.default_rng([seed, int(shared)]).permutation(len(ordered))
    shuffled = [ordered[place] for place in turn.tolist()]
    found: dict[int, int] = {}
    if shared:
        for label in sorted({min(one.labels) for one in shuffled}):
            # An image of several classes takes its donor among those of its first, and may lend to all.
            round_trip = [one for one in shuffled if label in one.labels]
            takers = [place for place, one in enumerate(round_trip) if min(one.labels) == label]
            found |= _next(round_trip, takers, 1, shared=True)
    else:
        round_trip = sorted(shuffled, key=lambda one: min(one.labels))
        sizes = np.unique([min(one.labels) for one in round_trip], return_counts=True)[1]
        found = _next(round_trip, range(len(round_trip)), int(sizes.max(initial=0)), shared=False)
    return {one.row: found[one.row] for one in grounds if one.row in found}


def _next(round_trip: Sequence[Ground], takers: Sequence[int], ahead: int, *, shared: bool) -> dict[int, int]:
    """For the images at these places the first fitting one from so many ahead on, once around."""
    fitting: dict[frozenset[int], list[int]] = {}
    found: dict[int, int] = {}
    for place in takers:
        one = round_trip[place]
        if one.labels not in fitting:
            fitting[one.labels] = [
                there
                for there, other in enumerate(round_trip)
                if other.gives and bool(one.labels & other.labels) == shared
            ]
        others = fitting[one.labels]
        start = bisect_left(others, (place + ahead) % len(round_trip))
        around = (others[(start + step) % len(others)] for step in range(len(others)))
        donor = next((there for there in around if round_trip[there].source != one.source), None)
        if donor is not None:
            found[one.row] = round_trip[donor].row
    return found
