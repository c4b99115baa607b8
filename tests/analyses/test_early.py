"""pm-k from fewer frames: the same figures as from all of them, and hardly more frames than could be."""

import json
from dataclasses import replace
from fractions import Fraction

import jsonschema
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from strobe.analyses.classification import score
from strobe.analyses.comparison import compare
from strobe.analyses.early import STOPPED, EarlyStopRounds, Failures, is_stopped, open_sets, saved, settled_sets
from strobe.analyses.model_results import ClassificationScore
from strobe.analyses.plan import Plan, ScoreOptions
from strobe.analyses.results import Results, dataset_facts, results_schema
from strobe.analyses.scoring import class_sets, set_facts
from strobe.core.answers import ClassAnswers, State
from strobe.core.codec import decode, encode
from strobe.core.dataset import Dataset
from strobe.core.tables import Labels
from vid_shaped import PlainFrame, PlainSet, World, dataset_of, predictions_of, random_scores, vid_world

QUICK = ScoreOptions(bootstrap=False, control_seeds=5)


def overlapping(rng: np.random.Generator) -> World:
    """Few short videos whose sets share frames, of two classes; some frames have no label, some two."""
    k = int(rng.integers(0, 4))
    frames, sets, rates = [], [], []
    for video in range(int(rng.integers(1, 4))):
        rates.append(Fraction(int(rng.choice([25, 50]))))
        begin, n = len(frames), int(rng.integers(1, 6))
        for index in range(n):
            labels = {label for label in range(2) if rng.random() < 0.6}
            frames.append(PlainFrame(video, index, labels, None, "I"))
        for anchor in rng.permutation(n)[: int(rng.integers(1, 4))].tolist():
            near = [
                (begin + other, float(other - anchor))
                for other in range(n)
                if other != anchor and abs(other - anchor) <= k and rng.random() < 0.8
            ]
            sets.append(PlainSet(begin + anchor, near))
    return World(k, 2, rates, frames, sets, str(rng.choice(["frame", "anchor"])))


def stopped(plan: Plan, failures: Failures, full: ClassAnswers) -> ClassAnswers:
    """The answers of a model that stops early, of those it would give; frames it cannot read are found all the same."""
    asking, asked = EarlyStopRounds(plan, failures.risk()), np.zeros(len(full), dtype=bool)
    while len(rows := asking.next()):
        assert not asked[rows].any()
        assert (np.diff(rows) > 0).all()
        asked[rows] = True
        asking.tell(rows, full)
    asked |= full.state == State.UNREADABLE
    return replace(
        full, state=np.where(asked, full.state, State.SKIPPED).astype(np.uint8), label=np.where(asked, full.label, -1)
    )


def fewest(plan: Plan, full: ClassAnswers) -> int:
    """The fewest frames that settle every set, tried one by one."""
    wrong = ~plan.view.right_rows(full.label)
    sets = []
    for number in range(plan.n_sets):
        rows = plan.set_row == number
        if (full.state[plan.frame[rows]] != State.UNREADABLE).all():
            bits = [int(sum(1 << f for f in set(plan.frame[rows & use].tolist()))) for use in (plan.is_anchor, wrong)]
            sets.append((*bits, int(sum(1 << f for f in set(plan.frame[rows].tolist())))))

    def settles(chosen: int) -> bool:
        return all(chosen & whole == whole or (chosen & anchor and chosen & bad) for anchor, bad, whole in sets)

    return min(chosen.bit_count() for chosen in range(1 << len(full)) if settles(chosen))


def _of_figures(found: ClassificationScore) -> list[str]:
    """Its notes but for those on its answers: of some frames less is known."""
    own = found.answers.sentences() if found.answers is not None else []
    return [note for note in found.notes or () if note not in own]


def same_where_settled(early: ClassificationScore, full: ClassificationScore) -> None:
    for name in (
        "acc_orig",
        "acc_pmk",
        "drop",
        "per_class",
        "per_class_median",
        "by_fps",
        "unscored",
        "bounds",
    ):
        assert getattr(early, name) == getattr(full, name), name
    assert _of_figures(early) == _of_figures(full)
    assert early.given_right_anchor.sets == full.given_right_anchor.sets
    assert early.right_at(0).tolist() == full.right_at(0).tolist()
    assert early.right_at(early.k).tolist() == full.right_at(full.k).tolist()


