"""Simulate how often verdicts about one recording, and about the same frames asked several times, are false alarms.

    python benchmarks/scope_rates.py [--draws 1000] [--seed 0] [--part apart]

*This recording*: two models answer clips of 300 to 1,800 frames (10 to 60 s at 30 fps). A share of 80 % is right, and
the rightness of neighbouring frames has a correlation of .5 to .95. Longer clips of the same scenes would show no
difference, so an interval of `recording_difference` without 0 is a false alarm. The kinds:

- apart: the two models err independently
- alike: three quarters of the errors are common to both models
- single: the models differ in one clip, and give the same answers in all others
- unlike: the clips have 300, 900 and 1,800 frames in turn
- noisy: half of the frames follow the state, and the others are right at random
- changes: changes of answer; 40 % of the pairs of frames change in unsteady stretches (a fifth of the time), else 2 %

*Textbook* is the same interval if blocks are taken as independent, and if all clips share one variance, with 5·clips
degrees of freedom. *McNemar* is the exact test on frames. *10 points* is how often a model with 70 % right is found to
be worse than one with 80 %. *Worth* is the effective number of frames (median), next to the number in theory.

*Repeats*: two models that give random answers to some frames are asked r times about all frames. The three measures
(changes per second, share of frames that differ from their set's most frequent answer, flicker of sets of 21 frames)
are compared by `repeats_difference`. With Holm's correction, p < .05 in any measure is a false alarm. A second table
has normal figures with a correlation of .7, and models with unequal noise; *pooled* assumes equal variances.

The script takes about three minutes of one core; --part runs one kind, or `repeats`. It exits with 1 if, beyond
simulation error, equal models are called different in more than 7 % of recordings in any cell, or in more than 5 % of
repeats.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from strobe.metrics.paired import LEVEL, holm, mcnemar
from strobe.metrics.scopes import BLOCKS, effective_frames, recording_difference, repeats_difference

Answers = NDArray[np.bool_]
Floats = NDArray[np.float64]

KINDS = ("apart", "alike", "single", "unlike", "noisy", "changes")
CLIPS, FRAMES, CORRELATIONS = (1, 2, 3, 5), (300, 900, 1800), (0.5, 0.8, 0.95)
RIGHT, WORSE, COMMON = 0.8, 0.7, 0.15
"""The shares of right frames, and the share on which both models of kind `alike` err."""
RECORDING_BAR, REPEATS_BAR = 0.07, 0.05
SET = 21
"""The frames of a set."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One cell: the kind of models, the clips, the frames of each, and the correlation of neighbours."""

    kind: str
    clips: int
    frames: int
    correlation: float

    @property
    def lengths(self) -> list[int]:
        """The frames of each clip."""
        return [FRAMES[at % 3] for at in range(self.clips)] if self.kind == "unlike" else [self.frames] * self.clips


def states(rng: np.random.Generator, draws: int, frames: int, correlation: float, share: float) -> Answers:
    """Return states that are true with this share, (draws, frames); neighbours have this correlation."""
    fresh = rng.random((draws, frames)) < share
    changed = rng.random((draws, frames)) >= correlation
    changed[:, 0] = True
    since = np.maximum.accumulate(np.where(changed, np.arange(frames), 0), axis=1)
    return np.take_along_axis(fresh, since, axis=1)


def models(
    rng: np.random.Generator, cell: Recording, draws: int, frames: int, second: float
) -> tuple[Answers, Answers]:
    """Return what two models do in one clip, (draws, frames); the second one is right with this share."""

    def state(share: float) -> Answers:
        return states(rng, draws, frames, cell.correlation, share)

    if cell.kind == "changes":
        rate = [np.where(state(0.2), 0.4, 0.02) for _ in range(2)]
        return rng.random(rate[0].shape) < rate[0], rng.random(rate[1].shape) < rate[1]
    if cell.kind == "alike":
        easy = state(1 - COMMON)
        return easy & state(RIGHT / (1 - COMMON)), easy & state(second / (1 - COMMON))
    if cell.kind == "noisy":
        follows = rng.random((2, draws, frames)) < 0.5
        return (
            np.where(follows[0], state(RIGHT), rng.random((draws, frames)) < RIGHT),
            np.where(follows[1], state(second), rng.random((draws, frames)) < second),
        )
    return state(RIGHT), state(second)


def gaps(rng: np.random.Generator, cell: Recording, draws: int, second: float) -> list[Floats]:
    """Return the difference of two models on each frame of each clip, (draws, frames) each."""
    out = []
    for at, frames in enumerate(cell.lengths):
        first, other = models(rng, cell, draws, frames, second)
        gap = first.astype(np.float64) - other
        out.append(gap * (cell.kind != "single" or at == 0))
    return out


