"""An ONNX file, `onnx:model.onnx`, with an optional JSON file next to it for facts that the ONNX file lacks.

ONNX Runtime runs it, or OpenVINO (`backend = "openvino"`).

The keys are in `strobe.models.file_settings` and `strobe.models.exported`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core import late
from strobe.core.ports import Classifier, Detector
from strobe.core.records import ModelSpec
from strobe.models.exported import CLASSIFIER_KEYS, ExportedClassifier, ScoreTensors, score_tensors
from strobe.models.file_settings import classifier_settings, settings_of
from strobe.models.forms import declared_form
from strobe.models.kinds import kind_on_probes
from strobe.models.onnx_files import digest_of_onnx, facts_of_run, open_session, size_of_onnx, tensors_of
from strobe.models.options import LoadOptions, ModelName, file_of
from strobe.models.providers import ONNX_SETTINGS, Provider


class OnnxClassifier(ExportedClassifier):
    """A session of ONNX Runtime or OpenVINO behind the Classifier port. `exported` is its ONNX file or its content."""

    lanes = 1  # the runtime parallelises a forward itself
    exported: Path | Callable[[], bytes]

    def __init__(self, session: Any, *, spec: ModelSpec, tensors: ScoreTensors, device: str) -> None:
        super().__init__(spec=spec, tensors=tensors)
        self.device, self._session, self.input_name = device, session, session.get_inputs()[0].name

    def forward(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """Return scores (N, C)."""
        pixels = self.pixels_of(prepared)
        # A file exported for batch size 1 takes one image at a time.
        size, output = self.spec.batch_size, self._tensors.output
        parts = [
            self._session.run([output], {self.input_name: pixels[start : start + size]})[0]
            for start in range(0, len(pixels), size)
        ]
        return np.asarray(np.concatenate(parts).reshape(len(pixels), -1), dtype=np.float32)


def load(model: ModelName, options: LoadOptions) -> Classifier | Detector:
    """Load a classifier or a detector.

    The file is a detector if the JSON sets `"task": "detection"`, or if there is no JSON and the outputs look like a
    detector's.
    """
    path = file_of(model)
    said = settings_of(path, options)
    unsaid = options.settings is None and not path.with_suffix(".json").is_file()
    if said.get("task") == "detection" or (
        unsaid and late.load("strobe.models.detectors.onnx:is_detector")(path, options)
    ):
        detector: Detector = late.load("strobe.models.detectors.onnx:load")(model, options)
        return detector
    session, device = open_session(path, options)
    (image, *_), outputs = tensors_of(session)
    settings = classifier_settings(model, path, options, own=CLASSIFIER_KEYS, dtype=image.dtype)
    tensors = score_tensors(model, settings, options, image=image, outputs=outputs, place=str(path))
    spec = ModelSpec(
        name=model.text,
        provider="onnx",
        task="classification",
        label_space=tensors.labels,
        weights=digest_of_onnx(path),
        kind=tensors.kind or "logits",
        preprocessing={**tensors.facts(), **facts_of_run(options)},
        batch_size=tensors.batch or options.batch_size or 8,
        size=size_of_onnx(path),
        form=declared_form(settings, str(path.with_suffix(".json"))),
    )
    classifier = OnnxClassifier(session, spec=spec, tensors=tensors, device=device)
    classifier.exported = path
    kind_on_probes(classifier, tensors.kind, batch=tensors.batch)
    return classifier


PROVIDER = Provider(
    load=load,
    what="an ONNX file and a JSON file with its size, normalisation and labels",
    example="onnx:model.onnx",
    package="onnxruntime",
    extra="onnx",
    settings=ONNX_SETTINGS,
    model_settings=True,
    is_file=True,
)
