"""Which of two models is worse on the same clips, and where. A verdict names what it is about (ADR 23)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from strobe.analyses.measures import SUFFIXES, Measure, Per, Unit
from strobe.core.arrays import Bools, Floats
from strobe.core.codec import LEFT_OUT, Count, Share
from strobe.core.errors import printable
from strobe.core.estimate import Estimate
from strobe.metrics.columns import NO_SHARED_ROW, Column, Gap, Measured, is_saturated
from strobe.metrics.intervals import nothing
from strobe.metrics.paired import LEVEL, holm, least_videos
from strobe.metrics.scopes import (
    CONSTANT,
    LEAST_REPEATS,
    effective_frames,
    other_machine_tolerance,
    recording_difference,
    repeats_difference,
)

Scope = Literal["these-clips", "this-recording", "other-videos"]
SCOPES: Mapping[Scope, str] = {
    "these-clips": "a fact about the clips of the run; it says nothing about other videos",
    "this-recording": "more video of the same scenes, from six blocks of each clip",
    "other-videos": "videos that were not seen, from the interval over videos",
}
"""What a verdict is about."""

Verdict = Literal["worse", "better", "the same", "regression", "improvement", "inconclusive"]
"""The first three are facts about these clips; the others follow from an interval."""

ROUNDING = 1e-12
MOST_SPOTS = 10
"""The most places of each kind that are printed; JSON has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A place where only one of two models changes its answer: the clip, the frame of the first change, and its time.

    `answers` are the model's answers there, in order and at most five; `changes` counts its changes.
    """

    video: str
    frame: Count
    time_s: float | None
    answers: tuple[str, ...]
    changes: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One measure of two models on the same clips; `change` is new − old.

    `n` counts the rows that both measured (frames, pairs of neighbours or sets). A change of at most `tolerance` is the
    same. If both models were asked three times or more, the figures are means of their repeats, and `p` is their
    p-value, corrected over the measures. `recording` and `others` are the change of the first answers with the interval
    for this recording and for other videos. A `saturated` measure is at its end for both models and cannot tell them
    apart.
    """

    measure: str
    unit: Unit
    old: float | None
    new: float | None
    change: float | None
    n: Count
    verdict: Verdict | None
    tolerance: float = 0.0
    saturated: bool = False
    p: Share | None = field(default=None, metadata=LEFT_OUT)
    recording: Estimate | None = field(default=None, metadata=LEFT_OUT)
    others: Estimate | None = field(default=None, metadata=LEFT_OUT)
    p_others: Share | None = field(default=None, metadata=LEFT_OUT)
    reason: str | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipComparison:
    """Two models on the same clips. `verdict` is that of the measure `lead`; it is about the `scope`.

    `unsteady` are the places where only the new model changes its answer, `steady` those where only the old one does.
    """

    old: str
    new: str
    dataset: str
    scope: Scope
    videos: tuple[str, ...]
    n_frames: Count
    seconds: float | None
    lead: str | None
    verdict: Verdict | None
    differences: tuple[Difference, ...]
    unsteady: tuple[Spot, ...] = ()
    steady: tuple[Spot, ...] = ()
    effective: float | None = field(default=None, metadata=LEFT_OUT)
    """The number of independent frames that would say as much, for the scope this-recording."""
    cautions: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)

    @property
    def leading(self) -> Difference | None:
        """The difference that gives the verdict."""
        return next((difference for difference in self.differences if difference.measure == self.lead), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelColumns:
    """The columns of one model by measure, with which two models are paired, and the sets that it answered whole, (S,).

    `own` are the columns of its own figures, and `figures` its figures that are no column. `repeats` are its figures in
    each repeat, (r,), if it was asked several times.
    """

    name: str
    columns: Mapping[str, Measured] = field(default_factory=dict)
    repeats: Mapping[str, Floats] = field(default_factory=dict)
    own: Mapping[str, Measured] = field(default_factory=dict)
    figures: Mapping[str, Estimate] = field(default_factory=dict)
    scored: Bools = field(default_factory=lambda: np.ones(0, dtype=bool))

    def value(self, measure: str) -> float | None:
        """Return the figure of a measure, or None if it was not measured."""
        return self.columns[measure].value if measure in self.columns else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Why two models that answer alike may differ a little, and the frames of a set and per second to bound it."""

    reason: str | None = None
    fps: float | None = None
    set_frames: float | None = None

    def of(self, measure: Measure[Any]) -> float | None:
        """Return how much 1 % of frames can change a figure, 0 without a reason, or None if it cannot be bounded."""
        if self.reason is None:
            return 0.0
        if measure.unit == "per second":
            return None if self.fps is None else other_machine_tolerance("per second", fps=self.fps)
        if measure.unit != "share" or (measure.per == "sets" and self.set_frames is None):
            return None
        kinds: dict[Per, Any] = {"frames": "share of frames", "pairs": "share of pairs", "sets": "share of sets"}
        kind = kinds.get(measure.per)
        return None if kind is None else other_machine_tolerance(kind, set_frames=self.set_frames)


def differences(
    measures: Sequence[Measure[Any]], old: ModelColumns, new: ModelColumns, *, scope: Scope, tolerance: Tolerance
) -> tuple[Difference, ...]:
    """Compare two models on every measure that both have, in the order of the measures."""
    shared = [measure for measure in measures if measure.name in old.columns and measure.name in new.columns]
    repeated = [one for one in shared if _repeats(old, one.name) is not None and _repeats(new, one.name) is not None]
    raw = [repeats_difference(new.repeats[one.name], old.repeats[one.name])[1] for one in repeated]
    again = {
        one.name: _Repeats(float(old.repeats[one.name].mean()), float(new.repeats[one.name].mean()), p)
        for one, p in zip(repeated, holm(raw), strict=True)
    }
    return tuple(
        _difference(
            one,
            old.columns[one.name],
            new.columns[one.name],
            scope=scope,
            tolerance=tolerance,
            again=again.get(one.name),
        )
        for one in shared
    )


@dataclass(frozen=True, slots=True)
class _Repeats:
    """The means of the repeats of two models, and the corrected p-value of their difference."""

    old: float
    new: float
    p: float


def _repeats(model: ModelColumns, name: str) -> Floats | None:
    found = model.repeats.get(name)
    return found if found is not None and len(found) >= LEAST_REPEATS and np.isfinite(found).all() else None


def _difference(
    measure: Measure[Any], old: Measured, new: Measured, *, scope: Scope, tolerance: Tolerance, again: _Repeats | None
) -> Difference:
    gap = Gap(new, old)
    others, p_others, second, first = gap.difference(), gap.p, gap.a, gap.b
    saturated = is_saturated([first, second])
    p = None if again is None else again.p
    change = others.value if again is None else again.new - again.old
    if others.low is None or len(np.unique(first.video)) < least_videos():
        p_others = None
    recording = _recording(gap) if scope == "this-recording" else None
    allowed = tolerance.of(measure)
    verdict: Verdict | None
    if change is None or (allowed is None and scope == "these-clips" and p is None):
        verdict = None
    elif scope == "these-clips":
        is_same = p >= LEVEL if p is not None else abs(change) <= (allowed or 0.0) + ROUNDING
        verdict = "the same" if is_same else _direction(measure, change)
    else:
        found = recording if scope == "this-recording" else others if p_others is not None else None
        verdict = _by_interval(measure, found, scope)
    return Difference(
        measure=measure.name,
        unit=measure.unit,
        old=first.value if again is None else again.old,
        new=second.value if again is None else again.new,
        change=change,
        n=others.n,
        verdict=verdict,
        tolerance=allowed or 0.0,
        saturated=saturated,
        p=p,
        recording=recording,
        others=others if p_others is not None else None,
        p_others=p_others,
        reason=None
        if verdict is not None
        else "it cannot be bounded how much another machine changes it"
        if change is not None
        else others.reason,
    )


def _recording(gap: Gap) -> Estimate:
    new, old = gap.a, gap.b
    if not isinstance(old, Column) or not isinstance(new, Column):
        return nothing(gap.reason or NO_SHARED_ROW)
    change = new.total.astype(np.float64) - old.total.astype(np.float64)
    return recording_difference(change, new.size.astype(np.float64), new.video)


def worth(old: Measured, new: Measured) -> float | None:
    """Return the number of independent rows that would say as much about the difference as these rows."""
    a, b = (gap := Gap(new, old)).a, gap.b
    if not isinstance(a, Column) or not isinstance(b, Column):
        return None
    return effective_frames(a.total.astype(np.float64) - b.total.astype(np.float64), a.video)


def _direction(measure: Measure[Any], change: float) -> Verdict:
    return "worse" if (change > 0) == measure.more_is_worse else "better"


def _by_interval(measure: Measure[Any], found: Estimate | None, scope: Scope) -> Verdict:
    if found is None or found.value is None or found.low is None or found.high is None:
        is_constant = found is not None and found.value == 0 and found.reason == CONSTANT
        return "the same" if is_constant else "inconclusive"
    if found.low <= 0 <= found.high:
        return "inconclusive"
    direction = _direction(measure, found.value)
    if scope == "this-recording":
        return direction
    return "regression" if direction == "worse" else "improvement"


def lead_of(measures: Sequence[Measure[Any]], found: Sequence[Difference]) -> str | None:
    """Return the measure that gives the verdict: the first that leads, was measured and is not saturated."""
    by_name = {one.measure: one for one in found}
    order = sorted((measure for measure in measures if measure.lead), key=lambda one: -one.lead)
    usable = [one.name for one in order if one.name in by_name and by_name[one.name].change is not None]
    free = [name for name in usable if not by_name[name].saturated]
    return next(iter(free or usable), None)


def number(value: float | None, unit: Unit, *, sign: bool = False) -> str:
    """Return a figure in its unit, with a true minus sign.

    >>> number(0.371, "share"), number(-4.5, "per second", sign=True), number(None, "share")
    ('37.1 %', '−4.50/s', '—')
    """
    if value is None:
        return "—"
    if unit == "share":
        text = f"{100 * value:{'+' if sign else ''}.1f}{' points' if sign else ' %'}"
    else:
        text = f"{value:{'+' if sign else ''}.2f}{SUFFIXES[unit]}"
    return text.replace("-", "−")


def sentence(found: ClipComparison, *, meaning: str = "") -> str:
    """Return the verdict in one sentence, with both figures and the number of clips."""
    old, new, lead = printable(found.old), printable(found.new), found.leading
    where = _where(found)
    if lead is None or lead.change is None:
        return f"{new} and {old} cannot be compared {where}: no measure was taken for both."
    figures = f"{lead.measure} {number(lead.old, lead.unit)} → {number(lead.new, lead.unit)}"
    if lead.saturated:
        return (
            f"{new} cannot be told apart from {old} {where}: every measure is at its end for both models ({figures})."
        )
    if found.verdict == "the same" and lead.change:
        figures += f", within the tolerance of {number(lead.tolerance, lead.unit)}" if lead.p is None else ""
    if lead.p is not None:
        figures += f", p = {lead.p:.2g} over repeats"
    words = {
        "worse": f"{new} is worse than {old}",
        "better": f"{new} is better than {old}",
        "the same": f"{new} is the same as {old}",
        "regression": f"Regression: {new} is worse than {old}",
        "improvement": f"Improvement: {new} is better than {old}",
        "inconclusive": f"Inconclusive: whether {new} is worse than {old}",
    }
    text = words.get(found.verdict or "", f"{new} and {old} were not judged")
    return f"{text} {where}: {figures}{f' ({meaning})' if meaning else ''}."


def _where(found: ClipComparison) -> str:
    n = len(found.videos)
    if found.scope == "other-videos":
        return f"on other videos ({n} seen)"
    if found.scope == "this-recording":
        return "on more of this recording" if n == 1 else f"on more of these {n} recordings"
    return f"on {printable(found.videos[0])}" if n == 1 else f"on these {n} clips"


def about(found: ClipComparison) -> str:
    """Return what the verdict is about, and what follows for other videos, in one line."""
    lead, n, least = found.leading, len(found.videos), least_videos()
    seen = f"{found.n_frames:,} frames" + ("" if found.seconds is None else f", {found.seconds:.1f} s")
    if found.scope == "this-recording" and lead is not None:
        worth_ = "" if found.effective is None else f", worth about {max(1, round(found.effective))} independent ones"
        return f"About more of the same scenes: {seen}{worth_}; {_interval(lead, lead.recording)}."
    text = f"About these clips only ({seen}): a fact, not an estimate."
    if found.scope == "other-videos":
        text = f"About other videos, from {n} seen."
    if lead is None or lead.others is None:
        return f"{text} {n} {'video says' if n == 1 else 'videos say'} nothing about other videos; {least} are needed."
    return f"{text} For other videos: {_interval(lead, lead.others)}."


def _interval(lead: Difference, found: Estimate | None) -> str:
    if found is None or found.value is None:
        return "nothing was measured"
    if found.low is None or found.high is None:
        return f"{number(found.value, lead.unit, sign=True)}, no interval ({found.reason})"
    ends = f"[{number(found.low, lead.unit, sign=True)}, {number(found.high, lead.unit, sign=True)}]"
    chance = "" if found is not lead.others or lead.p_others is None else f", p = {lead.p_others:.2g}"
    return f"{number(found.value, lead.unit, sign=True)} {ends}{chance}"
