"""The headline on a terminal: a rich table, plain when piped."""

from collections.abc import Mapping
from typing import IO, Any

from strobe.analyses.results import Results
from strobe.core.codec import encode
from strobe.core.errors import printable
from strobe.metrics.bootstrap import FEW_VIDEOS
from strobe.report.wording import counted, estimate, models_of, some, with_interval

__all__ = ["headline_lines", "print_headline"]

Json = Mapping[str, Any]


def print_headline(found: Results, file: IO[str]) -> None:
    """Print the headline table of every task in the results to `file`."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = bool(getattr(file, "isatty", lambda: False)())
    # Piped output must not wrap at 80 columns: a script reads it line by line.
    console = Console(file=file, width=None if terminal else 240, highlight=False, soft_wrap=not terminal)
    for title, columns, rows, notes in headline_lines(encode(found)):
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


def headline_lines(results: Json) -> list[tuple[str, list[str], list[list[str]], list[str]]]:
    """Per task in the results: title, column names, rows of text, and notes below."""
    data = results.get("dataset", {})
    k = data.get("k", "k")
    about = f"{counted(data.get('n_sets'), 'set')} of {counted(data.get('n_videos'), 'video')}"
    out = []
    for task, orig, pmk, names in (
        ("classification", "acc_orig", "acc_pmk", ("acc_orig", f"acc_pm-{k}")),
        ("detection", "map_orig", "map_pmk", ("mAP_orig", f"mAP_pm-{k}")),
    ):
        models = models_of(results, task)
        if not models:
            continue
        rows = [
            [
                printable(name, limit=60),
                with_interval(model.get(orig)),
                with_interval(model.get(pmk)),
                with_interval(model.get("drop")),
                with_interval(_cut(model.get("flip_rate"))),
                _unscored(model),
            ]
            for name, model in models.items()
        ]
        columns = ["model", *names, "drop", "flip rate", "unscored sets"]
        for place in (5, 4):  # a column nobody has anything to say in is left out
            if all(row[place] in ("—", "0") for row in rows):
                columns = [cell for i, cell in enumerate(columns) if i != place]
                rows = [[cell for i, cell in enumerate(row) if i != place] for row in rows]
        notes = [f"% [95 % interval], {about}"]
        if int(data.get("n_videos") or FEW_VIDEOS) < FEW_VIDEOS:
            notes.append(f"fewer than {FEW_VIDEOS} videos: intervals of means and differences are too narrow")
        notes += [_bounds(name, model, k) for name, model in models.items() if model.get("bounds")]
        notes += list(dict.fromkeys(_ceiling(model["ceiling"], k) for model in models.values() if model.get("ceiling")))
        notes += [_review(name, model["review_impact"]) for name, model in models.items() if model.get("review_impact")]
        out.append((f"{printable(data.get('name', 'dataset'))}: {task}", columns, rows, notes))
    return out


def _cut(found: Any) -> Any:
    """The value without its bounds: the table stays narrow; results.json has them."""
    return {"value": found.get("value")} if isinstance(found, Mapping) else None


def _unscored(model: Json) -> str:
    return str((model.get("unscored") or {}).get("sets", 0))


def _ceiling(top: Json, k: object) -> str:
    """What classes the model's own space lacks cost at least."""
    classes = printable(some([str(name) for name in top.get("childless", [])]), limit=600)
    return (
        f"{printable(top.get('source'))} has no {classes}: {counted(top.get('anchors_out_of_reach'), 'anchor')} out of "
        f"reach, so acc_orig is at most {100 * top['acc_orig']:.1f} and acc_pm-{k} at most {100 * top['acc_pmk']:.1f}"
    )


def _review(name: str, impact: Json) -> str:
    """What review changed: the drop before and after, and the difference."""
    before, after = (with_interval(estimate(impact, stage, "drop")) for stage in ("A", "C"))
    return (
        f"{printable(name)}: drop {before} on all candidates, {after} on what review kept; "
        f"difference {with_interval(estimate(impact, 'drop_difference'))}"
    )


def _bounds(name: str, model: Json, k: object) -> str:
    low, high = (model.get("bounds") or {}).get("acc_pmk") or (None, None)
    if low is None or high is None:
        return f"{printable(name)}: some sets are unscored"
    frames = counted((model.get("unscored") or {}).get("frames"), "frame")
    return (
        f"{printable(name)}: {_unscored(model)} sets unscored ({frames} without a prediction); acc_pm-{k} "
        f"between {100 * low:.1f} (all of them wrong) and {100 * high:.1f} (all right)"
    )
