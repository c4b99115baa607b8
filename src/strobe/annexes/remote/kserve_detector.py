"""A detector behind an address that speaks the Open Inference Protocol v2 (`strobe.annexes.remote.kserve`)."""

from collections.abc import Sequence

import numpy as np

from strobe.annexes.remote.kserve import KserveService, announce
from strobe.annexes.remote.kserve_wire import DATATYPES, broken
from strobe.core.errors import ModelFailed, StrobeError, printable
from strobe.core.ports import Image
from strobe.core.records import Detections, ModelSpec
from strobe.core.remote import RemoteAnswer, Reply, RequestFailed, Usage
from strobe.models.detectors import onnx_layouts as layouts
from strobe.models.detectors.boxes import Placement
from strobe.models.detectors.exported import ExportedDetector, box_tensors
from strobe.models.detectors.torch_detector import detector_spec
from strobe.models.file_settings import settings_of
from strobe.models.options import LoadOptions, ModelName

Prepared = Sequence[tuple[Image, Placement]]


class KserveDetector(ExportedDetector):
    """A detector of a service."""

    device, lanes = "remote", 1

    def __init__(self, service: KserveService, spec: ModelSpec, *, sure: bool) -> None:
        super().__init__(spec, image=service.image, sure=sure)
        self._service, self.limits = service, service.limits

    def ask(self, prepared: Prepared, *, sources: Sequence[str], attempt: int = 0) -> Reply:  # noqa: ARG002 (the port's signature)
        """Send one request with these images and return their boxes."""
        boxes, used = self._boxes(prepared)
        return Reply(answers=tuple(RemoteAnswer(found=box) for box in boxes), used=used)

    def n_sent(self, prepared: tuple[Image, Placement]) -> int:
        """Return how many bytes one prepared image has in a request, for the estimate before the first one."""
        return self._service.wire.n_sent(self.pixels_of([prepared[0]]))

    def forward(self, prepared: Prepared) -> list[Detections]:
        """Return the detections of each image, highest score first. Nothing is retried."""
        size = self.spec.batch_size
        parts = [self._boxes(prepared[at : at + size])[0] for at in range(0, len(prepared), size)]
        return [one for part in parts for one in part]

    def _boxes(self, prepared: Prepared) -> tuple[list[Detections], Usage]:
        what, layout = self._service.what, self._facts["layout"]
        arrays, used = self._service.arrays(self.pixels_of([one for one, _ in prepared]), self._service.outputs())
        try:
            return self.boxes_in(arrays, [placement for _, placement in prepared]), used
        except RequestFailed:
            raise
        except StrobeError as error:
            raise RequestFailed(str(error), blame="model", used=used) from error
        except (IndexError, ValueError, TypeError) as error:
            shapes = ", ".join(f"{printable(name)} {list(array.shape)}" for name, array in arrays.items())
            raise broken(what, f"its outputs {shapes} do not fit the layout {layout}", used) from error


def load(model: ModelName, options: LoadOptions, service: KserveService) -> KserveDetector:
    """Load the detector of a service."""
    settings = settings_of(None, options)
    layouts.check_keys(model, settings)
    strange = next((output for output in service.served.outputs if output.dtype not in DATATYPES.values()), None)
    if strange is not None:
        raise ModelFailed(f"{service.what}: its output {printable(strange.name)} is {printable(strange.dtype)}")
    labels, facts = box_tensors(
        model, settings, options, image=service.image, outputs=service.served.outputs,
        file=options.settings.name if options.settings else "a JSON file, and pass it with <<model_settings>>",
    )  # fmt: skip
    service.layout, service.n_labels = facts["layout"], len(labels) + facts["label_offset"]
    shape = (*facts["size"], 3) if service.image.shape[-1] == 3 else (3, *facts["size"])
    _, told = service.settle(np.zeros((1, *shape), dtype=service.image.dtype), service.served.outputs)
    spec = detector_spec(
        model,
        label_space=labels,
        weights=service.served.digest(model.address or ""),
        preprocessing=facts | told,
        batch_size=service.batch_size,
    )
    announce(spec, options)
    return KserveDetector(service, spec, sure="box_units" in settings)
