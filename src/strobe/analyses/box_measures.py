"""The measures of a detector without labels. Each is one declaration; to add one, add it here and to `MEASURES`.

A measure takes the boxes of one model on the frames that all models share, and returns a column: one number per frame,
with its video. What is counted in time is divided by the time that objects live: two objects that live for a minute
are two object-minutes.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from strobe.analyses.measures import Measure, measure
from strobe.analyses.video_plan import cut_frames, ended_at
from strobe.core.answers import BoxAnswers
from strobe.core.arrays import Bools, Floats, Ints
from strobe.core.dataset import Dataset
from strobe.core.errors import expect
from strobe.core.estimate import Missing
from strobe.metrics.columns import Column, Maximum, rate
from strobe.metrics.flicker import timelines
from strobe.metrics.lives import Footage, Jitter, LifeRules, Lives, follow, jitter

NO_TIMES = "the times of the frames are unknown, so nothing is counted in seconds"

USUAL_FPS = 30.0
"""The frames per second with which gaps are judged if a video has neither times nor a frame rate."""


@dataclass(frozen=True)
class BoxPlan:
    """The frames along which all detectors are followed, with the video of each, (N,).

    `cuts` counts the scene cuts. `timed` is false if the times of some frames are unknown.
    """

    dataset: Dataset
    footage: Footage
    video: Ints
    cuts: int
    timed: bool


def box_plan(dataset: Dataset) -> BoxPlan | Missing:
    """Return the frames along which boxes are followed, or the reason why there are none.

    All frames of the dataset's sets take part, in the order of their videos. Lives end at scene cuts, which are known
    from the hints; pass the dataset with the sets that contain a cut.
    """
    if dataset.info.axis != "frame-offset":
        return Missing("the axis is not frame-offset: boxes are followed only along a video")
    used, tables = np.unique(dataset.sets.frame), dataset.frames
    order, line = timelines(tables.video[used], tables.index[used])
    frames = used[order]
    cuts: Bools = cut_frames(dataset)[frames] & (np.diff(line, prepend=-1) == 0)
    line = ended_at(line, cuts)
    if not (np.diff(line) == 0).any():
        return Missing("no two frames of a video are neighbours")
    video = tables.video[frames]
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.where(np.isfinite(dataset.videos.fps_float), 1 / dataset.videos.fps_float, np.nan)[video]
    timed = np.isfinite(apart) & (apart > 0)
    clock: Floats = tables.index[frames].astype(np.float64) * np.where(timed, apart, 1 / USUAL_FPS)
    times = tables.time_s[frames]
    same = line[1:] == line[:-1]
    rising = np.isfinite(times)
    rising[1:] &= ~same | (np.diff(times) > 0)
    known = np.bincount(line, weights=~rising)[line] == 0
    clock = np.where(known, times, clock)
    step = np.append(np.where(same, np.diff(clock), np.nan), np.nan)
    before = np.append(np.nan, step[:-1])  # the last frame of a timeline lasts as long as the one before it
    lasting = np.where(np.isfinite(step), step, np.where(np.isfinite(before), before, apart))
    sizes = np.stack([tables.width[frames], tables.height[frames]], axis=1)
    footage = Footage(frames=frames, timeline=line, clock=clock, lasting=np.nan_to_num(lasting), size=sizes)
    return BoxPlan(dataset, footage, video, int(cuts.sum()), bool((known | timed).all()))


@dataclass(frozen=True)
class BoxAnswersAlong:
    """The boxes of one detector along the videos of a plan. Frames without an answer are not measured."""

    shared: BoxPlan
    answers: BoxAnswers
    rules: LifeRules = field(default_factory=LifeRules)

    def __post_init__(self) -> None:
        n = len(self.shared.dataset.frames)
        expect(self.answers.n_frames == n, "detections", f"one answer per frame ({n})", self.answers.n_frames)

    @cached_property
    def lives(self) -> Lives:
        """The lives of the objects."""
        return follow(self.answers, self.shared.footage, rules=self.rules)

    @cached_property
    def jitter(self) -> Jitter:
        """The jitter of the boxes."""
        return jitter(self.answers.xyxy[self.lives.row], self.lives.life, self.lives.step)

    @cached_property
    def living(self) -> Ints:
        """The number of objects that live on each frame, (N,)."""
        return self.lives.alive()

    @cached_property
    def minutes(self) -> Floats:
        """The object-minutes of each frame, (N,)."""
        return np.asarray(self.living * self.shared.footage.lasting / 60)

    def per_minute(self, steps: Ints) -> Column:
        """Return the column of events at these places of the footage, per object-minute."""
        return rate(np.bincount(steps, minlength=len(self.minutes)), self.minutes, self.shared.video)

    def trembling(self, amount: Floats) -> Column:
        """Return the column of the jitter of boxes, in the order of `jitter`."""
        steps, n = self.lives.step[self.jitter.place], len(self.minutes)
        return rate(
            np.bincount(steps, weights=amount, minlength=n),
            np.bincount(steps, minlength=n).astype(np.float64),
            self.shared.video,
        )


def followed(dataset: Dataset, found: BoxAnswers, rules: LifeRules | None = None) -> BoxAnswersAlong | Missing:
    """Follow the boxes of one detector along the videos, or return the reason why no boxes can be followed."""
    plan = box_plan(dataset)
    if isinstance(plan, Missing):
        return plan
    along = BoxAnswersAlong(plan, found, rules or LifeRules())
    return along if along.lives.known.any() else Missing("no frame of a video was answered")


def _untimed(boxes: BoxAnswersAlong) -> str | None:
    """Return why a figure by time is unknown."""
    return None if boxes.shared.timed else NO_TIMES


@measure(worse="more", family="boxes", unit="seconds per minute", per="frames", lead=3, lacks=_untimed)
def outage_seconds(boxes: BoxAnswersAlong) -> Column:
    """Seconds without a box per minute that an object lives."""
    return rate(boxes.lives.absent() * boxes.shared.footage.lasting, boxes.minutes, boxes.shared.video)


@measure(worse="less", family="boxes", per="frames", lead=2)
def completeness(boxes: BoxAnswersAlong) -> Column:
    """Share of an object's life in which it has a box."""
    lasting = boxes.shared.footage.lasting if boxes.shared.timed else np.ones(len(boxes.living))
    present = boxes.living - boxes.lives.absent()
    return rate(present * lasting, boxes.living * lasting, boxes.shared.video)


