"""The folder of a training: its identity, checkpoint and curves, and the final move of its files into place."""

import hashlib
import io
import json
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch

from strobe.core.codec import LEFT_OUT, decode, encode
from strobe.core.errors import CannotWrite, InvalidFile, StrobeError, in_file, printable
from strobe.core.files import inside, read_json, write_bytes, write_json, write_text
from strobe.core.locks import LOCK, writing
from strobe.core.quoting import csv_text
from strobe.core.readers import read_torch
from strobe.core.swaps import Staged, settle, swapping

_ABOUT, _CHECKPOINT, _CURVES = "training.json", "checkpoint.pt", "curves.csv"

_HEAD = b"strobe checkpoint, sha256 "
"""The first bytes of a checkpoint, followed by its digest, a newline and torch's data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The state of training after `step` steps: mean loss since the previous point, and the held-out figures.

    The figures are `acc_orig` and `acc_pmk` for a classifier, and `map_orig` and `map_pmk` for a detector. A training
    without labels has `flicker`, and the accuracies only if some held-out sets have labels. For a generator, they are
    the shares of its samples and of held-out images that the discriminator classifies correctly. For an autoencoder,
    `explained` is the share of the variance of held-out images that reconstructions explain. For a loss over sets,
    `largest_loss` is the mean of each set's largest member loss, with the network in eval mode. `loss` is the minimised
    loss, in train mode.
    """

    step: int
    epoch: float
    seconds: float
    learning_rate: float
    loss: float | None
    acc_orig: float | None = field(default=None, metadata=LEFT_OUT)
    acc_pmk: float | None = field(default=None, metadata=LEFT_OUT)
    map_orig: float | None = field(default=None, metadata=LEFT_OUT)
    map_pmk: float | None = field(default=None, metadata=LEFT_OUT)
    samples_named: float | None = field(default=None, metadata=LEFT_OUT)
    held_out_named: float | None = field(default=None, metadata=LEFT_OUT)
    largest_loss: float | None = field(default=None, metadata=LEFT_OUT)
    flicker: float | None = field(default=None, metadata=LEFT_OUT)
    explained: float | None = field(default=None, metadata=LEFT_OUT)

    @property
    def named(self) -> dict[str, float]:
        """The figures by name."""
        found = {name: getattr(self, name) for name in FIGURES if getattr(self, name) is not None}
        if not found:
            raise StrobeError("a point of the training curves has no values")
        return found

    @property
    def figures(self) -> tuple[float, ...]:
        """The figures, whatever their names."""
        return tuple(self.named.values())


FIGURES = ("map_orig", "map_pmk", "samples_named", "held_out_named", "acc_orig", "acc_pmk", "flicker", "explained")
"""The possible names of a point's figures."""


def curves_csv(history: Sequence[Point]) -> str:
    """Return the points as a table. If a figure is missing from every point, it gets no column."""
    names = [
        one.name
        for one in fields(Point)
        if one.metadata != LEFT_OUT or any(getattr(point, one.name) is not None for point in history)
    ]
    return csv_text(names, ([_cell(getattr(point, name)) for name in names] for point in history))


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


