"""The forms of one model: what export, precision, runtime and decoder change."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.model_results import ModelResult
from strobe.analyses.plan import Plan
from strobe.analyses.results import Results
from strobe.analyses.scoring import Collector, ScorableModel, Scoring
from strobe.analyses.video_plan import answer_labels
from strobe.core.answers import Answers, ClassAnswers
from strobe.core.arrays import narrow
from strobe.core.errors import StrobeError, printable
from strobe.report.study import Chapter, PageInput, SectionFigures, Study
from strobe.report.tables import as_row, spread
from strobe.report.view import Table, View
from strobe.studies.forms import figures
from strobe.studies.forms.records import FormScore
from strobe.studies.forms.score import ModelForm, forms_of
from strobe.studies.forms.words import NAME, TERMS, TITLE, form_lines, found

FIGURES = (figures.forms_figure,)
TABLES: Mapping[str, Callable[[View], Table]] = {
    "forms": lambda view: [
        {**as_row(form), "differs": "; ".join(form.differs)}
        | {key: cell for name, figure in form.pair.items() for key, cell in spread(name, figure).items()}
        for group in found(view)
        for form in group
    ],
    "form_flips": lambda view: [
        {"reference": form.reference, "model": form.model, **as_row(counts)}
        for group in found(view)
        for form in group
        for counts in form.flips
    ],
}
_LONGEST = 200
"""The longest side of a picture in pixels."""


def _chapter(page: PageInput) -> Chapter:
    """Return the chapter with the table, the figure, the classes and sets, and pictures of changed frames."""
    others = [form for _, *others in found(page.view) for form in others]
    pictures = [_pictures(page, form) for form in others if form.frames and page.source is not None]
    content = {"tables": form_lines(page.view, on_page=True), "cases": pictures}
    return Chapter(name=NAME, title=TITLE, nav="Forms", template="forms.html.j2", content=content, terms=TERMS)


class FormScores(Collector):
    """Keeps the answers of models that are forms of one model, and compares them."""

    def __init__(self, scoring: Scoring) -> None:
        super().__init__(scoring)
        self._models: dict[str, ModelForm] = {}

    def add(self, result: ModelResult | None, model: ScorableModel, answers: Answers) -> ModelResult | None:
        """Keep the answers of a form, without scores."""
        if isinstance(answers, ClassAnswers):
            label: NDArray[Any] = narrow(answer_labels(answers))
            answers = ClassAnswers(model=answers.model, kind="labels", label=label, state=answers.state)
        if any(model.name in family for family in self.scoring.families):
            self._models[model.name] = (model.facts, answers)
        return result

    def into(self, results: Results) -> Results:
        """Return the results with the forms of each model."""
        plan = Plan(self.scoring.merged, self.scoring.options)
        forms = [form for family in self.scoring.families for form in forms_of(plan, family, self._models)]
        return replace(results, studies={**(results.studies or {}), NAME: forms}) if forms else results


def _pictures(page: PageInput, form: FormScore) -> dict[str, Any]:
    """Return pictures of frames whose answer changed."""
    from strobe.report.gallery import picture

    shown = []
    for frame in form.frames:
        text = {name: printable(getattr(frame, name), limit=60) for name in ("old", "new", "right", "set")}
        (row,) = np.flatnonzero(page.all_sets.frames.key == frame.frame)[:1].tolist() or [None]
        image = ""
        if page.source is not None and row is not None:
            with suppress(StrobeError):
                image = picture(page.source.read(row), longest=_LONGEST, quality=70)
        shown.append({"image": image, **text})
    return {"title": f"{printable(form.model)} against {printable(form.reference)}", "frames": shown}


FORMS = Study(
    name=NAME,
    tables=TABLES,
    drawings=FIGURES,
    needs_to_score=("families",),
    needs_to_show=("results.studies",),
    applies=lambda view: bool((view.results.studies or {}).get(NAME)),
    collector=FormScores,
    lines=form_lines,
    figures=lambda _view: [SectionFigures(section=NAME, figures=FIGURES)],
    chapter=_chapter,
)
"""Flips, agreement, speed and size of the forms of one model."""
