"""Find how far a generator's activations must change until a model errs. Three methods search the same ball.

Changes are rounded to half precision and images to 8 bits at every evaluation, so that stored findings are exact.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.generators.changing import Base, ChangeableGenerator, eight_bits
from strobe.core.errors import expect
from strobe.core.late import require
from strobe.vary.pgd import Scores, wrong_by
from strobe.vary.searched_sets import Finding

SEARCHES = ("minimal", "reference", "budget")
"""The search methods.

`minimal` takes normalised gradient steps in a growing ball, then bisects. `reference` is as published: Adam in a ball
that grows evenly, and the first success counts. `budget` tries fixed balls, smallest first.
"""

OCTAVES = 12
"""The distance between the first and the last level, in octaves."""

_LR = 3e-3
_HALVINGS, _TRIES = 8, 8
_STEP = 0.25
_INSIDE = 1 - 2**-10  # leaves room for rounding to half precision inside the ball
_BETWEEN = 8
_AROUND = 6  # bisections to find where the model first errs along a random direction
_STEPS = {"minimal": 120, "reference": 500, "budget": 40}


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorSearchOptions:
    """Search settings. `steps=None` means 120 for minimal, 500 for reference, 40 per ball for budget.

    `restarts` are further tries from random directions. `margin` is the lead that a finding must have, in nats.
    """

    search: Literal["minimal", "reference", "budget"] = "minimal"
    steps: int | None = None
    restarts: int = 0
    margin: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        expect(self.search in SEARCHES, "search", " or ".join(SEARCHES), self.search)
        expect(self.steps is None or 1 <= self.steps <= 100_000, "steps", "1–100,000", self.steps)
        expect(0 <= self.restarts <= 1000, "restarts", "0–1000", self.restarts)
        expect(math.isfinite(self.margin) and self.margin >= 0, "margin", ">= 0", self.margin)
        expect(self.seed >= 0, "seed", ">= 0", self.seed)

    @property
    def n_steps(self) -> int:
        """The number of steps of one try."""
        return _STEPS[self.search] if self.steps is None else self.steps

    def looks(self, levels: int) -> int:
        """Return the maximum number of evaluations of a batch, for a grid of this many levels.

        Early findings need fewer.
        """
        tries = self.n_steps + 1
        if self.search == "minimal":
            tries += _HALVINGS * (_TRIES + 1)
        return (1 + self.restarts) * tries * (levels if self.search == "budget" else 1) + levels + _AROUND + 1


def levels_of(cap: float) -> tuple[float, ...]:
    """Return the grid of magnitudes up to the cap, two per octave.

    >>> len(levels_of(8.0)), levels_of(8.0)[-3:]
    (25, (4.0, 5.656854249492381, 8.0))
    """
    return tuple(cap * 2 ** (-place / 2) for place in range(2 * OCTAVES, -1, -1))


@dataclass(slots=True, eq=False)
class _Items:
    """The search state: images under changes, and each item's best finding so far."""

    scores: Scores
    changing: ChangeableGenerator
    base: Base
    right: Any
    margin: float
    looked: Callable[[], None]
    change: Any = field(init=False)
    size: Any = field(init=False)
    lead: Any = field(init=False)
    best: Any = field(init=False)
    image: Any = field(init=False)
    attempt: Any = field(init=False)
    broken: Any = field(init=False)
    held: Any = field(init=False)
    after: list[list[float]] = field(default_factory=list)  # each item's best size after every attempt

    def __post_init__(self) -> None:
        torch = require("torch", what="a search", extra="models")
        n, device = len(self.base), self.changing.device
        self.change = torch.zeros((n, self.changing.width), device=device, dtype=torch.float16)
        self.image = torch.zeros((n, 3, *self.changing.image_hw), device=device)
        self.attempt = torch.zeros(n, device=device, dtype=torch.long)
        self.size = torch.full((n,), math.inf, device=device)
        self.lead = torch.full((n,), -math.inf, device=device)
        self.best = torch.full((n,), -math.inf, device=device)
        self.broken = torch.zeros(n, dtype=torch.bool, device=device)
        self.held = torch.zeros(n, device=device)  # the last radius at which all scores were finite

    def look(self, rows: Any, point: Any, *, uphill: bool) -> tuple[Any, Any, Any, Any]:
        """Return each item's lead at this change, the lead's gradient, and the change and image as they are stored."""
        torch = require("torch", what="a search", extra="models")
        self.looked()
        stored = point.detach().half()
        leaf = stored.float().requires_grad_(uphill)
        with torch.set_grad_enabled(uphill):
            image = self.changing.pixels(self.base, rows, leaf)
            # Bit-identical to the stored change. The gradient ignores the rounding.
            seen = ((image * 255).round() / 255).detach() + (image - image.detach())
            lead = wrong_by(self.scores(seen), self.right[rows])
            slope = torch.autograd.grad(lead.sum(), leaf)[0] if uphill else None
        # The search keeps values outside the range, so that pixels can move back into it later.
        return lead.detach(), slope, self.changing.trimmed(self.base, rows, stored.float()).half(), image.detach()

    def take(self, rows: Any, hit: Any, lead: Any, stored: Any, image: Any, attempt: int) -> None:
        """Keep each new finding that is smaller than the best finding so far."""
        at = hit.nonzero()[:, 0]
        if not len(at):
            return
        size = stored[at].float().norm(dim=1)
        smaller = size < self.size[rows[at]]
        at, size = at[smaller], size[smaller]
        if not len(at):
            return
        places = rows[at]
        self.size[places], self.lead[places], self.attempt[places] = size, lead[at], attempt
        self.change[places], self.image[places] = stored[at], image[at]

    def climb(
        self,
        rows: Any,
        start: Any,
        radius: Callable[[int, Any], Any],
        steps: int,
        move: Callable[[int, Any, Any, Any], Any],
        attempt: int,
    ) -> Any:
        """Return the rows that the model gets wrong, (n,).

        An item stops at its first finding. `radius(step, live)` bounds a change.
        """
        torch = require("torch", what="a search", extra="models")
        point, is_wrong = start.clone(), torch.zeros(len(rows), dtype=torch.bool, device=start.device)
        live = torch.arange(len(rows), device=start.device)
        reached = start.norm(dim=1)
        for step in range(steps + 1):
            last = step == steps
            lead, slope, stored, image = self.look(rows[live], point[live], uphill=not last)
            bad, hit = lead.isnan(), lead >= self.margin
            self.best[rows[live]] = torch.maximum(self.best[rows[live]], lead.nan_to_num(-math.inf))
            self.broken[rows[live[bad]]] = True
            self.take(rows[live], hit, lead, stored, image, attempt)
            is_wrong[live[hit]] = True
            on = ~(hit | bad)
            live = live[on]
            bound = reached[live] * 2 if last else radius(step + 1, live)
            behind = (bound > reached[live]) * reached[live]
            self.held[rows[live]] = torch.maximum(self.held[rows[live]], behind)
            if last or not len(live):
                break
            reached[live] = bound
            point[live] = _within(point[live] + move(step, live, slope[on], bound), bound)
        return is_wrong


