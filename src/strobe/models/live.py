"""Models passed as Python objects: a torch module, a timm model, a plain function, or an implementation of the port.

A module is copied, so training can continue with the original unchanged. Its answers are cached under a digest of
everything that affects them (`strobe.models.identity`). If part of the model cannot be fingerprinted, a name unique to
this call is used instead.
"""

import copy
import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import ModelFailed, printable
from strobe.core.labels import LabelSpace
from strobe.core.ports import Classifier, Detector, Image
from strobe.core.records import Detections, ModelSpec
from strobe.models.detectors.py import FunctionDetector
from strobe.models.guard import FunctionClassifier, GuardedModel, has_port, is_module, probe_images
from strobe.models.identity import CannotFingerprint, digest_of
from strobe.models.kinds import RETURN_KIND, with_kind
from strobe.models.live_transform import BatchFunction, as_floats, transform_of, tried
from strobe.models.naming import labels_of, space_of
from strobe.models.options import LoadOptions, ModelName

Kind = Literal["auto", "logits", "probabilities"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """A model object, and facts that the object lacks.

    Call the record with load options to get the model behind its port.

    `transform` turns a PIL image into the model's input. `labels` are its classes: names, a LabelSpace, or the name of
    a shipped one. `version` is a user-supplied key that must change whenever the model's answers change.
    """

    model: Any
    name: str
    transform: Any = None
    labels: Any = None
    kind: Kind = "auto"
    version: str | None = None

    def __call__(self, options: LoadOptions) -> Classifier | Detector:
        """Return the model behind its port."""
        found, unseen = self._weights()
        model = as_model(
            self.model,
            ModelName("live", self.name),
            transform=self.transform,
            labels=self.labels,
            kind=self.kind,
            options=options,
            weights=found,
        )
        if unseen and options.progress is not None and not has_port(self.model):
            options.progress.note(
                f"{printable(self.name)}: strobe cannot fingerprint this model ({printable(unseen)}), so later calls "
                "do "
                'not reuse its answers; pass version="…" and change it whenever the answers change'
            )
        return model

    def _weights(self) -> tuple[str, str]:
        """Return the cache key of the model's answers, and the parts that could not be fingerprinted."""
        if self.version is not None:
            return hashlib.sha256(f"version\0{self.version}".encode()).hexdigest(), ""
        try:
            return digest_of(self.model, self.transform), ""
        except CannotFingerprint as error:
            return f"once-{uuid.uuid4().hex}", str(error)


def as_model(
    made: Any, model: ModelName, *, transform: Any, labels: Any, kind: Kind, options: LoadOptions, weights: str | None
) -> Classifier | Detector:
    """Wrap an object in the port for its type.

    `weights` is the cache key, or None to digest a module's state.
    """
    if has_port(made):
        return _spoken(made, model, transform, labels)
    if is_module(made):
        return _module(made, model, transform=transform, labels=labels, kind=kind, options=options, weights=weights)
    if not callable(made):
        raise ModelFailed(
            f"{printable(model.plain)}: expected a model's name, a torch module, a function of images or an object "
            f"with spec, prepare and forward, got {type(made).__name__}"
        )
    return _function(made, model, transform=transform, labels=labels, kind=kind, options=options, weights=weights or "")


def _spoken(made: Any, model: ModelName, transform: Any, labels: Any) -> Classifier | Detector:
    if transform is not None or labels is not None:
        raise ModelFailed(
            f"{printable(model.plain)}: this model has its own preprocessing and classes; remove transform= and labels="
        )
    return GuardedModel(made, None, made.spec)


# -- torch modules -------------------------------------------------------------------------------------------------


def _module(
    module: Any, model: ModelName, *, transform: Any, labels: Any, kind: Kind, options: LoadOptions, weights: str | None
) -> Classifier | Detector:
    from strobe.models.torch_classifier import classifier_of

    name = printable(model.plain)
    options = _on_its_device(module, options)
    try:
        own = copy.deepcopy(getattr(module, "_orig_mod", module))
    except Exception as error:
        raise ModelFailed(
            f"{name}: cannot be copied ({type(error).__name__}: {printable(error, limit=120)})"
        ) from error
    if _is_torchvision_detector(own):
        if transform is not None:
            raise ModelFailed(
                f"{name}: torchvision's detectors resize and normalise images themselves; remove transform="
            )
        return _detector(own, model, labels=labels, options=options, weights=weights)
    plan, facts = _plan(own, model, transform, options)
    rows = tried(lambda _: [_first_row(own, plan, image) for image in probe_images()], name)
    label_space = _classes(model, len(rows[0]), labels, options, names=_own_names(own))
    classifier = classifier_of(
        own,
        model,
        plan=plan,
        label_space=label_space,
        options=options,
        facts=facts,
        digest=weights,
        kind="logits" if kind == "auto" else kind,
    )
    if kind == "auto":
        classifier.spec = with_kind(classifier.spec, rows, _option(model))
    if not _is_stateless(own):
        classifier.lanes = 1  # a forward that stores state on the module must not overlap with another forward
    return classifier


def _on_its_device(module: Any, options: LoadOptions) -> LoadOptions:
    """With `auto`, keep a module on the accelerator it is already on."""
    first = next(iter(module.parameters()), None)
    here = "cpu" if first is None else str(first.device)
    return (
        replace(options, device=here) if options.device == "auto" and not here.startswith(("cpu", "meta")) else options
    )


def _is_stateless(module: Any) -> bool:
    """Return whether forwards may run concurrently: all modules are classes of a library, and none has hooks."""
    known = ("torch.", "timm.", "torchvision.", "transformers.", "open_clip.")
    return all(
        type(part).__module__.startswith(known) and not part._forward_hooks and not part._forward_pre_hooks
        for part in module.modules()
    )


def _plan(module: Any, model: ModelName, transform: Any, options: LoadOptions) -> tuple[Any, dict[str, Any]]:
    """Return the preprocessing, and facts about it that are not in the plan."""
    name = printable(model.plain)
    if transform is None:
        if getattr(module, "pretrained_cfg", None) is None and getattr(module, "default_cfg", None) is None:
            raise ModelFailed(
                f"{name}: {type(module).__name__} does not declare its preprocessing; "
                f"{'pass transform=…' if model.provider == 'live' else 'return it with a transform: net, transform'}, "
                "e.g. torchvision's weights.transforms() or strobe.ImagePlan(size_hw=(224, 224), resize=256)"
            )
        from strobe.models.timm import plan_of

        return plan_of(module, image_size=options.image_size), {}
    return transform_of(transform, name)


def _first_row(module: Any, plan: Any, image: Image) -> NDArray[np.float64]:
    """Run the module on one image, on its current device, and return the scores."""
    import torch

    module.eval()
    first = next(iter(module.parameters()), torch.zeros(0))
    pixels = torch.from_numpy(as_floats(plan, image))[None].to(first.device)
    with torch.inference_mode():
        scores = module(pixels)
    scores = getattr(scores, "logits", scores)
    if not isinstance(scores, torch.Tensor) or scores.ndim != 2 or len(scores) != 1:
        shape = f" of shape {tuple(scores.shape)}" if isinstance(scores, torch.Tensor) else ""
        raise ModelFailed(
            f"the model returned {type(scores).__name__}{shape} for one image, expected a tensor of scores (1, classes)"
        )
    found: NDArray[np.float64] = scores[0].double().cpu().numpy()
    return found


def _own_names(module: Any) -> Sequence[str]:
    """Return the class names stored in a transformers network."""
    names = getattr(getattr(module, "config", None), "id2label", None)
    return [str(names[name]) for name in sorted(names)] if isinstance(names, Mapping) else ()


def _classes(
    model: ModelName, width: int, labels: Any, options: LoadOptions, *, names: Sequence[str] = ()
) -> LabelSpace:
    """Return the label space for this many outputs, as passed by the user or inferred by strobe."""
    name, dataset = printable(model.plain), options.label_space
    if labels is None:
        try:
            return space_of(name, width, names=names, dataset=dataset)
        except ModelFailed as error:
            have = f" and the dataset has {len(dataset)} classes" if dataset is not None else ""
            raise ModelFailed(
                f"{name}: its {width} outputs have no class names{have}; pass them in order as labels=[…]"
            ) from error
    said = labels if isinstance(labels, LabelSpace) else labels_of(name, _listed(labels), dataset)
    if len(said) != width:
        raise ModelFailed(f"{name}: it has {width} outputs, but labels names {len(said)} classes")
    return said


def _listed(labels: Any) -> Any:
    return labels if isinstance(labels, str) or not isinstance(labels, Sequence | np.ndarray) else [*map(str, labels)]


# -- detectors -----------------------------------------------------------------------------------------------------


def _is_torchvision_detector(module: Any) -> bool:
    ours = any(cls.__module__.startswith("torchvision.models.detection") for cls in type(module).__mro__)
    return ours and hasattr(module, "transform")


def _detector(
    module: Any, model: ModelName, *, labels: Any, options: LoadOptions, weights: str | None
) -> Classifier | Detector:
    from strobe.models.detectors.spaces import detector_space, with_background
    from strobe.models.detectors.torchvision import detector_of, has_background
    from strobe.models.torchvision_weights import detection_classes

    kind = type(module).__name__.lower()
    background = has_background(kind)
    n_classes = detection_classes(module.state_dict(), kind, model)
    if labels is None:
        space = detector_space(model.plain, n_classes, background=background, dataset=options.label_space)
    else:
        space = (
            labels if isinstance(labels, LabelSpace) else labels_of(model.plain, _listed(labels), options.label_space)
        )
        space = with_background(space) if background and len(space) == n_classes - 1 else space
        if len(space) != n_classes:
            raise ModelFailed(f"{printable(model.plain)}: it has {n_classes} classes, but labels names {len(space)}")
    detector = detector_of(module, model, label_space=space, options=options)
    detector.spec = replace(detector.spec, weights=weights or detector.spec.weights)
    detector.lanes = detector.lanes if _is_stateless(module) else 1
    return detector


# -- functions -----------------------------------------------------------------------------------------------------


def _function(
    function: Callable[..., Any],
    model: ModelName,
    *,
    transform: Any,
    labels: Any,
    kind: Kind,
    options: LoadOptions,
    weights: str,
) -> Classifier | Detector:
    """Wrap a function of a list of 8-bit image arrays, or of a batch of `transform` outputs."""
    name = printable(model.plain)
    facts: dict[str, Any] = {}
    on_images = function
    if transform is not None:
        plan, facts = transform_of(transform, name)
        on_images = BatchFunction(function, plan)
    answer = tried(lambda image: on_images([image]), name)
    spec = ModelSpec(
        name=model.text,
        provider=model.provider,
        task="classification",
        weights=weights,
        label_space=LabelSpace.of_names("none", ["none"]),
        preprocessing={"function": type(function).__name__, **facts},
        batch_size=options.batch_size or 8,
    )
    if _found_boxes(answer):
        if labels is None and options.label_space is None:
            raise ModelFailed(f"{name}: pass the classes of its boxes as labels=[…]")
        space = options.label_space if labels is None else labels
        if not isinstance(space, LabelSpace):
            space = labels_of(name, _listed(space), options.label_space)
        spec = replace(spec, task="detection", label_space=space, kind="probabilities")
        return FunctionDetector(lambda images: [_three(on_image) for on_image in on_images(images)], spec)
    scores = _plain(answer)
    if scores.ndim != 2 or len(scores) != 1:
        raise ModelFailed(
            f"{name}: returned an array of shape {scores.shape} for one image, expected scores (1, classes), or boxes"
        )
    spec = replace(spec, label_space=_classes(model, scores.shape[1], labels, options))
    if kind == "auto":
        rows = tried(lambda _: [scores[0], *(_plain(on_images([image]))[0] for image in probe_images()[1:])], name)
        return FunctionClassifier(on_images, with_kind(spec, rows, _option(model)))
    return FunctionClassifier(on_images, replace(spec, kind=kind))


def _plain(scores: Any) -> NDArray[np.float64]:
    return np.asarray(scores.detach().float().cpu() if hasattr(scores, "detach") else scores, dtype=np.float64)


def _option(model: ModelName) -> str:
    """Return how the kind of a model object is declared."""
    return RETURN_KIND if model.provider == "py" else 'kind="probabilities" or kind="logits"'


def _found_boxes(answer: Any) -> bool:
    """Return whether a function's output for one image is boxes: a dict of boxes, Detections or three arrays."""
    if not isinstance(answer, list | tuple) or len(answer) != 1:
        return False
    one = answer[0]
    return (
        isinstance(one, Detections)
        or (isinstance(one, Mapping) and "boxes" in one)
        or (isinstance(one, tuple) and len(one) == 3)
    )


def _three(one: Any) -> tuple[Any, Any, Any]:
    if isinstance(one, Detections):
        return one.xyxy, one.label, one.score
    parts = [one[key] for key in ("boxes", "labels", "scores")] if isinstance(one, Mapping) else list(one)
    plain = [part.detach().cpu().numpy() if hasattr(part, "detach") else part for part in parts]
    return plain[0], plain[1], plain[2]
