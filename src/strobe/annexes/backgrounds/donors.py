"""Choose background donors by a seeded derangement: no image is its own donor, and each image is a donor about once."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """An image: its row, a name to sort by, its source, its classes, and whether its background can be lent.

    Images of one source (frames of one video) share a background, so they do not lend to each other.
    """

    row: int
    name: str
    source: int
    labels: frozenset[int]
    gives: bool = True


def donors_of(grounds: Sequence[Ground], *, shared: bool, seed: int) -> dict[int, int]:
    """Return the donor's row for every image that gets one.

    With `shared`, the donor shares a class with the image. Otherwise it shares none. Images are shuffled and sorted by
    class. Then the next image has the same class, and an image further ahead than the size of the largest class has
    another class. Both choices are cyclic shifts, so that each image lends once if possible. If that donor does not
    fit, the next suitable image is used. The input order does not matter.

    >>> four = [Ground(row=row, name=f"{row}", source=row, labels=frozenset({row // 2})) for row in range(4)]
    >>> donors_of(four, shared=True, seed=0), sorted(donors_of(four, shared=False, seed=0)) == [0, 1, 2, 3]
    ({0: 1, 1: 0, 2: 3, 3: 2}, True)
    """
    ordered = sorted(grounds, key=lambda one: one.name)
    turn = np.random.default_rng([seed, int(shared)]).permutation(len(ordered))
    shuffled = [ordered[place] for place in turn.tolist()]
    donor_of: dict[int, int] = {}
    if shared:
        for label in sorted({min(one.labels) for one in shuffled}):
            # An image with several classes takes its donor from the images of its first class, and may lend to images
            # of all its classes.
            round_trip = [one for one in shuffled if label in one.labels]
            takers = [index for index, one in enumerate(round_trip) if min(one.labels) == label]
            donor_of |= _next(round_trip, takers, 1, shared=True)
    else:
        round_trip = sorted(shuffled, key=lambda one: min(one.labels))
        sizes = np.unique([min(one.labels) for one in round_trip], return_counts=True)[1]
        donor_of = _next(round_trip, range(len(round_trip)), int(sizes.max(initial=0)), shared=False)
    return {ground.row: donor_of[ground.row] for ground in grounds if ground.row in donor_of}


def _next(round_trip: Sequence[Ground], takers: Sequence[int], ahead: int, *, shared: bool) -> dict[int, int]:
    """Return the first suitable donor for each image at these positions, searching cyclically from `ahead` on."""
    fitting: dict[frozenset[int], list[int]] = {}
    donor_of: dict[int, int] = {}
    for place in takers:
        taker = round_trip[place]
        if taker.labels not in fitting:
            fitting[taker.labels] = [
                there
                for there, other in enumerate(round_trip)
                if other.gives and bool(taker.labels & other.labels) == shared
            ]
        others = fitting[taker.labels]
        start = bisect_left(others, (place + ahead) % len(round_trip))
        around = (others[(start + step) % len(others)] for step in range(len(others)))
        donor = next((there for there in around if round_trip[there].source != taker.source), None)
        if donor is not None:
            donor_of[taker.row] = round_trip[donor].row
    return donor_of
