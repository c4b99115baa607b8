import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.core.errors import InvalidValue
from strobe.metrics.smoothing import delay, smooth_labels, smooth_votes

VARIANTS = [("centred", 0), ("centred", 2), ("causal", 0), ("causal", 3), ("ema", 1.0), ("ema", 0.3)]


@st.composite
def strips(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    sets, length, classes = draw(st.integers(1, 3)), draw(st.integers(1, 7)), draw(st.integers(1, 5))
    size = sets * length * classes
    raw = np.array(draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)), dtype=float) + 0.25
    probability = raw.reshape(sets, length, classes)
    if unlikely := draw(st.sampled_from([0, 9])):  # classes that never win: strips are smoothed without them
        probability = np.concatenate([probability, np.full((sets, length, unlikely), 0.01)], axis=2)
    probability /= probability.sum(axis=2, keepdims=True)
    present = np.array(draw(st.lists(st.booleans(), min_size=sets * length, max_size=sets * length)))
    present = present.reshape(sets, length)
    label = np.where(present, probability.argmax(axis=2), -1)
    return np.where(present[:, :, None], probability, np.nan), present, label


def whole(p: float) -> int:
    return int(p * 2.0**48)


def plain(
    probability: np.ndarray, present: np.ndarray, label: np.ndarray, s: int, i: int, method: str, parameter: float
) -> int:
    classes = range(probability.shape[2])
    if method == "ema":
        state, before = None, 0
        for j in range(i + 1):
            if not present[s, j]:
                continue
            weight = 1.0 if state is None else 1 - (1 - parameter) ** (j - before)
            old = [0.0 for _ in classes] if state is None else state
            state = [float(probability[s, j, c]) * weight + (1 - weight) * old[c] for c in classes]
            before, last_weight = j, weight
        if last_weight == 1.0:
            return int(label[s, i])
        return max(classes, key=lambda c: (whole(state[c]), -c))
    last = i + int(parameter) if method == "centred" else i
    inside = [j for j in range(i - int(parameter), last + 1) if 0 <= j < present.shape[1] and present[s, j]]
    if len(inside) == 1:
        return int(label[s, i])
    return max(classes, key=lambda c: (sum(whole(probability[s, j, c]) for j in inside), -c))


@given(strips())
def test_smoothing_equals_the_plain_reference(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    probability, present, label = case
    found = smooth_labels(probability, present, label, variants=VARIANTS)
    for (method, parameter), windowed in zip(VARIANTS, found, strict=True):
        for s, i in np.ndindex(*present.shape):
            expected = plain(probability, present, label, s, i, method, parameter) if present[s, i] else -1
            assert windowed.label[s, i] == expected, (method, parameter, s, i)


@given(strips())
def test_nothing_changes_without_a_window(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    probability, present, label = case
    odd = np.where(present, probability.shape[2] - 1 - label, -1)  # any class at all must come back as it went in
    for windowed in smooth_labels(probability, present, odd, variants=[("centred", 0), ("causal", 0), ("ema", 1.0)]):
        assert (windowed.label == odd).all()


@given(strips(), st.integers(0, 6))
def test_causal_smoothing_ignores_later_frames(case: tuple[np.ndarray, np.ndarray, np.ndarray], cut: int) -> None:
    probability, present, label = case
    cut = min(cut, present.shape[1] - 1)
    gone = present.copy()
    gone[:, cut + 1 :] = False
    variants = [("causal", 3), ("ema", 0.3)]
    whole_strip = smooth_labels(probability, present, label, variants=variants)
    cut_strip = smooth_labels(probability, gone, np.where(gone, label, -1), variants=variants)
    for one, two in zip(whole_strip, cut_strip, strict=True):
        assert (one.label[:, : cut + 1] == two.label[:, : cut + 1]).all()


@given(strips(), st.integers(0, 4))
def test_votes_equal_counting(case: tuple[np.ndarray, np.ndarray, np.ndarray], width: int) -> None:
    probability, present, label = case
    label = np.where(present, label - 1, -1)  # −1 is also a prediction: outside the classes
    n_classes = probability.shape[2]
    variants = [("centred", width), ("causal", width)]
    found = smooth_votes(label, present, variants=variants, n_classes=n_classes)
    for (method, _), windowed in zip(variants, found, strict=True):
        for s, i in np.ndindex(*present.shape):
            if not present[s, i]:
                assert windowed.label[s, i] == -1
                continue
            last = i + width if method == "centred" else i
            inside = [j for j in range(i - width, last + 1) if 0 <= j < present.shape[1] and present[s, j]]
            votes = [int(label[s, j]) for j in inside]
            top = max(votes.count(v) for v in votes)
            winners = {v for v in votes if votes.count(v) == top}
            assert windowed.label[s, i] == (winners.pop() if len(winners) == 1 else label[s, i])
            assert windowed.complete[s, i] == (len(inside) == (last - i + width + 1))


def test_a_gap_weighs_as_its_length() -> None:
    p = np.array([[[1.0, 0.0], [np.nan, np.nan], [0.0, 1.0]]])
    present, label = np.array([[True, False, True]]), np.array([[0, -1, 1]])
    # Across a gap of two the new frame weighs 1 − 0.7² = 0.51; without the gap it would weigh 0.3 and lose.
    assert smooth_labels(p, present, label, variants=[("ema", 0.3)])[0].label.tolist() == [[0, -1, 1]]
    assert smooth_labels(p[:, ::2], present[:, ::2], label[:, ::2], variants=[("ema", 0.3)])[0].label.tolist() == [
        [0, 0]
    ]


def test_delays() -> None:
    assert (delay("centred", 5), delay("causal", 5), delay("ema", 0.2)) == (5.0, 2.5, pytest.approx(4.0))


@pytest.mark.parametrize("variant", [("ema", 0.0), ("ema", 1.1), ("centred", -1), ("causal", 0.5), ("median", 1)])
def test_impossible_parameters_are_refused(variant: tuple[str, float]) -> None:
    with pytest.raises(InvalidValue, match="smoothing"):
        smooth_labels(np.ones((1, 1, 1)), np.ones((1, 1), bool), np.zeros((1, 1), int), variants=[variant])  # type: ignore[list-item]
