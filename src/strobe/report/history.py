"""Checkpoints over time: the table and the figure."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from strobe.analyses.history import History, HistoryStep
from strobe.analyses.measures import SUFFIXES
from strobe.core.errors import printable
from strobe.core.estimate import Estimate
from strobe.core.tasks import Task
from strobe.report.charts import set_unit
from strobe.report.charts_lines import line_through, put_line, shares
from strobe.report.style import GREY, MUTED, Drawing, colour_of, draw, marker_of
from strobe.report.tables import spread
from strobe.report.view import Table
from strobe.report.wording import aligned, counted, in_subset, is_known, short, value_of, with_interval

MOST_LABELS = 24
"""The largest number of step names below the figure. With more steps, only every second or third step is named."""

_NAMES = {Task.CLASSIFICATION: ("acc_orig", "acc_pmk"), Task.DETECTION: ("map_orig", "map_pmk")}


def _figures(step: HistoryStep) -> dict[str, Estimate]:
    """Return the figures of a step by name: one measure if no set has a label."""
    noise = {} if step.noise is None else {"noise": step.noise}
    if step.figure is not None:
        return {step.measure or "": step.figure, **noise}
    orig, pmk = _NAMES[step.task]
    return {orig: step.orig, pmk: step.pmk, "drop": step.drop, **noise}


def _tested(step: HistoryStep) -> str:
    """Return the name of the figure that is compared with earlier steps."""
    return step.measure or _NAMES[step.task][1]


def history_rows(found: History) -> list[tuple[str, list[list[str]]]]:
    """Return a text table with a header for each line of models, keyed by the line's name."""
    out = []
    for line, steps in found.lines().items():
        unit = "points" if steps[0].unit in (None, "share") else SUFFIXES[steps[0].unit].strip()
        since_previous = f"{_tested(steps[0])} since the previous, {unit}"
        names = list(dict.fromkeys(name for step in steps for name in _figures(step)))
        rows = [["", "when", *names, since_previous, f"since the first, {unit}"]]
        rows[0].append(f"since the best so far, {unit}")
        shown = {step.name: _step(step) for step in steps}
        for one in steps:
            known = _figures(one)
            figures = [_text(one, known[name], name) if name in known else "—" for name in names]
            best = _since(one, one.since_best, one.clearly_best)
            best += "" if one.best is None else f" ({shown[one.best]})"
            since = _since(one, one.since, one.clearly), _since(one, one.since_first, one.clearly_first)
            rows.append([shown[one.name], _when(one.at), *figures, *since, best])
        out.append((printable(line), rows))
    return out


def history_lines(found: History) -> list[str]:
    """Return the tables as lines of text: one block per line of models, one row per step."""
    sets = counted(found.n_sets, "set") + in_subset(found.subset)
    out = [f"{printable(found.dataset)}: {sets}, k = {found.k}; {_unit_note(found)}"]
    for line, rows in history_rows(found):
        if line:
            out += ["", line]
        out += aligned([row[:-2] for row in rows], right=range(2, len(rows[0]) - 3))
        if len(rows) > 3:  # with two steps, the first is also the previous one
            out += ["", *aligned([[row[0], *row[-2:]] for row in rows], right=())]
    return out + history_notes(found)


def _unit_note(found: History) -> str:
    on_clips = any(step.measure is not None for step in found.steps)
    return "better and worse are facts about these clips" if on_clips else "% [95 % interval]"


def history_notes(found: History) -> list[str]:
    """Return notes on sets that the figures exclude, for all steps or for single steps."""
    unscored = [
        f"{_step(step)}: {step.unscored} of {counted(found.n_sets, 'set')} unscored"
        for step in found.steps
        if step.unscored
    ]
    return [*(found.cautions or ()), *unscored]


def _step(step: HistoryStep) -> str:
    """Return a step's label: its run if the line has only one model, otherwise a unique name."""
    return printable(step.run if step.line else step.name, limit=40)


def _when(at: str) -> str:
    return printable(at[:16].replace("T", " ")) or "—"


def _text(step: HistoryStep, figure: Estimate, name: str = "") -> str:
    """Return a figure in the unit of its measure; noise is a share, whatever the steps are compared on."""
    if step.unit in (None, "share") or name == "noise":
        return with_interval(figure)
    return figure.text(scale=1, digits=2).replace("-", "−")


def _since(step: HistoryStep, difference: Estimate | None, clearly: str | None) -> str:
    if difference is None:
        return "—"
    if step.measure is not None:
        return f"{_text(step, difference)}  {clearly or 'the same'}"
    return f"{with_interval(difference)}  {f'clearly {clearly}' if clearly else 'not significant'}"


