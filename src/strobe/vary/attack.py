"""Find the smallest ε of a fixed grid at which a model misclassifies an image, with PGD or APGD at each level."""

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.errors import InvalidValue, expect
from strobe.core.late import require
from strobe.core.ports import Image
from strobe.core.variants import Target, Variant, level_numbers
from strobe.vary.apgd import best_of_apgd, likeliest_wrong
from strobe.vary.pgd import LEAST, Ball, Norm, Pgd, Scores, best_of_steps
from strobe.vary.searched_sets import Finding

Method = Literal["pgd", "apgd"]
METHODS: tuple[Method, ...] = ("pgd", "apgd")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackOptions:
    """Search settings. Every level is tried from the image itself, then from `restarts` random starts.

    With the method `apgd`, these tries maximise the cross-entropy. Then one more try for each of the `targets`
    likeliest wrong classes moves towards that class from a random start. `minimal` searches a fine grid: it raises the
    level until a try succeeds, then bisects. Otherwise levels are tried one by one, smallest first.
    """

    pgd: Pgd = field(default_factory=Pgd)
    restarts: int = 1
    seed: int = 0
    minimal: bool = False
    method: Method = "pgd"
    targets: int = 9

    def __post_init__(self) -> None:
        expect(0 <= self.restarts <= 1000, "restarts", "0–1000", self.restarts)
        expect(self.seed >= 0, "seed", ">= 0", self.seed)
        expect(self.method in METHODS, "method", " or ".join(METHODS), self.method)
        expect(0 <= self.targets <= 1000, "targets", "0–1000", self.targets)

    @property
    def tries(self) -> int:
        """The maximum number of tries per level."""
        return 1 + self.restarts + (self.targets if self.method == "apgd" else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackPlan:
    """One variant: a norm, the attacked model, the grid and the search settings."""

    target: Target
    levels: tuple[float, ...]
    how: AttackOptions

    @property
    def name(self) -> str:
        """The variant's name."""
        return f"{self.how.pgd.norm}/{self.target.name}"

    def to_json(self) -> dict[str, Any]:
        """Return everything that determines the findings, as plain JSON."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self), default=dict))
        if self.how.method == "pgd":  # omitted for pgd, so that the keys of older searches stay valid
            del found["how"]["method"], found["how"]["targets"]
        return found

    def variant(self) -> Variant:
        """Return the variant, with everything needed to reproduce its findings."""
        pgd = self.how.pgd
        is_apgd = self.how.method == "apgd"
        climbing: dict[str, Any] = {"loss": pgd.loss, "steps": pgd.steps, "step": pgd.share}
        if is_apgd:
            climbing = {
                "method": "apgd",
                "loss": "cross-entropy, targeted DLR",
                "steps": pgd.steps,
                "targets": self.how.targets,
            }
        return Variant(
            variant=self.name,
            axis="epsilon",
            unit="of 1",
            levels=self.levels,
            target=self.target,
            fields={
                "kind": "attack",
                "norm": pgd.norm,
                "search": "minimal" if self.how.minimal else "grid",
                **climbing,
                "restarts": self.how.restarts,
                "margin": pgd.margin,
            },
        )

    def beside(self) -> dict[str, Variant]:
        """Return no companion variants. The difference of two images already shows the change."""
        return {}


def checked_levels(
    levels: Sequence[float], *, norm: Norm = "linf", rounded: bool = True, what: str = "<<eps>>"
) -> tuple[float, ...]:
    """Return the grid after checking that its values ascend, are distinct, and are large enough for 8 bits.

    For linf, none may exceed 1.

    >>> checked_levels([2 / 255, 1 / 255])
    Traceback (most recent call last):
    strobe.core.errors.InvalidValue: --eps: expected ascending values without repeats, got 0.00784314, 0.00392157
    """
    listed = ", ".join(f"{level:.6g}" for level in levels)
    if not levels or not all(math.isfinite(level) and level > 0 for level in levels):
        raise InvalidValue(f"{what}: expected numbers above 0, got {listed or 'none'}")
    if any(b <= a for a, b in pairwise(levels)):
        raise InvalidValue(f"{what}: expected ascending values without repeats, got {listed}")
    if rounded and levels[0] < LEAST * (1 - 1e-6):
        raise InvalidValue(
            f"{what} {levels[0]:.6g}: 8-bit pixels cannot hold a change below 1/255 = {LEAST:.6g}; use that or more"
        )
    if norm == "linf" and levels[-1] > 1:
        raise InvalidValue(
            f"{what} {levels[-1]:.6g}: expected a share of the pixel range, at most 1; did you mean /255?"
        )
    return tuple(float(level) for level in levels)


def fine_grid(norm: Norm, *, most: float) -> tuple[float, ...]:
    """Return the grid of a minimal search: multiples of 1/255 up to `most` for linf, six octaves in quarters for l2.

    >>> len(fine_grid("linf", most=16 / 255)), len(fine_grid("l2", most=4.0))
    (16, 25)
    """
    checked_levels([most], norm=norm, what="<<most>>")
    if norm == "linf":
        return tuple(level / 255 for level in range(1, math.floor(most * 255 + 1e-6) + 1))
    return tuple(level for level in (most * 2 ** (-place / 4) for place in range(24, -1, -1)) if level >= LEAST)


@dataclass(slots=True)
class _AttackItem:
    """One image's progress along the grid: the highest level that failed, and the lowest level that succeeded."""

    failed: int = -1
    found: int | None = None
    best: Finding | None = None
    lead: float = float("-inf")

    def next(self, n_levels: int, *, minimal: bool) -> int | None:
        """Return the level to try next, or None if the search is finished."""
        if self.best is not None and self.best.status != "found":
            return None
        if self.found is None:
            if self.failed == n_levels - 1:
                return None
            return min(2 * self.failed + 2, n_levels - 1) if minimal else self.failed + 1
        return (self.failed + self.found) // 2 if minimal and self.found - self.failed > 1 else None

    def take(self, level: int, hit: Finding | None, lead: float, grid: Sequence[float]) -> None:
        """Record a level's outcome.

        If the successful change is smaller than the level allows, it counts at a lower level.
        """
        self.lead = lead
        if hit is None:
            self.failed = level
            return
        self.best = hit
        if hit.status != "found":
            return
        self.found = min(level, int(level_numbers(np.array([hit.reach or 0.0]), grid)[0]) - 1)
        self.failed = min(self.failed, self.found - 1)

    def finding(self, grid: Sequence[float]) -> Finding:
        """Return the final outcome."""
        return self.best or Finding(status="censored", reach=grid[-1], margin=self.lead)


def attack(
    scores: Scores,
    images: NDArray[np.uint8],
    truth: NDArray[np.bool_],
    names: Sequence[str],
    *,
    levels: Sequence[float],
    options: AttackOptions,
    device: str = "cpu",
) -> list[Finding]:
    """Attack images (N, H, W, 3) that are already model inputs, within the ball of each grid level.

    `truth` (N, C) marks the right classes of `scores`. `names` seed the random starts, so that an image has the same
    starts in any batch.
    """
    torch = require("torch", what="attacks", extra="models")
    grid = checked_levels(levels, norm=options.pgd.norm, rounded=options.pgd.rounded)
    pixels = torch.from_numpy(np.ascontiguousarray(images)).to(device).permute(0, 3, 1, 2).float() / 255
    right = torch.from_numpy(np.ascontiguousarray(truth)).to(device)
    items, targets = [_AttackItem() for _ in names], None
    if options.method == "apgd" and options.targets:
        targets = likeliest_wrong(scores, pixels, right, options.targets)
    while True:
        asked = [(index, item.next(len(grid), minimal=options.minimal)) for index, item in enumerate(items)]
        live = {place: level for place, level in asked if level is not None}
        if not live:
            return [item.finding(grid) for item in items]
        hits: dict[int, Finding] = {}
        leads = dict.fromkeys(live, float("-inf"))
        for number in range(options.tries):
            towards = _target(options, targets, number)
            again = [place for place in live if place not in hits and (towards is None or towards[place] >= 0)]
            if not again:
                continue
            rows = torch.tensor(again, device=device)
            starts = [_start(options, names[place], live[place], number, pixels.shape[1:]) for place in again]
            change, lead = _climbed(options)(
                scores,
                pixels[rows],
                right[rows],
                eps=torch.tensor([grid[live[place]] for place in again], device=device),
                how=options.pgd,
                start=torch.cat(starts).to(device),
                **({} if towards is None else {"target": towards[rows]}),
            )
            for row, place in enumerate(again):
                leads[place] = max(leads[place], lead[row].item())
                hit = _hit(images[place], change[row], lead[row].item(), options.pgd)
                if hit is not None:
                    hits[place] = hit
        for place, level in live.items():
            items[place].take(level, hits.get(place), leads[place], grid)


def _climbed(options: AttackOptions) -> Callable[..., tuple[Any, Any]]:
    """Return the function that makes one try."""
    return best_of_apgd if options.method == "apgd" else best_of_steps


def _target(options: AttackOptions, targets: Any, number: int) -> Any:
    """Return the wrong class that each image's try moves towards, (N,), −1 if none. Return None for other tries."""
    rank = number - 1 - options.restarts
    if rank < 0 or targets is None:
        return None
    return targets[:, rank] if rank < targets.shape[1] else targets[:, 0] * 0 - 1


def _start(options: AttackOptions, name: str, level: int, number: int, shape: Sequence[int]) -> Any:
    """Return the start of one image's try at one level, made on the CPU so that device and batch have no effect."""
    torch = require("torch", what="attacks", extra="models")
    if not number:
        return torch.zeros((1, *shape))
    said = f"{options.seed} {options.pgd.norm} {level} {number} {name}"
    seed = int.from_bytes(hashlib.sha256(said.encode()).digest()[:8], "big") >> 1
    return Ball(options.pgd.norm).noise((1, *shape), torch.Generator().manual_seed(seed), "cpu")


def _hit(image: Image, change: Any, lead: float, how: Pgd) -> Finding | None:
    """Return the finding if its lead is sufficient, or `failed` if the lead is NaN."""
    if math.isnan(lead):
        return Finding(status="failed")
    if lead < how.margin:
        return None
    if not bool(change.any()):
        return Finding(status="anchor_wrong", margin=lead)
    if not how.rounded:
        return Finding(status="found", reach=Ball(how.norm).size(change[None]).item(), margin=lead)
    steps = (change * 255).round().permute(1, 2, 0).cpu().numpy().astype(np.int64)
    made = (image + steps).astype(np.uint8)
    reach = np.abs(steps).max() if how.norm == "linf" else math.sqrt(int(np.square(steps).sum()))
    return Finding(status="found", reach=float(reach) / 255, margin=lead, image=made)
