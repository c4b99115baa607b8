"""Parts of a classifier's score against plain references: medians over classes, all classes of a model, arguments."""

from dataclasses import replace
from fractions import Fraction
from statistics import median

import made_background as made
import numpy as np
import pytest

from strobe.analyses.classification import Prepared, all_classes, score
from strobe.analyses.plan import ScoreOptions
from strobe.core.answers import ClassAnswers, State
from strobe.core.errors import InvalidValue, StrobeError
from strobe.core.labels import LabelSpace
from strobe.core.variants import Variants
from strobe.metrics.intervals import proportion
from strobe.studies.temporal.records import TimeCurve
from vid_shaped import PlainFrame, PlainSet, World, dataset_of, predictions_of, random_scores, vid_world

QUICK = ScoreOptions(bootstrap=False, control_seeds=1, windows=(), alphas=())


def test_medians_over_classes_have_the_percentiles_of_plain_draws() -> None:
    rng = np.random.default_rng(7)
    world = vid_world(rng, n_sets=15, k=2, n_classes=6, n_frames=None)
    dataset = dataset_of(world)
    prepared = Prepared(dataset, ScoreOptions(replicates=80, control_seeds=1, windows=(), alphas=()))
    found = score(dataset, predictions_of("m", random_scores(rng, world, 0.7)), prepared=prepared)
    labels = [world.frames[part.anchor].labels for part in world.sets]
    outcomes = {"acc_orig": found.right_at(0), "acc_pmk": found.right_at(2)}
    outcomes["drop"] = outcomes["acc_orig"] & ~outcomes["acc_pmk"]
    draws = prepared.plan.bootstrap
    for name, right in outcomes.items():
        medians, missing = [], 0
        for weights in draws.weights.astype(int).tolist():
            rows = [row for row in range(15) for _ in range(weights[draws.place[row]])]
            classes = sorted({label for row in rows for label in labels[row]})
            shares = [np.mean([right[row] for row in rows if label in labels[row]]) for label in classes]
            medians.append(median(shares))
            missing += len(classes) < found.per_class_median.n_classes
        assert missing, "some draws lack a class"
        part = getattr(found.per_class_median, name)
        assert (part.low, part.high) == pytest.approx(tuple(np.percentile(medians, [2.5, 97.5])))


def test_all_classes_of_a_model_on_originals_and_on_each_variant_at_its_highest_level() -> None:
    data = made.ladder(12, absent={"grey": 3}, contexts=(1.0, 1.5))
    rungs = [replace(one, role="shown") if one.variant == "zoom" else one for one in data.variants]
    data = replace(data, variants=Variants.of(rungs))
    source = LabelSpace.of_names("more", ["cat", *reversed(made.CLASSES), "dog"])
    rng = np.random.default_rng(2)
    own_label = rng.integers(0, 6, len(data.frames)).astype(np.int32)
    scored = rng.random(len(data.frames)) < 0.9
    answers = ClassAnswers.from_labels("m", rng.integers(0, 4, len(data.frames)), scored=scored)
    answers = replace(answers, own_label=own_label)
    found = all_classes(data, answers, source, interval="auto")
    assert found is not None
    assert (found.source, found.n_own, found.n_all) == ("more", 4, 6)
    keys = data.frames.key.tolist()
    pictures: dict[tuple[str, float | None], list[int]] = {("anchor", None): []}
    for one in data.variants:
        if one.role != "shown":
            pictures[one.variant, one.levels[-1]] = []
    for one in data:
        for frame, key in (
            (one.anchor, ("anchor", None)),
            *((part.frame, (one.variant, part.distance)) for part in one.members),
        ):
            row = keys.index(frame.key)
            if key in pictures and scored[row] and row not in pictures[key]:
                pictures[key].append(row)
    assert [(one.variant, one.level) for one in found.pictures] == list(pictures)
    for one, rows in zip(found.pictures, pictures.values(), strict=True):
        truth = np.array([made.CLASSES[data.labels_of(row)[0]] for row in rows])
        video = data.frames.video[rows]
        named = np.array([made.CLASSES[answers.label[row]] for row in rows])
        assert one.own == proportion(named == truth, video)
        assert one.all == proportion(np.array([source.names[own_label[row]] for row in rows]) == truth, video)