def history_table(found: History) -> Table:
    """Return a row for each step, for CSV and for a DataFrame. Every number has its interval."""
    rows: Table = []
    unscored = any(step.unscored for step in found.steps)
    for one in found.steps:
        figures = [spread(name, found) for name, found in _figures(one).items()]
        named = {"since": one.since, "since_first": one.since_first, "since_best": one.since_best}
        first, *others = (spread(name, found) if found is not None else {} for name, found in named.items())
        rows.append(
            {
                "step": one.name,
                "line": one.line,
                "run": one.run,
                "model": one.model,
                "at": one.at,
                **{key: value for figure in figures for key, value in figure.items()},
                **first,
                "clearly": one.clearly or "",
                **others[0],
                **others[1],
                "clearly_first": one.clearly_first or "",
                "clearly_best": one.clearly_best or "",
                "best": one.best or "",
                **({"unscored_sets": one.unscored or 0} if unscored else {}),
            }
        )
    return rows


def history_drawing(found: History) -> Drawing:
    """Return the figure for files in two versions: wide, and narrow for a phone."""
    inches = 3.6 * len({step.task for step in found.steps})
    # Below a narrow figure, every sign needs two lines of the legend.
    signs = sum(len(_marks(list(enumerate(steps)))) for steps in found.lines().values())
    return draw(
        "history",
        lambda figure, is_narrow: paint_history(figure, found, is_narrow=is_narrow),
        wide=(7.4, max(inches, 1.4 + 0.4 * signs)),
        narrow=(3.9, inches + 0.4 * signs),
    )


def paint_history(figure: Any, found: History, *, is_narrow: bool = False) -> None:
    """Draw a panel for each task, with anchors in grey and whole sets in colour. Triangles mark significant changes.

    Diamonds mark significant differences from the first step of the line. Squares mark significant differences from the
    best earlier step.
    """
    tasks = [task for task in Task if any(step.task is task for step in found.steps)]
    panels = figure.subplots(len(tasks), squeeze=False)[:, 0]
    for axes, task in zip(panels, tasks, strict=True):
        lines = {line: steps for line, steps in found.lines().items() if steps[0].task is task}
        longest = max(lines.values(), key=len)
        for index, (line, steps) in enumerate(lines.items()):
            _line(axes, index, steps, printable(line))
        every = -(-len(longest) // (MOST_LABELS // (2 if is_narrow else 1)))
        shown = range(0, len(longest), every)
        axes.set_xticks(list(shown), [short(_step(longest[x]), 18) for x in shown])
        axes.tick_params(axis="x", rotation=35 if len(longest) > (3 if is_narrow else 6) else 0)
        for label in axes.get_xticklabels():
            label.set_ha("right" if len(longest) > (3 if is_narrow else 6) else "center")
        axes.set_ylabel(f"{_tested(longest[0])}, k = {found.k}")
        axes.margins(x=0.04)
        if longest[0].unit in (None, "share"):
            shares(axes)
            set_unit(axes)
        if is_narrow:
            axes.legend(loc="upper left", bbox_to_anchor=(0, -0.3), handlelength=1.6)
        else:
            axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), handlelength=1.6)


def _line(axes: Any, place: int, steps: Sequence[HistoryStep], line: str) -> None:
    orig, pmk = (f"{line} {name}".strip() for name in (_NAMES[steps[0].task][0], _tested(steps[0])))
    on_clips = steps[0].measure is not None
    known = [(x, step) for x, step in enumerate(steps) if is_known(step.tested) and (on_clips or is_known(step.orig))]
    if not on_clips:
        anchors = line_through(orig, place, [(x, one.orig) for x, one in known], dashed=marker_of(place))
        put_line(axes, replace(anchors, colour=GREY if place == 0 else MUTED), has_band=False)
    put_line(axes, line_through(pmk, place, [(x, one.tested) for x, one in known]))
    for (mark, size, text), marked in _marks(known):
        places = [(x, value_of(one.tested)) for x, one in marked]
        axes.plot(
            *zip(*places, strict=True),
            mark,
            markersize=size,
            markerfacecolor="none",
            markeredgecolor=colour_of(place),
            markeredgewidth=1.3,
            clip_on=False,
            label=text,
        )


_Mark = tuple[str, int, str]
"""A sign, its size in points, and its meaning."""
_BEFORE: dict[str | None, _Mark] = {
    "better": ("^", 12, "clearly better\nthan the previous"),
    "worse": ("v", 12, "clearly worse\nthan the previous"),
}
_FIRST: _Mark = ("D", 13, "clearly better or\nworse than the first")
_BEST: dict[str | None, _Mark] = {"worse": ("s", 17, "clearly worse\nthan the best so far")}


def _marks(known: Sequence[tuple[int, HistoryStep]]) -> list[tuple[_Mark, list[tuple[int, HistoryStep]]]]:
    """Return the steps that differ significantly from an earlier step, grouped by marker.

    If the best earlier step is the first step, only the square is drawn.
    """
    steps_by_mark: dict[_Mark, list[tuple[int, HistoryStep]]] = {}
    for x, one in known:
        same = one.since_best == one.since_first and one.clearly_best == "worse"
        signs = (
            _BEFORE.get(one.clearly),
            _FIRST if one.clearly_first and not same else None,
            _BEST.get(one.clearly_best),
        )
        for sign in signs:
            if sign is not None:
                steps_by_mark.setdefault(sign, []).append((x, one))
    return list(steps_by_mark.items())
