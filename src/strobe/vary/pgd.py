"""Projected gradient steps inside a ball around an image, for attacks, adversarial training and searches.

All functions work on torch tensors (N, 3, H, W) of RGB in [0, 1], before normalisation, on any device, and take a
callable that returns scores (N, C). Items of a batch do not affect each other.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from strobe.core.errors import expect
from strobe.core.late import require

Norm = Literal["linf", "l2"]
Loss = Literal["margin", "cross-entropy"]
Scores = Callable[[Any], Any]
"""Maps pixels (N, 3, H, W) in [0, 1] to scores (N, C), with gradients."""

NORMS: tuple[Norm, ...] = ("linf", "l2")
LOSSES: tuple[Loss, ...] = ("margin", "cross-entropy")

LEAST = 1 / 255
"""The smallest change that 8 bits can hold, in either norm: one channel of one pixel by one level."""

_HALVINGS = 18


@dataclass(frozen=True, slots=True)
class Ball:
    """Changes of an image of at most ε, in the largest channel (`linf`) or in the Euclidean norm (`l2`)."""

    norm: Norm

    def __post_init__(self) -> None:
        expect(self.norm in NORMS, "norm", " or ".join(NORMS), self.norm)

    def size(self, change: Any) -> Any:
        """Return the size of each change, (N,)."""
        flat = change.flatten(1)
        return flat.abs().amax(1) if self.norm == "linf" else flat.square().sum(1).sqrt()

    def within(self, change: Any, pixels: Any, eps: Any) -> Any:
        """Return the change clipped to ε and to pixels in [0, 1]. `eps` is (N, 1, 1, 1)."""
        if self.norm == "linf":
            change = change.clamp(-eps, eps)
        else:
            change = change * (eps / self.size(change).clamp_min(1e-12)[:, None, None, None]).clamp_max(1)
        return (pixels + change).clamp(0, 1) - pixels

    def uphill(self, slope: Any) -> Any:
        """Return the steepest change of size 1 along a gradient, or zero if the gradient is zero."""
        if self.norm == "linf":
            return slope.sign()
        return slope / self.size(slope).clamp_min(1e-30)[:, None, None, None]

    def noise(self, shape: tuple[int, ...], generator: Any, device: Any) -> Any:
        """Return changes sampled uniformly from the ball of size 1, by a torch generator (None: torch's own)."""
        torch = require("torch", what="attacks", extra="models")
        if self.norm == "linf":
            return torch.rand(shape, generator=generator, device=device) * 2 - 1
        found = torch.randn(shape, generator=generator, device=device)
        radius = torch.rand(shape[0], generator=generator, device=device) ** (1 / math.prod(shape[1:]))
        return found * (radius / self.size(found))[:, None, None, None]

    def rounded(self, change: Any, pixels: Any, eps: Any) -> Any:
        """Return the change rounded to 8 bits and at most ε large: a multiple of 1/255 in every channel.

        For linf, each channel is rounded to the nearest. For l2, the change keeps its direction and grows as far as ε
        allows. Rounding each channel to the nearest would undo a change spread thinly over a large image, or exceed ε.
        """
        steps, base = change * 255, (pixels * 255).round()
        if self.norm == "linf":
            most = (eps * 255 + 1e-3).floor()
            return _inside(steps.round().clamp(-most, most), base) / 255
        return _inside((steps * self._stretch(steps, base, eps * 255)).round(), base) / 255

    def _stretch(self, steps: Any, base: Any, radius: Any) -> Any:
        """Return the largest factor for `steps`, (N, 1, 1, 1), with which the rounded steps stay within the radius."""
        high = (radius + 1) / steps.abs().amax((1, 2, 3), keepdim=True).clamp_min(1e-12)
        low = high * 0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            fits = self.size(_inside((steps * middle).round(), base))[:, None, None, None] <= radius
            low, high = middle.where(fits, low), high.where(fits, middle)
        return low


def _inside(steps: Any, base: Any) -> Any:
    """Return integer steps clipped so that the 8-bit pixel stays in 0 … 255."""
    return (base + steps).clamp(0, 255) - base


@dataclass(frozen=True, slots=True, kw_only=True)
class Pgd:
    """Gradient ascent settings. The step size is `step` times ε (None: 2.5 / steps, enough to cross the ball).

    `loss` names the maximised quantity: the lead of the best wrong class (`margin`), or the cross-entropy. `margin` is
    the required lead, in nats of the score. `rounded` rounds to 8 bits at every step, not only after the last.
    """

    norm: Norm = "linf"
    steps: int = 40
    step: float | None = None
    loss: Loss = "margin"
    margin: float = 0.01
    rounded: bool = True

    def __post_init__(self) -> None:
        expect(self.norm in NORMS, "norm", " or ".join(NORMS), self.norm)
        expect(1 <= self.steps <= 100_000, "steps", "1–100,000", self.steps)
        expect(self.step is None or 0 < self.step <= 2, "step", "above 0, at most 2 (a share of ε)", self.step)
        expect(self.loss in LOSSES, "loss", " or ".join(LOSSES), self.loss)
        expect(math.isfinite(self.margin) and self.margin >= 0, "margin", ">= 0", self.margin)

    @property
    def share(self) -> float:
        """The step size as a share of ε."""
        return 2.5 / self.steps if self.step is None else self.step


def wrong_by(scores: Any, truth: Any) -> Any:
    """Return the lead of the best wrong class over the best right class, (N,). `truth` (N, C) marks the right classes.

    The lead is negative if the answer is right, and −inf if there is no wrong class.
    """
    lowest = float("-inf")
    return scores.masked_fill(truth, lowest).amax(1) - scores.masked_fill(~truth, lowest).amax(1)


def cross_entropy(scores: Any, truth: Any) -> Any:
    """Return the cross-entropy of all right classes together, (N,). `truth` (N, C) marks the right classes."""
    return scores.logsumexp(1) - scores.masked_fill(~truth, float("-inf")).logsumexp(1)


def best_of_steps(scores: Scores, pixels: Any, truth: Any, *, eps: Any, how: Pgd, start: Any) -> tuple[Any, Any]:
    """Return each item's change with the largest lead over all steps, and that lead, (N,).

    An item with a sufficient lead stops. `eps` is (N,). `start` are changes of size at most 1 (`Ball.noise`), or zeros.
    A NaN score ends the item with a lead of NaN.
    """
    torch, ball = require("torch", what="attacks", extra="models"), Ball(how.norm)
    radius = eps[:, None, None, None]
    change = ball.within(start * radius, pixels, radius)
    best, lead = torch.zeros_like(pixels), torch.full_like(eps, float("-inf"))
    live = torch.arange(len(pixels), device=pixels.device)
    for step in range(how.steps + 1):
        live_change = change[live]
        if how.rounded:
            live_change = ball.rounded(live_change, pixels[live], radius[live])
        last = step == how.steps
        point = (pixels[live] + live_change).detach()
        if how.rounded:  # bit-identical to the stored image
            point = (point * 255).round() / 255
        point.requires_grad_(not last)
        with torch.set_grad_enabled(not last):
            logits = scores(point)
            now = wrong_by(logits, truth[live])
        better = (now > lead[live]) | now.isnan()
        best[live[better]], lead[live[better]] = live_change[better], now[better].detach()
        on = ~((now >= how.margin) | now.isnan())
        if last or not on.any():
            break
        loss = now if how.loss == "margin" else cross_entropy(logits, truth[live])
        (slope,) = torch.autograd.grad(loss[on].sum(), point)
        live = live[on]
        moved = change[live] + ball.uphill(slope[on]) * (how.share * radius[live])
        change[live] = ball.within(moved, pixels[live], radius[live])
    return best, lead


def perturbed(
    scores: Scores,
    pixels: Any,
    labels: Any,
    *,
    eps: float,
    norm: Norm = "linf",
    steps: int = 7,
    generator: Any = None,
) -> Any:
    """Return pixels within ε that raise the cross-entropy, for adversarial training.

    `labels` (N,) are classes. It starts at random and takes `steps` steps for every item, without rounding. The result
    is detached.
    """
    torch, ball = require("torch", what="attacks", extra="models"), Ball(norm)
    how = Pgd(norm=norm, steps=steps)
    radius = torch.full((len(pixels), 1, 1, 1), eps, device=pixels.device)
    pixels = pixels.detach()
    change = ball.within(ball.noise(tuple(pixels.shape), generator, pixels.device) * radius, pixels, radius)
    for _ in range(steps):
        point = (pixels + change).requires_grad_()
        with torch.enable_grad():
            loss = torch.nn.functional.cross_entropy(scores(point), labels, reduction="sum")
            (slope,) = torch.autograd.grad(loss, point)
        change = ball.within(change + ball.uphill(slope) * (how.share * radius), pixels, radius)
    return (pixels + change).detach()
