"""What the study of flicker without labels adds to results.json for a detector: the links of its boxes."""

from dataclasses import dataclass, field
from typing import Literal

from strobe.core.codec import LEFT_OUT, Count
from strobe.core.estimate import Estimate, Missing
from strobe.metrics.links import LinkRules
from strobe.studies.noise.records import NoiseScore

LinkEvent = Literal["gap", "class change", "crossing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkShares:
    """The links of at least three frames, or those of one length class: shares of links, and mean jitter.

    `gaps`, `class_changes` and `crossings` are the shares of links with at least one of these events. `interrupted` is
    the share with a gap or a crossing: at the confidence in use, the object vanishes and returns. `missing` is the
    share of a link's frames without a box. `centre_jitter` and `size_jitter` are means over the links with five
    consecutive boxes; 0.01 is one per cent of the box.
    """

    links: Count
    gaps: Estimate
    class_changes: Estimate
    crossings: Estimate
    interrupted: Estimate
    missing: Estimate
    centre_jitter: Estimate
    size_jitter: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLengthClass:
    """The links whose span in frames is from `least` to `most` (None: no limit)."""

    least: Count
    most: Count | None
    shares: LinkShares


@dataclass(frozen=True, slots=True, kw_only=True)
class GapLengths:
    """How many frames a box is missing before it returns. `one_frame` is the share of gaps of a single frame."""

    n: Count
    median_frames: Estimate
    one_frame: Estimate
    longest_frames: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoLinks:
    """One video: its answered frames, its links of at least three frames, links with each event, and the events."""

    video: str
    frames: Count
    links: Count
    with_gap: Count
    with_class_change: Count
    with_crossing: Count
    gaps: Count
    gap_frames: Count
    class_changes: Count
    crossings: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkCase:
    """One event to draw on frames: the frames before, during and after it, as rows of the frame table.

    During a gap, `during` is the first frame without a box. At a crossing, it is the frame with the lowest score. A
    class change happens between two sure boxes, so `during` is None unless there are frames without a sure box between
    them. `frames` counts the frames strictly between `before` and `after`. Boxes are x0, y0, x1, y1 in pixels. `sure`
    is the lower of the two scores, and the cases are sorted by it.
    """

    kind: LinkEvent
    video: str
    before: Count
    during: Count | None
    after: Count
    frames: Count
    box_before: tuple[float, float, float, float]
    box_after: tuple[float, float, float, float]
    label_before: str
    label_after: str
    score_before: float
    score_during: float | None
    score_after: float
    sure: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkScore:
    """All figures of one detector that need no label.

    A link is one object's boxes from frame to frame, as `rules` describe. `frames` counts the answered frames.
    `missing_frames` were not answered: a link ends before such a frame and never has a gap there. `cuts` counts the
    scene cuts at which links end. `one_frame` is the share of links seen on a single frame, among the links that
    neither start nor end with the video. All other figures are over links of at least three frames.
    """

    rules: LinkRules
    frames: Count
    missing_frames: Count
    cuts: Count
    links: Count
    one_frame: Estimate
    shares: LinkShares
    by_length: tuple[LinkLengthClass, ...]
    gap_lengths: GapLengths | Missing
    gaps: Count
    class_changes: Count
    crossings: Count
    videos: tuple[VideoLinks, ...]
    cases: tuple[LinkCase, ...]
    notes: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)
    noise: NoiseScore | None = field(default=None, metadata=LEFT_OUT)
