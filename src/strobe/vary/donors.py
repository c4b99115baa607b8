"""Choose background donors: a seeded derangement, in which no image is its own donor and each lends about once."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["Ground", "donors_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """An image: its row, a name to sort by, its source, its classes, and whether it has a background to lend.

    Images of one source (frames of one video) share a background, so they do not lend to each other.
    """

    row: int
    name: str
    source: int
    labels: frozenset[int]
    gives: bool = True


def donors_of(grounds: Sequence[Ground], *, shared: bool, seed: int) -> dict[int, int]:
    """Return the donor's row for every image that gets one.

    With `shared` the donor shares a class with the image, otherwise it shares none. Images are shuffled and sorted by
    class. Then a neighbour has the same class, and an image as far ahead as the largest class is large has another.
    Both choices are cyclic shifts, so that each image lends once where possible. If that donor does not fit, the next
    one that does is taken. The input order does not matter.

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
            # An image with several classes takes its donor from those of its first class, and may lend to all.
            round_trip = [one for one in shuffled if label in one.labels]
            takers = [place for place, one in enumerate(round_trip) if min(one.labels) == label]
            found |= _next(round_trip, takers, 1, shared=True)
    else:
        round_trip = sorted(shuffled, key=lambda one: min(one.labels))
        sizes = np.unique([min(one.labels) for one in round_trip], return_counts=True)[1]
        found = _next(round_trip, range(len(round_trip)), int(sizes.max(initial=0)), shared=False)
    return {one.row: found[one.row] for one in grounds if one.row in found}


def _next(round_trip: Sequence[Ground], takers: Sequence[int], ahead: int, *, shared: bool) -> dict[int, int]:
    """Return, for the images at these positions, the first suitable one from `ahead` on, in one cycle."""
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
