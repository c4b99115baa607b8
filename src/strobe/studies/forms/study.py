"""The forms of one model: what export, precision, runtime and decoder change."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from strobe.analyses.model_results import ClassificationResult, DetectionResult, ModelResult
from strobe.analyses.plan import Plan
from strobe.analyses.results import Results
from strobe.analyses.scoring import Collector, ScorableModel, Scoring
from strobe.core.answers import Answers
from strobe.core.errors import StrobeError, printable
from strobe.report.study import Chapter, PageInput, SectionFigures, Study
from strobe.studies.forms import figures
from strobe.studies.forms.score import ModelForm, compact, forms_of
from strobe.studies.forms.tables import TABLES
from strobe.studies.forms.words import NAME, TERMS, TITLE, differs_text, form_lines, found

FIGURES = (figures.forms_figure,)
_LONGEST = 200
"""The longest side of a picture in pixels."""


def _chapter(page: PageInput) -> Chapter:
    """Return the chapter with the table, the figure, the classes and sets, and pictures of changed frames."""
    intro = [
        f"{printable(form.model)} differs from {printable(forms.reference)} in: {differs_text(form)}."
        for forms in found(page.view)
        for form in forms.forms[1:]
    ]
    tables = form_lines(page.view, on_page=True)
    content: Mapping[str, Any] = {"intro": intro, "tables": tables, "cases": _pictures(page)}
    return Chapter(name=NAME, title=TITLE, nav="Forms", template="forms.html.j2", content=content, terms=TERMS)


class FormScores(Collector):
    """Keeps the answers of models that are forms of one model, and compares them."""

    def __init__(self, scoring: Scoring) -> None:
        super().__init__(scoring)
        self._wanted = {name for family in scoring.families for name in family.names}
        self._models: dict[str, ModelForm] = {}

    def add(self, result: ModelResult | None, model: ScorableModel, answers: Answers) -> ModelResult | None:
        """Keep the answers of a form."""
        if model.name in self._wanted:
            own = {}
            if isinstance(result, ClassificationResult):
                own["acc_pmk"] = result.acc_pmk
            if isinstance(result, DetectionResult):
                own["map_pmk"] = result.map_pmk
            self._models[model.name] = ModelForm(facts=model.facts, answers=compact(answers), own=own)
        return result

    def into(self, results: Results) -> Results:
        """Return the results with the forms of each model."""
        flicker = {} if results.flicker is None else results.flicker.models
        models = {
            name: replace(model, own={**model.own, "flicker": flicker[name].flicker}) if name in flicker else model
            for name, model in self._models.items()
        }
        plan = Plan(self.scoring.merged, self.scoring.options)
        scored = [forms_of(plan, family, models) for family in self.scoring.families]
        records = [one for one in scored if one is not None]
        return replace(results, studies={**(results.studies or {}), NAME: records}) if records else results


def _pictures(page: PageInput) -> list[dict[str, Any]]:
    """Return, for each form, pictures of frames whose answer changed."""
    from strobe.report.gallery import picture

    if page.source is None:
        return []
    keys = page.all_sets.frames.key
    out = []
    for forms in found(page.view):
        for form in forms.forms[1:]:
            shown = []
            for frame in form.frames:
                row = np.flatnonzero(keys == frame.frame)
                try:
                    image = picture(page.source.read(int(row[0])), longest=_LONGEST, quality=70) if len(row) else ""
                except StrobeError:
                    image = ""
                text = {name: printable(getattr(frame, name), limit=60) for name in ("old", "new", "right", "set")}
                shown.append({"image": image, **text})
            if shown:
                out.append({"title": f"{printable(form.model)} against {printable(forms.reference)}", "frames": shown})
    return out


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
