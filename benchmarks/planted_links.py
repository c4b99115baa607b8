"""Plant gaps, class switches, score dips and jitter into true boxes, and measure them without labels.

    python benchmarks/planted_links.py [--videos 100] [--seed 0]

The boxes of the synthetic world are the answers of a perfect detector. A fault is planted into each track with a given
probability: a box is missing, has another class or has a low score on one to three successive frames. Jitter adds
independent normal errors to centre and size, as shares of the box. `planted` is the probability, `realised` what the
draw gave, and `measured` what the links say, with their 95 % interval over videos. An interval covers if it contains
the probability. All figures are in per cent.

Boxes of the synthetic world end on whole pixels, so even a perfect detector has some jitter (`true boxes`). The
`realised` jitter of other cases is the root of the sum of squares of this floor and the planted jitter. It is a little
low, because the floor differs between links.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.plan import ScoreOptions
from strobe.core.answers import BoxAnswers
from strobe.core.dataset import Dataset
from strobe.core.estimate import Estimate
from strobe.core.tables import Boxes
from strobe.studies.unlabelled.records_links import LinkScore
from strobe.studies.unlabelled.score_links import link_score
from strobe.synthetic.sets import SyntheticOptions
from strobe.synthetic.world import WorldOptions
from strobe.workflows.synthesize import rendered

Ints = NDArray[np.int64]

SURE, DIP = 0.9, 0.35
LONGEST = 3
FRAMES = 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The share of tracks with each fault, and the standard deviation of the jitter as a share of the box."""

    gap: float = 0.0
    class_change: float = 0.0
    dip: float = 0.0
    jitter: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """The answers of a detector with these faults, and the number of tracks that have each of them."""

    answers: BoxAnswers
    tracks: int
    gap: int
    class_change: int
    dip: int
    missing: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedRow:
    """One figure: what was planted, what the draw gave, what was measured, and what the interval should contain."""

    case: str
    figure: str
    planted: float
    realised: float
    measured: Estimate
    target: float

    @property
    def covered(self) -> bool | None:
        """Whether the interval contains the target; None without an interval."""
        low, high = self.measured.low, self.measured.high
        return None if low is None or high is None else low <= self.target <= high


def world(videos: int, *, seed: int = 0, occluders: int = 0, size: int = 128, workers: int = 1) -> Dataset:
    """Render clips of one to three objects, FRAMES frames each."""
    options = WorldOptions(
        size=size, frames=FRAMES, objects_max=3, distractors=0, occluders=occluders, blur=0, noise=0, lighting=0
    )
    return rendered(SyntheticOptions(world=options, videos=videos, seed=seed), workers=workers).dataset


def true_boxes(dataset: Dataset) -> Boxes:
    """Return the dataset's boxes."""
    if dataset.boxes is None:
        raise ValueError("the dataset has no boxes")
    return dataset.boxes


def plant(dataset: Dataset, faults: Faults, *, seed: int = 0) -> Planted:
    """Return the true boxes with faults. No fault touches the first or last frame of a track."""
    rng = np.random.default_rng(seed)
    boxes, n_classes = true_boxes(dataset), len(dataset.info.label_space)
    index, video = dataset.frames.index[boxes.frame], dataset.frames.video[boxes.frame]
    order = np.lexsort((index, boxes.track, video))
    name = np.stack([video[order], boxes.track[order]], axis=1)
    starts = np.flatnonzero(np.append(True, (name[1:] != name[:-1]).any(axis=1)))
    tracks = np.split(order, starts[1:])
    label, score, xyxy = boxes.label.astype(np.int64), np.full(len(order), SURE), boxes.xyxy.astype(np.float64)
    kept, count = np.ones(len(order), dtype=bool), dict.fromkeys(("gap", "class_change", "dip"), 0)
    for track in tracks:
        for fault in count:
            if len(track) < LONGEST + 2 or rng.uniform() >= getattr(faults, fault):
                continue
            length = int(rng.integers(1, LONGEST + 1))
            first = int(rng.integers(1, len(track) - length))
            rows = track[first : first + length]
            count[fault] += 1
            if fault == "gap":
                kept[rows] = False
            elif fault == "dip":
                score[rows] = DIP
            else:
                label[rows] = (label[rows] + int(rng.integers(1, n_classes))) % n_classes
    if faults.jitter:
        size = xyxy[:, 2:] - xyxy[:, :2]
        centre = (xyxy[:, 2:] + xyxy[:, :2]) / 2 + faults.jitter * size * rng.standard_normal(size.shape)
        size = size * (1 + faults.jitter * rng.standard_normal(size.shape))
        xyxy = np.concatenate([centre - size / 2, centre + size / 2], axis=1)
    answers = BoxAnswers.of(
        boxes.frame[kept],
        label[kept],
        xyxy[kept],
        score[kept],
        n_frames=len(dataset.frames),
        n_classes=n_classes,
        model="planted",
    )
    return Planted(answers=answers, tracks=len(tracks), missing=float((~kept | (score == DIP)).mean()), **count)


