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
from strobe.models.options import LoadOptions, torch_setup
from strobe.models.plan import AsDecoded
from strobe.models.weights import digest_of_state

__all__ = ["UltralyticsDetector", "load"]

_LOW_SCORE, _NMS_IOU, _MOST, _SIZE = 0.001, 0.7, 300, 640


class UltralyticsDetector:
    """A YOLO model, which letterboxes, suppresses and scales back by itself."""

    lanes, preparation = 1, AsDecoded(bgr=True)  # the library's order of channels

    def __init__(self, model: Any, spec: ModelSpec, *, device: str, size: int) -> None:
        torch = require("torch", what=spec.name, extra="ultralytics")
        self._model, self.spec, self.device = model, spec, device
        self._alone = threading.Lock()  # the library keeps what it works on in the model
        # Of a device written as text the library would set CUDA_VISIBLE_DEVICES, too late to matter.
        where = torch.device(device)
        self._call = {"imgsz": size, "conf": _LOW_SCORE, "iou": _NMS_IOU, "max_det": _MOST, "device": where}

    def prepare(self, image: Image) -> Image:
        """The image in the library's order of channels, BGR."""
        return self.preparation.prepare(image)

    def forward(self, prepared: Sequence[Image]) -> list[Detections]:
        """What was found in each image, highest score first; one image at a time, as batches letterbox differently."""
        out = []
        for image in prepared:
            with self._alone:
                boxes = self._model.predict(image, verbose=False, save=False, **self._call)[0].boxes
            values = [getattr(boxes, key).cpu().numpy() for key in ("xyxy", "cls", "conf")]
            out.append(detections(values[0], values[1].astype("int64"), values[2]))
        return out


def load(name: str, weights: Path | None, options: LoadOptions) -> UltralyticsDetector:
    """The model. Its .pt files are pickles that run code: a file of your own needs --trust."""
    text = f"ultralytics:{name}" + (f"@{weights}" if weights else "")
    file = weights or Path(name)
    is_pickle = file.suffix == ".pt"
    if is_pickle and file.is_file() and not options.trust:
        raise ModelFailed(f"{printable(text)}: .pt files run code when read; pass --trust if you know who made it")
    if is_pickle and not file.is_file() and options.offline:
        raise CannotDownload(f"{printable(text)}: no such file, and --offline forbids fetching it")
    if options.offline:
        os.environ.setdefault("YOLO_OFFLINE", "true")  # the library looks for a network when it is imported
    library = require("ultralytics", what=text, extra="ultralytics")
    model = library.YOLO(str(file), task="detect", verbose=False)
    setup = torch_setup(options)
    names = [str(model.names[place]) for place in sorted(model.names)]
    size = options.image_size or _SIZE
    spec = ModelSpec(
        name=text,
        provider="ultralytics",
        task="detection",
        label_space=detector_space(text, len(names), names=names, dataset=options.label_space),
        weights=digest_of_state(model.model.state_dict()),
        kind="probabilities",
        preprocessing={
            "resize": "letterbox (ultralytics)", "size": size, "scale": "x / 255", "score_threshold": _LOW_SCORE,
            "nms_iou": _NMS_IOU, "max_detections": _MOST,
        },
        batch_size=options.batch_size or 8,
    )  # fmt: skip
    return UltralyticsDetector(model, spec, device=setup.device, size=size)
