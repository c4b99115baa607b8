"""The score against the plain reference of benchmarks/plain_score.py, and what must hold whatever the data."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plain_score import PlainData, plain_score
from strobe.analyses.classification import Prepared, score
from strobe.analyses.comparison import compare
from strobe.analyses.model_results import ClassificationScore
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.results import Results, dataset_facts, results_schema
from strobe.analyses.slices import OffsetPool
from strobe.core.answers import ClassAnswers
from strobe.core.codec import decode, encode
from strobe.core.errors import InvalidValue, StrobeError
from strobe.core.estimate import Estimate, Missing
from strobe.studies.temporal.score_trend import fit
from vid_shaped import PlainFrame, PlainSet, World, dataset_of, predictions_of, random_scores, vid_world

QUICK = ScoreOptions(bootstrap=False, control_seeds=5)
VID = Path(__file__).parents[3] / "shared" / "reference" / "imagenet-vid-robust"


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Small worlds with everything that can go odd: gaps, shared videos, several labels, unknown times, far members."""
    k = draw(st.integers(0, 4))
    n_classes = draw(st.integers(1, 4))
    labels = st.sets(st.integers(0, n_classes - 1), min_size=1, max_size=2)
    timed = draw(st.sampled_from(["pts", "rate", "none", "odd"]))
    rates, frames, sets = [], [], []
    for video in range(draw(st.integers(1, 4))):
        rate = draw(st.sampled_from([Fraction(25), Fraction(30000, 1001), Fraction(9)]))
        rates.append(rate if timed in ("rate", "pts") else None)
        indices = sorted(draw(st.sets(st.integers(0, 14), min_size=1, max_size=10)))
        start = len(frames)
        for index in indices:
            time = None
            if timed == "pts":
                time = Fraction(index) / rate
            elif timed == "odd":  # no common time base, no regular step
                time = Fraction(index * index + 1, draw(st.sampled_from([7, 90, 1000])))
            frames.append(PlainFrame(video, index, draw(labels), time, draw(st.sampled_from("IPB"))))
        for anchor in draw(st.sets(st.integers(0, len(indices) - 1), min_size=1, max_size=3)):
            near = [
                (start + place, float(index - indices[anchor]))
                for place, index in enumerate(indices)
                if place != anchor and abs(index - indices[anchor]) <= k and draw(st.booleans())
            ]
            sets.append(PlainSet(start + anchor, near))
    return World(k, n_classes, rates, frames, sets, draw(st.sampled_from(["frame", "anchor"])))


@st.composite
def cases(draw: st.DrawFn) -> tuple[World, np.ndarray, np.ndarray, bool]:
    world = draw(worlds())
    size = len(world.frames) * world.n_classes
    scores = np.array(draw(st.lists(st.integers(-2, 2), min_size=size, max_size=size)), dtype=float)
    missing = draw(st.sets(st.integers(0, len(world.frames) - 1), max_size=2))
    scored = np.array([row not in missing for row in range(len(world.frames))])
    return world, scores.reshape(-1, world.n_classes), scored, draw(st.booleans())


def same(found: Estimate, expected: dict[str, Any]) -> None:
    assert (found.n, found.count) == (expected["n"], expected["count"])
    for name in ("value", "low", "high"):
        a, b = getattr(found, name), expected[name]
        assert (a is None) == (b is None), (found, expected)
        if a is not None:
            assert a == pytest.approx(b, abs=1e-8), (name, found, expected)


def same_mean(found: Estimate, expected: dict[str, Any]) -> None:
    assert found.n == expected["n"]
    assert found.value == (None if expected["value"] is None else pytest.approx(expected["value"], abs=1e-12))


