"""Numbers and names as people read them. Everything here takes the plain dicts of results.json."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "CAUSES",
    "MOST_SHOWN",
    "cause_text",
    "counted",
    "estimate",
    "is_sure",
    "join",
    "listed",
    "models_of",
    "p_text",
    "percent",
    "plain_number",
    "points",
    "short",
    "shown_of",
    "shown_text",
    "some",
    "value_of",
    "with_interval",
]

Json = Mapping[str, Any]

NONE = "—"

MOST_SHOWN = 8
"""Models drawn in colour and shown in the gallery; more could not be told apart. The rest are in the tables."""

CAUSES = {
    "classification": "right place, wrong class",
    "localization": "right class, box off",
    "both": "box off and wrong class",
    "missed": "not found",
    "duplicate": "found twice",
    "background": "box on nothing",
}
"""The kinds of error of docs/detection.md, as a reader who does not know them would say it."""


def cause_text(kind: str) -> str:
    """What a kind of error means, in words; an unknown kind is itself.

    >>> cause_text("both")
    'box off and wrong class'
    """
    return CAUSES.get(kind, kind)


def estimate(data: Any, *keys: str) -> Json | None:
    """The estimate under these keys, or None where a key is missing or nothing was measured.

    >>> estimate({"drop": {"value": 0.1}}, "drop")
    {'value': 0.1}
    >>> estimate({"drop": {"value": None}}, "drop") is None
    True
    """
    for key in keys:
        if not isinstance(data, Mapping):
            return None
        data = data.get(key)
    return data if isinstance(data, Mapping) and data.get("value") is not None else None


def value_of(data: Any, *keys: str) -> float | None:
    """The value of the estimate under these keys, where there is one."""
    found = estimate(data, *keys)
    return None if found is None else float(found["value"])


def percent(found: Json | float | None, *, digits: int = 1) -> str:
    """A share in per cent.

    >>> percent(0.8125), percent(None)
    ('81.2\\xa0%', '—')
    """
    value = found.get("value") if isinstance(found, Mapping) else found
    return NONE if value is None else f"{100 * float(value):.{digits}f}\N{NO-BREAK SPACE}%"


def points(found: Json | float | None, *, digits: int = 1) -> str:
    """A difference of shares in percentage points, with a true minus sign.

    >>> points(-0.031), points(0.01)
    ('−3.1\\xa0points', '1.0\\xa0points')
    """
    value = found.get("value") if isinstance(found, Mapping) else found
    return NONE if value is None else f"{100 * float(value):.{digits}f}\N{NO-BREAK SPACE}points".replace("-", "−")


def with_interval(found: Json | None, *, scale: float = 100.0, digits: int = 1) -> str:
    """A value and its interval, in per cent by default.

    >>> with_interval({"value": 0.5, "low": 0.4, "high": 0.6})
    '50.0 [40.0, 60.0]'
    """
    if found is None or found.get("value") is None:
        return NONE
    text = f"{scale * found['value']:.{digits}f}"
    if found.get("low") is not None and found.get("high") is not None:
        text += f" [{scale * found['low']:.{digits}f}, {scale * found['high']:.{digits}f}]"
    return text.replace("-", "−")


def plain_number(value: float | int | None) -> str:
    """A count with thin thousands, or a dash.

    >>> plain_number(22179)
    '22,179'
    """
    return NONE if value is None else f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def counted(n: float | int | None, noun: str) -> str:
    """A count with its noun, in the plural where it belongs.

    >>> counted(1, "video"), counted(1109, "set")
    ('1 video', '1,109 sets')
    """
    return f"{plain_number(n)} {noun}{'' if n == 1 else 's'}"


def short(text: str, limit: int = 28) -> str:
    """A name cut in the middle, since what tells models apart is at both ends.

    >>> short("timm:resnet50.a1_in1k_with_a_very_long_tail", 20)
    'timm:resne…long_tail'
    """
    if len(text) <= limit:
        return text
    head = limit // 2
    return text[:head] + "…" + text[len(text) - (limit - head - 1) :]


def join(parts: Sequence[str]) -> str:
    """Names in a sentence.

    >>> join(["a", "b", "c"])
    'a, b and c'
    """
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + f" and {parts[-1]}" if parts else ""


def some(names: Sequence[str], most: int = 8) -> str:
    """Names in a sentence, the first few of many.

    >>> some(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    return join(names if len(names) <= most else [*names[:most], f"{len(names) - most} more"])


def p_text(p: float | None, *, level: float = 0.05) -> str:
    """A p-value with three decimals, more where rounding would put it on the wrong side of the level.

    >>> p_text(0.0496), p_text(0.04996), p_text(0.0004), p_text(None)
    ('0.0496', '0.04996', '< 0.001', '—')
    """
    if p is None:
        return NONE
    if p < 0.001:
        return "< 0.001"
    return next((t for n in range(3, 12) if (float(t := f"{p:.{n}f}") < level) == (p < level)), f"{p:.3f}")


def is_sure(row: Json) -> bool:
    """Whether the models of a comparison differ beyond chance, by the corrected p-value where there is one."""
    p = row.get("p_holm") if row.get("p_holm") is not None else row.get("p")
    return p is not None and float(p) < 0.05


def models_of(results: Json, task: str = "classification") -> dict[str, Json]:
    """The models of one task, the most robust first (then by name), so that every table and figure agrees."""
    key = "acc_pmk" if task == "classification" else "map_pmk"
    found = {name: data for name, data in results.get("models", {}).items() if data.get("task", task) == task}

    def rank(name: str) -> tuple[bool, float, str]:
        value = value_of(found[name], key)
        return (value is None, -(value or 0.0), name)

    return {name: found[name] for name in sorted(found, key=rank)}


def shown_of(results: Json, task: str = "classification", most: int = MOST_SHOWN) -> dict[str, Json]:
    """The models of one task that are drawn: those under `show` in that order, then the most robust.

    `show` is no part of results.json: the page adds what the reader asked for.
    """
    every = models_of(results, task)
    first = [name for name in results.get("show") or () if name in every]
    return {name: every[name] for name in list(dict.fromkeys([*first, *every]))[:most]}


def shown_text(results: Json, task: str = "classification") -> str:
    """How the drawn models were chosen, where not all are drawn; else nothing."""
    every, shown = list(models_of(results, task)), list(shown_of(results, task))
    if len(every) <= len(shown):
        return ""
    if shown == every[: len(shown)]:
        return f" The {len(shown)} most robust of {len(every)} models are drawn; all are in tables/."
    return (
        f" {len(shown)} of {len(every)} models are drawn: those asked for or your own, then the most robust; all are "
        "in tables/."
    )


def listed(data: Any, *keys: str) -> list[Json]:
    """The list under these keys; empty where it is missing, null or an object that only carries a reason."""
    for key in keys:
        if not isinstance(data, Mapping):
            return []
        data = data.get(key)
    return [row for row in data if isinstance(row, Mapping)] if isinstance(data, list | tuple) else []
