"""What is reported: the results, and what the page knows beside them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from strobe.analyses.model_results import ClassificationResult, DetectionResult, ModelResult
from strobe.analyses.results import Results
from strobe.core.tasks import Task
from strobe.report.subject import Subject

__all__ = ["MOST_SHOWN", "View"]

M = TypeVar("M", bound=ModelResult)

MOST_SHOWN = 8
"""Models drawn in colour and shown in the gallery; more could not be told apart. The rest are in the tables."""


@dataclass(frozen=True, kw_only=True)
class View:
    """Results as a reader asked for them: `show` names models that come first; `n_photos` of the sources are photos."""

    results: Results
    show: Sequence[str] = ()
    n_photos: int = 0

    @cached_property
    def classifiers(self) -> dict[str, ClassificationResult]:
        """The classifiers, the most robust first (then by name), so that every table and figure agrees."""
        models = self.results.models.items()
        return _ranked({name: one for name, one in models if isinstance(one, ClassificationResult)})

    @cached_property
    def detectors(self) -> dict[str, DetectionResult]:
        """The detectors, the most robust first."""
        models = self.results.models.items()
        return _ranked({name: one for name, one in models if isinstance(one, DetectionResult)})

    def of(self, task: Task) -> Mapping[str, ModelResult]:
        """The models of one task, the most robust first."""
        return self.classifiers if task is Task.CLASSIFICATION else self.detectors

    @property
    def ranked(self) -> list[str]:
        """Every model, task by task."""
        return [name for task in Task for name in self.of(task)]

    def drawn(self, models: Mapping[str, M], most: int = MOST_SHOWN) -> dict[str, M]:
        """Those of the models that are drawn: the ones under `show` in that order, then the most robust."""
        first = [name for name in self.show if name in models]
        return {name: models[name] for name in list(dict.fromkeys([*first, *models]))[:most]}

    def drawn_text(self, models: Mapping[str, ModelResult]) -> str:
        """How the drawn models were chosen, where not all are drawn; else nothing."""
        every, shown = list(models), list(self.drawn(models))
        if len(every) <= len(shown):
            return ""
        if shown == every[: len(shown)]:
            return f" The {len(shown)} most robust of {len(every)} models are drawn; all are in tables/."
        return (
            f" {len(shown)} of {len(every)} models are drawn: those asked for or your own, then the most robust; all "
            "are in tables/."
        )

    @property
    def k(self) -> str:
        """The largest distance, as it stands in names: `pm-10`."""
        return f"pm-{self.results.dataset.k}"

    @property
    def words(self) -> Subject:
        """The words for the dataset of these results."""
        data = self.results.dataset
        return Subject(axis=data.axis, reviewed=data.reviewed, k=data.k)


def _ranked(models: Mapping[str, M]) -> dict[str, M]:
    def rank(name: str) -> tuple[bool, float, str]:
        value = models[name].headline.pmk.value
        return (value is None, -(value or 0.0), name)

    return {name: models[name] for name in sorted(models, key=rank)}