@measure(worse="more", family="boxes", unit="seconds", per="frames", lead=1, lacks=_untimed)
def longest_outage(boxes: BoxAnswersAlong) -> Maximum:
    """Longest time that an object is without a box."""
    lives = boxes.lives
    return Maximum(lives.longest(boxes.shared.footage.lasting), boxes.shared.video[lives.start])


@measure(worse="more", family="boxes", unit="per minute", per="frames", lacks=_untimed)
def outages(boxes: BoxAnswersAlong) -> Column:
    """Outages per minute that an object lives, whatever their length."""
    return boxes.per_minute(boxes.lives.first)


@measure(worse="more", family="boxes", unit="per minute", per="frames", lacks=_untimed)
def class_changes(boxes: BoxAnswersAlong) -> Column:
    """Changes of class per minute that an object lives."""
    return boxes.per_minute(boxes.lives.step[boxes.lives.change[:, 1]])


@measure(worse="more", family="boxes", unit="per minute", per="frames", lacks=_untimed)
def vanished(boxes: BoxAnswersAlong) -> Column:
    """Objects that vanish in the middle of the picture for good, per minute that an object lives."""
    lives = boxes.lives
    return boxes.per_minute(
        lives.first[lives.vanished[lives.outage_life] & (lives.until == lives.end[lives.outage_life])]
    )


@measure(worse="more", family="boxes", unit="per minute", per="frames", lacks=_untimed)
def appeared(boxes: BoxAnswersAlong) -> Column:
    """Objects that appear in the middle of the picture, per minute that an object lives."""
    return boxes.per_minute(boxes.lives.start[boxes.lives.appeared])


def _jitter(part: str, what: str, unit: Any, *, headline: bool) -> Measure[Any]:
    """Return the measure of a jitter: of the centre or of the size, as a share of the box or in pixels."""

    is_pixels = unit == "pixels"
    return Measure(
        name=f"{part.removesuffix('_pixels')}_jitter{'_pixels' if is_pixels else ''}",
        meaning=f"Distance of the box's {what} from a smooth path, in {'pixels' if is_pixels else '% of the box'}.",
        more_is_worse=True,
        family="boxes",
        unit=unit,
        per="frames",
        headline=headline,
        column=lambda boxes: boxes.trembling(getattr(boxes.jitter, part)),
    )


MEASURES: tuple[Measure[Any], ...] = (
    outage_seconds,
    completeness,
    longest_outage,
    outages,
    class_changes,
    vanished,
    appeared,
    _jitter("centre", "centre", "share", headline=True),
    _jitter("centre_pixels", "centre", "pixels", headline=True),
    _jitter("size", "size", "share", headline=False),
    _jitter("size_pixels", "size", "pixels", headline=False),
)
"""The measures of detectors that need no label, in the order of the tables."""
