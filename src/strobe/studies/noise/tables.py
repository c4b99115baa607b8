"""The table of the noise floor."""

from collections.abc import Callable, Mapping

from strobe.report.tables import as_row
from strobe.report.view import Table, View

TABLES: Mapping[str, Callable[[View], Table]] = {
    "noise": lambda view: [{"model": name, **as_row(one)} for name, one in view.results.noise.items()],
}
