"""CLIP and related models, zero-shot: `openclip:ARCH/TAG`, `openclip:ARCH@weights`, `openclip:ARCH/TAG+ilsvrc-2012`.

The text tower encodes the dataset's class names with the usual prompt ensemble. With `+ilsvrc-2012` it encodes the
1,000 ILSVRC names instead, and scores are projected as for any ILSVRC classifier. The text embeddings are cached in the
cache folder, because a thousand classes take many minutes on a CPU.
"""

import hashlib
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from strobe.core.class_names import spelling_key
from strobe.core.errors import CannotWrite, ModelFailed, StrobeError, UnknownName
from strobe.core.files import cache_folder, replacing
from strobe.core.labels import LabelSpace, several_classes, space
from strobe.core.late import require
from strobe.core.ports import Silent
from strobe.core.readers import read_array
from strobe.models.downloads import hub
from strobe.models.header import Header, header_of
from strobe.models.options import LoadOptions, ModelName, torch_setup
from strobe.models.plan import ImagePlan, as_triple
from strobe.models.providers import TORCH_SETTINGS, Provider
from strobe.models.torch_classifier import TorchClassifier, classifier_of
from strobe.models.weights import digest_of_state, load_into, state_of

PROBE = ("probe.weight", "probe.bias")
"""The name of a linear head in a weights file that also holds the two towers."""

_PREPROCESSING = ("mean", "std", "interpolation", "resize_mode")
"""The preprocessing settings that a tag may define."""


def names() -> list[str]:
    """Return every ARCH/TAG pair that open_clip knows."""
    library = require("open_clip", what="CLIP models", extra="openclip")
    return [f"{architecture}/{tag}" for architecture, tag in library.list_pretrained()]


def load(model: ModelName, options: LoadOptions) -> TorchClassifier:
    """Load a CLIP model as a classifier over class names."""
    library = require("open_clip", what=model.plain, extra="openclip")
    plain, _, over = model.name.partition("+")
    architecture, _, tag = plain.partition("/")
    if architecture not in library.list_models():
        raise UnknownName(
            "open_clip architecture", architecture, library.list_models(), hint="see strobe models 'openclip:*'"
        )
    tags = library.list_pretrained_tags_by_model(architecture)
    if tag and tag not in tags:
        raise UnknownName(f"weights of openclip:{architecture}", tag, tags, hint=f"it has {', '.join(tags) or 'none'}")
    if not tag and model.weights is None and options.pretrained:
        raise ModelFailed(
            f"{model.plain}: expected ARCH/TAG or ARCH@FILE, e.g. openclip:{architecture}/{(tags or ['TAG'])[0]}"
        )
    header = header_of(model, options)
    label_space, class_names = (header.label_space, []) if header else _classes(library, model, over, options)
    fetch = tag if model.weights is None and options.pretrained else None
    trained = library.get_pretrained_cfg(architecture, tag) if tag else {}
    config = library.get_model_config(architecture)
    quick = bool(trained.get("quick_gelu") or config.get("quick_gelu"))
    with hub(offline=options.offline) if fetch else nullcontext(), _plain_spoken(weights_follow=fetch is None):
        # If the tag was not trained with the activation of the architecture, the library only warns. It also
        # ignores the tag's preprocessing if the weights come from a file.
        module = library.create_model(
            architecture,
            pretrained=fetch,
            force_quick_gelu=quick,
            force_preprocess_cfg={key: trained[key] for key in _PREPROCESSING if trained.get(key) is not None},
        )
        tokenizer = library.get_tokenizer(architecture)
    state = state_of(model, options)
    probe = [(state or {}).pop(key, None) for key in PROBE]
    if state is not None:
        load_into(module, state, path=model.weights or "", model=f"openclip:{architecture}")
    digest = digest_of_state(module.state_dict())
    if header is not None:
        return _probed(module, model, probe, header, options)
    device, templates = torch_setup(options).device, library.OPENAI_IMAGENET_TEMPLATES
    activation = "quick_gelu" if quick else "gelu"
    said = json.dumps([library.__version__, architecture, config, activation, digest, device.split(":")[0]])
    ensemble = _Prompts(words=class_names, templates=templates, model=model.text, key=said)
    head = _text_head(library, module.eval().to(device), tokenizer, ensemble, options, device)
    prompts = hashlib.sha256("\n".join(ensemble.lines).encode()).hexdigest()[:16]
    zero_shot = {"classes": label_space.name, "templates": len(templates), "prompts": prompts}
    return classifier_of(
        module,
        model,
        plan=plan_of(module, image_size=options.image_size),
        label_space=label_space,
        options=options,
        call=lambda pixels: _scores(module, head, pixels),
        facts={"activation": activation, "zero_shot": zero_shot},
        digest=digest,
    )


def _probed(module: Any, model: ModelName, probe: list[Any], header: Header, options: LoadOptions) -> TorchClassifier:
    """Return the image tower with a linear head trained by strobe. The text tower is not used."""
    device, width = torch_setup(options).device, len(header.label_space)
    weight, bias = probe
    if weight is None or bias is None or len(weight) != width or len(bias) != width:
        raise ModelFailed(f"{model.plain}: {model.weights} has no linear head for its {width} classes")
    weight, bias = weight.float().to(device), bias.float().to(device)
    digest = digest_of_state({**module.state_dict(), **dict(zip(PROBE, (weight, bias), strict=True))})
    return classifier_of(
        module,
        model,
        plan=header.plan_at(options.image_size) or plan_of(module, image_size=options.image_size),
        label_space=header.label_space,
        options=options,
        call=lambda pixels: image_features(module, pixels) @ weight.T + bias,
        facts={"head": "linear"},
        digest=digest,
    )


