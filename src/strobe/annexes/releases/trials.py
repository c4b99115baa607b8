"""Human classification trials from other experiments: CSV with model-vs-human's columns, one row per answer.

`subj, object_response, category, imagename` are required. `rt` (seconds), `condition`, `session` and `trial` are
optional.
"""

import csv
import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Literal

from strobe.core.annotators import Spellings
from strobe.core.builder import DatasetBuilder, frame_list_digest
from strobe.core.dataset import DatasetInfo
from strobe.core.errors import InvalidFile, InvalidValue, StrobeError, UnknownName, in_file, printable
from strobe.core.files import reading
from strobe.core.labels import LabelSpace
from strobe.core.moments import NO_TIME
from strobe.core.people import NameAnswer
from strobe.core.records import frame_id
from strobe.formats.import_photos import NO_AXIS
from strobe.formats.importing import into
from strobe.formats.registry import LABEL_SPACE, FormatOption, ImportFormat, several_names
from strobe.formats.sampled import ImportedDataset, label_space_for
from strobe.store import dataset_folder as folder
from strobe.store.bring_media import ImportOptions

_NEEDED = ("subj", "object_response", "category", "imagename")
_SAID: Mapping[str, Literal["none", "unsure", "late"]] = {
    "na": "late", "late": "late", "none": "none", "none of these": "none", "unsure": "unsure", "dont know": "unsure",
    "don't know": "unsure", "cannot tell": "unsure",
}  # fmt: skip
"""Responses that are not a class."""

_PREFIX = re.compile(r"\d+_([A-Za-z0-9-]+)_(s\d+|dnn)_")
"""Matches the trial, experiment and subject in front of an image's own name: 0001_edg_s01_0_oven_00_oven10.png."""

_LONGEST = 86_400
_SLOW = 100
"""Seconds. A longer median response time suggests that times are in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFiles:
    """What accompanies the CSV: the image folder, and all classes that people could choose from."""

    images: Path | None = None
    classes: tuple[str, ...] = ()
    label_space: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """A function that checks people's names, and the time to record for answers without a time."""

    person: Callable[[str], str]
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One row: the person, the image, the answer, and the row's position."""

    path: Path
    line: int
    person: str
    picture: str
    category: str
    response: str
    seconds: float | None
    condition: str

    @property
    def where(self) -> str:
        """Describe the row."""
        return f"{printable(self.path.name)} line {self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """The rows of one CSV file, or of all CSV files in a folder, checked for consistency."""

    source: Path
    rows: tuple[Trial, ...]

    def imported(self, target: Path, *, files: TrialFiles, signed: Signed, how: ImportOptions) -> ImportedDataset:
        """Make one set per image, with only an anchor and people's answers. The caller writes the tables."""
        classes = self._classes(files, target)
        first = {trial.picture: trial for trial in reversed(self.rows)}
        paths = {} if files.images is None else _find(files.images, sorted(first))
        brought = {} if files.images is None else how.files(files.images, target, sorted(paths.values()))
        grown = DatasetBuilder()
        for picture, trial in sorted(first.items()):
            photo = grown.video(video_id=frame_list_digest([picture]), name=picture, n_frames=1, kind="photo")
            path = paths.get(picture, "")
            digest, size = brought.get(path, ("", (0, 0)))
            label = self._label(trial, "category", trial.category, classes)
            row = grown.frame(
                video=photo,
                index=0,
                key=picture,
                sha256=digest,
                size_wh=size,
                labels=[label],
                media=f"media/{path}" if digest else "",
            )
            grown.set(set_id=picture, anchor=row, members=())
        names = tuple(self._answer(trial, classes, signed.at) for trial in self.rows)
        info = DatasetInfo(
            name=printable(target.resolve().name) or "trials",
            label_space=classes,
            k=0,
            axis=NO_AXIS,
            provenance={"format": "trials", "media": bool(brought)},
        )
        return ImportedDataset(dataset=replace(grown.build(info, root=target), names=names), notes=self._notes(brought))

    def _notes(self, brought: Mapping[str, object]) -> tuple[str, ...]:
        people = len({trial.person for trial in self.rows})
        notes = [f"{len(self.rows):,} answers of {people} {'person' if people == 1 else 'people'}"]
        seconds = [trial.seconds for trial in self.rows if trial.seconds is not None]
        if seconds and median(seconds) > _SLOW:
            notes.append(f"half of the answers took {median(seconds):.0f} s or longer; check that rt is in seconds")
        if not brought:
            notes.append("there are no images (--images), so only people and existing predictions are scored")
        return tuple(notes)

    def _classes(self, files: TrialFiles, target: Path) -> LabelSpace:
        shown = sorted({trial.category for trial in self.rows})
        if files.classes:
            twice = next((name for name in files.classes if files.classes.count(name) > 1), None)
            if twice is not None:
                raise InvalidValue(f"<<classes>>: {printable(twice)!r} appears twice")
            return LabelSpace.of_names(target.resolve().name, files.classes)
        with in_file(self.source):
            return label_space_for(shown, requested=files.label_space, own_name=target.resolve().name)

    @staticmethod
    def _label(trial: Trial, column: str, name: str, classes: LabelSpace) -> int:
        try:
            return classes.index(name)
        except InvalidValue as error:
            raise InvalidFile(trial.path, f"{column}: {error}", where=f"line {trial.line}") from error
        except UnknownName as error:
            near = f"; did you mean {' or '.join(map(printable, error.near))}?" if error.near else ""
            raise InvalidFile(
                trial.path,
                f"{column}: {printable(name)!r} is not one of the {len(classes)} classes{near}",
                where=f"line {trial.line}",
                hint="fix it, or list all classes with <<classes>> or <<label_space>>",
            ) from error

    def _answer(self, trial: Trial, classes: LabelSpace, at: str) -> NameAnswer:
        is_class = trial.response in classes
        kind = None if is_class else _SAID.get(trial.response.lower())
        label = "" if kind else classes.ids[self._label(trial, "object_response", trial.response, classes)]
        fields = (trial.person, trial.picture, kind, label, trial.condition, trial.seconds)
        return NameAnswer(
            # The id is derived from the content, so importing the same file again adds nothing.
            answer_id=hashlib.sha256(repr(fields).encode()).hexdigest()[:32],
            annotator=trial.person,
            at=at,
            frame_id=frame_id(frame_list_digest([trial.picture]), 0),
            said=kind or "class",
            label=label,
            condition=trial.condition,
            seconds=trial.seconds,
        )


