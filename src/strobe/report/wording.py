"""Numbers and names formatted for people."""

import re
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from strobe.analyses.comparison import Comparison
from strobe.analyses.variant_kinds import VARIANT_KINDS, own_kind
from strobe.core.errors import printable
from strobe.core.estimate import Estimate
from strobe.core.variants import Variant
from strobe.studies.variants.records import Contrast, MeanScore, VariantFacts

T = TypeVar("T")

NONE = "—"

ESTIMATED = "≈"
"""The mark of figures that use boxes or masks that nobody drew."""

CAUSES = {
    "classification": "right place, wrong class",
    "localization": "right class, inaccurate box",
    "both": "inaccurate box and wrong class",
    "missed": "not found",
    "duplicate": "found twice",
    "background": "box without an object",
}
"""The kinds of error of docs/detection.md, in words for a reader who does not know them."""


def cause_text(kind: str) -> str:
    """Return a kind of error in words. An unknown kind stays unchanged.

    >>> cause_text("both")
    'inaccurate box and wrong class'
    """
    return CAUSES.get(kind, kind)


def value_of(found: Estimate) -> float:
    """Return the value of an estimate, or NaN if it has none (see `is_known`)."""
    return float("nan") if found.value is None else float(found.value)


def is_known(*found: Estimate) -> bool:
    """Return whether each of these estimates was measured."""
    return all(one.value is not None for one in found)


def percent(found: Estimate | float | None, *, digits: int = 1) -> str:
    """Return a share in per cent.

    >>> percent(0.8125), percent(None)
    ('81.2\\xa0%', '—')
    """
    value = found.value if isinstance(found, Estimate) else found
    return NONE if value is None else f"{100 * float(value):.{digits}f}\N{NO-BREAK SPACE}%"


def points(found: Estimate | float | None) -> str:
    """Return a difference of shares in percentage points, with a true minus sign.

    >>> points(-0.031), points(0.01)
    ('−3.1\\xa0points', '1.0\\xa0points')
    """
    value = found.value if isinstance(found, Estimate) else found
    return NONE if value is None else _minus(f"{100 * float(value):.1f}\N{NO-BREAK SPACE}points")


def measured(found: Estimate, unit: str = "%") -> str:
    """Return a prominent figure: its value with the unit and its 95 % interval, or a note that there is no interval.

    >>> measured(Estimate(value=0.5, low=0.4, high=0.6, n=9))
    '50.0\\xa0% [40.0,\\xa060.0]'
    >>> measured(Estimate(value=0.5, low=None, high=None, n=1, reason="one video"), "points")
    '50.0\\xa0points [no\\xa0interval]'
    """
    if found.value is None:
        return NONE
    ends = ", ".join(found.ends() or ("no interval",))
    text = f"{100 * found.value:.1f}~{unit} [{ends.replace(' ', '~')}]"
    return _minus(text.replace("~", "\N{NO-BREAK SPACE}"))


def with_interval(found: Estimate | None, mark: str = "") -> str:
    """Return a value and its interval in per cent, with a true minus sign, and a mark after it. Without one, a dash.

    >>> with_interval(Estimate(value=-0.5, low=-0.6, high=-0.4, n=9))
    '−50.0 [−60.0, −40.0]'
    """
    return NONE if found is None else EstimateText(_minus(found.text()) + mark, found)


class EstimateText(str):
    """A printed figure with its estimate, by which tables are sorted and cautions are found."""

    estimate: Estimate

    def __new__(cls, text: str, estimate: Estimate) -> "EstimateText":
        """Return the text of an estimate."""
        out = super().__new__(cls, text)
        out.estimate = estimate
        return out

    @property
    def caution(self) -> str | None:
        """The reason why the interval must be read with care, if there is one."""
        return None if self.estimate.low is None else self.estimate.reason


def _minus(text: str) -> str:
    """Return numbers with a true minus sign. A rounded zero has no sign.

    >>> _minus("-0.0 [-100.0, -0.04]")
    '0.0 [−100.0, −0.04]'
    """
    return re.sub(r"-(?=0\.0+(?!\d))", "", text).replace("-", "−")


