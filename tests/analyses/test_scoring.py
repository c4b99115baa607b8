"""Every model on every set, against the same in slow plain Python; the sets two models part on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.analyses.classification import score
from strobe.analyses.comparison import MOST_NAMED, change, compare
from strobe.analyses.plan import ScoreOptions
from strobe.analyses.scoring import class_sets, set_facts
from strobe.core.answers import ClassAnswers
from strobe.core.dataset import Dataset
from vid_shaped import dataset_of, random_scores, vid_world

QUICK = ScoreOptions(bootstrap=False, control_seeds=1, windows=(), alphas=())


def plain_rows(dataset: Dataset, answers: ClassAnswers, k: int) -> dict[str, dict[str, object]]:
    """The table of one model as a loop over records."""
    out: dict[str, dict[str, object]] = {}
    row_of = {key: row for row, key in enumerate(dataset.frames.key.tolist())}
    for place, one in enumerate(dataset):
        members = [(0.0, one.anchor), *((m.distance, m.frame) for m in one.members if abs(m.distance) <= k)]
        rows = [(distance, row_of[frame.key]) for distance, frame in members]
        if not all(answers.scored[row] for _, row in rows):
            continue
        judged = {row: dataset.labels_of(row) for _, row in rows}
        right = {row: int(answers.label[row]) in judged[row] for _, row in rows}
        wrong = [abs(distance) for distance, row in rows if not right[row]]
        found: dict[str, object] = {"anchor_right": right[rows[0][1]], "holds": not wrong}
        found["first_wrong_distance"] = min(wrong) if wrong else None
        if len(rows) == 1:
            found["worst_member"] = None
        else:
            shares = {row: max([answers.probability[row][c] for c in judged[row]], default=0.0) for _, row in rows}
            found["worst_member"] = min(rows[1:], key=lambda r: (right[r[1]], shares[r[1]], abs(r[0]), r[0]))[0]
        out[str(dataset.sets.set_id[place])] = found
    return out


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(0, 4))
def test_every_row_is_what_a_plain_loop_finds(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    world = vid_world(rng, n_sets=12, k=4, n_classes=3, n_frames=None)
    dataset = dataset_of(world)
    scores = random_scores(rng, world, 0.7)
    scored = rng.random(len(scores)) > 0.02
    answers = ClassAnswers.from_scores("m", np.asarray(scores), kind="logits", scored=scored)
    facts = set_facts(dataset)
    found = class_sets(dataset, facts, answers, k=k)
    expected = plain_rows(dataset, answers, k)
    assert facts.columns["set"][found.row].tolist() == list(expected)
    for place, row in enumerate(expected.values()):
        for name, value in row.items():
            cell = found.columns[name][place].item()
            assert cell == value or (value is None and np.isnan(cell)), (name, place)


def test_labels_alone_take_the_nearest_wrong_member() -> None:
    rng = np.random.default_rng(4)
    world = vid_world(rng, n_sets=3, k=2, n_classes=3, n_frames=None)
    dataset = dataset_of(world)
    answers = ClassAnswers.from_labels("m", np.full(len(dataset.frames), -1))
    found = class_sets(dataset, set_facts(dataset), answers)
    assert not found.columns["holds"].any()
    assert np.abs(found.columns["worst_member"]).tolist() == [1.0, 1.0, 1.0]
    names = found.names["worst_answer"]
    assert names[found.columns["worst_answer"]].tolist() == ["none of the classes"] * 3
    assert np.isnan(found.columns["worst_confidence"]).all()


def test_a_comparison_names_the_sets_that_one_model_alone_holds() -> None:
    rng = np.random.default_rng(9)
    world = vid_world(rng, n_sets=120, k=3, n_classes=4, n_frames=None)
    dataset = dataset_of(world)
    answers = [
        ClassAnswers.from_scores(name, np.asarray(random_scores(rng, world, share)), kind="logits")
        for name, share in (("before", 0.8), ("after", 0.9))
    ]
    whole = next(one for one in compare(dataset, [score(dataset, a, options=QUICK) for a in answers])
                 if one.metric == "acc_pmk")  # fmt: skip
    facts = set_facts(dataset)
    held = [facts.columns["set"][one.row][one.columns["holds"]].tolist()
            for one in (class_sets(dataset, facts, a) for a in answers)]  # fmt: skip
    won, lost = set(held[1]) - set(held[0]), set(held[0]) - set(held[1])
    assert (whole.only_b, whole.only_a) == (len(won), len(lost))
    assert set(whole.sets_only_b or ()) <= won
    assert len(whole.sets_only_b or ()) == min(len(won), MOST_NAMED)
    assert set(whole.sets_only_a or ()) <= lost
    assert len(whole.sets_only_a or ()) == min(len(lost), MOST_NAMED)
    told, back = change(whole, before="before"), change(whole, before="after")
    assert told is not None
    assert back is not None
    assert (told.newly_held, told.newly_broken) == (len(won), len(lost)) == (back.newly_broken, back.newly_held)
    assert told.sentence() == (
        f"From before to after: {len(won)} sets newly held, {len(lost)} sets newly broken, of 120."
    )
    assert change(compare(dataset, [score(dataset, a, options=QUICK) for a in answers])[0]) is None


def test_many_models_name_few_sets() -> None:
    rng = np.random.default_rng(2)
    world = vid_world(rng, n_sets=40, k=2, n_classes=3, n_frames=None)
    dataset = dataset_of(world)
    scores = [
        score(dataset, ClassAnswers.from_scores(f"m{i}", np.asarray(random_scores(rng, world, 0.8)), kind="logits"),
              options=QUICK)
        for i in range(30)
    ]  # fmt: skip
    found = compare(dataset, scores)
    assert sum(len(one.sets_only_a or ()) + len(one.sets_only_b or ()) for one in found) <= 4000
    assert max(len(one.sets_only_a or ()) for one in found) == 4000 // (30 * 29)


@pytest.mark.parametrize("metric", ["acc_orig", "drop"])
def test_only_whole_sets_are_named(metric: str) -> None:
    rng = np.random.default_rng(3)
    world = vid_world(rng, n_sets=30, k=2, n_classes=3, n_frames=None)
    dataset = dataset_of(world)
    scores = [
        score(dataset, ClassAnswers.from_scores(name, np.asarray(random_scores(rng, world, 0.8)), kind="logits"),
              options=QUICK)
        for name in "ab"
    ]  # fmt: skip
    (one,) = [one for one in compare(dataset, scores) if one.metric == metric]
    assert one.sets_only_a is None
    assert one.sets_only_b is None