def read_trials(source: Path, signed: Signed) -> Trials:
    """Return the rows of a CSV file, or of all CSV files in a folder. Errors name the file and the line."""
    paths = sorted(source.rglob("*.csv")) if source.is_dir() else [source]
    if not source.exists():
        raise StrobeError(f"no such file or folder: {printable(source)}; give a CSV of trials, or a folder of them")
    if not paths:
        raise StrobeError(f"{printable(source)}: it contains no .csv file; give a CSV of trials, or a folder of them")
    raw = [(path, line, row) for path in paths for line, row in _rows(path)]
    if not raw:
        raise InvalidFile(source, "it contains no trials", hint="expected a header and one row per answer")
    prefixed = all(_PREFIX.match(row["imagename"]) for _, _, row in raw)
    return Trials(source=source, rows=tuple(_checked(raw, signed, prefixed=prefixed)))


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield a file's rows by column name, each with the number of its last line."""
    with reading(path), path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, strict=True)
        names = [name.strip().lower() for name in next(reader, [])]
        missing = [name for name in _NEEDED if name not in names]
        if missing:
            there = ", ".join(printable(name) for name in names if name) or "none"
            raise InvalidFile(
                path, f"the column {missing[0]} is missing; it has {there}", hint=f"required: {', '.join(_NEEDED)}"
            )
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InvalidFile(path, f"the column {printable(twice)} appears twice")
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(names):
                raise InvalidFile(path, f"{len(cells)} cells, expected {len(names)}", where=f"line {reader.line_num}")
            yield reader.line_num, dict(zip(names, (cell.strip() for cell in cells), strict=True))


def _checked(raw: Sequence[tuple[Path, int, dict[str, str]]], signed: Signed, *, prefixed: bool) -> Iterator[Trial]:
    """Return the rows as trials.

    Checks that answers and names are unique per person, and that each image has one class.
    """
    answered: dict[tuple[str, str], Trial] = {}
    numbered: dict[tuple[str, str, str], Trial] = {}
    shown: dict[str, Trial] = {}
    tokens = _Tokens()
    for path, line, row in raw:
        with in_file(path, where=f"line {line}"):
            for name in _NEEDED:
                if not row[name]:
                    raise InvalidValue(f"{name}: empty" + ("; write na if there was no answer" * (name == _NEEDED[1])))
            person = signed.person(row["subj"])
            prefix = _PREFIX.match(row["imagename"]) if prefixed else None
            trial = Trial(
                path=path,
                line=line,
                person=person,
                picture=row["imagename"][prefix.end() if prefix else 0 :],
                category=row["category"],
                response=row["object_response"],
                seconds=_seconds(row.get("rt", "")),
                condition=_condition(row.get("condition", "")),
            )
            if not trial.picture:
                raise InvalidValue(f"imagename: {printable(row['imagename'])!r} is not the name of an image")
            number = (person, row.get("session", ""), row.get("trial", ""))
            if number[2]:
                before = numbered.setdefault(number, trial)
                if before is not trial:
                    session = f" of session {printable(number[1])}" if number[1] else ""
                    raise InvalidValue(
                        f"trial {printable(number[2])}{session} of {printable(person)} also appears at {before.where}: "
                        "a file was given twice, or two people share a name; give each person a unique name (subj)"
                    )
            before = answered.setdefault((person, trial.picture), trial)
            if before is not trial:
                raise InvalidValue(
                    f"{printable(person)} already answered {printable(trial.picture)} at {before.where}; keep one of "
                    "the two rows, or use two names if they are two people"
                )
            before = shown.setdefault(trial.picture, trial)
            if before.category != trial.category:
                raise InvalidValue(
                    f"{printable(trial.picture)} has the category {printable(trial.category)} here and "
                    f"{printable(before.category)} at {before.where}; an image has one class"
                )
            if prefix is not None:
                tokens.check(prefix[1], row.get("session", ""), prefix[2], trial)
        yield trial


