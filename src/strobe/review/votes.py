"""Votes made elsewhere: the papers' own annotation JSON, and CSV."""

import csv
import hashlib
import io
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from strobe.core.annotations import anchor_verdict, normalise_key, pair_verdict, parse_annotations
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, InvalidValue, StrobeError, printable
from strobe.core.files import read_json
from strobe.core.records import DECISIONS, Verdict

__all__ = ["NO_TIME", "ImportedVotes", "read_votes"]

NO_TIME = "1970-01-01T00:00:00.000000Z"
"""The time of a vote whose file has none: earlier than any vote made on the page, so that those count."""

_YES, _NO = {"1", "true", "yes", "right", "correct"}, {"0", "false", "no", "wrong", "incorrect"}
_COLUMNS = ("annotator", "set", "frame", "decision", "label_right", "reason", "bad_anchor", "labels", "note", "seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedVotes:
    """The votes of a file that speak of this dataset, and how many lines speak of other frames."""

    verdicts: tuple[Verdict, ...]
    elsewhere: int


class _Names:
    """The sets and frames of a dataset by every name a file may use: id, key, last two parts of the key."""

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
        """A frame's row by any of its names."""
        return self.row.get(name, self.row.get(normalise_key(name)))

    def set(self, name: str) -> int | None:
        """A set by its id or by any name of its anchor."""
        if name in self.sets:
            return self.sets[name]
        row = self.frame(name)
        return None if row is None else self.set_of_anchor.get(row)


def read_votes(path: Path, dataset: Dataset, *, annotator: str) -> ImportedVotes:
    """The votes in a .json (the papers' schema) or .csv file; `annotator` names who cast those that do not say."""
    if path.suffix.lower() == ".json":
        found = _from_json(path, dataset, annotator)
    elif path.suffix.lower() == ".csv":
        found = _from_csv(path, dataset, annotator)
    else:
        raise StrobeError(f"{printable(path)}: expected a .json file in the papers' schema or a .csv file of votes")
    if not found.verdicts:
        raise InvalidFile(
            path,
            f"none of its {found.elsewhere} lines is about a frame of {dataset.name}",
            hint="is it another dataset's?",
        )
    return found


def _from_json(path: Path, dataset: Dataset, annotator: str) -> ImportedVotes:
    names = _Names(dataset)
    space = dataset.info.label_space
    given: dict[int, list[str]] = {}
    for frame, label in zip(dataset.labels.frame.tolist(), dataset.labels.label.tolist(), strict=True):
        given.setdefault(frame, []).append(space.names[label])
    verdicts: list[Verdict] = []
    elsewhere = 0
    for annotation in parse_annotations(read_json(path), path):
        number = names.set(annotation.keys[0])
        frame = names.frame(annotation.keys[-1])
        if number is None or frame is None or (len(annotation.keys) == 2 and (number, frame) not in names.candidates):
            elsewhere += 1
            continue
        common: dict[str, Any] = {
            "annotator": annotator, "at": NO_TIME, "set_id": names.name_of_set[number], "frame_id": names.ids[frame],
        }  # fmt: skip
        if len(annotation.keys) == 2:
            verdicts.append(pair_verdict(annotation, **common))
        else:
            labels = tuple(sorted(given.get(frame, ())))
            verdicts.append(_known_labels(path, dataset, anchor_verdict(annotation, **common, given=labels)))
    return ImportedVotes(verdicts=tuple(verdicts), elsewhere=elsewhere)


def _known_labels(path: Path, dataset: Dataset, verdict: Verdict) -> Verdict:
    for label in verdict.labels:
        try:
            dataset.info.label_space.index(label)
        except StrobeError as error:
            raise InvalidFile(path, str(error), where=verdict.set_id) from error
    return verdict


def _from_csv(path: Path, dataset: Dataset, annotator: str) -> ImportedVotes:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise StrobeError(f"no such file: {printable(path)}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(path, "cannot be read as UTF-8 text") from error
    lines = csv.DictReader(io.StringIO(text))
    header = [name.strip().lower() for name in lines.fieldnames or ()]
    for wanted in ("set", "frame", "decision"):
        if wanted not in header:
            raise InvalidFile(
                path,
                f"the column {wanted} is missing",
                where="line 1",
                hint=f"columns: {', '.join(_COLUMNS)}, at, stage",
            )
    names = _Names(dataset)
    verdicts: dict[str, Verdict] = {}
    elsewhere = 0
    try:
        rows: Iterable[dict[str, Any]] = list(lines)
    except csv.Error as error:
        raise InvalidFile(path, f"not a CSV file ({error})") from error
    for place, raw in enumerate(rows, start=2):
        row = {str(name).strip().lower(): (value or "") for name, value in raw.items() if isinstance(value, str | None)}
        try:
            verdict = _csv_verdict(row, names, dataset, annotator)
        except StrobeError as error:
            raise InvalidFile(path, str(error), where=f"line {place}") from error
        if verdict is None:
            elsewhere += 1
        else:
            verdicts[verdict.verdict_id] = verdict
    return ImportedVotes(verdicts=tuple(verdicts.values()), elsewhere=elsewhere)


def _csv_verdict(row: dict[str, str], names: _Names, dataset: Dataset, annotator: str) -> Verdict | None:
    number, frame = names.set(row["set"].strip()), names.frame(row["frame"].strip())
    if number is None or frame is None:
        return None
    stage = row.get("stage", "").strip() or ("anchor" if frame == names.anchor[number] else "pair")
    if stage != "anchor" and (number, frame) not in names.candidates:
        return None
    decision = row["decision"].strip().lower()
    if decision not in DECISIONS:
        raise InvalidValue(f"decision: expected {', '.join(DECISIONS)}, got {printable(decision)!r}")
    space = dataset.info.label_space
    labels = [part.strip() for part in row.get("labels", "").split(";") if part.strip()]
    seconds = row.get("seconds", "").strip()
    try:
        number_of_seconds = float(seconds) if seconds else None
    except ValueError as error:
        raise InvalidValue(f"seconds: expected a number, got {printable(seconds)!r}") from error
    fields: dict[str, Any] = {
        "annotator": row.get("annotator", "").strip() or annotator,
        "at": _moment(row.get("at", "").strip()),
        "stage": stage,
        "set_id": names.name_of_set[number],
        "frame_id": names.ids[frame],
        "decision": decision,
        "label_right": _yes_no("label_right", row.get("label_right", "")),
        "reason": row.get("reason", "").strip().lower(),
        "bad_anchor": _yes_no("bad_anchor", row.get("bad_anchor", "")) or False,
        "labels": tuple(space.ids[space.index(label)] for label in labels),
        "note": row.get("note", ""),
        "seconds": number_of_seconds,
    }
    # The id is made of the content, so that reading the same file again adds nothing.
    digest = hashlib.sha256(repr(sorted(fields.items())).encode()).hexdigest()[:32]
    return Verdict(verdict_id=digest, **fields)


def _yes_no(field: str, value: str) -> bool | None:
    value = value.strip().lower()
    if value in _YES or value in _NO:
        return value in _YES
    if value:
        raise InvalidValue(f"{field}: expected yes or no, got {printable(value)!r}")
    return None


def _moment(value: str) -> str:
    """A time as the store writes it; no zone means UTC, nothing means unknown."""
    if not value:
        return NO_TIME
    try:
        parsed = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError as error:
        raise InvalidValue(f"at: expected a time like 2026-01-31T09:30:00Z, got {printable(value)!r}") from error
    parsed = parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    if parsed > datetime.now(UTC):
        raise InvalidValue(f"at: {printable(value)} lies in the future")
    return parsed.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
