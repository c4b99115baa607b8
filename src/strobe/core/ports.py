"""The Protocols that the core requires; adapters implement them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from strobe.core.records import Detections, ModelSpec
from strobe.core.remote import Reply, RequestLimits

Image = NDArray[np.uint8]
"""An RGB image, (height, width, 3), 8 bits per channel, upright."""


class Preparation(Protocol):
    """A model's preprocessing as hashable data that any process can execute."""

    @property
    def n_bytes(self) -> int:
        """The usual upper bound on the size of one prepared image in bytes; buffers are allocated for this size."""

    def prepare(self, image: Image) -> Any:
        """Return the input of the model's `forward`: 8-bit pixels (height, width, 3), or a tuple with small values."""

    def prepare_input(self, image: Image) -> Any:
        """Return the `forward` input for an image that is a model's own input, as `Model.prepare_input` does."""


@runtime_checkable
class Model(Protocol):
    """The interface of every model. `prepare` runs on worker threads, `forward` on the model's device."""

    @property
    def spec(self) -> ModelSpec:
        """The model's description: everything that can change its predictions."""

    @property
    def device(self) -> str:
        """Where `forward` runs: cpu, cuda, cuda:1, mps."""

    @property
    def lanes(self) -> int:
        """The number of concurrent `forward` calls that pay off, each in its own thread."""

    @property
    def preparation(self) -> Preparation | None:
        """All of `prepare` as data that another process can execute; None if this is not possible."""

    def prepare(self, image: Image) -> Any:
        """Return one image after the model's own preprocessing, ready for `forward`. Thread-safe."""

    def prepare_input(self, image: Image) -> Any:
        """Return an image that is already a model's own input (`as_input`), ready for `forward`. Thread-safe.

        At this model's input size, the pixels are unchanged. At another size, the whole image is resized, never
        cropped.
        """


@runtime_checkable
class Classifier(Model, Protocol):
    """An image classifier."""

    def forward(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """Return scores (N, C) in the model's own label space; they do not depend on the batch."""


@runtime_checkable
class EncodedClassifier(Protocol):
    """A classifier that prefers to decode encoded files on its own device."""

    def prepare_encoded(self, files: Sequence[bytes]) -> Sequence[Any]:
        """Decode the files, apply the model's own preprocessing, and return the results in order."""


@runtime_checkable
class Differentiable(Model, Protocol):
    """A classifier whose scores have gradients with respect to its input pixels, as attacks and searches need.

    The pixels are the model's own input before normalisation. They are not cropped, and resized only if they have
    another size.
    """

    @property
    def input_hw(self) -> tuple[int, int] | None:
        """Height and width of the model's input; None if this model has no gradients."""

    def input_pixels(self, image: Image) -> Image:
        """Return one image resized and cropped to the model's input, 8 bits, RGB."""

    def input_scores(self, pixels: Any) -> Any:
        """Return scores (N, C), float32, of a torch tensor (N, 3, H, W) of RGB in [0, 1] on the model's device.

        For 8-bit pixels divided by 255, the scores equal the scores of `forward`. Pixels of another size than
        `input_hw` are resized as `prepare_input` resizes images. Gradients flow from the scores to the pixels only.
        """


@runtime_checkable
class Detector(Model, Protocol):
    """An object detector. Boxes are in pixels of the input image."""

    def forward(self, prepared: Sequence[Any]) -> list[Detections]:
        """Return the detections in each image, highest score first."""


@runtime_checkable
class RemoteModel(Model, Protocol):
    """A model behind an address. The engine sends its requests, waits, retries and stores each answer on arrival."""

    @property
    def limits(self) -> RequestLimits:
        """How the service may be asked."""

    def ask(self, prepared: Sequence[Any], *, sources: Sequence[str], attempt: int = 0) -> Reply:
        """Send one request with these images, at most `spec.batch_size`, and return its answers. Thread-safe.

        `sources` has the video or photo of each image: whatever a model draws at random, such as the order of choices,
        it draws per source, so that all frames of a set get the same question. `attempt` counts the times that a
        frame is asked on purpose (`--repeat`); the question stays the same. Raises RequestFailed, and never retries.
        """


class FrameSource(Protocol):
    """Reads frames of a dataset by row, decoded or encoded. Raises StrobeError for an unreadable frame."""

    def read(self, row: int) -> Image:
        """Return the decoded frame."""

    def read_encoded(self, row: int) -> bytes | None:
        """Return the stored file's bytes, or None if the frame has no file of its own."""


@runtime_checkable
class SendableSource(FrameSource, Protocol):
    """A source that other processes can read: its parts are small enough to send."""

    def only(self, rows: Sequence[int]) -> FrameSource:
        """Return a source that contains only these rows and is small enough to send with every task."""


@runtime_checkable
class DeviceSource(FrameSource, Protocol):
    """A source whose frames are made on the models' device, with the same bits as on the CPU."""

    threads: int
    """The number of threads that call `batches`. Many of them wait at any time."""

    handed_over: dict[int, str]
    """Videos that the CPU reads instead of the device, with the reason."""

    def tasks(self, rows: Sequence[int]) -> Iterator[list[int]]:
        """Yield the rows in the groups that are fastest to read."""

    def batches(self, rows: Sequence[int]) -> Iterator[tuple[list[int], Any]]:
        """Yield rows and their frames, a tensor (N, height, width, 3) in the thread's current stream.

        Frames are None if their rows must be read with `read`. The streams of the iterator are idle when it ends.
        """

    def close(self) -> None:
        """Release the device's memory."""


@runtime_checkable
class DeviceModel(Protocol):
    """A model that prepares frames on its own device."""

    def prepare_on_device(self, frames: Any) -> Sequence[Any] | None:
        """Return the bit-identical result of `prepare` for each frame of a tensor (N, height, width, 3).

        Return None if the device cannot do this.
        """


class Progress(Protocol):
    """Shows the progress of long work to the user. The command line supplies a bar or plain lines."""

    def task(self, label: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:
        """Start a task, and return a function that the caller calls with the number of units just done."""

    def note(self, text: str) -> None:
        """Print one line."""


class MetricLog(Protocol):
    """Receives figures during a run, in addition to the files it writes; for example TensorBoard."""

    def scalars(self, values: Mapping[str, float], *, step: int) -> None:
        """Log the figures after this number of steps."""


class Silent:
    """A silent Progress, for library use and tests."""

    def task(self, label: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:  # noqa: ARG002 (the port's signature)
        """Return a function that ignores its argument."""
        return nullcontext(lambda _: None)

    def note(self, text: str) -> None:
        """Do nothing."""
