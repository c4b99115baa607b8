"""What the core needs from the edges, as Protocols; adapters supply it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from strobe.core.answers import Answers
from strobe.core.generators import GeneratorSpec
from strobe.core.records import Detections, ModelSpec

__all__ = [
    "AnswerStore",
    "Classifier",
    "Detector",
    "Differentiable",
    "EncodedClassifier",
    "Executor",
    "FrameSource",
    "Image",
    "LayeredGenerator",
    "Model",
    "Preparation",
    "Progress",
    "SendableSource",
    "Silent",
]

Image = NDArray[np.uint8]
"""An RGB image, (height, width, 3), 8 bits a channel, upright."""

Shard = TypeVar("Shard")
Result = TypeVar("Result")


class Preparation(Protocol):
    """What a model does to an image first, as data: hashable, and carried out by any process it is sent to."""

    @property
    def n_bytes(self) -> int:
        """How many bytes of pixels usually come out of an image at most; room is made for so many."""

    def prepare(self, image: Image) -> Any:
        """What the model's `forward` takes: 8-bit pixels (height, width, 3), or a tuple of them and what is small."""

    def prepare_input(self, image: Image) -> Any:
        """The same for an image that is a model's own input already, as `Model.prepare_input` has it."""


@runtime_checkable
class Model(Protocol):
    """What is the same of every model. `prepare` runs on worker threads, `forward` on the model's device."""

    @property
    def spec(self) -> ModelSpec:
        """What it is; everything that can change its predictions."""

    @property
    def device(self) -> str:
        """Where `forward` runs: cpu, cuda, cuda:1, mps."""

    @property
    def lanes(self) -> int:
        """How many forwards at once pay off, each in a thread of its own."""

    @property
    def preparation(self) -> Preparation | None:
        """The whole of what `prepare` does as data another process can carry out; None where it is no such thing."""

    def prepare(self, image: Image) -> Any:
        """One image through the model's own preprocessing, ready for `forward`. Thread-safe."""

    def prepare_input(self, image: Image) -> Any:
        """An image that is a model's own input already (`as_input`), ready for `forward`. Thread-safe.

        At this model's input size its pixels stay as they are; at another it is resized whole. It is never cropped.
        """


@runtime_checkable
class Classifier(Model, Protocol):
    """An image classifier."""

    def forward(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """Scores (N, C) in the model's own label space; the same alone and in a batch."""


@runtime_checkable
class EncodedClassifier(Protocol):
    """A classifier that would rather decode still-encoded files on its own device."""

    def prepare_encoded(self, files: Sequence[bytes]) -> Sequence[Any]:
        """Encoded images through decoding and the model's own preprocessing, in order."""


@runtime_checkable
class Differentiable(Model, Protocol):
    """A classifier whose scores have gradients down to the pixels of its input: what attacks and searches need.

    Pixels are those of the model's own input, before normalisation: nothing is resized or cropped on the way.
    """

    @property
    def input_hw(self) -> tuple[int, int] | None:
        """Height and width of that input; None where this model has no gradients after all."""

    def input_pixels(self, image: Image) -> Image:
        """One image resized and cropped to the model's input, 8 bits, RGB."""

    def input_scores(self, pixels: Any) -> Any:
        """Scores (N, C), float32, of a torch tensor (N, 3, H, W) of RGB in [0, 1] on the model's device.

        On 8-bit pixels over 255 they are those of `forward`; gradients flow from them to the pixels, and no others.
        """


@runtime_checkable
class LayeredGenerator(Protocol):
    """A generator of images whose activations can be changed between its steps.

    Torch-level and batched; items of a batch do not know each other. The same input gives the same bits.
    """

    @property
    def spec(self) -> GeneratorSpec:
        """What it is; everything that can change its images."""

    @property
    def device(self) -> str:
        """Where it runs: cpu, cuda, cuda:1, mps."""

    def condition(self, latents: Any, classes: Any) -> Any:
        """What every step is told beside the activation, of latents (N, latent_size) and classes (N,).

        The latents are those the first step gets, changed or not: where later steps look at the latent too, a change
        of it reaches them.
        """

    def run(self, step: int, activation: Any, condition: Any) -> Any:
        """What the step at this place makes of an activation (N, …): the first gets the latents themselves.

        The last gives pixels, (N, 3, H, W) RGB, or (N, 1, H, W) where the image is grey; cut to [0, 1] they are it.
        Gradients flow from what comes out to the activation and to the latents in the condition.
        """


@runtime_checkable
class Detector(Model, Protocol):
    """An object detector. Boxes come back in pixels of the image that went in."""

    def forward(self, prepared: Sequence[Any]) -> list[Detections]:
        """What was found in each image, highest score first."""


class FrameSource(Protocol):
    """Frames of a dataset by row, as pixels or still encoded. Raises StrobeError for one that cannot be read."""

    def read(self, row: int) -> Image:
        """The decoded frame."""

    def read_encoded(self, row: int) -> bytes | None:
        """The stored file's bytes, or None where the frame is not a file of its own."""


@runtime_checkable
class SendableSource(FrameSource, Protocol):
    """A source that other processes can read for us: parts of it are small and can be sent."""

    def only(self, rows: Sequence[int]) -> FrameSource:
        """A source of these rows alone, small enough to be sent with every task."""


class Executor(Protocol):
    """Maps a stateless function over shards; results may come in any order."""

    def map(self, function: Callable[[Shard], Result], shards: Iterable[Shard]) -> Iterator[Result]:
        """The results as they come."""


class AnswerStore(Protocol):
    """Where the engine puts a model's answers as they come, and learns which it has."""

    def stored(self, *, retry_errors: bool = False) -> tuple[NDArray[np.bool_], int]:
        """Which frames have an answer, (F,), and how many of these answers are that the frame cannot be read."""

    def write(self, rows: NDArray[np.int64], answers: Answers, *, device: str = "") -> object:
        """Keep the answers to these frames, whole or not at all; `device` is the kind they were made on."""


class Progress(Protocol):
    """How far long work has come, for a person who waits. The command line supplies a bar or plain lines."""

    def task(self, label: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:
        """Start a task; call the result with the number of units just done."""

    def note(self, text: str) -> None:
        """Say one line."""


class MetricLog(Protocol):
    """Where figures go while work is under way, beside the files it writes: TensorBoard and the like."""

    def scalars(self, values: Mapping[str, float], *, step: int) -> None:
        """The figures as they stand after so many steps."""


class Silent:
    """A Progress that says nothing, for library use and tests."""

    def task(self, label: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:  # noqa: ARG002 (the port's signature)
        """A task nobody watches."""
        return nullcontext(lambda _: None)

    def note(self, text: str) -> None:
        """Nothing."""
