"""Answers of models run by strobe: append-only Parquet shards per model, with each frame exactly once.

    frames/<frames_digest>.<digest>.parquet      id and pixels of every frame of the dataset with that frames_digest
    predictions/<model>/model.json               the facts that predictions depend on, and their key
    predictions/<model>/model-<key>.json         the same for an earlier checkpoint of this name
    predictions/<model>/<key>-<first>-<last>.<digest>.parquet
    predictions/<model>/<key>.journal            answers of a remote model, until they become a shard

The key is a digest of everything that can change a prediction, including the dataset's frames. Shards with another key
stay in the folder but are not read. If only the frames differ, answers to unchanged frames are used: a run stays valid
if its dataset grows or frames are replaced.

Answers 2 to N of a model that is asked N times (`--repeat`) have the key of the model with the fact `repeat`.

The digest covers the shard's content and is checked on every read. Older shards without a digest are given a digest
when their model is next run. model.json includes a digest of its own content.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from strobe.core.answers import Answers
from strobe.core.codec import decode
from strobe.core.errors import InvalidFile, StrobeError, in_file, printable
from strobe.core.files import inside, matching, read_json, sha256_of_file, write_json
from strobe.core.parquet import numbers_of, read_footer
from strobe.core.remote import Usage
from strobe.core.seals import read_numbered, with_digest, without_digest
from strobe.core.tasks import Task
from strobe.store.answer_tables import (
    SHARDS,
    AnswerShape,
    Columns,
    Rows,
    TablePart,
    damaged_columns,
    digest_in_name,
    read_columns,
    said_of,
    with_digest_in_name,
    write_named,
)
from strobe.store.frame_names import FrameNames
from strobe.store.journal import SUFFIX, Journal, JournalContent, damaged_lines, read_journal, spent_of, spent_text

SCHEMA = 1
KEY_FACTS = ("weights", "preprocessing", "kind", "projection", "merge", "decode")
"""The facts, other than the frames, that predictions depend on."""

_CHANGES = {"weights": "weights", "preprocessing": "preprocessing or a file it reads"}
"""Facts that identify a model, with their names in messages.

If one changes, it is a different model with the same name.
"""
_AGAIN = "remove it and run predict again"
_FOLD_ROWS = 4096
"""The number of frames after which a journal becomes a shard."""
_EVERY_BOX = "every"
"""The metadata key of a shard that includes boxes of classes outside the dataset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SpecFacts:
    kind: str
    label_space: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _ModelFacts:
    """The types of the facts in model.json that this module reads."""

    name: str
    key: str
    task: Literal["classification", "detection"]
    label_space: str
    kind: str
    weights: str
    preprocessing: Mapping[str, Any] | str | None
    projection: Any
    merge: Any
    decode: Any
    spec: _SpecFacts
    childless: tuple[str, ...] = ()


def prediction_key(facts: Mapping[str, Any]) -> str:
    """Return the digest of the facts that predictions depend on. Any change gives another key.

    >>> prediction_key({"weights": "a"}) == prediction_key({"weights": "b"})
    False
    """
    return hashlib.sha256(json.dumps(dict(facts), sort_keys=True, default=str).encode()).hexdigest()[:16]


def plain_name(name: str) -> str:
    """Return a model's name as a file name. If the name is not a valid file name, a digest is added at the end."""
    plain = re.sub(r"[^A-Za-z0-9._=-]+", "-", name).strip("-.")[:80]
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _folder(run: Path, name: str) -> Path:
    return inside(run, f"predictions/{plain_name(name)}")


def shard_models(run: Path) -> list[str]:
    """Return the names of the models that strobe ran in this run, sorted."""
    return sorted(_said(path)["name"] for path in matching(run, "predictions/*/model.json"))


def facts_of(run: Path, name: str) -> dict[str, Any]:
    """Return model.json of a model that strobe ran in this run."""
    path = inside(_folder(run, name), "model.json")
    if not path.is_file():
        known = ", ".join(shard_models(run)) or "none"
        raise StrobeError(f"{printable(run)} has no predictions of {printable(name)}; its models are {known}")
    return _said(path)


def _said(path: Path) -> dict[str, Any]:
    """Return a validated model.json."""
    facts = without_digest(path, read_numbered(path, SCHEMA, hint=_AGAIN), hint=_AGAIN)
    with in_file(path, hint=_AGAIN):
        decode(_ModelFacts, facts)
    return facts