def _within(change: Any, radius: Any) -> Any:
    """Return the change clipped to the radius, (n,)."""
    size = change.norm(dim=1, keepdim=True).clamp_min(1e-30)
    return change * (radius[:, None] * _INSIDE / size).clamp_max(1)


def _uphill(slope: Any) -> Any:
    return slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-30)


def _along(share: Callable[[int], float]) -> Callable[[int, Any, Any, Any], Any]:
    """Return gradient steps whose length is a share of the radius."""
    return lambda step, _, slope, bound: _uphill(slope) * (share(step) * bound)[:, None]


class _Adam:
    """Adam steps, with separate averages for each item."""

    def __init__(self, like: Any) -> None:
        self._mean, self._square = like * 0, like * 0

    def __call__(self, step: int, live: Any, slope: Any, bound: Any) -> Any:  # noqa: ARG002 (the ball bounds it after)
        self._mean[live] = 0.9 * self._mean[live] + 0.1 * slope
        self._square[live] = 0.999 * self._square[live] + 0.001 * slope.square()
        mean, square = self._mean[live] / (1 - 0.9 ** (step + 1)), self._square[live] / (1 - 0.999 ** (step + 1))
        return _LR * mean / (square.sqrt() + 1e-8)


def _minimal(items: _Items, names: Sequence[str], cap: float, how: GeneratorSearchOptions) -> None:
    """Grow the ball until something is found, then bisect.

    Restarts from random directions can only make the finding smaller.
    """
    torch = require("torch", what="a search", extra="models")
    every = torch.arange(len(names), device=items.changing.device)
    for attempt in range(1 + how.restarts):
        todo = every[~items.broken]
        wanting = todo[items.size[todo].isinf()]
        if len(wanting):
            octaves, start = OCTAVES, torch.zeros((len(wanting), items.changing.width), device=every.device)
            if attempt:
                octaves = 4
                start = _random(items, wanting, names, how, attempt) * (cap * 2**-octaves)

            def growing(step: int, live: Any, octaves: int = octaves) -> Any:
                here = cap * 2 ** (-octaves * (1 - step / how.n_steps))
                return torch.full((len(live),), here, device=live.device)

            items.climb(wanting, start, growing, how.n_steps, _along(lambda _: _STEP), attempt)
        with_finding = todo[items.size[todo].isfinite()]
        low = torch.zeros(len(with_finding), device=every.device)
        for halving in range(_HALVINGS):
            if not len(with_finding):
                break
            high = items.size[with_finding]
            middle = high * 0.95 if attempt and not halving else (low + high) / 2
            if attempt and not halving:
                start = _random(items, with_finding, names, how, attempt) * (middle / 2)[:, None]
            else:
                start = _within(items.change[with_finding].float() * (middle / high)[:, None], middle)

            def held(_: int, live: Any, middle: Any = middle) -> Any:
                return middle[live]

            hit = items.climb(with_finding, start, held, _TRIES, _along(lambda step: 0.5 * 0.7**step), attempt)
            if not (attempt and not halving):
                low = middle.where(~hit, low)
        items.after.append(items.size.tolist())


