"""What the study of remedies adds to results.json, under `studies.remedies`."""

from dataclasses import dataclass, field

from strobe.core.codec import LEFT_OUT, Count, Share
from strobe.core.estimate import Estimate

NONE = "none"
"""The remedy of a model without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyScore:
    """A model with one remedy, or with none, on the frames that it answered along the videos.

    `changes_per_s` counts the measured changes per second of video (docs/remedies.md), and `fewer` is the share of them
    that the remedy removes. `altered` is the share of frames with another answer than the model's. `delay_ms` is how
    much later a sure and lasting change is shown, with the wait for later frames. `forwards` are the forward passes per
    frame, counted from the stored answers.

    Of the `real_changes` that the model follows, the remedy follows `delayed` later than the model, `late_ms` in the
    mean, and never follows `swallowed`. `is_front`: no other remedy of the model is as good in each of these figures.
    """

    model: str
    remedy: str
    frames: Count
    changes: Count
    changes_per_s: float | None
    fewer: float | None
    altered: Share
    acc_orig: Estimate | None = field(default=None, metadata=LEFT_OUT)
    acc_pmk: Estimate | None = field(default=None, metadata=LEFT_OUT)
    delay_ms: float | None
    forwards: float | None
    real_changes: Count
    delayed: Count
    swallowed: Count
    late_ms: float | None
    is_front: bool = False