def plain_number(value: float | int | None) -> str:
    """Return a count with thousands separators, or a dash.

    >>> plain_number(22179)
    '22,179'
    """
    return NONE if value is None else f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


DETECTION_TERMS = [
    ("AP", "Average precision of one class, with boxes sorted by confidence. It is 100 % if no object is missed and no "
           "false box is more confident than a right one. The AP of a frame treats all its boxes as one list."),
    ("mAP", "The mean of AP over classes, with the boxes of all frames together."),
    ("overlap (IoU)", "The area that two boxes share, divided by the area they cover together. A box is right if it "
                      "has the class of an object and enough overlap with it. Each object matches only one box."),
    ("true, false box", "A true box is right. A false box matches no object."),
]  # fmt: skip


def aligned(rows: Sequence[Sequence[str]], *, right: Container[int] | None = None) -> list[str]:
    """Return rows of cells as lines, each column as wide as its widest cell; all but the first are right-aligned.

    >>> aligned([["model", "n"], ["a", "10"]])
    ['model   n', 'a      10']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    ends = range(1, len(widths)) if right is None else right
    return [
        "  ".join(
            cell.rjust(width) if index in ends else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def counted(n: float | int | None, noun: str) -> str:
    """Return a count with its noun, in the plural if needed.

    >>> counted(1, "video"), counted(1109, "set")
    ('1 video', '1,109 sets')
    """
    return f"{plain_number(n)} {noun}{'' if n == 1 else 's'}"


def in_subset(name: str | None) -> str:
    """Return the suffix of a count of sets in a subset of the dataset.

    >>> in_subset("held-out.txt"), in_subset(None)
    (' (subset held-out.txt)', '')
    """
    return "" if name is None else f" (subset {printable(name)})"


def called(one: VariantFacts | Variant, level: float | None = None) -> str:
    """Return a variant in words.

    A kind of variants with its own words describes them, any other variant is shown by its name. `level` distinguishes
    levels that are shown separately.
    """
    kind = own_kind([one.fields])
    return printable(one.variant) if kind is None else VARIANT_KINDS[kind].called(one, level)


_DIGEST = re.compile(r"[0-9a-f]{16,}")


def fields_of(one: VariantFacts) -> list[str]:
    """Return a variant's properties except name and target in words, with digests shortened to their first digits."""
    out = []
    for key, value in one.fields.items():
        if str(value) not in (called(one), *VARIANT_KINDS.own) and (key, value) != ("target", one.target):
            text = str(value)
            text = text[1:-1].replace("'", "") if text.startswith("[") else text  # results store lists as text
            text = f"{text[:12]}…" if _DIGEST.fullmatch(text) else text
            out.append(f"{printable(key).replace('_', ' ')} {printable(text)}")
    return out


def short(text: str, limit: int = 28) -> str:
    """Return a name shortened in the middle, because models differ at both ends.

    >>> short("timm:resnet50.a1_in1k_with_a_very_long_tail", 20)
    'timm:resne…long_tail'
    """
    if len(text) <= limit:
        return text
    head = limit // 2
    return text[:head] + "…" + text[len(text) - (limit - head - 1) :]


def join(parts: Sequence[str]) -> str:
    """Return names joined for a sentence.

    >>> join(["a", "b", "c"])
    'a, b and c'
    """
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + f" and {parts[-1]}" if parts else ""


