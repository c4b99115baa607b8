"""What the study of the noise floor adds to results.json."""

from dataclasses import dataclass

from strobe.core.codec import Count, Share
from strobe.core.estimate import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseScore:
    """How often a model changes its answer on the same frame, and how much more often on the next frame.

    `noise` is the share of pairs of answers to one frame that differ. `flips` is the share of pairs of answers that
    differ, one from each of two neighbouring frames, over all answers. `beyond_noise` is flips − noise on the same
    frames: 0 in expectation if all frames of a set have one distribution of answers. `p` is the one-sided p-value of a
    difference above 0; it is None if frames have no neighbours. `changed_frames` is the share of frames whose answers
    are not all the same. `flicker` is the share of sets in which the first answer on some frame differs from the first
    answer on the anchor.

    `repeat` is the largest number of answers to a frame. A set counts if each of its frames has at least two answers;
    `unscored` counts the others. A detector's answer is the class of its most confident box, or no box.
    """

    repeat: Count
    noise: Estimate
    flips: Estimate
    beyond_noise: Estimate
    p: Share | None
    changed_frames: Estimate
    flicker: Estimate
    unscored: Count
