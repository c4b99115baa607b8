"""The input of every study that scores models, and the results that a study collects while models are scored."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.early import is_stopped, settled_sets
from strobe.analyses.model_results import DetectionScore, ModelResult
from strobe.analyses.plan import Plan, ScoreOptions
from strobe.analyses.results import Results
from strobe.analyses.variants_view import overall
from strobe.core.answers import Answers, BoxAnswers, ClassAnswers, State
from strobe.core.arrays import Ints, Texts
from strobe.core.dataset import Dataset
from strobe.core.names import short_names
from strobe.core.tables import texts
from strobe.core.tasks import Task
from strobe.studies.detection.records import DetectionOptions
from strobe.studies.unlabelled.records import FlickerOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFacts:
    """The model-independent facts of every set; columns are (S,), and names are short and unique."""

    columns: Mapping[str, Texts]
    answers: Texts
    """The answers that a model can give: one of the classes, or none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSets:
    """One model on every set it was scored on, small enough to keep for many models.

    `row` holds indices into `facts`, and the other columns have the same length. A column listed in `names` holds
    indices into its names. NaN means unknown.
    """

    model: str
    facts: SetFacts
    row: NDArray[np.int32]
    columns: Mapping[str, NDArray[Any]]
    names: Mapping[str, Texts] = field(default_factory=dict)


def set_facts(dataset: Dataset) -> SetFacts:
    """Return the name, source and label of each set, its variant if any, and its id if this differs from the name."""
    sets, names = dataset.sets, dataset.info.label_space.names
    facts = {
        "set": texts(short_names(sets.set_id.tolist())),
        "source": texts(short_names(dataset.videos.name.tolist()))[dataset.video_of_set],
        "label": texts(_labels(dataset, names)),
    }
    if dataset.variants is not None:
        facts["variant"] = dataset.variants.variant[sets.variant]
    if (facts["set"] != sets.set_id).any():
        facts["set_id"] = sets.set_id
    return SetFacts(columns=facts, answers=texts([*names, "none of the classes"]))


