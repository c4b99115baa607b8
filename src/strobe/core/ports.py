"""What the core needs from the edges, as Protocols; adapters supply it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from strobe.core.records import Detections, ModelSpec, Verdict

__all__ = [
    "Classifier",
    "Detector",
    "EncodedClassifier",
    "Executor",
    "FrameSource",
    "Image",
    "Preparation",
    "Progress",
    "SendableSource",
    "Silent",
    "VerdictStore",
]

Image = NDArray[np.uint8]
"""An RGB image, (height, width, 3), 8 bits a channel, upright."""

Shard = TypeVar("Shard")
Result = TypeVar("Result")


@runtime_checkable
class Classifier(Protocol):
    """An image classifier. `prepare` runs on worker threads, `forward` on the model's device."""

    @property
    def spec(self) -> ModelSpec:
        """What it is; everything that can change its predictions."""

    def prepare(self, image: Image) -> Any:
        """One image through the model's own preprocessing, ready to be stacked. Thread-safe."""

    def forward(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """Scores (N, C) in the model's own label space; the same alone and in a batch."""


@runtime_checkable
class EncodedClassifier(Protocol):
    """A classifier that would rather decode still-encoded files on its own device."""

    def prepare_encoded(self, files: Sequence[bytes]) -> Sequence[Any]:
        """Encoded images through decoding and the model's own preprocessing, in order."""


@runtime_checkable
class Detector(Protocol):
    """An object detector. Boxes come back in pixels of the image that went in."""

    @property
    def spec(self) -> ModelSpec:
        """What it is; everything that can change its predictions."""

    def prepare(self, image: Image) -> Any:
        """One image through the model's own preprocessing, with what is needed to scale boxes back. Thread-safe."""

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


class Preparation(Protocol):
    """What a model does to an image first, as data: hashable, and carried out by any process it is sent to."""

    @property
    def n_bytes(self) -> int:
        """The most bytes that come out of an image."""

    def prepare(self, image: Image) -> Image:
        """The image as the model's `forward` takes it, 8 bits, (height, width, 3)."""


class Executor(Protocol):
    """Maps a stateless function over shards; results may come in any order."""

    def map(self, function: Callable[[Shard], Result], shards: Iterable[Shard]) -> Iterator[Result]:
        """The results as they come."""


class VerdictStore(Protocol):
    """Votes, appended and never changed."""

    def append(self, verdict: Verdict) -> bool:
        """Keep the vote; False if this verdict_id was already there (a replay)."""

    def all(self) -> Iterator[Verdict]:
        """Every vote ever cast, oldest first."""


class Progress(Protocol):
    """How far long work has come, for a person who waits. The command line supplies a bar or plain lines."""

    def task(self, label: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:
        """Start a task; call the result with the number of units just done."""

    def note(self, text: str) -> None:
        """Say one line."""


class Silent:
    """A Progress that says nothing, for library use and tests."""

    def task(self, label: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:  # noqa: ARG002
        """A task nobody watches."""
        return nullcontext(lambda _: None)

    def note(self, text: str) -> None:
        """Nothing."""
