"""HTML tables for notebooks."""

import html
from collections.abc import Sequence

from strobe.core.errors import InvalidValue, printable


def html_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, caption: str = "", notes: Sequence[str] = ()
) -> str:
    """Return a small HTML table for a notebook. All text is escaped.

    >>> html_table(["a<b"], [["1"]])
    '<table><thead><tr><th>a&lt;b</th></tr></thead><tbody><tr><td>1</td></tr></tbody></table>'
    """
    if any(len(row) != len(columns) for row in rows):
        raise InvalidValue("html_table: expected one cell for every column in each row")

    def cells(tag: str, row: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(printable(cell, limit=400))}</{tag}>" for cell in row) + "</tr>"

    top = f'<caption style="text-align:left">{html.escape(printable(caption))}</caption>' if caption else ""
    below = "".join(f"<div>{html.escape(printable(note))}</div>" for note in notes)
    body = "".join(cells("td", row) for row in rows)
    return f"<table>{top}<thead>{cells('th', columns)}</thead><tbody>{body}</tbody></table>{below}"
