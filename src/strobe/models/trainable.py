"""A classifier to train: its network with a head for the dataset's classes, and its input format."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from strobe.core.errors import ModelFailed, printable
from strobe.core.labels import LabelSpace
from strobe.core.late import require
from strobe.models.options import LoadOptions, ModelName
from strobe.models.plan import ImagePlan
from strobe.models.providers import PROVIDERS, Provider
from strobe.models.registry import MODELS, load_model, parse
from strobe.models.strobe_net import WITHOUT_WEIGHTS
from strobe.models.torch_classifier import TorchClassifier

_Ways = tuple[Callable[[Any], Any], Callable[[Any, Any], dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainableStart:
    """A network before training. `name` excludes weights, and `weights` is the digest of the initial weights.

    `is_random` means that no part is trained, and `new_head` that the last layer is untrained.
    """

    name: str
    module: Any
    plan: ImagePlan
    weights: str
    new_head: bool
    is_random: bool = False

    def written(self, path: object) -> str:
        """Return the model's name with its weights in a file.

        >>> plan = ImagePlan(size_hw=(8, 8))
        >>> start = TrainableStart(name="timm:resnet18", module=None, plan=plan, weights="", new_head=True)
        >>> start.written("w.safetensors")
        'timm:resnet18@w.safetensors'
        """
        return f"{self.name}@{path}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Backbone(TrainableStart):
    """A network of which only the head is trained. `features` computes the head's input from normalised images.

    `with_head` returns the tensors of the whole model with a linear head of this weight and bias.
    """

    features: Callable[[Any], Any]
    with_head: Callable[[Any, Any], dict[str, Any]]


def start_of(text: str, label_space: LabelSpace, options: LoadOptions, *, seed: int) -> TrainableStart:
    """Build a model's network. Its head is kept if its classes are the dataset's, otherwise replaced."""
    torch = require("torch", what="training", extra="models")
    loaded, model, is_random = _loaded(text, label_space, options, seed)
    module, own = loaded.module, loaded.spec.label_space
    for name in ("aux1", "aux2", "AuxLogits"):  # remove auxiliary heads, which have the old classes
        if getattr(module, name, None) is not None:
            setattr(module, name, None)
            module.aux_logits = False
    keeps = own.ids == label_space.ids
    if not keeps:
        torch.manual_seed(seed)
        _replace_head(module, len(own), len(label_space), text)
    return TrainableStart(
        name=model.plain,
        module=module,
        plan=_plan(loaded),
        weights=loaded.spec.weights,
        new_head=not keeps,
        is_random=is_random,
    )


def backbone_of(text: str, label_space: LabelSpace, options: LoadOptions, *, seed: int) -> Backbone:
    """Build a model's network as features with a head to train. Supports CLIP's image tower too."""
    loaded, model, is_random = _loaded(text, label_space, options, seed, backbone=True)
    module, backbone = loaded.module, MODELS.provider_of(model).backbone
    if backbone is not None:
        name, features, with_head = backbone(model, module)
    else:
        features, with_head = _around_head(module, len(loaded.spec.label_space), text)
        name = model.plain
    return Backbone(
        name=name,
        module=module,
        plan=_plan(loaded),
        weights=loaded.spec.weights,
        new_head=True,
        is_random=is_random,
        features=features,
        with_head=with_head,
    )


def _loaded(
    text: str, label_space: LabelSpace, options: LoadOptions, seed: int, *, backbone: bool = False
) -> tuple[TorchClassifier, ModelName, bool]:
    torch = require("torch", what="training", extra="models")
    model = parse(text)

    def able(provider: Provider) -> bool:
        return provider.trains or (backbone and provider.backbone is not None)

    provider = MODELS.provider_of(model)
    if not able(provider):
        if provider.detector:
            raise _not_a_classifier(text)
        others = ", ".join(
            ["bundled", *(scheme for scheme, own_member in PROVIDERS.own_members().items() if able(own_member))]
        )
        raise ModelFailed(
            f"{printable(text)}: strobe cannot train models of {model.provider}:, which have no gradients or no "
            f"weights file; choose a classifier of {others}"
        )
    torch.manual_seed(seed)  # random weights and new heads depend on the seed
    pretrained = options.pretrained and model.plain not in WITHOUT_WEIGHTS
    loaded = load_model(text, replace(options.for_gradients(), label_space=label_space, pretrained=pretrained))
    if not isinstance(loaded, TorchClassifier):
        raise _not_a_classifier(text)
    return loaded, model, model.weights is None and not pretrained


def _not_a_classifier(text: str) -> ModelFailed:
    return ModelFailed(f"{printable(text)}: not a classifier; use the recipe `detector`")


def _plan(loaded: TorchClassifier) -> ImagePlan:
    if not isinstance(loaded.plan, ImagePlan):
        raise ModelFailed(
            f"{printable(loaded.spec.name)}: its images are prepared by its own library, so strobe cannot train it"
        )
    return loaded.plan


def _around_head(module: Any, have: int, text: str) -> _Ways:
    """Return a function for the last linear layer's input, and a function for the tensors with another last layer."""
    nn = require("torch.nn", what="training", extra="models")
    name, head = _head(module, have, text)
    if not isinstance(head, nn.Linear):
        raise ModelFailed(
            f"{printable(text)}: its last layer is not a plain linear layer, so strobe cannot train a probe"
        )
    head_inputs: list[Any] = []

    def features(pixels: Any) -> Any:
        head_inputs.clear()
        hook = head.register_forward_pre_hook(lambda _, inputs: head_inputs.append(inputs[0]))
        try:
            module(pixels)
        finally:
            hook.remove()
        return head_inputs.pop()

    def with_head(weight: Any, bias: Any) -> dict[str, Any]:
        return {**module.state_dict(), f"{name}.weight": weight, f"{name}.bias": bias}

    return features, with_head


def _head(module: Any, have: int, text: str) -> tuple[str, Any]:
    """Return the last layer with as many outputs as the model has classes, and its name."""
    nn = require("torch.nn", what="training", extra="models")
    heads = [
        (name, one)
        for name, one in module.named_modules()
        if (isinstance(one, nn.Linear) and one.out_features == have)
        or (isinstance(one, nn.Conv2d) and one.out_channels == have and one.kernel_size == (1, 1))
    ]
    if not heads:
        raise ModelFailed(
            f"{printable(text)}: it has no final layer with {have} outputs, so its classes cannot be replaced"
        )
    return heads[-1]


def _replace_head(module: Any, have: int, want: int, text: str) -> None:
    nn = require("torch.nn", what="training", extra="models")
    if hasattr(module, "reset_classifier"):  # timm's own method
        module.reset_classifier(want)
        return
    name, old = _head(module, have, text)
    above, _, own = name.rpartition(".")
    biased = old.bias is not None
    if isinstance(old, nn.Linear):
        new = nn.Linear(old.in_features, want, bias=biased)
    else:
        new = nn.Conv2d(old.in_channels, want, 1, bias=biased)
    setattr(module.get_submodule(above), own, new)
