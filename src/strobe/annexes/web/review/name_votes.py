"""Read names given elsewhere from CSV, including names.csv of `strobe export csv`."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from strobe.annexes.web.review.votes import ImportedAnswers, NameLookup, Turns, moment_of, picture_rows, seconds_of
from strobe.core.annotators import Spellings, checked_note
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, in_file, printable
from strobe.core.people import SAID, NameAnswer

_COLUMNS = ("annotator", "frame", "label", "said", "condition", "seconds", "note", "at")


def read_names(
    path: Path, dataset: Dataset, conditions: Mapping[str, str], annotator: str, known: Iterable[str]
) -> ImportedAnswers:
    """Read the answers of a .csv file.

    A line has a `frame` (id or key), and a `label` (a class) or `said` for an answer without a class. `conditions`
    gives the condition of an image if the file does not. Another spelling of a `known` name is refused.
    """
    places, spellings, turns, elsewhere = NameLookup(dataset), Spellings(known), Turns("answer_id"), 0
    for place, row, frame in picture_rows(path, _COLUMNS, places, conditions):
        if frame is None:
            elsewhere += 1
            continue
        with in_file(path, where=f"line {place}"):
            answer = _answer(row, dataset, places.ids[frame], conditions, spellings.checked(_who(row, annotator)))
        turns.add(answer, answer.frame_id)
    return ImportedAnswers(answers=tuple(turns.all), elsewhere=elsewhere).checked(path, dataset)


def _who(row: dict[str, str], annotator: str) -> str:
    return row.get("annotator", "").strip() or annotator


def _answer(
    row: dict[str, str], dataset: Dataset, frame_id: str, conditions: Mapping[str, str], who: str
) -> NameAnswer:
    space = dataset.info.label_space
    label = row["label"].strip()
    reply = row.get("said", "").strip().lower() or ("class" if label else "")
    if reply not in SAID:
        raise InvalidValue(f"said: expected {', '.join(SAID)}, or a label, got {printable(reply)!r}")
    fields: dict[str, Any] = {
        "annotator": who,
        "at": moment_of(row.get("at", "").strip()),
        "frame_id": frame_id,
        "said": reply,
        "label": space.ids[space.index(label)] if label else "",
        "condition": row.get("condition", "").strip() or conditions[frame_id],
        "seconds": seconds_of(row.get("seconds", "").strip()),
        "note": checked_note(row.get("note", "")),
    }
    # If the file has no id, the id is a digest of the content, so that reading the file again adds nothing.
    digest = hashlib.sha256(repr(sorted(fields.items())).encode()).hexdigest()[:32]
    given = row.get("answer_id", "").strip()
    return NameAnswer(answer_id=given or digest, page_version=row.get("page_version", "").strip(), **fields)
