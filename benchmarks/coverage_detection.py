"""Simulate how often the 95 % intervals of mAP and of its drop contain the true value.

    python benchmarks/coverage.py --detection [--draws 500] [--full]

A simulated detector runs on videos with one set each, or with different numbers of sets (coverage_unequal.py). A set
has two frames, the anchor and a worse one, with 1–4 objects of mostly one class. A skill per video determines hits and
misses. False positives have the video's class or another one. Classes are equally frequent or long-tailed. The true
value is the expected mAP of data of this size, from ten times as many samples. The script also prints the percentile
bootstrap, to show why it is not used.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray

import coverage_unequal
from strobe.core.answers import BoxAnswers
from strobe.core.estimate import Estimate
from strobe.metrics.bootstrap import Bootstrap
from strobe.metrics.detection.average import curve_index, mean_over_classes
from strobe.metrics.detection.jackknife import drop_between, mean_ap
from strobe.metrics.detection.match import Matches
from strobe.metrics.detection.tables import TruthTable
from strobe.metrics.detection.worst import class_ap, class_ap_without, videos_of_class
from strobe.metrics.intervals import effective_videos

__all__ = ["ASKED_VIDEOS", "SHORT", "UNEQUAL", "Cell", "Row", "full", "row", "sample"]

Floats = NDArray[np.float64]

ASKED_VIDEOS = 50
ASKED = 0.93
"""The lowest coverage, with at least this many videos, if most classes have more than one video."""
DRAWS = 200


@dataclass(frozen=True, slots=True)
class Cell:
    """One setting: the numbers of videos and classes, the target mAP, whether classes are equally frequent, and sizes.

    `sizes` is the number of sets per video: one, or the distributions of coverage_unequal.
    """

    videos: int
    classes: int
    skill: float
    equal: bool = True
    sizes: str = "one"


SHORT = (
    Cell(20, 1, 0.6), Cell(20, 5, 0.6), Cell(50, 1, 0.3), Cell(100, 1, 0.9), Cell(50, 5, 0.6),
    Cell(50, 10, 0.9), Cell(50, 10, 0.6, False),
    Cell(100, 5, 0.9), Cell(100, 30, 0.6), Cell(100, 30, 0.3, False), Cell(300, 30, 0.6), Cell(300, 30, 0.9, False),
)  # fmt: skip


UNEQUAL = tuple(
    Cell(videos, 5, skill, sizes=sizes)
    for sizes, videos, skill in product(("lognormal", "fifth", "half"), (100,), (0.6, 0.9))
)


def full() -> tuple[Cell, ...]:
    """Return every combination of 20–300 videos, 1–80 classes, three levels and both class distributions."""
    cells = product((20, 50, 100, 300), (1, 5, 10, 30, 80), (0.3, 0.6, 0.9), (True, False))
    return tuple(Cell(*cell) for cell in cells if cell[1] > 1 or cell[3])


@dataclass(frozen=True, slots=True)
class Data:
    """A simulated dataset with matched detections. Frames 2s and 2s + 1 belong to set s of a `video`."""

    truth: TruthTable
    found: BoxAnswers
    matches: tuple[Matches, ...]
    chosen: NDArray[np.int64]
    video: NDArray[np.int64]


def sample(cell: Cell, rng: np.random.Generator) -> Data:
    """Return one random dataset of the cell."""
    n_classes = cell.classes
    share = np.ones(n_classes) if cell.equal else 1.0 / np.arange(1, n_classes + 1)
    class_of_video = rng.choice(n_classes, size=cell.videos, p=share / share.sum())
    strength = 4.0
    skill_of_video = rng.beta(strength * cell.skill, strength * (1 - cell.skill), size=cell.videos)
    of_set = np.arange(cell.videos)
    if cell.sizes != "one":
        of_set = np.repeat(of_set, coverage_unequal.sizes_of(cell.sizes, cell.videos, 1, rng)[0])
    g, video_class, skill = len(of_set), class_of_video[of_set], skill_of_video[of_set]
    many = rng.integers(1, 5, size=g)
    video = np.repeat(np.arange(g), many)
    other = rng.random(len(video)) < 0.1
    label = np.where(other, rng.integers(0, n_classes, len(video)), video_class[video])
    frames, labels, hits = [], [], []
    wrong_frame, wrong_label, wrong_score, hit_score = [], [], [], []
    for at, harder in ((0, 1.0), (1, 0.75)):
        chance = skill * harder
        seen = rng.random(len(video)) < 0.25 + 0.75 * chance[video]
        frames.append(2 * video + at)
        labels.append(label)
        hits.append(seen)
        hit_score.append(rng.beta(1 + 5 * chance[video], 2))
        false = rng.poisson(3 * (1 - chance))
        owner = np.repeat(np.arange(g), false)
        own = rng.random(len(owner)) < 0.4
        wrong_frame.append(2 * owner + at)
        wrong_label.append(np.where(own, video_class[owner], rng.integers(0, n_classes, len(owner))))
        wrong_score.append(rng.beta(1.5, 2 + 2 * chance[owner]))
    frame, label, hit = (np.concatenate(part) for part in (frames, labels, hits))
    order = np.argsort(frame, kind="stable")
    frame, label, hit, score = frame[order], label[order], hit[order], np.concatenate(hit_score)[order]
    box = np.array([[0.0, 0.0, 1.0, 1.0]])
    truth = TruthTable.of(frame, label, np.repeat(box, len(frame), axis=0), n_frames=2 * g, n_classes=n_classes)
    all_frame = np.concatenate([frame[hit], *wrong_frame])
    all_label = np.concatenate([label[hit], *wrong_label])
    all_score = np.concatenate([score[hit], *wrong_score])
    target = np.concatenate([np.flatnonzero(hit), np.full(len(all_frame) - int(hit.sum()), -1)])
    order = np.lexsort((-all_score, all_frame))
    found = BoxAnswers.of(
        all_frame[order].astype(np.int32), all_label[order].astype(np.int32),
        np.repeat(box, len(order), axis=0), all_score[order], n_frames=2 * g, n_classes=n_classes,
    )  # fmt: skip
    target = target[order]
    rows = np.flatnonzero(target >= 0)
    matches = (Matches(found=rows, object=target[rows], counts=None, wanted=np.ones(len(truth), dtype=bool)),)
    return Data(truth, found, matches, 2 * np.arange(g)[:, None] + np.arange(2)[None, :], of_set)


def values(data: Data) -> Floats:
    """Return mAP on the anchors and on the worse frames, (2,)."""
    return mean_over_classes(class_ap(data.truth, data.found, data.matches, data.chosen))


def intervals(data: Data) -> tuple[Estimate, Estimate, Estimate]:
    """Return the score's estimates of both, and of the drop."""
    n = len(data.chosen)
    at, video = values(data), data.video
    without = mean_over_classes(class_ap_without(data.truth, data.found, data.matches, data.chosen, video))
    shown = videos_of_class(data.truth, data.matches[0], data.chosen, video)
    even = effective_videos(np.bincount(video))
    before, after = (mean_ap(float(at[k]), without[k], of_class=shown[:, k], n=n, effective=even) for k in (0, 1))
    return before, after, drop_between(before, after, without[0], without[1], n=n)


