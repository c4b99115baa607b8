"""The table of recipes that were trained several times."""

from collections.abc import Callable, Iterator, Mapping

from strobe.core.codec import encode
from strobe.report.rows import Row, Table, spread
from strobe.report.view import View

__all__ = ["TABLES"]


def _trainings(view: View) -> Iterator[Row]:
    for one in view.results.trainings or ():
        row: Row = {"recipe": one.name, "trainings": len(one.models)}
        for name in ("acc_orig", "acc_pmk", "drop"):
            row |= spread(name, getattr(one, name)) | {
                f"{name}_seeds_{key}": value for key, value in encode(getattr(one, f"{name}_spread")).items()
            }
        yield row


TABLES: Mapping[str, Callable[[View], Table]] = {
    "trainings": lambda view: list(_trainings(view)),
}
