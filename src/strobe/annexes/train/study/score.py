"""One recipe trained several times: figures over all trainings, with uncertainty from clips and from seeds. Pure."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.model_results import ClassificationScore
from strobe.annexes.train.study.records import Spread, Trainings
from strobe.core.dataset import Dataset
from strobe.metrics.bootstrap import REPLICATES, Bootstrap

SEED_MARK = "~"
"""The separator between the name of a recipe and its training seed: `pmk~2`."""


def trainings(
    dataset: Dataset, scores: Sequence[ClassificationScore], *, seed: int = 0, replicates: int = REPLICATES
) -> tuple[Trainings, ...] | None:
    """Return the recipes trained at least twice, or None if there are none.

    The recipe that holds on most sets comes first.
    """
    groups: dict[str, list[ClassificationScore]] = {}
    for score in scores:
        name, mark, number = score.model.rpartition(SEED_MARK)
        if mark and name and number.isdigit():
            groups.setdefault(name, []).append(score)
    draws = Bootstrap(dataset.video_of_set, replicates=replicates, seed=seed)
    found = [_together(name, group, draws) for name, group in groups.items() if len(group) > 1]
    return tuple(sorted((one for one in found if one), key=lambda one: (-(one.acc_pmk.value or 0), one.name))) or None


def _together(name: str, group: Sequence[ClassificationScore], draws: Bootstrap) -> Trainings | None:
    use = np.logical_and.reduce([score.scored for score in group])
    if not use.any():
        return None
    orig = np.stack([score.right_at(0) for score in group]).astype(np.float64)
    worst = np.stack([score.right_at(score.k) for score in group]).astype(np.float64)
    means = [draws.mean(np.where(use, values.mean(axis=0), 0.0), count=use) for values in (orig, worst, orig - worst)]
    spreads = [_spread(values[:, use].mean(axis=1)) for values in (orig, worst, orig - worst)]
    return Trainings(
        name=name,
        models=tuple(score.model for score in group),
        n_sets=int(use.sum()),
        acc_orig=means[0],
        acc_pmk=means[1],
        drop=means[2],
        acc_orig_spread=spreads[0],
        acc_pmk_spread=spreads[1],
        drop_spread=spreads[2],
    )


def _spread(values: NDArray[np.float64]) -> Spread:
    return Spread(low=float(values.min()), high=float(values.max()), sd=float(values.std(ddof=1)))
