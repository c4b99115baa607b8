"""A torch module behind the Classifier port: the part that all torch-based adapters share."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import ModelFailed, printable
from strobe.core.labels import LabelSpace
from strobe.core.late import require
from strobe.core.ports import Image
from strobe.core.records import ModelSpec
from strobe.models.compiling import Recorded, compiled
from strobe.models.cores import cpu_lanes, keep_freed_memory, sharing_cores
from strobe.models.exact_resize import ExactResize, SentPlan
from strobe.models.options import DECODERS, LoadOptions, ModelName, TorchSetup, default_batch, torch_setup
from strobe.models.plan import ImagePlan
from strobe.models.runtimes import RUNTIMES, in_runtime, runtime_facts
from strobe.models.soft_resize import SoftResize
from strobe.models.weights import digest_of_state


class OwnPreparation(Protocol):
    """The model library's own preprocessing, if no ImagePlan describes it."""

    def prepare(self, image: Image) -> NDArray[np.float32]:
        """Return the image resized, cropped and normalised, (3, height, width)."""

    def prepare_input(self, image: Image) -> NDArray[np.float32]:
        """Prepare an image that already is a model input. It is never cropped, and resized only if its size differs."""

    @property
    def input_plan(self) -> ImagePlan | None:
        """Return a plan for pixels that already have the input's size. None if the library does not specify it."""


