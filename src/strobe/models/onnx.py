"""An ONNX file: `onnx:model.onnx`, with a JSON beside it (`model.json`) that says what the file cannot.

    {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "labels": "ilsvrc-2012", "resize": 256}

`labels` is the name of a shipped label space, a list of names, or "dataset". Any field of ImagePlan may be given;
`size_hw` comes from the file where its input has a fixed size. `kind` is logits (default) or probabilities, `layout`
nchw (default) or nhwc, `output` the name of the output with the scores (default: the first).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core import late
from strobe.core.errors import InvalidFile, InvalidValue, ModelFailed, StrobeError, UnknownName, printable
from strobe.core.files import read_json
from strobe.core.labels import LabelSpace
from strobe.core.late import require
from strobe.core.ports import Classifier, Detector, Image
from strobe.core.records import ModelSpec
from strobe.models.exact_resize import SentPlan
from strobe.models.naming import labels_of
from strobe.models.onnx_files import digest_of_onnx
from strobe.models.options import LoadOptions, require_file
from strobe.models.plan import ImagePlan

__all__ = ["OnnxClassifier", "load", "open_session", "read_settings"]

_OWN = {"labels", "kind", "layout", "output", "task"}
_PLAN = {"size_hw", "resize", "resize_hw", "fit", "fill", "interpolation", "divide", "mean", "std", "channels"}


class OnnxClassifier:
    """An onnxruntime session behind the Classifier port."""

    lanes = 1  # the runtime spreads a forward over the cores itself

    def __init__(
        self, session: Any, *, spec: ModelSpec, plan: ImagePlan, layout: str, output: str, device: str
    ) -> None:
        self.spec, self.plan, self.device = spec, plan, device
        self.preparation = SentPlan(plan)
        self._session, self._layout, self._output = session, layout, output
        given = session.get_inputs()[0]
        self._input = given.name
        self._dtype = np.float16 if "float16" in given.type else np.float32
        self._mean, self._std = np.array(plan.mean, dtype=np.float32), np.array(plan.std, dtype=np.float32)

    def prepare(self, image: Image) -> Image:
        """Resize and crop."""
        return self.plan.prepare(image)

    def forward(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """Scores (N, C)."""
        pixels = (np.stack(prepared).astype(np.float32) / np.float32(self.plan.divide) - self._mean) / self._std
        if self._layout == "nchw":
            pixels = pixels.transpose(0, 3, 1, 2)
        pixels = np.ascontiguousarray(pixels, dtype=self._dtype)
        # A file exported for one image takes one image.
        size = self.spec.batch_size
        parts = [
            self._session.run([self._output], {self._input: pixels[start : start + size]})[0]
            for start in range(0, len(pixels), size)
        ]
        scores = np.concatenate(parts)
        return np.asarray(scores.reshape(len(pixels), -1), dtype=np.float32)


def load(name: str, weights: Path | None, options: LoadOptions) -> Classifier | Detector:
    """The file as a classifier; as a detector where its JSON says `"task": "detection"`, or without one it looks so."""
    if weights is not None:
        raise ModelFailed(f"onnx:{printable(name)}: the weights are in the file itself; drop @{printable(weights)}")
    path = require_file(Path(name), what=f"onnx:{name}")
    unsaid = options.settings is None and not path.with_suffix(".json").is_file()
    if unsaid and late.load("strobe.models.detectors.onnx:is_detector")(path, options):
        settings: Mapping[str, Any] = {"task": "detection"}
    else:
        settings = read_settings(path, options)
    if settings.get("task") == "detection":
        detector: Detector = late.load("strobe.models.detectors.onnx:load")(name, weights, options)
        return detector
    session, device = open_session(path, options)
    layout = str(settings.get("layout", "nchw"))
    if layout not in ("nchw", "nhwc"):
        raise InvalidValue(f"onnx:{printable(name)}: layout: expected nchw or nhwc, got {printable(layout)!r}")
    plan, fixed_batch = _plan(path, session, settings, options, layout)
    outputs = {entry.name: entry for entry in session.get_outputs()}
    output = str(settings.get("output", next(iter(outputs))))
    if output not in outputs:
        raise UnknownName(f"output of {printable(path)}", output, outputs, hint=f"it has {', '.join(outputs)}")
    kind = settings.get("kind", "logits")
    spec = ModelSpec(
        name=f"onnx:{name}",
        provider="onnx",
        task="classification",
        label_space=labels_of(f"onnx:{name}", settings["labels"], options.label_space),
        weights=digest_of_onnx(path),
        kind=kind,
        preprocessing={**plan.to_json(), "layout": layout, "output": output, "precision": "as exported"},
        batch_size=fixed_batch or options.batch_size or 8,
    )
    _check_width(path, outputs[output].shape, spec.label_space)
    return OnnxClassifier(session, spec=spec, plan=plan, layout=layout, output=output, device=device)


def read_settings(path: Path, options: LoadOptions) -> Mapping[str, Any]:
    """The JSON beside the model, or the one named by --model-settings."""
    file = options.settings or path.with_suffix(".json")
    if not file.is_file():
        example = (
            '{"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "labels": "ilsvrc-2012", "resize": 256}'
        )
        raise ModelFailed(
            f"onnx:{printable(path)}: an ONNX file does not say how its input is normalised or what its classes are; "
            f"write {printable(file)}, e.g. {example}"
        )
    settings = read_json(file)
    if not isinstance(settings, dict):
        raise InvalidFile(file, "expected a JSON object")
    return settings


def open_session(path: Path, options: LoadOptions) -> tuple[Any, str]:
    """An onnxruntime session on the device asked for, and where it really runs."""
    runtime = require("onnxruntime", what=f"onnx:{path}", extra="onnx")
    cuda, asked = "CUDAExecutionProvider", options.device
    device = "cuda" if asked == "auto" else asked if asked.startswith("cuda") else "cpu"
    wanted: list[Any] = ["CPUExecutionProvider"]
    if device != "cpu":
        number = device.partition(":")[2]
        if number and not number.isdecimal():
            raise UnknownName("device", asked, ("cuda", "cuda:0", "cuda:1"))
        if cuda in runtime.get_available_providers():
            wanted.insert(0, (cuda, {"device_id": int(number or 0)}))
        elif asked != "auto":
            raise StrobeError("this onnxruntime has no CUDA: pip install onnxruntime-gpu, or use --device cpu")
    settings = runtime.SessionOptions()
    settings.log_severity_level = 3
    try:
        session = runtime.InferenceSession(str(path), settings, providers=wanted)
    except Exception as error:  # onnxruntime raises its own classes, one per way a file can be wrong
        raise InvalidFile(path, f"not an ONNX file onnxruntime can run ({printable(error, limit=140)})") from error
    if cuda in session.get_providers():
        return session, device
    if asked.startswith("cuda"):  # it only warns, and goes on without
        raise StrobeError(f"onnxruntime could not start CUDA for {asked}; see strobe doctor, or use --device cpu")
    return session, "cpu"


def _plan(
    path: Path, session: Any, settings: Mapping[str, Any], options: LoadOptions, layout: str
) -> tuple[ImagePlan, int | None]:
    """The preprocessing, and the batch size where the file has it fixed."""
    unknown = sorted(set(settings) - _OWN - _PLAN)
    if unknown:
        raise UnknownName(f"setting of {printable(path)}", unknown[0], sorted(_OWN | _PLAN))
    missing = [key for key in ("mean", "std", "labels") if key not in settings]
    if missing:
        raise ModelFailed(f"onnx:{printable(path)}: its JSON does not say {' and '.join(missing)}")
    shape = session.get_inputs()[0].shape
    if len(shape) != 4:
        raise ModelFailed(
            f"onnx:{printable(path)}: its input has shape {shape}, expected four dimensions (a batch of images)"
        )
    height, width = (shape[2], shape[3]) if layout == "nchw" else (shape[1], shape[2])
    given: dict[str, Any] = {key: settings[key] for key in _PLAN if key in settings}
    if options.image_size:
        given["size_hw"] = (options.image_size, options.image_size)
    if isinstance(height, int) and isinstance(width, int):
        if "size_hw" in given and tuple(given["size_hw"]) != (height, width):
            raise ModelFailed(
                f"onnx:{printable(path)}: it takes {height}×{width} images, not {tuple(given['size_hw'])}"
            )
        given["size_hw"] = (height, width)
    if "size_hw" not in given:
        raise ModelFailed(f"onnx:{printable(path)}: its input size is free; say size_hw in its JSON, or --image-size")
    if "resize" not in given and "fit" not in given:
        given["fit"] = "squash"
    return ImagePlan.from_json(given), shape[0] if isinstance(shape[0], int) else None


def _check_width(path: Path, shape: Sequence[Any], label_space: LabelSpace) -> None:
    width = shape[-1] if shape else None
    if isinstance(width, int) and width != len(label_space):
        raise ModelFailed(
            f"onnx:{printable(path)}: it has {width} outputs, but its labels ({label_space.name}) are "
            f"{len(label_space)}"
        )
