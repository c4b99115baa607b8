"""Scores and comparisons as the Python API returns them.

They add a short repr, an HTML table for notebooks, `to_frame()` and `plot()` to the records of the analyses. pandas and
matplotlib are imported only when these methods are called (ADR 18).
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, overload

from strobe.analyses.clips import ClipComparison, about, sentence
from strobe.analyses.comparison import Comparison
from strobe.analyses.early import STOPPED
from strobe.analyses.model_results import ClassificationScore, DetectionScore, figures_of
from strobe.analyses.results import DatasetFacts, Results
from strobe.analyses.scoring import ModelSets
from strobe.api.html_tables import html_table
from strobe.core.codec import UNWRITTEN
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, UnknownName, printable
from strobe.core.estimate import Estimate
from strobe.core.late import require
from strobe.report.clips import clip_lines, clip_row
from strobe.report.tables import as_row

Part = Literal["headline", "curve", "class", "offset", "set"]


class _Face:
    """The display of both kinds of scores. The first three entries of `_figures` are the headline."""

    __slots__ = ()
    model: str
    dataset: Dataset
    sets: ModelSets

    # Each kind of score implements the next three methods.
    def _figures(self) -> dict[str, Estimate]:
        raise NotImplementedError

    def _parts(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        raise NotImplementedError

    def _k(self) -> int:
        raise NotImplementedError

    def __repr__(self) -> str:
        first = list(self._figures().items())[:3]
        said = ", ".join(f"{name} {_text(found)}" for name, found in first)
        about = f"k = {self._k()}, {first[0][1].n} sets of {printable(self.dataset.name)}"
        return f"<{type(self).__name__} {printable(self.model)}: {said} %; {about}>"

    def _repr_html_(self) -> str:
        rows = [[name, _text(figure), str(figure.n)] for name, figure in self._figures().items()]
        about = f"{self.model}, k = {self._k()}, {self.dataset.name}"
        notes = [
            *(getattr(self, "notes", None) or ()),
            "Values are % [95 % interval]. For more, use .to_frame(), .plot() and .curve",
        ]
        return html_table(["measure", "value", "n"], rows, caption=about, notes=notes)

    def to_frame(self, what: Part = "headline") -> Any:
        """Return the figures as a pandas DataFrame.

        Every row names its model, so frames of several models can be joined with `pandas.concat`.

        Args:
            what: `headline` has a row per measure, `curve` a row per k, `class` a row per class, `offset` a row per
                distance from the anchor, and `set` a row per set. Detectors have no `offset`.

        Returns:
            A pandas DataFrame.

        Raises:
            StrobeError: The score has no such part, or pandas is not installed.

        >>> import strobe
        >>> dataset = strobe.example_dataset()
        >>> score = strobe.score(dataset, {str(key): "cat" for key in dataset.frames.key}, name="always cat")
        >>> list(score.to_frame("curve").columns)[:6]
        ['model', 'k', 'acc', 'acc_low', 'acc_high', 'acc_n']
        """
        pandas = require("pandas", what="to_frame()", extra="frames")
        parts = self._parts() if what != "set" else {"set": ()}
        if what not in parts:
            raise UnknownName("part", what, [*self._parts(), "set"], hint=f"the parts are {', '.join([*parts, 'set'])}")
        if what == "set":
            return pandas.DataFrame({"model": self.model, **self._set_columns()})
        return pandas.DataFrame([{"model": self.model, **row} for row in parts[what]])

    def _set_columns(self) -> dict[str, Any]:
        sets = self.sets
        found = {name: column[sets.row] for name, column in sets.facts.columns.items()}
        names = sets.names
        return found | {name: names[name][column] if name in names else column for name, column in sets.columns.items()}


def _text(found: Estimate) -> str:
    return found.text().replace("-", "−")


def _row(found: Estimate) -> dict[str, Any]:
    """Return an estimate as columns."""
    return {"value": found.value, "low": found.low, "high": found.high, "n": found.n}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClassifierScore(_Face, ClassificationScore):
    """All figures of one classifier, as `strobe.score` and `strobe.evaluate` return them.

    Figures are Estimates (`value`, `low`, `high`, `n`), as shares and not per cent. `acc_orig`, `acc_pmk` and `drop`
    are the headline. `curve` has a point for every k (`.k`, `.acc`, `.drop`), and `per_class` has an entry per class.
    `to_json()` returns the model's object in results.json.

    >>> import strobe
    >>> dataset = strobe.example_dataset()
    >>> score = strobe.score(dataset, {str(key): "cat" for key in dataset.frames.key}, name="always cat")
    >>> round(score.acc_pmk.value, 3), score.acc_pmk.n, [point.k for point in score.curve]
    (0.625, 8, [0, 1, 2, 3])
    """

    dataset: Dataset = field(compare=False, metadata=UNWRITTEN)
    sets: ModelSets = field(compare=False, metadata=UNWRITTEN)

    def _k(self) -> int:
        return self.k

    def _figures(self) -> dict[str, Estimate]:
        return figures_of(self, headline=True)

    def _parts(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        return {
            "headline": [{"measure": name, **_row(figure)} for name, figure in figures_of(self).items()],
            "curve": [as_row(one) for one in self.curve],
            "class": [as_row(one) for one in self.per_class],
            "offset": [as_row(one) for one in self.per_offset],
        }

    def plot(self, what: Literal["curve", "offset", "class"] = "curve", *, ax: Any = None) -> Any:
        """Plot the score.

        Args:
            what: `curve` is the share of sets in which the anchor and every frame within k are right. `offset` is the
                error at each distance from the anchor. `class` is the accuracy of each class on its anchors (grey)
                and on whole sets.
            ax: The matplotlib axes to draw on. Pass the axes of another model to compare both. Default: new axes.

        Returns:
            The matplotlib axes.

        Raises:
            StrobeError: `what` is unknown, or the run stopped early and has no such figures.
        """
        from strobe.report import axes

        if self.stopped_early is not None and what in ("curve", "offset"):
            raise InvalidValue(f"plot: {printable(self.model)} has no {what}: {STOPPED}")
        if what == "class":
            names, pairs = [one.name for one in self.per_class], [(one.acc_orig, one.acc_pmk) for one in self.per_class]
            return axes.rows_on(ax, names, pairs, xlabel=f"accuracy; grey: anchors, colour: whole sets (k = {self.k})")
        if what == "offset":
            points = sorted(((one.offset, one.error) for one in self.per_offset), key=lambda one: one[0])
            return axes.lines_on(ax, self.model, points, xlabel="distance from the anchor", ylabel="error")
        if what != "curve":
            raise UnknownName("plot", what, ["curve", "offset", "class"], hint="the plots are curve, offset, class")
        return axes.lines_on(
            ax,
            self.model,
            [(at.k, at.acc) for at in self.curve],
            xlabel="k: the anchor and every frame within k must be right",
            ylabel="accuracy",
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DetectorScore(_Face, DetectionScore):
    """All figures of one detector, as `strobe.score` and `strobe.evaluate` return them.

    Figures are Estimates (`value`, `low`, `high`, `n`), as shares and not per cent. `map_orig`, `map_pmk` and `drop`
    are the headline. `curve` has a point for every k (`.k`, `.map`).
    """

    dataset: Dataset = field(compare=False, metadata=UNWRITTEN)
    sets: ModelSets = field(compare=False, metadata=UNWRITTEN)

    def _k(self) -> int:
        return self.settings.k

    def _figures(self) -> dict[str, Estimate]:
        return figures_of(self, headline=True)

    def _parts(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        return {
            "headline": [{"measure": name, **_row(figure)} for name, figure in figures_of(self).items()],
            "curve": [as_row(one) for one in self.curve],
            "class": [as_row(one) for one in self.per_class],
        }

    def plot(self, what: Literal["curve", "class"] = "curve", *, ax: Any = None) -> Any:
        """Plot the score.

        Args:
            what: `curve` is mAP on the worst frames within k. `class` is the AP of each class on its anchors (grey) and
                on the worst frames.
            ax: The matplotlib axes to draw on. Default: new axes.

        Returns:
            The matplotlib axes.

        Raises:
            StrobeError: `what` is unknown.
        """
        from strobe.report import axes

        if what == "class":
            names, pairs = [one.name for one in self.per_class], [(one.ap_orig, one.ap_pmk) for one in self.per_class]
            return axes.rows_on(ax, names, pairs, xlabel=f"AP; grey: anchors, colour: worst frames (k = {self._k()})")
        if what != "curve":
            raise UnknownName("plot", what, ["curve", "class"], hint="the plots of a detector are curve, class")
        return axes.lines_on(
            ax,
            self.model,
            [(at.k, at.map) for at in self.curve],
            ylabel="mAP",
            xlabel="k: on the worst frame within k of each anchor",
        )


@overload
def shown(score: ClassificationScore, dataset: Dataset, sets: ModelSets, facts: DatasetFacts) -> ClassifierScore: ...
@overload
def shown(score: DetectionScore, dataset: Dataset, sets: ModelSets, facts: DatasetFacts) -> DetectorScore: ...
def shown(
    score: ClassificationScore | DetectionScore, dataset: Dataset, sets: ModelSets, facts: DatasetFacts
) -> ClassifierScore | DetectorScore:
    """Return the score with its dataset, its sets, and notes on sets that all figures exclude."""
    same = {one.name: getattr(score, one.name) for one in fields(score)}
    same["notes"] = (*facts.cautions(), *_unscored(score), *(score.notes or ())) or None
    if isinstance(score, ClassificationScore):
        return ClassifierScore(**same, dataset=dataset, sets=sets)
    return DetectorScore(**same, dataset=dataset, sets=sets)


def _unscored(score: ClassificationScore | DetectionScore) -> list[str]:
    """Return a note on sets that lack predictions, with the range of the headline figure over all sets."""
    n = score.unscored.sets
    if not n:
        return []
    text = (
        f"{n} set{'' if n == 1 else 's'} without all predictions {'is' if n == 1 else 'are'} excluded from all figures"
    )
    if isinstance(score, ClassificationScore) and score.bounds is not None:
        low, high = score.bounds.acc_pmk
        text += f"; over all sets acc_pmk is between {100 * low:.1f} and {100 * high:.1f} %"
    return [text]


def warn_of(score: ClassifierScore | DetectorScore, facts: DatasetFacts) -> None:
    """Warn about sets that are excluded from all figures. The warning names the line of the user's program."""
    for text in (*facts.cautions(), *_unscored(score)):
        warnings.warn(f"{score.model}: {text}", stacklevel=4)


