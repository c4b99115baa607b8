"""A model from your own Python file: `py:FILE.py:FACTORY`.

The factory takes no argument, or the LoadOptions (with the file after @ as `weights`). It returns one of

- a pair `(function, classes)`: the function takes a list of 8-bit RGB images (height, width, 3) and returns scores
  (N, len(classes)); or
- a torch module, alone (a timm model, which carries its preprocessing) or as `(module, transform)`,
  `(module, transform, classes)` or `(module, classes)`: the transform turns a PIL image into a tensor; or
- an object with `spec`, `prepare` and `forward` as in the Classifier or Detector port. `device`, `lanes` and
  `preparation` are optional: by default it runs on the CPU, one call at a time, and does its own preprocessing.
  `prepare_input` is optional too: without it, the model gives no answers for frames that already are model inputs.
  With `input_hw`, `input_pixels` and `input_scores` as in the Differentiable port, it can be attacked. An object with
  `limits` and `ask` instead of `forward`, as in the RemoteModel port, is asked over a network.

The file runs with your rights, like any script you start. Its exceptions and its calls to exit count as a failure of
this model, reported with the line in the file. Its output goes to stderr, because stdout belongs to the command.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from strobe.core.errors import ModelFailed, printable
from strobe.core.files import sha256_of_file
from strobe.core.labels import LabelSpace, space
from strobe.core.ports import Classifier, Detector
from strobe.core.records import ModelSpec
from strobe.models.guard import (
    FunctionClassifier,
    GuardedModel,
    PluginObject,
    is_module,
    is_remote,
    made_by_file,
    packed,
    probe_image,
    probe_images,
)
from strobe.models.kinds import RETURN_KIND, with_kind
from strobe.models.options import LoadOptions, ModelName, require_file
from strobe.models.own_files import watching
from strobe.models.plan import ImagePlan
from strobe.models.providers import TORCH_SETTINGS, Provider


def load(model: ModelName, options: LoadOptions) -> Classifier | Detector:
    """Load the model that the factory makes.

    Its name is FILE.py:FACTORY. The options pass `@weights` to the factory.
    """
    name, plugin = printable(model.plain), made_by_file(model, options)
    product, path, options = plugin.made, plugin.path, plugin.options
    declared: Any = None
    if isinstance(product, tuple) and product and str(product[-1]) in ("logits", "probabilities"):
        product, declared = product[:-1], product[-1]
    is_function = (
        isinstance(product, tuple) and len(product) == 2 and callable(product[0]) and not is_module(product[0])
    )
    parts = product if isinstance(product, tuple) else (product,)
    network = bool(parts) and is_module(parts[0])
    if network:
        with watching(plugin.watch):
            product = _network(parts, model, options, declared or "auto")
    elif is_function:
        spec = replace(_spec(model, path, product[1], options), kind=declared or "logits")
        product = FunctionClassifier(product[0], spec)
    elif not (
        hasattr(product, "spec") and hasattr(product, "prepare") and (hasattr(product, "forward") or is_remote(product))
    ):
        raise ModelFailed(
            f"{name}: returned {type(product).__name__}, expected (function, classes), a torch module with its "
            "transform, or an object with spec, prepare and forward; see docs/models.md"
        )
    elif not isinstance(product.spec, ModelSpec):
        raise ModelFailed(f"{name}: its `spec` is {type(product.spec).__name__}, expected strobe's ModelSpec")
    if is_function and declared is None:
        _find_kind(product, plugin)
    elif not network and not is_remote(product):  # a network has run on test images, and a remote request costs money
        plugin.tried(lambda: product.forward([product.prepare(probe_image())]))
    spec = _keyed(product.spec, plugin, is_function=is_function)
    return GuardedModel(product, path, spec)


def _find_kind(function: FunctionClassifier, plugin: PluginObject) -> None:
    """Find the kind of a function's scores on test images, one at a time. If all fail, forwards are refused."""
    found: list[Any] = []
    for image in probe_images():
        plugin.tried(lambda: found.append(function.forward([image])))  # noqa: B023 (it is called at once)
    width = len(function.spec.label_space)
    rows = [one[0] for one in found if one.shape == (1, width) and np.isfinite(one).all()]
    if rows:
        function.spec = with_kind(function.spec, rows, RETURN_KIND)
    else:
        function.undecided = (
            f"{printable(function.spec.name)}: it has no scores for test images, which would show whether they are "
            f"logits or probabilities; declare the kind with {RETURN_KIND}"
        )


def _network(parts: Sequence[Any], model: ModelName, options: LoadOptions, kind: Any) -> Classifier | Detector:
    """Return the torch module of a factory, with its transform and classes if given, in either order."""
    transform = next((part for part in parts[1:] if isinstance(part, ImagePlan) or callable(part)), None)
    labels = next((part for part in parts[1:] if part is not transform), None)
    if len(parts) > 3 or (len(parts) == 3 and (transform is None or labels is None)):
        raise ModelFailed(f"{printable(model.plain)}: expected (module, transform, classes), got {len(parts)} values")
    from strobe.models.live import as_model

    return as_model(parts[0], model, transform=transform, labels=labels, kind=kind, options=options, weights=None)


def _keyed(spec: ModelSpec, plugin: PluginObject, *, is_function: bool) -> ModelSpec:
    """Return the spec with everything that can change the answers: the file, files it read, the factory's options."""
    path, options, files = plugin.path, plugin.options, plugin.files_digest()
    if is_function:
        facts: dict[str, Any] = {}
        spec = replace(spec, weights=hashlib.sha256(f"{spec.weights}{files}".encode()).hexdigest()) if files else spec
    else:  # the object declares its weights itself, and the file holds the code that uses them
        facts = {"plugin": path.name, "plugin_sha256": sha256_of_file(path)}
        facts |= {"plugin_files": files} if files else {}
    if plugin.hears:
        option_values = {
            "image_size": options.image_size,
            "precision": None if options.precision == "auto" else options.precision,
            "pretrained": None if options.pretrained else False,
            "prompt": options.prompt,
            "settings": sha256_of_file(require_file(options.settings, what=spec.name)) if options.settings else None,
            "weights": sha256_of_file(options.weights) if options.weights else None,
        }
        said = {key: value for key, value in option_values.items() if value is not None}
        facts |= {"options": said} if said else {}
    return replace(spec, preprocessing={**spec.preprocessing, **facts})


def _spec(model: ModelName, path: Path, classes: Any, options: LoadOptions) -> ModelSpec:
    if isinstance(classes, LabelSpace):
        label_space = classes
    elif isinstance(classes, str):
        label_space = space(classes)
    elif isinstance(classes, Sequence) and classes and all(isinstance(label, str) for label in classes):
        label_space = LabelSpace.of_names(f"{path.stem} classes", list(classes))
    else:
        raise ModelFailed(
            f"{printable(model.plain)}: its classes are {printable(repr(classes), limit=80)}, expected a list of "
            "names, a LabelSpace, or the name of a shipped one such as ilsvrc-2012"
        )
    digest = sha256_of_file(path) + (sha256_of_file(options.weights) if options.weights else "")
    return ModelSpec(
        name=model.text,
        provider="py",
        task="classification",
        label_space=label_space,
        weights=hashlib.sha256(digest.encode()).hexdigest(),
        preprocessing={"plugin": path.name},
        batch_size=options.batch_size or 8,
    )


PROVIDER = Provider(
    load=load,
    what="your own model, from a Python file",
    example="py:mine.py:make",
    extra="models",
    settings=(*TORCH_SETTINGS, "prompt", "limits"),
    model_settings=True,
    is_file=True,
    runs_code=True,
    sent=packed,
)