def _reference(items: _Items, names: Sequence[str], cap: float, how: GeneratorSearchOptions) -> None:
    """Run Adam in a ball whose radius grows evenly to the cap. The first success counts."""
    torch = require("torch", what="a search", extra="models")
    every = torch.arange(len(names), device=items.changing.device)
    for attempt in range(1 + how.restarts):
        todo = every[~items.broken]
        start = torch.zeros((len(todo), items.changing.width), device=every.device)
        if attempt:
            start = _random(items, todo, names, how, attempt) * (cap / how.n_steps)

        def growing(step: int, live: Any) -> Any:
            return torch.full((len(live),), cap * step / how.n_steps, device=live.device)

        items.climb(todo, start, growing, how.n_steps, _Adam(start), attempt)
        items.after.append(items.size.tolist())


def _budget(items: _Items, names: Sequence[str], levels: Sequence[float], how: GeneratorSearchOptions) -> None:
    """Try each ball in turn, smallest first, from zero and from random directions, until something is found."""
    torch = require("torch", what="a search", extra="models")
    every = torch.arange(len(names), device=items.changing.device)
    for level in levels:
        for attempt in range(1 + how.restarts):
            todo = every[items.size.isinf() & ~items.broken]
            if not len(todo):
                return
            start = torch.zeros((len(todo), items.changing.width), device=every.device)
            if attempt:
                start = _random(items, todo, names, how, attempt, level) * (level * _INSIDE)

            def held(_: int, live: Any, level: float = level) -> Any:
                return torch.full((len(live),), level, device=live.device)

            items.climb(todo, start, held, how.n_steps, _along(lambda _: 2.5 / how.n_steps), attempt)


def _random(items: _Items, rows: Any, names: Sequence[str], how: GeneratorSearchOptions, *said: object) -> Any:
    return items.changing.direction([names[row] for row in rows.tolist()], how.seed, "start", *said)


