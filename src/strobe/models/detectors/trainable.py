"""A detector to train: its network for the dataset's classes, its wrapper in the port, and its weights file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from strobe.core import late
from strobe.core.errors import ModelFailed, printable
from strobe.core.labels import LabelSpace
from strobe.core.late import require
from strobe.core.ports import Detector
from strobe.models.detectors import timm as of_timm
from strobe.models.detectors import tiny
from strobe.models.detectors import torchvision as of_torchvision
from strobe.models.detectors.building import (
    OWN,
    TRAINED_EPS,
    build,
    eps_of_frozen,
    freeze_norms,
    take_backbone,
    train_only,
)
from strobe.models.detectors.spaces import with_background
from strobe.models.header import header_of, write_weights
from strobe.models.options import LoadOptions, ModelName
from strobe.models.providers import PROVIDERS
from strobe.models.registry import MODELS, load_model, parse
from strobe.models.weights import digest_of_state


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DetectorStart:
    """A detector before training. `first_label` is the label number of the dataset's first class.

    `is_grid` means a grid network like strobe-tiny's. `behind_port` wraps the network so that every other command can
    run it.
    """

    name: str
    module: Any
    weights: str
    is_random: bool
    new_head: bool
    is_grid: bool
    first_label: int
    behind_port: Callable[[Any, str], Detector]
    write: Callable[[Path, Any, Mapping[str, Any]], None]

    def written(self, path: object) -> str:
        """Return the model's name with its weights in a file."""
        return f"{self.name}@{path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """How the network of a detector starts: a classifier for its backbone, `frozen` or `live` norms, and how many of
    the five layers of a ResNet backbone are trained. A classifier of timm gets a head, over a feature pyramid of this
    many channels.
    """

    backbone: str = ""
    norms: str = "live"
    trainable_layers: int = 5
    head: str = ""
    pyramid: int = 256


def detector_start(
    text: str, label_space: LabelSpace, options: LoadOptions, *, seed: int, how: StartOptions | None = None
) -> DetectorStart:
    """Build a detector's network. Tensors that fit its classes are kept. The others are initialised from the seed.

    With a backbone in `how`, only the backbone starts from trained weights, unless the model has a weights file.
    """
    torch, options = require("torch", what="training a detector", extra="models"), options.for_gradients()
    model, how = parse(text), how or StartOptions()
    how = _with_head(model, how, options)
    loaded = None
    fetched = options.pretrained and model.plain != "strobe-net-boxes" and not how.backbone
    if model.weights is not None or fetched:
        loaded = load_model(text, replace(options, label_space=label_space))
        if not how.head and (not isinstance(loaded, Detector) or loaded.spec.task != "detection"):
            raise ModelFailed(f"{printable(text)}: not a detector; choose a recipe for classifiers")
    torch.manual_seed(seed)
    provider = MODELS.provider_of(model)
    if not provider.detector:
        raise _untrainable(model)
    start: DetectorStart = late.load(provider.detector)(model, label_space, options, loaded, how)
    return _prepared(start, how, options, loaded) if how != StartOptions() else start


def _with_head(model: ModelName, how: StartOptions, options: LoadOptions) -> StartOptions:
    """Return the options with the head of a timm model: the head given, or the head in its weights file."""
    if model.provider != "timm":
        if how.head:
            raise ModelFailed(f"{printable(model.text)}: <<head={how.head}>> is for classifiers of timm; remove it")
        return how
    header = header_of(model, options)
    stored = header.head if header is not None else ""
    if not (how.head or stored):
        heads = " or ".join(f"<<head={one}>>" for one in of_timm.HEADS)
        raise ModelFailed(f"{printable(model.text)}: a classifier; add {heads} to train it as a detector")
    if stored and how.head not in ("", stored):
        raise ModelFailed(f"{printable(model.text)}: its weights have the head {stored}; remove <<head={how.head}>>")
    if how.backbone:
        raise ModelFailed(
            f"{printable(model.text)}: with a head, the model is the backbone; use the recipe detector, or add "
            "<<set=backbone=>>"
        )
    return replace(how, head=how.head or stored)


def _prepared(start: DetectorStart, how: StartOptions, options: LoadOptions, loaded: Any) -> DetectorStart:
    """Return the start with a classifier's backbone, frozen norms and frozen layers, as requested."""
    if start.is_grid:
        raise ModelFailed(
            f"{printable(start.name)}: backbone, norms and trainable_layers are for torchvision's detectors"
        )
    if how.backbone:
        classifier = load_model(how.backbone, replace(options, image_size=None, pretrained=True))
        if classifier.spec.task != "classification" or not hasattr(classifier, "module"):
            raise ModelFailed(f"{printable(how.backbone)}: not a torch classifier, so it cannot be a backbone")
        take_backbone(start.module, classifier.module, text=how.backbone, model=start.name)
    if how.norms == "frozen":
        eps = None if loaded is None else eps_of_frozen(loaded.module)
        freeze_norms(start.module, TRAINED_EPS if eps is None else eps)
    train_only(start.module, how.trainable_layers, model=start.name)
    weights = digest_of_state(start.module.state_dict())
    return replace(start, weights=weights, is_random=start.is_random and not how.backbone)


