"""The score of one classifier on one dataset: every figure of results.json, computed from predictions alone."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.answer_patterns import answer_pattern, digest_of_answers
from strobe.analyses.early import STOPPED, is_stopped, saved, settled_sets, unanswered
from strobe.analyses.model_results import ClassificationScore, ClassScore, Unscored
from strobe.analyses.plan import NOT_VIDEO, Plan, ScoreOptions
from strobe.analyses.slices import OffsetPool, SlicePlan, plain
from strobe.analyses.times import TimePlan, smoothed, time_plan
from strobe.core.answers import ClassAnswers, State
from strobe.core.arrays import Bools, Ints, blocks, narrow
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, expect, printable
from strobe.core.estimate import Estimate, Missing
from strobe.core.labels import LabelSpace
from strobe.core.projections import projection_between
from strobe.core.variants import ANCHOR
from strobe.metrics.bootstrap import SHARES
from strobe.metrics.intervals import Interval, nothing, proportion
from strobe.metrics.pmk import first_wrong, right_at
from strobe.metrics.temporal import Survival, flip_shares, kaplan_meier, swings
from strobe.studies.temporal.records import (
    AllClasses,
    AmongAll,
    Bounds,
    ClassMedians,
    CurvePoint,
    GivenRightAnchor,
    OffsetError,
)

SMALL_CLASS = 10
"""Classes with fewer sets than this are flagged."""
SEVERAL_SETS, FEW_DECIDE = 3, 3.0
"""Thresholds of a caution about intervals: sets per video, and the share of the rarer outcome times the videos.

