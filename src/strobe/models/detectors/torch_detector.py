"""A torch module behind the Detector port: the part that all torch-based adapters share."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from strobe.core.errors import ModelFailed, printable
from strobe.core.labels import LabelSpace
from strobe.core.ports import Image, Preparation
from strobe.core.records import Detections, ModelSpec
from strobe.models.cores import keep_freed_memory
from strobe.models.options import LoadOptions, ModelName
from strobe.models.plan import AsDecoded


class TorchDetector:
    """A module and its spec. An adapter adds `_same_size` and its preparation.

    `cuda_lanes` forwards run concurrently on a CUDA device. A detector often waits for the device, for example to count
    boxes, and another batch can run meanwhile. Each lane has its own stream if the module changes no state after its
    first call.
    """

    cuda_lanes, own_streams = 2, False
    preparation: Preparation | None = AsDecoded()

    def __init__(self, module: Any, spec: ModelSpec, *, device: str) -> None:
        self._module, self.spec, self.device = module.eval().to(device), spec, device
        self._cuda = device.startswith("cuda")
        self.lanes = self.cuda_lanes if self._cuda else 1
        self._streams, self._alone, self._used = threading.local(), threading.Lock(), False
        keep_freed_memory(one_arena=device == "cpu")

    @property
    def module(self) -> Any:
        """The network itself, for training."""
        return self._module

    def prepare(self, image: Image) -> Any:
        """Return the image as the model's preparation returns it."""
        return image if self.preparation is None else self.preparation.prepare(image)

    def prepare_on_device(self, frames: Any) -> list[Any] | None:
        """Return the frames of a tensor on the device, (N, height, width, 3), one by one, if no other preparation is
        needed.
        """
        if type(self).prepare is not TorchDetector.prepare or self.preparation != AsDecoded():
            return None
        return list(frames)

    def prepare_input(self, image: Image) -> Any:
        """Return the result of `prepare`. It never crops, and does not resize an image of the input's size."""
        return self.prepare(image)

    def forward(self, prepared: Sequence[Any]) -> list[Detections]:
        """Return the detections of each image, highest score first."""
        if self._used:
            return self._forward(prepared)
        with self._alone:  # a module may create state at its first call (anchors), so the first call runs alone
            found, self._used = self._forward(prepared), True
        return found

    def _forward(self, prepared: Sequence[Any]) -> list[Detections]:
        import torch

        shapes = [tuple((one[0] if isinstance(one, tuple) else one).shape) for one in prepared]
        detections_of: dict[int, Detections] = {}
        # Run one image size at a time. In a mixed batch the smaller images are padded, and padding changes boxes.
        for shape in dict.fromkeys(shapes):
            places = [index for index, one in enumerate(shapes) if one == shape]
            with torch.inference_mode(), self._stream():
                detections_of |= zip(places, self._same_size([prepared[place] for place in places]), strict=True)
        return [detections_of[place] for place in range(len(prepared))]

    def _same_size(self, prepared: list[Any]) -> Iterable[Detections]:
        """Return the detections for prepared images of one size."""
        raise NotImplementedError

    def _on_device(self, images: Sequence[Image]) -> Any:
        """Return images of one size on the device, (N, height, width, 3), 8 bits."""
        import torch

        if any(isinstance(image, torch.Tensor) for image in images):  # some images may come from the CPU
            return torch.stack([torch.as_tensor(image, device=self.device) for image in images])
        batch = torch.empty((len(images), *images[0].shape), dtype=torch.uint8, pin_memory=self._cuda)
        np.stack(images, out=batch.numpy())
        return batch.to(self.device, non_blocking=True)

    def _stream(self) -> Any:
        """Return a CUDA stream per calling thread, so that batches do not wait for each other."""
        if not (self._cuda and self.own_streams) or self.lanes == 1:
            return nullcontext()
        import torch

        if not hasattr(self._streams, "stream"):
            self._streams.stream = torch.cuda.Stream(device=self.device)
        stream = self._streams.stream
        stream.wait_stream(torch.cuda.current_stream(self.device))  # training may have changed weights there
        return torch.cuda.stream(stream)


def in_float32(model: ModelName, options: LoadOptions) -> None:
    """Raise ModelFailed if the options request a precision other than float32."""
    if options.precision not in ("auto", "float32"):
        raise ModelFailed(f"{printable(model.text)}: detectors run in float32; remove <<precision>>")


def detector_spec(
    model: ModelName, *, label_space: LabelSpace, weights: str, preprocessing: Mapping[str, Any], batch_size: int
) -> ModelSpec:
    """Return a detector's spec."""
    return ModelSpec(
        name=model.text,
        provider=model.provider,
        task="detection",
        label_space=label_space,
        weights=weights,
        kind="probabilities",
        preprocessing=preprocessing,
        batch_size=batch_size,
    )
