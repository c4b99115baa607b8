"""Compute hints for datasets that were not decoded here, by reading and comparing the images of every set."""

from collections.abc import Sequence

import numpy as np

from strobe.build.hints import PairHints, features_of, set_hints
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.ports import FrameSource, Progress, Silent
from strobe.core.tables import Hints

_UNKNOWN = PairHints(cut=np.nan, blur=np.nan, motion=np.nan, exposure=np.nan)


def hints_table(pairs: Sequence[PairHints]) -> Hints:
    """Return the table of these hints, in this order."""
    numbers = {
        name: np.array([getattr(pair, name) for pair in pairs], dtype=np.float64)
        for name in ("cut", "blur", "motion", "exposure")
    }
    return Hints(**numbers, duplicate=np.array([pair.duplicate for pair in pairs], dtype=bool))


def hints_of(dataset: Dataset, source: FrameSource, *, progress: Progress | None = None) -> tuple[Hints, int]:
    """Return the hints of every row of the dataset's sets, and the number of unreadable images.

    The hints are NaN if the member or its anchor is unreadable.
    """
    sets, n_unread = dataset.sets, 0
    pairs = [_UNKNOWN] * len(sets.set)
    starts = np.flatnonzero(np.diff(sets.set, prepend=-1))
    with (progress or Silent()).task("hints", len(pairs)) as advance:
        for rows in np.split(np.arange(len(pairs)), starts[1:]):
            # Handle one set at a time, so that memory stays bounded. Order by distance is order in time.
            features = {}
            for row in rows.tolist():
                try:
                    features[row] = features_of(source.read(int(sets.frame[row])))
                except StrobeError:
                    n_unread += 1
                advance(1)
            anchor = int(rows[sets.is_anchor[rows]][0])
            if anchor in features:
                known = sorted(features)
                for row, pair in zip(known, set_hints(features, anchor, known), strict=True):
                    pairs[row] = pair
    return hints_table(pairs), n_unread
