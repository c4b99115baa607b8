"""A study of an installed package: it adds tables, figures and a chapter, and replaces nothing of strobe's own."""

import copy
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np

from strobe.analyses.model_results import ModelResult
from strobe.analyses.results import Results
from strobe.analyses.scoring import Collector, ScorableModel
from strobe.core.answers import Answers
from strobe.core.codec import encode
from strobe.core.errors import StrobeError, expect
from strobe.core.estimate import Missing
from strobe.core.late import Plugin
from strobe.report.drawing import FigureSpec
from strobe.report.study import Chapter, PageInput, SectionFigures, Study
from strobe.report.view import View

_ASKED = (
    *("applies", "collector", "lines", "notes", "lead", "question", "explanation", "terms", "figures"),
    *("answers_of", "chapter"),
)
"""All functions of a study but `content`, whose variables are those of strobe's own sections."""


def added_study(study: Study, plugin: Plugin, own: Sequence[Study]) -> Study:
    """Return a study of a package, which gets copies of the results and is limited in what it returns.

    The study decides the title and the terms only if none of strobe's own does.
    """
    expect(study.name == plugin.name, "name of the study", f"{plugin.name}, as its entry point", study.name)
    for name in study.tables:
        _check_name("table", name, taken=name == "sets" or any(name in other.tables for other in own))
    calls = _PluginCalls(plugin, [drawing for each in own for drawing in each.drawings])
    default: dict[str, Any] = {field.name: field.default for field in fields(Study)}
    functions: dict[str, Any] = {
        name: partial(calls.answer, name, default[name], getattr(study, name)) for name in _ASKED
    }
    return replace(
        study,
        decides=-1,
        scripts=(),
        content=default["content"],
        tables={name: partial(calls.ask, f"table {name}", (), make) for name, make in study.tables.items()},
        drawings=[calls.limited(drawing) for drawing in study.drawings],
        **functions,
    )


class _PluginCalls:
    """Calls the code of one package.

    If the code fails, one line on stderr names it, and the study adds nothing from then on: it answers as a study
    without this function.
    """

    def __init__(self, plugin: Plugin, taken: Sequence[FigureSpec]) -> None:
        self.plugin, self._taken, self._failed = plugin, taken, False

    def answer(self, name: str, default: Callable[..., Any], call: Callable[..., Any], *given: object) -> Any:
        """Return what a function of the study returns, or what a study without it returns."""
        return self.ask(name, default(*given), call, *given)

    def ask(self, what: str, default: Any, call: Callable[..., Any], *given: object) -> Any:
        """Return what the package's code returns, or the default if it fails or has failed before."""
        if not self._failed:
            try:
                with self.plugin.running(f"its study failed ({what})"):
                    found = call(*map(_copied, given))
                    return list(map(self.limited, found)) if isinstance(default, tuple) else self.limited(found)
            except StrobeError as error:
                self._failed = True
                sys.stderr.write(f"warning: {error}\n")
        return default

    def limited(self, found: Any) -> Any:
        """Return what the package made, so that it replaces nothing."""
        if isinstance(found, Collector):
            return _AddedCollector(found, self)
        if isinstance(found, Chapter):
            return replace(found, name=self.plugin.name, template="study.html.j2", data={})
        if isinstance(found, SectionFigures):
            return replace(found, figures=[self.limited(figure) for figure in found.figures])
        if isinstance(found, FigureSpec):
            taken = any(one.owns(found.name) or found.owns(one.name) for one in self._taken)
            _check_name("figure", found.name, taken=taken)
            missing = Missing("the package's code failed")
            return replace(found, answer=partial(self.ask, f"figure {found.name}", missing, found.answer))
        return found


def _copied(given: Any) -> Any:
    """Return a copy of results, also of those in a view. The arrays of answers become read-only instead."""
    if isinstance(given, View):
        return replace(given, results=copy.deepcopy(given.results))
    if isinstance(given, PageInput):
        return replace(given, view=_copied(given.view))
    if isinstance(given, Answers):
        for name in type(given).__dataclass_fields__:
            if isinstance(values := getattr(given, name), np.ndarray):
                values.flags.writeable = False
    return copy.deepcopy(given) if isinstance(given, Results | ModelResult) else given


def _check_name(what: str, name: str, *, taken: bool) -> None:
    expect(re.fullmatch(r"[A-Za-z0-9_-]+", name) is not None, f"name of a {what}", "letters, digits, _ and -", name)
    expect(not taken, f"name of a {what}", "a name that strobe does not use", name)


class _AddedCollector(Collector):
    """Shows every model to a package's collector, and keeps only the record under the name of its study."""

    def __init__(self, collector: Collector, calls: _PluginCalls) -> None:
        super().__init__(collector.scoring)
        self._collector, self._calls = collector, calls

    def add(self, result: ModelResult | None, model: ScorableModel, answers: Answers) -> ModelResult | None:
        """Return the result as it is."""

        def added(*given: Any) -> None:
            self._expect_same(self._collector.add(*given), result)

        self._calls.ask("add", None, added, result, model, answers)
        return result

    def into(self, results: Results) -> Results:
        """Return the results with the package's record, and with the package under `plugins`."""
        name = self._calls.plugin.name

        def added(copied: Results) -> Any:
            found = self._collector.into(copied)
            records = dict(found.studies or {})
            record = records.pop(name, None)
            self._expect_same(replace(found, studies=records or None), results)
            return encode(record)

        record = self._calls.ask("into", None, added, results)
        if record is None:
            return results
        packages = {**(results.plugins or {}), name: self._calls.plugin.package}
        return replace(results, studies={**(results.studies or {}), name: record}, plugins=packages)

    def _expect_same(self, found: Results | ModelResult | None, before: Results | ModelResult | None) -> None:
        is_same = found is None or encode(found) == encode(before)
        expect(is_same, "results", f"only a record under studies.{self._calls.plugin.name} added", "other changes")
