"""A training recipe: a short TOML file that describes how to train, and its record."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from strobe.core.codec import decode, encode
from strobe.core.errors import InvalidFile, InvalidValue, StrobeError, UnknownName, expect, in_file, printable
from strobe.core.files import regular, toml_of
from strobe.core.late import Registry

_PER_MODEL = "for"
"""The table of a recipe with settings per architecture: [for."vgg*"]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to train, independent of model and data.

    `frames`: an epoch uses every set's `anchor`, one frame of every set (`any`), or `all` frames. `loss` is one of

    - `average`: the mean over the batch
    - `worst`: the worst member of each set within `k` (0: all members)
    - `mixed`: average and worst. The weight of worst grows to `worst_weight` over the first `ramp` of training
    - `consistency`: the worst member, plus the divergence of its answer from a random member's, times `worst_weight`
    - `agreement`: without labels. The divergence of the worst member's answer from the mean answer of the start model
      over the set, times `worst_weight`, and that of a random member, times the rest

    `corruption` is applied to a share `corrupted` of the images, at a severity sampled from `severities`. If `eps` (a
    share of the pixel range) is above 0, an attack of `attack_steps` steps changes each image by up to `eps` in the
    norm `norm` (linf or l2). `trains`: the whole network, its `head` on cached features, a `detector`, an
    `autoencoder`, or an image generator (`gan`). The generator's discriminator is `width` wide, and the classification
    part of its loss has the weight `naming`.

    `crop` is the maximum shift of the window, as a share of the side. If `crop_area` is above 0, images are instead
    random resized crops that show at least this share of the area. `warm_up` is a share of all steps. `ema` is the
    decay of the weight average (0: none). The schedule `plateau` divides the learning rate by ten after `patience`
    epochs whose training loss fell by less than a thousandth. The schedule `steps` divides it by ten at one half and at
    three quarters of training. The key `steps`, if not 0, takes precedence over `epochs`. `clips` and `test_clips` are
    for a detector without a dataset. A detector of torchvision starts from the classifier `backbone`, if given, with
    `live` or `frozen` norms, and trains the last `trainable_layers` of the five layers of a ResNet. A classifier of
    timm becomes a detector with a `head`, over a feature pyramid of `pyramid` channels. With 0 `trainable_layers`, its
    backbone keeps its weights.
    """

    name: str
    about: str = ""
    trains: Literal["all", "head", "detector", "gan", "autoencoder"] = "all"
    frames: Literal["anchor", "any", "all"] = "all"
    loss: Literal["average", "worst", "mixed", "consistency", "agreement"] = "average"
    multi_label: bool = False
    k: int = 0
    worst_weight: float = 1.0
    ramp: float = 0.5
    corruption: str = ""
    severities: tuple[int, ...] = (1, 2, 3, 4, 5)
    corrupted: float = 1.0
    eps: float = 0.0
    norm: Literal["linf", "l2"] = "linf"
    attack_steps: int = 3
    epochs: int = 10
    steps: int = 0
    batch: int = 32
    accumulate: int = 1
    optimiser: Literal["adamw", "sgd", "adam"] = "adamw"
    learning_rate: float = 1e-4
    weight_decay: float = 0.01
    momentum: float = 0.9
    schedule: Literal["cosine", "plateau", "steps", "constant"] = "cosine"
    warm_up: float = 0.05
    patience: int = 1
    clip_norm: float = 5.0
    label_smoothing: float = 0.0
    ema: float = 0.0
    crop: float = 0.1
    crop_area: float = 0.0
    flip: bool = True
    clips: int = 0
    test_clips: int = 0
    width: int = 64
    naming: float = 0.0
    backbone: str = ""
    norms: Literal["live", "frozen"] = "live"
    trainable_layers: int = 5
    head: str = ""
    pyramid: int = 256

    def __post_init__(self) -> None:
        expect(bool(self.name), "name", "not empty", self.name)
        for key, low, high in (
            ("k", 0, 10_000),
            ("epochs", 1, 100_000),
            ("steps", 0, 10**9),
            ("batch", 1, 65_536),
            ("patience", 0, 1000),
            ("accumulate", 1, 1024),
            ("attack_steps", 1, 1000),
            ("clips", 0, 10**7),
            ("test_clips", 0, 10**7),
            ("ramp", 0, 1),
            ("worst_weight", 0, 1000),
            ("corrupted", 0, 1),
            ("weight_decay", 0, 1),
            ("momentum", 0, 0.9999),
            ("warm_up", 0, 1),
            ("clip_norm", 0, 1e6),
            ("label_smoothing", 0, 0.9),
            ("ema", 0, 0.99999),
            ("crop", 0, 0.4),
            ("crop_area", 0, 1),
            ("eps", 0, 1 if self.norm == "linf" else 1000),
            ("width", 1, 4096),
            ("naming", 0, 1000),
            ("trainable_layers", 0, 5),
            ("pyramid", 8, 4096),
        ):
            value = getattr(self, key)
            expect(low <= value <= high, key, f"{low} to {high}", value)
        expect(0 < self.learning_rate <= 100, "learning_rate", "above 0, at most 100", self.learning_rate)
        expect(self.accumulate <= self.batch, "accumulate", f"at most the batch ({self.batch})", self.accumulate)
        right = bool(self.severities) and all(1 <= severity <= 5 for severity in self.severities)
        expect(right, "severities", "integers from 1 to 5", list(self.severities))
        plain = self.loss == "average" or not (self.corruption or self.eps)
        expect(plain, "loss", "average if images are corrupted or attacked", self.loss)
        expect(not (self.corruption and self.eps), "eps", "0 if images are corrupted", self.eps)
        expect(not (self.eps and self.multi_label), "multi_label", "false if images are attacked", True)
        whole = self.trains == "all" or not (self.corruption or self.eps)
        expect(whole, "trains", "all if images are corrupted or attacked", self.trains)
        resized = self.trains == "all" or not self.crop_area
        expect(resized, "crop_area", "0 unless all of a classifier is trained", self.crop_area)
        adversaries = self.trains == "gan"
        expect(
            adversaries == (self.optimiser == "adam"),
            "optimiser",
            "adam for a gan, and another optimiser for other recipes",
            self.optimiser,
        )
        expect(self.head in ("", "retinanet", "faster-rcnn"), "head", "retinanet or faster-rcnn", self.head)
        for key in ("backbone", "norms", "trainable_layers", "head", "pyramid"):
            free = self.trains == "detector" or getattr(self, key) == _LATER[key]
            expect(free, key, "unset, unless a detector is trained", getattr(self, key))
        makes_images = adversaries or self.trains == "autoencoder"
        expect(not (makes_images and self.takes_sets), "loss", "average for a gan or an autoencoder", self.loss)
        expect(not adversaries or self.ema > 0, "ema", "above 0 for a gan", self.ema)
        shared = self.loss in ("mixed", "agreement")
        expect(not shared or self.worst_weight <= 1, "worst_weight", "0 to 1", self.worst_weight)
        if not self.reads_labels:
            expect(self.trains == "all", "trains", "all if the loss is agreement", self.trains)
            expect(not self.multi_label, "multi_label", "false if the loss is agreement", True)
            expect(not self.label_smoothing, "label_smoothing", "0 if the loss is agreement", self.label_smoothing)

    @property
    def takes_sets(self) -> bool:
        """Whether the loss is computed over whole sets."""
        return self.loss != "average"

    @property
    def reads_labels(self) -> bool:
        """Whether the loss needs the labels of the sets."""
        return self.loss != "agreement"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON with every key."""
        found: dict[str, Any] = encode(self)
        return found

    def to_toml(self) -> str:
        """Return the recipe as a file that `find` reads, with every key."""
        return "".join(f"{key} = {_toml(value)}\n" for key, value in self.to_json().items() if key != "name")

    @property
    def digest(self) -> str:
        """Return a digest of the settings, without name and description."""
        return hashlib.sha256(json.dumps(self.settings(), sort_keys=True).encode()).hexdigest()[:16]

    def settings(self) -> dict[str, Any]:
        """Return the settings that determine a result as plain JSON: all but name and description.

        Keys added in later versions are omitted while they have their defaults, so that older trainings can resume.
        """
        told = {key: value for key, value in self.to_json().items() if key not in ("name", "about")}
        return {key: value for key, value in told.items() if key not in _LATER or value != _LATER[key]}


