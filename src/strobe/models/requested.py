"""The models after -m: names, globs, lists and files become one record per model. `grammar` parses the text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from strobe.core.answers import Answers
from strobe.core.errors import ModelFailed, StrobeError, expect, printable
from strobe.core.ports import Classifier, Detector
from strobe.models.crops import of_crops
from strobe.models.grammar import (
    BoxesView,
    CropView,
    RemedyView,
    View,
    inner_specs,
    is_address,
    split_name,
    split_text,
    view_of,
    with_inner,
)
from strobe.models.options import LoadOptions, ModelSettings
from strobe.models.providers import SETTINGS
from strobe.models.registry import MODELS, expand, files_of, load_model, parse
from strobe.models.testbed import Entry, entries, entry, is_testbed


@dataclass(frozen=True, slots=True)
class RequestedModel:
    """A requested model: its name in the run, its source, and its own settings.

    A Python program may pass a live model (`live` loads it with the load options) or its `answers` directly. A `helper`
    runs only because another model needs it. `form` is what a row of a list declares (`models.forms`).
    """

    name: str
    spec: str
    settings: ModelSettings = field(default_factory=ModelSettings)
    live: Callable[[LoadOptions], Classifier | Detector] | None = field(default=None, compare=False)
    answers: Answers | None = field(default=None, compare=False)
    helper: bool = field(default=False, compare=False)
    form: Mapping[str, str] = field(default_factory=dict)

    @property
    def view(self) -> View | None:
        """The view that its spec describes, if it combines two models; None for a single model."""
        return None if self.live is not None or self.answers is not None else view_of(self.spec)

    @property
    def loaded(self) -> str:
        """The model string to load: its spec without the part that names its crop."""
        return self.view.classifier if isinstance(self.view, CropView) else self.spec

    @property
    def takes(self) -> tuple[str, ...]:
        """The settings of a model list that its provider takes; every setting for a model that a program passed."""
        if self.is_brought or isinstance(self.view, BoxesView | RemedyView):
            return ()
        if self.live is not None:
            return SETTINGS
        provider = MODELS.provider_of(parse(self.loaded))
        return (*provider.settings, "model_settings") if provider.model_settings else provider.settings

    @property
    def known_settings(self) -> tuple[str, ...]:
        """The settings that it takes; none if its name is wrong, which is reported when it is loaded."""
        try:
            return self.takes
        except StrobeError:
            return ()

    def load_options(self, load: LoadOptions) -> LoadOptions:
        """Return its own load options. Options for remote models do not apply to a model that does not take them."""
        if (load.prompt, load.limits) != (None, None):
            takes = self.known_settings
            prompt, limits = load.prompt if "prompt" in takes else None, load.limits if "limits" in takes else None
            load = replace(load, prompt=prompt, limits=limits)
        return self.settings.applied(load)

    def load(self, options: LoadOptions) -> Classifier | Detector:
        """Return the loaded model."""
        return load_model(self.loaded, options) if self.live is None else self.live(options)

    @property
    def is_remote(self) -> bool:
        """Whether its name has an address, so that it is asked over a network."""
        if self.live is not None or self.is_brought or self.view is not None:
            return False
        at = split_text(self.spec).at
        return at is not None and is_address(at)

    @property
    def is_brought(self) -> bool:
        """Whether its answers already exist, in a file or in memory, so that strobe does not run it."""
        return self.file is not None or self.answers is not None

    @property
    def file(self) -> Path | None:
        """The file of its answers, if strobe does not run it."""
        return Path(self.spec.removeprefix("preds:")) if self.spec.startswith("preds:") else None


def requested_models(
    models: Sequence[str | Mapping[str, Any] | RequestedModel], *, trust: bool = False
) -> list[RequestedModel]:
    """Return every requested model once. Globs and lists are expanded. Each model has its given name or its own name.

    A mapping is a row of a list. Another person's list may name a `py:` file, whose code would run, so such a list is
    refused without `trust`.
    """
    by_name: dict[str, RequestedModel] = {}
    for text in models:
        if isinstance(text, RequestedModel):
            expect(text.name not in by_name, "models", "a different name for each", text.name)
            by_name[text.name] = text
            continue
        for model in _read(text, trust=trust):
            if by_name.setdefault(model.name, model) != model:
                raise StrobeError(
                    f'two models are called {model.name}; name them with -m NAME=SPEC, or name = "…" in a list'
                )
    expect(bool(by_name), "models", "at least one", list(models))
    return _with_sources(list(by_name.values()))


def _with_sources(models: Sequence[RequestedModel]) -> list[RequestedModel]:
    """Return the models, each remedy after the model that it is for, which is a model of the results, too.

    A source that is no model string must be the name of a model of the run.
    """
    known = {text: model for model in models for text in (model.name, model.spec)}
    out: dict[str, RequestedModel] = {}

    def add(model: RequestedModel) -> None:
        if model.name in out:
            return
        if isinstance(model.view, RemedyView):
            if model.view.source not in known and _is_model(model.view.source):
                known[model.view.source] = RequestedModel(model.view.source, model.view.source)
            source = known.get(model.view.source)
            if source is not None and source is not model:
                add(source)
            if model.view.remedy.rule.looks:
                model = _with_crops(model, model.view, source)
        out[model.name] = model

    for model in models:
        add(model)
    return list(out.values())


def _with_crops(model: RequestedModel, view: RemedyView, source: RequestedModel | None) -> RequestedModel:
    """Return a model that sees crops: another one is loaded, and asked about crops of each frame."""
    if source is None or source.is_brought or source.view is not None:
        raise ModelFailed(f"{view.remedy.text}: its model must be a classifier that this command runs")
    return replace(model, settings=source.settings, live=partial(of_crops, view.remedy, source.name, source.load))


def _is_model(spec: str) -> bool:
    try:
        return view_of(spec) is not None or bool(parse(spec))
    except StrobeError:
        return False


def _read(text: str | Mapping[str, Any], *, trust: bool) -> list[RequestedModel]:
    """Return the models of one -m option: the models of a list, a row or a glob, or a single model."""
    if isinstance(text, Mapping):
        return _of_row(entry(dict(text), "models", where="a row"), "models")
    given, spec = split_name(text)
    if not is_testbed(spec):
        return _named(given, spec, ModelSettings(), text)
    models = [one for row in entries(spec) if row.model for one in _of_row(row, spec)]
    code = None if trust else next((model.spec for model in models if _runs_code(model.spec)), None)
    if code is not None:
        raise StrobeError(
            f"{printable(spec)} names {printable(code)}, which would run the code in that file; pass <<trust=True>> "
            "if you trust the list, or name the model with -m"
        )
    if given is not None:
        if len(models) != 1:
            raise StrobeError(
                f"{printable(text)}: a name must refer to one model, but this pattern matches {len(models)}"
            )
        models = [replace(models[0], name=_clean(given))]
    return models


def _of_row(row: Entry, where: str) -> list[RequestedModel]:
    """Return the models of a row. A setting that the provider does not take is refused."""
    given, spec = split_name(row.model)
    if given is not None and row.name:
        raise StrobeError(
            f"{printable(where)}: {printable(row.model)}: expected one name, but the row also has the name "
            f"{printable(row.name)}"
        )
    found = _named(row.name or given, spec, row.settings, row.model)
    found = [replace(one, form=row.form) for one in found]
    for one in found:
        _check_settings(one, where)
    return found


def _check_settings(one: RequestedModel, where: str) -> None:
    settings = one.settings.given
    if not settings:
        return
    takes = one.takes
    unknown = next((name for name in settings if name not in takes), None)
    if unknown is not None:
        able = f"it takes {', '.join(takes)}" if takes else "it takes no settings"
        raise StrobeError(f"{printable(where)}: {printable(one.spec)} does not take {unknown}; {able}")


def _named(given: str | None, spec: str, settings: ModelSettings, text: str) -> list[RequestedModel]:
    """Return the models that a spec stands for.

    A single model may have a given name. A file of predictions is named by its stem.
    """
    specs = _spelled_out(spec, text)
    if given is not None and len(specs) != 1:
        raise StrobeError(f"{printable(text)}: a name must refer to one model, but this pattern matches {len(specs)}")
    own = [Path(one.removeprefix("preds:")).stem if one.startswith("preds:") else one for one in specs]
    if len(set(own)) != len(own):
        twice = next(name for name in own if own.count(name) > 1)
        raise StrobeError(
            f"{printable(text)}: two files are called {printable(twice)}; name them with -m NAME=preds:FILE"
        )
    names = own if given is None else [given]
    return [RequestedModel(_clean(name), one, settings) for name, one in zip(names, specs, strict=True)]


def _clean(name: str) -> str:
    """Return the name without control characters, because users' names appear in terminals, tables and pages."""
    return printable(name).strip() or "model"


def _spelled_out(spec: str, text: str) -> list[str]:
    """Return the models that match a glob. For a view, the glob applies to the model at its end."""
    if spec.startswith("preds:"):
        return [f"preds:{file}" for file in files_of(spec.removeprefix("preds:"), text)]
    if view_of(spec) is None:
        return expand([spec])
    return [with_inner(spec, one) for one in expand([list(inner_specs(spec))[-1]])]


def _runs_code(spec: str) -> bool:
    if spec.startswith("preds:"):
        return False
    try:
        return any(MODELS.provider_of(parse(inner_spec)).runs_code for inner_spec in inner_specs(spec))
    except StrobeError:
        return False  # it cannot be loaded either, and loading reports the error
