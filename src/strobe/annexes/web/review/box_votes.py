"""Read boxes drawn elsewhere from CSV, including drawn.csv of `strobe export csv`."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from strobe.analyses.drawn import check_inside
from strobe.annexes.web.review.votes import ImportedAnswers, NameLookup, Turns, moment_of, picture_rows, seconds_of
from strobe.core.annotators import Spellings, checked_note
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, in_file, printable
from strobe.core.people import BoxAnswer

_SIDES = ("x0", "y0", "x1", "y1")
_COLUMNS = ("annotator", "frame", "label", *_SIDES, "decision", "reason", "stage", "seconds", "note", "at")


def read_boxes(
    path: Path, dataset: Dataset, asked: Iterable[str], annotator: str, known: Iterable[str]
) -> ImportedAnswers:
    """Read the answers of a .csv file.

    A line has a `frame` (id or key), a `label`, and either a box or a `reason` to discard the image. A box is in the
    columns x0, y0, x1, y1, or in `xyxy` with four numbers separated by |. Lines about images that are not in `asked`
    are counted separately. Another spelling of a `known` name is refused.
    """
    places, spellings, turns, elsewhere = NameLookup(dataset), Spellings(known), Turns("answer_id"), 0
    for place, row, frame in picture_rows(path, _COLUMNS, places, set(asked)):
        if frame is None:
            elsewhere += 1
            continue
        with in_file(path, where=f"line {place}"):
            who = spellings.checked(row.get("annotator", "").strip() or annotator)
            answer = _answer(row, dataset, frame, places.ids[frame], who)
        turns.add(answer, answer.frame_id)
    return ImportedAnswers(answers=tuple(turns.all), elsewhere=elsewhere).checked(path, dataset)


def _answer(row: dict[str, str], dataset: Dataset, frame: int, frame_id: str, who: str) -> BoxAnswer:
    space, box = dataset.info.label_space, _box(row)
    if box is not None:
        size_wh = int(dataset.frames.width[frame]), int(dataset.frames.height[frame])
        check_inside(box, size_wh, what=str(dataset.frames.key[frame]))
    fields: dict[str, Any] = {
        "annotator": who,
        "at": moment_of(row.get("at", "").strip()),
        "stage": row.get("stage", "").strip().lower() or "draw",
        "frame_id": frame_id,
        "label": space.ids[space.index(row["label"].strip())],
        "decision": row.get("decision", "").strip().lower() or ("discard" if box is None else "keep"),
        "xyxy": box,
        "reason": row.get("reason", "").strip(),
        "suggested": row.get("suggested", "").strip().lower() == "true",
        "seconds": seconds_of(row.get("seconds", "").strip()),
        "note": checked_note(row.get("note", "")),
    }
    # If the file has no id, the id is a digest of the content, so that reading the file again adds nothing.
    digest = hashlib.sha256(repr(sorted(fields.items())).encode()).hexdigest()[:32]
    given = row.get("answer_id", "").strip()
    return BoxAnswer(answer_id=given or digest, page_version=row.get("page_version", "").strip(), **fields)


def _box(row: dict[str, str]) -> tuple[float, float, float, float] | None:
    whole = row.get("xyxy", "").strip()
    cells = whole.split("|") if whole else [row.get(side, "").strip() for side in _SIDES]
    if not any(cells):
        return None
    try:
        x0, y0, x1, y1 = (float(cell) for cell in cells)
    except ValueError as error:
        raise InvalidValue(f"x0, y0, x1, y1: expected four numbers, got {printable(', '.join(cells))}") from error
    return x0, y0, x1, y1
