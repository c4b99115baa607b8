"""results.json: everything that was found, in one documented record.

`encode` of strobe.core.codec writes it, `decode` reads it, and results.schema.json is made from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np

from strobe.analyses.comparison import Comparison
from strobe.analyses.drawn_results import DrawnResults
from strobe.analyses.model_results import ModelResult, OffsetError
from strobe.analyses.people_records import PeopleResults
from strobe.analyses.trainings import Trainings
from strobe.analyses.trend import Trend
from strobe.analyses.variants_records import Contrast, PreservedResults, Search, VariantFacts
from strobe.analyses.voting import ReviewResults
from strobe.core.arrays import Ints
from strobe.core.codec import LEFT_OUT, Count, Rule, json_schema
from strobe.core.dataset import Dataset
from strobe.core.derivation import unreviewed
from strobe.core.estimate import Missing

__all__ = ["SCHEMA", "DatasetFacts", "Results", "Settings", "dataset_facts", "results_schema"]

SCHEMA: Literal[1] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFacts:
    """What was scored; k is the one scored with.

    `combine` is there where the dataset has variants, `kinds` (of the anchors' sources) where not all are videos.
    `unreviewed_pairs` are candidates of kept sets without a vote, `unreviewed_sets` the sets of which all are; left out
    where there are none.
    """

    name: str
    digest: str
    n_sets: Annotated[int, Rule(minimum=1)]
    n_frames: Count
    n_videos: Count
    k: Count
    axis: str
    label_source: Literal["frame", "anchor"]
    reviewed: Literal["none", "release", "votes"]
    combine: Literal["each", "worst"] | None = field(default=None, metadata=LEFT_OUT)
    kinds: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    unreviewed_pairs: Count | None = field(default=None, metadata=LEFT_OUT)
    unreviewed_sets: Count | None = field(default=None, metadata=LEFT_OUT)

    def unreviewed(self) -> str | None:
        """What must be said where nobody has looked at some pairs; None where all were looked at."""
        if not self.unreviewed_pairs:
            return None
        text = f"{self.unreviewed_pairs} pairs of the sets scored have no vote yet and were left out as if rejected"
        if self.unreviewed_sets:
            text += f"; {self.unreviewed_sets} of {self.n_sets} sets are their anchor alone for it, and cannot drop"
        return text


def dataset_facts(dataset: Dataset, *, k: int | None = None) -> DatasetFacts:
    """What results.json says of the dataset."""
    info, kinds = dataset.info, set(dataset.kinds)
    unseen = unreviewed(dataset)
    return DatasetFacts(
        name=dataset.name,
        digest=dataset.digest(),
        n_sets=dataset.n_sets,
        n_frames=_distinct(dataset.sets.frame, len(dataset.frames)),
        n_videos=_distinct(dataset.video_of_set, len(dataset.videos)),
        k=info.k if k is None else k,
        axis=info.axis,
        label_source=info.label_source,
        reviewed=info.reviewed,
        combine=None if dataset.variants is None else info.combine,
        kinds=None if kinds == {"video"} else tuple(sorted(kinds)),
        unreviewed_pairs=unseen.pairs or None,
        unreviewed_sets=unseen.sets or None,
    )


def _distinct(rows: Ints, n: int) -> int:
    seen = np.zeros(n, dtype=bool)
    seen[rows] = True
    return int(seen.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the figures were made; `baseline` and `judges` are there where they were named."""

    interval: str = "auto"
    seed: int = 0
    merge: str = "max"
    subset: str | None = None
    allow_missing: bool = False
    baseline: str | None = field(default=None, metadata=LEFT_OUT)
    judges: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """strobe results.json: one dataset, every model scored on it, and what sets them apart.

    What is said of variants, searches and contrasts is there where the dataset has variants, of the review where
    people voted on pairs, of people where they named pictures (there may then be no model), `preserved` where people
    named findings or models were asked to judge them. `strobe` is the version that wrote it, where it was installed;
    `trainings` are there where models are called NAME~SEED.
    """

    schema: Literal[1] = SCHEMA
    strobe: str | None = field(default=None, metadata=LEFT_OUT)
    dataset: DatasetFacts
    settings: Settings = field(default_factory=Settings)
    models: Mapping[str, ModelResult]
    offset_error_all_models: tuple[OffsetError, ...] = ()
    comparison: tuple[Comparison, ...] = ()
    trend: Trend | Missing = field(default_factory=lambda: Missing("no trend was asked for"))
    variants: tuple[VariantFacts, ...] | None = field(default=None, metadata=LEFT_OUT)
    searches: tuple[Search, ...] | None = field(default=None, metadata=LEFT_OUT)
    contrasts: tuple[Contrast, ...] | None = field(default=None, metadata=LEFT_OUT)
    review: ReviewResults | None = field(default=None, metadata=LEFT_OUT)
    preserved: tuple[PreservedResults, ...] | None = field(default=None, metadata=LEFT_OUT)
    people: PeopleResults | None = field(default=None, metadata=LEFT_OUT)
    drawn: DrawnResults | None = field(default=None, metadata=LEFT_OUT)
    trainings: tuple[Trainings, ...] | None = field(default=None, metadata=LEFT_OUT)


def results_schema() -> dict[str, Any]:
    """The JSON Schema of results.json, which also lies in core/data/results.schema.json (`make docs`).

    >>> results_schema()["title"]
    'strobe results.json'
    """
    return json_schema(Results, title="strobe results.json")
