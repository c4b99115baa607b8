"""Which of two models is worse on the same clips, and where. A verdict names what it is about (ADR 23)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeGuard

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
    repeats = {one.name: (new.repeats.get(one.name), old.repeats.get(one.name)) for one in shared}
    repeated = {name: (a, b) for name, (a, b) in repeats.items() if _is_repeated(a) and _is_repeated(b)}
    tests = {name: repeats_difference(a, b)[1] for name, (a, b) in repeated.items()}
    p = dict(zip(tests, holm([*tests.values()]), strict=True))
    return tuple(
        _difference(one, old, new, scope=scope, tolerance=tolerance.of(one), p=p.get(one.name)) for one in shared
    )


def _is_repeated(repeats: Floats | None) -> TypeGuard[Floats]:
    return repeats is not None and len(repeats) >= LEAST_REPEATS and bool(np.isfinite(repeats).all())


def _difference(
    measure: Measure[Any],
    old: ModelColumns,
    new: ModelColumns,
    *,
    scope: Scope,
    tolerance: float | None,
    p: float | None,
) -> Difference:
    gap = Gap(new.columns[measure.name], old.columns[measure.name])
    others, p_others, reason = gap.difference(), gap.p, None
    before, now, change = gap.b.value, gap.a.value, others.value
    if p is not None:
        before, now = (float(model.repeats[measure.name].mean()) for model in (old, new))
        change = now - before
    if others.low is None or len(np.unique(gap.b.video)) < least_videos():
        p_others = None
    recording = _recording(gap) if scope == "this-recording" else None
    verdict: Verdict | None
    if change is None:
        verdict, reason = None, others.reason
    elif scope == "these-clips" and tolerance is None and p is None:
        verdict, reason = None, "it cannot be bounded how much another machine changes it"
    elif scope == "these-clips":
        is_same = p >= LEVEL if p is not None else abs(change) <= (tolerance or 0.0) + ROUNDING
        verdict = "the same" if is_same else _direction(measure, change)
    else:
        found = recording if scope == "this-recording" else others if p_others is not None else None
        verdict = _by_interval(measure, found, scope)
    return Difference(
        measure=measure.name,
        unit=measure.unit,
        old=before,
        new=now,
        change=change,
        n=others.n,
        verdict=verdict,
        tolerance=tolerance or 0.0,
        saturated=is_saturated([gap.b, gap.a]),
        p=p,
        recording=recording,
        others=others if p_others is not None else None,
        p_others=p_others,
        reason=reason,
    )


def _recording(gap: Gap) -> Estimate:
    rows = _changes(gap)
    return nothing(gap.reason or NO_SHARED_ROW) if rows is None else recording_difference(*rows, gap.a.video)


def worth(old: Measured, new: Measured) -> float | None:
    """Return the number of independent rows that would say as much about the difference as these rows."""
    gap = Gap(new, old)
    rows = _changes(gap)
    return None if rows is None else effective_frames(rows[0], gap.a.video)


def _changes(gap: Gap) -> tuple[Floats, Floats] | None:
    """Return the difference of each row and its size, (N,); None if the measure has no rows."""
    if not (isinstance(gap.a, Column) and isinstance(gap.b, Column)):
        return None
    return gap.a.total.astype(np.float64) - gap.b.total.astype(np.float64), gap.a.size.astype(np.float64)


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
    saturated = {one.measure: one.saturated for one in found if one.change is not None}
    order = [measure.name for measure in sorted(measures, key=lambda one: -one.lead) if measure.lead]
    return next(iter(sorted((name for name in order if name in saturated), key=saturated.__getitem__)), None)


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
