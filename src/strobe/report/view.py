"""The input of a report: the results, and additional facts for the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from strobe.analyses.comparison import Comparison
from strobe.analyses.model_results import ClassificationResult, DetectionResult, ModelResult
from strobe.analyses.results import Results
from strobe.core.tasks import Task
from strobe.report.subject import Subject, sources
from strobe.report.wording import counted, plain_number
from strobe.studies.variants.records import VariantFacts

M = TypeVar("M", bound=ModelResult)
Lines = tuple[str, list[str], list[list[str]], list[str]]
"""A table of plain text: title, column names, rows, and notes below."""

MOST_SHOWN = 8
"""The largest number of models in colour and in the gallery. More would not be distinguishable. Tables have all models.
"""


@dataclass(frozen=True, kw_only=True)
class View:
    """Results as the reader requested them. `show` names models that come first, and `by_kind` counts the sources.

    `change` names two models as before and after. `whole` maps shortened names of models to their names in the run.
    """

    results: Results
    show: Sequence[str] = ()
    by_kind: Mapping[str, int] = field(default_factory=dict)
    change: tuple[str, str] | None = None
    whole: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def classifiers(self) -> dict[str, ClassificationResult]:
        """The classifiers in the order of all tables and figures: the most robust model first, and equally robust
        models by name.
        """
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
        """Return the models that are drawn: the models in `show` in that order, then the most robust models."""
        first = [name for name in self.show if name in models]
        return {name: models[name] for name in list(dict.fromkeys([*first, *models]))[:most]}

    def drawn_text(self, models: Mapping[str, ModelResult]) -> str:
        """Return how the drawn models were chosen, or an empty text if all are drawn."""
        every, shown = list(models), list(self.drawn(models))
        if len(every) <= len(shown):
            return ""
        if shown == every[: len(shown)]:
            return f" The figure shows the {len(shown)} most robust of {len(every)} models; tables/ has all."
        return (
            f" The figure shows {len(shown)} of {len(every)} models: your own or chosen models first, then the "
            f"most robust; tables/ has all."
        )

    def listed(self, rows: Sequence[Comparison], most: int) -> Sequence[Comparison]:
        """Return all of these comparisons. If there are more than `most`, return only the comparisons of models that
        are drawn.

        With hundreds of models, the few pairs that fit would otherwise compare only the best with the worst.
        """
        drawn = {*self.drawn(self.classifiers), *self.drawn(self.detectors)}
        return rows if len(rows) <= most else [row for row in rows if row.a in drawn and row.b in drawn] or rows

    @property
    def words(self) -> Subject:
        """The terms for the dataset of these results."""
        data = self.results.dataset
        return Subject(
            axis=data.axis, reviewed=data.reviewed, k=data.k, kinds=data.kinds or (), varied=bool(self.variants),
            doubted=bool(self.doubts),
        )  # fmt: skip

    @property
    def is_temporal(self) -> bool:
        """Whether sets are frames around an anchor, and neither single images nor variants of images."""
        return not self.words.is_still and not self.variants

    @property
    def only_people(self) -> bool:
        """Whether the results are only of people; figures on models are then not listed as missing."""
        return not self.results.models and bool(self.results.people or self.results.drawn)

    @property
    def doubts(self) -> tuple[str, ...]:
        """The problems with the votes that decided the sets."""
        review = self.results.review
        return () if review is None or self.results.dataset.reviewed != "votes" else review.warnings

    @property
    def variants(self) -> Mapping[str, VariantFacts]:
        """The changes made to the images, by name. Empty for data without variants."""
        return {one.variant: one for one in self.results.variants or ()}

    @property
    def sources(self) -> str:
        """Return the counted sources of the sets."""
        data = self.results.dataset
        return sources(data.n_videos, self.by_kind, data.kinds or ())

    def pictures(self, n: int) -> str:
        """Return the number of single images, with their kind if each source has one image."""
        if n == self.results.dataset.n_videos:
            return self.sources
        if self.words.source == "image":
            return f"{plain_number(n)} of {self.sources}"
        return f"{counted(n, 'image')} from {self.sources}"

    @property
    def n_pictures(self) -> int:
        """Return the largest number of original images that one model has answers for."""
        every = (one.headline.orig.n for one in self.results.models.values())
        return max(every, default=self.results.dataset.n_videos)

    @property
    def size(self) -> str:
        """Return the amount of data in one short line.

        If sets are single images or have variants, n counts images and not sets, so the line starts with images.
        """
        data = self.results.dataset
        if self.variants:
            return f"{self.pictures(self.n_pictures)} · {counted(len(self.variants), 'variant')}"
        return self.sources if self.words.is_still and data.kinds else f"{plain_number(data.n_sets)} sets"


def _ranked(models: Mapping[str, M]) -> dict[str, M]:
    def rank(name: str) -> tuple[bool, float, float, str]:
        model = models[name]
        value = model.headline.pmk.value
        # With many corruptions the worst case is soon zero for all models; their mean then gives the ranking.
        means = model.means if isinstance(model, ClassificationResult) else None
        return (value is None, -(value or 0.0), -(means[-1].at.value or 0.0) if means else 0.0, name)

    return {name: models[name] for name in sorted(models, key=rank)}
