"""A figure: the question it answers, its sentence, and its drawing."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from strobe.core.errors import printable
from strobe.core.estimate import Missing
from strobe.report.style import Drawing, draw
from strobe.report.view import View

Paint = Callable[[Any, bool], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureContent:
    """The sentence of a figure, and the function that paints the figure.

    `choice` names the model if the figure is about one model.

    `paint(figure, is_narrow)` draws on an empty figure. `inches` are the heights of the wide and the narrow version.
    Without `paint`, there is only the sentence.
    """

    sentence: str
    how: str
    paint: Paint | None
    inches: tuple[float, float]
    choice: str = ""
    number: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of the report: its sentence and its drawing, or the reason why there is no drawing."""

    name: str
    title: str
    sentence: str
    how: str = ""
    drawing: Drawing | None = None
    group: str = ""
    choice: str = ""


Answer = FigureContent | Missing | list[FigureContent]


@dataclass(frozen=True, slots=True)
class FigureSpec:
    """A figure: its name (also the name of its file), the question above it, and the function that finds the answer in
    results.

    The answer is one figure, a figure for each model (`NAME_1`, …), or the reason why there is none.
    """

    name: str
    title: str
    answer: Callable[[View], Answer]

    def figures(self, view: View) -> list[Figure]:
        """Return the figures with their drawings; if there is no answer, the sentence gives the reason."""
        found = self.answer(view)
        if isinstance(found, Missing):
            why = found.reason[:1].upper() + found.reason[1:].rstrip(".") + "."
            return [Figure(name=self.name, title=self.title, sentence=why)]
        return [self._figure(one) for one in (found if isinstance(found, list) else [found])]

    def _figure(self, one: FigureContent) -> Figure:
        name = self.name if one.number is None else f"{self.name}_{one.number}"
        wide, narrow = one.inches
        drawing = None if one.paint is None else draw(name, one.paint, wide=(7.4, wide), narrow=(3.9, narrow))
        return Figure(
            name=name,
            title=self.title,
            sentence=one.sentence,
            how=one.how,
            drawing=drawing,
            group=self.name,
            choice=one.choice,
        )

    def owns(self, name: str) -> bool:
        """Return whether a figure of that name belongs to this question."""
        return name == self.name or (name.startswith(f"{self.name}_") and name[len(self.name) + 1 :].isdigit())


def question(name: str, title: str) -> Callable[[Callable[[View], Answer]], FigureSpec]:
    """Turn a function from a View to an answer into the question of that name, which the page lists in a chapter."""
    return lambda answer: FigureSpec(name, title, answer)


def why_none(view: View, key: str, otherwise: str) -> str:
    """Return why a figure is omitted: the reason in the results, or a generic reason."""
    reasons = {classifier.reasons.get(key, "") for classifier in view.classifiers.values()} - {""}
    return printable(sorted(reasons)[0]) if reasons else otherwise
