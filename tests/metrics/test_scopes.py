from math import sqrt
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from strobe.core.errors import InvalidValue
from strobe.core.estimate import Estimate
from strobe.metrics.scopes import (
    BLOCKS,
    CONSTANT,
    METHOD,
    effective_frames,
    other_machine_tolerance,
    recording_difference,
    repeats_difference,
    videos_needed,
)

Row = tuple[float, float]
"""The difference summed at a row, and its denominator."""


@st.composite
def clips(draw: st.DrawFn, *, least: int = BLOCKS, most: int = 80) -> list[list[Row]]:
    """One to four clips; a state persists for some rows, and rows of size 0 are not measured."""
    out = []
    for _ in range(draw(st.integers(1, 4))):
        rng, n = np.random.default_rng(draw(st.integers(0, 2**32 - 1))), draw(st.integers(least, most))
        state = np.repeat(rng.integers(-1, 2, n), rng.integers(1, 9, n))[:n]
        size = rng.choice([1.0, 1.0, 2.0, 0.5], n)
        out.append(list(zip((state * size).tolist(), size.tolist(), strict=True)))
    return out


def arrays(rows: list[list[Row]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows in the order of time within each clip, but with the clips interleaved."""
    flat = sorted((at / len(clip), number, *row) for number, clip in enumerate(rows) for at, row in enumerate(clip))
    gap, size = (np.array([row[column] for row in flat], dtype=np.float64) for column in (2, 3))
    return gap, size, np.array([7 - row[1] for row in flat], dtype=np.int64)


def cut(values: list[float], many: int) -> list[float]:
    sums = [0.0] * many
    for at, value in enumerate(values):
        sums[at * many // len(values)] += value
    return sums


def inflation(correlation: float, many: float) -> float:
    """The variance of a mean of a whole number of parts, by the sum over all pairs; otherwise by its closed form."""
    if many == int(many):
        pairs = sum(correlation ** abs(i - j) for i in range(int(many)) for j in range(int(many)))
        return float(pairs / many)
    left = 1 - correlation
    return float((1 + correlation) / left - 2 * correlation * (1 - correlation**many) / (many * left**2))


def plain_parts(rests: list[list[float]]) -> tuple[list[list[float]], float]:
    """The parts of each clip, and the correlation of neighbours."""
    length = max(1, min(map(len, rests)) // 30)
    parts = [cut(rest, len(rest) // length) for rest in rests]
    products = squares = 0.0
    for clip in parts:
        squares += sum(part * part for part in clip)
        for at in range(1, len(clip)):
            products += clip[at] * clip[at - 1]
    raw = products / squares if squares else 0.0
    raw += (1 + 3 * raw) * len(parts) / sum(map(len, parts))
    return parts, min(max(raw, 0.0), 0.995)


def plain_interval(rows: list[list[Row]]) -> tuple[float, float]:
    """The value and half the width of the interval, clip after clip and block after block."""
    gaps, sizes = ([[row[column] for row in clip] for clip in rows] for column in (0, 1))
    rests = []
    for gap, size in zip(gaps, sizes, strict=True):
        own = sum(gap) / sum(size)
        rests.append([g - own * s for g, s in zip(gap, size, strict=True)])
    parts, correlation = plain_parts(rests)
    squares, alone = [], 0.0
    for rest, part in zip(rests, parts, strict=True):
        square = 6 / 5 * sum(block**2 for block in cut(rest, 6))
        true = inflation(correlation, len(part)) / len(part)
        block = inflation(correlation, len(part) / 6) / (len(part) / 6)
        squares.append(square * max(1.0, 5 * true / (block - true)))
        alone += sum(value**2 for value in rest) * len(rest) / (len(rest) - 1)
    freedom = 5 * sum(squares) ** 2 / sum(square**2 for square in squares) if sum(squares) else 5
    whole = sum(map(sum, sizes))
    return sum(map(sum, gaps)) / whole, stats.t.ppf(0.975, freedom) * sqrt(max(sum(squares), alone)) / whole


def varies(rows: list[list[Row]]) -> bool:
    return any(abs(g / s - clip[0][0] / clip[0][1]) > 1e-9 for clip in rows for g, s in clip)


@given(clips())
def test_interval_equals_the_plain_loop(rows: list[list[Row]]) -> None:
    found = recording_difference(*arrays(rows))
    value, half = plain_interval(rows)
    assert found.value == pytest.approx(value, abs=1e-12)
    assert (found.method, found.n) == (METHOD, sum(map(len, rows)))
    if varies(rows):
        assert found.low == pytest.approx(value - half)
        assert found.high == pytest.approx(value + half)
        assert found.reason is None
    else:
        assert (found.low, found.reason) == (None, CONSTANT)


@given(clips(), st.integers(0, 2**32 - 1))
def test_unmeasured_rows_and_clips_change_nothing(rows: list[list[Row]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    gap, size, clip = arrays(rows)
    at = np.sort(rng.integers(0, len(gap) + 1, 20))
    more = np.insert(clip, at, rng.choice([*np.unique(clip), 99], 20))
    found = recording_difference(np.insert(gap, at, 0), np.insert(size, at, 0), more)
    assert found == recording_difference(gap, size, clip)


@given(clips())
def test_models_in_the_other_order_give_the_negative(rows: list[list[Row]]) -> None:
    gap, size, clip = arrays(rows)
    found, other = recording_difference(gap, size, clip), recording_difference(-gap, size, clip)
    assert found.value == -(other.value or 0)
    if found.low is not None and found.high is not None:
        assert (other.low, other.high) == (-found.high, -found.low)


@given(clips(least=1))
def test_effective_frames_equal_the_plain_loop(rows: list[list[Row]]) -> None:
    gap, _, clip = arrays(rows)
    rests = []
    for rows_of_clip in rows:
        values = [g for g, _ in rows_of_clip]
        rests.append([value - fmean(values) for value in values])
    if all(abs(rest) < 1e-12 for own in rests for rest in own):
        assert effective_frames(gap, clip) == len(rows)
        return
    parts, correlation = plain_parts(rests)
    n, n_parts = sum(map(len, rests)), sum(map(len, parts))
    of_rows = n / (n - len(rows)) * sum(rest**2 for own in rests for rest in own)
    of_parts = n_parts / (n_parts - len(rows)) * sum(part**2 for own in parts for part in own)
    of_parts *= sum(len(own) * inflation(correlation, len(own)) for own in parts) / n_parts
    expected = n * of_rows / of_parts if of_parts else n
    assert effective_frames(gap, clip) == pytest.approx(min(n, max(len(rows), expected)))


def chain(rng: np.random.Generator, n: int, correlation: float, share: float = 0.8) -> np.ndarray:
    """Answers that are right with this share; two neighbours have this correlation."""
    fresh, again = rng.random(n) < share, rng.random(n) < correlation
    again[0] = False
    return fresh[np.maximum.accumulate(np.where(again, 0, np.arange(n)))]


@pytest.mark.parametrize(
    ("correlation", "low", "high"), [(0.0, 200, 300), (0.5, 70, 140), (0.8, 20, 50), (0.95, 3, 14)]
)
def test_effective_frames_are_about_the_known_number(correlation: float, low: float, high: float) -> None:
    """By theory n·(1 − φ)/(1 + φ): 300, 100, 33 and 8."""
    rng, clip = np.random.default_rng(1), np.zeros(300, dtype=np.int64)
    gaps = [1.0 * chain(rng, 300, correlation) - chain(rng, 300, correlation) for _ in range(200)]
    assert low < np.median([effective_frames(gap, clip) for gap in gaps]) < high


def test_a_slow_part_under_fast_noise_is_found() -> None:
    """Half of the frames follow a slow state and half are random, so that neighbours have a correlation of 0.24."""
    rng, found = np.random.default_rng(2), []
    for _ in range(200):
        models = [np.where(rng.random(900) < 0.5, chain(rng, 900, 0.95), rng.random(900) < 0.8) for _ in range(2)]
        found.append(effective_frames(1.0 * models[0] - models[1], np.zeros(900, dtype=np.int64)))
    assert 50 < np.median(found) < 130, "by theory 87; from the correlation of neighbouring frames alone, 560"


def test_equal_models_rarely_differ_and_a_large_difference_is_found() -> None:
    """Small cells of benchmarks/scope_rates.py."""
    rng, clip = np.random.default_rng(3), np.repeat(np.arange(3), 300)
    wrong = right = 0
    for _ in range(300):
        a, b, worse = (np.concatenate([chain(rng, 300, 0.9, share) for _ in range(3)]) for share in (0.8, 0.8, 0.5))
        equal, lost = (recording_difference(1.0 * a - other, np.ones(900), clip) for other in (b, worse))
        wrong += not (equal.low or 0) <= 0 <= (equal.high or 0)
        right += (lost.low or 0) > 0
    assert wrong <= 27, "7 % would be 21, and 27 is within chance"
    assert right > 200


def test_a_short_clip_has_no_interval() -> None:
    gap, clip = np.array([1.0, 0, 0, 1, 0, 1, 0, 0, 1, 1, 0]), np.repeat([0, 1], [6, 5])
    found = recording_difference(gap, np.ones(11), clip)
    assert found.value == pytest.approx(5 / 11)
    assert (found.low, found.reason) == (None, "a clip with 5 measured rows is too short for 6 blocks")
    assert recording_difference(gap[:6], np.ones(6), clip[:6]).low is not None


def test_without_measured_rows_there_is_no_value() -> None:
    for n in (0, 9):
        found = recording_difference(np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.int64))
        assert (found.value, found.n, found.reason) == (None, 0, "nothing to compare")
    assert effective_frames(np.zeros(0), np.zeros(0, dtype=np.int64)) == 0.0


@pytest.mark.parametrize("each", [0.0, 0.1, -1.0])
def test_a_constant_difference_has_no_interval(each: float) -> None:
    size, clip = np.tile([1.0, 3.0], 30), np.repeat([0, 1], 30)
    found = recording_difference(each * size, size, clip)
    assert found.value == pytest.approx(each)
    assert (found.low, found.reason) == (None, CONSTANT)
    assert effective_frames(np.full(60, each), clip) == 2.0


def test_the_interval_is_never_narrower_than_that_of_independent_rows() -> None:
    gap = np.tile([1.0, -1.0], 60)  # every block has a sum of 0
    found = recording_difference(gap, np.ones(120), np.zeros(120, dtype=np.int64))
    assert found.value == 0.0
    assert found.high == pytest.approx(stats.t.ppf(0.975, 5) / sqrt(119))
    assert effective_frames(gap, np.zeros(120, dtype=np.int64)) == 120.0


def test_one_clip_that_differs_does_not_gain_from_clips_that_do_not() -> None:
    """Four clips without differences add frames but no degrees of freedom."""
    gap = np.repeat(np.random.default_rng(4).integers(-1, 2, 60), 5).astype(np.float64)
    alone = recording_difference(gap, np.ones(300), np.zeros(300, dtype=np.int64))
    more = recording_difference(np.append(gap, np.zeros(1200)), np.ones(1500), np.repeat(np.arange(5), 300))
    assert more.high == pytest.approx((alone.high or 0) / 5, rel=0.1)


def test_rows_that_do_not_fit_are_refused() -> None:
    n = np.zeros(12, dtype=np.int64)
    with pytest.raises(InvalidValue, match="one shape"):
        recording_difference(np.ones(12), np.ones(11), n)
    with pytest.raises(InvalidValue, match="size"):
        recording_difference(np.ones(12), -np.ones(12), n)
    with pytest.raises(InvalidValue, match="gap: expected finite"):
        recording_difference(np.full(12, np.nan), np.ones(12), n)
    with pytest.raises(InvalidValue, match="like clip"):
        effective_frames(np.ones(11), n)
    with pytest.raises(InvalidValue, match="finite"):
        effective_frames(np.full(12, np.inf), n)


REPEATS = st.lists(st.sampled_from([0.1, 0.2, 0.30000000000000004, 0.25, 7.0]), min_size=3, max_size=6)


@given(REPEATS, REPEATS)
def test_repeats_equal_welchs_t(a: list[float], b: list[float]) -> None:
    difference, p = repeats_difference(np.array(a), np.array(b))
    assert difference == pytest.approx(fmean(a) - fmean(b), abs=1e-12)
    if len(set(a)) == len(set(b)) == 1:
        assert p == float(a[0] == b[0])
        return
    errors = [sum((value - fmean(own)) ** 2 for value in own) / (len(own) - 1) / len(own) for own in (a, b)]
    freedom = sum(errors) ** 2 / sum(one**2 / (len(own) - 1) for one, own in zip(errors, (a, b), strict=True))
    t = (fmean(a) - fmean(b)) / sqrt(sum(errors))
    assert p == pytest.approx(2 * stats.t.sf(abs(t), freedom), abs=1e-12)


def test_repeats_equal_scipy() -> None:
    a, b = np.array([15.4, 15.2, 15.6]), np.array([10.9, 15.0, 14.8, 13.0])
    assert repeats_difference(a, b)[1] == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue)
    steady = np.full(3, 12.0)  # the degrees of freedom are those of the model that varies
    assert repeats_difference(b, steady)[1] == pytest.approx(stats.ttest_1samp(b, 12.0).pvalue)


def test_models_that_never_vary_differ_by_more_than_rounding() -> None:
    rounded = np.array([0.1 + 0.2, 0.3, 0.3])
    assert repeats_difference(rounded, np.full(3, 0.3))[1] == 1.0
    assert repeats_difference(rounded, np.full(3, 0.31))[1] == 0.0
    assert repeats_difference(np.zeros(3), np.zeros(4)) == (0.0, 1.0)


def test_repeats_need_three_of_each() -> None:
    for a, b in ((2, 3), (3, 2)):
        with pytest.raises(InvalidValue, match="three repeats"):
            repeats_difference(np.zeros(a), np.zeros(b))
    with pytest.raises(InvalidValue, match="a: expected finite"):
        repeats_difference(np.array([1, np.nan, 2]), np.zeros(3))


@given(st.integers(100, 400), st.integers(0, 2**32 - 1))
def test_one_frame_in_a_hundred_changes_at_most_the_tolerance(n: int, seed: int) -> None:
    """Answers are changed at random; a recording is a loop here, so that every frame has two neighbours."""
    rng = np.random.default_rng(seed)
    n -= n % 100
    before = rng.integers(0, 3, n)
    after = before.copy()
    after[rng.choice(n, n // 100, replace=False)] = 5
    unlike = [fmean(map(float, answers != np.roll(answers, 1))) for answers in (before, after)]
    broken = [fmean(map(float, np.ptp(answers.reshape(-1, 10), axis=1) > 0)) for answers in (before, after)]
    slack = 1 + 1e-9
    assert fmean(map(float, before != after)) <= other_machine_tolerance("share of frames") * slack
    assert abs(unlike[1] - unlike[0]) <= other_machine_tolerance("share of pairs") * slack
    assert 25 * abs(unlike[1] - unlike[0]) <= other_machine_tolerance("per second", fps=25) * slack
    assert abs(broken[1] - broken[0]) <= other_machine_tolerance("share of sets", set_frames=10) * slack


def test_the_tolerance_needs_the_rate_of_its_unit() -> None:
    assert other_machine_tolerance("share of pairs") == 0.02
    assert other_machine_tolerance("share of sets", set_frames=400) == 1.0
    for fps in (None, 0.0):
        with pytest.raises(InvalidValue, match="fps"):
            other_machine_tolerance("per second", fps=fps)
    with pytest.raises(InvalidValue, match="set_frames"):
        other_machine_tolerance("share of sets")


@given(st.floats(-1, 1), st.floats(0.001, 0.5), st.floats(-1, 1), st.integers(2, 200))
def test_with_the_videos_needed_the_interval_ends_at_the_limit(value: float, half: float, limit: float, n: int) -> None:
    found = videos_needed(Estimate(value=value, low=value - half, high=value + half, n=n), limit, n)
    if abs(value - limit) <= 1e-9:
        assert found is None or found > n
        return
    assert found is not None
    assert found >= 1
    assert half * sqrt(n / found) <= abs(value - limit) * (1 + 1e-9)
    if found > 1:
        assert half * sqrt(n / (found - 1)) >= abs(value - limit) * (1 - 1e-9)


def test_no_number_of_videos_decides_a_figure_at_the_limit() -> None:
    assert videos_needed(Estimate(value=0.02, low=-0.1, high=0.14, n=20), 0.02, 20) is None
    assert videos_needed(Estimate(value=0.02, low=None, high=None, n=20, reason="one video"), 0.0, 20) is None
    assert videos_needed(Estimate(value=None, low=None, high=None, n=0, reason="no set"), 0.0, 1) is None
    assert videos_needed(Estimate(value=0.1, low=0.1, high=0.1, n=20), 0.0, 20) == 1
    with pytest.raises(InvalidValue, match="n_videos"):
        videos_needed(Estimate(value=0.1, low=0.0, high=0.2, n=20), 0.0, 0)
