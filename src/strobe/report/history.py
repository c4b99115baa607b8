"""Checkpoints over time: the table and the figure."""

from collections.abc import Sequence
from typing import Any

from strobe.analyses.history import History, Step
from strobe.core.errors import printable
from strobe.core.tasks import Task
from strobe.report.drawing import Series, band, per_cent, shares
from strobe.report.style import GREY, MUTED, Drawing, colour_of, draw, marker_of
from strobe.report.tables import as_csv as rows_as_csv
from strobe.report.tables import spread
from strobe.report.wording import counted, in_subset, is_known, short, value_of, with_interval

__all__ = ["as_csv", "history_drawing", "history_lines", "history_rows", "paint_history"]

MOST_LABELS = 24
"""Steps named below the figure; of more, every second or third."""

_NAMES = {Task.CLASSIFICATION: ("acc_orig", "acc_pmk"), Task.DETECTION: ("map_orig", "map_pmk")}


def history_rows(found: History) -> list[tuple[str, list[list[str]]]]:
    """Every line of models by its name, as a table of text with its head."""
    out = []
    for line, steps in found.lines().items():
        orig, pmk = _NAMES[steps[0].task]
        rows = [["", "when", orig, pmk, "drop", f"{pmk} since the one before, points"]]
        for one in steps:
            figures = map(with_interval, (one.orig, one.pmk, one.drop))
            rows.append([_step(one), _when(one.at), *figures, _since(one)])
        out.append((printable(line), rows))
    return out


def history_lines(found: History) -> list[str]:
    """The table, a line for each step, a block for each line of models."""
    sets = counted(found.n_sets, "set") + in_subset(found.subset)
    out = [f"{printable(found.dataset)}: {sets}, k = {found.k}; % [95 % interval]"]
    for line, rows in history_rows(found):
        if line:
            out += ["", line]
        widths = [max(len(row[place]) for row in rows) for place in range(6)]
        out += [
            "  ".join(cell.ljust(width) if place in (0, 1, 5) else cell.rjust(width)
                      for place, (cell, width) in enumerate(zip(row, widths, strict=True))).rstrip()
            for row in rows
        ]  # fmt: skip
    return out


def _step(step: Step) -> str:
    """What a step is called: by its run where its line is one model's, else as it is told from all others."""
    return printable(step.run if step.line else step.name, limit=40)


def _when(at: str) -> str:
    return printable(at[:16].replace("T", " ")) or "—"


def _since(step: Step) -> str:
    if step.since is None:
        return "—"
    said = f"clearly {step.clearly}" if step.clearly else "no difference shown"
    return f"{with_interval(step.since)}  {said}"


def as_csv(found: History) -> str:
    """A row for each step; every number keeps its interval."""
    rows = []
    for one in found.steps:
        orig, pmk = _NAMES[one.task]
        since = spread("since", one.since) if one.since is not None else {}
        rows.append(
            {"step": one.name, "line": one.line, "run": one.run, "model": one.model, "at": one.at,
             **spread(orig, one.orig), **spread(pmk, one.pmk), **spread("drop", one.drop), **since,
             "clearly": one.clearly or ""}
        )  # fmt: skip
    return rows_as_csv(rows)


def history_drawing(found: History) -> Drawing:
    """The figure for files: wide, and narrow for a phone."""
    inches = 3.6 * len({one.task for one in found.steps})
    return draw("history", lambda figure, is_narrow: paint_history(figure, found, is_narrow=is_narrow),
                wide=(7.4, inches), narrow=(3.9, inches))  # fmt: skip


def paint_history(figure: Any, found: History, *, is_narrow: bool = False) -> None:
    """A panel for each task: on the anchors in grey, on whole sets in colour; triangles mark clear changes."""
    tasks = [task for task in Task if any(one.task is task for one in found.steps)]
    panels = figure.subplots(len(tasks), squeeze=False)[:, 0]
    for axes, task in zip(panels, tasks, strict=True):
        orig, pmk = _NAMES[task]
        lines = {line: steps for line, steps in found.lines().items() if steps[0].task is task}
        longest = max(lines.values(), key=len)
        for place, (line, steps) in enumerate(lines.items()):
            _line(axes, place, steps, f"{printable(line)} {orig}".strip(), f"{printable(line)} {pmk}".strip())
        every = -(-len(longest) // (MOST_LABELS // (2 if is_narrow else 1)))
        shown = range(0, len(longest), every)
        axes.set_xticks(list(shown), [short(_step(longest[x]), 18) for x in shown])
        axes.tick_params(axis="x", rotation=35 if len(longest) > (3 if is_narrow else 6) else 0)
        for label in axes.get_xticklabels():
            label.set_ha("right" if len(longest) > (3 if is_narrow else 6) else "center")
        axes.set_ylabel(f"{pmk}, k = {found.k}")
        axes.margins(x=0.04)
        shares(axes)
        per_cent(axes)
        if is_narrow:
            axes.legend(loc="upper left", bbox_to_anchor=(0, -0.3), handlelength=1.6)
        else:
            axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), handlelength=1.6)


def _line(axes: Any, place: int, steps: Sequence[Step], orig: str, pmk: str) -> None:
    known = [(x, one) for x, one in enumerate(steps) if is_known(one.orig, one.pmk)]
    xs, colour = [x for x, _ in known], colour_of(place)
    axes.plot(xs, [value_of(one.orig) for _, one in known], color=GREY if place == 0 else MUTED, linestyle=(0, (3, 2)),
              marker=marker_of(place), markersize=3.5, markeredgecolor="none", label=orig)  # fmt: skip
    series = Series(name=pmk, place=place, x=xs, y=[one.pmk for _, one in known])
    band(axes, series)
    axes.plot(xs, [value_of(one.pmk) for _, one in known], color=colour, marker=marker_of(place), label=pmk,
              markeredgecolor="none")  # fmt: skip
    for clearly, mark in (("better", "^"), ("worse", "v")):
        marked = [(x, value_of(one.pmk)) for x, one in known if one.clearly == clearly]
        if marked:
            axes.plot(*zip(*marked, strict=True), mark, markersize=13, markerfacecolor="none", markeredgecolor=colour,
                      markeredgewidth=1.5, clip_on=False, label=f"clearly {clearly}\nthan the one before")  # fmt: skip
