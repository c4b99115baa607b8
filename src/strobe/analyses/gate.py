"""Decide whether a model passes limits on its figures and on its losses against another model (ADR 23)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeGuard

from strobe.analyses.clips import ClipComparison, Difference, ModelColumns, Scope, number
from strobe.analyses.comparison import Change
from strobe.analyses.measures import SUFFIXES, Measure, Unit, measures_of
from strobe.analyses.model_results import CLASSIFICATION, DETECTION, flicker_measures
from strobe.analyses.plan import ScoreOptions
from strobe.core.codec import LEFT_OUT, Count
from strobe.core.errors import InvalidValue, UnknownName, expect, printable, spelled
from strobe.core.estimate import Estimate
from strobe.metrics.columns import Column, Gap, Measured, filled
from strobe.metrics.intervals import nothing
from strobe.metrics.paired import METHOD, least_videos
from strobe.metrics.power import PairSpread, pair_spread
from strobe.metrics.scopes import videos_needed

Kind = Literal["max_loss", "min", "max"]
Verdict = Literal["pass", "worse", "regression", "inconclusive"]
"""`worse`: the figure is beyond the limit on these clips. `regression`: the whole interval is beyond it."""

SLACK = 1e-9
"""A loss exactly at the limit passes, regardless of rounding."""


def measures_by_name() -> dict[str, Measure[Any]]:
    """Return every measure that a rule may name; a name in several families has one direction and one unit."""
    others = (*measures_of("boxes"), *measures_of("forms"))
    return {one.name: one for one in (*flicker_measures(), *others, *DETECTION, *CLASSIFICATION)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One rule. `value` is in the unit of its measure: per cent for a share, points for a loss or a contrast.

    `measure` is a measure of results.json, or the name of a contrast in a dataset with variants (`own_contrasts`).
    """

    kind: Kind
    measure: str
    value: float

    def __post_init__(self) -> None:
        if self.kind == "max_loss" and self.is_contrast:
            hint = "<<max_loss>> takes a measure that two models can be compared on; <<max>> and <<min>> take contrasts"
            raise UnknownName("measure for <<max_loss>>", self.measure, list(measures_by_name()), hint=hint)
        if self.unit == "share":
            expect(abs(self.value) <= 100, f"{_FLAGS[self.kind]} {self.measure}", "at most 100", self.value)
        if self.kind == "min" and self.unit == "share" and not self.is_contrast and 0 < self.value < 1:
            raise InvalidValue(
                f"<<min={self.measure}={self.value:g}>> would be {self.value:g} per cent; write {self.value * 100:g} "
                f"for {self.value * 100:g} per cent"
            )

    @property
    def unit(self) -> Unit:
        """The unit of the figure."""
        return "share" if self.is_contrast else measures_by_name()[self.measure].unit

    @property
    def at(self) -> float:
        """The limit as a figure is stored: a share is between 0 and 1."""
        return self.value / 100 if self.unit == "share" else self.value

    @property
    def is_contrast(self) -> bool:
        """Whether the rule limits the difference between two variants, and not a measure of a model."""
        return self.measure not in measures_by_name()

    @property
    def is_difference(self) -> bool:
        """Whether the rule's figure is a paired difference."""
        return self.kind == "max_loss" or self.is_contrast

    @property
    def grows(self) -> bool:
        """Whether more of the measure is worse, so that a loss is a growth."""
        return not self.is_contrast and measures_by_name()[self.measure].more_is_worse

    @property
    def title(self) -> str:
        """The rule in a few words.

        >>> Limit(kind="max_loss", measure="acc_pmk", value=1.0).title
        'loss of acc_pmk at most 1 point'
        >>> Limit(kind="max", measure="changes_per_second", value=12.0).title
        'changes_per_second at most 12/s'
        """
        what = printable(self.measure)
        if self.kind == "max_loss":
            what = f"{'growth' if self.grows else 'loss'} of {self.measure}"
        suffix = SUFFIXES[self.unit]
        if self.unit == "share" and self.is_difference:
            suffix = " point" if self.value == 1 else " points"
        text = f"{self.value:g}".replace("-", "−")
        return f"{what} at {'least' if self.kind == 'min' else 'most'} {text}{suffix}"


