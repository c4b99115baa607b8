"""A model to train: its network with a head for the dataset's classes, and what its pixels have to be."""

from dataclasses import dataclass, replace
from typing import Any

from strobe.core.errors import ModelFailed, printable
from strobe.core.labels import LabelSpace
from strobe.core.late import require
from strobe.models.options import LoadOptions
from strobe.models.plan import ImagePlan
from strobe.models.registry import load_model, parse
from strobe.models.torch_classifier import TorchClassifier

__all__ = ["Start", "start_of"]

_PROVIDERS = ("bundled", "timm", "torchvision")
"""Whose weights can be written to a file and loaded from it again."""

_WITHOUT_WEIGHTS = ("strobe-net", "strobe-net-small")
"""Networks that have none but what they are trained to."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Start:
    """A network before it is trained. `name` is without weights; `weights` is the digest of what it starts from.

    `is_random`: nothing of it was ever trained. `new_head`: its last layer was not.
    """

    name: str
    module: Any
    plan: ImagePlan
    weights: str
    new_head: bool
    is_random: bool = False

    def written(self, path: object) -> str:
        """The model as it is named with its weights in a file.

        >>> plan = ImagePlan(size_hw=(8, 8))
        >>> Start(name="timm:resnet18", module=None, plan=plan, weights="", new_head=True).written("w.safetensors")
        'timm:resnet18@w.safetensors'
        """
        return f"{self.name}@{path}"


def start_of(text: str, label_space: LabelSpace, options: LoadOptions, *, seed: int) -> Start:
    """The network of a model, its head kept where its classes are the dataset's and made anew where they are not."""
    torch = require("torch", what="training", extra="models")
    model = parse(text)
    if model.provider not in _PROVIDERS:
        raise ModelFailed(
            f"{printable(text)}: cannot be trained here: a model of {model.provider}: has no gradients, or no file for "
            f"its weights; take a classifier of {', '.join(_PROVIDERS)}"
        )
    torch.manual_seed(seed)  # random weights and new heads are the seed's
    pretrained = options.pretrained and model.plain not in _WITHOUT_WEIGHTS
    loaded = load_model(text, replace(options, label_space=label_space, pretrained=pretrained))
    if not isinstance(loaded, TorchClassifier) or not isinstance(loaded.plan, ImagePlan):
        raise ModelFailed(f"{printable(text)}: not a classifier; its recipe is `detector`")
    module, own = loaded.module, loaded.spec.label_space
    for name in ("aux1", "aux2", "AuxLogits"):  # side heads of old networks have the old classes
        if getattr(module, name, None) is not None:
            setattr(module, name, None)
            module.aux_logits = False
    keeps = own.ids == label_space.ids
    if not keeps:
        torch.manual_seed(seed)
        _replace_head(module, len(own), len(label_space), text)
    return Start(
        name=model.plain, module=module, plan=loaded.plan, weights=loaded.spec.weights, new_head=not keeps,
        is_random=model.weights is None and not pretrained,
    )  # fmt: skip


def _replace_head(module: Any, have: int, want: int, text: str) -> None:
    nn = require("torch.nn", what="training", extra="models")
    if hasattr(module, "reset_classifier"):  # timm's own way
        module.reset_classifier(want)
        return
    heads = [
        (name, one)
        for name, one in module.named_modules()
        if (isinstance(one, nn.Linear) and one.out_features == have)
        or (isinstance(one, nn.Conv2d) and one.out_channels == have and one.kernel_size == (1, 1))
    ]
    if not heads:
        raise ModelFailed(
            f"{printable(text)}: no last layer with {have} outputs in it, so its classes cannot be changed"
        )
    name, old = heads[-1]
    above, _, own = name.rpartition(".")
    biased = old.bias is not None
    if isinstance(old, nn.Linear):
        new = nn.Linear(old.in_features, want, bias=biased)
    else:
        new = nn.Conv2d(old.in_channels, want, 1, bias=biased)
    setattr(module.get_submodule(above), own, new)
