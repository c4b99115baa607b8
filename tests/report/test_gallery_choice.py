"""The choice of flickers: what each model does on each set, and that the choice is fair, bounded and repeatable."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.analyses import gallery
from strobe.analyses.gallery import STATUSES, Classified
from strobe.core.answers import ClassAnswers
from strobe.core.errors import InvalidValue
from strobe.core.tables import Sets, texts


def choose(dataset, predictions, *, limit):
    return gallery.choose(dataset, [Classified(dataset, one) for one in predictions.values()], limit=limit)


def view(dataset, predictions, row):
    (one,) = gallery.views(dataset, [Classified(dataset, one) for one in predictions.values()], [row])
    return one


def plain_status(dataset, prediction, set_row):
    """The slow word on one set, straight from the definition."""
    rows = np.flatnonzero(dataset.sets.set == set_row)
    right = []
    for row in rows:
        frame = int(dataset.sets.frame[row])
        if not prediction.scored[frame]:
            return "unscored"
        right.append(int(prediction.label[frame]) in dataset.labels_of(frame))
    anchor = [bool(dataset.sets.is_anchor[row]) for row in rows].index(True)
    if not right[anchor]:
        return "wrong"
    return "holds" if all(right) else "breaks"


def test_counts_are_those_of_the_definition(painted):
    dataset, predictions, _, _ = painted
    found = choose(dataset, predictions, limit=100)
    for name, prediction in predictions.items():
        plain = [plain_status(dataset, prediction, row) for row in range(dataset.n_sets)]
        assert found.counts[name] == {status: plain.count(status) for status in STATUSES}
    flickers = {
        row
        for prediction in predictions.values()
        for row in range(dataset.n_sets)
        if plain_status(dataset, prediction, row) == "breaks"
    }
    assert found.n_flickers == len(flickers)
    shown = {one.set_row for one in found.sets}
    assert flickers <= shown  # the limit is larger than the data: all of them are there


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), limit=st.integers(0, 30), share=st.floats(0, 0.3))
def test_any_predictions_give_a_lawful_choice(seed, limit, share, painted):
    dataset, _, _, _ = painted
    rng = np.random.default_rng(seed)
    n = len(dataset.frames)
    models = {
        name: ClassAnswers.from_labels(
            name,
            np.where(rng.random(n) < 0.85, dataset.labels.label, rng.integers(-1, 4, n)),
            scored=rng.random(n) >= share,
        )
        for name in ("a", "b")
    }
    found = choose(dataset, models, limit=limit)
    rows = [one.set_row for one in found.sets]
    assert len(rows) <= limit
    assert len(set(rows)) == len(rows)
    for one in found.sets:
        for model in one.models:
            assert model.status == plain_status(dataset, models[model.model], one.set_row)
            assert (model.breaker is not None) == (model.status == "breaks")
            if model.breaker is not None:
                wrong = np.abs(one.distance[~model.right])
                assert not model.right[model.breaker]
                assert abs(one.distance[model.breaker]) == wrong.min()
    again = choose(dataset, models, limit=limit)
    assert [one.set_row for one in again.sets] == rows


def test_every_model_and_class_that_flickers_is_shown_before_any_has_two(painted):
    dataset, predictions, _, _ = painted
    everything = choose(dataset, predictions, limit=1000)
    kinds = {
        (model.model, one.labels[0]) for one in everything.sets for model in one.models if model.status == "breaks"
    }
    some = choose(dataset, predictions, limit=2 * len(kinds))
    seen = {(model.model, one.labels[0]) for one in some.sets for model in one.models if model.status == "breaks"}
    assert seen == kinds


def test_held_sets_have_a_place_but_not_the_first(painted):
    dataset, predictions, _, _ = painted
    found = choose(dataset, predictions, limit=12)
    held = [all(model.status == "holds" for model in one.models) for one in found.sets]
    assert sum(held) == 2
    assert held == sorted(held)


def test_truth_is_the_probability_of_the_right_answer_and_confidence_that_of_the_prediction(painted):
    dataset, predictions, _, _ = painted
    one = view(dataset, predictions, 3)
    for model in one.models:
        table = predictions[model.model].probability
        for i, row in enumerate(one.rows):
            label = dataset.labels_of(int(row))[0]
            assert model.truth[i] == pytest.approx(table[row, label])
            assert model.confidence[i] == pytest.approx(table[row].max())


def test_labels_alone_have_no_confidence(painted):
    dataset, predictions, _, _ = painted
    plain = {name: ClassAnswers.from_labels(name, one.label) for name, one in predictions.items()}
    with_scores, without = choose(dataset, predictions, limit=9), choose(dataset, plain, limit=9)
    assert without.counts == with_scores.counts
    assert np.isnan(without.sets[0].models[0].confidence).all()
    assert np.isnan(without.sets[0].models[0].truth).all()


def test_no_models_no_sets(painted):
    dataset, _, _, _ = painted
    found = choose(dataset, {}, limit=5)
    assert found.sets == ()
    assert found.n_sets == dataset.n_sets


def test_predictions_of_another_dataset_are_refused(painted):
    dataset, _, _, _ = painted
    with pytest.raises(InvalidValue, match="one per frame"):
        choose(dataset, {"m": ClassAnswers.from_labels("m", np.zeros(3, dtype=int))}, limit=5)


def sliding(dataset, step):
    """The same images with a set around every `step`-th frame: two neighbours show nearly the same."""
    n, k = 11, 2
    anchors = [(v, i) for v in range(len(dataset.videos)) for i in range(k, n - k, step)]
    rows = [(place, v * n + i + d, float(d)) for place, (v, i) in enumerate(anchors) for d in range(-k, k + 1)]
    sets = Sets(
        set_id=texts([f"clip{v:03d}@{i}" for v, i in anchors]), set=np.array([row[0] for row in rows]),
        frame=np.array([row[1] for row in rows]), distance=np.array([row[2] for row in rows]),
        is_anchor=np.array([row[2] == 0 for row in rows]),
    )  # fmt: skip
    return replace(dataset, sets=sets, info=replace(dataset.info, k=k))


def test_of_overlapping_sets_one_is_shown(painted):
    dataset, predictions, _, _ = painted
    dense = sliding(dataset, 1)
    found = choose(dense, predictions, limit=24)
    assert found.thinned
    assert len(found.sets) >= 8
    for one in found.sets:
        for other in found.sets:
            if one.set_row != other.set_row:
                assert one.rows[one.anchor] not in other.rows
    assert not choose(dataset, predictions, limit=24).thinned
