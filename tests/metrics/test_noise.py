from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strobe.core.errors import InvalidValue
from strobe.metrics.bootstrap import Bootstrap
from strobe.metrics.noise import beyond_noise, flips_between, frame_noise, mean_of_sets, set_noise

Columns = list[list[int | None]]
"""The answers of each frame; None is a frame without an answer at that time."""


def columns(most: int = 6) -> st.SearchStrategy[Columns]:
    one = st.one_of(st.none(), st.integers(-1, 2))
    return st.integers(1, 4).flatmap(
        lambda times: st.lists(st.lists(one, min_size=times, max_size=times), min_size=1, max_size=most)
    )


def arrays(frames: Columns) -> tuple[np.ndarray, np.ndarray]:
    answer = np.array([[-9 if one is None else one for one in frame] for frame in frames]).T
    return answer, np.array([[one is not None for one in frame] for frame in frames]).T


def plain_noise(frame: list[int | None]) -> float | None:
    known = [one for one in frame if one is not None]
    pairs = list(combinations(known, 2))
    return sum(a != b for a, b in pairs) / len(pairs) if pairs else None


def plain_flips(one: list[int | None], other: list[int | None]) -> float:
    pairs = [(a, b) for a, b in product(one, other) if a is not None and b is not None]
    return sum(a != b for a, b in pairs) / len(pairs) if pairs else 0.0


@given(columns())
def test_noise_is_the_share_of_pairs_of_answers_that_differ(frames: Columns) -> None:
    found = frame_noise(*arrays(frames))
    expected = [plain_noise(frame) for frame in frames]
    assert found.known.tolist() == [one is not None for one in expected]
    assert found.share.tolist() == pytest.approx([one or 0.0 for one in expected])


@given(columns())
def test_flips_are_over_one_answer_of_each_frame(frames: Columns) -> None:
    first, second = np.arange(len(frames) - 1), np.arange(1, len(frames))
    found = flips_between(*arrays(frames), first, second)
    assert found.tolist() == pytest.approx([plain_flips(*pair) for pair in pairwise(frames)])


@given(columns(), st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_sets_average_the_pairs_whose_frames_were_asked_twice(frames: Columns, owners: list[int]) -> None:
    pairs = [(a, a + 1, sorted(owners)[a]) for a in range(len(frames) - 1)]
    first, second, owner = (np.array([pair[place] for pair in pairs], dtype=np.int64) for place in range(3))
    found = set_noise(*arrays(frames), first, second, owner, n_sets=3)
    for row in range(3):
        used = [(a, b) for a, b, one in pairs if one == row and None not in map(plain_noise, (frames[a], frames[b]))]
        assert found.n_pairs[row] == len(used)
        noise = [((plain_noise(frames[a]) or 0) + (plain_noise(frames[b]) or 0)) / 2 for a, b in used]
        flips = [plain_flips(frames[a], frames[b]) for a, b in used]
        assert found.noise[row] == pytest.approx(sum(noise) / len(used) if used else 0.0)
        assert found.flips[row] == pytest.approx(sum(flips) / len(used) if used else 0.0)


@given(st.lists(st.integers(-1, 4), min_size=2, max_size=8), st.integers(2, 4))
def test_a_model_that_repeats_itself_has_no_noise_and_its_own_flip_rate(answers: list[int], times: int) -> None:
    answer = np.array([answers] * times)
    first, second = np.arange(len(answers) - 1), np.arange(1, len(answers))
    found = set_noise(answer, np.ones(answer.shape, dtype=bool), first, second, np.zeros(len(first), int), n_sets=1)
    assert found.noise.tolist() == [0.0]
    assert found.flips[0] == pytest.approx(np.mean(np.array(answers)[first] != np.array(answers)[second]))


def test_the_difference_is_half_the_squared_distance_of_the_answers() -> None:
    """Over all answers that two frames can give, each as often as its probability."""
    one, other = np.array([0.5, 0.25, 0.25]), np.array([0.25, 0.0, 0.75])
    gap = 0.0
    for chosen in product(range(3), repeat=4):
        chance = np.prod([one[chosen[0]], one[chosen[1]], other[chosen[2]], other[chosen[3]]])
        answer = np.array([[chosen[0], chosen[2]], [chosen[1], chosen[3]]])
        pair = np.array([0]), np.array([1]), np.array([0])
        found = set_noise(answer, np.ones((2, 2), dtype=bool), *pair, n_sets=1)
        gap += float(chance * (found.flips - found.noise)[0])
    assert gap == pytest.approx(((one - other) ** 2).sum() / 2)


def test_interval_and_test_agree() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        noise, video = rng.uniform(0, 0.2, 24), np.repeat(np.arange(12), 2)
        flips = np.clip(noise + rng.normal(0.02, 0.05, 24), 0, 1)
        found, p = beyond_noise(noise, flips, Bootstrap(video, replicates=200))
        assert found.low is not None
        assert found.high is not None
        assert found.value is not None
        assert found.low <= found.value <= found.high
        assert found.high >= 0
        assert (found.low > 0) == (p < 0.05)


def test_the_test_is_exact_for_equal_differences() -> None:
    found, p = beyond_noise(np.full(6, 0.125), np.full(6, 0.25), Bootstrap(np.arange(6)))
    assert p == pytest.approx(1 / 2**6)
    assert found.reason is not None
    assert "only 6 videos" in found.reason


def test_without_noise_the_interval_is_that_of_flips() -> None:
    flips = np.array([0.5, 0.0, 0.0, 0.25] * 4)
    draws = Bootstrap(np.arange(16))
    found, _ = beyond_noise(np.zeros(16), flips, draws)
    assert found == mean_of_sets(flips, draws)
    steady, p = beyond_noise(np.zeros(16), np.zeros(16), draws)
    assert (steady.value, steady.low, p) == (0.0, 0.0, 1.0)
    assert 0 < (steady.high or 0) < 0.25, "a model that never changes its answer has an interval, and can pass a gate"


def test_intervals_switched_off() -> None:
    draws = Bootstrap(np.arange(4), replicates=0)
    found, _ = beyond_noise(np.full(4, 0.1), np.full(4, 0.3), draws)
    assert (found.low, found.reason) == (None, "the bootstrap was switched off")


def test_one_video_has_no_interval_and_no_significance() -> None:
    found, p = beyond_noise(np.zeros(3), np.full(3, 0.5), Bootstrap(np.zeros(3, dtype=int), replicates=50))
    assert (found.value, found.low, p) == (0.5, None, 0.5)
    found, p = beyond_noise(np.full(12, 0.5), np.full(12, 0.25), Bootstrap(np.arange(12)))
    assert (found.value, p) == (-0.25, 1.0)
    assert (found.high or 0) >= 0, "the true difference is never negative"


def test_answers_of_another_shape_are_refused() -> None:
    with pytest.raises(InvalidValue, match="answered"):
        frame_noise(np.zeros((2, 3), dtype=int), np.ones((2, 2), dtype=bool))
