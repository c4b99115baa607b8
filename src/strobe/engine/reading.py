"""Read the frames of a training ahead of its steps: in processes, on threads, or by the GPU that trains.

A task reads a few frames, prepares and crops them, and copies them to the training's device. So the thread that trains
only joins finished frames to a batch. Worker processes import this module, so it must not import torch.
"""

import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from strobe.core.arrays import Bools, Ints
from strobe.core.errors import StrobeError
from strobe.core.ports import DeviceSource, FrameSource, Image, SendableSource
from strobe.engine.decode_pool import DecodePool
from strobe.models.cores import cores, quick_source
from strobe.models.detectors.boxes import PlacementPreparation
from strobe.models.exact_resize import ExactResize, SentPlan
from strobe.models.plan import AsDecoded, ImagePlan
from strobe.train.windows import NO_SEED, FrameDraw, draws_of, random_window, window

if TYPE_CHECKING:
    from torch import Tensor

AHEAD_BYTES = 512 * 2**20
"""The memory limit for frames that are read before a step requests them."""

TOGETHER = 16
"""The most frames of a task."""

_TASK_BYTES = 4 << 20
"""The most bytes of a task with several frames."""

_PLAN = "frames"


@dataclass(frozen=True, slots=True)
class FrameMaking:
    """What a training makes of a frame: its prepared pixels (None: as decoded), then a draw's window.

    `least_area` is the smallest share of the image that a random resized crop shows.
    """

    plan: ImagePlan | PlacementPreparation | SentPlan | None = None
    least_area: float = 0.0

    def of(self, image: Image, draw: FrameDraw, *, ready: bool = False) -> Image:
        """Return the frame as the draw wants it. An image that is `ready` is a model's input already."""
        _, seed, down, right, mirrored = draw
        if isinstance(self.plan, PlacementPreparation):
            image, _ = self.plan.prepare(image)
        elif isinstance(self.plan, ImagePlan) and seed != NO_SEED:
            place = random_window(seed, image.shape[0], image.shape[1], self.least_area)
            image = self.plan.prepare_window(image, place)
        elif self.plan is not None:
            image = self.plan.prepare_input(image) if ready else self.plan.prepare(image)
        return window(image, down, right, mirrored=bool(mirrored))


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A few draws as a source that other processes can read: row n is the n-th draw."""

    source: FrameSource
    making: FrameMaking
    draws: Mapping[int, tuple[int, FrameDraw, bool]]

    def read(self, row: int) -> Image:
        frame, draw, ready = self.draws[row]
        return self.making.of(self.source.read(frame), draw, ready=ready)

    def read_encoded(self, row: int) -> bytes | None:  # noqa: ARG002 (part of the protocol)
        return None

    def only(self, rows: Sequence[int]) -> "_Drawn":
        draws = {row: self.draws[row] for row in rows}
        frames = list(dict.fromkeys(frame for frame, _, _ in draws.values()))
        source = self.source.only(frames) if isinstance(self.source, SendableSource) else self.source
        return _Drawn(source, self.making, draws)


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """The draws of one task."""

    draws: list[FrameDraw]
    n_bytes: int
    frames: "Future[list[Tensor]]"


def processes_for_training(processes: int) -> DecodePool:
    """Return so many processes that read frames for trainings."""
    return DecodePool(None, {_PLAN: AsDecoded()}, processes=processes, chunk=TOGETHER)


class FrameStream:
    """Frames by draw, read ahead of their use. Only one thread may call it.

    Place n is row `rows[n]` of the source, and takes `n_bytes[n]` prepared. `ready` (per row) marks frames that are
    model inputs already. Without a `pool` of processes, threads read. A task has at most `together` frames.
    """

    streams = True

    def __init__(
        self,
        source: FrameSource,
        making: FrameMaking,
        rows: Ints,
        n_bytes: Ints,
        *,
        device: str = "cpu",
        ready: Bools | None = None,
        pool: DecodePool | None = None,
        workers: int | None = None,
        together: int = TOGETHER,
        most_bytes: int = AHEAD_BYTES,
    ) -> None:
        self._on_device = source if isinstance(source, DeviceSource) else None
        self._pool = pool if isinstance(source, SendableSource) else None
        self._source = source if self._on_device or self._pool else quick_source(source)
        self._making, self._rows, self._n_bytes, self._ready = making, rows, n_bytes, ready
        self._device, self._together, self._most_bytes = device, together, most_bytes
        self._workers = self._on_device.threads if self._on_device else workers or cores()
        self._threads = ThreadPoolExecutor(self._workers, thread_name_prefix="read")
        # Without this, the interpreter would read all expected frames before it ends.
        weakref.finalize(self, self._threads.shutdown, wait=False, cancel_futures=True)
        self._expected: dict[FrameDraw, tuple[_Piece, int]] = {}
        self._held = 0

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def at_once(self) -> int:
        """A number of frames that keeps all workers busy, for passes over all frames."""
        largest = int(self._n_bytes.max(initial=1))
        wanted = self._workers * (4 if self._on_device else 1) * TOGETHER
        return max(1, min(wanted, self._most_bytes // (8 * largest)))

    def expect(self, *steps: tuple[Ints, Ints | None]) -> None:
        """Start to read the frames of these steps, in order, while they fit into memory. All other frames are freed."""
        wanted = [dict.fromkeys(draws_of(places, crops)) for places, crops in steps]
        kept = {id(piece): piece for draws in wanted for draw in draws if (piece := self._piece(draw)) is not None}
        for piece in {id(piece): piece for piece, _ in self._expected.values()}.values():
            if id(piece) not in kept:
                piece.frames.cancel()
                self._held -= piece.n_bytes
                for draw in piece.draws:
                    del self._expected[draw]
        for draws in wanted:
            for part in self._parts([draw for draw in draws if draw not in self._expected]):
                if self._held + self._size(part) > self._most_bytes:
                    return
                piece = self._started(part)
                self._held += piece.n_bytes
                self._expected |= {draw: (piece, n) for n, draw in enumerate(part)}

    def images(self, places: Ints, crops: Ints | None = None) -> "list[Tensor]":
        """Return these frames (height, width, 3) on the device."""
        draws = draws_of(places, crops)
        missing = list(dict.fromkeys(draw for draw in draws if draw not in self._expected))
        there = {draw: (piece, n) for part in self._parts(missing) for piece in [self._started(part)]
                 for n, draw in enumerate(part)}  # fmt: skip
        found = [there.get(draw) or self._expected[draw] for draw in draws]
        images = [piece.frames.result()[n] for piece, n in found]
        if self._device.startswith("cuda"):
            import torch

            here = torch.cuda.current_stream(self._device)
            here.wait_stream(self._copying)
            for image in images:
                image.record_stream(here)
        return images

    def close(self) -> None:
        """Free all frames and stop the threads."""
        self.expect()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _piece(self, draw: FrameDraw) -> _Piece | None:
        return self._expected[draw][0] if draw in self._expected else None

    def _size(self, draws: Sequence[FrameDraw]) -> int:
        return sum(int(self._n_bytes[draw[0]]) for draw in draws)

    def _parts(self, draws: list[FrameDraw]) -> Iterator[list[FrameDraw]]:
        """Yield the draws of each task."""
        if self._on_device is not None:  # frames of one video together
            draws = sorted(draws, key=lambda draw: int(self._rows[draw[0]]))
            step = -(-len(draws) // self._workers)
        else:
            step = min(self._together, -(-len(draws) // (2 * self._workers)))
        part: list[FrameDraw] = []
        for draw in draws:
            if part and (len(part) >= step or (self._size([*part, draw]) > _TASK_BYTES and self._on_device is None)):
                yield part
                part = []
            part.append(draw)
        if part:
            yield part

    def _started(self, draws: list[FrameDraw]) -> _Piece:
        return _Piece(draws, self._size(draws), self._threads.submit(self._read, draws))

    # -- on the threads --------------------------------------------------------------------------------------------

    def _read(self, draws: list[FrameDraw]) -> "list[Tensor]":
        if self._on_device is not None:
            return self._decoded_there(self._on_device, draws)
        plan = self._making.plan
        if self._pool is None or self._resizer is None or not isinstance(plan, ImagePlan):
            return self._sent(self._images(draws, self._making))
        import torch

        plain = [(place, seed, 0, 0, 0) for place, seed, *_ in draws]
        images = self._images(plain, FrameMaking(SentPlan(plan, on_device=True)))
        with torch.cuda.stream(self._copying):
            frames = self._resizer(images).permute(0, 2, 3, 1)
            return [_window_there(frame, draw) for frame, draw in zip(frames, draws, strict=True)]

    def _asked(self, draw: FrameDraw) -> tuple[int, FrameDraw, bool]:
        row = int(self._rows[draw[0]])
        return row, draw, self._ready is not None and bool(self._ready[row])

    def _images(self, draws: list[FrameDraw], making: FrameMaking) -> list[Image]:
        drawn = _Drawn(self._source, making, {n: self._asked(draw) for n, draw in enumerate(draws)})
        if self._pool is None:
            return [drawn.read(n) for n in range(len(draws))]
        images = []
        for answer in self._pool.read(range(len(draws)), [[_PLAN]] * len(draws), source=drawn):
            image = answer if isinstance(answer, StrobeError) else answer[0]
            if isinstance(image, Exception):
                raise image
            images.append(image)
        return images

    def _sent(self, images: list[Image]) -> "list[Tensor]":
        """Return a copy of the images on the device."""
        import torch

        starts = np.cumsum([0, *(image.size for image in images)]).tolist()
        flat = torch.empty(starts[-1], dtype=torch.uint8, pin_memory=self._device.startswith("cuda"))
        for start, image in zip(starts, images, strict=False):
            flat.numpy()[start : start + image.size].reshape(image.shape)[...] = image
        if self._device.startswith("cuda"):
            with torch.cuda.stream(self._copying):
                flat = flat.to(self._device, non_blocking=True)
        elif self._device != "cpu":
            flat = flat.to(self._device)
        return [
            flat[start : start + image.size].view(image.shape) for start, image in zip(starts, images, strict=False)
        ]

    def _decoded_there(self, source: DeviceSource, draws: list[FrameDraw]) -> "list[Tensor]":
        """Return frames that the device decodes."""
        draws_of_row: dict[int, list[int]] = defaultdict(list)
        for n, draw in enumerate(draws):
            draws_of_row[int(self._rows[draw[0]])].append(n)
        made: dict[int, Tensor] = {}
        for rows, frames in source.batches(sorted(draws_of_row)):
            places = [n for row in rows for n in draws_of_row[row]]
            prepared = None if frames is None else self._prepared_there(frames)
            if prepared is None:
                decoded = {} if frames is None else dict(zip(rows, frames.cpu().numpy(), strict=True))
                images = [self._made_here(decoded, draws[n]) for n in places]
                made |= dict(zip(places, self._sent(images), strict=True))
                continue
            frame_of_row = dict(zip(rows, prepared, strict=True))
            for n in places:
                made[n] = _window_there(frame_of_row[int(self._rows[draws[n][0]])], draws[n])
        return [made[n] for n in range(len(draws))]

    def _made_here(self, decoded: Mapping[int, Image], draw: FrameDraw) -> Image:
        row, _, ready = self._asked(draw)
        return self._making.of(decoded[row] if row in decoded else self._source.read(row), draw, ready=ready)

    def _prepared_there(self, frames: Any) -> Any | None:
        """Return frames (N, height, width, 3) prepared on the device, or None if only the CPU can do it exactly."""
        if self._making.plan is None:
            return frames
        if self._resizer is None:
            return None
        made = self._resizer.on_device(frames)
        return None if made is None else made.permute(0, 2, 3, 1)

    @cached_property
    def _resizer(self) -> ExactResize | None:
        """Return what resizes whole frames on a GPU, with the pixels of the plan."""
        plan, on_gpu = self._making.plan, self._device.startswith("cuda")
        able = on_gpu and not self._making.least_area
        return ExactResize(plan, device=self._device) if isinstance(plan, ImagePlan) and able else None

    @cached_property
    def _copying(self) -> Any:
        import torch

        return torch.cuda.Stream(device=self._device)


def _window_there(image: "Tensor", draw: FrameDraw) -> "Tensor":
    """Return the draw's window of a frame on a device, as `window` does. Pixels beyond an edge are reflected."""
    import torch

    _, _, down, right, mirrored = draw
    for axis, shift in ((0, down), (1, right)):
        if shift:
            last = image.shape[axis] - 1
            place = torch.arange(shift, last + 1 + shift, device=image.device)
            image = image.index_select(axis, last - (last - place.abs()).abs())
    return image.flip(1) if mirrored else image
