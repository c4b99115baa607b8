"""Parse the name of a model, `[NAME=]provider:model[@FILE or URL]`. No other module parses it.

`strobe.models.views` parses combinations of two models (`crop:`, `boxes:`), from the part after `NAME=`.
"""

import re
from dataclasses import dataclass

__all__ = ["FORMS", "Form", "ModelText", "is_address", "is_pattern", "split_name", "split_text"]

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form of model string without a provider: its meaning and an example, as `strobe models` prints them."""

    scheme: str
    example: str
    what: str


FORMS = (
    Form(
        scheme="boxes",
        example="boxes:strobe-tiny",
        what="a detector as a classifier, from its stored boxes; also boxes-sum:, boxes-noisyor:",
    ),
    Form(
        scheme="crop",
        example="crop:truth:strobe-world",
        what="a classifier on each frame cropped to a true or a detected box; options such as context=1.5",
    ),
    Form(
        scheme="preds",
        example="preds:scores.json",
        what="your own predictions, as JSON, JSONL, CSV or Parquet",
    ),
)
"""The forms that need a dataset's frames or name a file of predictions, in display order."""


@dataclass(frozen=True, slots=True)
class ModelText:
    """The parts of a model string. `name` and `at` are None if absent. `provider` is empty for a bundled model."""

    name: str | None
    provider: str
    model: str
    at: str | None

    @property
    def text(self) -> str:
        """The model string.

        >>> ModelText("mine", "timm", "resnet50", "w.pt").text
        'mine=timm:resnet50@w.pt'
        """
        head = "" if self.name is None else f"{self.name}="
        scheme = f"{self.provider}:" if self.provider else ""
        return head + scheme + self.model + ("" if self.at is None else f"@{self.at}")


def split_name(text: str) -> tuple[str | None, str]:
    """Split `NAME=SPEC` or `SPEC` into the name, if given, and the spec.

    >>> split_name("mine=preds:scores.json"), split_name("a=py:f.py:make"), split_name("preds:k=3.json")
    (('mine', 'preds:scores.json'), ('a', 'py:f.py:make'), (None, 'preds:k=3.json'))
    """
    name, mark, spec = text.partition("=preds:")
    if mark and name:
        return name, f"preds:{spec}"
    name, mark, spec = text.partition("=")
    return (name, spec) if mark and name and spec and not set(name) & set(":@/\\*?[") else (None, text)


def split_text(text: str) -> ModelText:
    """Split a model string into its parts. The first @ begins the file or address, and the first : ends the provider.

    >>> split_text("timm:resnet50@https://example.org/w.safetensors").at
    'https://example.org/w.safetensors'
    >>> split_text("a=efficientnet-lite0")
    ModelText(name='a', provider='', model='efficientnet-lite0', at=None)
    """
    name, spec = split_name(text)
    body, mark, at = spec.partition("@")
    provider, colon, model = body.partition(":")
    if not colon or not provider:  # it is a bundled model
        provider, model = "", body
    return ModelText(name, provider, model, at if mark else None)


def is_address(text: str) -> bool:
    """Return whether the part after @ is an address and not a file.

    >>> is_address("https://example.org/w.pt"), is_address("C:/w.pt")
    (True, False)
    """
    return _ADDRESS.match(text) is not None


def is_pattern(text: str) -> bool:
    """Return whether the text has a wildcard: *, ? or [."""
    return any(sign in text for sign in "*?[")