def bootstrap_bounds(data: Data, seed: int) -> Floats:
    """Return the percentile bootstrap of mAP on the anchors, (2,)."""
    draws = Bootstrap(data.video, replicates=DRAWS, seed=seed).weights[:, data.video]
    index = curve_index(data.truth, data.found, data.matches[0], data.chosen[:, 0])
    return np.asarray(np.percentile(mean_over_classes(index.ap(draws.T)), [2.5, 97.5]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The result of one cell: expected mAP, coverage of both mAPs, the drop and the bootstrap, and mean width."""

    cell: Cell
    truth: float
    before: float
    after: float
    drop: float
    bootstrap: float
    width: float
    none: int
    marked: bool

    @property
    def asked(self) -> bool:
        """Whether this cell has a target."""
        return self.cell.videos >= ASKED_VIDEOS and not self.marked and self.cell.sizes == "one"


def row(cell: Cell, *, draws: int, seed: int) -> Row:
    """Simulate one cell. The same seed gives the same row."""
    rng = np.random.default_rng(
        [seed, cell.videos, cell.classes, int(100 * cell.skill), int(cell.equal), len(cell.sizes) - 3]
    )
    many = np.array([values(sample(cell, rng)) for _ in range(10 * draws)])
    truth = np.append(many.mean(axis=0), (many[:, 0] - many[:, 1]).mean())
    held, widths, none, by_draws, marks = [], [], 0, 0, 0
    boot = max(draws // 4, 1)
    for one in range(draws):
        data = sample(cell, rng)
        found = intervals(data)
        if any(part.low is None for part in found):
            none += 1
            continue
        held.append([_holds(part, want) for part, want in zip(found, truth.tolist(), strict=True)])
        widths.append((found[0].high or 0.0) - (found[0].low or 0.0))
        marks += "most classes" in (found[0].reason or "")
        if one < boot:
            low, high = bootstrap_bounds(data, seed)
            by_draws += bool(low <= truth[0] <= high)
    before, after, drop = np.mean(held, axis=0).tolist()
    return Row(
        cell=cell, truth=float(truth[0]), before=before, after=after, drop=drop, bootstrap=by_draws / boot,
        width=float(np.mean(widths)), none=none, marked=marks > draws / 2,
    )  # fmt: skip


def _holds(found: Estimate, truth: float) -> bool:
    return found.low is not None and found.high is not None and found.low <= truth <= found.high


def rows(cells: tuple[Cell, ...], *, draws: int, seed: int, lanes: int = 1) -> Iterator[Row]:
    """Yield every cell's row, in order. The number of processes does not change them."""
    one = partial(row, draws=draws, seed=seed)
    if lanes == 1:
        yield from map(one, cells)
        return
    with ProcessPoolExecutor(lanes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(one, cells)
