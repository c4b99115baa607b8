"""The sentences and the table of remedies, for page and terminal."""

from collections.abc import Callable, Mapping, Sequence

from strobe.core.codec import decode
from strobe.core.errors import printable
from strobe.report.view import Lines, View
from strobe.report.wording import NONE as MISSING
from strobe.report.wording import counted, percent, plain_number
from strobe.studies.remedies.records import NONE, RemedyScore
from strobe.studies.remedies.score import ENOUGH, FEW, recommended

NAME = "remedies"
NOTES = (
    "changes per second of video; altered: frames with another answer, %; delay: of a sure and lasting change; "
    "truth lost: swallowed + delayed of the real changes that the model follows; * no other row is as good in changes, "
    "acc_pmk, delay, passes and swallowed changes",
)
TERMS = (
    ("Remedy", "A rule over the answers in time, such as hold=0.27: a change is believed after 0.27 s."),
    ("Truth lost", "Real changes (of the label, at a cut, of an object) that a remedy shows late or never."),
)


def scores(view: View) -> dict[str, tuple[RemedyScore, ...]]:
    """Return the rows of each model in the results."""
    found = (view.results.studies or {}).get(NAME, {})
    return {name: decode(tuple[RemedyScore, ...], rows, where=f"studies.{NAME}") for name, rows in found.items()}


def verdict(model: str, rows: Sequence[RemedyScore]) -> str:
    """Return the remedy that is recommended for a model, with what it gains and costs, or that none helps enough."""
    best, who = recommended(rows), printable(model)
    if not rows[0].changes:
        return f"{who} needs no remedy: none of its answers changes in {counted(rows[0].frames, 'frame')}."
    if best is None:
        return (
            f"{who}: nothing helps enough: no remedy removes {percent(ENOUGH, digits=0)} of the changes, swallows at "
            f"most {percent(FEW, digits=0)} of the real ones and keeps acc_pmk."
        )
    n, lost = best.real_changes, best.swallowed
    truth = f"{lost} of {counted(n, 'real change')} lost, {best.delayed} delayed"
    if not n:
        truth = "no real change is known here, so what it hides is unknown"
    late = ", of unknown delay" if best.delay_ms is None else f", {plain_number(round(best.delay_ms))} ms of delay"
    return f"{who}: {best.remedy} has {percent(best.fewer, digits=0)} fewer changes{late}; {truth}."


def remedy_lines(view: View) -> list[Lines]:
    """Return a table for each model, without the columns that no remedy has."""
    out: list[Lines] = []
    for model, rows in scores(view).items():
        cells = [[text(row) for text in _CELLS.values()] for row in rows]
        used = [at for at in range(len(_CELLS)) if any(row[at] != MISSING for row in cells)]
        title = f"Remedies for {printable(model, limit=60)}"
        table = [[row[at] for at in used] for row in cells]
        notes = [*(() if out else NOTES), verdict(model, rows)]
        out.append((title, [[*_CELLS][at] for at in used], table, notes))
    return out


def _number(value: float | None, digits: int = 2) -> str:
    return MISSING if value is None else f"{value:.{digits}f}"


_CELLS: Mapping[str, Callable[[RemedyScore], str]] = {
    "remedy": lambda row: f"{row.remedy}{' *' if row.is_front else ''}",
    "changes/s": lambda row: _number(row.changes_per_s),
    "fewer": lambda row: "" if row.remedy == NONE else percent(row.fewer, digits=0),
    "altered": lambda row: percent(row.altered),
    "acc_orig": lambda row: MISSING if row.acc_orig is None else percent(row.acc_orig),
    "acc_pmk": lambda row: MISSING if row.acc_pmk is None else percent(row.acc_pmk),
    "delay ms": lambda row: _number(row.delay_ms, 0),
    "passes/frame": lambda row: _number(row.forwards),
    "truth lost": lambda row: f"{row.swallowed} + {row.delayed} of {row.real_changes}" if row.real_changes else MISSING,
}
"""The columns of the table of a model."""
