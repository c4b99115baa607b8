"""Accuracy among all classes of a model, and among the dataset's classes only (ImageNet-A: 200 of 1,000)."""

from collections.abc import Iterator

import numpy as np

from strobe.core.answers import ClassAnswers
from strobe.core.arrays import Bools
from strobe.core.dataset import Dataset
from strobe.core.labels import LabelSpace
from strobe.core.projections import projection_between
from strobe.core.variants import ANCHOR
from strobe.metrics.intervals import Interval, nothing, proportion
from strobe.studies.temporal.records import AllClasses, AmongAll


def all_classes(
    dataset: Dataset, answers: ClassAnswers, source: LabelSpace, *, interval: Interval
) -> AllClasses | None:
    """Return both accuracies on the original images and on each variant at its highest level.

    The result is None if the dataset's classes are not a subset of the model's own (`source`), or if the best of all
    the model's classes is unknown.
    """
    own = dataset.info.label_space
    if answers.own_label is None or not (found := projection_between(source, own)).is_choice:
        return None
    best = found.map_labels(answers.own_label.astype(np.int64))
    among, of_all = (dataset.right_rows(label) for label in (answers.label, best))
    cluster = dataset.video_of_set[dataset.sets.set]
    rows = []
    for variant, level, use in _pictures(dataset):
        use = use & answers.scored[dataset.sets.frame]
        shares = [
            proportion(right[use], cluster[use], interval=interval)
            if use.any()
            else nothing("no image has a prediction")
            for right in (among, of_all)
        ]
        rows.append(AmongAll(variant=variant, level=level, own=shares[0], all=shares[1]))
    return AllClasses(source=source.name, n_own=len(own), n_all=len(source), pictures=tuple(rows))


def _pictures(dataset: Dataset) -> Iterator[tuple[str, float | None, Bools]]:
    """Yield the anchors and each variant at its highest level: name, level and set rows; each image occurs once."""
    sets = dataset.sets
    first = np.zeros(len(sets.set), dtype=bool)
    anchors = np.flatnonzero(sets.is_anchor)
    first[anchors[np.unique(sets.frame[anchors], return_index=True)[1]]] = True
    yield ANCHOR, None, first
    if dataset.variants is None:
        return
    level, variant = dataset.row_levels(), sets.variant[sets.set]
    for row, one in enumerate(dataset.variants):
        use = (variant == row) & ~sets.is_anchor & (level == len(one.levels))
        if one.levels and one.role != "shown" and use.any():
            yield one.variant, one.levels[-1], use
