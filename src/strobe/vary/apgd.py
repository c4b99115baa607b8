"""Auto-PGD (Croce and Hein, 2020): gradient steps that halve in size when the loss stops rising.

It maximises the cross-entropy, or the targeted difference of logits ratio (DLR) towards one wrong class. Each item has
its own step size, so items of a batch do not affect each other.
"""

from dataclasses import dataclass
from typing import Any

from strobe.core.late import require
from strobe.vary.pgd import Ball, Pgd, Scores, cross_entropy, wrong_by

_MOMENTUM = 0.75
"""The weight of the gradient in a step. The rest is momentum."""

_RISING = 0.75
"""Between two checks, at least this share of steps must raise the loss, or the step size halves."""


def targeted_dlr(scores: Any, truth: Any, target: Any) -> Any:
    """Return how close the target class is to being the answer, (N,), independent of the scores' scale.

    Above 0, the target class is the answer. `truth` (N, C) marks the right classes, and `target` (N,) is a wrong class.
    With fewer than four classes the DLR is undefined, and the plain difference of the two scores is returned.

    >>> torch = require("torch", what="attacks", extra="models")
    >>> scores, truth = torch.tensor([[4.0, 3.0, 1.0, 1.0]]), torch.tensor([[True, False, False, False]])
    >>> targeted_dlr(scores, truth, torch.tensor([1])).tolist()
    [-0.3333333432674408]
    """
    right = scores.masked_fill(~truth, float("-inf")).amax(1)
    lead = scores.gather(1, target[:, None])[:, 0] - right
    if scores.shape[1] < 4:
        return lead
    first, _, third, fourth = scores.topk(4, dim=1).values.unbind(1)
    known = fourth.isfinite()  # the score of a class outside the dataset is −inf
    scale = (first - (third + fourth) / 2).where(known, lead * 0 + 1)
    return lead / scale.clamp_min(1e-12)


def likeliest_wrong(scores: Scores, pixels: Any, truth: Any, count: int) -> Any:
    """Return up to `count` wrong classes of each item by descending score, (N, count or fewer), padded with −1."""
    torch = require("torch", what="attacks", extra="models")
    with torch.no_grad():
        found = scores(pixels).masked_fill(truth, float("-inf"))
    best, place = found.topk(min(count, found.shape[1]), dim=1)
    return place.where(best > float("-inf"), torch.full_like(place, -1))


@dataclass(slots=True)
class _Schedule:
    """The steps after which to check whether the loss still rises: after 22 % of the steps, then more often, at least 6
    % apart.
    """

    steps: int
    waited: int = 0
    period: int = 0

    def __post_init__(self) -> None:
        self.period = max(1, int(0.22 * self.steps))

    def is_due(self) -> bool:
        """Return whether to check after this step."""
        self.waited += 1
        return self.waited == self.period

    def after(self) -> None:
        """Record that a check was made."""
        self.waited = 0
        self.period = max(self.period - max(1, int(0.03 * self.steps)), max(1, int(0.06 * self.steps)))


def best_of_apgd(
    scores: Scores, pixels: Any, truth: Any, *, eps: Any, how: Pgd, start: Any, target: Any = None
) -> tuple[Any, Any]:
    """Return each item's change with the largest lead over all steps, and that lead, (N,).

    An item with a sufficient lead stops. The arguments are as in `best_of_steps`. `target` (N,) are the wrong classes
    to move towards by DLR. Without them, the cross-entropy is maximised. The step size and loss in `how` are ignored.
    The first step is 2 ε, and later steps halve.
    """
    torch, ball = require("torch", what="attacks", extra="models"), Ball(how.norm)
    radius, schedule = eps[:, None, None, None], _Schedule(how.steps)
    change = ball.within(start * radius, pixels, radius)
    before, size = change.clone(), 2 * radius
    best, lead = torch.zeros_like(pixels), torch.full_like(eps, float("-inf"))
    top, top_change, top_slope = lead.clone(), change.clone(), torch.zeros_like(pixels)
    last, top_before, rose = lead.clone(), lead.clone(), torch.zeros_like(eps)
    halved = torch.ones_like(eps, dtype=torch.bool)
    live = torch.arange(len(pixels), device=pixels.device)
    for step in range(how.steps + 1):
        live_change = change[live]
        if how.rounded:
            live_change = ball.rounded(live_change, pixels[live], radius[live])
        point = (pixels[live] + live_change).detach()
        if how.rounded:  # bit-identical to the stored image
            point = (point * 255).round() / 255
        point.requires_grad_(True)
        with torch.enable_grad():
            logits = scores(point)
            now = wrong_by(logits, truth[live])
            if target is None:
                loss = cross_entropy(logits, truth[live])
            else:
                loss = targeted_dlr(logits, truth[live], target[live])
        better = (now > lead[live]) | now.isnan()
        best[live[better]], lead[live[better]] = live_change[better], now[better].detach()
        on = ~((now >= how.margin) | now.isnan())
        if step == how.steps or not on.any():
            break
        (slope,) = torch.autograd.grad(loss[on].sum(), point)
        live, slope, value = live[on], slope[on], loss[on].detach()
        rose[live] += value > last[live] if step else 0
        last[live] = value
        rising = value > top[live]
        higher = live[rising]
        top[higher], top_change[higher], top_slope[higher] = value[rising], change[higher], slope[rising]
        if step and schedule.is_due():
            idle = ~halved[live] & (top_before[live] >= top[live])
            stuck = (rose[live] <= _RISING * schedule.period) | idle
            size[live[stuck]] /= 2
            change[live[stuck]] = top_change[live[stuck]]
            slope = slope.where(~stuck[:, None, None, None], top_slope[live])
            halved[live], top_before[live], rose[live] = stuck, top[live], 0
            schedule.after()
        ahead = ball.within(change[live] + ball.uphill(slope) * size[live], pixels[live], radius[live])
        share = _MOMENTUM if step else 1.0
        moved = change[live] + share * (ahead - change[live]) + (1 - share) * (change[live] - before[live])
        before[live] = change[live]
        change[live] = ball.within(moved, pixels[live], radius[live])
    return best, lead