def test_all_classes_are_unknown_without_the_model_s_own_answer_or_its_classes() -> None:
    data = made.ladder(4, masks=False)
    answers = ClassAnswers.from_labels("m", np.zeros(len(data.frames), dtype=int))
    source = LabelSpace.of_names("more", [*made.CLASSES, "dog"])
    assert all_classes(data, answers, source, interval="auto") is None
    known = replace(answers, own_label=np.zeros(len(data.frames), dtype=np.int32))
    assert all_classes(data, known, LabelSpace.of_names("few", made.CLASSES[:3]), interval="auto") is None
    unseen = replace(known, state=np.where(data.frames.index == 0, State.MISSING, known.state).astype(np.uint8))
    found = all_classes(data, unseen, source, interval="auto")
    assert found is not None
    assert (found.pictures[0].own.value, found.pictures[0].all.reason) == (None, "no image has a prediction")


def test_arguments_of_a_score() -> None:
    rng = np.random.default_rng(0)
    world = vid_world(rng, n_sets=12, k=2, n_classes=3, n_frames=None)
    dataset, answers = dataset_of(world), predictions_of("net", random_scores(rng, world, 0.8))
    found = score(dataset, answers, options=QUICK)
    assert (found.model, found.standard, found.model_type) == ("net", False, None)
    space, classes = dataset.info.label_space, sorted({label for frame in world.frames for label in frame.labels})
    wanted = [(space.ids[label], space.names[label]) for label in classes]
    assert [(part.label, part.name) for part in found.per_class] == wanted
    marked = score(dataset, answers, options=QUICK, standard=True, model_type="cnn")
    assert (marked.standard, marked.model_type) == (True, "cnn")
    label = answers.label.copy()
    label[-1] = 3
    with pytest.raises(InvalidValue, match="classes below 3, got 3"):
        score(dataset, ClassAnswers.from_labels("net", label), options=QUICK)
    label[-1] = 2
    score(dataset, ClassAnswers.from_labels("net", label), options=QUICK)
    none = ClassAnswers.from_labels("net", answers.label, scored=np.zeros(len(answers.label), dtype=bool))
    with pytest.raises(StrobeError, match="net: none of the 12 sets has predictions"):
        score(dataset, none, options=QUICK)


def test_a_constant_answer_has_a_note() -> None:
    frames = [PlainFrame(video, index, {video % 2}) for video in range(8) for index in range(2)]
    dataset = dataset_of(World(1, 2, [None] * 8, frames, [PlainSet(2 * v, [(2 * v + 1, 1.0)]) for v in range(8)]))
    found = score(dataset, ClassAnswers.from_labels("m", np.zeros(16, dtype=int)), options=QUICK)
    assert found.notes is not None
    assert any("on every frame" in note for note in found.notes)


def test_the_curve_against_time_has_a_point_every_twentieth_rounded_up() -> None:
    rng = np.random.default_rng(0)
    for k, points in ((10, range(0, 401, 20)), (3, range(0, 121, 10)), (2, range(0, 81, 5))):
        frames = [PlainFrame(video, index, {0}) for video in range(3) for index in range(k + 1)]
        sets = [PlainSet(v * (k + 1), [(v * (k + 1) + i, float(i)) for i in range(1, k + 1)]) for v in range(3)]
        world = World(k, 2, [Fraction(25)] * 3, frames, sets)
        found = score(dataset_of(world), predictions_of("m", random_scores(rng, world, 0.8)), options=QUICK)
        assert isinstance(found.time_curve, TimeCurve)
        assert [point.ms for point in found.time_curve.points] == list(points)


def test_shares_that_few_videos_decide_have_a_note() -> None:
    frames = [PlainFrame(video, index, {0}) for video in range(20) for index in range(4)]
    dataset = dataset_of(World(0, 2, [None] * 20, frames, [PlainSet(row, []) for row in range(80)]))
    label = (np.arange(80) < 6).astype(int)
    found = score(dataset, ClassAnswers.from_labels("m", label), options=QUICK)
    wanted = "80 sets come from 20 videos, and few videos decide a share near 0 or 100 %"
    assert any(note.startswith(wanted) for note in found.notes or ())
    right = score(dataset, ClassAnswers.from_labels("m", label * 0), options=QUICK)
    assert not any(note.startswith("80 sets") for note in right.notes or ())


def test_an_option_out_of_range_is_refused() -> None:
    assert ScoreOptions(alphas=(1.0, 0.01), windows=(0,)).alphas == (1.0, 0.01)
    for alpha in (0.0, 1.01):
        with pytest.raises(InvalidValue, match="alphas"):
            ScoreOptions(alphas=(0.5, alpha))
    with pytest.raises(InvalidValue, match="windows"):
        ScoreOptions(windows=(1, -1))
