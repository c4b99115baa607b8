"""The folder of a training: what names it, its checkpoint, its curves, and the swap that ends it."""

import csv
import hashlib
import io
import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from strobe.core.codec import decode, encode
from strobe.core.errors import InvalidFile, StrobeError, in_file, printable
from strobe.core.files import read_json, write_bytes, write_json, write_text
from strobe.core.inside import inside
from strobe.core.locks import LOCK, writing
from strobe.core.swaps import Staged, settle, swapping

__all__ = ["Point", "TrainFolder", "curves_csv"]

_ABOUT, _CHECKPOINT, _CURVES = "training.json", "checkpoint.pt", "curves.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Where training stood after `step` steps: mean loss since the point before, shares right on the held-out side.

    Of a detector `acc_orig` and `acc_pmk` are mAP on anchors and on worst frames.
    """

    step: int
    epoch: float
    seconds: float
    learning_rate: float
    loss: float | None
    acc_orig: float
    acc_pmk: float


def curves_csv(history: Sequence[Point]) -> str:
    """The points as a table."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [one.name for one in fields(Point)]
    writer.writerow(names)
    writer.writerows([_cell(getattr(point, name)) for name in names] for point in history)
    return text.getvalue()


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


class TrainFolder:
    """A folder one model is trained in. `facts` are all that its weights follow from; they name the training."""

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        self.path, self.facts = path, json.loads(json.dumps(facts))
        self.name = hashlib.sha256(json.dumps(self.facts, sort_keys=True).encode()).hexdigest()[:16]

    @contextmanager
    def held(self) -> Iterator[None]:
        """While open no other process trains in the folder; a new one that nothing was written to goes again."""
        with writing(self.path):
            yield

    def is_done(self) -> bool:
        """Whether this training is finished already; raises StrobeError where the folder is another's."""
        settle(self.path, sweep=True)
        about = inside(self.path, _ABOUT)
        if about.is_file():
            told = read_json(about)
            with in_file(about, hint="remove the folder to train anew"):
                if not isinstance(told, dict) or not isinstance(told.get("facts"), dict):
                    raise StrobeError("not what strobe train writes")
            if told["facts"] != self.facts:
                raise StrobeError(
                    f"{printable(self.path)} holds another training ({_difference(told['facts'], self.facts)}); "
                    "choose another folder, or give the settings it was begun with to go on"
                )
            return bool(told.get("done"))
        other = [entry.name for entry in self.path.iterdir() if entry.name != LOCK]
        if other:
            first = printable(other[0])
            raise StrobeError(f"{printable(self.path)} holds other files ({first}); choose another folder")
        return False

    def begin(self, files: Mapping[str, str]) -> None:
        """Make the folder this training's, with these files in it."""
        if (self.path / _ABOUT).is_file():
            return
        with swapping(self.path) as staged:
            for name, text in files.items():
                write_text(staged.root / name, text)
            write_json(staged.root / _ABOUT, {"format": 1, "name": self.name, "done": False, "facts": self.facts})

    def save(self, state: Mapping[str, Any], history: Sequence[Point]) -> None:
        """Write the checkpoint, whole or not at all."""
        buffer = io.BytesIO()  # torch's own writer does not say when a disk is full
        torch.save({"name": self.name, "history": encode(tuple(history)), **state}, buffer)
        write_bytes(self.path / _CHECKPOINT, buffer.getvalue())
        write_text(self.path / _CURVES, curves_csv(history))

    def load(self, *, device: str) -> tuple[dict[str, Any], list[Point]] | None:
        """The checkpoint and the points up to it; None where there is none yet."""
        path = inside(self.path, _CHECKPOINT)
        if not path.is_file():
            return None
        broken = InvalidFile(path, "not a checkpoint that can be read", hint="remove it to begin anew")
        try:
            state = torch.load(path, map_location=device, weights_only=True)
        except (RuntimeError, EOFError, ValueError, OSError, KeyError, pickle.UnpicklingError) as error:
            raise broken from error
        if not isinstance(state, dict) or state.get("name") != self.name:
            raise broken
        return state, list(decode(tuple[Point, ...], state["history"], where="history"))

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is one to go on from."""
        return (self.path / _CHECKPOINT).is_file()

    def history(self) -> list[Point]:
        """The points of a finished training."""
        return list(decode(tuple[Point, ...], read_json(inside(self.path, _ABOUT)).get("history", []), where="history"))

    @contextmanager
    def finishing(self, history: Sequence[Point], more: Mapping[str, Any]) -> Iterator[Staged]:
        """What is written to the staged folder takes its place together with the word that the training is done."""
        about = {
            "format": 1,
            "name": self.name,
            "done": True,
            "facts": self.facts,
            **more,
            "history": encode(tuple(history)),
        }
        with swapping(self.path) as staged:
            yield staged
            write_text(staged.root / _CURVES, curves_csv(history))
            write_json(staged.root / _ABOUT, about)
            staged.remove(_CHECKPOINT)


def _difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The first setting in which two trainings differ."""
    for key in {**new, **old}:
        a, b = old.get(key), new.get(key)
        if isinstance(a, dict) and isinstance(b, dict) and a != b:
            return f"{key}.{_difference(a, b)}"
        if a != b:
            return f"{key}: {printable(a, limit=60)}, not {printable(b, limit=60)}"
    return "the same"