_LATER = {
    "crop_area": 0.0,
    "norm": "linf",
    "width": 64,
    "naming": 0.0,
    "backbone": "",
    "norms": "live",
    "trainable_layers": 5,
    "head": "",
    "pyramid": 256,
}


def _toml(value: Any) -> str:
    # JSON's text, numbers and lists are valid TOML.
    return json.dumps(value, ensure_ascii=False)


_KEYS = tuple(field.name for field in fields(Recipe) if field.name != "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A kind of training, which the key `trains` of a recipe names.

    `run(recipe, material, model, out, options, progress, held_out=…)` trains, and `summary` describes what it returns
    in one line. The recipes are in the folder `recipes` of the package `package`.
    """

    run: Callable[..., Any]
    summary: Callable[[Any], str]
    package: str


TRAININGS: Registry[Training] = Registry("trainings", Training, "kind of training", {}, closed=True)
"""Every kind of training. Annexes bring them."""


def shipped() -> dict[str, str]:
    """Return the shipped recipes: name and description."""
    return {name: str(_parsed(text, name)["about"]) for name, text in _texts().items()}


def find(name: str, *, changes: Sequence[str] = (), model: str = "") -> Recipe:
    """Return the recipe of this name or file path for a model, with `key=value` changes applied.

    A change of `epochs` sets `steps` to 0, so that it is not ignored.

    >>> find("finetune", model="torchvision:vgg16").learning_rate, find("pmk", changes=["epochs=3"]).epochs
    (1e-05, 3)
    >>> find("detector").steps, find("detector", changes=["epochs=3"]).steps
    (40000, 0)
    """
    if name.endswith(".toml") or "/" in name:
        path = Path(name)
        try:
            text = regular(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8 text"
            raise StrobeError(f"cannot read the recipe {printable(path)}: {reason}") from error
        own, where = path.stem, name
    else:
        known = _texts()
        if name not in known:
            raise UnknownName(
                "recipe", name, known, hint=f"known: {', '.join([*known, 'or the path of a .toml file'])}"
            )
        text, own, where = known[name], name, f"recipe {name}"
    with in_file(where):
        content = _parsed(text, where)
        per_model = content.pop(_PER_MODEL, {})
        expect(isinstance(per_model, dict), _PER_MODEL, "tables by model name", per_model)
        _known(content, where)
        for pattern, settings in per_model.items():
            expect(isinstance(settings, dict), f"{_PER_MODEL}.{pattern}", "a table", settings)
            _known(settings, where)
            if fnmatchcase(_architecture(model), pattern):
                content |= settings
        recipe = _recipe(own, content)
    for change in changes:
        setting = _change(change)
        # `epochs` and `steps` both set the length of the training. The last change counts.
        content |= {"steps": 0, **setting} if "epochs" in setting else setting
    return _recipe(own, content) if changes else recipe


def _recipe(name: str, content: Mapping[str, Any]) -> Recipe:
    return decode(Recipe, {"name": name, **content}, where="recipe")


def _texts() -> dict[str, str]:
    """Return the text of every shipped recipe by name, in alphabetical order."""
    folders = [resources.files(package) / "recipes" for package in {TRAININGS[name].package for name in TRAININGS}]
    entries = [entry for folder in folders for entry in folder.iterdir() if entry.name.endswith(".toml")]
    files = {entry.name.removesuffix(".toml"): entry for entry in entries}
    return {name: files[name].read_text(encoding="utf-8") for name in sorted(files)}


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        return toml_of(text)
    except ValueError as error:
        raise InvalidFile(where, f"not TOML ({printable(error, limit=100)})") from error


def _known(content: Mapping[str, Any], where: str) -> None:
    unknown = next((key for key in content if key not in _KEYS), None)
    if unknown is not None:
        raise UnknownName(f"key of {printable(where)}", unknown, _KEYS, hint=f"known: {', '.join(_KEYS)}")


def _architecture(model: str) -> str:
    """Return the plain name of a model, without provider, tag or weights.

    >>> _architecture("timm:resnet50.a1_in1k@w.safetensors"), _architecture("torchvision:vgg16/IMAGENET1K_V1")
    ('resnet50', 'vgg16')
    """
    return model.partition("@")[0].rpartition(":")[2].partition("/")[0].partition(".")[0]


def _change(text: str) -> dict[str, Any]:
    """Parse `key=value` as TOML. A value without quotes that is not valid TOML is text."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        raise InvalidValue(f"<<set>>: expected key=value, got {printable(text)!r}")
    _known({key: value}, "a recipe")
    try:
        return {key: toml_of(f"value = {value}")["value"]}
    except ValueError:
        return {key: value.strip()}