def scored(dataset: Dataset, planted: Planted, options: ScoreOptions | None = None) -> LinkScore:
    """Return the link score of the planted answers."""
    score = link_score(dataset, planted.answers, options)
    if not isinstance(score, LinkScore):
        raise ValueError(score.reason)
    return score


def cases() -> Iterator[tuple[str, Faults]]:
    """Return every case: single faults at several rates, then all of them together."""
    yield "true boxes", Faults()
    for rate in (0.1, 0.3, 0.6):
        yield f"gaps {rate:.0%}", Faults(gap=rate)
        yield f"class switches {rate:.0%}", Faults(class_change=rate)
        yield f"score dips {rate:.0%}", Faults(dip=rate)
    for jitter in (0.01, 0.02, 0.05):
        yield f"jitter {jitter:.0%}", Faults(jitter=jitter)
    yield "all together", Faults(gap=0.3, class_change=0.2, dip=0.25, jitter=0.02)


def rows(dataset: Dataset, *, seed: int = 0) -> Iterator[PlantedRow]:
    """Return all figures of every case."""
    floor = scored(dataset, plant(dataset, Faults())).measures
    for number, (case, faults) in enumerate(cases()):
        planted = plant(dataset, faults, seed=seed * 100 + number)
        measures = scored(dataset, planted).measures
        lost = (faults.gap + faults.dip) * (LONGEST + 1) / 2 / FRAMES
        figures = [
            ("life without a box", lost, planted.missing, _rest(measures["completeness"])),
            ("jitter of the centre", faults.jitter, _both(faults, floor["centre_jitter"]), measures["centre_jitter"]),
            ("jitter of the size", faults.jitter, _both(faults, floor["size_jitter"]), measures["size_jitter"]),
        ]
        for figure, rate, realised, measured in figures:
            target = rate if figure == "life without a box" else realised
            yield PlantedRow(
                case=case, figure=figure, planted=rate, realised=realised, measured=measured, target=target
            )


def _rest(found: Estimate) -> Estimate:
    """Return 1 minus a share."""
    return replace(
        found,
        value=None if found.value is None else 1 - found.value,
        low=None if found.high is None else 1 - found.high,
        high=None if found.low is None else 1 - found.low,
    )


def _both(faults: Faults, floor: Estimate) -> float:
    return float(np.hypot(faults.jitter, floor.value or 0.0))


def table(found: list[PlantedRow]) -> str:
    """Return the rows as a Markdown table; beyond the true boxes, only figures that were planted or measured."""
    lines = ["| case | figure | planted | realised | measured | covered |", "|---|---|---|---|---|---|"]
    for row in found:
        jitter = row.figure.startswith("jitter")
        if row.case != "true boxes" and not row.planted and (jitter or not row.measured.value):
            continue
        covered = {None: "", True: "yes", False: "no"}[row.covered]
        lines.append(
            f"| {row.case} | {row.figure} | {row.planted * 100:.1f} | {row.realised * 100:.2f} | "
            f"{row.measured.text(digits=2)} | {covered} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    dataset = world(given.videos, seed=given.seed, workers=given.workers)
    tracks = plant(dataset, Faults()).tracks
    print(f"{given.videos} clips of {FRAMES} frames, {tracks} tracks, {len(true_boxes(dataset).frame)} boxes\n")
    print(table(list(rows(dataset, seed=given.seed))))
    hidden = world(given.videos // 4, seed=given.seed + 1, occluders=2, workers=given.workers)
    measures = scored(hidden, plant(hidden, Faults())).measures
    print(
        f"\nTrue boxes where up to two things pass in front: {_rest(measures['completeness']).text()} % of lives have"
    )
    print(f"no box; jitter of the centre {measures['centre_jitter'].text(digits=2)} %")


if __name__ == "__main__":
    main()
