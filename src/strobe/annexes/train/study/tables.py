"""The table of recipes that were trained several times."""

from collections.abc import Callable, Iterator, Mapping

from strobe.analyses.results import Results
from strobe.annexes.train.study.records import Spread
from strobe.core.codec import encode
from strobe.core.errors import printable
from strobe.report.tables import spread
from strobe.report.view import Row, Table, View
from strobe.report.wording import with_interval


def _trainings(view: View) -> Iterator[Row]:
    for one in view.results.added.get("trainings", ()):
        row: Row = {"recipe": one.name, "trainings": len(one.models)}
        for name in ("acc_orig", "acc_pmk", "drop"):
            row |= spread(name, getattr(one, name)) | {
                f"{name}_seeds_{key}": value for key, value in encode(getattr(one, f"{name}_spread")).items()
            }
        yield row


TABLES: Mapping[str, Callable[[View], Table]] = {
    "trainings": lambda view: list(_trainings(view)),
}


def training_lines(results: Results) -> list[str]:
    """Return a line for each recipe with several trainings: mean, interval over clips, lowest and highest seed."""
    rows = [("recipe", "acc_orig", "acc_pmk", "drop")]
    for one in results.added.get("trainings", ()):
        cells = [
            f"{with_interval(found)}; {spread_text(spread)}"
            for found, spread in (
                (one.acc_orig, one.acc_orig_spread),
                (one.acc_pmk, one.acc_pmk_spread),
                (one.drop, one.drop_spread),
            )
        ]
        rows.append((printable(one.name), cells[0], cells[1], cells[2]))
    if len(rows) == 1:
        return []
    widths = [max(len(row[place]) for row in rows) for place in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return ["", *lines, "means over trainings [95 % interval over clips]; lowest – highest training"]


def spread_text(spread: Spread) -> str:
    """Return the lowest and the highest training, in per cent.

    >>> spread_text(Spread(low=0.705, high=0.73, sd=0.01))
    '70.5 – 73.0'
    """
    return f"{100 * spread.low:.1f} – {100 * spread.high:.1f}".replace("-", "−")
