"""The score of one classifier on one dataset: every figure of results.json, from predictions alone."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.against_time import TimePlan, time_plan
from strobe.analyses.offsets import OffsetPool, plain
from strobe.analyses.plan import NOT_VIDEO, Plan, ScoreOptions
from strobe.analyses.slices import SlicePlan, Slices
from strobe.analyses.smoothed import Smoothed, smoothed
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, expect, printable
from strobe.core.estimate import Estimate
from strobe.core.predictions import Predictions
from strobe.metrics.intervals import nothing, proportion
from strobe.metrics.pmk import first_wrong, right_at
from strobe.metrics.temporal import Survival, flip_shares, kaplan_meier, swings

__all__ = ["ClassScore", "ClassificationScore", "Prepared", "ScoreOptions", "TimeCurve", "score"]

Ints = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]

SMALL_CLASS = 10
"""Classes with fewer sets are flagged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeCurve:
    """Accuracy against milliseconds on the sets that reach `t_max_ms`; without points, `reason` says why."""

    t_max_ms: int | None = None
    n_sets: int = 0
    points: tuple[tuple[int, Estimate], ...] = ()
    reason: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The object of results.json."""
        if self.reason is not None:
            return {"reason": self.reason}
        points = [{"ms": ms, "acc": acc.to_json()} for ms, acc in self.points]
        return {"t_max_ms": self.t_max_ms, "n_sets": self.n_sets, "points": points}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassScore:
    """The figures of one class: sets whose anchor has it among its labels. `small` flags fewer than ten sets."""

    label: str
    name: str
    acc_orig: Estimate
    acc_pmk: Estimate
    drop: Estimate

    @property
    def small(self) -> bool:
        """Whether the class has fewer than ten sets."""
        return self.acc_orig.n < SMALL_CLASS

    def to_json(self) -> dict[str, Any]:
        """The object of results.json."""
        figures = {part: getattr(self, part).to_json() for part in ("acc_orig", "acc_pmk", "drop")}
        return {"label": self.label, "name": self.name, **figures, "small": self.small}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationScore:
    """Everything measured of one model on one dataset, as in methods §5.

    `first_wrong` (S,) holds each set's first wrong level (k + 1 where none, −1 where the set is unscored) and is all
    that comparison and trend need, so that scores of many models stay small. `fingerprint` is equal for models that
    predict the same classes.
    """

    model: str
    kind: str
    model_type: str | None
    standard: bool
    k: int
    acc_orig: Estimate
    acc_pmk: Estimate
    drop: Estimate
    curve: tuple[tuple[int, Estimate, Estimate], ...]
    time_curve: TimeCurve
    per_class: tuple[ClassScore, ...]
    per_class_median: tuple[Estimate, Estimate, Estimate]
    per_offset: tuple[tuple[float, Estimate], ...]
    mean_frame: Estimate
    given_sets: Estimate
    given_members: Estimate
    flip_rate: Estimate
    right_wrong_flip_rate: Estimate
    confidence_swing: Estimate
    first_failure: Survival
    smoothing: tuple[Smoothed, ...]
    slices: Slices
    unscored_frames: int
    unscored_sets: int
    bounds: tuple[tuple[float, float], tuple[float, float]] | None
    first_wrong: NDArray[np.int32]
    fingerprint: str
    review_impact: Mapping[str, Any] | None = None
    ceiling: Mapping[str, Any] | None = None

    @property
    def scored(self) -> Bools:
        """Which sets were scored, (S,)."""
        return np.asarray(self.first_wrong >= 0)

    def right_at(self, k: int) -> Bools:
        """Which sets are right at k, (S,); False where unscored."""
        return np.asarray(self.first_wrong > k)

    def to_json(self) -> dict[str, Any]:
        """The model's object of results.json."""
        medians = {
            name: estimate.to_json()
            for name, estimate in zip(("acc_orig", "acc_pmk", "drop"), self.per_class_median, strict=True)
        }
        reasons = dict(self.slices.reasons)
        if not self.smoothing:
            reasons["smoothing"] = "sets are not stretches of one video"
        return {
            "task": "classification",
            "kind": self.kind,
            "model_type": self.model_type,
            "standard": self.standard,
            "acc_orig": self.acc_orig.to_json(),
            "acc_pmk": self.acc_pmk.to_json(),
            "drop": self.drop.to_json(),
            "curve": [{"k": k, "acc": acc.to_json(), "drop": drop.to_json()} for k, acc, drop in self.curve],
            "time_curve": self.time_curve.to_json(),
            "per_class": [part.to_json() for part in self.per_class],
            "per_class_median": medians | {"n_classes": len(self.per_class)},
            "per_offset": [{"offset": whole(offset), "error": error.to_json()} for offset, error in self.per_offset],
            "mean_frame": self.mean_frame.to_json(),
            "given_right_anchor": {"sets": self.given_sets.to_json(), "members": self.given_members.to_json()},
            "flip_rate": self.flip_rate.to_json(),
            "right_wrong_flip_rate": self.right_wrong_flip_rate.to_json(),
            "confidence_swing": self.confidence_swing.to_json(),
            "first_failure": self.first_failure.to_json(),
            "smoothing": [part.to_json() for part in self.smoothing],
            "frame_types": [part.to_json() for part in self.slices.frame_types],
            "by_fps": [part.to_json("range") for part in self.slices.by_fps],
            "by_hint": {
                name: [{"range": range_, "error": error.to_json()} for range_, error in bins]
                for name, bins in self.slices.by_hint
            },
            "reasons": reasons,
            "review_impact": None if self.review_impact is None else dict(self.review_impact),
            "ceiling": None if self.ceiling is None else dict(self.ceiling),
            "unscored": {"frames": self.unscored_frames, "sets": self.unscored_sets},
            "bounds": None
            if self.bounds is None
            else {"acc_orig": list(self.bounds[0]), "acc_pmk": list(self.bounds[1])},
        }


