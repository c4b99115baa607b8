"""The table of recipes that were trained several times."""

from collections.abc import Callable, Iterator, Mapping

from strobe.core.codec import encode
from strobe.core.errors import printable
from strobe.report.tables import spread
from strobe.report.view import Lines, Row, Table, View
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


def training_lines(view: View) -> list[Lines]:
    """Return a row for each recipe with several trainings: mean, interval over clips, lowest and highest seed."""
    rows = [
        [
            f"{printable(one.name)} ({len(one.models)} trainings)",
            *(
                with_interval(found, f"; {100 * spread.low:.1f} – {100 * spread.high:.1f}".replace("-", "−"))
                for found, spread in (
                    (one.acc_orig, one.acc_orig_spread),
                    (one.acc_pmk, one.acc_pmk_spread),
                    (one.drop, one.drop_spread),
                )
            ),
        ]
        for one in view.results.added.get("trainings", ())
    ]
    notes = [f"means over trainings [95 % interval over {view.words.source}s]; range over trainings"]
    columns = ["recipe", "acc_orig", "acc_pmk", "drop"]
    return [("Recipes with several trainings", columns, rows, notes)] if rows else []