class _Tokens:
    """Check the subjects in image names: within one session of an experiment, s01 is always the same person."""

    def __init__(self) -> None:
        self._person: dict[tuple[str, str, str], Trial] = {}
        self._token: dict[tuple[str, str, str], tuple[str, Trial]] = {}

    def check(self, experiment: str, session: str, token: str, trial: Trial) -> None:
        if token == "dnn":  # noqa: S105 (replaces the person if a model saw the images)
            return
        before = self._person.setdefault((experiment, session, token), trial)
        if before.person != trial.person:
            raise InvalidValue(
                f"image names use {token} for {printable(trial.person)} here and for {printable(before.person)} at "
                f"{before.where}; use one name for one person"
            )
        other, first = self._token.setdefault((experiment, session, trial.person), (token, trial))
        if other != token:
            raise InvalidValue(
                f"image names for {printable(trial.person)} use {token} here and {other} at {first.where}; give "
                "each person a unique name (subj)"
            )


def _seconds(text: str) -> float | None:
    if text.lower() in ("", "na", "nan"):
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _LONGEST:
        raise InvalidValue(f"rt: expected seconds from 0 to {_LONGEST}, or NaN, got {printable(text)!r}")
    return seconds


def _condition(text: str) -> str:
    # In strobe, a control is an attention check. An experiment's control condition is something else.
    return "control condition" if text.lower() == "control" else text


def _find(folder: Path, pictures: Sequence[str]) -> dict[str, str]:
    """Return the file of every image below the folder, by its name with and without the prefix."""
    if not folder.is_dir():
        raise StrobeError(f"<<images>>: no such folder: {printable(folder)}")
    files: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            place = path.relative_to(folder).as_posix()
            for name in (path.name, _PREFIX.sub("", path.name, count=1)):
                files.setdefault(name, place)
    missing = [name for name in pictures if name not in files]
    if missing:
        raise StrobeError(
            f"<<images>>: {len(missing)} of {len(pictures)} images are not below {printable(folder)}, first "
            f"{printable(missing[0])}; give the folder that contains them, or remove <<images>>"
        )
    return {name: files[name] for name in pictures}


def read_into(source: Path, target: Path, *, files: TrialFiles, how: ImportOptions) -> ImportedDataset:
    """Import images that people named elsewhere, from the CSV of their trials. New answers are added to the dataset."""
    signed = Signed(person=Spellings([]).checked, at=NO_TIME)
    trials, made = read_trials(source, signed), list[ImportedDataset]()

    def make(how: ImportOptions) -> ImportedDataset:
        made.append(trials.imported(target, files=files, signed=signed, how=how))
        return made[-1]

    done = into(target, how if files.images is not None else replace(how, media="none", hints=False), make)
    names, there = (
        made[-1].dataset.names,
        {(answer.annotator, answer.frame_id): answer for answer in done.dataset.names},
    )
    for answer in names:
        before = there.get((answer.annotator, answer.frame_id), answer)
        if before.answer_id != answer.answer_id:
            raise StrobeError(
                f"{printable(target)} already has a different answer of {printable(answer.annotator)} to an image of "
                f"{printable(source)}; choose another folder, or remove this one first"
            )
    grown = folder.append_answers(target, "names", names)
    more = len(grown.names) - len(done.dataset.names)
    return ImportedDataset(dataset=grown, notes=(f"{more:,} answers were added", *made[-1].notes)) if more else done


FORMAT = ImportFormat(
    read=read_into,
    about="""Answers to "What is this?" given elsewhere. SRC is a CSV file, or a folder of CSV files.

    Each row is an answer. The columns are those of model-vs-human: subj, object_response, category, imagename, and
    optionally rt (seconds), condition, session, trial. na means that no answer came in time. Answers added to the CSV
    later are added to DST.
    """,
    example="human-trials/ data/edge --images stimuli/",
    options=(
        FormatOption(
            name="images",
            kind=Path,
            help="Folder of the images. Without it, only people and prediction files can be scored.",
        ),
        FormatOption(
            name="classes",
            kind=several_names,
            default="",
            help="All classes that people could choose, comma-separated. Default: the classes in the category column.",
        ),
        LABEL_SPACE,
    ),
    record=TrialFiles,
    whole=True,
)
