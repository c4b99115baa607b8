"""results.json: all results of a run, in one documented record.

`encode` of strobe.core.codec writes it, `decode` reads it, and results.schema.json is generated from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal

import numpy as np

from strobe.analyses.comparison import Comparison
from strobe.analyses.label_sample import named_sample
from strobe.analyses.model_results import ClassificationResult, ModelResult
from strobe.analyses.voting import ReviewResults
from strobe.core.arrays import Ints
from strobe.core.codec import LEFT_OUT, Count, Rule, added_records, json_schema
from strobe.core.dataset import Dataset
from strobe.core.estimate import Missing
from strobe.core.readings import readings_of_videos
from strobe.core.records import Unreviewed
from strobe.studies.noise.records import NoiseScore
from strobe.studies.people.records import DrawnResults, PeopleResults
from strobe.studies.temporal.records import OffsetError, Trend
from strobe.studies.unlabelled.records import FlickerResults, LabelSample
from strobe.studies.variants.records import Contrast, PreservedResults, Search, VariantFacts


def unreviewed(dataset: Dataset) -> Unreviewed:
    """Count the unvoted pairs of the sets that a reviewed dataset still has."""
    found = [dataset.unseen[name] for name in dataset.sets.set_id.tolist() if name in dataset.unseen]
    return Unreviewed(pairs=sum(one.pairs for one in found), sets=sum(one.sets for one in found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohort:
    """The number of scored sets (`n_sets`), and the numbers of sets excluded before any model was scored.

    `unlabelled_sets` lack a label, so no answer is right or wrong. `sets_without_votes` have no vote. Of these sets,
    `kept_without_votes` are scored as built, and the rest are excluded. `unreviewed_pairs` are candidates of scored
    sets without a vote. `unreviewed_sets` are the sets reduced to their anchor because of such candidates. `sample` is
    the sample that the labels are from, if one was drawn.
    """

    n_sets: int
    unlabelled_sets: int = 0
    sets_without_votes: int = 0
    kept_without_votes: int = 0
    unreviewed_pairs: int = 0
    unreviewed_sets: int = 0
    sample: LabelSample | None = None

    @classmethod
    def of(cls, dataset: Dataset, *, needs_labels: bool = True) -> "Cohort":
        """Return the cohort of a dataset before scoring.

        Boxes need no label (`needs_labels` False). Sets without a label are then scored by their boxes, and are still
        counted.
        """
        scored = dataset.labelled_sets() if needs_labels else dataset
        unseen, without, kept = unreviewed(scored), len(dataset.unvoted), 0
        if without:
            names = set(dataset.sets.set_id.tolist())
            kept = sum(name in names for name in dataset.unvoted)
        else:  # an exported dataset has no votes, but records how many sets had no vote
            without, kept = (_count(dataset, name) for name in ("sets_without_votes", "kept_without_votes"))
        return cls(
            n_sets=scored.n_sets,
            unlabelled_sets=int((~dataset.labelled).sum()),
            sets_without_votes=without,
            kept_without_votes=min(kept, scored.n_sets),
            unreviewed_pairs=unseen.pairs,
            unreviewed_sets=unseen.sets,
            sample=sample.record() if dataset.samples and (sample := named_sample(dataset)) else None,
        )

    def cautions(self) -> tuple[str, ...]:
        """Return cautions about the figures; empty if every set was scored and reviewed.

        >>> Cohort(n_sets=5, unlabelled_sets=1).cautions()  # doctest: +ELLIPSIS
        ('1 set without a label is excluded from every accuracy figure; nothing records that the 5 sets with ...',)
        >>> Cohort(n_sets=3, sets_without_votes=9).cautions()  # doctest: +ELLIPSIS
        ('9 sets without any vote are excluded from every figure; strobe review export --unreviewed keep ...',)
        """
        notes = []
        if self.unlabelled_sets:
            text = f"{_excluded(self.unlabelled_sets, 'a label')} accuracy figure"
            notes.append(f"{text}; {_origin(self.n_sets, self.sample)}")
        if dropped := self.sets_without_votes - self.kept_without_votes:
            way = "strobe review export --unreviewed keep includes them"
            notes.append(f"{_excluded(dropped, 'any vote')} figure; {way}")
        if self.kept_without_votes:
            notes.append(
                f"{self.kept_without_votes} of the {self.n_sets} scored sets have no vote; they are scored with all "
                "their candidates, as built"
            )
        if self.unreviewed_pairs:
            text = f"{self.unreviewed_pairs} pairs of the scored sets have no vote yet and count as rejected"
            if self.unreviewed_sets:
                text += (
                    f"; this leaves only the anchor in {self.unreviewed_sets} of {self.n_sets} sets, which cannot break"
                )
            notes.append(text)
        return tuple(notes)


def _count(dataset: Dataset, name: str) -> int:
    found = dataset.info.provenance.get(name, 0)
    return found if isinstance(found, int) and found > 0 else 0


def _origin(n_sets: int, sample: LabelSample | None) -> str:
    """Return what is known about the origin of the labels, if only some sets have one."""
    if sample is None:
        return (
            f"nothing records that the {n_sets:,} sets with a label were drawn at random, so accuracy describes these "
            "sets only"
        )
    if sample.design == "random":
        return f"the {sample.named:,} sets with a label were drawn at random (seed {sample.seed})"
    return (
        f"the {sample.named:,} sets with a label were drawn by a plan that prefers some sets, so their accuracy is not "
        "that of all sets; strobe score estimates it for all sets"
    )


def _excluded(n: int, lacks: str) -> str:
    return f"{n} set{'' if n == 1 else 's'} without {lacks} {'is' if n == 1 else 'are'} excluded from every"


SCHEMA: Literal[1] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFacts:
    """The scored dataset, with the k used for scoring.

    `n_sets` counts the scored sets; for classifiers these have a label. `combine` is present if the dataset has
    variants, and `kinds` (of the anchors' sources) if not all sources are videos. Sets that are not scored are counted
    as in `strobe.analyses.results.Cohort`; a count of zero is omitted. `labels` is present if the labels are from a
    sample and accuracy is estimated for all sets.
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
    unlabelled_sets: Count | None = field(default=None, metadata=LEFT_OUT)
    sets_without_votes: Count | None = field(default=None, metadata=LEFT_OUT)
    kept_without_votes: Count | None = field(default=None, metadata=LEFT_OUT)
    labels: LabelSample | None = field(default=None, metadata=LEFT_OUT)
    readings: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    """Guesses with which the dataset was read (`strobe.core.readings`)."""

    def cautions(self) -> tuple[str, ...]:
        """Cautions about the figures; empty if every set was scored and reviewed."""
        left_out: dict[str, Any] = {name: getattr(self, name) or 0 for name in LEFT_OUT_COUNTS}
        if self.labels is None:
            return *Cohort(n_sets=self.n_sets, **left_out).cautions(), *(self.readings or ())
        others = *Cohort(n_sets=self.n_sets, **left_out | {"unlabelled_sets": 0}).cautions(), *(self.readings or ())
        part = f"figures other than acc_orig, acc_pmk, drop and their curve are of these {self.labels.named:,} sets"
        return self.labels.sentence(), *([part] if self.labels.design == "planned" else []), *others


LEFT_OUT_COUNTS = tuple(one.name for one in fields(Cohort) if one.name not in ("n_sets", "sample"))
"""The fields of DatasetFacts that count excluded sets."""


def dataset_facts(dataset: Dataset, *, k: int | None = None, needs_labels: bool = True) -> DatasetFacts:
    """Return the dataset's record in results.json; without `needs_labels`, sets without a label are included."""
    info, kinds, cohort = dataset.info, set(dataset.kinds), Cohort.of(dataset, needs_labels=needs_labels)
    scored = dataset.labelled_sets() if needs_labels else dataset
    return DatasetFacts(
        name=dataset.name,
        digest=dataset.digest(),
        n_sets=scored.n_sets,
        n_frames=_distinct(scored.sets.frame, len(scored.frames)),
        n_videos=_distinct(scored.video_of_set, len(scored.videos)),
        k=info.k if k is None else k,
        axis=info.axis,
        label_source=info.label_source,
        reviewed=info.reviewed,
        combine=None if dataset.variants is None else info.combine,
        kinds=None if kinds == {"video"} else tuple(sorted(kinds)),
        readings=readings_of_videos(info.provenance.get("notes", ())) or None,
        **{name: getattr(cohort, name) or None for name in LEFT_OUT_COUNTS},
    )


def _distinct(rows: Ints, n: int) -> int:
    seen = np.zeros(n, dtype=bool)
    seen[rows] = True
    return int(seen.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How the figures were computed; `baseline` and `judges` are present if they were given."""

    interval: str = "auto"
    seed: int = 0
    merge: str = "max"
    subset: str | None = None
    allow_missing: bool = False
    baseline: str | None = field(default=None, metadata=LEFT_OUT)
    judges: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The content of strobe's results.json: one dataset, every model scored on it, and the differences between models.

    Variants, searches and contrasts are present if the dataset has variants. The review is present if people voted on
    pairs. `people` is present if people named images; there may then be no model. `preserved` is present if findings
    were named by people or judged by models. `strobe` is the version that wrote the file, if it was installed.
    `flicker` is present if some sets have no label; if no set
    has a label, there may be no model.
    `added` of the results and of a model holds the records of studies of annexes, by the name of the study. They are
    written among the other keys. `studies` holds, by name, the records of studies without such a key, also those of
    installed packages. `plugins` has the package and version of every study of an installed package that added to these
    results, by the study's name.
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
    added: Mapping[str, Any] = field(default_factory=dict, metadata=added_records("records: results"))
    flicker: FlickerResults | None = field(default=None, metadata=LEFT_OUT)
    studies: Mapping[str, Any] | None = field(default=None, metadata=LEFT_OUT)
    plugins: Mapping[str, str] | None = field(default=None, metadata=LEFT_OUT)

    @property
    def study_names(self) -> set[str]:
        """The names of the studies whose records are not part of the house's own."""
        models = [model for model in self.models.values() if isinstance(model, ClassificationResult)]
        return {*(self.studies or {}), *self.added, *(name for model in models for name in model.added)}

    @property
    def noise(self) -> dict[str, NoiseScore]:
        """The noise floor of every model that was asked several times, with labels or without."""
        found = {name: model.noise for name, model in self.models.items() if model.noise is not None}
        if (flicker := self.flicker) is not None:
            known = {name: one.noise for name, one in flicker.models.items()}
            known |= {name: detector.noise for name, detector in (flicker.detectors or {}).items()}
            found = {name: one for name, one in known.items() if one is not None} | found
        return found


def results_schema() -> dict[str, Any]:
    """Return the JSON Schema of results.json, also stored in core/data/results.schema.json (`make docs`).

    >>> results_schema()["title"]
    'strobe results.json'
    """
    return json_schema(Results, title="strobe results.json")
