"""The noise floor: how often a model changes its answer on the same frame, compared with neighbouring frames.

If a frame is asked several times, two of its answers differ with some probability, its noise. An answer to the frame
and an answer to its neighbour differ with at least the mean noise of the two. The difference is half the squared
distance between their distributions of answers, so it is zero exactly if both frames have the same distribution.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from strobe.core.arrays import Bools, Floats, Ints, counts
from strobe.core.errors import expect
from strobe.core.estimate import Estimate
from strobe.metrics.bootstrap import SWITCHED_OFF, Bootstrap, too_few
from strobe.metrics.intervals import ALPHA, ONE_VIDEO, mean_share
from strobe.metrics.paired import BESIDE_ZERO, LEVEL, sign_flip_sums

METHOD = "studentised video-cluster bootstrap"


@dataclass(frozen=True, slots=True)
class FrameNoise:
    """The noise of each frame, (N,): the share of pairs of its answers that differ, and whether it has two answers.

    A frame with fewer than two answers has a share of 0 and is not `known`.
    """

    share: Floats
    known: Bools


def frame_noise(answer: Ints, answered: Bools) -> FrameNoise:
    """Return how often two answers to the same frame differ; both arrays are (R, N), a row per time of asking.

    >>> found = frame_noise(np.array([[4, 4], [4, 7], [4, 7]]), np.ones((3, 2), dtype=bool))
    >>> found.share.round(3).tolist()
    [0.0, 0.667]
    """
    _check(answer, answered)
    pairs, differs = np.zeros(answer.shape[1], dtype=np.int64), np.zeros(answer.shape[1], dtype=np.int64)
    for one in range(len(answer)):
        for other in range(one):
            both = answered[one] & answered[other]
            pairs += both
            differs += both & (answer[one] != answer[other])
    return FrameNoise(differs / np.maximum(pairs, 1), pairs > 0)


def flips_between(answer: Ints, answered: Bools, first: Ints, second: Ints) -> Floats:
    """Return the share of pairs of answers that differ, one answer from each of two frames, (P,).

    `answer` and `answered` are (R, N), and `first` and `second` (P,) are indices into N. A pair of frames without
    answers has a share of 0.

    >>> answer = np.array([[4, 4], [4, 7]])
    >>> flips_between(answer, np.ones((2, 2), dtype=bool), np.array([0]), np.array([1])).tolist()
    [0.5]
    """
    _check(answer, answered)
    pairs, differs = np.zeros(len(first), dtype=np.int64), np.zeros(len(first), dtype=np.int64)
    for one in range(len(answer)):
        for other in range(len(answer)):
            both = answered[one, first] & answered[other, second]
            pairs += both
            differs += both & (answer[one, first] != answer[other, second])
    return np.asarray(differs / np.maximum(pairs, 1))


def _check(answer: Ints, answered: Bools) -> None:
    expect(answer.ndim == 2 and answer.shape == answered.shape, "answer", "shape (R, N), like answered", answer.shape)


@dataclass(frozen=True, slots=True)
class SetNoise:
    """The noise and the flips of each set, (S,), over its pairs of neighbouring frames; `n_pairs` counts them.

    `noise` is the mean noise of the frames of these pairs, so a frame between two neighbours counts twice. Both shares
    are then over the same frames, and their difference is what the model's own noise does not explain.
    """

    noise: Floats
    flips: Floats
    n_pairs: Ints


def set_noise(answer: Ints, answered: Bools, first: Ints, second: Ints, pair_set: Ints, *, n_sets: int) -> SetNoise:
    """Return the noise and the flips of each set; `answer` and `answered` are (R, N), one column per frame of a set.

    `first` and `second` (P,) are the columns of each pair's two frames, and `pair_set` (P,) is the pair's set. A pair
    counts if both frames have two answers.

    >>> answer, pair = np.array([[4, 7], [4, 7]]), (np.array([0]), np.array([1]))
    >>> found = set_noise(answer, np.ones((2, 2), dtype=bool), *pair, np.array([0]), n_sets=1)
    >>> found.noise.tolist(), found.flips.tolist()
    ([0.0], [1.0])
    """
    frames = frame_noise(answer, answered)
    use = frames.known[first] & frames.known[second]
    first, second, owner = first[use], second[use], pair_set[use]
    own = (frames.share[first] + frames.share[second]) / 2
    n_pairs = counts(owner, n_sets)
    noise, flips = (
        np.bincount(owner, weights=values, minlength=n_sets) / np.maximum(n_pairs, 1)
        for values in (own, flips_between(answer, answered, first, second))
    )
    return SetNoise(noise, flips, n_pairs)


def mean_of_sets(values: Floats, draws: Bootstrap) -> Estimate:
    """Return the mean of shares over sets, (S,), with its Korn–Graubard interval; `draws` has the video of each set.

    >>> mean_of_sets(np.array([0.25, 0.0, 0.5]), Bootstrap(np.arange(3))).value
    0.25
    """
    expect(values.shape == draws.place.shape and values.size > 0, "values", "one per set, not empty", values.shape)
    reason = ONE_VIDEO if draws.n_clusters == 1 else SWITCHED_OFF if draws.replicates == 0 else None
    low, high = (None, None) if reason else mean_share(draws.per_video(values), _sizes(draws))
    return Estimate(
        value=float(values.mean()),
        low=low,
        high=high,
        n=len(values),
        method="korn-graubard",
        reason=reason or too_few(draws.n_clusters),
    )


def beyond_noise(noise: Floats, flips: Floats, draws: Bootstrap) -> tuple[Estimate, float]:
    """Return the mean of flips − noise over sets (S,), with its interval over videos, and a p-value.

    The interval is the wider of two on each side: Student's t over videos, and the studentised bootstrap, which is
    longer on the side of few videos with many flips. It never exceeds the intervals of flips and of −noise. Without any
    noise, it is the interval of flips. The test flips the sign of each video's sum at random. It is one-sided, because
    the true difference is never negative. The interval is above 0 exactly if p is below 0.05: if it would not be, only
    its lower end moves, to the side of the test.

    >>> flips, video = np.array([0.5, 0.25] * 10), np.arange(20)
    >>> found, p = beyond_noise(np.zeros(20), flips, Bootstrap(video, replicates=200))
    >>> found.value, p < 0.001
    (0.375, True)
    """
    expect(noise.shape == flips.shape == draws.place.shape, "noise", "one per set, like flips", noise.shape)
    gap = flips - noise
    sums, shares = draws.per_video(gap), mean_of_sets(flips, draws)
    p = sign_flip_sums(sums) / 2 if sums.sum() > 0 else 1.0
    value, method = float(gap.mean()), shares.method
    least = mean_of_sets(noise, draws).high
    if shares.low is None or shares.high is None or least is None:
        return replace(shares, value=value), p
    low, high = shares.low, shares.high
    if noise.any():
        low, high = _studentised(sums, _sizes(draws), draws.weights)
        low, high, method = max(low, -least), min(high, shares.high), METHOD
    low = max(low, BESIDE_ZERO) if p < LEVEL else min(low, 0.0)
    return replace(shares, value=value, low=min(low, value), high=max(high, value, 0.0), method=method), p


def _sizes(draws: Bootstrap) -> Floats:
    return draws.per_video(np.ones(len(draws.place)))


def _studentised(sums: Floats, sizes: Floats, weights: Floats) -> tuple[float, float]:
    """Return 95 % bounds of a mean from each video's sum and size, (G,), and its weight in each draw (B, G)."""
    videos, total = len(sums), float(sizes.sum())
    mean, more = float(sums.sum()) / total, videos / (videos - 1)
    error = float(np.sqrt(more * ((sums - mean * sizes) ** 2).sum())) / total
    drawn_total = weights @ sizes
    drawn = weights @ sums / drawn_total
    squares = weights @ sums**2 - 2 * drawn * (weights @ (sums * sizes)) + drawn**2 * (weights @ sizes**2)
    errors = np.sqrt(more * np.maximum(squares, 0.0)) / drawn_total
    away = drawn - mean
    # A draw without spread says that the value may be far away, so its distance is infinite.
    far = np.where(np.abs(away) > 1e-12, np.copysign(np.inf, away), 0.0)
    distance = np.divide(away, errors, out=far, where=errors > 1e-12)
    below = float(np.quantile(distance, ALPHA / 2, method="lower"))
    above = float(np.quantile(distance, 1 - ALPHA / 2, method="higher"))
    student = float(stdtrit(videos - 1, 1 - ALPHA / 2))
    return mean - max(above, student) * error, mean - min(below, -student) * error
