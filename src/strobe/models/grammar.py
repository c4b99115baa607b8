"""Parse the name of a model, `[NAME=]provider:model[@FILE or URL]`. No other module parses it.

The part after `NAME=` may combine two models: classes derived from a detector's boxes, or crops before a classifier.

    boxes:DETECTOR   boxes-sum:DETECTOR   boxes-noisyor:DETECTOR   (each prefix may end in -all)
    crop:FROM[,context=1.5][,pick=largest][,fit=pad][,without=outside][,score=0.3]:CLASSIFIER

FROM is `truth`, a detector, or the name of a model of the same command or run. If a detector's name contains a colon,
an option must follow to mark its end: crop:torchvision:ssd300_vgg16,context=1.2:timm:resnet50.

    KIND=VALUE:MODEL   a remedy for flicker (metrics.remedies.KINDS), e.g. hold=0.27:MODEL; MODEL may be a view

"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from strobe.core.boxed import MERGERS, BoxChoice
from strobe.core.crops import FITS
from strobe.core.errors import ModelFailed, UnknownName, expect, printable
from strobe.metrics.remedies import KINDS, Remedy
from strobe.models.providers import FORMS, PROVIDERS

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


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
    >>> split_name("hold=0.27:efficientnet-lite0"), split_name("a=hold=0.27:efficientnet-lite0")
    ((None, 'hold=0.27:efficientnet-lite0'), ('a', 'hold=0.27:efficientnet-lite0'))
    """
    if text.partition("=")[0] in KINDS:
        return None, text
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


_OPTIONS = ("context", "pick", "fit", "without", "score")
_BOXES = re.compile(r"boxes(?:-(?P<merge>[a-z]+?))??(?P<every>-all)?:(?P<detector>.*)", re.DOTALL)
_FIRST_OPTION = re.compile(r",(?=[A-Za-z_]+=)")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxesView:
    """A detector as a classifier. `merge` reduces a class's boxes to one score.

    With `every_class`, boxes of classes outside the dataset compete too.
    """

    detector: str
    merge: str = "max"
    every_class: bool = False

    def __post_init__(self) -> None:
        if self.merge not in MERGERS:
            raise UnknownName(
                "method for turning boxes into classes", self.merge, MERGERS, hint="boxes:, boxes-sum:, boxes-noisyor:"
            )
        _check_inner(self.detector, "a detector, e.g. boxes:strobe-tiny", is_source=True)

    @property
    def source(self) -> str:
        """The source of the boxes."""
        return self.detector


