"""Bins of a slice as text: the quantity in its unit, with no more digits than needed."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["HintWords", "bin_names", "measure_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HintWords:
    """A hint in words: its panel's title, the quantity of its bins, their unit, and the conversion of stored values."""

    title: str
    noun: str = ""
    unit: str = ""
    convert: Callable[[float], float] = float


_PER_CENT, _POINTS = "\N{NO-BREAK SPACE}%", "\N{NO-BREAK SPACE}points"

_MEASURES = {
    "blur": HintWords(
        title="Blur: sharpness, % of the anchor’s", noun="sharpness", unit=_PER_CENT, convert=lambda x: 100 * 2**x
    ),
    "motion": HintWords(title="Motion: shift, % of the diagonal", noun="shift", unit=_PER_CENT),
    "exposure": HintWords(
        title="Exposure: change of brightness", noun="brightness", unit=_POINTS, convert=lambda x: 100 * x
    ),
    "cut": HintWords(title="Cut: score from 0 to 1", noun="cut score"),
}

_BIN = re.compile(r"(?:(?P<only_high><)|(?P<only_low>>=)|(?P<low>\S+) to <) (?P<edge>\S+)")
_MOST_DIGITS = 4


def measure_of(hint: str) -> HintWords:
    """Return the description of a hint. An unknown hint keeps its name and its numbers."""
    return _MEASURES.get(hint, HintWords(title=hint, noun=hint))


def bin_names(names: Sequence[str], measure: HintWords | None = None) -> list[str]:
    """Return the bins of results.json (`< 20`, `20 to < 27`, `>= 27`) in words, in the measure's unit.

    >>> bin_names(["< 20", "20 to < 27", ">= 27"])
    ['below 20', '20 to 27', '27 or more']
    >>> bin_names(["< -1.75e-05", "-1.75e-05 to < 0.00914", ">= 0.00914"], measure_of("exposure"))
    ['below 0.0\\xa0points', '0.0 to 0.9\\xa0points', '0.9\\xa0points or more']
    """
    measure = measure or HintWords(title="")
    found = [_BIN.fullmatch(name) for name in names]
    try:
        edges = {
            text: measure.convert(float(text)) for one in found if one for text in (one["low"], one["edge"]) if text
        }
    except ValueError:  # not numbers: the names stay unchanged
        return list(names)
    text = _written(edges)
    out = []
    for name, one in zip(names, found, strict=True):
        if one is None:
            out.append(name)
        elif one["only_high"]:
            out.append(f"below {text[one['edge']]}{measure.unit}")
        elif one["only_low"]:
            out.append(f"{text[one['edge']]}{measure.unit} or more")
        else:
            out.append(f"{text[one['low']]} to {text[one['edge']]}{measure.unit}")
    return out


def _written(edges: dict[str, float]) -> dict[str, str]:
    """Return every edge, with enough decimals that any two edges differ by at least five units in the last decimal
    place.
    """
    values = sorted(set(edges.values()))
    gap = min((high - low for low, high in pairwise(values)), default=1.0)
    whole = all(value.is_integer() for value in values)
    digits = 0 if whole else next((n for n in range(_MOST_DIGITS) if gap >= 5 * 10.0**-n), _MOST_DIGITS)
    text = {name: f"{value:.{digits}f}" for name, value in edges.items()}
    return {name: one.removeprefix("-") if float(one) == 0 else one.replace("-", "−") for name, one in text.items()}
