"""CLIP and its kin, zero-shot: `openclip:ARCH/TAG`, `openclip:ARCH@weights`, `openclip:ARCH/TAG+ilsvrc-2012`.

The text tower reads the dataset's own class names through the usual prompt ensemble. With `+ilsvrc-2012` it reads the
1,000 ILSVRC names instead and the scores are projected like any ILSVRC classifier's.
"""

import hashlib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from strobe.core.errors import ModelFailed, UnknownName
from strobe.core.labels import LabelSpace, space
from strobe.core.late import require
from strobe.models.downloads import hub
from strobe.models.options import LoadOptions, torch_setup
from strobe.models.plan import ImagePlan, as_triple
from strobe.models.torch_classifier import TorchClassifier, classifier_of
from strobe.models.weights import load_into, read_state

__all__ = ["load", "names"]


def names() -> list[str]:
    """Every ARCH/TAG pair open_clip can name."""
    library = require("open_clip", what="CLIP models", extra="openclip")
    return [f"{architecture}/{tag}" for architecture, tag in library.list_pretrained()]


def load(name: str, weights: Path | None, options: LoadOptions) -> TorchClassifier:
    """A CLIP model as a classifier over class names."""
    library = require("open_clip", what=f"openclip:{name}", extra="openclip")
    plain, _, over = name.partition("+")
    architecture, _, tag = plain.partition("/")
    if architecture not in library.list_models():
        raise UnknownName(
            "open_clip architecture", architecture, library.list_models(), hint="see strobe models 'openclip:*'"
        )
    tags = library.list_pretrained_tags_by_model(architecture)
    if tag and tag not in tags:
        raise UnknownName(f"weights of openclip:{architecture}", tag, tags, hint=f"it has {', '.join(tags) or 'none'}")
    if not tag and weights is None and options.pretrained:
        raise ModelFailed(
            f"openclip:{name}: expected ARCH/TAG or ARCH@FILE, e.g. openclip:{architecture}/{(tags or ['TAG'])[0]}"
        )
    label_space, words = _classes(library, name, over, options)
    fetch = tag if weights is None and options.pretrained else None
    with hub(offline=options.offline) if fetch else nullcontext():
        model, _, _ = library.create_model_and_transforms(architecture, pretrained=fetch)
        tokenizer = library.get_tokenizer(architecture)
    if weights is not None:
        load_into(model, read_state(weights, trust=options.trust), path=weights, model=f"openclip:{architecture}")
    device = torch_setup(options).device
    templates = library.OPENAI_IMAGENET_TEMPLATES
    head = _text_head(library, model.eval().to(device), tokenizer, words, templates, device)
    prompts = hashlib.sha256("\n".join([*words, *(template("x") for template in templates)]).encode()).hexdigest()[:16]
    return classifier_of(
        model,
        name=f"openclip:{name}" + (f"@{weights}" if weights else ""),
        provider="openclip",
        plan=plan_of(model, image_size=options.image_size),
        label_space=label_space,
        options=options,
        call=lambda pixels: _scores(model, head, pixels),
        facts={"zero_shot": {"classes": label_space.name, "templates": len(templates), "prompts": prompts}},
    )


def _classes(library: Any, name: str, over: str, options: LoadOptions) -> tuple[LabelSpace, list[str]]:
    """The label space and the words the text tower reads for it."""
    if over:
        if over != "ilsvrc-2012":
            raise UnknownName("zero-shot label space", over, ["ilsvrc-2012"])
        return space(over), list(library.IMAGENET_CLASSNAMES)
    if options.label_space is None:
        raise ModelFailed(f"openclip:{name}: zero-shot needs a dataset's class names, or +ilsvrc-2012 after the name")
    words = [label.split(",")[0].replace("_", " ").strip() for label in options.label_space.names]
    return options.label_space, words


def _text_head(library: Any, model: Any, tokenizer: Any, words: list[str], templates: Any, device: str) -> Any:
    """One unit vector per class: the mean over the prompt ensemble, (width, classes)."""
    torch = require("torch", what="CLIP models", extra="openclip")
    with torch.inference_mode():
        head = library.build_zero_shot_classifier(
            model,
            tokenizer=tokenizer,
            classnames=words,
            templates=templates,
            num_classes_per_batch=10,
            device=device,
            use_tqdm=False,
        )
        return head.float()


def _scores(model: Any, head: Any, pixels: Any) -> Any:
    features = model.encode_image(pixels, normalize=True).float()
    scores = model.logit_scale.exp().float() * (features @ head)
    bias = getattr(model, "logit_bias", None)
    return scores if bias is None else scores + bias.float()


def plan_of(model: Any, *, image_size: int | None = None) -> ImagePlan:
    """The model's own preprocessing as a plan."""
    config = model.visual.preprocess_cfg
    size = image_size or config["size"]
    height, width = (size, size) if isinstance(size, int) else tuple(size)
    fit = {"shortest": "short-side", "longest": "pad", "squash": "squash"}[config["resize_mode"]]
    fill = config.get("fill_color") or 0
    return ImagePlan(
        size_hw=(height, width),
        fit=fit,  # type: ignore[arg-type]
        resize=min(height, width) if fit == "short-side" else None,
        fill=(fill, fill, fill),
        interpolation=config["interpolation"],
        mean=as_triple(config["mean"]),
        std=as_triple(config["std"]),
    )
