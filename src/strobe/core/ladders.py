"""The rungs of a background ladder by name, and what is known of each of its pictures."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from strobe.core.errors import expect

__all__ = ["CONTEXTS", "CONTROLS", "LADDER", "NEEDS_BOX", "NEEDS_MASK", "RUNGS", "LadderPicture"]

RUNGS: Mapping[str, str] = {
    "zoom": "the middle of the picture, as large as the box crop",
    "random": "anywhere in the picture, as large as the box crop",
    "crop": "the box, and more and more around it",
    "grey": "the background grey",
    "blur": "the background blurred",
    "plain": "the background of one plain colour",
    "same": "the background of another picture of its class",
    "other": "the background of a picture of another class",
    "object": "the object alone, black around it",
    "tight": "the box, and the background in it grey",
    "removed": "the object removed: filled from around it",
    "ground": "the background alone: the box filled with tiles of it",
    "usual": "the picture as each model usually takes it",
}
"""Every rung and what it shows; the anchor of each is the whole picture."""

CONTROLS = ("removed", "ground", "usual")
"""Rungs a person would answer otherwise, or that are no change of the picture: outside every worst."""

NEEDS_BOX = ("zoom", "random", "crop", "same", "other", "tight", "ground")
NEEDS_MASK = ("grey", "blur", "plain", "same", "other", "object", "tight", "removed")

CONTEXTS = (1.0, 1.25, 1.5, 2.0)
"""How many times as wide and high as its box a crop is, where nothing is said."""

LADDER = "ladder"
"""What `absent` calls the whole ladder of a picture that was left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderPicture:
    """One picture of a ladder. `picture` is its key, and the group of its sets; `xyxy` is None where it has no box.

    `area_share` is the box's share of the picture, `mask_share` the object's; `boxes` and `masks` say where they come
    from (`true`, or `estimated:` and by whom; empty: nowhere). `absent` gives the reason for every rung it lacks.
    """

    picture: str
    frame_id: str
    size_wh: tuple[int, int]
    xyxy: tuple[float, float, float, float] | None = None
    area_share: float | None = None
    mask_share: float | None = None
    boxes: str = ""
    masks: str = ""
    mask: str = ""
    absent: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("area_share", "mask_share"):
            share = getattr(self, name)
            expect(share is None or 0 < share <= 1, f"ladder.{name}", "above 0, at most 1", share)
        expect(set(self.absent) <= {*RUNGS, LADDER}, "ladder.absent", "rungs", sorted(self.absent))

    @property
    def is_left_out(self) -> bool:
        """Whether it has no rung at all."""
        return LADDER in self.absent
