"""What people's answers add to flicker: accuracy from a sample of named sets, and bounds from checked sets."""

from dataclasses import replace

import numpy as np

from strobe.analyses.label_sample import NamedSample
from strobe.analyses.model_results import ClassificationScore
from strobe.analyses.plan import Plan
from strobe.core.answers import ClassAnswers
from strobe.core.arrays import Bools, Ints
from strobe.core.dataset import Dataset
from strobe.core.estimate import Estimate
from strobe.core.people import latest_answers, questions_of
from strobe.metrics.flicker import first_change
from strobe.metrics.pmk import first_wrong
from strobe.metrics.strata import corrected_flicker, planned, post_stratified
from strobe.studies.temporal.records import CurvePoint
from strobe.studies.unlabelled.records import ChangedSets, CheckedFlicker


class SampledAccuracy:
    """Accuracy over all sets of a sample's population, from the sets that people named.

    `plan` has all sets, with and without a label. A set that flickers does not hold whatever its label is, and a set
    that does not flicker cannot break, if each set has one right answer.
    """

    def __init__(self, plan: Plan, sample: NamedSample) -> None:
        self._plan, self._sample = plan, sample

    def of(self, score: ClassificationScore, answers: ClassAnswers, labels: Ints, scored: Bools) -> ClassificationScore:
        """Return the score with acc_orig, acc_pmk, drop and their curve of all sets.

        `labels` (F,) is the answer of each frame, and `scored` (S,) selects the sets with all answers.
        """
        plan, sample = self._plan, self._sample
        use = scored & sample.inside
        if not (use & sample.named).any():
            return score
        right = plan.view.right_rows(answers.label)
        wrong = first_wrong(~right, plan.set_row, plan.level, n_sets=plan.n_sets, never=plan.k + 1)
        change = first_change(
            labels[plan.frame], plan.set_row, plan.level, plan.is_anchor, n_sets=plan.n_sets, never=plan.k + 1
        )
        stratum = 2 * sample.stratum + (change <= plan.k)
        holds = [sample.named & (wrong > k) for k in range(plan.k + 1)]
        acc = [self._estimate(holds[k], change <= k, stratum, use) for k in range(plan.k + 1)]
        drop = [self._estimate(holds[0] & ~holds[k], change > k, stratum, use) for k in range(plan.k + 1)]
        return replace(
            score,
            acc_orig=acc[0],
            acc_pmk=acc[-1],
            drop=drop[-1],
            curve=tuple(map(CurvePoint, range(plan.k + 1), acc, drop)) if score.curve else (),
        )

    def _estimate(self, outcome: Bools, certain: Bools, stratum: Ints, use: Bools) -> Estimate:
        """Return the share of `outcome` over the sets in `use`; it is False for certain sets without a label."""
        sample = self._sample
        arrays = outcome[use], sample.named[use], stratum[use], self._plan.cluster[use]
        if sample.design == "random":
            return post_stratified(*arrays, certain=certain[use])
        # A stratum without a named set is merged with others, so its chance is never used.
        chance = np.maximum(sample.chance, 1e-9)
        return planned(*arrays, chance[use], certain=certain[use])


class CheckedSets:
    """The random sample of flickering sets that people checked, per set of a dataset."""

    def __init__(self, dataset: Dataset) -> None:
        drawn = set(questions_of(dataset.samples, "check"))
        names = [str(name) for name in dataset.sets.set_id.tolist()]
        said: dict[str, list[str]] = {}
        for frame in latest_answers(dataset.checks).values():
            for answer in frame.values():
                said.setdefault(answer.set_id, []).append(answer.said)
        clear = {name: _clear(said[name]) for name in names if name in drawn and name in said}
        self.checked: Bools = np.array([clear.get(name) is not None for name in names], dtype=bool)
        self.changed: Bools = np.array([clear.get(name) is True for name in names], dtype=bool)
        self.unsure = sum(one is None for one in clear.values())

    @property
    def any(self) -> bool:
        """Whether people checked a set."""
        return bool(self.checked.any())

    def of(self, flickers: Bools, scored: Bools, cluster: Ints) -> CheckedFlicker:
        """Return the corrected figures of one model; `flickers` (S,) is read for the sets in `scored`."""
        found = corrected_flicker(flickers[scored], self.checked[scored], self.changed[scored], cluster[scored])
        return CheckedFlicker(
            asked=int((self.checked & flickers & scored).sum()),
            changes=found.changes,
            flicker=found.corrected,
            bound=found.bound,
        )

    def record(self, models: dict[str, CheckedFlicker]) -> ChangedSets:
        """Return the record in results.json."""
        return ChangedSets(
            asked=int(self.checked.sum()), changed=int(self.changed.sum()), unsure=self.unsure, models=models
        )


def _clear(said: list[str]) -> bool | None:
    """Return whether most people found a change or several right answers; None if neither answer has a majority."""
    changed, one = sum(word in ("changed", "several") for word in said), said.count("one")
    return None if 2 * max(changed, one) <= len(said) else changed > one
