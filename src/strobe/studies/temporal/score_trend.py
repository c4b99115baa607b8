"""Perturbed accuracy against original accuracy over many models: the line, and each model's deviation from it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.model_results import ClassificationScore
from strobe.analyses.published import tables
from strobe.core.arrays import Bools, Floats
from strobe.core.dataset import Dataset
from strobe.core.errors import expect, printable
from strobe.metrics.bootstrap import DIFFERENCES, REPLICATES, SHARES, Bootstrap
from strobe.metrics.fits import expit, fit_line, leave_one_out, logit_of_counts
from strobe.metrics.intervals import nothing
from strobe.studies.temporal.records import EffectiveRobustness, ModelTrend, Robustness, Trend, TrendLine, TypeDrop

LEAST_X = 5
"""A line needs at least this many distinct original accuracies."""

METHOD = "joint resampling of videos, refitted"


def fit(
    dataset: Dataset, scores: Sequence[ClassificationScore], *, seed: int = 0, replicates: int = REPLICATES
) -> Trend:
    """Compute the trend over models scored on this dataset.

    The line is fitted over models tagged `standard`, or over all models if too few are tagged. Of models that predict
    the same classes everywhere, or share a name, only the first counts. Each model's effective robustness uses the line
    fitted without this model, on plain and on logit axes, because the axis can change the sign. Intervals resample the
    videos jointly for all models and refit.
    """
    expect(len(scores) > 0, "trend", "at least one model", 0)
    expect(len({score.k for score in scores}) == 1, "trend", "one k for all models", {s.k for s in scores})
    for score in scores:
        expect(len(score.first_wrong) == dataset.n_sets, "trend", f"scores of {dataset.n_sets} sets", score.model)
    count = np.array([[s.right_at(0).sum(), s.right_at(s.k).sum(), s.scored.sum()] for s in scores], dtype=np.float64)
    same = _same(scores)
    first = np.array([not same[m, :m].any() for m in range(len(scores))])
    bootstrap = Bootstrap(dataset.video_of_set, replicates=replicates, seed=seed)
    columns = np.stack([values for s in scores for values in (s.right_at(0), s.right_at(s.k), s.scored)], axis=1)
    draws_of_counts = bootstrap.sums(columns).reshape(replicates, len(scores), 3)
    share, shares = count[:, :2] / count[:, 2:], _divide(draws_of_counts[:, :, :2], draws_of_counts[:, :, 2:])
    x = count[:, 0] / count[:, 2]
    used = first & np.array([s.standard for s in scores])
    is_standard = len(np.unique(x[used])) >= LEAST_X
    if not is_standard:
        used = first
    distinct = len(np.unique(x[used]))
    reason = None
    if distinct < LEAST_X:
        reason = f"a line needs at least {LEAST_X} models with distinct original accuracies, here {distinct}"
    linear, logit = _robustness(count, draws_of_counts, used, same, bootstrap)
    models = tuple(
        ModelTrend(
            model=score.model,
            model_type=score.model_type,
            standard=score.standard,
            in_fit=bool(used[m]),
            acc_orig=score.acc_orig,
            acc_pmk=score.acc_pmk,
            drop=score.drop,
            effective_robustness=EffectiveRobustness(linear=linear[m], logit=logit[m]),
            sentence=_sentence(score.model, linear[m], logit[m]),
        )
        for m, score in enumerate(scores)
    )
    return Trend(
        linear=None if reason else _line(100 * share[used], "points"),
        logit=None if reason else _line(logit_of_counts(count[used, :2], count[used, 2:]), "log odds"),
        reason=reason,
        fitted_to=None if is_standard or reason else "all models",
        models=models,
        median_drop=_types(scores, share[:, 0] - share[:, 1], shares[:, :, 0] - shares[:, :, 1], same, bootstrap),
        published=tables(),
    )


def _line(points: Floats, unit: Literal["points", "log odds"]) -> TrendLine | None:
    """Return the line through the points (M, 2)."""
    line = fit_line(points[:, 0], points[:, 1])
    return None if line is None else TrendLine(**asdict(line), unit=unit)


def _same(scores: Sequence[ClassificationScore]) -> Bools:
    """Return which models are duplicates of each other, (M, M); every model is a duplicate of itself."""
    mark = np.array([score.fingerprint for score in scores])
    name = np.array([score.model for score in scores])
    return np.asarray((mark[:, None] == mark[None, :]) | (name[:, None] == name[None, :]))


def _divide(top: Floats, bottom: Floats) -> Floats:
    return np.asarray(np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0))


def _robustness(
    count: Floats, draws_of_counts: Floats, used: Bools, same: Bools, bootstrap: Bootstrap
) -> tuple[list[Robustness], list[Robustness]]:
    """Return the effective robustness of every model on both axes, as shares."""
    if not used.any():
        without = [_no_line(0) for _ in count]
        return without, without
    plain = _Axis(
        count[:, :2] / count[:, 2:], _divide(draws_of_counts[:, :, :2], draws_of_counts[:, :, 2:]), straight=True
    )
    sizes = draws_of_counts[:, :, 2:]
    log_odds = np.where(sizes > 0, logit_of_counts(draws_of_counts[:, :, :2], sizes), np.nan)
    logit = _Axis(logit_of_counts(count[:, :2], count[:, 2:]), log_odds, straight=False)
    n = count[:, 2].astype(np.int64)
    perturbed, draws = plain.points[:, 1], plain.draws[:, :, 1]
    return (
        _off_the_line(plain, perturbed, draws, used, same, n, bootstrap),
        _off_the_line(logit, perturbed, draws, used, same, n, bootstrap),
    )


@dataclass(frozen=True, slots=True)
class _Axis:
    """(acc_orig, acc_pmk) of every model on one axis, (M, 2), and the same values in every draw, (B, M, 2)."""

    points: Floats
    draws: Floats
    straight: bool

    def line_shares(self, points: Floats, used: Bools, same: Bools) -> Floats:
        """For each model, fit the line without this model, and return the line's value at this model as a share."""
        fitted = leave_one_out(points[..., 0], points[..., 1], used=used, out=same)
        return fitted if self.straight else expit(fitted)