def whole(number: float) -> float | int:
    """The number as an int where it is whole, for JSON.

    >>> whole(-10.0), whole(0.5)
    (-10, 0.5)
    """
    return int(number) if float(number).is_integer() else float(number)


class Prepared:
    """What is the same for every model of a dataset; make it once and hand it to each `score`."""

    def __init__(self, dataset: Dataset, options: ScoreOptions, *, plan: Plan | None = None) -> None:
        self.plan = plan or Plan(dataset, options)
        found = time_plan(self.plan)
        self.time: TimePlan | None = None if isinstance(found, str) else found
        self.no_time: str | None = found if isinstance(found, str) else None
        self.slices = SlicePlan(self.plan)
        self._last: tuple[bytes, Prepared] | None = None

    def only(self, scored: Bools) -> "Prepared":
        """The same for some of the sets; the last answer is kept, as models often miss the same frames."""
        key = scored.tobytes()
        if self._last is None or self._last[0] != key:
            plan = self.plan.only(scored)
            self._last = (key, Prepared(plan.dataset, plan.options, plan=plan))
        return self._last[1]


def score(
    dataset: Dataset,
    predictions: Predictions,
    *,
    options: ScoreOptions | None = None,
    prepared: Prepared | None = None,
    pool: OffsetPool | None = None,
    model_type: str | None = None,
    standard: bool = False,
) -> ClassificationScore:
    """Score one model's predictions.

    A set is scored if its anchor and all members within k are predicted; the rest are counted apart and bounded.
    With many models, make `prepared` once (`Prepared(dataset, options)`), and give a `pool` to average errors by
    offset over models.
    """
    if prepared is None:
        prepared = Prepared(dataset, options or ScoreOptions())
    whole_plan = prepared.plan
    frames = len(whole_plan.view.frames)
    expect(len(predictions.label) == frames, "predictions", f"one per frame ({frames})", len(predictions.label))
    seen = predictions.scored[whole_plan.frame]
    scored = np.logical_and.reduceat(seen, whole_plan.start)
    unscored = int((~scored).sum())
    if not scored.any():
        raise StrobeError(
            f"{printable(predictions.model)}: none of the {whole_plan.n_sets} sets is predicted whole (anchor and all "
            f"members within {whole_plan.k}); nothing can be scored"
        )
    part = prepared if unscored == 0 else prepared.only(scored)
    if pool is not None:
        pool.add(~whole_plan.right(predictions.label[whole_plan.frame]), scored)

    plan = part.plan
    label = predictions.label[plan.frame]
    right = plan.right(label)
    wrong = ~right
    first = first_wrong(wrong, plan.set_row, plan.level, n_sets=plan.n_sets, never=plan.k + 1)
    at_k = right_at(first, k=plan.k)
    orig, perturbed = at_k[:, 0], at_k[:, -1]
    lost = orig & ~perturbed
    headline = plan.headline.estimates(orig, perturbed)
    in_right = orig[plan.set_row] & ~plan.is_anchor
    interval = plan.options.interval
    flips, rw_flips, swing = _flicker(plan, label, right, predictions)
    all_first = np.full(whole_plan.n_sets, -1, dtype=np.int32)
    all_first[scored] = first
    return ClassificationScore(
        model=predictions.model,
        kind=predictions.kind,
        model_type=model_type,
        standard=standard,
        k=plan.k,
        acc_orig=headline[0],
        acc_pmk=headline[1],
        drop=headline[2],
        curve=tuple(
            (k, acc, drop)
            for k, (acc, drop) in enumerate(
                zip(
                    plan.by_k.estimates(at_k.ravel()),
                    plan.by_k.estimates((orig[:, None] & ~at_k).ravel()),
                    strict=True,
                )
            )
        ),
        time_curve=_time_curve(part, wrong),
        per_class=(classes := _per_class(plan, orig, perturbed, lost)),
        per_class_median=_class_medians(plan, classes, orig, perturbed, lost),
        per_offset=tuple(zip(plan.offsets.tolist(), plan.by_offset.estimates(wrong), strict=True)),
        mean_frame=plan.all_rows.estimates(right)[0],
        given_sets=_given(perturbed[orig], plan.cluster[orig], "no anchor is right", interval),
        given_members=_given(right[in_right], plan.row_cluster[in_right], "no right anchor has a member", interval),
        flip_rate=flips,
        right_wrong_flip_rate=rw_flips,
        confidence_swing=swing,
        first_failure=_first_failure(plan, wrong, orig),
        smoothing=smoothed(plan, predictions, headline),
        slices=part.slices.apply(wrong, first),
        unscored_frames=len(np.unique(whole_plan.frame[~seen])),
        unscored_sets=unscored,
        bounds=_bounds(int(orig.sum()), int(perturbed.sum()), unscored, whole_plan.n_sets),
        first_wrong=all_first,
        fingerprint=_fingerprint(predictions, whole_plan.frames_used),
    )


