"""Error by offset over many models; the memory needed does not grow with the number of models."""

import numpy as np

from strobe.analyses.model_results import OffsetError
from strobe.analyses.plan import Plan
from strobe.core.arrays import Bools, blocks
from strobe.core.estimate import Estimate
from strobe.metrics.bootstrap import SWITCHED_OFF
from strobe.metrics.intervals import nothing

__all__ = ["OffsetPool"]


class OffsetPool:
    """The error at each offset as a mean over models, on the members of sets scored for every model.

    Pass it to every call of `score` for one dataset, then call `estimates`.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._wrong = np.zeros(len(plan.frame), dtype=np.int32)
        self._common = np.ones(plan.n_sets, dtype=bool)
        self.n_models = 0

    def add(self, wrong: Bools, scored: Bools) -> None:
        """Add one model; `wrong` (R,) has an entry per set row of the whole plan, and `scored` (S,) per set."""
        self._wrong += wrong
        self._common &= scored
        self.n_models += 1

    def estimates(self) -> tuple[OffsetError, ...]:
        """Return the mean errors by ascending offset; n counts members, and intervals come from resampled videos."""
        plan = self._plan
        use = self._common[plan.set_row]
        if self.n_models == 0 or not use.any():
            none = nothing("no set is scored by every model")
            return tuple(OffsetError(float(offset), none) for offset in plan.offsets)
        shape = (plan.n_sets, len(plan.offsets))
        members, errors = np.zeros(shape, dtype=np.int32), np.zeros(shape)
        for rows in blocks(len(use)):
            kept = use[rows]
            at = plan.set_row[rows][kept], plan.offset_row[rows][kept]
            np.add.at(members, at, 1)
            np.add.at(errors, at, self._wrong[rows][kept] / self.n_models)
        out = []
        for place, offset in enumerate(plan.offsets.tolist()):
            n = int(members[:, place].sum())
            if n == 0:
                out.append(OffsetError(offset, nothing("no common member at this offset")))
                continue
            if plan.options.bootstrap:
                found = plan.bootstrap.mean(errors[:, place], count=members[:, place])
            else:
                found = plain(float(errors[:, place].sum() / n), n)
            out.append(OffsetError(offset, found))
        return tuple(out)


def plain(value: float, n: int) -> Estimate:
    """A mean without an interval, because the bootstrap was switched off."""
    return Estimate(value=value, low=None, high=None, n=n, method="none", reason=SWITCHED_OFF)
