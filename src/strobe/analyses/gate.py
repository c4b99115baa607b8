"""Decide, from intervals, whether a model passes limits on its figures and on its losses against another model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from strobe.analyses.comparison import Change, Comparison, change
from strobe.analyses.measures import Measure
from strobe.analyses.missing import MissingSets
from strobe.analyses.model_results import CLASSIFICATION, DETECTION, flicker_measures
from strobe.core.codec import LEFT_OUT, Count, Share
from strobe.core.errors import InvalidValue, UnknownName, expect, printable, spelled
from strobe.core.estimate import Estimate
from strobe.metrics.intervals import nothing
from strobe.metrics.paired import METHOD, least_videos
from strobe.metrics.power import LossSpread, PlainSpread, ShareSpread, Z, detectable, fails
from strobe.studies.variants.records import Contrast

Kind = Literal["max_loss", "min", "max"]
Verdict = Literal["clearly worse", "not shown", "holds", "cannot tell"]
"""The verdicts: all, some or none of the interval is beyond the limit, or there is no usable interval."""
FailOn = Literal["shown", "figure", "doubt"]
"""What fails: only a significant breach; a figure beyond the limit; any breach that is not ruled out."""
Unsure = Literal["fail", "pass"]
"""The treatment of `cannot tell`: it fails by default, because otherwise too little data would always pass."""

DEFAULT: FailOn = "figure"
"""The default, which makes the fewest wrong decisions (`docs/adr/0023-what-a-gate-fails-on.md`)."""
ENDS: dict[FailOn, int] = {"shown": 1, "figure": 0, "doubt": -1}
"""What must be beyond the limit to fail: the whole interval, the figure, or any part of the interval."""

_LOSSES = ("acc_orig", "acc_pmk", "drop", "map_orig", "map_pmk", "flicker")
"""The measures that can have a loss; a contrast cannot, because neither direction is worse (`docs/ci.md`)."""

_ALL: tuple[Measure[Any], ...] = (*CLASSIFICATION, *DETECTION, *flicker_measures())
_GROWING = {one.name for one in _ALL if one.more_is_worse}
"""The measures of which more is worse, so that a loss is a growth."""

_MEASURES = {one.name for one in _ALL}

_SLACK = 1e-9
"""A loss exactly at the limit passes, regardless of rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One rule. `value` is in per cent, or in points for a loss or a contrast, as users write it.

    `measure` is a measure of results.json, or the name of a contrast in a dataset with variants (`own_contrasts`).
    """

    kind: Kind
    measure: str
    value: float

    def __post_init__(self) -> None:
        if self.kind == "max_loss" and self.measure not in _LOSSES:
            hint = (
                f"<<max_loss>> takes {', '.join(_LOSSES)}; <<max>> and <<min>> take every other measure, and contrasts"
            )
            raise UnknownName("measure for <<max_loss>>", self.measure, _LOSSES, hint=hint)
        expect(abs(self.value) <= 100, f"{_FLAGS[self.kind]} {self.measure}", "at most 100", self.value)
        if self.kind == "min" and not self.is_contrast and 0 < self.value < 1:
            raise InvalidValue(
                f"<<min={self.measure}={self.value:g}>> would be {self.value:g} per cent; write {self.value * 100:g} "
                f"for {self.value * 100:g} per cent"
            )

    @property
    def is_contrast(self) -> bool:
        """Whether the rule limits the difference between two variants, and not a measure of a model."""
        return self.measure not in _MEASURES

    @property
    def is_difference(self) -> bool:
        """Whether the rule's figure is a paired difference, in points."""
        return self.kind == "max_loss" or self.is_contrast

    @property
    def title(self) -> str:
        """The rule in a few words.

        >>> Limit(kind="max_loss", measure="acc_pmk", value=1.0).title
        'loss of acc_pmk at most 1 point'
        >>> Limit(kind="max", measure="bg-gap", value=10.0).title
        'bg-gap at most 10 points'
        """
        what = printable(self.measure)
        if self.kind == "max_loss":
            what = f"{'growth' if self.measure in _GROWING else 'loss'} of {self.measure}"
        unit = "%" if not self.is_difference else "point" if self.value == 1 else "points"
        number = f"{self.value:g}".replace("-", "−")
        return f"{what} at {'least' if self.kind == 'min' else 'most'} {number} {unit}"


