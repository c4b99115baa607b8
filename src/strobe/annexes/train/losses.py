"""The losses of the recipes.

The loss `worst` is cheap, because members are scored without gradients and only one is trained on.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from strobe.train.recipe import Recipe


def per_image(scores: Tensor, label: Tensor, every: Tensor | None, *, smoothing: float = 0.0) -> Tensor:
    """Return the loss of each image, (N,): cross-entropy with its class, or binary with each of its classes."""
    scores = scores.float()
    if every is None:
        return functional.cross_entropy(scores, label, reduction="none", label_smoothing=smoothing)
    wanted = every.float() * (1 - smoothing) + smoothing / 2
    return functional.binary_cross_entropy_with_logits(scores, wanted, reduction="none").mean(dim=1)


def divergence(scores: Tensor, target: Tensor) -> Tensor:
    """Return the Kullback-Leibler divergence of each answer from its target, (N,); `target` (N, C) has shares.

    >>> divergence(torch.tensor([[0.0, 0.0], [3.0, 3.0]]), torch.tensor([[0.5, 0.5], [1.0, 0.0]])).tolist()
    [0.0, 0.6931471824645996]
    """
    found = functional.log_softmax(scores.float(), dim=1)
    return functional.kl_div(found, target, reduction="none").sum(dim=1)


def worst_of(loss: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
    """Return the position of the largest loss in each set, and that loss, (B,) each.

    `there` (B, M) marks existing members, and `loss` (N,) has the loss of each, in order.

    >>> [one.tolist() for one in worst_of(torch.tensor([1.0, 3.0, 2.0]), torch.tensor([[True, True], [True, False]]))]
    [[1, 0], [3.0, 2.0]]
    """
    table = torch.full(there.shape, -torch.inf, dtype=torch.float32, device=loss.device)
    # NaN counts as the largest loss, so that other values cannot hide it.
    table[there] = torch.nan_to_num(loss.float(), nan=torch.inf)
    place = table.argmax(dim=1)
    return place, table.gather(1, place[:, None])[:, 0]


def symmetric_kl(a: Tensor, b: Tensor) -> Tensor:
    """Return the distance between two answers (N, C): the mean of the divergences in both directions, (N,)."""
    log_a, log_b = functional.log_softmax(a.float(), dim=1), functional.log_softmax(b.float(), dim=1)
    return 0.5 * ((log_a.exp() - log_b.exp()) * (log_a - log_b)).sum(dim=1)


def worst_weight(recipe: Recipe, *, done: float) -> float:
    """Return the weight of the worst member in a mixed loss after a share `done` of training."""
    return recipe.worst_weight * (min(1.0, done / recipe.ramp) if recipe.ramp else 1.0)


Scores = Callable[[Tensor], Tensor]
"""Images to scores (N, C)."""