If the first is reached and the second is not exceeded, intervals of shares within 0.1 of 0 or 1 cover only 90–94 %
(docs/methods.md, benchmarks/coverage.py).
"""


def whole(number: float) -> float | int:
    """Return a whole number as an int, for JSON.

    >>> whole(-10.0), whole(0.5)
    (-10, 0.5)
    """
    return int(number) if float(number).is_integer() else float(number)


class Prepared:
    """The data shared by all models of a dataset; create it once and pass it to each `score`.

    Every set must have a label (`Dataset.labelled_sets`); without a label, every answer would count as wrong.
    """

    def __init__(self, dataset: Dataset, options: ScoreOptions, *, plan: Plan | None = None) -> None:
        expect(plan is not None or bool(dataset.labelled.all()), "dataset", "a label on every scored set", "none")
        self.plan = plan or Plan(dataset, options)
        self.time: TimePlan | Missing = time_plan(self.plan)
        self.slices = SlicePlan(self.plan)
        self._last: tuple[bytes, Prepared] | None = None

    def only(self, scored: Bools) -> "Prepared":
        """Return the data for some of the sets; the last result is cached, as models often miss the same frames."""
        key = scored.tobytes()
        if self._last is None or self._last[0] != key:
            plan = self.plan.only(scored)
            self._last = (key, Prepared(plan.dataset, plan.options, plan=plan))
        return self._last[1]


def score(
    dataset: Dataset,
    predictions: ClassAnswers,
    *,
    options: ScoreOptions | None = None,
    prepared: Prepared | None = None,
    pool: OffsetPool | None = None,
    model_type: str | None = None,
    standard: bool = False,
    with_coverage: bool = False,
) -> ClassificationScore:
    """Score one model's predictions.

    A set is scored if its anchor and all members within k are predicted. The other sets are counted separately, and
    bounds on the figures cover the possible results of these sets. If members were skipped (--stop-early), a set that
    is decided without them is scored too. Figures that need the skipped members are omitted. With many models, create
    `prepared` once (`Prepared(dataset, options)`), and pass a `pool` to average errors by offset over models. Coverage
    is reported if the model gave an answer outside the classes, or if `with_coverage` is set.
    """
    if prepared is None:
        prepared = Prepared(dataset, options or ScoreOptions())
    whole_plan = prepared.plan
    frames = len(whole_plan.view.frames)
    expect(len(predictions.label) == frames, "predictions", f"one per frame ({frames})", len(predictions.label))
    width, n_classes = int(predictions.label.max(initial=-1)) + 1, len(dataset.info.label_space)
    if predictions.scores is not None:
        expect(
            predictions.scores.shape[1] == n_classes, "predictions", f"{n_classes} scores", predictions.scores.shape[1]
        )
    expect(width <= n_classes, "predictions", f"classes below {n_classes}", width - 1)
    stopped, scored = is_stopped(whole_plan, predictions), settled_sets(whole_plan, predictions)
    unscored = int((~scored).sum())
    if not scored.any():
        raise StrobeError(
            f"{printable(predictions.model)}: none of the {whole_plan.n_sets} sets has predictions for its anchor and "
            f"all members within {whole_plan.k}, so nothing can be scored"
        )
    part = prepared if unscored == 0 else prepared.only(scored)
    if pool is not None and not stopped:
        pool.add(~whole_plan.view.right_rows(predictions.label), scored)

    plan = part.plan
    right = plan.view.right_rows(predictions.label)
    first = first_wrong(~right, plan.set_row, plan.level, n_sets=plan.n_sets, never=plan.k + 1)
    if stopped:  # a set that breaks has its first wrong frame at some level up to k
        first = np.where((first > 0) & (first <= plan.k), plan.k, first)
    orig, perturbed = first > 0, first > plan.k
    lost = orig & ~perturbed
    headline = plan.headline.figures(orig, perturbed)
    more = _left_out(part) if stopped else _of_every_frame(part, predictions, headline, right, first)
    all_first = np.full(whole_plan.n_sets, -1, dtype=np.int32)
    all_first[scored] = first
    inside = predictions.state[plan.frame] != State.OUTSIDE
    with_coverage = not stopped and (with_coverage or not inside.all())
    pattern = answer_pattern(plan, predictions, orig)
    return ClassificationScore(
        model=predictions.model,
        kind=predictions.kind,
        model_type=model_type,
        standard=standard,
        k=plan.k,
        acc_orig=headline["acc_orig"],
        acc_pmk=headline["acc_pmk"],
        drop=headline["drop"],
        per_class=(classes := _per_class(plan, orig, perturbed, lost)),
        per_class_median=_class_medians(plan, classes, orig, perturbed, lost),
        given_right_anchor=GivenRightAnchor(
            sets=_given(plan, perturbed[orig], plan.cluster[orig], "no anchor is right"), members=more.pop("members")
        ),
        by_fps=part.slices.rates(first),
        unscored=Unscored(frames=unanswered(whole_plan, predictions), sets=unscored),
        bounds=_bounds(int(orig.sum()), int(perturbed.sum()), unscored, whole_plan.n_sets),
        notes=(*(_notes(plan, tuple(headline.values())) or ()), *(pattern.sentences() if pattern else ())) or None,
        effective_videos=plan.effective_videos,
        answers=pattern,
        exact="" if stopped else digest_of_answers(predictions, whole_plan),
        first_wrong=all_first,
        video=whole_plan.cluster,
        coverage=plan.all_rows.estimates(inside)[0] if with_coverage else None,
        fingerprint=_fingerprint(predictions, whole_plan, all_first if stopped else None),
        stopped_early=saved(whole_plan, predictions) if stopped else None,
        **more,
    )


def _of_every_frame(
    part: Prepared, predictions: ClassAnswers, headline: dict[str, Estimate], right: Bools, first: Ints
) -> dict[str, Any]:
    """Return the figures that use every frame of a set, by field name; `members` is conditional on a right anchor."""
    plan, wrong = part.plan, ~right
    at_k = right_at(first, k=plan.k)
    orig = at_k[:, 0]
    in_right = orig[plan.set_row] & ~plan.is_anchor
    slices, smoothing = part.slices.apply(wrong, first), smoothed(plan, predictions, headline)
    flips, rw_flips, swing = _flicker(plan, right, predictions)
    reasons = slices.reasons if smoothing else {**slices.reasons, "smoothing": "sets are not stretches of one video"}
    curve = plan.all_sets.estimates(at_k.T), plan.all_sets.estimates((orig[:, None] & ~at_k).T)
    return {
        "curve": tuple(map(CurvePoint, range(plan.k + 1), *curve)),
        "time_curve": part.time if isinstance(part.time, Missing) else part.time.curve(plan, wrong),
        "per_offset": tuple(map(OffsetError, map(whole, plan.offsets.tolist()), plan.by_offset.estimates(wrong))),
        "mean_frame": plan.all_rows.estimates(right)[0],
        "members": _given(plan, right[in_right], plan.row_cluster[in_right], "no right anchor has a member"),
        "flip_rate": flips,
        "right_wrong_flip_rate": rw_flips,
        "confidence_swing": swing,
        "first_failure": _first_failure(plan, wrong, orig),
        "smoothing": smoothing,
        "frame_types": slices.frame_types,
        "by_hint": slices.by_hint,
        "reasons": reasons,
    }


def _left_out(part: Prepared) -> dict[str, Any]:
    """Return the same fields if members were skipped: each field is empty, and a reason explains why."""
    none, empty = nothing(STOPPED), ("curve", "per_offset", "first_failure", "smoothing", "frame_types", "by_hint")
    return {
        **dict.fromkeys(("mean_frame", "members", "flip_rate", "right_wrong_flip_rate", "confidence_swing"), none),
        **dict.fromkeys(("curve", "per_offset", "smoothing", "frame_types"), ()),
        "time_curve": Missing(STOPPED),
        "first_failure": Survival(n=0, events=0, median=None, survival=()),
        "by_hint": {},
        "reasons": {**part.slices.reasons, **dict.fromkeys(empty, STOPPED)},
    }


def _notes(plan: Plan, headline: Sequence[Estimate]) -> tuple[str, ...] | None:
    """Return the cautions about the intervals of the accuracies."""
    narrow = too_narrow(headline, len(np.unique(plan.cluster)), plan.effective_videos)
    return tuple(note for note in (plan.few_dominate, narrow) if note) or None


def too_narrow(headline: Sequence[Estimate], videos: int, effective: float | None = None) -> str | None:
    """Return the caution for shares near 0 or 1 that depend on few videos.

    The Korn–Graubard interval then covers less than 95 %.

    `effective` is the equivalent number of videos of equal size, by default `videos`.

    >>> far = Estimate(value=0.93, low=0.8, high=0.99, n=200, count=186, method="korn-graubard")
    >>> too_narrow([far], 20)
    '200 sets come from 20 videos, and few videos decide a share near 0 or 100 %: its 95 % interval may cover only 90 %'
    >>> too_narrow([far], 100) is None
    True
    """
    n, weigh = headline[0].n, effective or videos
    rare = [
        min(one.value, 1 - one.value) for one in headline if one.value is not None and one.method == "korn-graubard"
    ]
    if n < SEVERAL_SETS * videos or not any(0 < share <= 0.1 and share * weigh <= FEW_DECIDE for share in rare):
        return None
    return (
        f"{n} sets come from {videos} videos, and few videos decide a share near 0 or 100 %: its 95 % interval may "
        "cover only 90 %"
    )


def _given(plan: Plan, right: Bools, cluster: Ints, empty: str) -> Estimate:
    return proportion(right, cluster, interval=plan.options.interval) if right.size else nothing(empty)


def _bounds(orig: int, perturbed: int, unscored: int, n: int) -> Bounds | None:
    if unscored == 0:
        return None
    return Bounds(acc_orig=(orig / n, (orig + unscored) / n), acc_pmk=(perturbed / n, (perturbed + unscored) / n))


def _fingerprint(predictions: ClassAnswers, plan: Plan, settled: Ints | None) -> str:
    """Return a digest of the answers; if members were skipped, only of the anchors and the `settled` sets.

    Earlier models determine which members are skipped, so the other answers are not comparable.
    """
    used = plan.frames_used if settled is None else np.unique(plan.frame[plan.is_anchor])
    hasher = hashlib.sha256()
    for part in blocks(len(used)):
        hasher.update(predictions.label[used[part]].astype(np.int64, copy=False).tobytes())
    hasher.update(np.packbits(predictions.scored[used]).tobytes())
    if settled is not None:
        hasher.update(settled.tobytes())
    return hasher.hexdigest()[:16]


def _per_class(plan: Plan, orig: Bools, perturbed: Bools, lost: Bools) -> tuple[ClassScore, ...]:
    space, where = plan.view.info.label_space, plan.class_sets
    columns = [plan.by_class.estimates(values[where]) for values in (orig, perturbed, lost)]
    return tuple(
        ClassScore(
            label=space.ids[index], name=space.names[index], acc_orig=a, acc_pmk=b, drop=c, small=a.n < SMALL_CLASS
        )
        for index, (a, b, c) in enumerate(zip(*columns, strict=True))
        if a.n
    )


def _class_medians(
    plan: Plan, classes: tuple[ClassScore, ...], orig: Bools, perturbed: Bools, lost: Bools
) -> ClassMedians:
    """Medians over the classes that have a set; in a bootstrap draw, classes without a set are skipped."""
    n = len(classes)
    values = [
        float(np.median([getattr(part, name).value for part in classes])) for name in ("acc_orig", "acc_pmk", "drop")
    ]
    if not plan.options.bootstrap:
        a, b, c = (plain(value, n) for value in values)
        return ClassMedians(acc_orig=a, acc_pmk=b, drop=c, n_classes=n)
    member = np.zeros((plan.n_sets, plan.by_class.n_groups), dtype=bool)
    member[plan.class_sets, plan.by_class.group] = True
    member = member[:, plan.by_class.n > 0]
    draws = plan.bootstrap
    size = draws.sums(member)
    out = []
    for value, right in zip(values, (orig, perturbed, lost), strict=True):
        share = np.divide(draws.sums(member & right[:, None]), size, out=np.full(size.shape, np.nan), where=size > 0)
        out.append(draws.estimate(value, np.nanmedian(share, axis=1), n=n, limits=SHARES))
    return ClassMedians(acc_orig=out[0], acc_pmk=out[1], drop=out[2], n_classes=n)


def _flicker(plan: Plan, right: Bools, predictions: ClassAnswers) -> tuple[Estimate, Estimate, Estimate]:
    """Flip rate, right↔wrong flip rate and confidence swing, as means over sets."""
    if plan.is_video:
        a, b, label = plan.pairs.first, plan.pairs.second, narrow(predictions.label)[plan.frame]
        owner = plan.set_row[a]
        flips, rw_flips = (
            _mean(plan, *flip_shares(value, a, b, owner, n_sets=plan.n_sets)) for value in (label, right)
        )
    else:
        flips = rw_flips = nothing(NOT_VIDEO)
    if not predictions.has_shares:
        return flips, rw_flips, nothing("the model gave labels only, no confidences")
    swing, has_member = np.empty(plan.n_sets), np.diff(plan.start, append=len(plan.frame)) > 1
    for sets, rows in plan.blocks():
        swing[sets] = swings(predictions.confidence_at(plan.frame[rows]), plan.start[sets] - rows.start)
    return flips, rw_flips, _mean(plan, swing, has_member)


def _mean(plan: Plan, values: NDArray[np.float64], use: Bools) -> Estimate:
    if not use.any():
        return nothing("no set has two frames to compare")
    if not plan.options.bootstrap:
        return plain(float(values[use].mean()), int(use.sum()))
    return plan.bootstrap.mean(np.where(use, values, 0.0), count=use)


def _first_failure(plan: Plan, wrong: Bools, orig: Bools) -> Survival:
    """Kaplan–Meier curve over the sets with a right anchor.

    A set fails at the smallest |distance| of a wrong frame, or is censored at the largest |distance| seen.
    """
    first = np.full(plan.n_sets, np.inf)
    np.minimum.at(first, plan.set_row[wrong], np.abs(plan.distance[wrong]))
    event = np.isfinite(first[orig])
    time = np.where(event, first[orig], plan.last_distance[orig])
    return kaplan_meier(time, event, plan.cluster[orig], interval=plan.options.interval)


def all_classes(
    dataset: Dataset, answers: ClassAnswers, source: LabelSpace, *, interval: Interval
) -> AllClasses | None:
    """Return both accuracies on the original images and on each variant at its highest level.

    The result is None if the dataset's classes are not a subset of the model's own (`source`), or if the best of all
    the model's classes is unknown.
    """
    own = dataset.info.label_space
    if answers.own_label is None or not (found := projection_between(source, own)).is_choice:
        return None
    best = found.map_labels(answers.own_label.astype(np.int64))
    among, of_all = (dataset.right_rows(label) for label in (answers.label, best))
    cluster = dataset.video_of_set[dataset.sets.set]
    rows = []
    for variant, level, use in _pictures(dataset):
        use = use & answers.scored[dataset.sets.frame]
        shares = [
            proportion(right[use], cluster[use], interval=interval)
            if use.any()
            else nothing("no image has a prediction")
            for right in (among, of_all)
        ]
        rows.append(AmongAll(variant=variant, level=level, own=shares[0], all=shares[1]))
    return AllClasses(source=source.name, n_own=len(own), n_all=len(source), pictures=tuple(rows))


def _pictures(dataset: Dataset) -> Iterator[tuple[str, float | None, Bools]]:
    """Yield the anchors and each variant at its highest level: name, level and set rows; each image occurs once."""
    sets = dataset.sets
    first = np.zeros(len(sets.set), dtype=bool)
    anchors = np.flatnonzero(sets.is_anchor)
    first[anchors[np.unique(sets.frame[anchors], return_index=True)[1]]] = True
    yield ANCHOR, None, first
    if dataset.variants is None:
        return
    level, variant = dataset.row_levels(), sets.variant[sets.set]
    for row, one in enumerate(dataset.variants):
        use = (variant == row) & ~sets.is_anchor & (level == len(one.levels))
        if one.levels and one.role != "shown" and use.any():
            yield one.variant, one.levels[-1], use
