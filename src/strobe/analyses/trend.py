"""Perturbed accuracy against original accuracy over many models: the line, and who is off it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.classification import ClassificationScore
from strobe.analyses.published import PublishedTable, tables
from strobe.core.dataset import Dataset
from strobe.core.errors import expect, printable
from strobe.core.estimate import Estimate
from strobe.metrics.bootstrap import REPLICATES, Bootstrap
from strobe.metrics.fits import Line, expit, fit_line, leave_one_out, logit_of_counts
from strobe.metrics.intervals import nothing

__all__ = ["LEAST_X", "ModelTrend", "Robustness", "Trend", "TypeDrop", "fit"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEAST_X = 5
"""A line needs at least this many distinct original accuracies."""

METHOD = "joint resampling of videos, refitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Robustness:
    """Effective robustness on one axis: acc_pm-k − line(acc_orig), the model itself left out of the line.

    `extrapolated` where its acc_orig lies outside the line's models: then there is no verdict.
    """

    estimate: Estimate
    extrapolated: bool

    @property
    def verdict(self) -> str | None:
        """`above`, `below` or `on` the line; None where there is no interval or the line is extrapolated."""
        low, high = self.estimate.low, self.estimate.high
        if self.extrapolated or low is None or high is None:
            return None
        return "above" if low > 0 else "below" if high < 0 else "on"

    def to_json(self) -> dict[str, Any]:
        """The object of results.json."""
        return self.estimate.to_json() | {"extrapolated": self.extrapolated, "verdict": self.verdict}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTrend:
    """One model's place: its accuracies and its effective robustness on both axes."""

    model: str
    model_type: str | None
    standard: bool
    in_fit: bool
    acc_orig: Estimate
    acc_pmk: Estimate
    drop: Estimate
    linear: Robustness
    logit: Robustness
    sentence: str

    def to_json(self) -> dict[str, Any]:
        """The object of results.json."""
        return {
            "model": self.model,
            "model_type": self.model_type,
            "standard": self.standard,
            "in_fit": self.in_fit,
            "acc_orig": self.acc_orig.to_json(),
            "acc_pmk": self.acc_pmk.to_json(),
            "drop": self.drop.to_json(),
            "effective_robustness": {"linear": self.linear.to_json(), "logit": self.logit.to_json()},
            "sentence": self.sentence,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeDrop:
    """The median drop over the models of one type; n counts models."""

    model_type: str
    median_drop: Estimate

    def to_json(self) -> dict[str, Any]:
        """The object of results.json."""
        return {"model_type": self.model_type, "median_drop": self.median_drop.to_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The lines over the standard models, every model's place, and the papers' tables beside them.

    `linear` is in points (0–100) on both axes; `logit` in log odds. Both are None with a `reason` where fewer than
    five distinct original accuracies are at hand.
    """

    linear: Line | None
    logit: Line | None
    reason: str | None
    models: tuple[ModelTrend, ...]
    types: tuple[TypeDrop, ...]
    published: tuple[PublishedTable, ...]

    def to_json(self) -> dict[str, Any]:
        """The object of results.json."""
        out: dict[str, Any] = {"linear": _line_json(self.linear, "points"), "logit": _line_json(self.logit, "log odds")}
        if self.reason is not None:
            out["reason"] = self.reason
        return out | {
            "models": [model.to_json() for model in self.models],
            "median_drop": [part.to_json() for part in self.types],
            "published": [table.to_json() for table in self.published],
        }


def _line_json(line: Line | None, unit: str) -> dict[str, Any] | None:
    if line is None:
        return None
    names = ("slope", "intercept", "r", "n", "x_min", "x_max")
    return {name: getattr(line, name) for name in names} | {"unit": unit}


def fit(
    dataset: Dataset, scores: Sequence[ClassificationScore], *, seed: int = 0, replicates: int = REPLICATES
) -> Trend:
    """The trend over models scored on this dataset.

    The line is fitted over models tagged `standard`; of models that predict the same classes everywhere (or bear one
    name) the first counts. Each model's effective robustness comes from the line without it, on plain and on logit
    axes: the axis can flip the sign. Intervals resample the videos jointly for all models and refit.
    """
    expect(len(scores) > 0, "trend", "at least one model", 0)
    expect(len({score.k for score in scores}) == 1, "trend", "one k for all models", {s.k for s in scores})
    for score in scores:
        expect(len(score.first_wrong) == dataset.n_sets, "trend", f"scores of {dataset.n_sets} sets", score.model)
    count = np.array([[s.right_at(0).sum(), s.right_at(s.k).sum(), s.scored.sum()] for s in scores], dtype=np.float64)
    same = _same(scores)
    used = np.array([s.standard and not same[m, :m].any() for m, s in enumerate(scores)])
    bootstrap = Bootstrap(dataset.video_of_set, replicates=replicates, seed=seed)
    columns = np.stack([values for s in scores for values in (s.right_at(0), s.right_at(s.k), s.scored)], axis=1)
    drawn = bootstrap.sums(columns).reshape(replicates, len(scores), 3)
    share, shares = count[:, :2] / count[:, 2:], _divide(drawn[:, :, :2], drawn[:, :, 2:])
    x = count[:, 0] / count[:, 2]
    distinct = len(np.unique(x[used]))
    reason = None
    if distinct < LEAST_X:
        reason = (
            f"a line needs at least {LEAST_X} standard models with distinct original accuracies, here {distinct}; "
            "tag models as standard to fit one"
        )
    linear, logit = _robustness(count, drawn, used, same, bootstrap)
    axes = [logit_of_counts(count[:, i], count[:, 2]) for i in (0, 1)]
    models = tuple(
        ModelTrend(
            model=score.model,
            model_type=score.model_type,
            standard=score.standard,
            in_fit=bool(used[m]),
            acc_orig=score.acc_orig,
            acc_pmk=score.acc_pmk,
            drop=score.drop,
            linear=linear[m],
            logit=logit[m],
            sentence=_sentence(score.model, linear[m], logit[m]),
        )
        for m, score in enumerate(scores)
    )
    return Trend(
        linear=None if reason else fit_line(100 * share[used, 0], 100 * share[used, 1]),
        logit=None if reason else fit_line(axes[0][used], axes[1][used]),
        reason=reason,
        models=models,
        types=_types(scores, share[:, 0] - share[:, 1], shares[:, :, 0] - shares[:, :, 1], bootstrap),
        published=tables(),
    )


def _same(scores: Sequence[ClassificationScore]) -> Bools:
    """Which models are one and the same, (M, M), each with itself."""
    mark = np.array([score.fingerprint for score in scores])
    name = np.array([score.model for score in scores])
    return np.asarray((mark[:, None] == mark[None, :]) | (name[:, None] == name[None, :]))


def _divide(top: Floats, bottom: Floats) -> Floats:
    return np.asarray(np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0))


def _robustness(
    count: Floats, drawn: Floats, used: Bools, same: Bools, bootstrap: Bootstrap
) -> tuple[list[Robustness], list[Robustness]]:
    """Effective robustness of every model on both axes, in shares."""
    plain = _Axis(count[:, :2] / count[:, 2:], _divide(drawn[:, :, :2], drawn[:, :, 2:]), straight=True)
    sizes = drawn[:, :, 2:]
    log_odds = np.where(sizes > 0, logit_of_counts(drawn[:, :, :2], sizes), np.nan)
    logit = _Axis(logit_of_counts(count[:, :2], count[:, 2:]), log_odds, straight=False)
    n = count[:, 2].astype(np.int64)
    perturbed, draws = plain.points[:, 1], plain.draws[:, :, 1]
    return (
        _off_the_line(plain, perturbed, draws, used, same, n, bootstrap),
        _off_the_line(logit, perturbed, draws, used, same, n, bootstrap),
    )


@dataclass(frozen=True, slots=True)
class _Axis:
    """(acc_orig, acc_pm-k) of every model on one axis, (M, 2), and in every draw, (B, M, 2)."""

    points: Floats
    draws: Floats
    straight: bool

    def line_shares(self, points: Floats, used: Bools, same: Bools) -> Floats:
        """The line without each model, at that model, as a share."""
        fitted = leave_one_out(points[..., 0], points[..., 1], used=used, out=same)
        return fitted if self.straight else expit(fitted)


def _off_the_line(
    axis: _Axis, perturbed: Floats, draws: Floats, used: Bools, same: Bools, n: NDArray[np.int64], bootstrap: Bootstrap
) -> list[Robustness]:
    x = axis.points[:, 0]
    if not used.any():
        return [_no_line(0) for _ in x]
    value = perturbed - axis.line_shares(axis.points, used, same)
    drawn = draws - axis.line_shares(axis.draws, used, same)
    out = []
    for m in range(len(x)):
        rest = x[used & ~same[m]]
        distinct = len(np.unique(rest))
        if distinct < LEAST_X:
            out.append(_no_line(distinct))
            continue
        estimate = replace(bootstrap.estimate(float(value[m]), drawn[:, m], n=int(n[m])), method=METHOD)
        out.append(Robustness(estimate=estimate, extrapolated=bool(x[m] < rest.min() or x[m] > rest.max())))
    return out


def _no_line(distinct: int) -> Robustness:
    reason = f"a line needs {LEAST_X} distinct original accuracies without this model, here {distinct}"
    return Robustness(estimate=nothing(reason, method=METHOD), extrapolated=False)


def _types(
    scores: Sequence[ClassificationScore], drop: Floats, draws: Floats, bootstrap: Bootstrap
) -> tuple[TypeDrop, ...]:
    """Median drops by type, in the order types first appear; models without a type come under `untyped`."""
    kinds = [score.model_type or "untyped" for score in scores]
    out = []
    for kind in dict.fromkeys(kinds):
        of_kind = np.array([other == kind for other in kinds])
        drawn = draws[:, of_kind]
        drawn = drawn[np.isfinite(drawn).all(axis=1)]
        medians = np.median(drawn, axis=1) if len(drawn) else np.zeros(0)
        estimate = bootstrap.estimate(float(np.median(drop[of_kind])), medians, n=int(of_kind.sum()))
        out.append(TypeDrop(model_type=kind, median_drop=estimate))
    return tuple(out)


def _sentence(model: str, linear: Robustness, logit: Robustness) -> str:
    """The verdict on both axes in plain words."""
    model = printable(model)
    if linear.estimate.value is None or logit.estimate.value is None:
        return f"{model}: no line to compare with."
    figures = (
        f"{100 * linear.estimate.value:+.1f} points on linear axes, {100 * logit.estimate.value:+.1f} on logit axes"
    )
    if linear.extrapolated or logit.extrapolated:
        return f"{model}: {figures}, extrapolated beyond the line's models: no verdict."
    if linear.verdict is None or logit.verdict is None:
        return f"{model}: {figures}, without an interval: no verdict."
    if linear.verdict == logit.verdict:
        return f"{model}: {linear.verdict} the line ({figures})."
    return f"{model}: the axes disagree, {linear.verdict} the linear and {logit.verdict} the logit line ({figures})."
