"""A model behind an address that speaks the Open Inference Protocol v2: Triton, KServe, MLServer and others.

    kserve:NAME@http://HOST:8080                 REST
    kserve:NAME/versions/2@https://HOST          a version of the model
    kserve:NAME@grpc://HOST:8081                 gRPC; grpcs:// with a certificate

Names, types and shapes of the tensors come from the service. Preprocessing, classes and the meaning of the outputs come
from --model-settings, with the keys of an ONNX file.
"""

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.remote.http import check_address, patiently
from strobe.annexes.remote.kserve_wire import DATATYPES, Arrays, RestWire, ServedModel, Wire, broken
from strobe.core import late
from strobe.core.errors import ModelFailed, printable
from strobe.core.ports import Classifier, Detector
from strobe.core.records import ModelSpec
from strobe.core.remote import RemoteAnswer, Reply, RequestFailed, RequestLimits, Usage
from strobe.models.detectors import onnx_layouts as layouts
from strobe.models.exported import CLASSIFIER_KEYS, ExportedClassifier, ScoreTensors, Tensor, score_tensors, written
from strobe.models.file_settings import classifier_settings, settings_of
from strobe.models.guard import probe_images
from strobe.models.kinds import IN_SETTINGS, with_kind
from strobe.models.options import LoadOptions, ModelName
from strobe.models.providers import Provider

_BATCH = 8
_MOST_SENT = 2**30
"""The largest request in bytes, whatever sizes the service states."""
_PIXELS = ("float32", "float16", "uint8")


@dataclass(kw_only=True)
class KserveService:
    """One model of a service, with its tensors. Checks every reply against what the service said at the start."""

    what: str
    wire: Wire
    served: ServedModel
    image: Tensor
    limits: RequestLimits
    batch_size: int
    n_labels: int = 0
    layout: str = ""
    """The layout of a detector's outputs; empty for a classifier."""
    _version: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def outputs(self, *names: str) -> tuple[Tensor, ...]:
        """Return the outputs of these names, or all outputs."""
        return tuple(output for output in self.served.outputs if output.name in names or not names)

    def arrays(self, pixels: NDArray[Any], outputs: Sequence[Tensor]) -> tuple[Arrays, Usage]:
        """Send one request and return the outputs, checked. A fixed batch is filled up with blank images.

        Every output has one row per image. Only the boxes of a single image may come without this dimension.
        """
        n, size = len(pixels), self.image.shape[0] or len(pixels)
        sent = np.concatenate([pixels, np.zeros((size - n, *pixels.shape[1:]), pixels.dtype)]) if n < size else pixels
        arrays, version, used = self.wire.infer(self.image, sent, [output.name for output in outputs])
        self._check_version(printable(version), used)
        for one in outputs:
            if one.name not in arrays:
                got = ", ".join(printable(name) for name in arrays) or "none"
                raise broken(self.what, f"its reply lacks the output {printable(one.name)}; it has {got}", used)
            found = arrays[one.name]
            if found.dtype.name != one.dtype:
                raise broken(self.what, f"its output {one.name} is {found.dtype}, but it announced {one.dtype}", used)
            fixed = [want in (None, have) for want, have in zip(one.shape, found.shape, strict=False)]
            if found.ndim != len(one.shape) or not all(fixed):
                shapes = f"shape {written(found.shape)}, but it announced {written(one.shape)}"
                raise broken(self.what, f"its output {one.name} has {shapes}", used)
            if (size > 1 or not self.layout) and found.shape[:1] != (size,):
                shape = written(found.shape)
                raise broken(self.what, f"its output {one.name} has shape {shape} for {size} images", used)
            if found.dtype.kind == "f" and np.isnan(found[:n]).any():
                raise broken(self.what, f"its output {one.name} contains NaN", used)
            width = layouts.n_classes(self.layout, [(one.name, found.shape)]) if self.layout else found[0].size
            if width not in (None, self.n_labels):
                raise broken(self.what, f"its output {one.name} has {width} classes, but {self.n_labels} labels", used)
        return {output.name: arrays[output.name][:n] if n < size else arrays[output.name] for output in outputs}, used

    def _check_version(self, version: str, used: Usage) -> None:
        """Raise RequestFailed if another version answers than before, because the answers would be mixed."""
        with self._lock:
            before = self._version = self._version or self.served.version or version
        if version and version != before:
            raise broken(
                self.what,
                f"version {printable(version)} answered, and version {printable(before)} before; name one: "
                f"kserve:{printable(self.served.name)}/versions/{printable(version)}@…",
                used,
            )

    def settle(self, pixels: NDArray[Any], outputs: Sequence[Tensor]) -> tuple[Arrays, dict[str, Any]]:
        """Ask once with test images. Return the outputs, and the facts of the service for the key of the answers.

        This settles how tensors are sent and which version answers, and finds a service of another shape early.
        """
        try:
            arrays, _ = patiently(lambda: self.arrays(pixels, outputs), within=self.limits.timeout)
        except RequestFailed as error:
            if not self.wire.fall_back(error):
                raise
            arrays, _ = patiently(lambda: self.arrays(pixels, outputs), within=self.limits.timeout)
        return arrays, {
            "protocol": self.wire.protocol,
            "version": self._version,
            "platform": self.served.platform,
            "input": self.image.name,
        }


