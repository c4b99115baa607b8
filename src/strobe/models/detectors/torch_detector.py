"""A torch module behind the Detector port: the part all torch-based adapters share."""

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

__all__ = ["TorchDetector", "detector_spec", "in_float32"]


class TorchDetector:
    """A module and what it says of itself. An adapter adds `_same_size`, and what it does to an image first.

    `cuda_lanes` forwards run side by side on a CUDA device: a detector waits for it again and again, where it counts
    boxes, and meanwhile another batch goes on. Each has a stream of its own where the module keeps nothing between
    calls but for what it makes at the first.
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
        """The network itself, for who trains it."""
        return self._module

    def prepare(self, image: Image) -> Any:
        """The image as the preparation makes it."""
        return image if self.preparation is None else self.preparation.prepare(image)

    def prepare_input(self, image: Image) -> Any:
        """The same: a detector looks at the whole image, and resizes none that has its size."""
        return self.prepare(image)

    def forward(self, prepared: Sequence[Any]) -> list[Detections]:
        """What was found in each image, highest score first."""
        if self._used:
            return self._forward(prepared)
        with self._alone:  # a module may keep what it makes at its first call (anchors): nobody else looks on
            found, self._used = self._forward(prepared), True
        return found

    def _forward(self, prepared: Sequence[Any]) -> list[Detections]:
        import torch

        shapes = [tuple((one[0] if isinstance(one, tuple) else one).shape) for one in prepared]
        found: dict[int, Detections] = {}
        # Images of one size at a time: in a mixed batch the smaller ones are padded, and padding changes boxes.
        for shape in dict.fromkeys(shapes):
            places = [place for place, one in enumerate(shapes) if one == shape]
            with torch.inference_mode(), self._stream():
                found |= zip(places, self._same_size([prepared[place] for place in places]), strict=True)
        return [found[place] for place in range(len(prepared))]

    def _same_size(self, prepared: list[Any]) -> Iterable[Detections]:
        """What was found in each of some prepared images of one size."""
        raise NotImplementedError

    def _on_device(self, images: Sequence[Image]) -> Any:
        """Images of one size on the device, (N, height, width, 3), 8 bits."""
        import torch

        batch = torch.empty((len(images), *images[0].shape), dtype=torch.uint8, pin_memory=self._cuda)
        np.stack(images, out=batch.numpy())
        return batch.to(self.device, non_blocking=True)

    def _stream(self) -> Any:
        """A CUDA stream per calling thread, so that one batch does not wait for another's."""
        if not (self._cuda and self.own_streams) or self.lanes == 1:
            return nullcontext()
        import torch

        if not hasattr(self._streams, "stream"):
            self._streams.stream = torch.cuda.Stream(device=self.device)
        stream = self._streams.stream
        stream.wait_stream(torch.cuda.current_stream(self.device))  # who trains it may have changed it there just now
        return torch.cuda.stream(stream)


def in_float32(model: ModelName, options: LoadOptions) -> None:
    """Raise ModelFailed where a detector is asked for another precision than it runs in."""
    if options.precision not in ("auto", "float32"):
        raise ModelFailed(f"{printable(model.text)}: detectors run in float32; leave --precision out")


def detector_spec(
    model: ModelName, *, label_space: LabelSpace, weights: str, preprocessing: Mapping[str, Any], batch_size: int
) -> ModelSpec:
    """What a detector says of itself."""
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