@contextmanager
def _plain_spoken(*, weights_follow: bool) -> Iterator[None]:
    """While open, suppress misleading library warnings, such as one about random weights before a file is loaded."""

    def keep(record: logging.LogRecord) -> bool:
        return not (weights_follow and "initialized randomly" in record.getMessage())

    root = logging.getLogger()
    root.addFilter(keep)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="QuickGELU mismatch")  # handled above
            yield
    finally:
        root.removeFilter(keep)


def _classes(library: Any, model: ModelName, over: str, options: LoadOptions) -> tuple[LabelSpace, list[str]]:
    """Return the label space and the class names for the text tower."""
    if over:
        if over != "ilsvrc-2012":
            raise UnknownName("zero-shot label space", over, ["ilsvrc-2012"])
        return space(over), list(library.IMAGENET_CLASSNAMES)
    if options.label_space is None:
        raise ModelFailed(f"{model.plain}: zero-shot needs a dataset's class names, or +ilsvrc-2012 after the name")
    words = [label.split(",")[0].replace("_", " ").strip() for label in options.label_space.names]
    keys = [spelling_key(word) for word in words]
    for word, key in zip(words, keys, strict=True):
        if keys.count(key) > 1:  # equal prompts give equal scores, so the first class would always win
            places = [index for index, other in enumerate(keys) if other == key]
            raise ModelFailed(f"{model.plain}: {several_classes(options.label_space, word, places)}; {_DISTINCT}")
    return options.label_space, words


_DISTINCT = "equal prompts cannot tell them apart; give distinct names, or add +ilsvrc-2012 for OpenAI's names"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prompts:
    """The text tower's inputs. `key` is a digest of everything else that affects the embeddings."""

    words: list[str]
    templates: Any
    model: str
    key: str

    @property
    def lines(self) -> list[str]:
        return [*self.words, *(template("x") for template in self.templates)]

    @property
    def file(self) -> Path:
        """The cache file of the resulting head."""
        digest = hashlib.sha256("\n".join([self.key, *self.lines]).encode()).hexdigest()
        return cache_folder() / "text-heads" / f"{digest[:32]}.npy"


def _text_head(library: Any, model: Any, tokenizer: Any, prompts: _Prompts, options: LoadOptions, device: str) -> Any:
    """Return one unit vector per class, the mean over the prompt ensemble: (width, classes)."""
    torch = require("torch", what="CLIP models", extra="openclip")
    class_names = prompts.words
    with suppress(StrobeError):  # missing or truncated
        kept = read_array(prompts.file)
        if (
            kept.dtype == np.float32
            and kept.ndim == 2
            and kept.shape[1] == len(class_names)
            and np.isfinite(kept).all()
        ):
            return torch.from_numpy(kept).to(device)
    step = 2 if device == "cpu" else 10  # classes per step, with all their prompts
    parts = []
    label = f"{prompts.model}: encoding class names, {len(prompts.templates)} prompts each"
    # Do not use inference mode, because its tensors cannot take part in a gradient later.
    with torch.no_grad(), (options.progress or Silent()).task(label, len(class_names)) as advance:
        for start in range(0, len(class_names), step):
            chunk = class_names[start : start + step]
            parts.append(
                library.build_zero_shot_classifier(
                    model, tokenizer=tokenizer, classnames=chunk, templates=prompts.templates, device=device
                )
            )
            advance(len(chunk))
        head = torch.cat(parts, dim=1).float()
    with suppress(CannotWrite), replacing(prompts.file) as temporary, temporary.open("wb") as file:
        np.save(file, head.cpu().numpy())
    return head


def image_features(model: Any, pixels: Any) -> Any:
    """Return the image tower's unit-length embeddings, (N, width)."""
    return model.encode_image(pixels, normalize=True).float()


def _scores(model: Any, head: Any, pixels: Any) -> Any:
    features = image_features(model, pixels)
    scores = model.logit_scale.exp().float() * (features @ head)
    bias = getattr(model, "logit_bias", None)
    return scores if bias is None else scores + bias.float()


def plan_of(model: Any, *, image_size: int | None = None) -> ImagePlan:
    """Return the model's own preprocessing as a plan."""
    config = model.visual.preprocess_cfg
    size = image_size or config["size"]
    height, width = (size, size) if isinstance(size, int) else tuple(size)
    fit = {"shortest": "short-side", "longest": "pad", "squash": "squash"}[config["resize_mode"]]
    fill = config.get("fill_color") or 0
    return ImagePlan(
        size_hw=(height, width),
        fit=fit,  # type: ignore[arg-type]  # it is one of the allowed values
        resize=min(height, width) if fit == "short-side" else None,
        fill=(fill, fill, fill),
        interpolation=config["interpolation"],
        mean=as_triple(config["mean"]),
        std=as_triple(config["std"]),
    )


def _backbone(model: ModelName, module: Any) -> tuple[str, Callable[..., Any], Callable[..., Any]]:
    """Return the image tower's name, a function for its features, and a function for all tensors with a head."""

    def with_head(weight: Any, bias: Any) -> dict[str, Any]:
        return {**module.state_dict(), **dict(zip(PROBE, (weight, bias), strict=True))}

    name = f"{model.provider}:{model.name.partition('+')[0].partition('/')[0]}"
    return name, lambda pixels: image_features(module, pixels), with_head


PROVIDER = Provider(
    load=load,
    what="CLIP and related models, zero-shot over the dataset's class names",
    example="openclip:ViT-L-14-336/openai",
    package="open_clip",
    pip="open_clip_torch",
    extra="openclip",
    names=names,
    settings=TORCH_SETTINGS,
    downloads=True,
    gradients="all",
    backbone=_backbone,
)