@dataclass(frozen=True, slots=True, kw_only=True)
class CropView:
    """A classifier on each frame cropped to a box. `without` says what it gets for frames without a box."""

    source: str
    classifier: str
    picking: BoxChoice
    fit: str = "squash"
    without: str = "whole"

    def __post_init__(self) -> None:
        expect(self.fit in FITS, "crop: fit", " or ".join(FITS), self.fit)
        expect(self.without in ("whole", "outside"), "crop: without", "whole or outside", self.without)
        if self.is_truth and (self.picking.pick == "best" or self.picking.score):
            what = "pick=best" if self.picking.pick == "best" else "score="
            raise ModelFailed(f"crop:truth: true boxes have no scores for {what}; use pick=label, largest or centre")
        _check_inner(self.source, "truth or a detector, e.g. crop:truth:efficientnet-lite0", is_source=True)
        _check_inner(self.classifier, "a classifier at the end, e.g. crop:truth:efficientnet-lite0")

    @property
    def seen(self) -> "CropView":
        """The view without its classifier. Views with equal values show the same pixels."""
        return replace(self, classifier="any")

    @property
    def is_truth(self) -> bool:
        """Whether the crops use the dataset's own boxes."""
        return self.source == "truth"

    @property
    def text(self) -> str:
        """A one-line description of the cropping."""
        how = self.picking
        least = f",score={how.score:g}" if how.score else ""
        return (
            f"crop:{self.source},context={how.context:g},pick={how.pick},fit={self.fit},without={self.without}{least}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyView:
    """A model with a remedy for flicker. `source` is the model: a model string, or a model of the command or run."""

    remedy: Remedy
    source: str

    def __post_init__(self) -> None:
        if not self.source.strip():
            raise ModelFailed(f"{self.remedy.text}: a model is missing, e.g. {self.remedy.text}:efficientnet-lite0")
        if self.source.startswith("preds:"):
            raise ModelFailed(
                f"{printable(self.source)}: pass the file as a separate model: -m NAME=preds:FILE "
                f"-m {self.remedy.text}:NAME"
            )
        if self.remedy.rule.looks and view_of(self.source) is not None:
            raise ModelFailed(f"{self.remedy.text}: expected a classifier, got {printable(self.source)}")


View = BoxesView | CropView | RemedyView


def view_of(text: str) -> View | None:
    """Parse a spec that combines two models; return None for a single model.

    >>> view_of("boxes-sum:strobe-tiny").merge, view_of("efficientnet-lite0")
    ('sum', None)
    >>> view_of("crop:torchvision:ssd300_vgg16,context=1.2:py:mine.py:make").classifier
    'py:mine.py:make'
    >>> view_of("hold=0.27:boxes:strobe-tiny").source
    'boxes:strobe-tiny'
    """
    if text.partition("=")[0] in KINDS:
        remedy, _, source = text.partition(":")
        return RemedyView(remedy=Remedy.of(remedy), source=source)
    if text.startswith("crop:"):
        return _crop(text)
    boxes = _BOXES.fullmatch(text)
    if boxes is None:
        return None
    return BoxesView(detector=boxes["detector"], merge=boxes["merge"] or "max", every_class=bool(boxes["every"]))


def inner_specs(text: str) -> Iterator[str]:
    """Return the specs to load: the spec itself, or the models of a view."""
    view = view_of(text)
    if view is None:
        yield text
        return
    if isinstance(view, RemedyView):
        yield from inner_specs(view.source)
        return
    if view.source != "truth":
        yield view.source
    if isinstance(view, CropView):
        yield view.classifier


def with_inner(text: str, inner: str) -> str:
    """Return the same view with another model at its end.

    >>> with_inner("crop:truth,fit=pad:efficientnet-lite*", "efficientnet-lite0")
    'crop:truth,fit=pad:efficientnet-lite0'
    """
    return text.removesuffix(list(inner_specs(text))[-1]) + inner


def _crop(text: str) -> CropView:
    body = text.removeprefix("crop:")
    first = _FIRST_OPTION.search(body)
    if first is None:
        head = body.partition(":")[0]
        if head in PROVIDERS or head in [form.scheme for form in FORMS]:
            raise ModelFailed(
                f"{printable(text)}: add an option after the detector to mark where its name ends, e.g. "
                "crop:torchvision:ssd300_vgg16,context=1.2:efficientnet-lite0"
            )
        source, _, classifier = body.partition(":")
        options = ""
        if "," in source:
            raise ModelFailed(
                f"{printable(text)}: expected options as NAME=VALUE after {printable(source.split(',')[0])}"
            )
    else:
        source = body[: first.start()]
        options, _, classifier = body[first.end() :].partition(":")
    values = _said(text, options)
    pick = values.get("pick", "label" if source == "truth" else "best")
    picking = BoxChoice(pick=pick, context=_number(values, "context", 1.0), score=_number(values, "score", 0.0))
    return CropView(
        source=source,
        classifier=classifier,
        picking=picking,
        fit=values.get("fit", "squash"),
        without=values.get("without", "whole"),
    )


def _said(text: str, options: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for one in options.split(",") if options else ():
        name, _, value = one.partition("=")
        if name not in _OPTIONS:
            raise UnknownName(
                f"option of {printable(text)}", name, _OPTIONS, hint=f"the options are {', '.join(_OPTIONS)}"
            )
        if name in out or not value:
            raise ModelFailed(f"{printable(text)}: expected {name}=VALUE once")
        out[name] = value
    return out


def _number(said: dict[str, str], name: str, default: float) -> float:
    try:
        return float(said.get(name, default))
    except ValueError:
        raise ModelFailed(f"crop: {name}: expected a number, got {printable(said[name])}") from None


def _check_inner(spec: str, expected: str, *, is_source: bool = False) -> None:
    if not spec.strip():
        raise ModelFailed(f"a model is missing: expected {expected}")
    if spec.startswith("crop:") or _BOXES.fullmatch(spec) is not None:
        raise ModelFailed(f"{printable(spec)}: a view combines two models, not three; expected {expected}")
    if spec.startswith("preds:"):
        way_out = "pass the file as a separate model: -m NAME=preds:FILE -m boxes:NAME"
        raise ModelFailed(
            f"{printable(spec)}: "
            + (way_out if is_source else "predictions from a file cannot be computed again on crops")
        )
