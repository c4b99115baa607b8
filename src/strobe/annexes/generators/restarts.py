"""Whether a search has settled: the ratio of two models' magnitudes after each restart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strobe.annexes.generators.sets import GeneratorSearchPlan
from strobe.core.errors import printable, spelled
from strobe.vary.searched_sets import Searched

UNSETTLED = 0.05
"""A ratio has not settled if the last restart moved it by more than this share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRatios:
    """The median ratio of the magnitudes of two models, paired by image, after 0, 1, … restarts.

    With a single model, `over` is empty, and `values` are its median magnitudes per neuron. A search without a finding
    counts with its limit.
    """

    granularity: str
    of: str
    over: str
    values: tuple[float, ...]

    @property
    def moved(self) -> float:
        """The share by which the last restart moved the value.

        >>> round(RestartRatios(granularity="fine", of="b", over="a", values=(1.8, 1.4, 1.26)).moved, 3)
        0.1
        """
        before, last = self.values[-2:]
        return abs(last / before - 1) if before else 0.0

    def text(self) -> str:
        """Return one line, with a warning if the value has not settled."""
        what = f"{printable(self.of)} ÷ {printable(self.over)}" if self.over else f"median of {printable(self.of)}"
        values = ", ".join(f"{one:.3g}" for one in self.values)
        line = f"{printable(self.granularity)}: {what} after 0 to {len(self.values) - 1} restarts: {values}"
        if self.moved <= UNSETTLED:
            return line
        more = 2 * (len(self.values) - 1)
        return spelled(f"{line}; not settled: the last restart moved it by {self.moved:.0%}, try <<restarts={more}>>")


def ratios_by_restart(
    searches: Sequence[GeneratorSearchPlan], found: Mapping[tuple[int, int], Searched]
) -> list[RestartRatios]:
    """Return the ratio of every other model to the first model, for every granularity.

    The result is empty if searches had no restart, or if they tried fixed magnitudes.
    """
    after = {key: one.facts["after"] for key, one in found.items() if "after" in one.facts}
    first = searches[0].target.name
    place = {(plan.granularity, plan.target.name): number for number, plan in enumerate(searches)}
    rows = sorted({row for row, _ in after})
    others = list(dict.fromkeys(plan.target.name for plan in searches if plan.target.name != first))
    out = []
    for granularity in dict.fromkeys(plan.granularity for plan in searches):
        base = place[granularity, first]
        if not others:
            sizes = np.array([after[row, base] for row in rows if (row, base) in after])
            if len(sizes):
                values = np.median(sizes, axis=0) / np.sqrt(searches[base].neurons)
                out.append(RestartRatios(granularity=granularity, of=first, over="", values=tuple(values.tolist())))
        for other in others:
            number = place[granularity, other]
            both = [row for row in rows if (row, base) in after and (row, number) in after]
            if both:
                pairs = np.array([[after[row, number], after[row, base]] for row in both])
                values = np.median(pairs[:, 0] / pairs[:, 1], axis=0)
                out.append(RestartRatios(granularity=granularity, of=other, over=first, values=tuple(values.tolist())))
    return out
