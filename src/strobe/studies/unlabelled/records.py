"""What the study of flicker without labels adds to results.json."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from strobe.analyses.early import StoppedEarly
from strobe.core.codec import LEFT_OUT, Count
from strobe.core.errors import expect
from strobe.core.estimate import Estimate, Missing
from strobe.core.tables import SCENE_CUT
from strobe.studies.noise.records import NoiseScore
from strobe.studies.unlabelled.records_links import LinkScore

CUT = SCENE_CUT
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
    """The share of sets in which some answer differs from the anchor's, at one k."""

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
    """How long answer B lasts in patterns A B A, where the model leaves answer A and returns to it.

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

    `flicker` is the share of sets in which the answer on some member within k differs from the anchor's, and
    `consistency` is the rest. `most_frequent` is the mean over sets of the share of frames with the set's most frequent
    answer. `sure_flip_rate` counts the flips with both confidences of at least `sure`. `unscored` counts sets without
    all answers. After a run that `stopped_early`, only flicker and consistency are known; both are exact.
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
    stopped_early: StoppedEarly | None = field(default=None, metadata=LEFT_OUT)
    noise: NoiseScore | None = field(default=None, metadata=LEFT_OUT)
    measures: Mapping[str, Estimate] | None = field(default=None, metadata=LEFT_OUT)
    """The other figures of `analyses/video_measures.py`, by name."""


CONSTANT = "it gives the same answer"
"""The start of the note on a model with one answer on all frames."""

IN_RECORD = ("flicker", "consistency", "most_frequent", "flip_rate", "sure_flip_rate")
"""The measures with a field of their own in `FlickerScore`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFlicker:
    """What people found in a random sample of the sets on which one model flickers.

    `changes` is the share of these sets that show a real change or have several right answers. `flicker` is the flicker
    without such sets, and `bound` is 1 − `flicker`: the model is right on every frame in at most this share of the
    sets. The intervals of both cover the videos and the checked sets.
    """

    asked: Count
    changes: Estimate
    flicker: Estimate
    bound: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSets:
    """How many sets people checked, and in how many they found a change or several right answers.

    The sets are a random sample of the sets on which some model flickers. `unsure` counts drawn sets without a clear
    answer. `models` has the corrected figures by model.
    """

    asked: Count
    changed: Count
    unsure: Count = 0
    models: Mapping[str, CheckedFlicker] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSample:
    """The sample that accuracy is estimated from: the `named` of all `sets`, and how they were drawn.

    `design` is `random` if every set had the same chance, and `planned` if a plan preferred some strata. `undecided`
    counts drawn sets that people could not name.
    """

    named: Count
    sets: Count
    design: Literal["random", "planned"]
    strata: Count
    seed: int
    undecided: Count = 0

    def sentence(self) -> str:
        """Return where the labels are from, in one sentence.

        >>> LabelSample(named=60, sets=600, design="random", strata=1, seed=0).sentence()
        'accuracy is estimated from 60 of 600 sets, which were drawn at random (seed 0), with each set that flickers \
counted as broken'
        """
        how = "at random" if self.design == "random" else f"by a plan from {self.strata} strata"
        lost = f"; {self.undecided} drawn sets could not be named" if self.undecided else ""
        return (
            f"accuracy is estimated from {self.named:,} of {self.sets:,} sets, which were drawn {how} "
            f"(seed {self.seed}), with each set that flickers counted as broken{lost}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FlickerResults:
    """Flicker of every classifier on all sets, with and without a label, and the objects of every detector.

    `across_cuts` counts the sets that were excluded because they contain a scene cut; an object's life ends at a cut.
    """

    n_sets: Count
    n_videos: Count
    across_cuts: Count
    models: Mapping[str, FlickerScore]
    detectors: Mapping[str, LinkScore] | None = field(default=None, metadata=LEFT_OUT)
    checked: ChangedSets | None = field(default=None, metadata=LEFT_OUT)
