"""Which sets of a dataset people were asked to name, and what that says about the labels. Pure."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.dataset import Dataset
from strobe.core.people import LABEL, sample_of
from strobe.studies.unlabelled.records import LabelSample

BEFORE = "labelled before"
"""The stratum of the sets that had a label before a sample was drawn. Nothing in it is estimated."""


@dataclass(frozen=True, kw_only=True)
class NamedSample:
    """The sample of a dataset's labels, per set of the dataset, (S,).

    `inside` sets belong to the sample's population. `named` sets were drawn (or labelled before) and have a label.
    `stratum` is −1 outside. `chance` is the share of the stratum's sets that were named, which is each set's chance to
    be named if people answer in the order of the questions. `undecided` counts drawn sets that people could not name.
    """

    inside: Bools
    named: Bools
    stratum: Ints
    chance: Floats
    seed: int
    undecided: int

    @property
    def design(self) -> Literal["random", "planned"]:
        """`random` if every set had the same chance, apart from sets that were labelled before."""
        chances = self.chance[self.inside & (self.stratum > 0)]
        return "random" if chances.size == 0 or np.ptp(chances) < 1e-9 else "planned"

    def record(self) -> LabelSample:
        """Return the record in results.json."""
        return LabelSample(
            named=int(self.named.sum()),
            sets=int(self.inside.sum()),
            design=self.design,
            strata=len(np.unique(self.stratum[self.inside & (self.stratum > 0)])),
            seed=self.seed,
            undecided=self.undecided,
        )


def is_planned(dataset: Dataset) -> bool:
    """Return whether a plan that prefers some sets drew the sets with a label, so that they are no random sample."""
    sample = named_sample(dataset)
    return sample is not None and sample.design == "planned"


def named_sample(dataset: Dataset) -> NamedSample | None:
    """Return the sample that the labels of a dataset are from; None if no sample was drawn, or nothing is named yet.

    Labels of sets that were not drawn are ignored: nothing says that they are a random sample.
    """
    sample = sample_of(dataset.samples, "name")
    if not sample:
        return None
    names = [str(name) for name in dataset.sets.set_id.tolist()]
    strata = {BEFORE: 0} | {
        name: index for index, name in enumerate(sorted({one.stratum for one in sample.values()} - {BEFORE}), 1)
    }
    inside = np.array([name in sample for name in names], dtype=bool)
    stratum = np.array([strata[sample[name].stratum] if name in sample else -1 for name in names], dtype=np.int64)
    drawn = np.array([name in sample and sample[name].place >= 0 for name in names], dtype=bool)
    named = inside & dataset.labelled & (drawn | (stratum == 0))
    if not named.any():
        return None
    size, count = (np.bincount(stratum[use], minlength=len(strata)) for use in (inside, named))
    share = count / np.maximum(size, 1)
    answered = {answer.frame_id for answer in dataset.names if answer.condition == LABEL}
    anchors = np.array([name in answered for name in dataset.frame_ids(dataset.sets.anchor_frame)], dtype=bool)
    return NamedSample(
        inside=inside,
        named=named,
        stratum=stratum,
        chance=np.where(inside, share[np.maximum(stratum, 0)], 0.0),
        seed=next(iter(sample.values())).seed,
        undecided=int((drawn & anchors & ~dataset.labelled).sum()),
    )
