"""Reviewed sets: the votes of people, and the effect of their review."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from strobe.analyses.early import STOPPED
from strobe.analyses.model_results import ClassificationResult, ClassificationScore, ModelResult, Stage
from strobe.analyses.results import Results
from strobe.analyses.scoring import Collector, ScorableModel, Scoring
from strobe.analyses.voting import RoundTwo, is_alone, review_results
from strobe.core.answers import Answers, ClassAnswers
from strobe.core.derivation import review_views
from strobe.core.errors import printable
from strobe.core.files import inside, read_json
from strobe.core.tasks import Task
from strobe.report.study import SectionFigures, Study
from strobe.report.tables import as_row, each
from strobe.report.view import Table, View
from strobe.report.wording import with_interval
from strobe.studies.review.figures import review_impact, review_offsets
from strobe.studies.review.score import ReviewStages, impact


def _stages(model: ClassificationResult) -> Iterator[tuple[str, Stage]]:
    impact = model.review_impact
    if impact is not None:
        yield from (("A", impact.a), ("B", impact.b), ("C", impact.c))


TABLES: Mapping[str, Callable[[View], Table]] = {
    "review_impact": lambda view: each(
        view.classifiers, lambda model: ({"stage": name, **as_row(stage)} for name, stage in _stages(model))
    ),
    "review_impact_offsets": lambda view: each(
        view.classifiers,
        lambda model: ({"stage": name, **as_row(one)} for name, stage in _stages(model) for one in stage.per_offset),
    ),
}


FIGURES = (review_impact, review_offsets)


def _notes(view: View, task: Task) -> Sequence[str]:
    """Return the effect of review on every classifier: the drop before and after, and the difference."""
    if task is not Task.CLASSIFICATION:
        return ()
    return [
        f"{printable(name)}: drop {with_interval(one.a.drop)} before review, {with_interval(one.c.drop)} after "
        f"review; difference {with_interval(one.drop_difference)}"
        for name, model in view.classifiers.items()
        if (one := model.review_impact)
    ]


def _figures(view: View) -> Sequence[SectionFigures]:
    """Return the effect of review on classifiers."""
    without_classifiers = not view.classifiers and (view.detectors or view.results.flicker)
    if not view.is_temporal or without_classifiers or view.only_people:
        return ()
    return [SectionFigures(section="slices", figures=FIGURES, lists_missing=True)]


class ReviewScores(Collector):
    """Adds the votes to the results and, if requested, the effect of review on every classifier."""

    def __init__(self, scoring: Scoring) -> None:
        super().__init__(scoring)
        self._stages: ReviewStages | None = None

    def add(self, result: ModelResult | None, model: ScorableModel, answers: Answers) -> ModelResult | None:
        """Return the result with the effect of review, if requested."""
        scoring = self.scoring
        if not (isinstance(result, ClassificationScore) and isinstance(answers, ClassAnswers)):
            return result
        if not scoring.compare_review:
            return result
        if result.stopped_early is not None:
            return replace(result, reasons={**result.reasons, "review_impact": STOPPED})
        if self._stages is None:
            candidates = scoring.candidates
            candidates = candidates if scoring.videos is None else candidates.only_videos(scoring.videos)
            self._stages = ReviewStages.of(*review_views(candidates), options=scoring.options)
        options = scoring.options
        found = impact(self._stages, answers, seed=options.seed, replicates=options.draws)
        return replace(result, review_impact=found)

    def into(self, results: Results) -> Results:
        """Return the results with the votes."""
        scoring = self.scoring
        path = inside(scoring.path, "review.json")
        two = RoundTwo.from_json(read_json(path)) if path.is_file() else None
        alone = is_alone if two is None else two.is_alone
        return replace(results, review=review_results(scoring.candidates, alone=alone, seed=scoring.options.seed))


REVIEW = Study(
    name="review",
    tables=TABLES,
    drawings=FIGURES,
    needs_to_score=("candidates.verdicts",),
    applies=lambda view: view.is_temporal or view.results.review is not None,
    collector=ReviewScores,
    notes=_notes,
    figures=_figures,
)
"""Votes, agreement and attention of the people who reviewed the sets, and accuracy before and after review."""
