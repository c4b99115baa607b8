"""Find out from the values whether scores are logits or probabilities, and refuse what could be either."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from strobe.core.arrays import Floats
from strobe.core.errors import InvalidValue

ROUNDING_16_BITS = 2.0**-8
"""Twice the largest relative rounding of bfloat16, the coarsest number format in use."""
_DIGITS = range(7)
"""The numbers of decimals that are looked for. More decimals round less than float32 does."""
_CLEAR = 0.5
"""The share of a row that may be lost to rounding. If more is missing, the row could be anything."""
_HALF = 50.0
"""Values from 0 to at least this could be per cent as well as logits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundKind:
    """The kind of scores, the factor that turns them into probabilities or logits, and how the kind was found."""

    kind: Literal["logits", "probabilities"]
    scale: float = 1.0
    reason: str


def kind_of_scores(scores: Floats, *, option: str = "<<kind=probabilities>> or <<kind=logits>>") -> FoundKind:
    """Return the kind of scores (N, C) as their values show it.

    Values from 0 to 1, or to 100, are probabilities if every row sums to 1, or to 100, within rounding. A value that is
    rounded to d decimals is off by at most half a step of 10⁻ᵈ. A 0 may stand for up to half a step, so a row of C
    values sums to between 1 − C·step/2 and 1 + (number of values above 0)·step/2. Binary formats and significant digits
    are off by a share of the value. Other values are logits if some are negative or above 100, or if they are above 1
    and neither reach 50 nor could be per cent that were rounded too coarsely. All else could be either.

    Raises:
        InvalidValue: The values could be sigmoids, an incomplete list of probabilities, or logits between 0 and 1.
            `option` names the way to declare the kind.

    >>> kind_of_scores(np.array([[0.71, 0.2, 0.08], [0.98, 0.01, 0.0]])).reason
    'its rows sum to 1 within rounding (2 decimals): 0.99 to 0.99'
    >>> kind_of_scores(np.array([[71.0, 20.0, 9.0]])).scale, kind_of_scores(np.array([[3.1, -0.2, 0.0]])).kind
    (0.01, 'logits')
    """
    low, high = float(scores.min()), float(scores.max())
    sums = scores.sum(axis=1)
    top = 100.0 if high > 1 + ROUNDING_16_BITS or float(sums.min()) > _HALF else 1.0
    span = f"its values are between {low:.3g} and {high:.3g}, and its rows sum to {sums.min():.4g} to {sums.max():.4g}"
    if scores.shape[1] == 1 or high == 0 or low < -ROUNDING_16_BITS or high > 100 * (1 + ROUNDING_16_BITS):
        return FoundKind(kind="logits", reason=span)
    how, is_close = _sums_to(scores / top) if low >= 0 else ("", True)
    if how:
        text = f"its rows sum to {top:g} {how}: {sums.min():.4g} to {sums.max():.4g}"
        return FoundKind(kind="probabilities", scale=1 / top, reason=text)
    if top > 1 and high < _HALF and not is_close:
        return FoundKind(kind="logits", reason=span)
    raise InvalidValue(
        f"{span}: they could be logits, sigmoids or a part of the probabilities; declare the kind with {option}"
    )


def _sums_to(shares: Floats) -> tuple[str, bool]:
    """Return how exactly every row sums to 1, or no words; and whether any rounding could explain the sums."""
    missing, used = 1 - shares.sum(axis=1), (shares > 0).sum(axis=1)
    if (np.abs(missing) <= ROUNDING_16_BITS).all():
        return ("in every row" if (np.abs(missing) <= 1e-3).all() else "within the rounding of 16 bits"), True
    step, relative, words = _precision(shares)
    few = ROUNDING_16_BITS + relative
    lost, gained = shares.shape[1] * step / 2 + few, used * step / 2 + few
    # If every row has equally many values and rounding of these does not explain a sum, the others were cut off.
    is_part = len(np.unique(used)) == 1 and used[0] < shares.shape[1] and bool((missing > gained).any())
    is_close = bool(((missing <= lost) & (-missing <= gained)).all())
    is_clear = bool(words) and bool((missing <= _CLEAR).all()) and not is_part
    return (f"within rounding ({words})" if is_close and is_clear else ""), is_close


def _precision(shares: Floats) -> tuple[float, float, str]:
    """Return the step of the values, their relative rounding, and both in words; no words for unrounded values."""
    decimals = next((d for d in _DIGITS if np.abs(shares - np.round(shares, d)).max() <= 1e-7), None)
    above = shares[shares > 0] if shares.any() else np.ones(1)
    unit = 10.0 ** np.floor(np.log10(above))
    digits = next((d for d in (2, 3) if np.abs(above / unit - np.round(above / unit, d - 1)).max() <= 1e-6), None)
    relative = 0.5 * 10.0 ** (1 - digits) if digits is not None and (decimals is None or digits < decimals) else 0.0
    words = [f"{decimals} decimals"] if decimals is not None else [f"{digits} digits"] if relative else []
    return 0.0 if decimals is None else 10.0**-decimals, relative, "".join(words)
