"""The papers' classifiers in today's provider names, shipped as a file; files of your own work the same way."""

import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from strobe.core.errors import InvalidFile, StrobeError, printable

__all__ = ["Entry", "entries", "is_testbed", "tags_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row of a testbed: the papers' name, the model here (empty where no weights are public), its type.

    `standard` says whether it counts for the trend: trained on ILSVRC-2012 alone, with no robustness intervention.
    """

    paper_name: str
    model: str
    model_type: str
    standard: bool
    note: str = ""


def is_testbed(text: str) -> bool:
    """Whether the model is written @testbed or @file.toml."""
    return text.startswith("@")


def entries(text: str = "@testbed") -> list[Entry]:
    """The rows of the shipped testbed, or of a TOML file of the same shape."""
    name = text.removeprefix("@")
    try:
        if name == "testbed":
            content = (resources.files("strobe.models") / "testbed.toml").read_text(encoding="utf-8")
        else:
            content = Path(name).read_text(encoding="utf-8")
        rows = tomllib.loads(content)["model"]
        return [
            Entry(
                paper_name=row["paper_name"],
                model=row.get("model", ""),
                model_type=row["model_type"],
                standard=bool(row["standard"]),
                note=row.get("note", ""),
            )
            for row in rows
        ]
    except FileNotFoundError as error:
        raise StrobeError(
            f"no such testbed: {printable(text)}; write @testbed for the shipped one, or @FILE.toml"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidFile(name, f"not TOML ({printable(error, limit=100)})") from error
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"expected [[model]] tables with paper_name, model_type, standard and model ({printable(error)})"
        raise InvalidFile(name, problem) from error


def tags_of(model: str) -> tuple[str | None, bool]:
    """The type of a model and whether it is standard for the trend, where the shipped testbed or the bundle knows.

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
