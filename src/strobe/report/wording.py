"""Numbers and names as people read them. Everything here takes the plain dicts of results.json."""

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "CAUSES",
    "cause_text",
    "counted",
    "estimate",
    "join",
    "listed",
    "models_of",
    "percent",
    "plain_number",
    "points",
    "short",
    "value_of",
    "with_interval",
]

Json = Mapping[str, Any]

NONE = "—"

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


def models_of(results: Json, task: str = "classification") -> dict[str, Json]:
    """The models of one task, the most robust first (then by name), so that every table and figure agrees."""
    key = "acc_pmk" if task == "classification" else "map_pmk"
    found = {name: data for name, data in results.get("models", {}).items() if data.get("task", task) == task}

    def rank(name: str) -> tuple[bool, float, str]:
        value = value_of(found[name], key)
        return (value is None, -(value or 0.0), name)

    return {name: found[name] for name in sorted(found, key=rank)}


def listed(data: Any, *keys: str) -> list[Json]:
    """The list under these keys; empty where it is missing, null or an object that only carries a reason."""
    for key in keys:
        if not isinstance(data, Mapping):
            return []
        data = data.get(key)
    return [row for row in data if isinstance(row, Mapping)] if isinstance(data, list | tuple) else []