class TorchClassifier:
    """A module, its preprocessing and its label space.

    8-bit pixels are copied to the device and normalised there. Activations are channels-last, the faster order for
    convolutions on both CPUs and tensor cores. On a CUDA device two threads alternate: while the device runs one batch,
    the other thread copies the next. One more thread launches every batch, because cuDNN plans a network again in each
    thread.
    """

    def __init__(
        self,
        module: Any,
        *,
        spec: ModelSpec,
        plan: ImagePlan | OwnPreparation,
        setup: TorchSetup,
        call: Callable[[Any], Any] | None = None,
    ) -> None:
        torch = require("torch", what="running a model", extra="models")
        self.spec = spec
        self.plan = plan
        self._torch, self._setup = torch, setup
        self._module = module.eval().requires_grad_(False).to(setup.device, memory_format=torch.channels_last)
        self._call = call or self._module
        self._own = threading.local()
        self._cuda = setup.device.startswith("cuda")
        self._preparing_turn = threading.Lock()
        self._full = 0  # smaller batches are padded: a compiled network accepts one size, and cuDNN plans for each size
        self._recorded: Recorded | None = None
        self._soft: dict[tuple[int, ...], SoftResize] = {}
        self.lanes = cpu_lanes() if setup.device == "cpu" else 2 if self._cuda else 1
        keep_freed_memory(one_arena=setup.device == "cpu")
        if self._cuda:
            self._launcher = ThreadPoolExecutor(1, thread_name_prefix="launch")

    @property
    def module(self) -> Any:
        """The network itself, for training."""
        return self._module

    @property
    def runtime(self) -> str:
        """The name and the version of what runs the forward, unless the preprocessing names another runtime."""
        return f"PyTorch {self._torch.__version__}"

    @property
    def device(self) -> str:
        """The device that runs the forward."""
        return self._setup.device

    @cached_property
    def preparation(self) -> SentPlan | None:
        """The plan, if `prepare` does nothing else. On a CUDA device, resizing is left to the device."""
        if type(self).prepare is not TorchClassifier.prepare or not isinstance(self.plan, ImagePlan):
            return None
        return SentPlan(self.plan, on_device=self.resizes)

    def prepare(self, image: Image) -> Any:
        """Resize and crop, or apply the model library's own preprocessing."""
        return self.plan.prepare(image)

    def prepare_input(self, image: Image) -> Any:
        """Return the image unchanged if it has the input's size, otherwise resized to it ignoring aspect ratio."""
        return self.plan.prepare_input(image)

    def prepare_encoded(self, files: Sequence[bytes]) -> Any:
        """Return JPEG files decoded, resized and cropped on the CUDA device: (N, 3, H, W), 8 bits."""
        if not self._cuda:
            raise ModelFailed(f"{self.spec.name}: cannot decode on the device; use <<decode=cpu>>")
        with self._torch.inference_mode(), self._stream():
            return self._decoder(files)

    def prepare_on_device(self, frames: Any) -> Any | None:
        """Return frames on the device, (N, height, width, 3), resized and cropped to (N, 3, H, W), 8 bits."""
        if self._resizer is None or type(self).prepare is not TorchClassifier.prepare:
            return None
        torch = self._torch
        here = torch.cuda.current_stream(self._setup.device)
        # One stream for all threads, because every stream holds memory of its own.
        with self._preparing_turn, torch.inference_mode(), torch.cuda.stream(self._preparing):
            self._preparing.wait_stream(here)
            found = self._resizer.on_device(frames)
            frames.record_stream(self._preparing)
        here.wait_stream(self._preparing)
        return found

    @cached_property
    def _preparing(self) -> Any:
        return self._torch.cuda.Stream(device=self._setup.device, priority=-1)

    @property
    def resizes(self) -> bool:
        """Whether `forward` accepts decoded frames and resizes them on the device."""
        return self._cuda

    @cached_property
    def _resizer(self) -> ExactResize | None:
        plan = self.plan
        return ExactResize(plan, device=self._setup.device) if self.resizes and isinstance(plan, ImagePlan) else None

    @cached_property
    def _decoder(self) -> Callable[[Sequence[bytes]], Any]:
        if not isinstance(self.plan, ImagePlan):
            raise ModelFailed(f"{self.spec.name}: cannot decode on the device; use <<decode=cpu>>")
        return DECODERS["device"].make(self.plan, self._setup.device)

    def forward(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """Return scores (N, C)."""
        torch = self._torch
        with torch.inference_mode():
            if not self._cuda:
                return np.asarray(self._answer(self._brought(prepared)).cpu().numpy(), np.float32)
            with self._stream():
                pixels = self._brought(prepared)
                there = torch.cuda.current_stream().record_event()
            on_host, done = self._launcher.submit(self._launched, pixels, there).result()
            done.synchronize()
            return np.asarray(on_host.numpy(), np.float32)

    def _launched(self, pixels: Any, there: Any) -> tuple[Any, Any]:
        """Launch the network on pixels that are on the device after an event. Return the scores and their event."""
        torch = self._torch
        with torch.inference_mode(), torch.cuda.stream(self._forwards):
            self._forwards.wait_event(there)
            pixels.record_stream(self._forwards)  # made in another stream, so torch could free them too early
            scores = self._answer(pixels)
            on_host = torch.empty(scores.shape, dtype=scores.dtype, pin_memory=True)
            on_host.copy_(scores, non_blocking=True)
            return on_host, self._mark(self._forwards)

    def plan_ahead(self) -> None:
        """On a CUDA device, begin to load and choose the network's kernels; the first forward waits for them."""
        if self._cuda and isinstance(self.plan, ImagePlan):
            self._full = self.spec.batch_size
            self._launcher.submit(self._try_zeros, self.plan)

    def _try_zeros(self, plan: ImagePlan) -> None:
        torch = self._torch
        with torch.inference_mode(), torch.cuda.stream(self._forwards):
            shape = (self.spec.batch_size, 3, *plan.size_hw)
            empty = torch.zeros(shape, dtype=torch.uint8, device=self._setup.device)
            self._answer(empty.contiguous(memory_format=torch.channels_last)).cpu()

    def compile(self) -> str:
        """Compile the network for full batches. Returns a text with the cost and gain, or why compiling failed."""
        torch, n = self._torch, self.spec.batch_size
        if self.input_hw is None:
            return "not compiled, because its library's own preprocessing does not declare the size of its input"

        def run(call: Callable[[Any], Any]) -> None:
            self._call = call
            self._scores(sample).cpu()

        as_it_is = self._call
        with torch.inference_mode(), sharing_cores([self]):  # must match a forward, or torch compiles again
            shape = (n, 3, *self.input_hw)
            sample = torch.empty(shape, device=self._setup.device, memory_format=torch.channels_last).zero_()
            try:
                compiled_network = compiled(as_it_is, run)
            except ModelFailed as error:
                self._call = as_it_is
                return f"the model runs uncompiled: {error}"
            self._full = n
            if self._cuda:
                self._recorded = self._record()
        self.spec = replace(self.spec, preprocessing={**self.spec.preprocessing, "compiled": True})
        return compiled_network.text(n)

    def _record(self) -> Recorded | None:
        n, torch = self._full, self._torch
        dtype = torch.uint8 if isinstance(self.plan, ImagePlan) else torch.float32
        sample = torch.zeros((n, 3, *self._known_input().size_hw), dtype=dtype, device=self._setup.device)
        sample = sample.contiguous(memory_format=torch.channels_last)
        try:
            return Recorded(lambda batch: self._scores(self._normalised(batch)), sample, self._forwards)
        except RuntimeError:  # the graph is too large or synchronises half-way, so launch op by op
            return None

    def _answer(self, batch: Any) -> Any:
        """Return the network's scores (N, C) for a batch on the device."""
        if self._recorded is not None:
            return self._recorded(batch)
        pixels, n = self._normalised(batch), len(batch)
        if n >= self._full:
            return self._scores(pixels)
        shape = (self._full, *pixels.shape[1:])
        filled = self._torch.empty(shape, device=pixels.device, memory_format=self._torch.channels_last).zero_()
        filled[:n] = pixels
        return self._scores(filled)[:n]

    @cached_property
    def _forwards(self) -> Any:
        """The single stream in which the network runs. Launched batches queue up in it."""
        return self._torch.cuda.Stream(device=self._setup.device)

    @cached_property
    def _input_plan(self) -> ImagePlan | None:
        return self.plan if isinstance(self.plan, ImagePlan) else self.plan.input_plan

    @cached_property
    def _mean_std(self) -> tuple[Any, Any]:
        """Return the mean and std for normalisation, on the device, (1, 3, 1, 1) each."""
        plan = self._known_input()
        with self._torch.inference_mode(False):  # tensors made in inference mode cannot take part in a gradient later
            mean, std = (self._torch.tensor(three, device=self._setup.device) for three in (plan.mean, plan.std))
            return mean.view(1, 3, 1, 1), std.view(1, 3, 1, 1)

    @property
    def input_hw(self) -> tuple[int, int] | None:
        """The size of the network's input. None if the library's own preprocessing does not specify it."""
        return self._input_plan.size_hw if self._input_plan is not None else None

    def input_pixels(self, image: Image) -> Image:
        """Return the image as the network's input before normalisation: 8 bits, RGB."""
        plan, prepared = self._known_input(), self.prepare(image)
        if not isinstance(self.plan, ImagePlan):  # normalised floats, (3, H, W): convert back to 8 bits
            pixels = (prepared.transpose(1, 2, 0) * np.array(plan.std) + np.array(plan.mean)) * plan.divide
            prepared = np.clip(np.rint(pixels), 0, 255).astype(np.uint8)
        return np.ascontiguousarray(prepared[:, :, ::-1] if plan.channels == "bgr" else prepared)

    def input_scores(self, pixels: Any) -> Any:
        """Return scores (N, C) for RGB pixels (N, 3, H, W) in [0, 1] on the device, differentiable in the pixels.

        Pixels of another size than the input are resized first.
        """
        plan, size_hw = self._known_input(), tuple(pixels.shape[2:])
        if size_hw != plan.size_hw:
            if size_hw not in self._soft:
                self._soft[size_hw] = SoftResize(plan, size_hw, device=self._setup.device)
            pixels = self._soft[size_hw](pixels)
        if plan.channels == "bgr":
            pixels = pixels.flip(1)
        if plan.divide != 255.0:
            pixels = pixels * (255.0 / plan.divide)
        mean, std = self._mean_std
        pixels = (pixels - mean) / std
        return self._scores(pixels.contiguous(memory_format=self._torch.channels_last))

    def _known_input(self) -> ImagePlan:
        if self._input_plan is None:
            raise ModelFailed(
                f"{self.spec.name}: its library's own preprocessing does not declare the size of its input"
            )
        return self._input_plan

    def _scores(self, pixels: Any) -> Any:
        """Return the network's float32 scores for normalised pixels."""
        with self._autocast():
            scores = self._call(pixels)
        scores = getattr(scores, "logits", scores)
        if not isinstance(scores, self._torch.Tensor):
            raise ModelFailed(f"{self.spec.name}: returned {type(scores).__name__}, expected a tensor of scores")
        return scores.float()

    def _brought(self, prepared: Sequence[Any]) -> Any:
        """Return the batch on the device, (N, 3, H, W).

        It holds 8-bit pixels at the input's size, or the output of the model library's preprocessing.
        """
        torch, plan = self._torch, self.plan
        if isinstance(prepared, torch.Tensor):
            return prepared
        if isinstance(plan, ImagePlan) and any(isinstance(one, torch.Tensor) for one in prepared):
            return torch.stack([self._on_device(one) for one in prepared])  # some images may come from the CPU
        if isinstance(plan, ImagePlan) and self._resizer is not None:
            finished = all(image.shape[:2] == plan.size_hw for image in prepared)
            if not finished:
                return self._resizer(prepared)
        shape = (len(prepared), *np.shape(prepared[0]))
        dtype = torch.uint8 if isinstance(plan, ImagePlan) else torch.float32
        batch = torch.empty(shape, dtype=dtype, pin_memory=self._cuda)
        np.stack(prepared, out=batch.numpy())
        batch = batch.to(self._setup.device, non_blocking=True)
        # (N, H, W, 3) viewed as (N, 3, H, W) is channels-last already, so nothing is copied.
        return batch.permute(0, 3, 1, 2) if isinstance(plan, ImagePlan) else batch

    def _on_device(self, image: Any) -> Any:
        """Return one prepared image on the device, (3, H, W)."""
        if isinstance(image, self._torch.Tensor):
            return image
        return self._torch.from_numpy(np.array(image)).to(self._setup.device).permute(2, 0, 1)

    def _normalised(self, batch: Any) -> Any:
        torch, plan = self._torch, self.plan
        pixels = batch.to(torch.float32, memory_format=torch.channels_last)
        if not isinstance(plan, ImagePlan):
            return pixels
        if plan.divide != 1:
            pixels = pixels.div_(plan.divide)
        mean, std = self._mean_std
        return pixels.sub_(mean).div_(std)

    def _autocast(self) -> Any:
        if not self._setup.autocast:
            return nullcontext()
        dtype = getattr(self._torch, self._setup.dtype)
        return self._torch.autocast(self._setup.device.split(":")[0], dtype=dtype)

    def _mark(self, stream: Any) -> Any:
        """Return an event to wait for without spinning. By default a waiting thread keeps a core busy."""
        event = self._torch.cuda.Event(blocking=True)
        event.record(stream)
        return event

    def _stream(self) -> Any:
        """Return a CUDA stream per calling thread, so that copies, decoding and arithmetic of batches overlap."""
        if not self._cuda:
            return nullcontext()
        if not hasattr(self._own, "stream"):
            # Copies and resizing of the next batch get priority over the longer forward of the current one.
            self._own.stream = self._torch.cuda.Stream(device=self._setup.device, priority=-1)
        return self._torch.cuda.stream(self._own.stream)


def classifier_of(
    module: Any,
    model: ModelName,
    *,
    plan: ImagePlan | OwnPreparation,
    label_space: LabelSpace,
    options: LoadOptions,
    call: Callable[[Any], Any] | None = None,
    facts: dict[str, Any] | None = None,
    digest: str | None = None,
    kind: Literal["logits", "probabilities"] = "logits",
) -> TorchClassifier:
    """Wrap the module in the Classifier port, with a spec built from its name, weights, plan and options.

    `facts` are added to the stored preprocessing. They describe it if the model's own library prepares images. `digest`
    is the digest of the module's weights, if already known.
    """
    setup, facts = torch_setup(options), dict(facts or {})
    n_parameters = sum(parameter.numel() for parameter in module.parameters())
    described: dict[str, Any] = {}
    if isinstance(plan, ImagePlan):
        described = plan.to_json()
    backend = options.backend
    if backend in RUNTIMES and call is None and isinstance(plan, ImagePlan) and not setup.autocast:
        call = in_runtime(module.eval(), name=model.text, size_hw=plan.size_hw, device=setup.device, backend=backend)
        facts |= runtime_facts(backend)
    spec = ModelSpec(
        name=model.text,
        provider=model.provider,
        task="classification",
        label_space=label_space,
        weights=digest or digest_of_state(module.state_dict()),
        kind=kind,
        preprocessing={**described, "precision": setup.dtype, **facts},
        batch_size=options.batch_size or default_batch(n_parameters, device=setup.device, compiled=options.compile),
        size=sum(one.numel() * one.element_size() for one in module.state_dict().values()),
    )
    classifier = TorchClassifier(module, spec=spec, plan=plan, setup=setup, call=call)
    if options.compile:
        said = classifier.compile()
        if options.progress is not None:
            options.progress.note(f"{printable(model.text)}: {said}")
    else:
        classifier.plan_ahead()
    return classifier
