"""A torch module behind the Classifier port: the part all torch-based adapters share."""

import ctypes
import os
import platform
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import ModelFailed
from strobe.core.labels import LabelSpace
from strobe.core.late import require
from strobe.core.ports import FrameSource, Image
from strobe.core.records import ModelSpec
from strobe.models.device_decode import DeviceDecoder
from strobe.models.exact_resize import ExactResize, SentPlan
from strobe.models.options import LoadOptions, TorchSetup, default_batch, torch_setup
from strobe.models.plan import ImagePlan
from strobe.models.weights import digest_of_state

__all__ = ["TorchClassifier", "classifier_of", "cores", "cpu_lanes", "plan_of", "quick_source", "sharing_cores"]


class TorchClassifier:
    """A module, its preprocessing and its label space.

    8-bit pixels travel to the device, normalisation happens there; activations are channels-last, which is the faster
    order for convolutions on CPUs and tensor cores alike.
    """

    def __init__(
        self,
        module: Any,
        *,
        spec: ModelSpec,
        plan: ImagePlan | Callable[[Image], Any],
        setup: TorchSetup,
        call: Callable[[Any], Any] | None = None,
    ) -> None:
        torch = require("torch", what="running a model", extra="models")
        self.spec = spec
        self.plan = plan
        self._torch, self._setup = torch, setup
        self._module = module.eval().to(setup.device, memory_format=torch.channels_last)
        self._call = call or self._module
        if isinstance(plan, ImagePlan):
            self._mean = torch.tensor(plan.mean, device=setup.device).view(1, 3, 1, 1)
            self._std = torch.tensor(plan.std, device=setup.device).view(1, 3, 1, 1)
        self._lanes = threading.local()
        self._cuda = setup.device.startswith("cuda")
        self.lanes = cpu_lanes() if setup.device == "cpu" else 1
        keep_freed_memory(one_arena=setup.device == "cpu")

    @property
    def device(self) -> str:
        """Where the forward runs."""
        return self._setup.device

    def prepare(self, image: Image) -> Any:
        """Resize and crop; or whatever the model's own library does, where that is no ImagePlan."""
        return self.plan.prepare(image) if isinstance(self.plan, ImagePlan) else self.plan(image)

    def prepare_encoded(self, files: Sequence[bytes]) -> Any:
        """JPEG files decoded, resized and cropped on the CUDA device: (N, 3, H, W), 8 bits."""
        if not self._cuda:
            raise ModelFailed(f"{self.spec.name}: cannot decode on the device; use --decode cpu")
        with self._torch.inference_mode(), self._stream():
            batch = self._decoder(files)
            self._torch.cuda.current_stream().synchronize()
        return batch

    @property
    def resizes(self) -> bool:
        """Whether `forward` takes frames that are decoded and no more, and resizes them on the device."""
        return self._cuda

    @cached_property
    def _resizer(self) -> ExactResize | None:
        plan = self.plan
        return ExactResize(plan, device=self._setup.device) if self.resizes and isinstance(plan, ImagePlan) else None

    @cached_property
    def _decoder(self) -> DeviceDecoder:
        if not isinstance(self.plan, ImagePlan):
            raise ModelFailed(f"{self.spec.name}: cannot decode on the device; use --decode cpu")
        return DeviceDecoder(self.plan, device=self._setup.device)

    def forward(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """Scores (N, C)."""
        torch = self._torch
        with torch.inference_mode(), self._stream():
            pixels = self._normalised(prepared)
            with self._autocast():
                scores = self._call(pixels)
            scores = getattr(scores, "logits", scores)
            if not isinstance(scores, torch.Tensor):
                raise ModelFailed(f"{self.spec.name}: returned {type(scores).__name__}, expected a tensor of scores")
            return np.asarray(scores.float().cpu().numpy(), dtype=np.float32)

    def _normalised(self, prepared: Sequence[Any]) -> Any:
        torch, plan = self._torch, self.plan
        if not isinstance(plan, ImagePlan):
            batch = torch.from_numpy(np.stack(prepared)).to(self._setup.device)
            return batch.to(memory_format=torch.channels_last)
        if self._resizer is not None and not isinstance(prepared, torch.Tensor):
            finished = all(image.shape[:2] == plan.size_hw for image in prepared)
            prepared = prepared if finished else self._resizer(prepared)
        if isinstance(prepared, torch.Tensor):
            pixels = prepared.to(torch.float32, memory_format=torch.channels_last)
        else:
            shape = (len(prepared), *np.shape(prepared[0]))
            batch = torch.empty(shape, dtype=torch.uint8, pin_memory=self._cuda)
            np.stack(prepared, out=batch.numpy())
            # (N, H, W, 3) seen as (N, 3, H, W) is channels-last already: nothing moves.
            pixels = batch.to(self._setup.device, non_blocking=True).permute(0, 3, 1, 2).to(torch.float32)
        if plan.divide != 1:
            pixels = pixels.div_(plan.divide)
        return pixels.sub_(self._mean).div_(self._std)

    def _autocast(self) -> Any:
        if not self._setup.autocast:
            return nullcontext()
        dtype = getattr(self._torch, self._setup.dtype)
        return self._torch.autocast(self._setup.device.split(":")[0], dtype=dtype)

    def _stream(self) -> Any:
        """A CUDA stream per calling thread, so that copies, decoding and arithmetic of different batches overlap."""
        if not self._cuda:
            return nullcontext()
        if not hasattr(self._lanes, "stream"):
            self._lanes.stream = self._torch.cuda.Stream(device=self._setup.device)
        return self._torch.cuda.stream(self._lanes.stream)


def classifier_of(
    module: Any,
    *,
    name: str,
    provider: str,
    plan: ImagePlan | Callable[[Image], Any],
    label_space: LabelSpace,
    options: LoadOptions,
    call: Callable[[Any], Any] | None = None,
    facts: dict[str, Any] | None = None,
    digest: str | None = None,
) -> TorchClassifier:
    """The module behind the Classifier port, with its spec filled in from its weights, plan and options.

    `facts` join the stored preprocessing; they describe it where the plan is a function of the model's own library.
    `digest` is that of the module's weights, where it is known already.
    """
    setup = torch_setup(options)
    n_parameters = sum(parameter.numel() for parameter in module.parameters())
    described: dict[str, Any] = {}
    if isinstance(plan, ImagePlan):
        described = plan.to_json()
    spec = ModelSpec(
        name=name,
        provider=provider,
        task="classification",
        label_space=label_space,
        weights=digest or digest_of_state(module.state_dict()),
        kind="logits",
        preprocessing={**described, "precision": setup.dtype, **(facts or {})},
        batch_size=options.batch_size or default_batch(n_parameters, device=setup.device),
    )
    return TorchClassifier(module, spec=spec, plan=plan, setup=setup, call=call)


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_lanes() -> int:
    """How many forwards run side by side on a CPU.

    Several batches with few threads each beat one batch with all threads: nothing waits for the slowest thread of every
    layer, so a core that decodes a frame, or is taken by somebody else's work, holds up only its own batch.
    """
    return max(1, min(4, cores()))


def plan_of(model: object) -> SentPlan | None:
    """The whole of the model's preparation as another process carries it out, where a plan is all it is."""
    if not isinstance(model, TorchClassifier) or type(model).prepare is not TorchClassifier.prepare:
        return None
    return SentPlan(model.plan, on_device=model.resizes) if isinstance(model.plan, ImagePlan) else None


def quick_source(source: FrameSource, models: Iterable[object]) -> FrameSource:
    """The source, its JPEG frames decoded outside the interpreter's lock where torch is at hand anyway."""
    from strobe.models.fast_jpeg import FastJpegSource

    return FastJpegSource(source) if any(isinstance(model, TorchClassifier) for model in models) else source


@contextmanager
def sharing_cores(models: Iterable[object]) -> Iterator[None]:
    """While open, torch uses few enough threads per call: forwards share the cores, and so do threads that prepare."""
    lanes = [model.lanes for model in models if isinstance(model, TorchClassifier)]
    if not lanes:
        yield
        return
    torch = require("torch", what="running a model", extra="models")
    before = torch.get_num_threads()
    # With the model on another device the cores only prepare images, one image to a thread.
    torch.set_num_threads(max(1, before // max(lanes)) if max(lanes) > 1 else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def keep_freed_memory(*, one_arena: bool) -> bool:
    """Ask glibc to keep large freed blocks for the next batch, once per process; True where that worked.

    By default every activation of some megabytes is mapped and unmapped anew, and the page faults cost as much as the
    arithmetic: a batch of 32 through efficientnet-lite0 took 32 ms an image so, and 11 ms with the blocks kept. Threads
    other than the first have arenas too small for activations; with `one_arena` they share the first one's.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mmap_threshold, trim_threshold, arena_max, limit = -3, -1, -8, 1 << 30
    libc = ctypes.CDLL(None)
    kept = libc.mallopt(mmap_threshold, limit) and libc.mallopt(trim_threshold, limit)
    return bool(kept and (not one_arena or libc.mallopt(arena_max, 1)))
