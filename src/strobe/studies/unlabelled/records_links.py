"""What the study of flicker without labels adds to results.json for a detector: the lives of its objects."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from strobe.core.codec import LEFT_OUT, Count
from strobe.core.estimate import Estimate
from strobe.metrics.lives import LifeRules
from strobe.studies.noise.records import NoiseScore

LinkEvent = Literal["outage", "vanished", "class change"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoLinks:
    """One video: its answered frames, its objects, and what happened to them."""

    video: str
    frames: Count
    objects: Count
    vanished: Count
    appeared: Count
    outages: Count
    class_changes: Count
    object_seconds: float
    outage_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkOutage:
    """An outage: the frames of a video without a box of an object that should have one.

    `object` is a number within the detector's results. `first` and `last` are frame numbers of the video, `at` is the
    time of the first, and `seconds` how long the outage lasts; times are None if unknown. The box is the last one
    before the outage. `returns` is false if the object has no box after it. `faint` counts its frames with a box whose
    score is too low.
    """

    video: str
    object: Count
    label: str
    first: Count
    last: Count
    frames: Count
    at: float | None
    seconds: float | None
    returns: bool
    faint: Count
    x0: float
    y0: float
    x1: float
    y1: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCase:
    """One event to draw on frames: the frames before, during and after it, as rows of the frame table.

    In an outage, `during` is its first frame, or the frame with the lowest score if there are faint boxes. After the
    object has vanished, `after` is the last frame of its life, and there is no box. A class change happens between two
    sure boxes, so `during` is None unless there are frames without a sure box between them. `frames` counts the frames
    strictly between `before` and `after`. Boxes are x0, y0, x1, y1 in pixels. `sure` is the lower of the scores.
    """

    kind: LinkEvent
    video: str
    before: Count
    during: Count | None
    after: Count
    frames: Count
    seconds: float | None
    box_before: tuple[float, float, float, float]
    box_after: tuple[float, float, float, float] | None
    label_before: str
    label_after: str
    score_before: float
    score_during: float | None
    score_after: float | None
    sure: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkScore:
    """All figures of one detector that need no label.

    Boxes are joined to objects as `rules` describe. An object lives from its first box to a scene cut (`cuts` counts
    them), to the picture's border if its track leads out, or to the recording's end. `frames` counts the answered
    frames; lives pass over `missing_frames`, which count for nothing. `seen_once` counts the objects with a single box.
    `object_seconds` is the time that objects live, and `faint_seconds` the part of `outage_seconds` with a faint box.
    `longest` has the longest outages.
    """

    rules: LifeRules
    frames: Count
    missing_frames: Count
    cuts: Count
    objects: Count
    seen_once: Count
    vanished: Count
    appeared: Count
    outages: Count
    class_changes: Count
    object_seconds: float
    outage_seconds: float
    faint_seconds: float
    vanished_seconds: float
    measures: Mapping[str, Estimate]
    videos: tuple[VideoLinks, ...]
    longest: tuple[LinkOutage, ...]
    cases: tuple[LinkCase, ...]
    notes: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    noise: NoiseScore | None = field(default=None, metadata=LEFT_OUT)