def plain(clips: list[Floats]) -> float:
    """Return how often the interval of independent blocks with 5·clips degrees of freedom excludes 0."""
    square, freedom = np.zeros(len(clips[0])), (BLOCKS - 1) * len(clips)
    for gap in clips:
        rest = gap - gap.mean(axis=1, keepdims=True)
        first = -(-np.arange(BLOCKS) * gap.shape[1] // BLOCKS)
        square += BLOCKS / (BLOCKS - 1) * (np.add.reduceat(rest, first, axis=1) ** 2).sum(axis=1)
    total = np.sum([gap.sum(axis=1) for gap in clips], axis=0)
    return float(np.mean(np.abs(total) > stdtrit(freedom, 0.975) * np.sqrt(square)))


def on_frames(clips: list[Floats]) -> float:
    """Return how often McNemar's test on frames is significant."""
    every = np.concatenate(clips, axis=1)
    counts = zip((every > 0).sum(axis=1).tolist(), (every < 0).sum(axis=1).tolist(), strict=True)
    return float(np.mean([mcnemar(*one) < LEVEL for one in counts]))


def called(clips: list[Floats]) -> tuple[float, float]:
    """Return how often the models are called different, and how often the first one is called better."""
    clip = np.repeat(np.arange(len(clips)), [gap.shape[1] for gap in clips])
    every, size = np.concatenate(clips, axis=1), np.ones(len(clip))
    different = better = 0
    for gap in every:
        found = recording_difference(gap, size, clip)
        if found.low is not None and found.high is not None:
            better += found.low > 0
            different += found.low > 0 or found.high < 0
    return different / len(every), better / len(every)


def worth(clips: list[Floats]) -> float:
    """Return the median of the effective number of frames."""
    clip = np.repeat(np.arange(len(clips)), [gap.shape[1] for gap in clips])
    return float(np.median([effective_frames(gap, clip) for gap in np.concatenate(clips, axis=1)[:300]]))


def in_theory(cell: Recording) -> float | None:
    """Return the number of independent frames with the same variance of the mean, where the kind has a formula."""
    if cell.kind not in ("apart", "unlike", "noisy"):
        return None
    part = 0.25 if cell.kind == "noisy" else 1.0
    lengths, variance = np.array(cell.lengths), 0.0
    for frames in cell.lengths:
        lag = np.arange(1, frames)
        inflation = 1 + 2 * part * float(((1 - lag / frames) * cell.correlation**lag).sum())
        variance += frames * inflation
    return float(lengths.sum() ** 2 / variance)


def cells(kind: str) -> Iterator[Recording]:
    """Yield the cells of one kind: every cell if the models err apart, and the extremes otherwise."""
    clips = {"apart": CLIPS, "single": CLIPS[1:], "unlike": CLIPS[1:]}.get(kind, (1, 3, 5))
    frames = {"apart": FRAMES, "unlike": FRAMES[:1]}.get(kind, (300, 1800))
    for one in product(clips, frames, CORRELATIONS):
        yield Recording(kind, *one)


def recordings(kind: str, draws: int, seed: int) -> float:
    """Print the table of one kind of recordings. Returns the largest share of false alarms."""
    print(f"\nthis recording: false alarms and power, %; {draws} draws per cell, seed {seed}")
    print("kind     clips  frames  correlation  | called different  textbook  McNemar  | 10 points  | worth  in theory")
    worst = 0.0
    for cell in cells(kind):
        rng = np.random.default_rng([seed, KINDS.index(kind), cell.clips, cell.frames, int(100 * cell.correlation)])
        equal = gaps(rng, cell, draws, RIGHT)
        wrong, textbook, known = called(equal)[0], plain(equal), in_theory(cell)
        power, theory = "", "" if known is None else f"{known:.0f}"
        if kind in ("apart", "alike"):
            power = f"{100 * called(gaps(rng, cell, draws // 2, WORSE))[1]:.1f}"
        frames = "mixed" if kind == "unlike" else f"{cell.frames}"
        print(
            f"{kind:7s}  {cell.clips:5d}  {frames:>6s}  {cell.correlation:11g}  | {100 * wrong:16.1f}  "
            f"{100 * textbook:8.1f}  {100 * on_frames(equal):7.1f}  | {power:>9s}  | {worth(equal):5.0f}  {theory}",
            flush=True,
        )
        worst = max(worst, wrong)
    return worst


def measures(answer: NDArray[np.int64]) -> Floats:
    """Return three measures of each repeat: changes, frames that differ from their set's answer, sets that flicker.

    Sets follow one another, (repeats, sets, SET); all answers are 0, 1 or 2.
    """
    change = (answer[:, :, 1:] != answer[:, :, :-1]).mean(axis=(1, 2)) * 30
    most = np.max([(answer == label).sum(axis=2) for label in range(3)], axis=0)
    return np.stack([change, 1 - most.mean(axis=1) / SET, (most < SET).mean(axis=1)], axis=1)


def noisy_models(rng: np.random.Generator, frames: int, unsure: float, repeats: int) -> tuple[Floats, Floats]:
    """Return the measures of two models, (repeats, 3) each, that answer each frame with the same probabilities."""
    sets = frames // SET
    base = (rng.random((sets, 1)) < 0.5) & (rng.random((sets, SET)) < 0.1)  # half of the sets flicker without noise
    chance = np.where(rng.random((sets, SET)) < unsure, rng.random((sets, SET)), 0.0)
    answer = np.where(rng.random((2 * repeats, sets, SET)) < chance, 2, base.astype(np.int64))
    figures = measures(answer)
    return figures[:repeats], figures[repeats:]


def welch(a: Floats, b: Floats) -> float:
    """Return the p-value of one measure's repeats."""
    return repeats_difference(a, b)[1]


def pooled(a: Floats, b: Floats) -> float:
    """Return the p-value that assumes equal noise."""
    freedom = len(a) + len(b) - 2
    variance = ((len(a) - 1) * a.var(ddof=1) + (len(b) - 1) * b.var(ddof=1)) / freedom
    return float(2 * stdtr(freedom, -abs(a.mean() - b.mean()) / np.sqrt(variance * (1 / len(a) + 1 / len(b)))))


def any_differs(a: Floats, b: Floats, test: Callable[[Floats, Floats], float] = welch) -> bool:
    """Return whether any measure differs, (repeats, measures) each, with Holm's correction."""
    return min(holm([test(one, other) for one, other in zip(a.T, b.T, strict=True)])) < LEVEL


def same_frames(draws: int, seed: int) -> float:
    """Print the tables of repeats. Returns the largest share of false alarms."""
    print(
        f"\nthese clips, asked r times: false alarms in any of three measures, %; {draws} draws per cell, seed {seed}"
    )
    print("frames  random  r  | called different")
    worst = 0.0
    for frames, unsure, repeats in product((315, 1512), (0.01, 0.05, 0.2), (3, 4, 5)):
        rng = np.random.default_rng([seed, frames, int(100 * unsure), repeats])
        wrong = sum(any_differs(*noisy_models(rng, frames, unsure, repeats)) for _ in range(draws)) / draws
        print(f"{frames:6d}  {100 * unsure:4g} %  {repeats}  | {100 * wrong:16.1f}", flush=True)
        worst = max(worst, wrong)
    print("\nnormal figures: false alarms; a difference of 3 standard deviations found, %")
    print("noise  r  | called different  found  | pooled: called different  found")
    mixed = np.linalg.cholesky(np.full((3, 3), 0.7) + 0.3 * np.eye(3))
    for (less, more), repeats in product(((1, 1), (1, 2), (1, 3), (0, 1)), (3, 4, 5)):
        rng = np.random.default_rng([seed, less, more, repeats])
        rate = np.zeros(4)
        for _ in range(draws):
            a, b = (scale * (rng.normal(size=(repeats, 3)) @ mixed.T) for scale in (less, more))
            rate += [any_differs(a, other, test) for test in (welch, pooled) for other in (b, b + 3 * more)]
        wrong, found, wrong_pooled, found_pooled = 100 * rate / draws
        print(
            f"{less} : {more}  {repeats}  | {wrong:16.1f}  {found:5.1f}  | {wrong_pooled:24.1f}  {found_pooled:5.1f}",
            flush=True,
        )
        worst = max(worst, float(wrong) / 100)
    return worst


def main() -> int:
    """Print the tables. Returns 1 if equal models are called different too often."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", choices=(*KINDS, "repeats"), action="append")
    given = parser.parse_args()
    failed = False
    for part in given.part or (*KINDS, "repeats"):
        rates, bar = (same_frames, REPEATS_BAR) if part == "repeats" else (partial(recordings, part), RECORDING_BAR)
        worst = rates(given.draws, given.seed)
        print(f"{part}: at most {100 * worst:.1f} % false alarms")
        failed |= worst > bar + 2 * np.sqrt(bar * (1 - bar) / given.draws)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
