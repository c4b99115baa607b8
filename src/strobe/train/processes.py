"""Several processes that train one model, started by `torchrun`. A single process works the same way."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.distributed.nn.functional import all_gather

from strobe.core.errors import StrobeError

Found = TypeVar("Found")


class Processes:
    """This process, one of `count`. Only the first process writes and prints."""

    def __init__(self, *, rank: int = 0, count: int = 1) -> None:
        self.rank, self.count = rank, count

    @property
    def is_first(self) -> bool:
        """Whether this process writes and prints."""
        return self.rank == 0

    def mine(self, total: int) -> slice:
        """Return this process's part of this many items, in order."""
        return slice(total * self.rank // self.count, total * (self.rank + 1) // self.count)

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by the sum over all processes, in one exchange."""
        if self.count == 1 or not tensors:
            return
        flat = torch.cat([tensor.reshape(-1).float() for tensor in tensors])
        distributed.all_reduce(flat)
        start = 0
        for tensor in tensors:
            tensor.copy_(flat[start : start + tensor.numel()].view_as(tensor))
            start += tensor.numel()

    def first_then_all(self, work: Callable[[], Found]) -> Found:
        """Do the work in the first process, then in the others, which reuse its result.

        An error is raised in all processes.
        """
        result = _tried(work) if self.is_first else None
        if self.count > 1:
            told: list[Any] = [str(result) if isinstance(result, StrobeError) else None]
            distributed.broadcast_object_list(told)
            if not self.is_first:
                result = StrobeError(told[0]) if told[0] is not None else _tried(work)
        if isinstance(result, StrobeError):
            raise result
        return result  # type: ignore[return-value]  # set in either process


def _tried(work: Callable[[], Found]) -> Found | StrobeError:
    try:
        return work()
    except StrobeError as error:
        return error


@contextmanager
def joined(device: str) -> Iterator[tuple[Processes, str]]:
    """Return the processes that torchrun started and this one's device, or a single process without torchrun."""
    count = int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1
    if count == 1:
        yield Processes(), device
        return
    rank, local = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    on_gpu = device.startswith("cuda")
    if on_gpu:
        if local >= torch.cuda.device_count():
            raise StrobeError(f"{count} processes need {count} GPUs, but this machine has {torch.cuda.device_count()}")
        device = f"cuda:{local}"
        torch.cuda.set_device(local)
    distributed.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield Processes(rank=rank, count=count), device
    finally:
        distributed.destroy_process_group()


class _Shared:
    """A mixin for batch norms that computes statistics over the batches of all processes together."""

    def forward(self: Any, x: Tensor) -> Tensor:
        if not self.training:
            plain: Tensor = super().forward(x)  # type: ignore[misc]  # defined by the batch norm
            return plain
        axes, shape = [0, *range(2, x.dim())], [1, -1, *[1] * (x.dim() - 2)]
        wide = x.float()
        own = torch.stack([wide.mean(axes), wide.var(axes, unbiased=False)])
        size = wide.new_tensor([x.numel() / x.shape[1]])
        sizes, stats = torch.stack(all_gather(size)), torch.stack(all_gather(own))
        share = sizes / sizes.sum()
        mean = (share * stats[:, 0]).sum(0)
        # The total variance is the mean variance within processes plus the variance of their means.
        var = (share * (stats[:, 1] + (stats[:, 0] - mean) ** 2)).sum(0)
        if self.track_running_stats:
            self._track(mean.detach(), var.detach(), float(sizes.sum()))
        out = (wide - mean.view(shape)) * torch.rsqrt(var.view(shape) + self.eps)
        if self.affine:
            out = out * self.weight.view(shape) + self.bias.view(shape)
        out = out.to(x.dtype)
        return self.act(self.drop(out)) if hasattr(self, "act") else out  # timm's norms end with these steps

    def _track(self: Any, mean: Tensor, var: Tensor, count: float) -> None:
        with torch.no_grad():
            self.num_batches_tracked += 1
            rate = self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked)
            self.running_mean.lerp_(mean, rate)
            self.running_var.lerp_(var * count / max(1.0, count - 1), rate)


def shared_norms(module: Any) -> None:
    """Make every batch norm in the module use the batches of all processes. Names and values stay."""
    plain = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    for one in module.modules():
        if isinstance(one, plain) and not isinstance(one, _Shared):
            kind = type(one)
            if kind not in plain and not (hasattr(one, "act") and hasattr(one, "drop")):
                raise StrobeError(
                    f"layers of type {kind.__name__} cannot share statistics between processes; train it in one process"
                )
            one.__class__ = type(kind.__name__, (_Shared, kind), {})
