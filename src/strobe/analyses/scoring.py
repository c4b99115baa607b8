"""The input of every study that scores models, and the results that a study collects while models are scored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from strobe.analyses.model_results import ModelResult
from strobe.analyses.per_set import ModelSets
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.results import Results
from strobe.core.answers import Answers
from strobe.core.dataset import Dataset
from strobe.core.tasks import Task
from strobe.studies.detection.records import DetectionOptions
from strobe.studies.unlabelled.records import FlickerOptions

__all__ = ["Collector", "ScorableModel", "Scoring"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """The input of every study that scores models.

    `path` is the dataset's folder, `candidates` is its content before review, and `dataset` is the part that is scored.
    `videos` is the subset, or None. `types` maps models to their type, if known, and to whether they are standard
    models.
    """

    path: Path
    candidates: Dataset
    dataset: Dataset
    videos: Sequence[str] | None
    options: ScoreOptions
    detection: DetectionOptions
    types: Mapping[str, tuple[str | None, bool]] = field(default_factory=dict)
    compare_review: bool = False
    flicker: FlickerOptions = field(default_factory=FlickerOptions)


class Collector:
    """The results that one study collects while the models are scored; only one model is in memory at a time.

    `sets` has each model's result on every set, if the study scores sets.
    """

    doing: ClassVar[str] = "scoring"
    """The title of the progress bar."""

    def __init__(self) -> None:
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