def _labels(dataset: Dataset, names: tuple[str, ...]) -> list[str]:
    """Return the class names of each set's anchor."""
    labels, anchors = dataset.labels, dataset.sets.anchor_frame
    is_anchor = np.zeros(len(dataset.frames), dtype=bool)
    is_anchor[anchors] = True
    own = np.flatnonzero(is_anchor[labels.frame])
    own = own[np.lexsort((labels.label[own], labels.frame[own]))]
    frame, label = labels.frame[own], labels.label[own].tolist()
    starts, ends = np.searchsorted(frame, anchors), np.searchsorted(frame, anchors, side="right")
    return [
        " / ".join(names[place] for place in label[a:b]) for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


def class_sets(dataset: Dataset, facts: SetFacts, answers: ClassAnswers, *, k: int | None = None) -> ModelSets:
    """Return a classifier's rows for every fully answered set, up to level k; `facts` are the dataset's.

    `first_wrong_distance` is the smallest |distance| of a wrong frame, 0 if the anchor is wrong, NaN if the set holds.
    `worst_member` is the distance of the worst member, NaN if the set has only an anchor. A wrong member is worse than
    a right member. Ties go to the lowest probability of the right answer, then to the nearest, then to the earlier
    member. If members were skipped, sets that are settled without them are included, and the columns that need all
    members are omitted.
    """
    plan = Plan(dataset, ScoreOptions(k=k))
    if is_stopped(plan, answers):
        return _settled(plan, facts, answers)
    parts = [_of_sets(plan, answers, sets, rows) for sets, rows in plan.blocks()]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    complete = columns.pop("whole")
    return ModelSets(
        model=answers.model,
        facts=facts,
        row=np.flatnonzero(complete).astype(np.int32),
        columns={name: column[complete] for name, column in columns.items()},
        names={"worst_answer": facts.answers},
    )


def _of_sets(plan: Plan, answers: ClassAnswers, sets: slice, rows: slice) -> dict[str, NDArray[Any]]:
    """Return the columns of some sets, and which of these sets were fully answered."""
    owner, start = plan.set_row[rows] - sets.start, plan.start[sets] - rows.start
    frame, distance, anchor = plan.frame[rows], plan.distance[rows], plan.is_anchor[rows]
    right = plan.view.right(answers.label[frame], rows)
    away = np.abs(distance)
    first = np.full(len(start), np.inf)
    np.minimum.at(first, owner[~right], away[~right])
    truth = _probability_of_right(plan, answers, rows)
    # The anchor of a set comes last, so that it is chosen only if there is no member.
    worst = _first(start, owner, (anchor, right, np.where(np.isfinite(truth), truth, 0.0), away, distance))
    chosen, holds = frame[worst], np.isinf(first)
    return {
        "whole": np.logical_and.reduceat(answers.state[frame] <= State.OUTSIDE, start),
        "anchor_right": right[anchor],
        "holds": holds,
        "first_wrong_distance": np.where(holds, np.nan, first).astype(np.float32),
        "worst_member": np.where(anchor[worst], np.nan, distance[worst]).astype(np.float32),
        "worst_right": right[worst],
        "worst_answer": answers.label[chosen].astype(np.int32),  # −1, no class of the dataset, is the last name
        "worst_confidence": answers.confidence_at(chosen).astype(np.float32),
        "worst_probability_of_right": truth[worst].astype(np.float32),
    }


def _first(start: Ints, set_row: Ints, keys: Sequence[NDArray[Any]]) -> Ints:
    """Return the row of each set that comes first by the keys, without a full sort; earlier keys take precedence."""
    left = np.ones(len(set_row), dtype=bool)
    for key in keys:
        held = np.where(left, key.astype(np.float64), np.inf)
        left &= held == np.minimum.reduceat(held, start)[set_row]
    rows = np.flatnonzero(left)
    return np.asarray(rows[np.searchsorted(set_row[rows], np.arange(len(start)))])


def _settled(plan: Plan, facts: SetFacts, answers: ClassAnswers) -> ModelSets:
    """Return the known facts of every settled set: whether its anchor is right, and whether the whole set is right."""
    known, right = settled_sets(plan, answers), plan.view.right_rows(answers.label)
    return ModelSets(
        model=answers.model,
        facts=facts,
        row=np.flatnonzero(known).astype(np.int32),
        columns={
            "anchor_right": right[plan.is_anchor][known],
            "holds": np.logical_and.reduceat(right, plan.start)[known],
        },
    )


def _probability_of_right(plan: Plan, answers: ClassAnswers, rows: slice) -> NDArray[np.float64]:
    """Return the probability of the right answer on each of these set rows by the label rule; NaN if unknown."""
    frame = plan.frame[rows]
    out = np.full(len(frame), np.nan)
    if not answers.has_shares:
        return out
    for labels in plan.view.right_labels[:, rows]:
        known = labels >= 0
        out[known] = np.fmax(out[known], answers.share_of(frame[known], labels[known]))
    return out


def box_sets(dataset: Dataset, facts: SetFacts, answers: BoxAnswers, found: DetectionScore) -> ModelSets:
    """Return a detector's rows for every scored set: the frame chosen for the set, its AP, and the anchor's AP.

    `anchor_right` means that something was right on the anchor; `holds` means that, in addition, AP never falls below
    the anchor's. `worst_answer` and `worst_confidence` belong to the most confident box on the chosen frame.
    """
    place = {str(name): row for row, name in enumerate(dataset.sets.set_id)}
    rows = found.chosen_frames
    chosen = np.array([one.frame for one in rows], dtype=np.int64)
    frames = texts(short_names(dataset.frames.key.tolist()))
    starts = answers.starts()
    has_box = starts[chosen + 1] > starts[chosen]
    surest = starts[chosen][has_box]
    answer, confidence = np.full(len(rows), -1, dtype=np.int32), np.full(len(rows), np.nan, dtype=np.float32)
    answer[has_box], confidence[has_box] = answers.label[surest], answers.score[surest]
    return ModelSets(
        model=found.model,
        facts=facts,
        row=np.array([place[one.set] for one in rows], dtype=np.int32),
        columns={
            "anchor_right": np.array([one.status != "wrong" for one in rows], dtype=bool),
            "holds": np.array([one.status == "holds" for one in rows], dtype=bool),
            "first_wrong_distance": found.first_wrong.astype(np.float32),
            "ap_anchor": _floats([one.ap_orig for one in rows]),
            "chosen_frame": frames[chosen],
            "chosen_distance": _floats([one.distance for one in rows]),
            "ap_chosen": _floats([one.ap_worst for one in rows]),
            "worst_answer": answer,  # −1, no box at all, is the last name
            "worst_confidence": confidence,
            "cause": texts([one.cause or "" for one in rows]),
        },
        names={"worst_answer": texts([*dataset.info.label_space.names, "no box"])},
    )


def _floats(values: list[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


class ScorableModel(Protocol):
    """A model with answers, in a run or in memory."""

    @property
    def name(self) -> str:
        """The model's name."""

    @property
    def task(self) -> Task:
        """The task of the model's answers."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts on how the answers were made."""

    def load(self) -> Answers:
        """Return the answers."""

    def repeats(self) -> Iterable[Answers]:
        """Return the further answers of a model that was asked several times about each frame, or nothing."""


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """The input of every study that scores models.

    `path` is the dataset's folder, `candidates` is its content before review, and `dataset` is the part that is scored.
    `videos` is the subset, or None. `tasks` has the task of each model. `types` maps models to their type, if known,
    and to whether they are standard models. `is_repeated`: a model was asked several times about each frame.
    `is_remote`: a model was asked over a network. `remedies`: the default list of remedies is measured.
    `is_remedied`: a model is a remedy for another.
    `families` are the models that are forms of one model, the reference first.
    """

    path: Path
    candidates: Dataset
    dataset: Dataset
    videos: Sequence[str] | None
    tasks: Sequence[Task]
    options: ScoreOptions
    detection: DetectionOptions
    types: Mapping[str, tuple[str | None, bool]] = field(default_factory=dict)
    compare_review: bool = False
    flicker: FlickerOptions | None = None
    is_repeated: bool = False
    is_remote: bool = False
    remedies: bool = False
    is_remedied: bool = False
    families: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def merged(self) -> Dataset:
        """The dataset with one set per image (`overall`). A dataset without variants is used as it is."""
        return self.dataset if self.dataset.variants is None else overall(self.dataset)

    @property
    def lacks_labels(self) -> bool:
        """Whether a set has no label."""
        return not self.dataset.labelled.all()

    @property
    def has_several_models(self) -> bool:
        """Whether more than one model is scored."""
        return len(self.tasks) > 1


class Collector:
    """The results that one study collects while the models are scored; only one model is in memory at a time.

    `sets` has each model's result on every set, if the study scores sets.
    """

    doing: ClassVar[str] = "scoring"
    """The title of the progress bar."""

    def __init__(self, scoring: Scoring) -> None:
        self.scoring = scoring
        self.sets: list[ModelSets] = []

    def excludes(self, model: ScorableModel) -> str | None:
        """Return why a model of the study's task cannot be scored on this dataset; None if the model can be scored."""
        return None

    def add(self, result: ModelResult | None, model: ScorableModel, answers: Answers) -> ModelResult | None:
        """Return the model's result with this study's figures; the first study to score a model creates its result."""
        return result

    def into(self, results: Results) -> Results:
        """Return the results of all models with the figures of this study."""
        return results
