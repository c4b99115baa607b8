"""The headline on a terminal: a rich table, plain when piped."""

from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from strobe.analyses.answer_patterns import note_lines
from strobe.analyses.ceilings import Ceiling
from strobe.analyses.comparison import Change
from strobe.analyses.measures import Measure
from strobe.analyses.model_results import ClassificationResult, ModelResult
from strobe.analyses.results import Results
from strobe.core.errors import printable
from strobe.core.estimate import Estimate
from strobe.core.tasks import Task
from strobe.report.headline import few_videos, measures, out_of_reach, stopped
from strobe.report.studies import applying
from strobe.report.view import Lines, View, in_short_names
from strobe.report.wording import counted, in_subset, some, with_interval
from strobe.studies.temporal.records import Bounds

MOST_NAMED_PAIRS, MOST_PAIRS, MOST_NAMES = 6, 30, 10
"""The largest numbers of model pairs with named sets, of pairs with counts, and of names in one line."""


def print_headline(results: Results, file: IO[str]) -> None:
    """Print the headline table of every task in the results to `file`."""
    if not getattr(file, "isatty", lambda: False)():  # a script may read the output line by line
        for title, columns, rows, notes in headline_lines(results):
            widths = [max(len(line[place]) for line in [columns, *rows]) for place in range(len(columns))]
            lines = []
            for line in [columns, *rows]:
                cells = [
                    cell.ljust(width) if place == 0 else cell.rjust(width)
                    for place, (cell, width) in enumerate(zip(line, widths, strict=True))
                ]
                lines.append("  ".join(cells).rstrip())
            file.writelines(f"{line}\n" for line in [title, *lines, *notes])
        return

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=file, highlight=False)
    for title, columns, rows, notes in headline_lines(results):
        table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
        for place, column in enumerate(columns):
            table.add_column(column, justify="left" if place == 0 else "right", overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        console.print(table)
        for note in notes:
            console.print(Text(note, style="dim"))


def change_lines(changes: Sequence[Change]) -> Iterator[str]:
    """Return which sets changed between models, by name if there are few pairs. tables/sets has the rest."""
    for one in changes[:MOST_PAIRS]:
        yield one.sentence()
        if len(changes) <= MOST_NAMED_PAIRS:
            for what, n, names in (
                ("newly held", one.newly_held, one.held), ("newly broken", one.newly_broken, one.broken)
            ):  # fmt: skip
                shown = [printable(name) for name in names[:MOST_NAMES]]
                rest = [f"{n - len(shown)} more"] if n > len(shown) else []
                if n:
                    yield f"  {what}: {', '.join([*shown, *rest])}"
    if len(changes) > MOST_PAIRS:
        yield f"{len(changes) - MOST_PAIRS} more pairs; tables/sets of a scored run lists every model on every set."


_BRIEF = 3
"""The number of measures shown with their interval. `flip_rate` and `coverage` follow without intervals."""


def headline_lines(results: Results) -> list[Lines]:
    """Return the title, the column names, the text rows and the notes for each task in the results."""
    results, _ = in_short_names(results)
    data, view = results.dataset, View(results=results)
    about = f"{counted(data.n_sets, 'set')} of {view.sources}"
    if view.variants:
        about = (
            f"{view.pictures(view.n_pictures)} under {counted(len(view.variants), 'variant')}, each image counted once"
        )
    elif view.words.is_still and data.kinds:
        about = view.sources
    about += in_subset(results.settings.subset)
    out = []
    if not view.words.is_still and not view.variants:
        about += f", k = {data.k}"
    for task in Task:
        models = view.of(task)
        if not models:
            continue
        named = measures(view, task)
        full = named[:1] if view.words.is_still else named if view.variants else named[:_BRIEF]
        brief = [one for one in named if one.name in ("flip_rate", "coverage") and one not in full]
        columns = ["model", *(one.name for one in (*full, *brief)), "unscored" if view.variants else "unscored sets"]
        rows = [
            [
                printable(name, limit=60),
                *(with_interval(one.of(model)) for one in full),
                *(_value(one.of(model)) for one in brief),
                str(model.unscored.sets),
            ]
            for name, model in models.items()
        ]
        for place in range(len(columns) - 1, 1 if view.words.is_still else 3, -1):
            # Omit a column in which every cell is empty or zero.
            if all(row[place] in ("—", "0") for row in rows):
                columns = [cell for i, cell in enumerate(columns) if i != place]
                rows = [[cell for i, cell in enumerate(row) if i != place] for row in rows]
        bounded = any("[" in cell for row in rows for cell in row[1:])
        notes = [f"% [95 % interval], {about}" if bounded else f"%, {about}: {_no_intervals(view, models, full)}"]
        if bounded and (few := few_videos(view)):
            notes.append(few)
        cautions = (*view.doubts, *data.cautions(), *note_lines(models))
        notes += list(dict.fromkeys(view.words.say(note, names=models) for note in cautions if note))
        known = {name: model for name, model in models.items() if isinstance(model, ClassificationResult)}
        notes += [f"{printable(name)}: {stopped(model)}" for name, model in known.items() if model.stopped_early]
        notes += [_bounds(name, model, model.bounds, data.k) for name, model in known.items() if model.bounds]
        notes += list(dict.fromkeys(_ceiling(model.ceiling, data.k) for model in known.values() if model.ceiling))
        notes += out_of_reach(models)
        notes += [note for study in applying(view) for note in study.notes(view, task)]
        out.append((f"{printable(data.name)}: {task}", columns, rows, notes))
    return [*out, *(lines for study in applying(view) for lines in study.lines(view))]


def _no_intervals(view: View, models: Mapping[str, ModelResult], columns: Sequence[Measure[Any]]) -> str:
    """Return the first recorded reason why no figure of the table has an interval."""
    figures = (one.of(model) for model in models.values() for one in columns)
    reason = next((figure.reason for figure in figures if figure.value is not None and figure.reason), None)
    return f"no intervals ({view.words.say(printable(reason, limit=200))})" if reason else "no intervals"


def _value(found: Estimate) -> str:
    """Return the value without its bounds, which are in results.json, so that the table stays narrow."""
    return "—" if found.value is None else f"{100 * found.value:.1f}"


def _ceiling(top: Ceiling, k: int) -> str:
    """Return the highest accuracy that is possible without the classes that the model lacks."""
    if k == 0:
        return (
            f"{printable(top.source)} has no class for {printable(some(top.childless), limit=600)}: "
            f"{counted(top.anchors_out_of_reach, 'image')} cannot be right, so accuracy is at most "
            f"{100 * top.acc_orig:.1f}"
        )
    return (
        f"{printable(top.source)} has no class for {printable(some(top.childless), limit=600)}: "
        f"{counted(top.anchors_out_of_reach, 'anchor')} cannot be right, so acc_orig is at most "
        f"{100 * top.acc_orig:.1f} and acc_pmk at most {100 * top.acc_pmk:.1f}"
    )


def _bounds(name: str, model: ClassificationResult, bounds: Bounds, k: int) -> str:
    low, high = bounds.acc_pmk
    if k == 0:
        return (
            f"{printable(name)}: {counted(model.unscored.sets, 'image')} without a prediction; accuracy between "
            f"{100 * low:.1f} (all of them wrong) and {100 * high:.1f} (all right)"
        )
    lacking = f"{counted(model.unscored.frames, 'frame')} without a prediction"
    return (
        f"{printable(name)}: {counted(model.unscored.sets, 'set')} unscored ({lacking}); acc_pmk between "
        f"{100 * low:.1f} (all of them wrong) and {100 * high:.1f} (all right)"
    )