def reference(world: World, found: ClassificationScore, predictions: ClassAnswers) -> dict[str, Any]:
    data = PlainData(world)
    sets = [n for n, rows in enumerate(data.rows) if all(predictions.scored[frame] for frame, _, _ in rows)]
    cohort = data.time_cohort(sets)
    assert (cohort is None) == isinstance(found.time_curve, Missing)
    points = [] if isinstance(found.time_curve, Missing) else [point.ms for point in found.time_curve.points]
    if cohort is not None:
        assert (found.time_curve.t_max_ms, found.time_curve.n_sets) == (cohort[0], len(cohort[1]))
    probability = None if predictions.probability is None else predictions.probability.tolist()
    return plain_score(
        data, predictions.label.tolist(), probability, predictions.scored.tolist(), ms=points,
        cohort=None if cohort is None else cohort[1:], windows=QUICK.windows, alphas=QUICK.alphas, exact=True,
    )  # fmt: skip


def check_everything(world: World, found: ClassificationScore, predictions: ClassAnswers) -> None:
    expected = reference(world, found, predictions)
    same(found.acc_orig, expected["acc_orig"])
    same(found.acc_pmk, expected["acc_pmk"])
    same(found.drop, expected["drop"])
    assert len(found.curve) == world.k + 1
    for point, (acc_expected, drop_expected) in zip(found.curve, expected["curve"], strict=True):
        same(point.acc, acc_expected)
        same(point.drop, drop_expected)
    assert [part.label for part in found.per_class] == [f"c{label}" for label in expected["per_class"]]
    for part, figures in zip(found.per_class, expected["per_class"].values(), strict=True):
        for estimate, figure in zip((part.acc_orig, part.acc_pmk, part.drop), figures, strict=True):
            same(estimate, figure)
    median = found.per_class_median
    assert [e.value for e in (median.acc_orig, median.acc_pmk, median.drop)] == pytest.approx(expected["median"])
    assert [row.offset for row in found.per_offset] == list(expected["per_offset"])
    for row, figure in zip(found.per_offset, expected["per_offset"].values(), strict=True):
        same(row.error, figure)
    same(found.mean_frame, expected["mean_frame"])
    same(found.given_right_anchor.sets, expected["given_sets"])
    same(found.given_right_anchor.members, expected["given_members"])
    same_mean(found.flip_rate, expected["flip"])
    same_mean(found.right_wrong_flip_rate, expected["rw_flip"])
    if predictions.probability is not None:
        same_mean(found.confidence_swing, expected["swing"])
    survival = found.first_failure
    assert (survival.n, survival.median) == (expected["survival"]["n"], expected["survival"]["median"])
    for place, (t, risk, events, alive) in enumerate(expected["survival"]["curve"]):
        row = survival.survival[place]
        assert (row.distance, row.at_risk, row.events) == (t, risk, events)
        assert row.alive.value == pytest.approx(alive, abs=1e-12)
    if not isinstance(found.time_curve, Missing):
        for point, figure in zip(found.time_curve.points, expected["time"], strict=True):
            same(point.acc, figure)
    assert len(found.smoothing) == len(expected["smoothing"]) + 1
    for part in found.smoothing[1:]:
        *figures, short = expected["smoothing"][part.method.removesuffix(" vote"), part.parameter]
        for estimate, figure in zip((part.acc_orig, part.acc_pmk, part.drop), figures, strict=True):
            same(estimate, figure)
        assert part.incomplete == pytest.approx(short)


@settings(max_examples=150)
@given(cases())
def test_every_figure_equals_the_plain_reference(case: tuple[World, np.ndarray, np.ndarray, bool]) -> None:
    world, scores, scored, labels_only = case
    predictions = predictions_of("m", scores, scored)
    if labels_only:
        predictions = ClassAnswers.from_labels("m", predictions.label, scored=scored)
    dataset = dataset_of(world)
    data = PlainData(world)
    whole = [all(scored[frame] for frame, _, _ in rows) for rows in data.rows]
    if not any(whole):
        with pytest.raises(StrobeError, match="has predictions for its anchor"):
            score(dataset, predictions, options=QUICK)
        return
    found = score(dataset, predictions, options=QUICK)
    check_everything(world, found, predictions)
    used = {frame for rows in data.rows for frame, _, _ in rows}
    assert found.unscored.frames == sum(not scored[frame] for frame in used)
    assert found.unscored.sets == whole.count(False)
    assert found.scored.tolist() == whole
    n = len(whole)
    if all(whole):
        assert found.bounds is None
    else:
        assert found.bounds is not None
        bounds = found.bounds
        for (low, high), estimate in ((bounds.acc_orig, found.acc_orig), (bounds.acc_pmk, found.acc_pmk)):
            assert low == pytest.approx(estimate.count / n)
            assert high == pytest.approx((estimate.count + whole.count(False)) / n)