_FLAGS = {"max_loss": "--max-loss", "min": "--min", "max": "--max"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One rule checked against its figure.

    `passed` follows from the verdict: False for a breach, and None if the rule is inconclusive.
    `against` names the baseline of a loss if there are several baselines. `extremes` are the lowest and highest
    possible figure over all sets. They are given if some sets lack predictions and the figure can be bounded. `videos`
    is about how many videos would decide an inconclusive rule about other videos.
    """

    limit: Limit
    figure: Estimate
    verdict: Verdict
    sentence: str
    against: str | None = field(default=None, metadata=LEFT_OUT)
    extremes: tuple[Estimate, Estimate] | None = field(default=None, metadata=LEFT_OUT)
    videos: Count | None = field(default=None, metadata=LEFT_OUT)
    passed: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "passed", None if self.verdict == "inconclusive" else self.verdict == "pass")

    @property
    def mark(self) -> str:
        """The outcome in a word."""
        return {True: "passed", False: "FAILED", None: "inconclusive"}[self.passed]

    @property
    def title(self) -> str:
        """The rule in a few words; a loss against one of several baselines includes the baseline's name."""
        return self.limit.title + (f" against {printable(self.against)}" if self.against else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Whether a model passes, and the result of each rule. `change` is how the sets changed since the baseline.

    `passed` is False if a rule fails, and None if none fails and one is inconclusive. If there are several baselines,
    `baseline` and `change` refer to the first baseline, and `baselines` and `changes` list all of them. `clips` are the
    comparisons with each baseline on the same clips.

    `short` maps names that are paths to display names, as in the report of the run. `kinds` lists the kinds of
    sources if not all are videos. `subset` names the file of videos used, if any. `n_sets` is the number of sets
    judged; of these, `missing_sets` lack predictions of the model or of a baseline. `unlabelled_sets` and
    `sets_without_votes` are not judged; `cautions` reports them in words.
    """

    passed: bool | None
    model: str
    baseline: str | None
    dataset: str
    n_sets: Count
    n_sources: Count
    k: Count
    scope: Scope
    checks: tuple[Check, ...]
    change: Change | None = field(default=None, metadata=LEFT_OUT)
    clips: tuple[ClipComparison, ...] | None = field(default=None, metadata=LEFT_OUT)
    short: Mapping[str, str] | None = field(default=None, metadata=LEFT_OUT)
    kinds: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    subset: str | None = field(default=None, metadata=LEFT_OUT)
    baselines: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    changes: tuple[Change, ...] | None = field(default=None, metadata=LEFT_OUT)
    missing_sets: Count | None = field(default=None, metadata=LEFT_OUT)
    unlabelled_sets: Count | None = field(default=None, metadata=LEFT_OUT)
    sets_without_votes: Count | None = field(default=None, metadata=LEFT_OUT)
    cautions: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)


def outcome(checks: Sequence[Check]) -> bool | None:
    """Return False if a rule fails, None if none fails and one is inconclusive, else True."""
    if any(one.passed is False for one in checks):
        return False
    return None if any(one.passed is None for one in checks) else True


class Extremes(NamedTuple):
    """The lowest and highest possible value of a figure over all sets, whatever the outcome of the missing sets."""

    lowest: Estimate
    highest: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A figure of a model, or its loss against one baseline, and what decides about it.

    `n_missing` sets lack predictions; `extremes` are the bounds over all sets, or None if there are none. A loss of at
    most `tolerance` shows nothing. `spread` is the sampling error of a loss, for a plan.
    """

    figure: Estimate
    n_missing: int = 0
    extremes: Extremes | None = None
    tolerance: float = 0.0
    spread: PairSpread | None = None


def figure_of(model: ModelColumns, measure: str, options: ScoreOptions) -> Quantity:
    """Return a figure of a model with its bounds. Raise KeyError if the model does not have it."""
    column = model.own.get(measure)
    figure = model.figures[measure] if column is None or measure in model.figures else options.estimate(column)
    ends = None
    if column is not None and _is_bounded(column) and not column.measured.all():
        ends = Extremes(*(options.estimate(filled(column, with_most=most)) for most in (False, True)))
    return Quantity(figure=figure, n_missing=int((~model.scored).sum()), extremes=ends)


def _is_bounded(column: Measured) -> TypeGuard[Column]:
    return isinstance(column, Column) and column.kind != "rate"


def losses_of(
    measures: Sequence[Measure[Any]],
    new: ModelColumns,
    old: ModelColumns,
    *,
    scope: Scope = "these-clips",
    clips: ClipComparison | None = None,
) -> dict[str, Quantity]:
    """Compare a model with a baseline in each measure that both have a column for.

    There is no correction for multiple tests, because a rule is about one pair. On the same clips, the losses and
    tolerances are those of the comparison `clips`.
    """
    on_clips = {} if clips is None else {difference.measure: difference for difference in clips.differences}
    n_missing = int((~(new.scored & old.scored)).sum())
    losses = {}
    for measure in measures:
        if measure.name not in new.columns or measure.name not in old.columns:
            continue
        a, b, sign = new.columns[measure.name], old.columns[measure.name], 1.0 if measure.more_is_worse else -1.0
        gap, found = Gap(a, b), on_clips.get(measure.name)
        spread, ends = None, None
        if found is None and gap.n and gap.rows is not None:
            spread = pair_spread(gap.rows, gap.a.video)
        if n_missing and _is_bounded(a) and _is_bounded(b):
            most = [(up, not up) for up in (not measure.more_is_worse, measure.more_is_worse)]
            gaps = [Gap(filled(a, with_most=up), filled(b, with_most=down)) for up, down in most]
            ends = Extremes(*(_times(end.difference(), sign) for end in gaps))
        losses[measure.name] = Quantity(
            figure=_times(gap.difference() if found is None else _on_clips(found, scope), sign),
            n_missing=n_missing,
            extremes=ends,
            tolerance=0.0 if found is None else found.tolerance,
            spread=spread,
        )
    return losses


def _on_clips(found: Difference, scope: Scope) -> Estimate:
    """Return the difference on the same clips, with the interval of the scope if it has one."""
    if found.change is None:
        return nothing(found.reason or "nothing was measured for both models")
    known = found.recording if scope == "this-recording" else found.others
    if known is not None and known.value is not None:
        return known
    reason = f"an interval over videos needs {least_videos()} videos"
    return Estimate(value=found.change, low=None, high=None, n=found.n, reason=reason)


def _times(found: Estimate, sign: float) -> Estimate:
    if found.value is None:
        return nothing(found.reason or "no set was scored for both models")
    ends = sorted(sign * end for end in (found.low, found.high) if end is not None)
    low, high = (ends[0], ends[1]) if ends else (None, None)
    return replace(found, value=sign * found.value + 0.0, low=low, high=high, count=None)  # + 0.0 turns −0.0 into 0.0


def judge(
    limits: Sequence[Limit],
    model: ModelColumns,
    losses: Mapping[str, Mapping[str, Quantity]],
    *,
    options: ScoreOptions,
    scope: Scope = "these-clips",
    n_videos: int = 1,
) -> tuple[Check, ...]:
    """Check every rule, each loss against every baseline; `losses` are by baseline and measure.

    A rule passes only if it passes in both cases: with all missing sets counted in favour of the model, and with all
    counted against the model.
    """
    checks = []
    for limit in limits:
        known = [*dict.fromkeys(name for of_one in losses.values() for name in of_one)]
        found = {name: of_one[limit.measure] for name, of_one in losses.items() if limit.measure in of_one}
        if limit.kind == "max_loss" and (not found or len(found) < len(losses)):
            hint = f"<<max_loss>> takes {', '.join(known)}"
            raise UnknownName("measure for <<max_loss>>", limit.measure, known, hint=hint)
        if limit.kind != "max_loss":
            known = [*dict.fromkeys((*model.figures, *model.own))]
            if limit.measure not in known:
                hint = f"{printable(model.name)} has {', '.join(known)}"
                names = [*known, *measures_by_name()]
                raise UnknownName(f"measure for {_FLAGS[limit.kind]}", limit.measure, names, hint=hint)
            found = {"": figure_of(model, limit.measure, options)}
        for name, quantity in found.items():
            checked = check(limit, quantity.figure, scope=scope, tolerance=quantity.tolerance, n_videos=n_videos)
            checked = _whatever_is_missing(checked, quantity, scope, n_videos)
            checks.append(replace(checked, against=name) if len(found) > 1 else checked)
    return tuple(checks)


def check(
    limit: Limit, figure: Estimate, *, scope: Scope = "these-clips", tolerance: float = 0.0, n_videos: int = 1
) -> Check:
    """Check one rule against its figure. On these clips the figure decides, for other videos its interval.

    >>> found = Estimate(value=0.45, low=0.3, high=0.6, n=40)
    >>> limit = Limit(kind="max", measure="flip_rate", value=40)
    >>> check(limit, found).verdict, check(limit, found, scope="other-videos").verdict
    ('worse', 'inconclusive')
    """
    if figure.value is None:
        return Check(
            limit=limit, figure=figure, verdict="inconclusive", sentence=f"nothing was measured: {figure.reason}"
        )
    sign = -1.0 if limit.kind == "min" else 1.0  # sign flipped so that more is always worse
    worst = sign * limit.at + SLACK
    within = sign * figure.value <= worst
    caution = f" ({figure.reason})" if figure.reason and figure.low is not None else ""
    if scope == "these-clips":
        text = f"the figure is {'within' if within else 'beyond'} the limit"
        if not within and sign * figure.value <= worst + tolerance:
            within = True
            text += f", by less than another machine may change ({number(tolerance, limit.unit)})"
        return Check(limit=limit, figure=figure, verdict="pass" if within else "worse", sentence=text + caution)
    ends = sorted(sign * end for end in (figure.low, figure.high) if end is not None)
    # For a paired difference, a reason next to an interval means that there are too few videos to decide. For a figure,
    # it is a caution.
    if not ends or (limit.is_difference and figure.reason is not None):
        why = figure.reason or "the figure has no interval"
        if limit.is_difference and figure.method.startswith(METHOD):
            what = printable(limit.measure) if limit.is_contrast else spelled("<<max_loss>>")
            why += f"; {what} needs at least {least_videos()} videos"
        return Check(limit=limit, figure=figure, verdict="inconclusive", sentence=why)
    if ends[1] <= worst:
        return Check(limit=limit, figure=figure, verdict="pass", sentence=f"the interval is within the limit{caution}")
    if ends[0] > worst:
        sentence = f"the interval is beyond the limit{caution}"
        return Check(limit=limit, figure=figure, verdict="regression", sentence=sentence)
    videos = videos_needed(figure, limit.at, n_videos) if scope == "other-videos" else None
    more = "" if videos is None else f"; about {videos:,} videos like these would decide"
    sentence = f"the limit is inside the interval{more}{caution}"
    return Check(limit=limit, figure=figure, verdict="inconclusive", sentence=sentence, videos=videos)


def _whatever_is_missing(checked: Check, found: Quantity, scope: Scope, n_videos: int) -> Check:
    """Return the check over all sets. It is inconclusive if the outcome depends on the missing sets.

    A pass assumes that all missing sets count against the model, and a failure assumes that all count in its favour.
    """
    if not found.n_missing:
        return checked
    lack = f"{found.n_missing} sets lack predictions" if found.n_missing > 1 else "1 set lacks predictions"
    ends = found.extremes
    if ends is None or found.figure.value is None:
        why = f"{lack}, and their effect cannot be bounded; predict them"
        return replace(checked, verdict="inconclusive", sentence=why, videos=None)
    low, high = (number(end.value, checked.limit.unit) for end in ends)
    between = f"{lack}: the figure over all sets is between {low} and {high}"
    best, worst = (check(checked.limit, end, scope=scope, n_videos=n_videos) for end in ends)
    if checked.limit.kind == "min":
        best, worst = worst, best
    checked = replace(checked, extremes=(ends.lowest, ends.highest))
    if best.passed != worst.passed:
        return replace(checked, verdict="inconclusive", sentence=f"{between}; predict them", videos=None)
    shown = worst if worst.passed else best
    return replace(checked, verdict=shown.verdict, sentence=f"{between}; {shown.sentence}", videos=shown.videos)
