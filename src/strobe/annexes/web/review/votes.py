"""Read votes given elsewhere: the papers' annotation JSON, and CSV."""

import csv
import hashlib
import io
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from strobe.core.annotations import anchor_verdict, normalise_key, pair_verdict, parse_annotations
from strobe.core.annotators import Spellings, checked_note
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, InvalidValue, StrobeError, in_file, printable
from strobe.core.files import read_json, reading
from strobe.core.moments import NO_TIME, moment_text
from strobe.core.records import DECISIONS, Verdict

MAX_SECONDS = 86_400
"""The longest accepted time of a decision: a day, as on the page."""

_YES, _NO = {"1", "true", "yes", "right", "correct"}, {"0", "false", "no", "wrong", "incorrect"}
_COLUMNS = ("annotator", "set", "frame", "decision", "label_right", "reason", "bad_anchor", "labels", "note", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedAnswers:
    """The answers in a file that are about this dataset, in file order, and the number of lines about other frames."""

    answers: tuple[Any, ...]
    elsewhere: int

    def checked(self, path: Path, dataset: Dataset) -> "ImportedAnswers":
        """Return self. Raise InvalidFile if no line is about this dataset."""
        if not self.answers:
            raise InvalidFile(
                path,
                f"none of its {self.elsewhere} lines is about a frame of {dataset.name}",
                hint="does the file belong to another dataset?",
            )
        return self


class NameLookup:
    """Finds the sets and frames of a dataset by any name in a file: the id, the key, or the last two parts of the
    key.
    """

    def __init__(self, dataset: Dataset) -> None:
        ids = dataset.frame_ids()
        self.row: dict[str, int] = {}
        for row, (name, key) in enumerate(zip(ids, dataset.frames.key, strict=True)):
            for alias in (normalise_key(str(key)), str(key), name):
                self.row[alias] = row
        self.ids = ids
        self.sets = {str(name): number for number, name in enumerate(dataset.sets.set_id)}
        self.anchor = dataset.sets.anchor_frame.tolist()
        self.set_of_anchor = {row: number for number, row in enumerate(self.anchor)}
        self.name_of_set = [str(name) for name in dataset.sets.set_id]
        self.candidates = {
            (number, frame)
            for number, frame, anchor in zip(
                dataset.sets.set.tolist(), dataset.sets.frame.tolist(), dataset.sets.is_anchor.tolist(), strict=True
            )
            if not anchor
        }

    def frame(self, name: str) -> int | None:
        """Return a frame's row by any of its names."""
        return self.row.get(name, self.row.get(normalise_key(name)))

    def set(self, name: str) -> int | None:
        """Return a set by its id or by any name of its anchor."""
        if name in self.sets:
            return self.sets[name]
        row = self.frame(name)
        return None if row is None else self.set_of_anchor.get(row)


def read_votes(path: Path, dataset: Dataset, *, annotator: str, known: Iterable[str] = ()) -> ImportedAnswers:
    """Read the votes of a .json (the papers' schema) or .csv file. `annotator` is the author of votes without a name.

    `known` are the names in use. Another spelling of such a name is refused.
    """
    spellings = Spellings(known)
    if path.suffix.lower() == ".json":
        found = _from_json(path, dataset, spellings.checked(annotator))
    elif path.suffix.lower() == ".csv":
        found = _from_csv(path, dataset, annotator, spellings)
    else:
        raise StrobeError(f"{printable(path)}: expected a .json file in the papers' schema or a .csv file of votes")
    return found.checked(path, dataset)


def _from_json(path: Path, dataset: Dataset, annotator: str) -> ImportedAnswers:
    names = NameLookup(dataset)
    space = dataset.info.label_space
    given = dataset.labels.by_frame()
    turns = Turns("verdict_id")
    elsewhere = 0
    for index, annotation in enumerate(parse_annotations(read_json(path), path)):
        number = names.set(annotation.keys[0])
        frame = names.frame(annotation.keys[-1])
        if number is None or frame is None or (len(annotation.keys) == 2 and (number, frame) not in names.candidates):
            elsewhere += 1
            continue
        common: dict[str, Any] = {
            "annotator": annotator,
            "at": NO_TIME,
            "set_id": names.name_of_set[number],
            "frame_id": names.ids[frame],
        }
        with in_file(path, where=f"annotations[{index}]"):
            checked_note(annotation.note)
        if len(annotation.keys) == 2:
            _add(turns, pair_verdict(annotation, **common))
        else:
            labels = tuple(sorted(space.names[label] for label in given.get(frame, ())))
            _add(turns, _known_labels(path, dataset, anchor_verdict(annotation, **common, given=labels)))
    return ImportedAnswers(answers=tuple(turns.all), elsewhere=elsewhere)


class Turns:
    """The answers of a file, in file order. A person's last line on a task counts.

    A line that repeats the person's previous line on the task is the same answer. A line that returns to an earlier
    answer is a new answer. Its id is the same each time the file is read. If several lines have the same time, each
    gets a time one microsecond after that of the previous line. The store does the same for lines without a time.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self.all: list[Any] = []
        self._last: dict[tuple[object, ...], str] = {}
        self._times: dict[str, int] = {}
        self._at: dict[tuple[object, ...], int] = {}

    def add(self, answer: Any, *about: object) -> None:
        """Add the answer of the next line. `about` identifies its task."""
        content = getattr(answer, self._key)
        task = (answer.annotator, *about)
        if self._last.get(task) == content:
            return
        self._last[task] = content
        times = self._times[content] = self._times.get(content, 0) + 1
        if times > 1:
            again = hashlib.sha256(f"{content}\n{times}".encode()).hexdigest()[:32]
            answer = replace(answer, **{self._key: again})
        if answer.at != NO_TIME:
            before = self._at.get((*task, answer.at), 0)
            self._at[*task, answer.at] = before + 1
            if before:
                moment = datetime.fromisoformat(answer.at) + timedelta(microseconds=before)
                answer = replace(answer, at=moment_text(moment))
        self.all.append(answer)


def _add(turns: Turns, verdict: Verdict) -> None:
    turns.add(verdict, verdict.set_id, verdict.frame_id, verdict.stage == "anchor")


def _known_labels(path: Path, dataset: Dataset, verdict: Verdict) -> Verdict:
    with in_file(path, where=verdict.set_id):
        for label in verdict.labels:
            dataset.info.label_space.index(label)
    return verdict


def csv_rows(path: Path, columns: Sequence[str], *, wanted: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the lines of a CSV file with their numbers and values by lower-case column.

    The `wanted` columns are required.
    """
    with reading(path):
        lines = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig")))
        header = [name.strip().lower() for name in lines.fieldnames or ()]
        rows: list[dict[str, Any]] = list(lines)
    for name in wanted:
        if name not in header:
            hint = f"columns: {', '.join(columns)}"
            raise InvalidFile(path, f"the column {name} is missing", where="line 1", hint=hint)
    for index, raw in enumerate(rows, start=2):
        yield index, {str(k).strip().lower(): (v or "") for k, v in raw.items() if isinstance(v, str | None)}


def picture_rows(
    path: Path, columns: Sequence[str], places: NameLookup, asked: Collection[str], *, wanted: str = "label"
) -> Iterator[tuple[int, dict[str, str], int | None]]:
    """Yield each line of a .csv file about images: its number, its values, and its frame's row if in `asked`.

    Every line has a frame and the column `wanted`.
    """
    if path.suffix.lower() != ".csv":
        raise StrobeError(f"{printable(path)}: expected a .csv file with the columns {', '.join(columns)}")
    for place, row in csv_rows(path, columns, wanted=(wanted,)):
        if "frame" not in row and "frame_id" not in row:
            hint = f"columns: {', '.join(columns)}"
            raise InvalidFile(path, "the column frame is missing", where="line 1", hint=hint)
        frame = places.frame((row.get("frame") or row.get("frame_id") or "").strip())
        yield place, row, None if frame is None or places.ids[frame] not in asked else frame


def _from_csv(path: Path, dataset: Dataset, annotator: str, spellings: Spellings) -> ImportedAnswers:
    names = NameLookup(dataset)
    turns = Turns("verdict_id")
    elsewhere = 0
    for place, row in csv_rows(path, (*_COLUMNS, "at", "stage"), wanted=("set", "frame", "decision")):
        with in_file(path, where=f"line {place}"):
            verdict = _csv_verdict(row, names, dataset, annotator, spellings)
        if verdict is None:
            elsewhere += 1
        else:
            _add(turns, verdict)
    return ImportedAnswers(answers=tuple(turns.all), elsewhere=elsewhere)


def _csv_verdict(
    row: dict[str, str], names: NameLookup, dataset: Dataset, annotator: str, spellings: Spellings
) -> Verdict | None:
    number, frame = names.set(row["set"].strip()), names.frame(row["frame"].strip())
    if number is None or frame is None:
        return None
    stage = row.get("stage", "").strip().lower() or ("anchor" if frame == names.anchor[number] else "pair")
    if stage == "anchor" and frame != names.anchor[number]:
        raise InvalidValue(
            f"stage: {printable(row['frame'])} is not the anchor of {printable(row['set'])}; "
            "leave the stage empty, or name the anchor's frame"
        )
    if stage != "anchor" and (number, frame) not in names.candidates:
        return None
    decision = row["decision"].strip().lower()
    if decision not in DECISIONS:
        raise InvalidValue(f"decision: expected {', '.join(DECISIONS)}, got {printable(decision)!r}")
    reason = row.get("reason", "").strip().lower()
    if reason and decision != "dissimilar":
        raise InvalidValue(f"reason: only a dissimilar pair has a reason, got {printable(reason)!r} with {decision}")
    space = dataset.info.label_space
    labels = [part.strip() for part in row.get("labels", "").split(";") if part.strip()]
    fields: dict[str, Any] = {
        "annotator": spellings.checked(row.get("annotator", "").strip() or annotator),
        "at": moment_of(row.get("at", "").strip()),
        "stage": stage,
        "set_id": names.name_of_set[number],
        "frame_id": names.ids[frame],
        "decision": decision,
        "label_right": _yes_no("label_right", row.get("label_right", "")),
        "reason": reason,
        "bad_anchor": _yes_no("bad_anchor", row.get("bad_anchor", "")) or False,
        "labels": tuple(space.ids[space.index(label)] for label in labels),
        "note": checked_note(row.get("note", "")),
        "seconds": seconds_of(row.get("seconds", "").strip()),
    }
    # The id is a digest of the content, so that reading the file again adds nothing.
    digest = hashlib.sha256(repr(sorted(fields.items())).encode()).hexdigest()[:32]
    return Verdict(verdict_id=digest, **fields)


def _yes_no(field: str, value: str) -> bool | None:
    value = value.strip().lower()
    if value in _YES or value in _NO:
        return value in _YES
    if value:
        raise InvalidValue(f"{field}: expected yes or no, got {printable(value)!r}")
    return None


def seconds_of(value: str) -> float | None:
    """Parse a time in seconds. Empty means unknown."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= MAX_SECONDS:
        raise InvalidValue(f"seconds: expected a number from 0 to {MAX_SECONDS}, or nothing, got {printable(value)!r}")
    return seconds


def moment_of(value: str) -> str:
    """Parse a time to the store's format. A time without a zone is UTC, and an empty text means unknown."""
    if not value:
        return NO_TIME
    try:
        parsed = datetime.fromisoformat(value.replace("Z", "+00:00"))
        parsed = parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidValue(f"at: expected a time like 2026-01-31T09:30:00Z, got {printable(value)!r}") from error
    if parsed > datetime.now(UTC):
        raise InvalidValue(f"at: {printable(value)} is in the future")
    if parsed.year < 1970:
        raise InvalidValue(f"at: {printable(value)} is before 1970; leave it empty if the time is unknown")
    return moment_text(parsed)