def _off_the_line(
    axis: _Axis, perturbed: Floats, draws: Floats, used: Bools, same: Bools, n: NDArray[np.int64], bootstrap: Bootstrap
) -> list[Robustness]:
    x = axis.points[:, 0]
    value = perturbed - axis.line_shares(axis.points, used, same)
    draws_off = draws - axis.line_shares(axis.draws, used, same)
    out = []
    for m in range(len(x)):
        rest = x[used & ~same[m]]
        distinct = len(np.unique(rest))
        if distinct < LEAST_X:
            out.append(_no_line(distinct))
            continue
        estimate = replace(
            bootstrap.estimate(float(value[m]), draws_off[:, m], n=int(n[m]), limits=DIFFERENCES), method=METHOD
        )
        out.append(Robustness.of(estimate, extrapolated=bool(x[m] < rest.min() or x[m] > rest.max())))
    return out


def _no_line(distinct: int) -> Robustness:
    reason = f"a line needs {LEAST_X} distinct original accuracies without this model, here {distinct}"
    return Robustness.of(nothing(reason, method=METHOD))


def _types(
    scores: Sequence[ClassificationScore], drop: Floats, draws: Floats, same: Bools, bootstrap: Bootstrap
) -> tuple[TypeDrop, ...]:
    """Return the median drop of each type, in order of first appearance; models without a type are `untyped`.

    Of duplicate models of one type, only the first counts, as for the line.
    """
    kinds = np.array([score.model_type or "untyped" for score in scores])
    again = np.array([bool((same[m, :m] & (kinds[:m] == kinds[m])).any()) for m in range(len(scores))])
    out = []
    for kind in dict.fromkeys(kinds.tolist()):
        of_kind = (kinds == kind) & ~again
        drawn = draws[:, of_kind]
        drawn = drawn[np.isfinite(drawn).all(axis=1)]
        medians = np.median(drawn, axis=1) if len(drawn) else np.zeros(0)
        estimate = bootstrap.estimate(float(np.median(drop[of_kind])), medians, n=int(of_kind.sum()), limits=SHARES)
        out.append(TypeDrop(model_type=kind, median_drop=estimate))
    return tuple(out)


def _sentence(model: str, linear: Robustness, logit: Robustness) -> str:
    """Return the verdict on both axes in plain words."""
    model = printable(model)
    if linear.value is None or logit.value is None:
        return f"{model}: no line to compare with."
    figures = f"{100 * linear.value:+.1f} points on linear axes, {100 * logit.value:+.1f} on logit axes"
    if linear.extrapolated or logit.extrapolated:
        return f"{model}: {figures}, extrapolated beyond the line's models: no verdict."
    if linear.verdict is None or logit.verdict is None:
        return f"{model}: {figures}, without an interval: no verdict."
    if linear.verdict == logit.verdict:
        return f"{model}: {linear.verdict} the line ({figures})."
    return f"{model}: the axes disagree, {linear.verdict} the linear and {logit.verdict} the logit line ({figures})."