def some(names: Sequence[str], most: int = 8) -> str:
    """Return the first few of these names, joined for a sentence.

    >>> some(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    return join(names if len(names) <= most else [*names[:most], f"{len(names) - most} more"])


def extreme(
    items: Iterable[T], value: Callable[[T], float], name: Callable[[T], object], *, pick: Callable[..., T] = max
) -> tuple[T, str, bool]:
    """Return an item with the largest (`pick=max`) or smallest value, its name, and whether other items tie with it.

    Items tie if they have the same value to a tenth of a point. The name then lists the first few of them.

    >>> extreme({"a": 0.75, "b": 0.5, "c": 0.7502}.items(), lambda pair: pair[1], lambda pair: pair[0])
    (('a', 0.75), 'a and c', True)
    """
    every = list(items)
    first = pick(every, key=value)
    tied = [one for one in every if round(value(one), 3) == round(value(first), 3)] or [first]
    return tied[0], some([printable(name(one)) for one in tied], 3), len(tied) > 1


def both_ends(
    items: Iterable[T], value: Callable[[T], float], name: Callable[[T], object]
) -> tuple[tuple[T, str, bool], tuple[T, str, bool]]:
    """Return the smallest and the largest of these items, each as `extreme` does."""
    every = list(items)
    return extreme(every, value, name, pick=min), extreme(every, value, name)


def p_text(p: float | None, *, level: float = 0.05) -> str:
    """Return a p-value with three decimals, or with more if rounding would move it across the significance level.

    >>> p_text(0.0496), p_text(0.04996), p_text(0.0004), p_text(None)
    ('0.0496', '0.04996', '< 0.001', '—')
    """
    if p is None:
        return NONE
    if p < 0.001:
        return "< 0.001"
    return next((t for n in range(3, 12) if (float(t := f"{p:.{n}f}") < level) == (p < level)), f"{p:.3f}")


def is_sure(row: Comparison | Contrast) -> bool:
    """Return whether a difference is significant, by the corrected p-value if there is one."""
    p = row.p if row.p_holm is None else row.p_holm
    return p is not None and p < 0.05


def better_first(row: Comparison) -> Comparison:
    """Return a significant pair in the order of its sentence, with the better model first."""
    found = row.difference
    if not is_sure(row) or found.value is None or found.value >= 0:
        return row
    return replace(
        row,
        a=row.b,
        b=row.a,
        only_a=row.only_b,
        only_b=row.only_a,
        sets_only_a=row.sets_only_b,
        sets_only_b=row.sets_only_a,
        difference=turned(found),
    )


def turned(found: Estimate) -> Estimate:
    """Return the difference with the opposite sign."""
    value, low, high = (None if end is None else -end for end in (found.value, found.high, found.low))
    return replace(found, value=value, low=low, high=high)


_AXES = {"epsilon": "ε"}


def scale(one: VariantFacts | MeanScore) -> str:
    """Return the axis of a variant in words, with its unit: `severity`, `magnitude (std)`."""
    name = _AXES.get(one.axis, one.axis.replace("-", " "))
    return f"{name} ({one.unit})" if one.unit else name


def level_text(one: VariantFacts | Variant, level: float) -> str:
    """Return a level in words. A single unordered level is described by its axis only.

    >>> facts = {"variant": "fog", "fields": {}, "target": None, "unit": "", "ordered": True, "role": "same"}
    >>> fog = VariantFacts(**facts, axis="severity", levels=(1.0, 2.0), estimated=False, n_sets=3)
    >>> level_text(fog, 2.0)
    'severity 2'
    """
    name = _AXES.get(one.axis, one.axis.replace("-", " "))
    if not one.ordered:
        return name if len(one.levels) == 1 else f"{level:g} ×" if one.unit == "x" else f"no. {level:g}"
    number = level_number(one, level)
    return f"{name} {number}{f' {one.unit}' if one.unit and '/' not in number else ''}"


def level_number(one: VariantFacts | Variant, level: float) -> str:
    """Return a level as a number. Except for l2, an ε of the unit range is written in 255ths, as is usual.

    >>> level_number(Variant(variant="linf", axis="epsilon", levels=(8 / 255,)), 8 / 255)
    '8/255'
    """
    steps, is_l2 = level * 255, one.fields.get("norm") == "l2"
    if (
        one.axis == "epsilon"
        and not is_l2
        and max(one.levels) <= 1
        and abs(steps - round(steps)) < 1e-3
        and round(steps)
    ):
        return f"{round(steps)}/255"
    return f"{level:.3g}"
