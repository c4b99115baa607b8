"""What the study of flicker without labels adds to results.json."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from strobe.core.codec import LEFT_OUT, Count
from strobe.core.errors import expect
from strobe.core.estimate import Estimate, Missing
from strobe.studies.unlabelled.records_links import LinkScore

CUT = 0.5
"""The cut score from which two frames belong to different scenes. A set with such a member is excluded."""

SURE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class FlickerOptions:
    """Options of the study: the confidence of a sure flip, and maps from classes to coarser groups by name."""

    sure: float = SURE
    coarser: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expect(0 <= self.sure <= 1, "sure", "a confidence from 0 to 1", self.sure)


@dataclass(frozen=True, slots=True)
class FlickerPoint:
    """The share of sets whose answers are not all the anchor's, at one k."""

    k: Count
    flicker: Estimate


@dataclass(frozen=True, slots=True)
class FlickerTime:
    """The share of sets whose answer changes within a time."""

    ms: Count
    flicker: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class FlickerTimeCurve:
    """Flicker against milliseconds on the sets that reach `t_max_ms`."""

    t_max_ms: Count
    n_sets: Count
    points: tuple[FlickerTime, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpellLengths:
    """How long another answer lasts: spells between two spells of one answer (A B A), in frames and milliseconds.

    `one_frame` is the share of spells that last a single frame. The median in ms is None if times are unknown.
    """

    n: Count
    median_frames: Estimate
    one_frame: Estimate
    longest_frames: Count
    median_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternation:
    """Two answers that follow each other on neighbouring frames, their flips, and the videos with such a flip."""

    one: str
    other: str
    flips: Count
    videos: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class CoarseFlicker:
    """Flicker after classes are merged into groups."""

    level: str
    n_groups: Count
    flicker: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoFlicker:
    """One video: its sets, how many of them flicker, its pairs of neighbouring frames, and how many of them flip."""

    video: str
    sets: Count
    flickering: Count
    pairs: Count
    flips: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class FlickerScore:
    """All figures of one classifier that need no label.

    `flicker` is the share of sets in which some member within k gets another answer than the anchor, and `consistency`
    is the rest. `most_frequent` is the mean over sets of the share of frames with the set's most frequent answer.
    `sure_flip_rate` counts the flips with both confidences of at least `sure`. `unscored` counts sets without all
    answers.
    """

    k: Count
    flicker: Estimate
    consistency: Estimate
    most_frequent: Estimate
    curve: tuple[FlickerPoint, ...]
    time_curve: FlickerTimeCurve | Missing
    flip_rate: Estimate
    sure: float
    sure_flip_rate: Estimate
    spells: SpellLengths | Missing
    alternations: tuple[Alternation, ...]
    coarser: tuple[CoarseFlicker, ...]
    videos: tuple[VideoFlicker, ...]
    unscored: Count
    notes: tuple[str, ...] | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSets:
    """What people found in a random sample of the sets that flicker: how many still show one thing with one answer."""

    asked: Count
    changed: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class FlickerResults:
    """Flicker of every classifier on all sets, with and without a label, and the links of every detector's boxes.

    `across_cuts` counts the sets that were excluded because a scene cut lies inside them; links end at a cut.
    """

    n_sets: Count
    n_videos: Count
    across_cuts: Count
    models: Mapping[str, FlickerScore]
    detectors: Mapping[str, LinkScore] | None = field(default=None, metadata=LEFT_OUT)
    checked: ChangedSets | None = field(default=None, metadata=LEFT_OUT)