class KserveClassifier(ExportedClassifier):
    """A classifier of a service."""

    device, lanes = "remote", 1

    def __init__(self, service: KserveService, *, spec: ModelSpec, tensors: ScoreTensors) -> None:
        super().__init__(spec=spec, tensors=tensors)
        self._service, self.limits = service, service.limits

    def ask(self, prepared: Sequence[Any], *, sources: Sequence[str], attempt: int = 0) -> Reply:  # noqa: ARG002 (the port's signature)
        """Send one request with these images and return their scores."""
        scores, used = self._scores(prepared)
        return Reply(answers=tuple(RemoteAnswer(scores=row) for row in scores), used=used)

    def n_sent(self, prepared: Any) -> int:
        """Return how many bytes one prepared image has in a request, for the estimate before the first one."""
        return self._service.wire.n_sent(self.pixels_of([prepared]))

    def forward(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """Return scores (N, C). Nothing is retried."""
        size = self.spec.batch_size
        return np.concatenate([self._scores(prepared[at : at + size])[0] for at in range(0, len(prepared), size)])

    def _scores(self, prepared: Sequence[Any]) -> tuple[NDArray[np.float32], Usage]:
        output = self._tensors.output
        arrays, used = self._service.arrays(self.pixels_of(prepared), self._service.outputs(output))
        scores = arrays[output].reshape(len(prepared), -1).astype(np.float32)
        if not np.isfinite(scores).all():
            raise broken(self._service.what, f"its output {output} contains infinite scores", used)
        return scores, used


def load(model: ModelName, options: LoadOptions) -> Classifier | Detector:
    """Load a classifier or a detector: read what the service says about it, and settle how it is asked.

    The model is a detector if the settings have `"task": "detection"`, or if there are none and the outputs look like
    a detector's.
    """
    service = connect(model, options)
    said = settings_of(None, options)
    if said.get("task") == "detection" or (
        options.settings is None
        and late.load("strobe.models.detectors.exported:looks_like_detector")(service.served.outputs)
    ):
        detector: Detector = late.load("strobe.annexes.remote.kserve_detector:load")(model, options, service)
        return detector
    settings = classifier_settings(model, None, options, own=CLASSIFIER_KEYS, dtype=service.image.dtype)
    tensors = score_tensors(
        model, settings, options, image=service.image, outputs=service.served.outputs, place=model.plain
    )
    wanted, service.n_labels = service.outputs(tensors.output), len(tensors.labels)
    if not wanted[0].dtype.startswith("float"):
        kinds = f"{printable(wanted[0].dtype)}, expected FP32, FP16 or FP64"
        raise ModelFailed(f"{service.what}: its output {tensors.output} has the datatype {kinds}")
    spec = ModelSpec(
        name=model.text,
        provider="kserve",
        task="classification",
        label_space=tensors.labels,
        weights=service.served.digest(model.address or ""),
        kind=tensors.kind or "logits",
        preprocessing=tensors.facts(),
        batch_size=service.batch_size,
    )
    classifier = KserveClassifier(service, spec=spec, tensors=tensors)
    probes = [classifier.prepare(image) for image in probe_images()[: service.batch_size]]
    arrays, facts = service.settle(classifier.pixels_of(probes), wanted)
    spec = replace(spec, preprocessing=tensors.facts() | facts)
    if tensors.kind is None:
        spec = with_kind(spec, arrays[tensors.output].reshape(len(probes), -1), IN_SETTINGS)
    classifier.spec = spec
    announce(spec, options)
    return classifier


def connect(model: ModelName, options: LoadOptions) -> KserveService:
    """Connect to the service and read the model's metadata. Raises one line if it is no model for images."""
    name, _, version = model.name.partition("/versions/")
    if model.address is None or not name:
        raise ModelFailed(
            f"{printable(model.plain)}: expected an address after @, e.g. kserve:{printable(name or 'NAME')}"
            "@http://localhost:8080"
        )
    scheme, _, rest = model.address.partition("://")
    over_grpc = scheme in ("grpc", "grpcs")
    check_address(f"http://{rest}" if over_grpc else model.address, printable(model.plain))
    what, limits = printable(model.text), RequestLimits.of(options.limits)
    make = late.load("strobe.annexes.remote.kserve_grpc:GrpcWire") if over_grpc else RestWire
    wire = make(model.address.rstrip("/"), what=what, name=name, version=version, limits=limits)
    served: ServedModel = wire.model()
    if len(served.inputs) != 1:
        names = ", ".join(printable(one.name) for one in served.inputs)
        raise ModelFailed(f"{what}: it has {len(served.inputs)} inputs ({names}), expected one, the image")
    image = served.inputs[0]
    if image.dtype not in _PIXELS:
        names = ", ".join(kind for kind, numpy in DATATYPES.items() if numpy in _PIXELS)
        raise ModelFailed(
            f"{what}: its input {printable(image.name)} has the datatype {_datatype(image)}, expected one of {names}"
        )
    fixed = image.shape[0] if image.shape else None
    batch_size = fixed or options.batch_size or min(_BATCH, served.most or _BATCH)
    if served.most is not None and batch_size > served.most:
        raise ModelFailed(f"{what}: it accepts at most {served.most} images at once; use <<batch_size={served.most}>>")
    shape = [batch_size, *filter(None, image.shape[1:])]
    if math.prod(shape) * np.dtype(image.dtype).itemsize > _MOST_SENT:
        raise ModelFailed(
            f"{what}: a request with its input {printable(image.name)} of shape {printable(shape)} takes more than "
            f"{_MOST_SENT >> 30} GiB"
        )
    return KserveService(what=what, wire=wire, served=served, image=image, limits=limits, batch_size=batch_size)


def announce(spec: ModelSpec, options: LoadOptions) -> None:
    """Print how the service is asked."""
    if options.progress is not None:
        facts = spec.preprocessing
        options.progress.note(
            f"{printable(spec.name)}: {facts['protocol']}, at most {spec.batch_size} images per request, version "
            f"{printable(facts['version']) or 'unnamed'}, platform {printable(facts['platform']) or 'unnamed'}"
        )


def _datatype(tensor: Tensor) -> str:
    return next((name for name, kind in DATATYPES.items() if kind == tensor.dtype), printable(tensor.dtype))


PROVIDER = Provider(
    load=load,
    what="a model of Triton, KServe, MLServer: Open Inference Protocol v2",
    example="kserve:net@http://host:8080",
    package="urllib3",
    extra="remote",
    settings=("image_size", "batch_size", "limits"),
    model_settings=True,
    address=True,
)