def _untrainable(model: ModelName) -> ModelFailed:
    schemes = [scheme for scheme, own_member in PROVIDERS.own_members().items() if own_member.detector]
    able = ", ".join([tiny.NETWORKS[0], *(f"{scheme}:NAME" for scheme in schemes)])
    return ModelFailed(f"{printable(model.text)}: strobe cannot train this as a detector; choose one of {able}")


def grid_start(
    model: ModelName,
    label_space: LabelSpace,
    options: LoadOptions,  # noqa: ARG001 (every start's signature)
    loaded: Any,
    how: StartOptions,  # noqa: ARG001 (as above)
) -> DetectorStart:
    """Return a grid network to train."""
    from strobe.models.detectors.tiny_net import save

    if model.plain not in tiny.NETWORKS:
        raise _untrainable(model)
    network = tiny.network(model.plain, len(label_space))
    new_head = _kept(network, loaded, label_space, label_space)

    def behind_port(module: Any, device: str) -> Detector:
        weights = digest_of_state(module.state_dict())
        return tiny.detector_of(module, model, label_space=label_space, weights=weights, device=device)

    def write(path: Path, module: Any, told: Mapping[str, Any]) -> None:
        save(path, module.state_dict(), label_space=label_space, training=told)

    return DetectorStart(
        name=model.plain,
        module=network,
        weights=digest_of_state(network.state_dict()),
        is_random=loaded is None,
        new_head=new_head,
        is_grid=True,
        first_label=0,
        behind_port=behind_port,
        write=write,
    )


def torchvision_start(
    model: ModelName,
    label_space: LabelSpace,
    options: LoadOptions,
    loaded: Any,
    how: StartOptions,  # noqa: ARG001 (every start's signature)
) -> DetectorStart:
    """Return a torchvision detector to train."""
    models = require("torchvision.models", what=model.plain, extra="models")
    detection = require("torchvision.models.detection", what=model.plain, extra="models")
    architecture = model.name.partition("/")[0]
    if architecture not in (*models.list_models(module=detection), *OWN):
        raise ModelFailed(f"{printable(model.text)}: not a detector; choose a recipe for classifiers")
    first = int(of_torchvision.has_background(architecture))
    space = with_background(label_space) if first else label_space
    module = build(architecture, len(space))
    return _box_start(model, module, (space, label_space), options, loaded)


def timm_start(
    model: ModelName, label_space: LabelSpace, options: LoadOptions, loaded: Any, how: StartOptions
) -> DetectorStart:
    """Return a classifier of timm with a head for boxes, or a detector that was made this way, to train."""
    first = int(of_torchvision.has_background(how.head))
    space = with_background(label_space) if first else label_space
    detector = loaded if isinstance(loaded, of_torchvision.TorchvisionDetector) else None
    state = None if loaded is None or detector is not None else loaded.module.state_dict()
    pyramid = how.pyramid if detector is None else detector.module.backbone.out_channels
    module = of_timm.build(model, how.head, len(space), pyramid=pyramid, state=state)
    start = _box_start(model, module, (space, label_space), options, detector, head=how.head)
    return replace(start, is_random=loaded is None)


def _box_start(
    model: ModelName,
    module: Any,
    spaces: tuple[LabelSpace, LabelSpace],
    options: LoadOptions,
    loaded: Any,
    *,
    head: str = "",
) -> DetectorStart:
    """Return the start of a detector that takes images of every size. The first of the spaces is that of its outputs,
    the second that of the dataset.
    """
    (space, label_space), header = spaces, header_of(model, options)
    size = options.image_size or (header.image_size if header else None)
    of_torchvision.sized(module.transform, size, model)
    new_head = _kept(module, loaded, space, label_space)

    def behind_port(module: Any, device: str) -> Detector:
        return of_torchvision.detector_of(module, model, label_space=space, options=replace(options, device=device))

    def write(path: Path, module: Any, told: Mapping[str, Any]) -> None:
        write_weights(
            path,
            module.state_dict(),
            label_space=space,
            training=told,
            norm_eps=None if head else eps_of_frozen(module),
            image_size=size,
            head=head,
        )

    return DetectorStart(
        name=model.plain,
        module=module,
        weights=digest_of_state(module.state_dict()),
        is_random=loaded is None,
        new_head=new_head,
        is_grid=False,
        first_label=int(space is not label_space),
        behind_port=behind_port,
        write=write,
    )


def _kept(module: Any, loaded: Any, space: LabelSpace, classes: LabelSpace) -> bool:
    """Copy the tensors of a loaded detector that fit the network. Returns whether the network's head is new."""
    if loaded is None:
        return True
    own, given = module.state_dict(), loaded.module.state_dict()
    fits = {name: given[name] for name in given if name in own and own[name].shape == given[name].shape}
    module.load_state_dict({**own, **fits})
    return loaded.spec.label_space.ids not in (space.ids, classes.ids) or fits.keys() != own.keys()