def left_out(found: ClassificationScore) -> None:
    assert found.curve == found.per_offset == found.smoothing == found.frame_types == ()
    assert not found.by_hint
    assert found.coverage is None
    assert (found.first_failure.n, found.first_failure.survival) == (0, ())
    for one in (found.mean_frame, found.flip_rate, found.right_wrong_flip_rate, found.confidence_swing):
        assert (one.value, one.reason) == (None, STOPPED)
    assert found.given_right_anchor.members.value is None
    assert {"curve", "per_offset", "first_failure", "smoothing", "frame_types", "by_hint"} <= found.reasons.keys()


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1))
def test_figures_are_those_of_a_full_run_from_at_least_the_fewest_frames(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dataset = dataset_of(overlapping(rng))
    assume(dataset.labelled.any())
    judged = dataset.labelled_sets()
    plan, scored, n = Plan(dataset, QUICK), Plan(judged, QUICK), len(dataset.frames)
    failures, pairs = Failures(plan), []
    for number in range(2):
        scores = rng.integers(-2, 3, (n, 2)).astype(np.float32)
        reasons = {row: "gone" for row in range(n) if rng.random() < 0.05}
        full = ClassAnswers.from_scores(f"m{number}", scores, kind="logits", reasons=reasons)
        if rng.random() < 0.3:
            full = replace(ClassAnswers.from_labels(full.model, full.label), state=full.state)
        early = stopped(plan, failures, full)
        failures.add(early)
        assert not open_sets(plan, early).any()
        found = saved(plan, early)
        assert found.least <= fewest(plan, full) <= found.ran <= found.frames
        whole = np.logical_and.reduceat(full.scored[plan.frame], plan.start)
        assert settled_sets(plan, early).tolist() == whole.tolist()
        if not (whole & dataset.labelled).any():
            continue
        pairs.append((score(judged, early, options=QUICK), score(judged, full, options=QUICK)))
        same_where_settled(*pairs[-1])
        if is_stopped(scored, early):
            left_out(pairs[-1][0])
            assert pairs[-1][0].stopped_early == saved(scored, early)
        else:
            assert pairs[-1][0] == pairs[-1][1]
    if len(pairs) == 2:
        given_early, given_full = (
            [replace(one, sets_only_a=None, sets_only_b=None, sentence="") for one in compare(judged, some)]
            for some in zip(*pairs, strict=True)
        )
        assert given_early == given_full


def vid(rng: np.random.Generator, skill: float) -> tuple[Dataset, list[ClassAnswers]]:
    """Sets apart, and three models alike: the farther from the anchor the more often wrong, on the same sets."""
    world = vid_world(rng, n_sets=150, k=10, n_classes=5, n_frames=None)
    dataset = dataset_of(world)
    sets = dataset.sets
    hard, drift = (
        rng.normal(size=dataset.n_sets)[sets.set],
        np.abs(sets.distance) / 10 * rng.normal(size=dataset.n_sets)[sets.set],
    )
    truth = np.array([min(frame.labels) for frame in world.frames])
    answers = []
    for number in range(3):
        margin = np.zeros(len(truth))
        margin[sets.frame] = skill + hard + drift + 0.3 * rng.normal(size=len(sets.frame))
        scores = np.zeros((len(truth), 5), dtype=np.float32)
        scores[np.arange(len(truth)), truth] = margin
        answers.append(ClassAnswers.from_scores(f"m{number}", scores, kind="logits"))
    return dataset, answers


@pytest.mark.parametrize("skill", [0.3, 1.2])
def test_hardly_more_frames_than_could_be_and_least_is_what_it_says(skill: float) -> None:
    dataset, models = vid(np.random.default_rng(3), skill)
    plan = Plan(dataset, QUICK)
    failures = Failures(plan)
    for full in models:
        early = stopped(plan, failures, full)
        failures.add(early)
        found, whole = saved(plan, early), score(dataset, full, options=QUICK)
        same_where_settled(score(dataset, early, options=QUICK), whole)
        held, broken = whole.right_at(whole.k), whole.right_at(0) & ~whole.right_at(whole.k)
        sizes = np.bincount(plan.set_row)
        assert found.least == sizes[held].sum() + 2 * broken.sum() + (~whole.right_at(0)).sum()
        assert found.ran <= 1.15 * found.least
        assert found.ran < found.frames


def test_what_was_skipped_is_not_missing_and_what_is_missing_is_not_skipped() -> None:
    rng = np.random.default_rng(1)
    world = vid_world(rng, n_sets=20, k=3, n_classes=3, n_frames=None)
    dataset = dataset_of(world)
    full = predictions_of("m", random_scores(rng, world, 0.8), np.ones(len(world.frames), dtype=bool))
    plan = Plan(dataset, QUICK)
    early = stopped(plan, Failures(plan), full)
    missing = replace(early, state=np.where(early.state == State.SKIPPED, State.MISSING, early.state).astype(np.uint8))
    found, refused = score(dataset, early, options=QUICK), score(dataset, missing, options=QUICK)
    assert found.unscored.sets == 0
    assert refused.stopped_early is None
    assert refused.unscored.sets == int((~found.right_at(found.k)).sum()) > 0
    # At a smaller k not every set is settled: those that are not are counted apart.
    nearer = Plan(dataset, replace(QUICK, k=1))
    assert score(dataset, early, options=replace(QUICK, k=1)).unscored.sets == int(open_sets(nearer, early).sum()) > 0
    rows = class_sets(dataset, set_facts(dataset), early)
    assert set(rows.columns) == {"anchor_right", "holds"}
    assert rows.columns["holds"].tolist() == found.right_at(found.k).tolist()


def test_results_say_so_and_are_read_back() -> None:
    rng = np.random.default_rng(2)
    world = vid_world(rng, n_sets=12, k=2, n_classes=3, n_frames=None)
    dataset = dataset_of(world)
    full = predictions_of("m", random_scores(rng, world, 0.8), np.ones(len(world.frames), dtype=bool))
    plan = Plan(dataset, QUICK)
    one = score(dataset, stopped(plan, Failures(plan), full), options=QUICK)
    written = encode(Results(dataset=dataset_facts(dataset), models={"m": one}))
    jsonschema.validate(json.loads(json.dumps(written)), results_schema())
    assert set(written["models"]["m"]["stopped_early"]) == {"frames", "ran", "least"}
    assert decode(Results, written).models["m"].stopped_early == one.stopped_early
    assert "stopped_early" not in score(dataset, full, options=QUICK).to_json()


def test_overlapping_sets_that_break_share_a_wrong_frame() -> None:
    frames = [PlainFrame(0, index, {0}) for index in range(5)] + [PlainFrame(1, index, {0}) for index in range(2)]
    sets = [PlainSet(0, [(1, 1.0), (2, 2.0)]), PlainSet(4, [(2, -2.0), (3, -1.0)]), PlainSet(5, [(6, 1.0)])]
    dataset = dataset_of(World(2, 2, [Fraction(25), Fraction(25)], frames, sets))
    answers = ClassAnswers.from_labels("m", np.array([0, 0, 1, 0, 0, 0, 1]))
    found = saved(Plan(dataset, QUICK), answers)
    # Three anchors, the wrong frame that two sets share, and the wrong frame of the third set.
    assert (found.frames, found.ran, found.least) == (7, 7, 5)


def test_the_frame_beside_a_doubtful_answer_comes_first() -> None:
    frames = [PlainFrame(0, index, {0}) for index in range(5)]
    world = World(2, 2, [Fraction(25)], frames, [PlainSet(2, [(place, place - 2.0) for place in (0, 1, 3, 4)])])
    plan = Plan(dataset_of(world), QUICK)
    scores = np.array([[0.1, 0.0], [9.0, 0.0], [9.0, 0.0], [9.0, 0.0], [9.0, 0.0]], dtype=np.float32)
    answers, rounds = ClassAnswers.from_scores("m", scores, kind="logits"), EarlyStopRounds(plan, np.zeros(5))
    order = []
    while len(rows := rounds.next()):
        order.append(rows.tolist())
        rounds.tell(rows, answers)
    # After the anchor, the farthest frame. The model doubts its answer there, so the frame next to it comes next.
    assert order[:3] == [[2], [0], [1]]


def test_the_risk_of_a_frame_is_its_share_of_errors_with_the_distance_as_a_prior() -> None:
    rng = np.random.default_rng(4)
    world = vid_world(rng, n_sets=6, k=3, n_classes=3, n_frames=None)
    plan, n = Plan(dataset_of(world), QUICK), len(world.frames)
    failures, wrong, seen = Failures(plan), np.zeros(n), np.zeros(n)
    for number in range(3):
        scored = rng.random(n) < 0.8
        answers = predictions_of(f"m{number}", random_scores(rng, world, 0.6), scored)
        right = np.array([label in frame.labels for label, frame in zip(answers.label, world.frames, strict=True)])
        failures.add(answers)
        wrong, seen = wrong + (scored & ~right), seen + scored
        prior = np.abs(plan.distance) / (10 * plan.k)
        assert failures.risk() == pytest.approx((wrong[plan.frame] + prior) / (seen[plan.frame] + 1))


def test_after_six_single_frames_each_round_predicts_twice_as_many() -> None:
    frames = [PlainFrame(0, index, {0}) for index in range(41)]
    world = World(20, 2, [Fraction(25)], frames, [PlainSet(20, [(i, i - 20.0) for i in range(41) if i != 20])])
    plan = Plan(dataset_of(world), QUICK)
    answers, rounds, sizes = ClassAnswers.from_labels("m", np.zeros(41, int)), EarlyStopRounds(plan, np.zeros(41)), []
    while len(rows := rounds.next()):
        sizes.append(len(rows))
        rounds.tell(rows, answers)
    assert sizes == [1, *[1] * 6, 2, 4, 8, 16, 4]


def test_a_set_that_broke_early_fails_at_k_and_skipped_frames_do_not_change_the_fingerprint() -> None:
    frames = [PlainFrame(video, index, {0}) for video in range(4) for index in range(5)]
    sets = [PlainSet(5 * v + 2, [(5 * v + i, i - 2.0) for i in (0, 1, 3, 4)]) for v in range(4)]
    dataset = dataset_of(World(2, 2, [Fraction(25)] * 4, frames, sets))
    label, state = np.zeros(20, dtype=int), np.zeros(20, dtype=np.uint8)
    label[[3, 8, 12]] = 1  # set 0 and set 1 break at distance 1, the anchor of set 2 is wrong, and set 3 holds
    state[[0, 1, 4, 5, 6, 9, 10, 11, 13, 14]] = State.SKIPPED

    def scored(*changes: tuple[int, int]) -> ClassificationScore:
        other, skipped = label.copy(), state.copy()
        for row, answer in changes:
            other[row], skipped[row] = answer, 0
        answers = ClassAnswers.from_labels("m", np.where(skipped == State.SKIPPED, -1, other))
        return score(dataset, replace(answers, state=skipped), options=QUICK)

    found = scored()
    assert found.first_wrong.tolist() == [2, 2, 0, 3]
    # Which members of a broken set were answered depends on earlier models, so they are not part of the fingerprint.
    assert scored((0, 1)).fingerprint == scored((4, 0)).fingerprint == found.fingerprint
    assert scored((12, 0), (10, 0), (11, 0), (13, 0), (14, 0)).fingerprint != found.fingerprint
    assert scored((15, 1)).fingerprint != found.fingerprint


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1))
def test_without_labels_flicker_is_exact_from_fewer_frames(seed: int) -> None:
    """A set stops at the first answer that differs from its anchor's; frames that cannot be read are counted."""
    rng = np.random.default_rng(seed)
    made = dataset_of(overlapping(rng))
    dataset = replace(made, labels=Labels(frame=made.labels.frame[:0], label=made.labels.label[:0]))
    plan, n = Plan(dataset, QUICK), len(dataset.frames)
    label = rng.integers(-1, 3, n)
    lost = {int(row): "gone" for row in np.flatnonzero(rng.random(n) < 0.05)}
    state = np.where(label < 0, State.OUTSIDE, State.ANSWERED).astype(np.uint8)
    state[list(lost)] = State.UNREADABLE
    full = ClassAnswers(model="m", kind="labels", label=label, state=state, reasons=lost)
    early = stopped(plan, Failures(plan), full)
    known = [bool((full.state[plan.frame[plan.set_row == one]] <= State.OUTSIDE).all()) for one in range(plan.n_sets)]
    assert settled_sets(plan, early).tolist() == known
    assert not open_sets(plan, early).any()
    for one in np.flatnonzero(known).tolist():
        rows, ran = plan.set_row == one, early.scored[plan.frame]
        anchor = label[plan.frame[rows & plan.is_anchor][0]]
        changes = bool((label[plan.frame[rows]] != anchor).any())
        assert bool((label[plan.frame[rows & ran]] != anchor).any()) == changes
        assert changes or ran[rows].all()
    assert saved(plan, early).least <= saved(plan, early).ran <= len(plan.frames_used)
