"""Recipes that were trained several times: means over trainings, and their spread over seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from strobe.analyses.model_results import ClassificationScore
from strobe.analyses.results import Results
from strobe.analyses.scoring import Collector, Scoring
from strobe.annexes.train.study import figures
from strobe.annexes.train.study.score import SEED_MARK, trainings
from strobe.annexes.train.study.tables import TABLES, spread_text
from strobe.report.study import SectionFigures, Study
from strobe.report.view import View

FIGURES = (figures.trainings,)


class TrainingSeries(Study):
    """The figures of each recipe over its trainings; models of one recipe are called NAME~SEED."""

    name = "trainings"
    tables = TABLES
    drawings = FIGURES
    needs_to_score = ("has_several_models",)
    needs_to_show = ("results.added",)

    def applies(self, view: View) -> bool:
        """Return whether a recipe was trained several times."""
        return "trainings" in view.results.added

    def collector(self, scoring: Scoring) -> Collector:
        """Return the means over trainings."""
        return TrainingScores(scoring)

    def figures(self, view: View) -> Sequence[SectionFigures]:
        """Return the figure that compares the recipes."""
        return () if view.words.is_still else [SectionFigures(section="trainings", figures=FIGURES)]

    def content(self, view: View) -> Mapping[str, object]:
        """Return the rows of the recipes."""
        if view.words.is_still:
            return {}
        rows = view.results.added["trainings"]
        return {"trainings": rows, "spread_text": spread_text, "first_results": f"{__package__}:trainings.html.j2"}


class TrainingScores(Collector):
    """Adds the means over the trainings of each recipe."""

    def __init__(self, scoring: Scoring) -> None:
        super().__init__()
        self._scoring = scoring

    def into(self, results: Results) -> Results:
        """Return the results with the means over trainings."""
        scores = [model for model in results.models.values() if isinstance(model, ClassificationScore)]
        if not any(SEED_MARK in score.model for score in scores):
            return results
        whole, options = self._scoring.merged.labelled_sets(), self._scoring.options
        found = trainings(whole, scores, seed=options.seed, replicates=options.draws)
        return replace(results, added={**results.added, "trainings": found}) if found else results


TRAININGS = TrainingSeries()
