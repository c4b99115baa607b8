"""A study of an installed package: it adds tables, figures and a chapter, and replaces nothing of strobe's own."""

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from strobe.analyses.model_results import ModelResult
from strobe.analyses.results import Results
from strobe.analyses.scoring import Collector, ScorableModel, Scoring
from strobe.core.answers import Answers
from strobe.core.codec import encode
from strobe.core.errors import expect
from strobe.core.late import Plugin
from strobe.core.tasks import Task
from strobe.report.drawing import FigureSpec
from strobe.report.study import Chapter, PageInput, SectionFigures, Study
from strobe.report.view import Lines, View

_RESERVED = {"sets"}
"""The tables under `tables/` that belong to no study."""


class AddedStudy(Study):
    """Passes every call to the study of a package, with copies of the results. Every error names the package.

    Variables of the page's shared sections and data for its scripts are strobe's own, so they are not asked for. The
    study decides title and terms only if none of strobe's own does.
    """

    def __init__(self, study: Study, plugin: Plugin, own: Sequence[Study]) -> None:
        self._study, self._plugin = study, plugin
        self._own_figures = [figure for one in own for figure in one.drawings]
        expect(study.name == plugin.name, "name of the study", f"{plugin.name}, as its entry point", study.name)
        for name in study.tables:
            taken = name in _RESERVED or any(name in one.tables for one in own)
            expect(re.fullmatch(r"[A-Za-z0-9_-]+", name) is not None, "name of a table", "letters, digits, _, -", name)
            expect(not taken, "name of a table", "one that strobe does not use", name)
        vars(self).update(
            name=plugin.name,
            task=study.task,
            decides=-1,
            needs_to_score=study.needs_to_score,
            needs_to_show=study.needs_to_show,
            tables={name: partial(self._on_copy, f"table {name}", make) for name, make in study.tables.items()},
            drawings=[self._figure(one) for one in study.drawings],
        )
        self._views: list[tuple[View, View]] = []

    def _on_copy(self, what: str, ask: Callable[..., Any], view: View, *more: object) -> Any:
        """Call the package's function with a copy of the view, which the package may change."""
        if not self._views or self._views[0][0] is not view:
            self._views = [(view, replace(view, results=copy.deepcopy(view.results)))]
        with self._plugin.running(f"its study failed ({what})"):
            found = ask(self._views[0][1], *more)
            return list(found) if isinstance(found, Sequence | map | filter) and not isinstance(found, str) else found

    def _figure(self, figure: FigureSpec) -> FigureSpec:
        taken = any(one.owns(figure.name) or figure.owns(one.name) for one in self._own_figures)
        expect(re.fullmatch(r"[A-Za-z0-9_-]+", figure.name) is not None and not taken,
               "name of a figure", "letters, digits, _ and -, and not a figure of strobe", figure.name)  # fmt: skip
        return replace(figure, answer=partial(self._on_copy, f"figure {figure.name}", figure.answer))

    def applies(self, view: View) -> bool:  # noqa: D102 (as in Study, like all methods below)
        return bool(self._on_copy("applies", self._study.applies, view))

    def collector(self, scoring: Scoring) -> Collector | None:  # noqa: D102
        with self._plugin.running("its study failed (collector)"):
            found = self._study.collector(scoring)
        return None if found is None else _AddedCollector(found, self._plugin)

    def lines(self, view: View) -> Sequence[Lines]:  # noqa: D102
        return list(self._on_copy("lines", self._study.lines, view))

    def notes(self, view: View, task: Task) -> Sequence[str]:  # noqa: D102
        return list(self._on_copy("notes", self._study.notes, view, task))

    def lead(self, view: View, models: Mapping[str, ModelResult]) -> tuple[str, str] | None:  # noqa: D102
        found: Any = self._on_copy("lead", self._study.lead, view, models)
        return None if found is None else (found[0], found[1])

    def question(self, view: View) -> str | None:  # noqa: D102
        found: str | None = self._on_copy("question", self._study.question, view)
        return found

    def explanation(self, view: View) -> tuple[str, list[str]] | None:  # noqa: D102
        found: Any = self._on_copy("explanation", self._study.explanation, view)
        return None if found is None else (found[0], found[1])

    def terms(self, view: View) -> list[tuple[str, str]] | None:  # noqa: D102
        found: list[tuple[str, str]] | None = self._on_copy("terms", self._study.terms, view)
        return found

    def figures(self, view: View) -> Sequence[SectionFigures]:  # noqa: D102
        parts = self._on_copy("figures", self._study.figures, view)
        return [replace(part, figures=[self._figure(one) for one in part.figures]) for part in parts]

    def answers_of(self, view: View) -> Sequence[str]:  # noqa: D102
        return list(self._on_copy("answers_of", self._study.answers_of, view))

    def chapter(self, page: PageInput) -> Chapter | None:  # noqa: D102
        def ask(view: View) -> Chapter | None:
            return self._study.chapter(replace(page, view=view))

        found: Chapter | None = self._on_copy("chapter", ask, page.view)
        return None if found is None else replace(found, name=self.name, template=Chapter.template, data={})


class _AddedCollector(Collector):
    """Lets a package's collector see every model, and keeps only the record under its own name."""

    def __init__(self, collector: Collector, plugin: Plugin) -> None:
        super().__init__()
        self._collector, self._plugin = collector, plugin

    def add(self, result: ModelResult | None, model: ScorableModel, answers: Answers) -> ModelResult | None:
        for name in getattr(answers, "__slots__", ()):
            if isinstance(values := getattr(answers, name), np.ndarray):
                values.flags.writeable = False
        with self._plugin.running("its study failed (add)"):
            found = self._collector.add(copy.deepcopy(result), model, answers)
            self._same(found is None or encode(found) == encode(result))
        return result

    def into(self, results: Results) -> Results:
        name = self._plugin.name
        with self._plugin.running("its study failed (into)"):
            found = self._collector.into(copy.deepcopy(results))
            records = dict(found.studies or {})
            record = records.pop(name, None)
            self._same(encode(replace(found, studies=records or None)) == encode(results))
        if record is None:
            return results
        packages = {**(results.plugins or {}), name: self._plugin.package}
        return replace(results, studies={**(results.studies or {}), name: record}, plugins=packages)

    def _same(self, unchanged: bool) -> None:
        expect(unchanged, "results", f"only a record under studies.{self._plugin.name} to be added", None)
