"""Text of others in files that other programs interpret: cells of CSV files, and Markdown."""

import csv
import io
import re
from collections.abc import Iterable

from strobe.core.errors import printable

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-](\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def safe_cell(value: object) -> object:
    """Return a cell that a spreadsheet does not run as a formula.

    >>> safe_cell("=cmd()"), safe_cell("-2+3"), safe_cell("-2.5"), safe_cell(-1)
    ("'=cmd()", "'-2+3", '-2.5', -1)
    """
    runs = isinstance(value, str) and value.startswith(_FORMULA) and not _NUMBER.fullmatch(value)
    return f"'{value}" if runs else value


def csv_text(columns: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    r"""Return a CSV file with plain line ends, whose cells a spreadsheet does not run.

    >>> csv_text(["name"], [["a"], ["@b"]])
    "name\na\n'@b\n"
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(safe_cell, columns))
    writer.writerows(map(safe_cell, row) for row in rows)
    return out.getvalue()


def safe_markdown(text: object, *, limit: int = 1000) -> str:
    r"""Return text that Markdown shows as it is, without tables, links or HTML. Nobody is mentioned by it.

    >>> safe_markdown("a_b <i> @user")
    'a\\_b &lt;i&gt; @&#8203;user'
    """
    plain = printable(text, limit=limit)
    for sign in "\\`*_{}[]|#":
        plain = plain.replace(sign, f"\\{sign}")
    return plain.replace("<", "&lt;").replace(">", "&gt;").replace("@", "@&#8203;")
