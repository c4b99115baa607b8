"""ultralytics' YOLO detectors: `ultralytics:yolo11n.pt`, a local .pt or .yaml file. An optional extra (AGPL-3.0)."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from strobe.core.errors import CannotDownload, ModelFailed, printable
from strobe.core.late import require
from strobe.core.ports import Image
from strobe.core.records import Detections, ModelSpec
from strobe.models.detectors.boxes import detections
from strobe.models.detectors.spaces import detector_space
from strobe.models.detectors.torch_detector import detector_spec
from strobe.models.options import LoadOptions, ModelName, torch_setup
from strobe.models.plan import AsDecoded
from strobe.models.providers import Provider
from strobe.models.weights import digest_of_state

_LOW_SCORE, _NMS_IOU, _MOST, _SIZE = 0.001, 0.7, 300, 640


class UltralyticsDetector:
    """A YOLO model. The library letterboxes images, suppresses boxes and scales them back."""

    lanes, preparation = 1, AsDecoded(bgr=True)  # the library expects BGR

    def __init__(self, model: Any, spec: ModelSpec, *, device: str, size: int) -> None:
        torch = require("torch", what=spec.name, extra="ultralytics")
        self._model, self.spec, self.device = model, spec, device
        self._alone = threading.Lock()  # the library keeps per-call state in the model
        # If the device is given as text, the library sets CUDA_VISIBLE_DEVICES, too late to have an effect.
        where = torch.device(device)
        self._call = {"imgsz": size, "conf": _LOW_SCORE, "iou": _NMS_IOU, "max_det": _MOST, "device": where}

    def prepare(self, image: Image) -> Image:
        """Return the image in the library's channel order, BGR."""
        return self.preparation.prepare(image)

    def prepare_input(self, image: Image) -> Image:
        """Return the result of `prepare`. It never crops, and does not resize an image of the input's size."""
        return self.prepare(image)

    def forward(self, prepared: Sequence[Image]) -> list[Detections]:
        """Return each image's detections, highest score first.

        Runs one image at a time, because batches are letterboxed differently.
        """
        out = []
        for image in prepared:
            with self._alone:
                boxes = self._model.predict(image, verbose=False, save=False, **self._call)[0].boxes
            values = [getattr(boxes, key).cpu().numpy() for key in ("xyxy", "cls", "conf")]
            out.append(detections(values[0], values[1].astype("int64"), values[2]))
        return out


def load(model: ModelName, options: LoadOptions) -> UltralyticsDetector:
    """Load the model. Its .pt files are pickles that run code, so your own file needs --trust."""
    text, file = printable(model.text), model.weights or Path(model.name)
    is_pickle = file.suffix == ".pt"
    if is_pickle and file.is_file() and not options.trust:
        raise ModelFailed(f"{text}: .pt files run code when read; pass <<trust=True>> if you trust its author")
    if is_pickle and not file.is_file() and options.offline:
        raise CannotDownload(f"{text}: there is no such file, and <<offline=True>> forbids downloading it")
    if options.offline:
        os.environ.setdefault("YOLO_OFFLINE", "true")  # the library checks for a network connection at import
    library = require("ultralytics", what=model.text, extra="ultralytics")
    network, size = library.YOLO(str(file), task="detect", verbose=False), options.image_size or _SIZE
    names = [str(network.names[name]) for name in sorted(network.names)]
    spec = detector_spec(
        model,
        label_space=detector_space(model.text, len(names), names=names, dataset=options.label_space),
        weights=digest_of_state(network.model.state_dict()),
        preprocessing={
            "resize": "letterbox (ultralytics)",
            "size": size,
            "scale": "x / 255",
            "score_threshold": _LOW_SCORE,
            "nms_iou": _NMS_IOU,
            "max_detections": _MOST,
        },
        batch_size=options.batch_size or 8,
    )
    return UltralyticsDetector(network, spec, device=torch_setup(options).device, size=size)


PROVIDER = Provider(
    load=load,
    what="ultralytics' YOLO detectors",
    example="ultralytics:yolo11n.pt",
    package="ultralytics",
    extra="ultralytics",
    settings=("image_size", "batch_size"),
    is_file=True,
    downloads=True,
)
