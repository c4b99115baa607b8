"""Tags and notes on sets: rows beside the dataset, appended and never changed."""

import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from strobe.core.errors import InvalidFile, InvalidValue, printable
from strobe.core.files import cannot_write, inside, json_of
from strobe.core.locks import locked
from strobe.report.tables import as_csv

TAGS = "tags.jsonl"
"""The file of a dataset folder that holds its tags and notes."""

MOST_SETS = 20_000
"""The most sets that one action may tag."""

_TAG = re.compile(r"[\w][\w .+#-]{0,39}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TagRow:
    """What one person did to one set: add or remove a tag, or write a note. The latest note of a person counts."""

    at: str
    who: str
    set_id: str
    act: Literal["tag", "untag", "note"]
    text: str

    def __post_init__(self) -> None:
        if self.act not in ("tag", "untag", "note") or not all(isinstance(one, str) for one in asdict(self).values()):
            raise InvalidValue("expected at, who, set_id, act (tag, untag, note) and text")


def checked_tag(tag: str) -> str:
    """Return a tag without spaces around it. Raise InvalidValue unless it is a short plain text.

    >>> checked_tag(" hard case ")
    'hard case'
    """
    tag = tag.strip()
    if not _TAG.fullmatch(tag):
        raise InvalidValue(
            f"tag: expected 1–40 letters, digits, spaces or . + # - with a letter or digit first, "
            f"got {printable(tag, limit=60)!r}"
        )
    return tag


def read_tags(folder: Path) -> list[TagRow]:
    """Return all rows of a dataset folder, oldest first. A last line that was cut off is skipped."""
    path = inside(folder, TAGS)
    if not path.is_file():
        return []
    out = []
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    for number, line in enumerate(lines, start=1):
        row = _row(line)
        if row is not None:
            out.append(row)
        elif line.strip() and number < len(lines):  # else a process was killed while it wrote the last line
            raise InvalidFile(path, "not a row of tags", where=f"line {number}", hint="remove the line")
    return out


def _row(line: str) -> TagRow | None:
    try:
        return TagRow(**json_of(line))
    except (ValueError, TypeError, InvalidValue):
        return None


def add_rows(
    folder: Path,
    sets: Sequence[str],
    *,
    who: str,
    act: Literal["tag", "untag", "note"],
    text: str,
    check: Callable[[], None] = lambda: None,
) -> int:
    """Append one row for each set and return their number. The rows are on disk when this returns.

    `check` raises an error if the folder must not be written to. It is called before anything is written.
    """
    if len(sets) > MOST_SETS:
        raise InvalidValue(f"{len(sets):,} sets are selected; one action can tag at most {MOST_SETS:,}: filter more")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    rows = [TagRow(at=now, who=who, set_id=one, act=act, text=text) for one in sets]
    content = "".join(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in rows)
    path = inside(folder, TAGS)
    check()
    with locked(folder / f".{TAGS}.lock", busy=None, make=False):
        check()  # now nobody else writes
        try:
            with path.open("ab+") as file:
                file.seek(0)
                held = file.read()
                whole = held.rfind(b"\n") + 1
                if _row(held[whole:].decode(errors="replace")):  # an editor left out the end of the last line
                    content = "\n" + content
                elif whole < len(held):  # a killed process left a part of a line, which was never confirmed
                    file.truncate(whole)
                file.write(content.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise cannot_write(path, error) from error
    return len(rows)


def tags_of(rows: Iterable[TagRow]) -> dict[str, dict[str, None]]:
    """Return the current tags of each set, in the order in which they were added."""
    out: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.act == "tag":
            out.setdefault(row.set_id, {})[row.text] = None
        elif row.act == "untag":
            out.get(row.set_id, {}).pop(row.text, None)
    return {name: tags for name, tags in out.items() if tags}


def notes_of(rows: Iterable[TagRow], set_id: str) -> list[TagRow]:
    """Return each person's latest note on a set; an empty note removes the earlier one."""
    latest = {row.who: row for row in rows if row.act == "note" and row.set_id == set_id}
    return [row for row in latest.values() if row.text]


def tags_csv(rows: Iterable[TagRow]) -> str:
    """Return the rows as CSV that a spreadsheet opens safely."""
    return as_csv([asdict(row) for row in rows])
