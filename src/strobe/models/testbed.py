"""The papers' classifiers under current provider names, as a shipped file. Your own list needs only `model`."""

import tomllib
from dataclasses import dataclass, fields
from importlib import resources
from pathlib import Path

from strobe.core.errors import InvalidFile, StrobeError, UnknownName, printable

__all__ = ["Entry", "entries", "is_testbed", "tags_of"]

_WORDS = {str: "a text", bool: "true or false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A testbed row: the papers' name, the model here (empty where no weights are public), its type.

    `standard` marks models that count for the trend: trained on ILSVRC-2012 alone, with no robustness intervention.
    """

    model: str
    paper_name: str = ""
    model_type: str = ""
    standard: bool = False
    note: str = ""


def is_testbed(text: str) -> bool:
    """Return whether the model is written @testbed or @file.toml."""
    return text.startswith("@")


def entries(text: str = "@testbed") -> list[Entry]:
    """Return the rows of the shipped testbed, or of your own TOML file with a `model` in each [[model]] table."""
    name = text.removeprefix("@")
    known = {field.name: bool if field.name == "standard" else str for field in fields(Entry)}
    try:
        if name == "testbed":
            content = (resources.files("strobe.models") / "testbed.toml").read_text(encoding="utf-8")
        else:
            content = Path(name).read_text(encoding="utf-8")
        rows = tomllib.loads(content).get("model")
    except FileNotFoundError as error:
        raise StrobeError(
            f"no such testbed: {printable(text)}; write @testbed for the shipped one, or @FILE.toml"
        ) from error
    except IsADirectoryError as error:
        what = f"{printable(text)} is a folder" if name else "no file after @"
        raise StrobeError(f"{what}; write @testbed for the shipped testbed, or @FILE.toml") from error
    except OSError as error:
        raise StrobeError(f"cannot read {printable(name)}: {error.strerror}") from error
    # not TOML, not text, numbers of thousands of digits, or nested too deep
    except (ValueError, RecursionError) as error:
        raise InvalidFile(name, f"not TOML ({printable(error, limit=100)})") from error
    if not isinstance(rows, list) or not rows:
        raise InvalidFile(name, 'expected [[model]] tables, each with model = "provider:name"')
    for place, row in enumerate(rows, start=1):
        if not isinstance(row, dict) or "model" not in row:
            raise InvalidFile(name, 'expected model = "provider:name"', where=f"[[model]] {place}")
        for key, value in row.items():
            if key not in known:
                raise UnknownName(f"key in {printable(name)}, [[model]] {place}:", key, known)
            if not isinstance(value, known[key]):
                raise InvalidFile(name, f"{key}: expected {_WORDS[known[key]]}", where=f"[[model]] {place}")
    return [Entry(**row) for row in rows]


def tags_of(model: str) -> tuple[str | None, bool]:
    """Return a model's type and whether it is standard for the trend, if the shipped testbed or the bundle lists it.

    >>> tags_of("torchvision:resnet50/IMAGENET1K_V1")
    ('Trained on ILSVRC', True)
    >>> tags_of("py:mine.py:make")
    (None, False)
    """
    if model.startswith("efficientnet-lite") and "@" not in model:
        return "Trained on ILSVRC", True
    for entry in entries("@testbed"):
        if entry.model and entry.model == model:
            return entry.model_type, entry.standard
    return None, False