_FLAGS = {"max_loss": "--max-loss", "min": "--min", "max": "--max"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One rule checked against its figure. The interval decides the verdict, and `passed` follows from the verdict.

    `against` names the baseline of a loss if there are several baselines. `detectable` is the true figure at which the
    rule fails with 80 % power on such data. `false_alarms` is how often the rule fails if the two models are equally
    good. `extremes` are the lowest and highest possible figure over all sets. They are given if some sets lack
    predictions and the figure can be bounded.
    """

    limit: Limit
    figure: Estimate
    verdict: Verdict
    passed: bool
    sentence: str
    against: str | None = field(default=None, metadata=LEFT_OUT)
    detectable: float | None = field(default=None, metadata=LEFT_OUT)
    false_alarms: Share | None = field(default=None, metadata=LEFT_OUT)
    extremes: tuple[Estimate, Estimate] | None = field(default=None, metadata=LEFT_OUT)

    @property
    def title(self) -> str:
        """The rule in a few words; a loss against one of several baselines includes the baseline's name."""
        return self.limit.title + (f" against {printable(self.against)}" if self.against else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Whether a model passes, and the result of each rule. `change` is how the sets changed since the baseline.

    If there are several baselines, `baseline` and `change` refer to the first baseline, and `baselines` and `changes`
    list all of them.

    `short` maps names that are paths to display names, as in the report of the run. `kinds` lists the kinds of
    sources if not all are videos. `subset` names the file of videos used, if any. `n_sets` is the number of sets
    judged; of these, `missing_sets` lack predictions of the model or of a baseline. `unlabelled_sets` and
    `sets_without_votes` are not judged; `cautions` reports them in words.
    """

    passed: bool
    model: str
    baseline: str | None
    dataset: str
    n_sets: Count
    n_sources: Count
    k: Count
    fail_on: FailOn
    unsure: Unsure
    checks: tuple[Check, ...]
    change: Change | None = field(default=None, metadata=LEFT_OUT)
    short: Mapping[str, str] | None = field(default=None, metadata=LEFT_OUT)
    kinds: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    subset: str | None = field(default=None, metadata=LEFT_OUT)
    baselines: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    changes: tuple[Change, ...] | None = field(default=None, metadata=LEFT_OUT)
    missing_sets: Count | None = field(default=None, metadata=LEFT_OUT)
    unlabelled_sets: Count | None = field(default=None, metadata=LEFT_OUT)
    sets_without_votes: Count | None = field(default=None, metadata=LEFT_OUT)
    cautions: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)


def loss_of(measure: str, comparisons: Sequence[Comparison], *, new: str) -> Estimate:
    """Return the loss of the new model in a measure, with its interval; for drop and flicker, it is an increase."""
    known = {"drop" if one.metric == "map_drop" else one.metric: one for one in comparisons}
    if measure not in known:
        hint = f"<<max_loss>> takes {', '.join(known)}"
        raise UnknownName("measure for <<max_loss>>", measure, known, hint=hint)
    one = known[measure]
    gap, sign = one.difference, 1.0 if (one.a == new) == (measure in _GROWING) else -1.0
    if gap.value is None:
        return nothing(gap.reason or "no set was scored for both models")
    ends = sorted(sign * end for end in (gap.low, gap.high) if end is not None)
    low, high = (ends[0], ends[1]) if ends else (None, None)
    # + 0.0 turns −0.0 into 0.0
    return Estimate(value=sign * gap.value + 0.0, low=low, high=high, n=gap.n, method=gap.method, reason=gap.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opponent:
    """A baseline: its name, the comparisons with it, and the sampling error of the losses, by measure.

    `missing` are the sets that lack predictions of the baseline or of the model.
    """

    name: str
    comparisons: Sequence[Comparison]
    spreads: Mapping[str, LossSpread] = field(default_factory=dict)
    missing: MissingSets = field(default_factory=MissingSets)


def judge(
    limits: Sequence[Limit],
    figures: Mapping[str, Estimate],
    opponents: Sequence[Opponent],
    *,
    model: str,
    contrasts: Mapping[str, Contrast] | None = None,
    missing: MissingSets | None = None,
    missing_varied: int = 0,
    fail_on: FailOn = DEFAULT,
    unsure: Unsure = "fail",
) -> tuple[tuple[Check, ...], tuple[Change, ...]]:
    """Check every rule, compute each loss against each opponent, and report how the sets changed since each opponent.

    `figures` are the model's figures by measure, and `contrasts` its own contrasts by the names that rules use.
    `missing` are the sets that lack predictions of the model. A rule passes only if it passes in both cases: with all
    missing sets counted in favour of the model, and with all counted against the model. `missing_varied` are the
    missing sets that contrasts use.
    """
    contrasts, missing = contrasts or {}, missing or MissingSets()
    figures = {**figures} | {name: one.value for name, one in contrasts.items()}
    checks = []
    for limit in limits:
        if limit.kind == "max_loss":
            for one in opponents:
                loss, spread = loss_of(limit.measure, one.comparisons, new=model), one.spreads.get(limit.measure)
                checked = check(limit, loss, fail_on=fail_on, unsure=unsure, spread=spread)
                checked = _whatever_is_missing(checked, one.missing, fail_on, unsure)
                checks.append(checked if len(opponents) == 1 else replace(checked, against=one.name))
            continue
        if limit.measure not in figures:
            hint = f"{printable(model)} has {', '.join(figures)}"
            raise UnknownName(f"measure for {_FLAGS[limit.kind]}", limit.measure, figures, hint=hint)
        checked = check(limit, figures[limit.measure], fail_on=fail_on, unsure=unsure)
        lacking = MissingSets(n=missing_varied) if limit.measure in contrasts else missing
        checked = _whatever_is_missing(checked, lacking, fail_on, unsure)
        if limit.measure in contrasts and contrasts[limit.measure].estimated:
            checked = replace(checked, sentence=f"{checked.sentence}; it depends on estimated boxes or masks")
        checks.append(checked)
    changes = []
    for one in opponents:
        changes += [then for pair in one.comparisons if (then := change(pair, before=_other(pair, model)))][:1]
    return tuple(checks), tuple(changes)


def _other(comparison: Comparison, model: str) -> str:
    return comparison.b if comparison.a == model else comparison.a


def check(
    limit: Limit,
    figure: Estimate,
    *,
    fail_on: FailOn = DEFAULT,
    unsure: Unsure = "fail",
    spread: LossSpread | None = None,
) -> Check:
    """Check one rule against its figure.

    `spread` is the sampling error of the figure; by default it follows from the interval.
    """
    at = limit.value / 100
    sign = -1.0 if limit.kind == "min" else 1.0  # sign flipped so that more is always worse
    ends = sorted(sign * end for end in (figure.low, figure.high) if end is not None)
    worst = sign * at + _SLACK
    within = figure.value is not None and sign * figure.value <= worst
    # For a paired difference, a reason next to an interval means that there are too few videos to decide. For a figure,
    # it is a caution.
    blind = not ends or (limit.is_difference and figure.reason is not None)
    verdict: Verdict = "cannot tell" if blind else "holds" if ends[1] <= worst else "not shown"
    if ends and ends[0] > worst:
        verdict = "clearly worse"
    passed = {
        "clearly worse": False,
        "not shown": {"shown": True, "figure": within, "doubt": False}[fail_on],
        "holds": True,
        "cannot tell": unsure == "pass",
    }[verdict]
    sentence = _sentence(limit, figure, verdict, within=within)
    caught, alarms = None, None
    if verdict != "cannot tell":
        caught, alarms = _power(limit, figure, spread, ENDS[fail_on])
        sentence += f"; {_power_words(limit, caught, alarms)}"
    elif figure.value is not None:
        sentence += "; detectable: nothing"
    if verdict == "cannot tell" and not passed:
        sentence += spelled("; <<unsure=pass>> accepts it")
    return Check(
        limit=limit,
        figure=figure,
        verdict=verdict,
        passed=passed,
        sentence=sentence,
        detectable=caught,
        false_alarms=alarms,
    )


def spread_of(figure: Estimate) -> LossSpread:
    """Return the sampling error of a figure, from its 95 % interval."""
    low, high = (0.0 if end is None else end for end in (figure.low, figure.high))
    half, middle = (high - low) / 2, (high + low) / 2
    if figure.count is not None and half > 0:  # a share; its interval is never centred on 0 or 1
        return ShareSpread(size=min(figure.n, Z * Z * middle * (1 - middle) / half**2))
    return PlainSpread(error=half / Z)


def _power(limit: Limit, figure: Estimate, spread: LossSpread | None, ends: int) -> tuple[float | None, float | None]:
    """Return the true figure at which the rule fails with 80 % power, and how often it fails equally good models."""
    at, sign, z = limit.value / 100, -1.0 if limit.kind == "min" else 1.0, Z
    if spread is None:
        spread = spread_of(figure)
    elif figure.value is not None and figure.low is not None and figure.high is not None:
        half = figure.value - figure.low if ends > 0 else figure.high - figure.value
        z = max(Z, half / max(spread.at(figure.value), 1e-9))
    lowest = 0.0 if limit.kind == "max_loss" and at >= 0 else -1.0 if limit.is_difference else 0.0
    caught = detectable(spread, limit=at, ends=ends, sign=sign, within=(lowest, 1.0), z=z)
    is_loss = limit.kind == "max_loss" and at >= 0
    return caught, fails(spread, 0.0, limit=at, ends=ends, z=z) if is_loss else None


def _power_words(limit: Limit, caught: float | None, alarms: float | None) -> str:
    """Return a sentence on the smallest breach that the data could have detected.

    >>> _power_words(Limit(kind="max_loss", measure="acc_pmk", value=1.0), 0.0371, 0.231)
    'detectable: a loss of 3.7 points (80 % power), equal models fail in about 23 % of cases'
    >>> _power_words(Limit(kind="min", measure="acc_pmk", value=50.0), 0.441, None)
    'detectable: 44.1 % or less (80 % power)'
    """
    if caught is None:
        return "detectable: nothing (80 % power)"
    number = f"{100 * caught:.1f}".replace("-", "−")
    if limit.kind != "max_loss":
        unit = "points" if limit.is_difference else "%"
        return f"detectable: {number} {unit} or {'less' if limit.kind == 'min' else 'more'} (80 % power)"
    what = "growth" if limit.measure in _GROWING else "loss"
    found = f"detectable: a {what} of {number} points (80 % power)" if caught > 0 else f"detectable: any {what}"
    return found if alarms is None else f"{found}, equal models fail in {_about(alarms)} of cases"


def _about(share: float) -> str:
    """Return an estimated share in words.

    >>> _about(0.231), _about(0.0), _about(0.999)
    ('about 23 %', 'less than 1 %', 'more than 99 %')
    """
    if 0.005 <= share <= 0.995:
        return f"about {100 * share:.0f} %"
    return "less than 1 %" if share < 0.5 else "more than 99 %"


def _whatever_is_missing(checked: Check, missing: MissingSets, fail_on: FailOn, unsure: Unsure) -> Check:
    """Return the check over all sets. Its verdict is `cannot tell` if the outcome depends on the missing sets.

    A pass assumes that all missing sets count against the model, and a failure assumes that all count in its favour.
    """
    if not missing.n:
        return checked
    lack = f"{missing.n} sets lack predictions" if missing.n > 1 else "1 set lacks predictions"
    ends = missing.extremes.get(checked.limit.measure)
    if ends is None or checked.figure.value is None:
        return _undecided(checked, f"{lack}, and their effect cannot be bounded", unsure)
    low, high = (f"{100 * (one.value or 0):.1f}".replace("-", "−") for one in ends)
    between = f"{lack}: the figure over all sets is between {low} and {high}"
    checked = replace(checked, extremes=(ends.lowest, ends.highest))
    best, worst = (check(checked.limit, one, fail_on=fail_on, unsure=unsure) for one in ends)
    if checked.limit.kind == "min":
        best, worst = worst, best
    if best.passed != worst.passed:
        return _undecided(checked, between, unsure)
    shown = worst if worst.passed else best
    return replace(
        checked,
        verdict=shown.verdict,
        passed=shown.passed,
        sentence=f"{between}; {shown.sentence}",
        detectable=shown.detectable,
        false_alarms=shown.false_alarms,
    )


def _undecided(checked: Check, why: str, unsure: Unsure) -> Check:
    way_out = "" if unsure == "pass" else spelled("; predict them, or accept the result with <<unsure=pass>>")
    return replace(
        checked,
        verdict="cannot tell",
        passed=unsure == "pass",
        sentence=f"{why}{way_out}",
        detectable=None,
        false_alarms=None,
    )


def _sentence(limit: Limit, figure: Estimate, verdict: Verdict, *, within: bool) -> str:
    """Return the finding and its certainty in words."""
    breach = {"max_loss": "a larger loss", "min": "less", "max": "more"}[limit.kind]
    if limit.kind == "max_loss" and limit.measure in _GROWING:
        breach = "a larger growth"
    if figure.value is None:
        return f"nothing was measured: {figure.reason or 'no figure'}"
    where = "within" if within else "beyond"
    if verdict == "cannot tell":
        why = figure.reason or "the figure has no interval"
        # A detector gives its own reason.
        if limit.is_difference and figure.method.startswith(METHOD):
            what = printable(limit.measure) if limit.is_contrast else spelled("<<max_loss>>")
            why += f"; {what} needs at least {least_videos()} videos"
        return f"{why}; the figure is {where} the limit"
    caution = f" ({figure.reason})" if figure.reason else ""
    if verdict == "clearly worse":
        return f"{breach} is shown{caution}"
    if verdict == "holds":
        return f"{breach} is ruled out{caution}"
    return f"the figure is {where} the limit; {breach} is neither shown nor ruled out{caution}"