@settings(max_examples=60)
@given(cases())
def test_invariants(case: tuple[World, np.ndarray, np.ndarray, bool]) -> None:
    world, scores, _, _ = case
    dataset = dataset_of(world)
    found = score(dataset, predictions_of("m", scores), options=QUICK)
    counts = [point.acc.count for point in found.curve]
    assert counts[0] == found.acc_orig.count  # pm-0 is acc_orig
    assert counts == sorted(counts, reverse=True)  # the curve never rises
    assert [point.drop.count for point in found.curve] == [counts[0] - c for c in counts]
    constant = np.arange(len(scores), dtype=float)[:, None] * 8.0  # exact in floating point: moves no rank
    shifted = score(dataset, predictions_of("m", scores + constant), options=QUICK)
    assert shifted.curve == found.curve
    assert shifted.smoothing[0] == found.smoothing[0]


@settings(max_examples=30)
@given(cases(), st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(case: tuple[World, np.ndarray, np.ndarray, bool], random: Any) -> None:
    world, scores, _, _ = case
    order = list(range(len(world.frames)))
    random.shuffle(order)
    place = {old: new for new, old in enumerate(order)}
    sets = [PlainSet(place[part.anchor], [(place[f], d) for f, d in part.members]) for part in world.sets]
    random.shuffle(sets)
    shuffled = replace(world, frames=[world.frames[old] for old in order], sets=sets)
    one = score(dataset_of(world), predictions_of("m", scores), options=QUICK).to_json()
    two = score(dataset_of(shuffled), predictions_of("m", scores[order]), options=QUICK).to_json()
    for part in (one, two):  # random deletions draw by place in the table
        for row in part["frame_types"]:
            row.pop("control")
    assert json.loads(json.dumps(two), parse_float=lambda t: round(float(t), 9)) == json.loads(
        json.dumps(one), parse_float=lambda t: round(float(t), 9)
    )


@settings(max_examples=15)
@given(cases())
def test_whatever_the_data_results_are_valid(case: tuple[World, np.ndarray, np.ndarray, bool]) -> None:
    """With bootstraps, odd sizes and missing frames: no warning, no NaN, and results.json obeys its schema."""
    world, scores, scored, labels_only = case
    dataset = dataset_of(world)
    prepared = Prepared(dataset, ScoreOptions(replicates=20, control_seeds=3))
    pool = OffsetPool(prepared.plan)
    predictions = predictions_of("a", scores, scored)
    if labels_only:
        predictions = ClassAnswers.from_labels("a", predictions.label, scored=scored)
    found = []
    for each in (predictions, replace(predictions_of("b", scores[::-1].copy()), model="b")):
        try:
            found.append(score(dataset, each, prepared=prepared, pool=pool, standard=True))
        except StrobeError:
            continue
    results = Results(
        dataset=dataset_facts(dataset),
        models={one.model: one for one in found},
        offset_error_all_models=pool.estimates(),
        comparison=compare(dataset, found),
        trend=fit(dataset, found, replicates=20),
    )
    written = json.loads(json.dumps(encode(results), allow_nan=False))
    jsonschema.validate(written, results_schema())
    assert encode(decode(Results, written)) == written


def test_a_childless_class_never_wins() -> None:
    world = vid_world(np.random.default_rng(0), n_sets=6, k=2, n_classes=3, n_frames=None)
    scores = np.full((len(world.frames), 3), -50.0)
    scores[:, 1] = -np.inf
    found = predictions_of("m", scores)
    assert set(found.label.tolist()) == {0}


def test_an_empty_set_falls_back_to_its_anchor() -> None:
    frames = [PlainFrame(0, 5, {0}), PlainFrame(1, 3, {0}), PlainFrame(1, 4, {0})]
    world = World(2, 2, [None, None], frames, [PlainSet(0, []), PlainSet(1, [(2, 1.0)])])
    found = score(
        dataset_of(world), ClassAnswers.from_labels("m", np.array([0, 0, 1])), options=ScoreOptions(bootstrap=False)
    )
    assert (found.acc_orig.count, found.acc_pmk.count, found.acc_pmk.n) == (2, 1, 2)


def test_label_source_decides_which_labels_judge_a_member() -> None:
    frames = [PlainFrame(0, 0, {0}), PlainFrame(0, 1, {1})]
    labels = ClassAnswers.from_labels("m", np.array([0, 1]))
    own = World(1, 2, [None], frames, [PlainSet(0, [(1, 1.0)])], "frame")
    assert score(dataset_of(own), labels, options=QUICK).acc_pmk.count == 1
    assert score(dataset_of(replace(own, label_source="anchor")), labels, options=QUICK).acc_pmk.count == 0


def test_a_smaller_k_is_the_curve_cut_short() -> None:
    rng = np.random.default_rng(1)
    world = vid_world(rng, n_sets=30, k=4, n_classes=5, n_frames=None)
    predictions = predictions_of("m", random_scores(rng, world, 0.9))
    whole = score(dataset_of(world), predictions, options=QUICK)
    cut = score(dataset_of(world), predictions, options=replace(QUICK, k=2))
    assert cut.curve == whole.curve[:3]
    assert cut.acc_pmk == whole.curve[2].acc
    with pytest.raises(InvalidValue, match="at most 4"):
        score(dataset_of(world), predictions, options=replace(QUICK, k=5))


def test_one_matrix_of_draws_for_every_model_and_seeded() -> None:
    rng = np.random.default_rng(2)
    world = vid_world(rng, n_sets=40, k=3, n_classes=5, n_frames=250)
    dataset = dataset_of(world)
    predictions = predictions_of("m", random_scores(rng, world, 0.8))
    prepared = Prepared(dataset, ScoreOptions(replicates=300, control_seeds=5))
    one = score(dataset, predictions, prepared=prepared)
    assert one.to_json() == score(dataset, predictions, options=prepared.plan.options).to_json()
    other = score(dataset, predictions, options=replace(prepared.plan.options, seed=9))
    assert one.flip_rate.low != other.flip_rate.low
    median = one.per_class_median
    means = (one.flip_rate, one.right_wrong_flip_rate, one.confidence_swing)
    for estimate in (*means, median.acc_orig, median.acc_pmk, median.drop):
        assert estimate.low is not None
        assert estimate.low <= estimate.value <= estimate.high
        assert estimate.method == "video-cluster bootstrap"


@settings(max_examples=30)
@given(worlds(), st.integers(0, 5))
def test_offsets_over_all_models_use_common_members_only(world: World, seed: int) -> None:
    rng = np.random.default_rng(seed)
    dataset = dataset_of(world)
    prepared = Prepared(dataset, ScoreOptions(bootstrap=False, control_seeds=1))
    pool = OffsetPool(prepared.plan)
    data = PlainData(world)
    common, models = set(range(len(data.rows))), []
    for number in range(3):
        label = rng.integers(0, world.n_classes, len(world.frames))
        scored = rng.random(len(world.frames)) < 0.95
        whole = {n for n, rows in enumerate(data.rows) if all(scored[f] for f, _, _ in rows)}
        if not whole:
            continue
        score(dataset, ClassAnswers.from_labels(f"m{number}", label, scored=scored), prepared=prepared, pool=pool)
        common &= whole
        models.append(label)
    for offset, estimate in ((row.offset, row.error) for row in pool.estimates()):
        rows = [(n, f) for n in common for f, d, _ in data.rows[n] if d == offset]
        if not models or not rows:
            assert estimate.value is None
            continue
        wrong = [int(label[f]) not in data.truth(n, f) for label in models for n, f in rows]
        assert estimate.n == len(rows)
        assert estimate.value == pytest.approx(sum(wrong) / len(wrong))


def test_predictions_for_another_dataset_are_refused() -> None:
    world = vid_world(np.random.default_rng(0), n_sets=3, k=1, n_classes=2, n_frames=None)
    with pytest.raises(InvalidValue, match="one per frame"):
        score(dataset_of(world), ClassAnswers.from_labels("m", np.zeros(2, int)), options=QUICK)


def test_other_axes_have_no_neighbours_in_time() -> None:
    rng = np.random.default_rng(3)
    world = vid_world(rng, n_sets=12, k=2, n_classes=3, n_frames=None)
    dataset = dataset_of(world)
    dataset = replace(dataset, info=replace(dataset.info, axis="severity"))
    found = score(dataset, predictions_of("m", random_scores(rng, world, 0.9)), options=QUICK).to_json()
    assert found["flip_rate"]["value"] is None
    assert found["smoothing"] == []
    assert found["reasons"]["smoothing"]
    assert "reason" in found["time_curve"]
    assert found["acc_pmk"]["count"] is not None


@pytest.mark.skipif(not VID.is_dir(), reason="the real metadata is not at hand")
@pytest.mark.parametrize("accuracy", [0.0, 0.5, 0.9, 0.99, 1.0])
def test_real_metadata_with_random_predictions(accuracy: float) -> None:
    """1,109 sets, 22,179 frames: counts equal an independent plain computation for every k, exactly."""
    pmsets = json.loads((VID / "pmsets.json").read_text())
    labels = json.loads((VID / "labels.json").read_text())
    keys = sorted(labels)
    row = {key: place for place, key in enumerate(keys)}
    videos = sorted({key.rsplit("/", 1)[0] for key in keys})
    number = {name: place for place, name in enumerate(videos)}

    def index(key: str) -> int:
        return int(key.rsplit("/", 1)[1].split(".")[0])

    frames = [PlainFrame(number[key.rsplit("/", 1)[0]], index(key), set(labels[key])) for key in keys]
    sets = [
        PlainSet(row[anchor], [(row[m], float(index(m) - index(anchor))) for m in members])
        for anchor, members in pmsets.items()
    ]
    world = World(10, 30, [None] * len(videos), frames, sets)
    dataset = dataset_of(world)
    assert (dataset.n_sets, len(dataset.frames)) == (1109, 22179)
    assert sum(not part.members for part in sets) == 1
    assert sum(len(part.members) == 20 for part in sets) == 889
    assert sum(len(frame.labels) > 1 for frame in frames) == 1514
    assert sum(len(frames[part.anchor].labels) > 1 for part in sets) == 79
    rng = np.random.default_rng(int(accuracy * 100))
    guess = [int(rng.choice(sorted(f.labels))) if rng.random() < accuracy else int(rng.integers(30)) for f in frames]
    found = score(dataset, ClassAnswers.from_labels("m", np.array(guess)), options=QUICK)
    for k, acc, drop in ((point.k, point.acc, point.drop) for point in found.curve):
        right = sum(
            all(guess[f] in frames[f].labels for f, d in [(part.anchor, 0.0), *part.members] if abs(d) <= k)
            for part in sets
        )
        assert acc.count == right
        assert acc.n == 1109
        assert drop.count == found.acc_orig.count - right
    assert sum(part.acc_orig.n for part in found.per_class) == 1191
    at = {row.offset: row.error.n for row in found.per_offset}
    assert (at[-10], at[0], at[10]) == (1009, 1109, 996)
    assert found.mean_frame.n == 22179


def uneven_world(sizes: list[int]) -> World:
    """Videos with so many sets each, every set an anchor and a neighbour of its own."""
    frames, sets = [], []
    for video, many in enumerate(sizes):
        for number in range(many):
            frames += [PlainFrame(video, 10 * number + step, {0}, None, "I") for step in (0, 1)]
            sets.append(PlainSet(len(frames) - 2, [(len(frames) - 1, 1.0)]))
    return World(1, 2, [Fraction(25)] * len(sizes), frames, sets)


def scored_world(world: World) -> ClassificationScore:
    rng = np.random.default_rng(0)
    return score(dataset_of(world), predictions_of("m", random_scores(rng, world, 0.8)), options=QUICK)


def test_effective_videos_stand_beside_the_figures_where_a_few_videos_dominate() -> None:
    sizes = [95] + [5] * 19
    found = scored_world(uneven_world(sizes))
    assert found.effective_videos == pytest.approx(190**2 / (95**2 + 19 * 25)) == pytest.approx(3.8)
    wanted = "a few of the 20 videos hold most of the 190 sets, so the intervals are based on 3.8 effective videos"
    assert found.notes[0] == wanted
    assert found.acc_orig.high - found.acc_orig.low > 0.15  # 0.09 by 19 degrees of freedom
    written = encode(found)
    assert written["effective_videos"] == found.effective_videos


def test_effective_videos_are_left_out_where_every_video_holds_as_many() -> None:
    found = scored_world(uneven_world([4] * 12))
    assert found.effective_videos is None
    assert "effective_videos" not in encode(found)
    mild = scored_world(uneven_world([4, 5] * 6))
    assert mild.effective_videos == pytest.approx(54**2 / (6 * 16 + 6 * 25))
    assert not any("effective" in note for found in (found, mild) for note in found.notes or ())


def test_errors_by_offset_over_models_count_the_members_there_are() -> None:
    """Every other set has no member at +1: with intervals, too, the mean there is over those that have one."""
    world = uneven_world([2] * 12)
    sets = [part if number % 2 else PlainSet(part.anchor, []) for number, part in enumerate(world.sets)]
    world = World(1, 2, world.rates, world.frames, sets)
    dataset, rng = dataset_of(world), np.random.default_rng(0)
    prepared = Prepared(dataset, ScoreOptions(replicates=50, control_seeds=5))
    pool = OffsetPool(prepared.plan)
    scores = [
        score(dataset, predictions_of(f"m{n}", random_scores(rng, world, 0.6)), prepared=prepared, pool=pool)
        for n in range(2)
    ]
    for place, (offset, n) in enumerate(((0, 24), (1, 12))):
        found = pool.estimates()[place]
        assert (found.offset, found.error.n) == (offset, n)
        assert found.error.value == pytest.approx(np.mean([one.per_offset[place].error.value for one in scores]))
        assert found.error.low <= found.error.value <= found.error.high


def test_a_pool_without_models_has_a_reason_at_every_offset() -> None:
    dataset = dataset_of(vid_world(np.random.default_rng(0), n_sets=6, k=2, n_classes=3, n_frames=None))
    plan = Prepared(dataset, ScoreOptions()).plan
    found = OffsetPool(plan).estimates()
    assert [one.offset for one in found] == plan.offsets.tolist()
    assert {one.error.reason for one in found} == {"no set is scored by every model"}


@pytest.mark.parametrize(("name", "least"), [("k", 0), ("replicates", 1), ("control_seeds", 1)])
def test_options_have_a_smallest_value(name: str, least: int) -> None:
    assert getattr(ScoreOptions(**{name: least}), name) == least
    with pytest.raises(InvalidValue, match=name):
        ScoreOptions(**{name: least - 1})
