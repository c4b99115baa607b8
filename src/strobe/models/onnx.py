"""An ONNX file, `onnx:model.onnx`, with an optional JSON file next to it for facts that the ONNX file lacks.

In addition to the keys in `strobe.models.file_settings`, `layout` is nchw (default) or nhwc. `output` names the output
with the scores (default: the first).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core import late
from strobe.core.errors import InvalidValue, ModelFailed, UnknownName, printable
from strobe.core.ports import Classifier, Detector, Image
from strobe.core.records import ModelSpec
from strobe.models.exact_resize import SentPlan
from strobe.models.file_settings import classifier_settings, plan_of, settings_of
from strobe.models.naming import labels_of
from strobe.models.onnx_files import digest_of_onnx, open_session
from strobe.models.options import LoadOptions, ModelName, file_of
from strobe.models.plan import ImagePlan
from strobe.models.providers import FILE_SETTINGS, Provider


class OnnxClassifier:
    """An onnxruntime session behind the Classifier port."""

    lanes = 1  # the runtime parallelises a forward itself

    def __init__(self, session: Any, *, spec: ModelSpec, plan: ImagePlan, device: str) -> None:
        self.spec, self.plan, self.device = spec, plan, device
        self.preparation = SentPlan(plan)
        self._session, self._input = session, session.get_inputs()[0]
        self._dtype = np.float16 if "float16" in self._input.type else np.float32
        self._mean, self._std = np.array(plan.mean, dtype=np.float32), np.array(plan.std, dtype=np.float32)

    def prepare(self, image: Image) -> Image:
        """Return the image, resized and cropped."""
        return self.plan.prepare(image)

    def prepare_input(self, image: Image) -> Image:
        """Return the image unchanged if it has the input's size, otherwise resized to it ignoring aspect ratio."""
        return self.plan.prepare_input(image)

    def forward(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """Return scores (N, C)."""
        pixels = (np.stack(prepared).astype(np.float32) / np.float32(self.plan.divide) - self._mean) / self._std
        if self.spec.preprocessing["layout"] == "nchw":
            pixels = pixels.transpose(0, 3, 1, 2)
        pixels = np.ascontiguousarray(pixels, dtype=self._dtype)
        # A file exported for batch size 1 takes one image at a time.
        size, output = self.spec.batch_size, self.spec.preprocessing["output"]
        parts = [
            self._session.run([output], {self._input.name: pixels[start : start + size]})[0]
            for start in range(0, len(pixels), size)
        ]
        return np.asarray(np.concatenate(parts).reshape(len(pixels), -1), dtype=np.float32)


def load(model: ModelName, options: LoadOptions) -> Classifier | Detector:
    """Load a classifier or a detector.

    The file is a detector if the JSON sets `"task": "detection"`, or if there is no JSON and the outputs look like a
    detector's.
    """
    path, name = file_of(model), printable(model.plain)
    said = settings_of(path, options)
    unsaid = options.settings is None and not path.with_suffix(".json").is_file()
    if said.get("task") == "detection" or (
        unsaid and late.load("strobe.models.detectors.onnx:is_detector")(path, options)
    ):
        detector: Detector = late.load("strobe.models.detectors.onnx:load")(model, options)
        return detector
    settings = classifier_settings(model, path, options, own=("layout", "output", "task"))
    session, device = open_session(path, options)
    layout, shape = str(settings.get("layout", "nchw")), session.get_inputs()[0].shape
    if layout not in ("nchw", "nhwc"):
        raise InvalidValue(f"{name}: layout: expected nchw or nhwc, got {printable(layout)!r}")
    if len(shape) != 4:
        raise ModelFailed(f"{name}: its input has shape {shape}, expected four dimensions (a batch of images)")
    height, width = shape[2:] if layout == "nchw" else shape[1:3]
    plan = plan_of(model, settings, options, height=height, width=width)
    outputs = {entry.name: entry for entry in session.get_outputs()}
    output = str(settings.get("output", next(iter(outputs))))
    if output not in outputs:
        raise UnknownName(f"output of {printable(path)}", output, outputs, hint=f"it has {', '.join(outputs)}")
    labels, n_outputs = labels_of(model.plain, settings["labels"], options.label_space), outputs[output].shape[-1:]
    if any(isinstance(n, int) and n != len(labels) for n in n_outputs):
        raise ModelFailed(f"{name}: it has {n_outputs[0]} outputs, but {len(labels)} labels ({labels.name})")
    spec = ModelSpec(
        name=model.text,
        provider="onnx",
        task="classification",
        label_space=labels,
        weights=digest_of_onnx(path),
        kind=settings.get("kind", "logits"),
        preprocessing={**plan.to_json(), "layout": layout, "output": output, "precision": "as exported"},
        batch_size=shape[0] if isinstance(shape[0], int) else options.batch_size or 8,
    )
    return OnnxClassifier(session, spec=spec, plan=plan, device=device)


PROVIDER = Provider(
    load=load,
    what="an ONNX file and a JSON file with its size, normalisation and labels",
    example="onnx:model.onnx",
    package="onnxruntime",
    extra="onnx",
    settings=FILE_SETTINGS,
    model_settings=True,
    is_file=True,
)
