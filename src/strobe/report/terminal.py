"""The headline on a terminal: a rich table, plain when piped."""

from typing import IO

from strobe.analyses.model_results import Bounds, Ceiling, ClassificationResult, Impact, ModelResult
from strobe.analyses.results import Results
from strobe.core.errors import printable
from strobe.core.tasks import Task
from strobe.metrics.bootstrap import FEW_VIDEOS
from strobe.report.view import View
from strobe.report.wording import counted, some, with_interval

__all__ = ["headline_lines", "print_headline"]


def print_headline(results: Results, file: IO[str]) -> None:
    """Print the headline table of every task in the results to `file`."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = bool(getattr(file, "isatty", lambda: False)())
    # Piped output must not wrap at 80 columns: a script reads it line by line.
    console = Console(file=file, width=None if terminal else 240, highlight=False, soft_wrap=not terminal)
    for title, columns, rows, notes in headline_lines(results):
        if terminal:
            table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
            for place, column in enumerate(columns):
                table.add_column(column, justify="left" if place == 0 else "right", overflow="fold")
            for row in rows:
                table.add_row(*(Text(cell) for cell in row))
            console.print(table)
        else:
            console.print(Text(title))
            widths = [max(len(line[place]) for line in [columns, *rows]) for place in range(len(columns))]
            for line in [columns, *rows]:
                cells = [
                    cell.ljust(width) if place == 0 else cell.rjust(width)
                    for place, (cell, width) in enumerate(zip(line, widths, strict=True))
                ]
                console.print(Text("  ".join(cells).rstrip()))
        for note in notes:
            console.print(Text(note, style="dim" if terminal else ""))


_NAMES = {Task.CLASSIFICATION: ("acc_orig", "acc_pm"), Task.DETECTION: ("mAP_orig", "mAP_pm")}


def headline_lines(results: Results) -> list[tuple[str, list[str], list[list[str]], list[str]]]:
    """Per task in the results: title, column names, rows of text, and notes below."""
    data, view = results.dataset, View(results=results)
    about = f"{counted(data.n_sets, 'set')} of {counted(data.n_videos, 'video')}"
    out = []
    for task, (orig, pmk) in _NAMES.items():
        models = view.of(task)
        if not models:
            continue
        rows = [
            [
                printable(name, limit=60),
                *(with_interval(figure) for figure in model.headline),
                _flips(model),
                str(model.unscored.sets),
            ]
            for name, model in models.items()
        ]
        columns = ["model", orig, f"{pmk}-{data.k}", "drop", "flip rate", "unscored sets"]
        for place in (5, 4):  # a column nobody has anything to say in is left out
            if all(row[place] in ("—", "0") for row in rows):
                columns = [cell for i, cell in enumerate(columns) if i != place]
                rows = [[cell for i, cell in enumerate(row) if i != place] for row in rows]
        notes = [f"% [95 % interval], {about}"]
        if data.n_videos < FEW_VIDEOS:
            notes.append(f"fewer than {FEW_VIDEOS} videos: intervals of means and differences are too narrow")
        known = {name: model for name, model in models.items() if isinstance(model, ClassificationResult)}
        notes += [_bounds(name, model, model.bounds, data.k) for name, model in known.items() if model.bounds]
        notes += list(dict.fromkeys(_ceiling(model.ceiling, data.k) for model in known.values() if model.ceiling))
        notes += [_review(name, model.review_impact) for name, model in known.items() if model.review_impact]
        out.append((f"{printable(data.name)}: {task}", columns, rows, notes))
    return out


def _flips(model: ModelResult) -> str:
    """The value without its bounds: the table stays narrow; results.json has them."""
    found = model.flip_rate.value if isinstance(model, ClassificationResult) else None
    return "—" if found is None else f"{100 * found:.1f}"


def _ceiling(top: Ceiling, k: int) -> str:
    """What classes the model's own space lacks cost at least."""
    return (
        f"{printable(top.source)} has no {printable(some(top.childless), limit=600)}: "
        f"{counted(top.anchors_out_of_reach, 'anchor')} out of reach, so acc_orig is at most "
        f"{100 * top.acc_orig:.1f} and acc_pm-{k} at most {100 * top.acc_pmk:.1f}"
    )


def _review(name: str, impact: Impact) -> str:
    """What review changed: the drop before and after, and the difference."""
    return (
        f"{printable(name)}: drop {with_interval(impact.a.drop)} on all candidates, {with_interval(impact.c.drop)} on "
        f"what review kept; difference {with_interval(impact.drop_difference)}"
    )


def _bounds(name: str, model: ClassificationResult, bounds: Bounds, k: int) -> str:
    low, high = bounds.acc_pmk
    return (
        f"{printable(name)}: {model.unscored.sets} sets unscored ({counted(model.unscored.frames, 'frame')} without a "
        f"prediction); acc_pm-{k} between {100 * low:.1f} (all of them wrong) and {100 * high:.1f} (all right)"
    )
