"""What the study of forms adds to results.json, under `studies.forms`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from strobe.core.codec import LEFT_OUT, Count
from strobe.core.estimate import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipCounts:
    """The frames of one class or of one set: how many were compared, and how many flipped or changed."""

    by: Literal["class", "set"]
    name: str
    frames: Count
    negative: Count
    positive: Count
    changed: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFrame:
    """A frame whose answer changed: its key, its set, both answers, and the right classes if they are known."""

    frame: str
    set: str
    old: str
    new: str
    right: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FormScore:
    """One form of a model, compared with the reference; the reference itself comes first, without a comparison.

    `differs` states what differs from the reference, and `pair` has the measures of the pair by name.
    `frames_per_second` counts forward passes alone, when last needed; models of one command share the machine. `size`
    is the number of bytes of the weights. `flips` come in their order. Without labels, classes are the answers of the
    reference. `frames` are examples, each from another set while there are any.
    """

    reference: str
    model: str
    differs: tuple[str, ...] = ()
    pair: Mapping[str, Estimate] = field(default_factory=dict)
    frames_per_second: float | None = field(default=None, metadata=LEFT_OUT)
    size: Count | None = field(default=None, metadata=LEFT_OUT)
    flips: tuple[FlipCounts, ...] = ()
    frames: tuple[ChangedFrame, ...] = ()
