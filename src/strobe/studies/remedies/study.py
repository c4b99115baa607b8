"""Remedies: what would stop the flicker of a model, and what does it cost?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from strobe.analyses.model_results import ModelResult
from strobe.analyses.results import Results
from strobe.analyses.scoring import Collector, ScorableModel, Scoring
from strobe.core.answers import Answers, ClassAnswers, State
from strobe.core.estimate import Missing
from strobe.report.charts_lines import Panel, panel_rows, small_multiples
from strobe.report.drawing import Answer, FigureContent, question
from strobe.report.study import Chapter, PageInput, SectionFigures, Study
from strobe.report.style import GREY, RIGHT
from strobe.report.tables import as_row
from strobe.report.view import Table, View
from strobe.studies.remedies.records import NONE, RemedyScore
from strobe.studies.remedies.score import Measured, Truth, default_answers, with_front
from strobe.studies.remedies.words import NAME, TERMS, remedy_lines, scores, verdict

MOST_PANELS = 6


@question(NAME, "What would stop it, and at what delay?")
def remedies(view: View) -> Answer:
    """Return the changes that are left against the delay, for each model."""
    found = dict(list(scores(view).items())[:MOST_PANELS])
    if not found:
        return Missing("no remedy was measured (--remedies).")
    wide, narrow = panel_rows(len(found), (3, 1))
    return FigureContent(
        sentence=" ".join(verdict(name, rows) for name, rows in found.items()),
        how="The lower and the further to the left, the better. On the Pareto front, no other remedy is as good in "
        "changes, accuracy, delay, passes and truth lost; the line joins those with the fewest changes at their "
        "delay. tables/remedies.csv has every number.",
        paint=small_multiples(
            [Panel(title=name, xlabel="delay, ms", paint=partial(_panel, rows)) for name, rows in found.items()],
            (3, 1),
            ylabel="changes per second",
        ),
        inches=(0.9 + 2.7 * wide, 1.2 + 2.3 * narrow),
    )


def _panel(rows: Sequence[RemedyScore], axes: Any) -> None:
    axes.plot([0], [0], alpha=0)  # both axes start at 0
    points = [(row.delay_ms or 0.0, row.changes_per_s, row) for row in rows if row.changes_per_s is not None]
    known = sorted(points, key=lambda point: point[:2])
    lowest = [point for at, point in enumerate(known) if point[1] < min((y for _, y, _ in known[:at]), default=np.inf)]
    for is_front, colour, name in ((False, GREY, "other remedies"), (True, RIGHT, "Pareto front")):
        part = [point[:2] for point in known if point[2].is_front is is_front]
        axes.plot(*zip(*part, strict=True) if part else ((), ()), "o", color=colour, markersize=4, label=name)
    axes.plot(*zip(*(point[:2] for point in lowest), strict=True), color=RIGHT)
    for x, y, remedy in (*lowest, *(point for point in known if point[2].remedy == NONE)):
        axes.annotate(remedy.remedy, (x, y), fontsize=6, color=RIGHT, textcoords="offset points", xytext=(3, 3))


def _table(view: View) -> Table:
    return [as_row(row) for rows in scores(view).values() for row in rows]


TABLES: Mapping[str, Callable[[View], Table]] = {NAME: _table}


def _collector(scoring: Scoring) -> Collector | None:
    """Return the collector, if the sets are stretches of video."""
    is_video = scoring.dataset.info.axis == "frame-offset" and scoring.dataset.variants is None
    return RemedyScores(scoring) if is_video else None


def _chapter(page: PageInput) -> Chapter:
    """Return the chapter with the figure and the tables."""
    intro = "A remedy removes changes of an answer in time. It costs delay, forward passes, or real changes."
    content = {"intro": intro, "tables": remedy_lines(page.view)}
    return Chapter(name=NAME, title="What would stop it?", nav="Remedies", content=content, terms=TERMS)


class RemedyScores(Collector):
    """Measures the default list if it is asked for, and the models of the run that are remedies of another."""

    def __init__(self, scoring: Scoring) -> None:
        super().__init__(scoring)
        self._all = scoring.remedies
        self._truth = Truth(scoring.dataset, scoring.options)
        self._own: dict[str, tuple[Measured, list[RemedyScore]]] = {}
        self._views: dict[str, tuple[str, str, Answers, float | None]] = {}

    def add(self, result: ModelResult | None, model: ScorableModel, answers: Answers) -> ModelResult | None:
        """Measure one model, unless it was stopped early. Only labels and boxes are kept in memory."""
        facts = model.facts
        light = replace(answers, scores=None) if isinstance(answers, ClassAnswers) else answers
        if (answers.state == State.SKIPPED).any() or not answers.scored.any():
            return result
        passes = float(facts.get("passes", 1)) if "spec" in facts else None  # a file does not say what it took
        if facts.get("view") == "remedy":
            self._views[model.name] = (str(facts["of"]), str(facts["remedy"]), light, passes)
            return result
        measured = Measured(self._truth, model.name, light)
        rows = [measured.score(light, NONE, passes)]
        if self._all:
            given = default_answers(self._truth.dataset, answers)
            rows += [measured.score(one, remedy.text, passes) for remedy, one in given]
        self._own[model.name] = (measured, rows)
        return result

    def into(self, results: Results) -> Results:
        """Return the results with the rows of each model that has a remedy."""
        for of, text, answers, passes in self._views.values():
            while of in self._views:  # a remedy of a remedy
                of, inner, *_ = self._views[of]
                text = f"{inner} + {text}"
            if of in self._own:
                measured, rows = self._own[of]
                rows[:] = [*(row for row in rows if row.remedy != text), measured.score(answers, text, passes)]
        found = {name: with_front(rows) for name, (_, rows) in self._own.items() if len(rows) > 1}
        return replace(results, studies={**(results.studies or {}), NAME: found}) if found else results


REMEDIES = Study(
    name=NAME,
    tables=TABLES,
    drawings=(remedies,),
    needs_to_score=("remedies", "is_remedied"),
    needs_to_show=("results.studies",),
    applies=lambda view: bool(scores(view)),
    collector=_collector,
    lines=remedy_lines,
    figures=lambda _view: [SectionFigures(section=NAME, figures=(remedies,))],
    chapter=_chapter,
)
"""Every model beside its remedies: changes, accuracy, delay, forward passes and truth lost."""
