"""Lists of models in TOML: your own lists, and a shipped list of the papers' classifiers under current names.

A row of your own list needs only `model`. It may also have a name and settings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from strobe.core.errors import InvalidFile, StrobeError, UnknownName, in_file, printable
from strobe.core.files import regular, toml_of
from strobe.models.forms import declared_form
from strobe.models.options import ModelSettings
from strobe.models.providers import SETTINGS, bundled

_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("model", "name", "paper_name", "model_type", "note", "get"), (str,)),
    "standard": (bool,),
    **dict.fromkeys(("precision", "backend", "decode", "prompt", "model_settings"), (str,)),
    "compile": (bool,),
    **dict.fromkeys(("image_size", "batch_size"), (int,)),
    **dict.fromkeys(("limits", "form"), (dict,)),
    "form_of": (str,),
}
"""The keys of a row and the kind of each."""

_WORDS = {str: "a text", bool: "true or false", int: "a whole number", dict: "a table"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row of a model list: the model, its name in a run, and its settings.

    The shipped testbed also has the papers' name, the model's type and a note. `model` is empty if no provider has its
    weights; `get` then names a public file or the training that makes one. `standard` marks models that count for the
    trend: trained on ILSVRC-2012 alone, with no robustness intervention. `form` is what the row declares about a
    form of another model (`models.forms`).
    """

    model: str
    name: str = ""
    paper_name: str = ""
    model_type: str = ""
    standard: bool = False
    note: str = ""
    get: str = ""
    settings: ModelSettings = field(default_factory=ModelSettings)
    form: Mapping[str, str] = field(default_factory=dict)


def is_testbed(text: str) -> bool:
    """Return whether the model is written @testbed or @file.toml."""
    return text.startswith("@")


def entries(text: str = "@testbed") -> list[Entry]:
    """Return the rows of the shipped testbed, or of your own TOML file with a `model` in each [[model]] table."""
    name = text.removeprefix("@")
    try:
        if name == "testbed":
            content = (resources.files("strobe.models") / "testbed.toml").read_text(encoding="utf-8")
        else:
            content = regular(Path(name)).read_text(encoding="utf-8")
        rows = toml_of(content).get("model")
    except FileNotFoundError as error:
        raise StrobeError(
            f"there is no testbed {printable(text)}; write @testbed for the shipped one, or @FILE.toml"
        ) from error
    except IsADirectoryError as error:
        what = f"{printable(text)} is a folder" if name else "no file after @"
        raise StrobeError(f"{what}; write @testbed for the shipped testbed, or @FILE.toml") from error
    except OSError as error:
        raise StrobeError(f"cannot read {printable(name)}: {error.strerror}") from error
    # not TOML, not text, numbers of thousands of digits, or nested too deep
    except ValueError as error:
        raise InvalidFile(name, f"not TOML ({printable(error, limit=100)})") from error
    if not isinstance(rows, list) or not rows:
        raise InvalidFile(name, 'expected [[model]] tables, each with model = "provider:name"')
    return [entry(row, name, where=f"[[model]] {index}") for index, row in enumerate(rows, start=1)]


def entry(row: object, name: str, *, where: str) -> Entry:
    """Return a row of a list after checking its keys and values. `name` and `where` locate the row in messages."""
    if not isinstance(row, dict) or "model" not in row:
        raise InvalidFile(name, 'expected model = "provider:name"', where=where)
    row = {"batch_size" if key == "batch" else key: value for key, value in row.items()}
    for key, value in row.items():
        if key not in _KINDS:
            raise UnknownName(f"key in {printable(name)}, {printable(where)}:", key, _KINDS)
        if type(value) not in _KINDS[key]:
            raise InvalidFile(name, f"{key}: expected {_WORDS[_KINDS[key][0]]}", where=where)
    own = {key: row.pop(key) for key in SETTINGS if key in row}
    row["form"] = declared_form(row, name)
    row.pop("form_of", None)
    with in_file(name, where=where):
        return Entry(**row, settings=ModelSettings(**own))


def tags_of(model: str) -> tuple[str | None, bool]:
    """Return a model's type and whether it is standard for the trend, if the shipped testbed or the bundle lists it.

    >>> tags_of("torchvision:resnet50/IMAGENET1K_V1")
    ('Trained on ILSVRC', True)
    >>> tags_of("py:mine.py:make")
    (None, False)
    """
    provider = None if ":" in model else bundled().get(model)
    if provider is not None and provider.standard:
        return "Trained on ILSVRC", True
    for row in entries("@testbed"):
        if row.model and row.model == model:
            return row.model_type, row.standard
    return None, False