def _read_or_none(path: Path) -> dict[str, Any] | None:
    """Return the unchecked content of model.json, or None if it does not exist or must be rewritten."""
    try:
        content = read_json(path) if path.is_file() else None
    except InvalidFile:
        return None
    return content if isinstance(content, dict) else None


class ModelShards:
    """One model's shards in a run folder."""

    def __init__(
        self,
        run: Path,
        name: str,
        *,
        facts: Mapping[str, Any],
        frames: FrameNames,
        task: Task,
        n_classes: int,
        every_box: bool = False,
        note: Callable[[str], None] | None = None,
    ) -> None:
        """With `every_box`, new shards include boxes of classes outside the dataset and record that they do.

        `note` receives a line about each shard that is removed because it is damaged.
        """
        self.folder, self.name, self.task = _folder(run, name), name, task
        self._held = {fact: facts[fact] for fact in KEY_FACTS}
        self._frames, self._n_classes = frames, n_classes
        self._said = {"boxes": _EVERY_BOX} if every_box else {}
        self.key = self._key(frames.digest)
        self._note = note
        self._checked: set[str] = set()
        self._journal: Journal | None = None

    def _key(self, frames_digest: str) -> str:
        return prediction_key({**self._held, "frames_digest": frames_digest})

    @classmethod
    def held(cls, run: Path, name: str, *, frames: FrameNames, n_classes: int) -> "ModelShards":
        """Return the shards of a model of the run, as described by its model.json."""
        facts = facts_of(run, name)
        made = {**facts, "kind": facts["spec"]["kind"]}  # the type of the model's output, not of the stored scores
        return cls(run, name, facts=made, frames=frames, task=Task(facts["task"]), n_classes=n_classes)

    def again(self, repeat: int) -> "ModelShards":
        """Return the store of the second, third, … answers, for frames that are asked several times."""
        other = copy(self)
        other._held = {**self._held, "repeat": repeat}
        other.key, other._journal = other._key(self._frames.digest), None
        return other

    @property
    def is_empty(self) -> bool:
        """Whether there are no answers to the dataset's frames."""
        return next(self._shards(), None) is None and next(self._journals(), None) is None

    def describe(self, facts: Mapping[str, Any]) -> str | None:
        """Write model.json.

        If an earlier file describes other answers, keep that file under another name and return a note.
        """
        content = json.loads(
            json.dumps({"schema": SCHEMA, "name": self.name, "key": self.key, "task": self.task, **facts})
        )
        path, line = inside(self.folder, "model.json"), None
        before = _read_or_none(path)
        changed = [fact for fact in _CHANGES if before is not None and before.get(fact) != content.get(fact)]
        if before is not None and changed:
            earlier = printable(str(before.get("weights"))[:12])
            reason = f"its {_CHANGES[changed[0]]} changed"
            line = f"{reason}; the predictions of the earlier checkpoint (weights {earlier}) are kept"
            write_json(self.folder / f"model-{before.get('key')}.json", before)
        if before not in (content, with_digest(content)):
            write_json(path, with_digest(content))
        (self.folder / f"model-{self.key}.json").unlink(missing_ok=True)  # an earlier checkpoint is used again
        return line

    def _shards(self) -> Iterator[tuple[Path, str]]:
        """Yield the files with this model's answers, each with its frames' digest.

        Files for the current frames come first.
        """
        for digest in (self._frames.digest, *self._frames.earlier):
            for path in matching(self.folder, f"{self._key(digest)}-*.parquet"):
                yield path, digest

    def stored(self, *, retry_errors: bool = False) -> tuple[NDArray[np.bool_], int]:
        """Return a mask (F,) of the frames with an answer, and the number of frames recorded as unreadable.

        Unreadable frames count as answered, so that they are not retried on every run. With `retry_errors`, they are
        first removed from their shards. A damaged shard is removed and predicted again. A shard without a digest is
        given a digest. A frame in two shards is an error. Journals become shards.
        """
        done = np.zeros(len(self._frames), dtype=bool)
        n_errors = 0
        self.fold()
        for left in self.folder.glob(".*.tmp"):
            left.unlink(
                missing_ok=True
            )  # left by a killed process; this process has the lock, so no other process is writing the file
        for path, digest in self._shards():
            try:
                table = self._table(path, ["frame_id", "error"])
                if retry_errors and table.column("error").null_count < len(table):
                    table = self._drop_errors(path)
                elif digest_in_name(path) is None:
                    path.rename(with_digest_in_name(path, sha256_of_file(path)))
            except InvalidFile:
                if path.is_dir():  # strobe did not make it, so it is not removed
                    raise
                path.unlink(missing_ok=True)
                if self._note is not None:
                    self._note(f"{printable(self.name)}: {path.name} was damaged; its frames are predicted again")
                continue
            places = self._places(path, table, digest, done)
            n_errors += int((places[~numbers_of(table.column("error").is_null())] >= 0).sum())
        return done, n_errors

    def _places(self, path: Path, table: Any, digest: str, done: NDArray[np.bool_]) -> Rows:
        """Return the row of each answer in a shard, and mark these rows as done. The row of an unused answer is −1."""
        named = re.match(r"[0-9a-f]+-(\d+)-", path.name)  # the name has the rows of the first and last frame
        places = self._frames.places(table, digest, near=int(named[1]) if named else 0)
        if digest != self._frames.digest:  # other states of the dataset may have predictions of the same frame
            places[(places >= 0) & done[places]] = -1
        rows = places[places >= 0]
        once = bool((rows[1:] > rows[:-1]).all()) or len(np.unique(rows)) == len(rows)
        again = rows[done[rows]] if once else rows
        if len(again):
            name = printable(self._frames.ids(again[:1])[0])
            raise InvalidFile(path, f"frame {name} is stored twice", hint="remove one of the two shards")
        done[rows] = True
        return places

    def _table(self, path: Path, columns: list[str] | None = None, *, needs: Sequence[str] = ()) -> pa.Table:
        """Return the shard's table, or some of its columns.

        Raise InvalidFile if its content does not match its digest.
        """
        digest = None if path.name in self._checked else digest_in_name(path)
        table = read_columns(path, columns, needs=needs, hint=_AGAIN, sha256=digest)
        self._checked.add(path.name)
        return table

    def _drop_errors(self, path: Path) -> pa.Table:
        """Rewrite the shard without the unreadable frames and return the rest."""
        table = self._table(path)
        remaining = table.filter(table.column("error").is_null())
        if not len(remaining):
            path.unlink()
            return remaining
        columns = dict(zip(remaining.column_names, remaining.columns, strict=True))
        write_named(path, columns, said_of(remaining.schema.metadata))
        return remaining

    def write(self, rows: Rows, answers: Answers, *, device: str = "") -> Path:
        """Add a shard with the answers to these frames (ascending), atomically. It records the `device`."""
        path = self.folder / f"{self.key}-{int(rows[0]):08d}-{int(rows[-1]):08d}.parquet"
        return write_named(path, *self._content(rows, answers, device))

    def _content(self, rows: Rows, answers: Answers | None, device: str) -> tuple[Columns, dict[str, str]]:
        """Return the columns and the metadata of a shard with these answers."""
        columns: Columns = {"frame_id": pa.array([] if answers is None else self._frames.ids(rows), pa.string())}
        if answers is not None:
            if answers.reasons:
                self._frames.check_dataset()
            columns |= SHARDS[self.task].columns(answers, np.arange(len(rows)))
        on = {"device": device} if device else {}
        return columns, {"key": self.key, "schema": str(SCHEMA), **self._said, **on}

    def append(self, rows: Rows, answers: Answers | None, used: Usage, *, device: str = "") -> None:
        """Add the answers to these frames to the journal, with what their requests used. They survive a kill.

        Without answers, only the usage is added. After some thousand frames, the journal becomes a shard.
        """
        if self._journal is None:
            self._journal = Journal(inside(self.folder, f"{self.key}{SUFFIX}"))
        self._journal.add(*self._content(rows, answers, device), used)
        if self._journal.n_rows >= _FOLD_ROWS:
            self.fold()

    def _journals(self) -> Iterator[tuple[Path, str]]:
        """Yield the journals of this model, each with its frames' digest."""
        for digest in (self._frames.digest, *self._frames.earlier):
            path = inside(self.folder, f"{self._key(digest)}{SUFFIX}")
            if path.is_file():
                yield path, digest

    def fold(self) -> None:
        """Write the answers of each journal as a shard and remove the journal.

        A kill between these two steps does no harm: answers that a shard already has are not written again. A damaged
        line is reported, and its frames are asked again.
        """
        open_one, self._journal = self._journal, None
        known = {} if open_one is None else {open_one.path: open_one.close()}
        for path, digest in self._journals():
            content = known.get(path) or read_journal(path)
            if content.damaged and self._note is not None:
                self._note(f"{printable(self.name)}: {path.name}: {damaged_lines(content)}; the frames are asked again")
            self._write_journal(content, digest)
            path.unlink(missing_ok=True)

    def _write_journal(self, content: JournalContent, digest: str) -> None:
        """Write the frames of a journal that are in no shard as a shard, in the order of the frames."""
        key, known = self._key(digest), set()
        for path in matching(self.folder, f"{key}-*.parquet"):
            with suppress(InvalidFile):  # `stored` removes a damaged shard, and its frames are asked again
                known.update(self._table(path, ["frame_id"]).column("frame_id").to_pylist())
        if content.table is None:
            return
        names = content.table.column("frame_id").to_pylist()
        first = {name: place for place, name in reversed(list(enumerate(names))) if name not in known}
        if not first:
            return
        table = content.table.take(sorted(first.values()))
        places = self._frames.places(table, digest)
        order = np.argsort(places, kind="stable")
        table, places = table.take(order), np.maximum(places[order], 0)
        said = said_of(table.schema.metadata) | {"spent": spent_text(content.used)}
        columns = dict(zip(table.column_names, table.columns, strict=True))
        path = self.folder / f"{key}-{int(places[0]):08d}-{int(places[-1]):08d}.parquet"
        write_named(path, columns, said)

    def spent(self) -> Usage:
        """Return what the requests for the stored answers used."""
        shards = [spent_of(read_footer(path, hint=_AGAIN).metadata) for path, _ in self._shards()]
        return sum((read_journal(path).used for path, _ in self._journals()), sum(shards, Usage()))

    def read(self, *, kind: str = "logits", every_box: bool = False) -> Answers:
        """Merge all shards. Raise an error if a frame occurs twice. `kind` is the type of the scores.

        With `every_box`, include the boxes of classes outside the dataset. Earlier versions did not store them.
        """
        done = np.zeros(len(self._frames), dtype=bool)
        shape = AnswerShape(
            model=self.name, kind=kind, n_frames=len(self._frames), n_classes=self._n_classes, every_box=every_box
        )

        def pieces() -> Iterator[TablePart]:
            # The journals are read first: a writer may turn them into shards in the meantime.
            journals = [(path, digest, read_journal(path)) for path, digest in self._journals()]
            for path, digest in self._shards():
                table = self._table(path, needs=["frame_id", "error"])
                if every_box and (table.schema.metadata or {}).get(b"strobe.boxes") != _EVERY_BOX.encode():
                    raise InvalidFile(
                        path, "an earlier version did not store boxes of classes outside the dataset", hint=_AGAIN
                    )
                with damaged_columns(path, hint=_AGAIN):
                    places = self._places(path, table, digest, done)
                    shape.reasons.update(_reasons(table, places))
                yield TablePart(path, table, places)
            for path, digest, content in journals:
                if content.damaged:
                    raise InvalidFile(path, damaged_lines(content), hint="run the same predict command again")
                if content.table is not None:
                    with damaged_columns(path, hint=_AGAIN):
                        places = self._frames.places(content.table, digest)
                        places[(places >= 0) & done[places]] = -1  # a shard has them, too
                        done[places[places >= 0]] = True
                        shape.reasons.update(_reasons(content.table, places))
                    yield TablePart(path, content.table, places)

        return SHARDS[self.task].read(shape, pieces(), hint=_AGAIN)


def _reasons(table: pa.Table, places: Rows) -> dict[int, str]:
    """Return why frames have no answer, by the dataset's row."""
    if table.column("error").null_count == len(table):
        return {}
    reasons = zip(places.tolist(), table.column("error").to_pylist(), strict=True)
    return {place: why for place, why in reasons if place >= 0 and why is not None}
