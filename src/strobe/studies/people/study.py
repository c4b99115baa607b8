"""People who named images or drew boxes: how often are they right, and how similar are they to the models?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.model_results import ModelResult
from strobe.analyses.naming import NamingTable
from strobe.analyses.results import Results
from strobe.analyses.scoring import Collector, ScorableModel, Scoring
from strobe.core.answers import Answers, State
from strobe.core.people import LABEL
from strobe.report.study import Chapter, PageInput, SectionFigures, Study
from strobe.report.view import View
from strobe.studies.people.figures import (
    people_accuracy,
    people_boxes,
    people_confusion,
    people_consistency,
    people_preservation,
    people_times,
)
from strobe.studies.people.score import people_results
from strobe.studies.people.score_boxes import drawn_results
from strobe.studies.people.tables import TABLES, box_lines, people_lines
from strobe.studies.people.words import TERMS, people_lead, people_text

NAMES = (
    people_accuracy,
    people_preservation,
    people_consistency,
    people_confusion,
    people_times,
)
BOXES = (people_boxes,)


def _collector(scoring: Scoring) -> Collector | None:
    """Return the results of people, if they named images (not only to label sets) or drew boxes."""
    named = any(answer.condition != LABEL for answer in scoring.dataset.names)
    return PeopleScores(scoring) if named or scoring.dataset.drawn else None


def _figures(view: View) -> Sequence[SectionFigures]:
    """Return the figures on the names and boxes that people gave."""
    names = NAMES if view.results.people else ()
    boxes = BOXES if view.results.drawn else ()
    return [SectionFigures(section="people", figures=(*names, *boxes))]


def _chapter(page: PageInput) -> Chapter:
    """Return the chapter on people."""
    content = {"tables": [*people_lines(page.view), *box_lines(page.view)], "pick": "Images"}
    terms = TERMS if page.view.results.people else ()
    return Chapter(name="people", title="How people answered", nav="People", content=content, terms=terms)


def _content(view: View) -> Mapping[str, object]:
    """Return the number of people who named images."""
    n_people = 0 if view.results.people is None else view.results.people.n_people
    return {"n_people": n_people, "people_text": people_text}


class PeopleScores(Collector):
    """Adds people's names and boxes to the results, and the models' results on the same images."""

    def __init__(self, scoring: Scoring) -> None:
        super().__init__(scoring)
        named = scoring.dataset.labelled_sets() if scoring.dataset.names else None
        self._naming = None if named is None else NamingTable.of(named)
        self._models: dict[str, NDArray[np.int8]] = {}

    def add(self, result: ModelResult | None, model: ScorableModel, answers: Answers) -> ModelResult | None:
        """Score a model on the images that people named, unless some of its answers were skipped."""
        if self._naming is not None and not (answers.state == State.SKIPPED).any():
            classes = answers.as_classes()
            self._models[model.name] = self._naming.judge(classes.label, classes.scored)
        return result

    def into(self, results: Results) -> Results:
        """Return the results with people's names and boxes."""
        dataset, options = self.scoring.dataset, self.scoring.options
        if self._naming is not None:
            results = replace(results, people=people_results(self._naming, self._models, options))
        return replace(results, drawn=drawn_results(dataset, seed=options.seed)) if dataset.drawn else results


PEOPLE = Study(
    name="people",
    decides=-2,
    tables=TABLES,
    drawings=(*NAMES, *BOXES),
    needs_to_score=("dataset.names", "dataset.drawn"),
    needs_to_show=("results.people", "results.drawn"),
    collector=_collector,
    lines=lambda view: [*people_lines(view), *box_lines(view)],
    lead=lambda view, models: None if models else people_lead(view),
    figures=_figures,
    chapter=_chapter,
    content=_content,
)
"""Accuracy, agreement and response times of people, compared with the models on the same images."""
