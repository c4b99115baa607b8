"""Recipes that were trained several times: means over trainings, and their spread over seeds."""

from collections.abc import Mapping
from dataclasses import replace

from strobe.analyses.model_results import ClassificationScore
from strobe.analyses.results import Results
from strobe.analyses.scoring import Collector
from strobe.annexes.train.study import figures
from strobe.annexes.train.study.score import SEED_MARK, trainings
from strobe.annexes.train.study.tables import TABLES, training_lines
from strobe.report.study import SectionFigures, Study
from strobe.report.view import View

FIGURES = (figures.trainings,)


def _content(view: View) -> Mapping[str, object]:
    """Return the table of the recipes."""
    if view.words.is_still:
        return {}
    return {"trainings": training_lines(view), "first_results": f"{__package__}:trainings.html.j2"}


class TrainingScores(Collector):
    """Adds the means over the trainings of each recipe."""

    def into(self, results: Results) -> Results:
        """Return the results with the means over trainings."""
        scores = [model for model in results.models.values() if isinstance(model, ClassificationScore)]
        if not any(SEED_MARK in score.model for score in scores):
            return results
        whole, options = self.scoring.merged.labelled_sets(), self.scoring.options
        found = trainings(whole, scores, seed=options.seed, replicates=options.draws)
        return replace(results, added={**results.added, "trainings": found}) if found else results


TRAININGS = Study(
    name="trainings",
    tables=TABLES,
    drawings=FIGURES,
    needs_to_score=("has_several_models",),
    needs_to_show=("results.added",),
    applies=lambda view: "trainings" in view.results.added,
    collector=TrainingScores,
    lines=training_lines,
    figures=lambda view: () if view.words.is_still else [SectionFigures(section="trainings", figures=FIGURES)],
    content=_content,
)
"""The figures of each recipe over its trainings; models of one recipe are called NAME~SEED."""
