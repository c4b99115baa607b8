"""Parse the models after -m in one place: provider:name, NAME=…, globs, testbeds, files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from strobe.core.answers import Answers
from strobe.core.errors import StrobeError, expect, printable
from strobe.core.ports import Classifier, Detector
from strobe.models.options import LoadOptions
from strobe.models.registry import expand
from strobe.models.testbed import entries, is_testbed
from strobe.models.views import View, inner_specs, view_of, with_inner

__all__ = ["RequestedModel", "requested_models", "split_name"]


@dataclass(frozen=True, slots=True)
class RequestedModel:
    """A requested model: its name in the run, and its source.

    A Python program may pass a live model (`live` loads it with the load options) or its `answers` directly. A `helper`
    runs only because another model needs it.
    """

    name: str
    spec: str
    live: Callable[[LoadOptions], Classifier | Detector] | None = field(default=None, compare=False)
    answers: Answers | None = field(default=None, compare=False)
    helper: bool = field(default=False, compare=False)

    @property
    def view(self) -> View | None:
        """The view it describes, if it combines two models. None for a single model."""
        return None if self.live is not None or self.answers is not None else view_of(self.spec)

    @property
    def is_brought(self) -> bool:
        """Whether its answers already exist, in a file or in memory, so it is not run here."""
        return self.file is not None or self.answers is not None

    @property
    def file(self) -> Path | None:
        """The file of its answers, if it is not run here."""
        return Path(self.spec.removeprefix("preds:")) if self.spec.startswith("preds:") else None


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


def requested_models(models: Sequence[str | RequestedModel], *, trust: bool = False) -> list[RequestedModel]:
    """Return every requested model once. Globs and testbeds are expanded, each under its given or its own name.

    Another person's list may name a `py:` file, whose code would run, so this is refused without `trust`.
    """
    found: dict[str, RequestedModel] = {}
    for text in models:
        if isinstance(text, RequestedModel):
            expect(text.name not in found, "models", "a name of its own for each", text.name)
            found[text.name] = text
            continue
        given, spec = split_name(text)
        if spec.startswith("preds:"):
            specs, names = [spec], [given or Path(spec.removeprefix("preds:")).stem]
        else:
            specs = _spelled_out(spec)
            code = next((one for one in specs if _runs_code(one)), None) if is_testbed(spec) else None
            if code is not None and not trust:
                raise StrobeError(
                    f"{printable(spec)} names {printable(code)}, which would run the code of that file; give --trust "
                    "if you trust the list, or name the model with -m"
                )
            if given is not None and len(specs) != 1:
                raise StrobeError(f"{printable(text)}: a name is for one model, and these are {len(specs)}")
            names = specs if given is None else [given]
        for name, one in zip(names, specs, strict=True):
            # Names come from outside and reach terminals, tables and pages, so no control character may pass.
            model = RequestedModel(printable(name).strip() or "model", one)
            if found.setdefault(model.name, model) != model:
                raise StrobeError(f"two models are called {model.name}; name them with -m NAME=SPEC")
    expect(bool(found), "models", "at least one", list(models))
    return list(found.values())


def _spelled_out(spec: str) -> list[str]:
    """Return the models of a list, or those that match a glob. For a view, the glob applies to the model at its end."""
    if is_testbed(spec):
        return [entry.model for entry in entries(spec) if entry.model]
    if view_of(spec) is None:
        return expand([spec])
    return [with_inner(spec, one) for one in expand([list(inner_specs(spec))[-1]])]


def _runs_code(spec: str) -> bool:
    return any(one.startswith("py:") for one in inner_specs(spec))
