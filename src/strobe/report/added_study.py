"""A study of an installed package: it adds tables, figures and a chapter, and replaces nothing of strobe's own."""

import copy
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from strobe.analyses.model_results import ModelResult
from strobe.analyses.results import Results
from strobe.analyses.scoring import Collector, ScorableModel, Scoring
from strobe.core.answers import Answers
from strobe.core.codec import encode
from strobe.core.errors import StrobeError, expect
from strobe.core.estimate import Missing
from strobe.core.late import Plugin
from strobe.report.drawing import FigureSpec
from strobe.report.study import Chapter, PageInput, SectionFigures, Study
from strobe.report.view import View

_RESERVED = {"sets"}
"""The tables under `tables/` that belong to no study."""
_ANSWERS: dict[str, Any] = {"applies": False, "lead": None, "question": None, "explanation": None, "terms": None}
_ANSWERS |= dict.fromkeys(("lines", "notes", "answers_of"), ())
"""The methods that get the view and whose answer is used as it is, with the answer of a study that failed."""


class AddedStudy(Study):
    """Passes calls to the study of a package, with copies of the results.

    If the package's code fails, one line on stderr names it, and the study adds nothing from then on. Variables of the
    page's shared sections and data for its scripts are strobe's own, so they are not asked for. The study decides the
    title and the terms only if none of strobe's own does.
    """

    def __init__(self, study: Study, plugin: Plugin, own: Sequence[Study]) -> None:
        self._study, self._plugin, self._own, self._failed = study, plugin, own, False
        self._view: tuple[View, View] | None = None
        expect(study.name == plugin.name, "name of the study", f"{plugin.name}, as its entry point", study.name)
        for name in study.tables:
            _check_name("table", name, taken=name in _RESERVED or any(name in one.tables for one in own))
        passed = {
            name: partial(self._on_copy, name, default, getattr(study, name)) for name, default in _ANSWERS.items()
        }
        vars(self).update(
            passed,
            name=plugin.name,
            task=study.task,
            decides=-1,
            needs_to_score=study.needs_to_score,
            needs_to_show=study.needs_to_show,
            tables={name: partial(self._on_copy, f"table {name}", [], make) for name, make in study.tables.items()},
            drawings=[self._figure(one) for one in study.drawings],
        )

    def ask(self, what: str, default: Any, call: Callable[[], Any]) -> Any:
        """Return what the package's code returns, or the default if it fails or has failed before."""
        if not self._failed:
            try:
                with self._plugin.running(f"its study failed ({what})"):
                    return call()
            except StrobeError as error:
                self._failed = True
                sys.stderr.write(f"warning: {error}\n")
        return default

    def _on_copy(self, what: str, default: Any, call: Callable[..., Any], view: View, *more: object) -> Any:
        """Ask with a copy of the view, which the package may change."""
        if self._view is None or self._view[0] is not view:
            self._view = view, replace(view, results=copy.deepcopy(view.results))
        copied = self._view[1]
        listed = list if isinstance(default, Sequence) else lambda found: found
        return self.ask(what, default, lambda: listed(call(copied, *more)))

    def _figure(self, figure: FigureSpec) -> FigureSpec:
        own = [one for study in self._own for one in study.drawings]
        _check_name("figure", figure.name, taken=any(one.owns(figure.name) or figure.owns(one.name) for one in own))
        missing = Missing("the package's code failed")
        return replace(figure, answer=partial(self._on_copy, f"figure {figure.name}", missing, figure.answer))

    def collector(self, scoring: Scoring) -> Collector | None:
        """Return a collector that keeps only the package's own record."""
        found = self.ask("collector", None, lambda: self._study.collector(scoring))
        return None if found is None else _AddedCollector(found, self, self._plugin)

    def figures(self, view: View) -> Sequence[SectionFigures]:
        """Return the package's figures, under names that strobe does not use."""

        def made(copied: View) -> list[SectionFigures]:
            parts = self._study.figures(copied)
            return [replace(part, figures=[self._figure(one) for one in part.figures]) for part in parts]

        return list(self._on_copy("figures", (), made, view))

    def chapter(self, page: PageInput) -> Chapter | None:
        """Return the package's chapter, in strobe's template and without data for scripts."""

        def made(copied: View) -> Chapter | None:
            found = self._study.chapter(replace(page, view=copied))
            return found and replace(found, name=self.name, template="study.html.j2", data={})

        chapter: Chapter | None = self._on_copy("chapter", None, made, page.view)
        return chapter


def _check_name(what: str, name: str, *, taken: bool) -> None:
    expect(re.fullmatch(r"[A-Za-z0-9_-]+", name) is not None, f"name of a {what}", "letters, digits, _ and -", name)
    expect(not taken, f"name of a {what}", "a name that strobe does not use", name)


class _AddedCollector(Collector):
    """Shows every model to a package's collector, and keeps only the record under the name of its study."""

    def __init__(self, collector: Collector, study: AddedStudy, plugin: Plugin) -> None:
        super().__init__()
        self._collector, self._study, self._plugin = collector, study, plugin

    def add(self, result: ModelResult | None, model: ScorableModel, answers: Answers) -> ModelResult | None:
        """Return the result as it is."""

        def added() -> None:
            for name in type(answers).__dataclass_fields__:
                if isinstance(values := getattr(answers, name), np.ndarray):
                    values.flags.writeable = False
            found = self._collector.add(copy.deepcopy(result), model, answers)
            self._same(found is None or encode(found) == encode(result))

        self._study.ask("add", None, added)
        return result

    def into(self, results: Results) -> Results:
        """Return the results with the package's record, and with the package under `plugins`."""
        name = self._plugin.name

        def added() -> Any:
            found = self._collector.into(copy.deepcopy(results))
            records = dict(found.studies or {})
            record = records.pop(name, None)
            self._same(name not in (results.studies or {}))
            self._same(encode(replace(found, studies=records or None)) == encode(results))
            return encode(record)

        record = self._study.ask("into", None, added)
        if record is None:
            return results
        packages = {**(results.plugins or {}), name: self._plugin.package}
        return replace(results, studies={**(results.studies or {}), name: record}, plugins=packages)

    def _same(self, unchanged: bool) -> None:
        expect(unchanged, "results", f"only a record under studies.{self._plugin.name} added", "other changes")