def _given(right: Bools, cluster: Ints, empty: str, interval: Any) -> Estimate:
    return proportion(right, cluster, interval=interval) if right.size else nothing(empty)


def _bounds(orig: int, perturbed: int, unscored: int, n: int) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Accuracies over all sets if every unscored set were wrong, and if every one were right."""
    if unscored == 0:
        return None
    return (orig / n, (orig + unscored) / n), (perturbed / n, (perturbed + unscored) / n)


def _fingerprint(predictions: Predictions, used: Ints) -> str:
    hasher = hashlib.sha256(np.ascontiguousarray(predictions.label[used]).tobytes())
    hasher.update(np.packbits(predictions.scored[used]).tobytes())
    return hasher.hexdigest()[:16]


def _time_curve(part: Prepared, wrong: Bools) -> TimeCurve:
    if part.time is None:
        return TimeCurve(reason=part.no_time)
    points = tuple(part.time.curve(part.plan, wrong))
    return TimeCurve(t_max_ms=part.time.t_max_ms, n_sets=int(part.time.cohort.sum()), points=points)


def _per_class(plan: Plan, orig: Bools, perturbed: Bools, lost: Bools) -> tuple[ClassScore, ...]:
    space, where = plan.view.info.label_space, plan.class_sets
    columns = [plan.by_class.estimates(values[where]) for values in (orig, perturbed, lost)]
    return tuple(
        ClassScore(label=space.ids[place], name=space.names[place], acc_orig=a, acc_pmk=b, drop=c)
        for place, (a, b, c) in enumerate(zip(*columns, strict=True))
        if a.n
    )


def _class_medians(
    plan: Plan, classes: tuple[ClassScore, ...], orig: Bools, perturbed: Bools, lost: Bools
) -> tuple[Estimate, Estimate, Estimate]:
    """Medians over classes with a set; in a draw, classes without a set are skipped. n counts classes."""
    if not classes:
        none = nothing("no anchor has a label")
        return none, none, none
    values = [
        float(np.median([getattr(part, name).value for part in classes])) for name in ("acc_orig", "acc_pmk", "drop")
    ]
    n = len(classes)
    if not plan.options.bootstrap:
        return plain(values[0], n), plain(values[1], n), plain(values[2], n)
    member = np.zeros((plan.n_sets, plan.by_class.n_groups))
    member[plan.class_sets, plan.by_class.group] = 1.0
    member = member[:, plan.by_class.n > 0]
    draws = plan.bootstrap
    size = draws.sums(member)
    out = []
    for value, right in zip(values, (orig, perturbed, lost), strict=True):
        share = np.divide(draws.sums(member * right[:, None]), size, out=np.full(size.shape, np.nan), where=size > 0)
        drawn = share[~np.isnan(share).all(axis=1)]
        out.append(draws.estimate(value, np.nanmedian(drawn, axis=1), n=n))
    return out[0], out[1], out[2]


def _flicker(plan: Plan, label: Ints, right: Bools, predictions: Predictions) -> tuple[Estimate, Estimate, Estimate]:
    """Flip rate, right↔wrong flip rate and confidence swing: means over sets."""
    if plan.is_video:
        pairs = plan.pairs
        flips, rw_flips = (
            _mean(plan, *flip_shares(value, pairs.first, pairs.second, pairs.set, n_sets=plan.n_sets))
            for value in (label, right)
        )
    else:
        flips = rw_flips = nothing(NOT_VIDEO)
    if predictions.probability is None:
        return flips, rw_flips, nothing("the model gave labels only, no confidences")
    has_member = np.bincount(plan.set_row, minlength=plan.n_sets) > 1
    return flips, rw_flips, _mean(plan, swings(predictions.confidence[plan.frame], plan.start), has_member)


def _mean(plan: Plan, values: NDArray[np.float64], use: Bools) -> Estimate:
    if not use.any():
        return nothing("no set has two frames to compare")
    if not plan.options.bootstrap:
        return plain(float(values[use].mean()), int(use.sum()))
    return plan.bootstrap.mean(values, use=use)


def _first_failure(plan: Plan, wrong: Bools, orig: Bools) -> Survival:
    """Kaplan–Meier over right-anchor sets: the smallest wrong |distance|, else censored at the largest seen."""
    distance = np.abs(plan.distance)
    first = np.full(plan.n_sets, np.inf)
    np.minimum.at(first, plan.set_row[wrong], distance[wrong])
    event = np.isfinite(first[orig])
    time = np.where(event, first[orig], plan.last_distance[orig])
    return kaplan_meier(time, event, plan.cluster[orig], interval=plan.options.interval)
