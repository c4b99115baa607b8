"""What the study of forms adds to results.json, under `studies.forms`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from strobe.core.codec import LEFT_OUT, Count
from strobe.core.estimate import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipCounts:
    """The frames of one class or of one set: how many were compared, and how many flipped or changed."""

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
    """One form of a model. For all forms but the reference, `pair` has the measures of the pair by name.

    `differs` states what differs from the reference. `acc_pmk`, `map_pmk` and `flicker` are the form's own figures.
    `frames_per_second` counts forward passes alone, when last needed; models of one command share the machine.
    `size` is the number of bytes of the weights. `classes` and `sets` come in the order of their flips. Without labels,
    `classes` are the answers of the reference. `frames` are examples, each from another set while there are any.
    """

    model: str
    differs: tuple[str, ...] = ()
    pair: Mapping[str, Estimate] = field(default_factory=dict)
    acc_pmk: Estimate | None = field(default=None, metadata=LEFT_OUT)
    map_pmk: Estimate | None = field(default=None, metadata=LEFT_OUT)
    flicker: Estimate | None = field(default=None, metadata=LEFT_OUT)
    frames_per_second: float | None = field(default=None, metadata=LEFT_OUT)
    size: Count | None = field(default=None, metadata=LEFT_OUT)
    classes: tuple[FlipCounts, ...] = ()
    sets: tuple[FlipCounts, ...] = ()
    frames: tuple[ChangedFrame, ...] = ()

    @property
    def agreement(self) -> Estimate | None:
        """The share of frames with the same answer as the reference, as 1 − `changed`; None for a detector."""
        found = self.pair.get("changed")
        if found is None or found.value is None:
            return None
        low, high = (None if end is None else 1 - end for end in (found.high, found.low))
        count = None if found.count is None else found.n - found.count
        return Estimate(
            value=1 - found.value, low=low, high=high, n=found.n, count=count, method=found.method, reason=found.reason
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Forms:
    """The forms of one model, the reference first."""

    reference: str
    forms: tuple[FormScore, ...]