class TrainFolder:
    """A folder in which one model is trained. `facts` determine its weights and identify the training."""

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        self.path, self.facts = path, json.loads(json.dumps(facts))
        self.name = hashlib.sha256(json.dumps(self.facts, sort_keys=True).encode()).hexdigest()[:16]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder, so that no other process trains in it. A new folder that stays empty is removed."""
        with writing(self.path):
            yield

    def is_done(self) -> bool:
        """Return whether this training is finished. Raises StrobeError if the folder belongs to another training."""
        settle(self.path, sweep=True)
        about = inside(self.path, _ABOUT)
        if about.is_file():
            stored = read_json(about)
            with in_file(about, hint="remove the folder to train again"):
                if not isinstance(stored, dict) or not isinstance(stored.get("facts"), dict):
                    raise StrobeError("not a file that strobe train wrote")
            if stored["facts"] != self.facts:
                raise StrobeError(
                    f"{printable(self.path)} contains another training ({_difference(stored['facts'], self.facts)}); "
                    "choose another folder, or use the settings it was started with to resume it"
                )
            return bool(stored.get("done"))
        other = [entry.name for entry in self.path.iterdir() if entry.name != LOCK]
        if other:
            first = printable(other[0])
            raise StrobeError(f"{printable(self.path)} contains other files ({first}); choose another folder")
        return False

    def begin(self, files: Mapping[str, str]) -> None:
        """Claim the folder for this training, with these files in it."""
        if (self.path / _ABOUT).is_file():
            return
        with swapping(self.path) as staged:
            for name, text in files.items():
                write_text(staged.root / name, text)
            write_json(staged.root / _ABOUT, {"format": 1, "name": self.name, "done": False, "facts": self.facts})

    def save(self, state: Mapping[str, Any], history: Sequence[Point]) -> None:
        """Write the checkpoint atomically."""
        buffer = io.BytesIO()  # torch's own writer does not report a full disk
        torch.save({"name": self.name, "history": encode(tuple(history)), **state}, buffer)
        content = buffer.getvalue()
        write_bytes(self.path / _CHECKPOINT, _HEAD + hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
        write_text(self.path / _CURVES, curves_csv(history))

    def load(self, *, device: str) -> tuple[dict[str, Any], list[Point]] | None:
        """Return the checkpoint and the points up to it, or None if there is no checkpoint."""
        path = inside(self.path, _CHECKPOINT)
        if not path.is_file():
            return None
        broken = InvalidFile(path, "not a readable checkpoint", hint="remove it to start again")
        try:
            state = read_torch(path, _content(path), device=device)
        except (StrobeError, pickle.UnpicklingError) as error:
            raise broken from error
        if not isinstance(state, dict) or state.get("name") != self.name:
            raise broken
        return state, list(decode(tuple[Point, ...], state["history"], where="history"))

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is a checkpoint to resume from."""
        return (self.path / _CHECKPOINT).is_file()

    def history(self) -> list[Point]:
        """Return the points of a finished training."""
        return list(decode(tuple[Point, ...], read_json(inside(self.path, _ABOUT)).get("history", []), where="history"))

    @contextmanager
    def finishing(self, history: Sequence[Point], more: Mapping[str, Any]) -> Iterator[Staged]:
        """Move the staged files into place, together with the marker that the training is finished."""
        about = {
            "format": 1,
            "name": self.name,
            "done": True,
            "facts": self.facts,
            **more,
            "history": encode(tuple(history)),
        }
        try:
            with swapping(self.path) as staged:
                yield staged
                write_text(staged.root / _CURVES, curves_csv(history))
                write_json(staged.root / _ABOUT, about)
                staged.remove(_CHECKPOINT)
        except CannotWrite as error:
            plain = re.sub(r"\.staging-[^/]*/put/", "", str(error))
            kept = "the checkpoint is kept, and " if self.has_checkpoint else ""
            raise CannotWrite(f"{plain}; {kept}run the same command again once the disk can be written") from error


def _content(path: Path) -> bytes:
    """Return torch's data in a checkpoint, after checking its digest."""
    head, _, content = path.read_bytes().partition(b"\n")
    if head != _HEAD + hashlib.sha256(content).hexdigest().encode():
        raise InvalidFile(
            path, "the file was changed after strobe wrote it (its digest differs)", hint="remove it to start again"
        )
    return content


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return the first setting in which two trainings differ."""
    for key in {**new, **old}:
        a, b = old.get(key), new.get(key)
        if isinstance(a, dict) and isinstance(b, dict) and a != b:
            return f"{key}.{_difference(a, b)}"
        if a != b:
            return f"{key}: {printable(a, limit=60)}, not {printable(b, limit=60)}"
    return "the same"