class Comparisons(tuple[Comparison, ...]):
    """A tuple of Comparison, one for each pair of models and each measure. Its repr is a sentence per comparison.

    `of(measure)` selects one measure. `to_frame()` returns a pandas DataFrame with a row per comparison.

    >>> import strobe
    >>> dataset = strobe.example_dataset()
    >>> keys = [str(key) for key in dataset.frames.key]
    >>> scores = [strobe.score(dataset, dict.fromkeys(keys, pet), name=pet) for pet in ("cat", "dog")]
    >>> [(one.a, one.b, one.n_sets) for one in strobe.compare(*scores).of("acc_pmk")]
    [('cat', 'dog', 8)]
    """

    __slots__ = ()

    def of(self, measure: str) -> "Comparisons":
        """Return the comparisons of one measure.

        Args:
            measure: acc_orig, acc_pmk, drop, map_orig, map_pmk or map_drop. `map_drop` is the drop of mAP. Detectors
                may also be compared as classifiers, and `drop` is then the drop of accuracy.

        Raises:
            StrobeError: The measure was not compared.
        """
        known = list(dict.fromkeys(one.metric for one in self))
        if measure not in known:
            raise UnknownName("measure", measure, known, hint=f"the compared measures are {', '.join(known)}")
        return Comparisons(one for one in self if one.metric == measure)

    def __repr__(self) -> str:
        return "\n".join([*(printable(one.sentence, limit=2000) for one in self), *self._cautions()])

    def _cautions(self) -> list[str]:
        return list(dict.fromkeys(caution for one in self for caution in one.cautions or ()))

    def _repr_html_(self) -> str:
        rows = [
            [
                one.metric,
                one.a,
                one.b,
                _text(one.difference),
                "—" if one.p_holm is None else f"{one.p_holm:.3g}",
                one.sentence,
            ]
            for one in self
        ]
        columns = ["measure", "a", "b", "a − b, points", "p (Holm)", "in words"]
        return html_table(columns, rows, notes=self._cautions())

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each pair of models and each measure."""
        pandas = require("pandas", what="to_frame()", extra="frames")
        return pandas.DataFrame([as_row(one) for one in self])


class ClipVerdicts(tuple[ClipComparison, ...]):
    """A tuple of ClipComparison, one for each pair of models on the same clips. Its repr is the output of `compare`.

    Each has the `verdict` ("worse", "better" or "the same"), the `differences` of all measures, and the places that are
    newly `unsteady` and newly `steady`. `to_frame()` returns a pandas DataFrame with a row per pair and measure.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(line for one in self for line in clip_lines(one))

    def _repr_html_(self) -> str:
        columns = ["old", "new", "measure", "before", "now", "change", "verdict"]
        rows = [[one.old, one.new, *clip_row(row)] for one in self for row in one.differences]
        return html_table(columns, rows, notes=[text for one in self for text in (sentence(one), about(one))])

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with a row for each pair of models and each measure."""
        pandas = require("pandas", what="to_frame()", extra="frames")
        rows = ({"old_model": one.old, "new_model": one.new, **as_row(row)} for one in self for row in one.differences)
        return pandas.DataFrame(rows)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Evaluated:
    """The result of `strobe.evaluate`.

    Attributes:
        run: The run folder.
        scores: The score of each model by its name. `evaluated[name]` also returns it.
        results: The content of results.json as a record.
        report: The path of report.html, or None.
        no_report: The reason why a requested report could not be written, or None.
        failed: The error of each model that failed, by its name.
        left_out: A line for each model of the run that is not in the results.

    >>> import tempfile, strobe
    >>> with tempfile.TemporaryDirectory() as tmp:
    ...     data = strobe.load_dataset(strobe.save_dataset(strobe.example_dataset(), f"{tmp}/data"))
    ...     answers = strobe.ClassAnswers.from_labels("always cat", [0] * len(data.frames))
    ...     evaluated = strobe.evaluate(data, answers, f"{tmp}/run", report=False)
    >>> list(evaluated.scores), evaluated.failed
    (['always cat'], {})
    """

    run: Path
    scores: Mapping[str, ClassifierScore | DetectorScore]
    results: Results
    report: Path | None
    no_report: str | None
    failed: Mapping[str, str]
    left_out: tuple[str, ...]

    @property
    def comparisons(self) -> Comparisons:
        """The comparisons of all pairs of models on all measures."""
        return Comparisons(self.results.comparison)

    def __getitem__(self, model: str) -> ClassifierScore | DetectorScore:
        """Return the score of one model."""
        if model not in self.scores:
            raise UnknownName(
                "model", model, self.scores, hint=f"the scored models are {', '.join(self.scores) or 'none'}"
            )
        return self.scores[model]

    def __repr__(self) -> str:
        lines = [f"<Evaluated {len(self.scores)} models of {printable(self.run)}; report: {self.report or 'none'}>"]
        lines += [f"  {score!r}" for score in self.scores.values()]
        return "\n".join(lines + [f"  {line}" for line in self._problems()])

    def _problems(self) -> list[str]:
        found = [f"failed: {printable(why)}" for why in self.failed.values()]
        found += [f"skipped: {printable(why)}" for why in self.left_out]
        return found + ([f"no report: {printable(self.no_report)}"] if self.no_report else [])

    def _repr_html_(self) -> str:
        columns = ["model", "orig", "pmk", "drop"]
        rows = [[name, *map(_text, list(score._figures().values())[:3])] for name, score in self.scores.items()]
        report = [f"report: {self.report}"] if self.report else []
        notes = ["% [95 % interval]", *report, *self._problems()]
        return html_table(columns, rows, caption=self.results.dataset.name, notes=notes)

    def to_frame(self, what: Part = "headline") -> Any:
        """Return one DataFrame with the rows of all models. `what` is as in a score's `to_frame`."""
        pandas = require("pandas", what="to_frame()", extra="frames")
        return pandas.concat([score.to_frame(what) for score in self.scores.values()], ignore_index=True)

    def to_latex(self) -> str:
        """Return the headline figures of all models as LaTeX tables with intervals, for a paper.

        Raises:
            StrobeError: No model has a result.
        """
        from strobe.report.latex import latex_tables

        return latex_tables(self.results)

    def plot(self, what: Literal["curve", "offset"] = "curve", *, ax: Any = None) -> Any:
        """Plot every model on the same axes and return the axes."""
        for score in self.scores.values():
            ax = score.plot(what, ax=ax)  # type: ignore[arg-type]  # a detector raises an error for plots that it does not have
        return ax
