"""The noise floor: how often does a model change its answer if it is asked again about the same frame?"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

from strobe.analyses.model_results import ModelResult
from strobe.analyses.plan import Plan
from strobe.analyses.results import Results
from strobe.analyses.scoring import Collector, ScorableModel, Scoring
from strobe.analyses.variants_view import overall
from strobe.analyses.video_plan import no_flicker, without_cuts
from strobe.core.answers import Answers
from strobe.core.tasks import Task
from strobe.report.study import Chapter, PageInput, SectionFigures, Study
from strobe.report.tables import as_row
from strobe.studies.noise import figures
from strobe.studies.noise.records import NoiseScore
from strobe.studies.noise.score import noise_score, repeated_answers
from strobe.studies.noise.words import TERMS, intro, noise_lines
from strobe.studies.unlabelled.records import FlickerResults

FIGURES = (figures.noise,)


def _chapter(page: PageInput) -> Chapter:
    """Return the chapter with the figure and the table."""
    content: Mapping[str, object] = {"intro": intro(page.view), "tables": noise_lines(page.view)}
    return Chapter(name="noise", title="The same frames, asked again", nav="Noise", content=content, terms=TERMS)


class NoiseScores(Collector):
    """Adds the noise floor to the results of each model that was asked several times."""

    def __init__(self, scoring: Scoring) -> None:
        super().__init__(scoring)
        self._without_labels: dict[str, NoiseScore] = {}

    @cached_property
    def _labelled(self) -> Plan:
        return Plan(overall(self.scoring.dataset).labelled_sets(), self.scoring.options)

    @cached_property
    def _all(self) -> Plan:
        return Plan(overall(self.scoring.dataset), self.scoring.options)

    @cached_property
    def _flicker(self) -> Plan | None:
        """The sets on which flicker without labels is measured."""
        if no_flicker(self.scoring.dataset) is not None:
            return None
        dataset, _ = without_cuts(overall(self.scoring.dataset), self.scoring.options.k)
        return None if dataset is None else Plan(dataset, self.scoring.options)

    def add(self, result: ModelResult | None, model: ScorableModel, answers: Answers) -> ModelResult | None:
        """Score one model, if it was asked several times."""
        found = repeated_answers(answers, model.repeats())
        if found is None:
            return result
        if self._flicker is not None and (one := noise_score(self._flicker, found)) is not None:
            self._without_labels[model.name] = one
        if result is None:
            return None
        plan = self._labelled if model.task is Task.CLASSIFICATION else self._all
        return replace(result, noise=noise_score(plan, found))

    def into(self, results: Results) -> Results:
        """Return the results with the noise of models that are scored without labels."""
        if results.flicker is None or not self._without_labels:
            return results
        return replace(results, flicker=_with_noise(results.flicker, self._without_labels))


def _with_noise(flicker: FlickerResults, noise: Mapping[str, NoiseScore]) -> FlickerResults:
    models = {name: replace(model, noise=noise.get(name)) for name, model in flicker.models.items()}
    if flicker.detectors is None:
        return replace(flicker, models=models)
    detectors = {name: replace(detector, noise=noise.get(name)) for name, detector in flicker.detectors.items()}
    return replace(flicker, models=models, detectors=detectors)


NOISE = Study(
    name="noise",
    tables={"noise": lambda view: [{"model": name, **as_row(one)} for name, one in view.results.noise.items()]},
    drawings=FIGURES,
    needs_to_score=("is_repeated",),
    needs_to_show=("results.noise",),
    collector=NoiseScores,
    lines=noise_lines,
    figures=lambda _view: [SectionFigures(section="noise", figures=FIGURES)],
    chapter=_chapter,
)
"""Changed answers on the same frame, next to changed answers on neighbouring frames."""
