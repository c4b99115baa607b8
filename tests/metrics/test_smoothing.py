import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.core.errors import InvalidValue
from strobe.metrics.smoothing import complete_windows, delay, settled_windows, smooth_labels, smooth_votes

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


def smoothed(probability: np.ndarray, present: np.ndarray, label: np.ndarray, variants: list) -> list[np.ndarray]:
    """The smoothed class of every present frame (S, L), −1 elsewhere; the arrays of `smooth_labels` have time first."""
    here = np.ascontiguousarray(present.T)
    values = np.where(here[..., None], probability.transpose(1, 0, 2), 0.0)
    cells = np.flatnonzero(here)
    number = np.repeat(np.arange(len(variants)), len(cells))
    found = smooth_labels(
        values, here, label.T, variants=variants, number=number, cells=np.tile(cells, len(variants))
    ).reshape(len(variants), -1)
    out = np.full((len(variants), *here.shape), -1)
    out[:, here] = found
    return list(out.transpose(0, 2, 1))


@given(strips())
def test_smoothing_equals_the_plain_reference(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    probability, present, label = case
    found = smoothed(probability, present, label, VARIANTS)
    for (method, parameter), windowed in zip(VARIANTS, found, strict=True):
        for s, i in np.ndindex(*present.shape):
            expected = plain(probability, present, label, s, i, method, parameter) if present[s, i] else -1
            assert windowed[s, i] == expected, (method, parameter, s, i)


@given(strips(), st.sampled_from([0.0, 0.001, 0.3]), st.booleans())
def test_a_window_is_settled_only_if_the_main_class_wins_it(
    case: tuple[np.ndarray, np.ndarray, np.ndarray], slack: float, outside: bool
) -> None:
    probability, present, label = case
    if outside:  # any class may be predicted, and −1 has the probability of no class
        label = np.where(present, label - 1, -1)
        probability = np.roll(probability, -1, axis=2)
    columns = np.where(label < 0, probability.shape[2] - 1, label)
    own = np.take_along_axis(probability, columns[..., None], axis=2)
    others = np.where(np.arange(probability.shape[2]) == columns[..., None], 0.0, probability)
    top, lead = probability.max(axis=2) + slack, own[..., 0] - others.max(axis=2) - slack
    main, settled = settled_windows(
        label.T, present.T, top.T, lead.T, n_classes=probability.shape[2], variants=VARIANTS
    )
    assert main.shape == (len(present),)
    for won, windowed in zip(settled, smoothed(probability, present, label, VARIANTS), strict=True):
        best = np.where(windowed == probability.shape[2] - 1, -1, windowed) if outside else windowed
        assert (best == main[:, None])[won.T & present].all()


def test_most_windows_of_a_steady_strip_are_settled() -> None:
    label = np.array([[2, 2, 7, 2, 2, 2, 2], [4, 4, 4, 4, 4, 4, 4]]).T
    top, lead = np.full(label.shape, 0.6), np.full(label.shape, 0.5)
    variants = [("centred", 1), ("causal", 1), ("centred", 2), ("ema", 0.2), ("centred", 0)]
    main, settled = settled_windows(label, label >= 0, top, lead, n_classes=9, variants=variants)
    assert main.tolist() == [2, 4]
    assert all(won[:, 1].all() for won in settled)
    assert [won[:, 0].tolist().count(False) for won in settled] == [0, 2, 0, 0, 1]
    main, settled = settled_windows(label, label < 0, top, lead, n_classes=9, variants=variants)
    assert not any(won.any() for won in settled), "no frame is present"
    edge = settled_windows(label, label >= 0, top, np.full(label.shape, 0.3), n_classes=9, variants=variants)[1]
    assert not edge[0][1:4, 0].any(), "0.3 + 0.3 − 0.6 is not enough"


def test_truncated_strips_are_smoothed_like_whole_ones() -> None:
    rng = np.random.default_rng(3)
    probability = rng.dirichlet(np.ones(4), size=(9, 5))
    label, here = probability.argmax(axis=2), np.ones((9, 5), dtype=bool)
    variants, cells = [("centred", 2), ("causal", 3), ("ema", 0.4)], np.arange(3 * 5)
    for number in range(3):
        asked = {"variants": variants, "number": np.full(len(cells), number), "cells": cells}
        whole_strips = smooth_labels(probability, here, label, **asked)
        cut = smooth_labels(probability[:5].copy(), here[:5], label[:5], **asked, length=9)
        assert whole_strips.tolist() == cut.tolist()


def test_a_shorter_strip_does_not_make_sums_finer() -> None:
    # In units of a whole strip of 2^20 frames both classes round to the same number; in finer units class 1 wins.
    p = np.full((2, 1, 2), 0.25)
    p[:, 0, 1] += 2.0**-46
    asked = {"variants": [("causal", 1)], "number": np.zeros(1, dtype=int), "cells": np.array([1])}
    label, here = np.ones((2, 1), dtype=int), np.ones((2, 1), dtype=bool)
    assert smooth_labels(p, here, label, **asked).tolist() == [1]
    assert smooth_labels(p, here, label, **asked, length=2**20).tolist() == [0]


@pytest.mark.parametrize(("length", "n_classes", "bits"), [(2, 2, 48), (2**20, 2, 39), (2**11, 1000, 40)])
def test_sums_are_as_fine_as_62_bits_allow(length: int, n_classes: int, bits: int) -> None:
    """A sum over a whole strip and the code of a class share 62 bits; no probability is finer than 2^−48."""
    label, here = np.ones((2, 1), dtype=int), np.ones((2, 1), dtype=bool)
    asked = {"variants": [("causal", 1)], "number": np.zeros(1, dtype=int), "cells": np.array([1]), "length": length}
    for finer, best in ((0, 1), (1, 0)):  # half a unit is rounded down, and a tie goes to the lowest class
        p = np.zeros((2, 1, n_classes))
        p[:, 0, :2] = 0.25
        p[:, 0, 1] += 2.0 ** -(bits + finer)
        assert smooth_labels(p, here, label, **asked).tolist() == [best]


@given(strips())
def test_nothing_changes_without_a_window(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    probability, present, label = case
    odd = np.where(present, probability.shape[2] - 1 - label, -1)  # any class at all must come back as it went in
    for windowed in smoothed(probability, present, odd, [("centred", 0), ("causal", 0), ("ema", 1.0)]):
        assert (windowed == odd).all()


@given(strips(), st.integers(0, 6))
def test_causal_smoothing_ignores_later_frames(case: tuple[np.ndarray, np.ndarray, np.ndarray], cut: int) -> None:
    probability, present, label = case
    cut = min(cut, present.shape[1] - 1)
    gone = present.copy()
    gone[:, cut + 1 :] = False
    variants = [("causal", 3), ("ema", 0.3)]
    whole_strip = smoothed(probability, present, label, variants)
    cut_strip = smoothed(probability, gone, np.where(gone, label, -1), variants)
    for one, two in zip(whole_strip, cut_strip, strict=True):
        assert (one[:, : cut + 1] == two[:, : cut + 1]).all()


@given(strips(), st.integers(0, 4))
def test_votes_equal_counting(case: tuple[np.ndarray, np.ndarray, np.ndarray], width: int) -> None:
    probability, present, label = case
    label = np.where(present, label - 1, -1)  # −1 is also a prediction: outside the classes
    variants = [("centred", width), ("causal", width)]
    cells = np.flatnonzero(present.T)
    for number, (method, _) in enumerate(variants):
        found = smooth_votes(
            label.T, present.T, variants=variants, n_classes=probability.shape[2],
            number=np.full(len(cells), number), cells=cells,
        )  # fmt: skip
        complete = complete_windows(present.T, variants=variants)[number]
        for got, cell in zip(found.tolist(), cells.tolist(), strict=True):
            i, s = divmod(cell, len(present))
            last = i + width if method == "centred" else i
            inside = [j for j in range(i - width, last + 1) if 0 <= j < present.shape[1] and present[s, j]]
            votes = [int(label[s, j]) for j in inside]
            top = max(votes.count(v) for v in votes)
            winners = {v for v in votes if votes.count(v) == top}
            assert got == (winners.pop() if len(winners) == 1 else label[s, i])
            assert complete[i, s] == (len(inside) == (last - i + width + 1))


@given(strips())
def test_an_average_is_complete_after_a_present_frame(case: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    present = case[1]
    complete = complete_windows(present.T, variants=[("ema", 0.3)])[0]
    for s, i in zip(*np.nonzero(present), strict=True):
        assert complete[i, s] == bool(i > 0 and present[s, i - 1])


def test_windows_of_a_long_strip_are_complete_away_from_its_ends_and_gaps() -> None:
    present = np.ones((12, 2), dtype=bool)
    present[8, 1] = False
    variants = [(method, width) for method in ("centred", "causal") for width in range(4)]
    for (method, width), found in zip(variants, complete_windows(present, variants=variants), strict=True):
        after = width if method == "centred" else 0
        wanted = [
            [width <= i < 12 - after and (s == 0 or not i - width <= 8 <= i + after) for s in (0, 1)] for i in range(12)
        ]
        assert found.tolist() == wanted


def test_a_gap_weighs_as_its_length() -> None:
    p = np.array([[[1.0, 0.0], [np.nan, np.nan], [0.0, 1.0]]])
    present, label = np.array([[True, False, True]]), np.array([[0, -1, 1]])
    # Across a gap of two the new frame weighs 1 − 0.7² = 0.51; without the gap it would weigh 0.3 and lose.
    assert smoothed(p, present, label, [("ema", 0.3)])[0].tolist() == [[0, -1, 1]]
    assert smoothed(p[:, ::2], present[:, ::2], label[:, ::2], [("ema", 0.3)])[0].tolist() == [[0, 0]]


def test_delays() -> None:
    assert (delay("centred", 5), delay("causal", 5), delay("ema", 0.2)) == (5.0, 2.5, pytest.approx(4.0))


@pytest.mark.parametrize("variant", [("ema", 0.0), ("ema", 1.1), ("centred", -1), ("causal", 0.5), ("median", 1)])
def test_impossible_parameters_are_refused(variant: tuple[str, float]) -> None:
    one = np.ones((1, 1), dtype=bool)
    zero = np.zeros((1, 1), dtype=int)
    with pytest.raises(InvalidValue, match="smoothing"):
        smoothed(np.ones((1, 1, 1)), one, zero, [variant])
    with pytest.raises(InvalidValue, match="smoothing"):
        complete_windows(one, variants=[variant])  # type: ignore[list-item]
    with pytest.raises(InvalidValue, match="smoothing"):
        settled_windows(zero, one, one * 1.0, one * 1.0, n_classes=1, variants=[variant])  # type: ignore[list-item]
    with pytest.raises(InvalidValue, match="smoothing"):
        smooth_votes(zero, one, variants=[variant], n_classes=1, number=zero[0], cells=zero[0])  # type: ignore[list-item]