def search_changes(
    scores: Scores,
    changing: ChangeableGenerator,
    base: Base,
    right: NDArray[np.bool_],
    names: Sequence[str],
    *,
    levels: Sequence[float],
    options: GeneratorSearchOptions,
    strips: Sequence[bool] = (),
    keep: bool = True,
    tell: Callable[[float], None] = lambda _: None,
) -> list[Finding]:
    """Return each image's outcome: the smallest change found at which the model errs, and its companion images.

    `right` (N, C) marks the classes whose lead must be overcome. `names` seed the draws. The companions of a finding
    with magnitude M are a random change of magnitude M and, if `strips` includes the finding, the path from zero to it.
    With `keep`, the change itself is stored. `tell` is called with the completed share of the maximum work. If findings
    come early, the last share is below 1.
    """
    torch = require("torch", what="a search", extra="models")
    marks = torch.from_numpy(np.ascontiguousarray(right)).to(changing.device)
    looks, most = itertools.count(), options.looks(len(levels))
    items = _Items(scores, changing, base, marks, options.margin, lambda: tell(min(1.0, next(looks) / most)))
    cap = float(levels[-1])
    if options.search == "budget":
        _budget(items, names, levels, options)
    else:
        (_minimal if options.search == "minimal" else _reference)(items, names, cap, options)
    chance = _along_random(items, names, levels, options)
    out, images, changes = [], eight_bits(items.image), items.change.cpu().numpy()
    leads, best, has_finding = items.lead.tolist(), items.best.tolist(), items.size.isfinite().tolist()
    held = items.held.tolist()
    for index, change in enumerate(changes):
        size = float(np.linalg.norm(change.astype(np.float64))) if has_finding[index] else math.inf
        facts: dict[str, Any] = {"random_reach": chance.reach[index]}
        if options.restarts and items.after:
            facts["after"] = [min(cap, sizes[index]) for sizes in items.after]
        if bool(items.broken[index]) and not has_finding[index]:
            out.append(_broken(min(cap, held[index]), best[index], facts))
        elif not math.isfinite(size):
            out.append(Finding(status="censored", reach=cap, margin=best[index], facts=facts))
        elif not size:
            out.append(Finding(status="anchor_wrong", margin=leads[index]))
        else:
            facts |= {
                "random_fooled": chance.fooled[index],
                "attempt": int(items.attempt[index]),
                "rms": changing.rms(size),
            }
            companions = {"random": [(size, chance.image[index])]}
            if strips and strips[index]:
                companions["between"] = _between(items, index, size)
            finding = Finding(
                status="found",
                reach=size,
                margin=leads[index],
                image=images[index],
                facts=facts,
                beside=companions,
                change=change if keep else None,
            )
            out.append(finding)
    return out


def _broken(held: float, best: float, facts: dict[str, Any]) -> Finding:
    """Return the outcome of a search with NaN scores: censored at the last finite radius, or failed without one."""
    if not held:
        return Finding(status="failed")
    return Finding(status="censored", reach=held, margin=best, facts={**facts, "broken": True})


@dataclass(slots=True, eq=False)
class _Chance:
    """Where the model first errs along a random direction, and whether it errs at the finding's magnitude."""

    reach: list[float | None]
    fooled: list[bool]
    image: list[Any]


def _along_random(items: _Items, names: Sequence[str], levels: Sequence[float], how: GeneratorSearchOptions) -> _Chance:
    torch = require("torch", what="a search", extra="models")
    changing, n = items.changing, len(names)
    every, toward = torch.arange(n, device=changing.device), changing.direction(names, how.seed, "random")

    def wrong(rows: Any, size: Any) -> tuple[Any, Any]:
        lead, _, _, image = items.look(rows, toward[rows] * size[:, None], uphill=False)
        return lead >= items.margin, image

    low, high = torch.zeros(n, device=every.device), torch.full((n,), math.inf, device=every.device)
    for level in levels:
        live = every[high.isinf()]
        if not len(live):
            break
        hit, _ = wrong(live, torch.full((len(live),), level, device=every.device))
        high[live[hit]] = level
        low[live[~hit]] = level
    live = every[high.isfinite()]
    for _ in range(_AROUND):
        if not len(live):
            break
        middle = (low[live] + high[live]) / 2
        hit, _ = wrong(live, middle)
        high[live] = middle.where(hit, high[live])
        low[live] = middle.where(~hit, low[live])
    rows_found = every[items.size.isfinite()]
    out = _Chance([None if math.isinf(far) else far for far in high.tolist()], [False] * n, [None] * n)
    if len(rows_found):
        hit, image = wrong(rows_found, items.size[rows_found])
        for row, (place, is_wrong) in enumerate(zip(rows_found.tolist(), hit.tolist(), strict=True)):
            out.fooled[place], out.image[place] = is_wrong, eight_bits(image[row : row + 1])[0]
    return out


def _between(items: _Items, place: int, size: float) -> list[tuple[float, Any]]:
    """Return the path from the image to the finding, in even parts."""
    torch = require("torch", what="a search", extra="models")
    whole = items.change[place].float()
    shares = torch.arange(1, _BETWEEN, device=whole.device) / _BETWEEN
    rows = torch.full((len(shares),), place, device=whole.device)
    image = items.look(rows, shares[:, None] * whole, uphill=False)[3]
    return [(size * share, eight_bit) for share, eight_bit in zip(shares.tolist(), eight_bits(image), strict=True)]
