"""Recipes that were trained several times: means over trainings, and their spread over seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from strobe.analyses.model_results import ClassificationScore
from strobe.analyses.results import Results
from strobe.analyses.scoring import Collector, Scoring
from strobe.report.study import SectionFigures, Study
from strobe.report.view import View
from strobe.studies.trainings import figures
from strobe.studies.trainings.score import SEED_MARK, trainings
from strobe.studies.trainings.tables import TABLES, spread_text

FIGURES = (figures.trainings,)


class TrainingSeries(Study):
    """The figures of each recipe over its trainings; models of one recipe are called NAME~SEED."""

    name = "trainings"
    tables = TABLES
    drawings = FIGURES
    needs_to_score = ("has_several_models",)
    needs_to_show = ("results.trainings",)

    def collector(self, scoring: Scoring) -> Collector:
        """Return the means over trainings."""
        return TrainingScores(scoring)

    def figures(self, view: View) -> Sequence[SectionFigures]:
        """Return the figure that compares the recipes."""
        return () if view.words.is_still else [SectionFigures(section="trainings", figures=FIGURES)]

    def content(self, view: View) -> Mapping[str, object]:
        """Return the rows of the recipes."""
        return {"trainings": () if view.words.is_still else view.results.trainings, "spread_text": spread_text}


class TrainingScores(Collector):
    """Adds the means over the trainings of each recipe."""

    def __init__(self, scoring: Scoring) -> None:
        super().__init__()
        self._scoring = scoring

    def into(self, results: Results) -> Results:
        """Return the results with the means over trainings."""
        scores = [one for one in results.models.values() if isinstance(one, ClassificationScore)]
        if not any(SEED_MARK in one.model for one in scores):
            return results
        whole, options = self._scoring.merged.labelled_sets(), self._scoring.options
        return replace(results, trainings=trainings(whole, scores, seed=options.seed, replicates=options.draws))


TRAININGS = TrainingSeries()
