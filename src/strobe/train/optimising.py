"""The parts common to all trainings: gradient exchange, clipping, steps, averaging, checks, and resumable state."""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from strobe.core.errors import StrobeError
from strobe.train.draws import Purpose, mixed
from strobe.train.processes import Processes, shared_norms
from strobe.train.recipe import Recipe

_NO_PARAMETER = "the model has no trainable parameter"


class Diverged(StrobeError):
    """Raised for a NaN or infinite loss. The message names the step."""


class Length(Protocol):
    """The length of a training."""

    @property
    def steps(self) -> int:
        """The total number of steps."""

    @property
    def steps_per_epoch(self) -> int:
        """The number of steps per epoch."""


class Optimisation:
    """A network and its optimiser. A subclass adds `backward`, which computes the loss of a step and its gradients.

    The result of `step` depends only on the step's number and the state before it.
    """

    def __init__(
        self, module: Any, recipe: Recipe, schedule: Length, *, device: str, seed: int, processes: Processes | None
    ) -> None:
        self.recipe, self.device, self.seed = recipe, device, seed
        self.processes = processes or Processes()
        self.module = module.to(device, memory_format=torch.channels_last)
        if self.processes.count > 1:
            shared_norms(self.module)
        self._length = schedule
        self._parameters = [parameter for parameter in self.module.parameters() if parameter.requires_grad]
        if not self._parameters:
            raise StrobeError(_NO_PARAMETER)
        self.optimiser = self.make_optimiser()
        self.average = copy.deepcopy(self.module).requires_grad_(False) if recipe.ema else None
        self.rate_factor = 1.0
        self._sums, self._counts = [0.0, 0.0], [0, 0]
        # Losses stay on the device until they are requested. Otherwise the host would wait for the device at every
        # step.
        self._pending: list[tuple[int, Tensor]] = []
        self._largest: list[Tensor] = []
        self._largest_sum, self._largest_count = 0.0, 0

    @property
    def steps(self) -> int:
        """The total number of steps."""
        return self._length.steps

    @property
    def steps_per_epoch(self) -> int:
        """The number of steps per epoch."""
        return self._length.steps_per_epoch

    def backward(self, number: int) -> Tensor:
        """Compute gradients, and return this process's part of the loss. The batch's loss is the sum over processes."""
        raise NotImplementedError

    def step(self, number: int) -> Tensor:
        """Run one optimiser step. Returns its loss, on the device."""
        # Dropout and the like have a separate random stream for every step and process.
        torch.manual_seed(mixed(self.seed, Purpose.NETWORK, number, self.processes.rank))
        if not self.module.training:
            self.module.train()
        total = self.backward(number)
        # A parameter without gradient flow has no gradient in any process.
        gradients = [parameter.grad for parameter in self._parameters if parameter.grad is not None]
        if not gradients:
            raise StrobeError(_NO_PARAMETER)
        self.processes.add_up([*gradients, total, *self._largest[-1:]])
        self._pending.append((number, total))
        if self.recipe.clip_norm:
            torch.nn.utils.clip_grad_norm_(self._parameters, self.recipe.clip_norm)
        rate = self.rate(number)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        if self.average is not None:
            self._follow(number)
        return total

    def rate(self, number: int) -> float:
        """Return the learning rate of a step."""
        recipe, done = self.recipe, number / self.steps
        warm = min(1.0, (number + 1) / max(1, round(recipe.warm_up * self.steps)))
        if recipe.schedule == "cosine":
            falling = max(1e-3, 0.5 * (1 + math.cos(math.pi * done)))
        elif recipe.schedule == "steps":
            falling = 1.0 if done < 0.5 else 0.1 if done < 0.75 else 0.01
        else:
            falling = 1.0
        return recipe.learning_rate * self.rate_factor * warm * falling

    def make_optimiser(self) -> Any:
        """Return the optimiser. Norms and biases are not decayed."""
        recipe, fused = self.recipe, self.device.startswith("cuda")
        decayed = [parameter for parameter in self._parameters if parameter.ndim > 1]
        others = [parameter for parameter in self._parameters if parameter.ndim <= 1]
        groups: list[dict[str, Any]] = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
        groups = [group for group in groups if group["params"]]
        rate, decay = recipe.learning_rate, recipe.weight_decay
        if recipe.optimiser == "sgd":
            return torch.optim.SGD(groups, lr=rate, momentum=recipe.momentum, weight_decay=decay, fused=fused)
        return torch.optim.AdamW(groups, lr=rate, weight_decay=decay, fused=fused)

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is untyped here
    def _follow(self, number: int) -> None:
        """Move the averaged weights towards the trained weights.

        Early steps count more, so that the random start loses its influence.
        """
        decay = min(self.recipe.ema, (1 + number) / (10 + number))
        average: Any = self.average
        torch._foreach_lerp_(list(average.parameters()), list(self.module.parameters()), 1 - decay)
        for mine, theirs in zip(average.buffers(), self.module.buffers(), strict=True):
            mine.copy_(theirs)

    # -- results -----------------------------------------------------------------------------------------------

    @property
    def result(self) -> Any:
        """The network to use: the network with averaged weights if there is one, otherwise the trained network."""
        return self.module if self.average is None else self.average

    def check(self) -> None:
        """Raise Diverged if the loss of any step so far was not finite."""
        if not self._pending:
            return
        values = torch.stack([loss for _, loss in self._pending]).tolist()
        for (number, _), value in zip(self._pending, values, strict=True):
            if not math.isfinite(value):
                raise Diverged(
                    f"the loss of step {number} is not a number; try a smaller learning rate (<<set=learning_rate=…>>)"
                )
            self._sums = [one + value for one in self._sums]
            self._counts = [count + 1 for count in self._counts]
        self._pending.clear()

    def mean_loss(self, which: int) -> float:
        """Return the mean loss since the last call with the same `which`, 0 or 1. `which` selects one of two
        independent counters.
        """
        self.check()
        mean = self._sums[which] / max(1, self._counts[which])
        self._sums[which], self._counts[which] = 0.0, 0
        return mean

    def mean_largest(self) -> float | None:
        """Return the mean of each set's largest loss since the last call, or None for losses over single images."""
        self._add_largest()
        count, self._largest_count = self._largest_count, 0
        mean, self._largest_sum = self._largest_sum / max(1, count), 0.0
        return mean if count and math.isfinite(mean) else None

    def _add_largest(self) -> None:
        if self._largest:
            for one in torch.stack(
                self._largest
            ).tolist():  # added one by one, so a resumed training sums in the same order
                self._largest_sum += one
            self._largest_count += len(self._largest)
            self._largest.clear()

    def state(self) -> dict[str, Any]:
        """Return everything the next step depends on, as plain tensors and numbers."""
        self.check()
        self._add_largest()
        return {
            "module": self.module.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "rate_factor": self.rate_factor,
            "sums": list(self._sums),
            "counts": list(self._counts),
            "largest": [self._largest_sum, self._largest_count],
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Resume from a state."""
        self.module.load_state_dict(state["module"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.rate_factor, self._counts = float(state["rate_factor"]), list(state["counts"])
        self._sums = list(state["sums"])
        self._largest_sum, self._largest_count = float(state["largest"][0]), int(state["largest"][1])


def parts_of(count: int, pieces: int) -> Sequence[slice]:
    """Split a batch into this many parts of about equal size, none of them empty.

    >>> parts_of(5, 2), parts_of(1, 4)
    ([slice(0, 3, None), slice(3, 6, None)], [slice(0, 1, None)])
    """
    size = max(1, math.ceil(count / pieces))
    return [slice(start, start + size) for start in range(0, count, size)]
