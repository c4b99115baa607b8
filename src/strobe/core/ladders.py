"""The rungs of a background ladder by name, and what is known of each of its images."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from strobe.core.errors import expect
from strobe.core.variants import ANCHOR

__all__ = ["CALLED", "CONTEXTS", "CONTROLS", "LADDER", "NEEDS_BOX", "NEEDS_MASK", "RUNGS", "LadderPicture"]

RUNGS: Mapping[str, str] = {
    "zoom": "centre, as large as the box",
    "random": "anywhere, as large as the box",
    "crop": "the box",
    "grey": "background grey",
    "blur": "background blurred",
    "plain": "background one colour",
    "same": "ground of its own class",
    "other": "ground of another class",
    "object": "object alone, on black",
    "tight": "the box, background grey",
    "removed": "object removed",
    "ground": "ground alone",
    "usual": "as the model usually takes it",
}
"""Every rung that is made here, and what people are told it is; docs/background.md says more."""

CALLED: Mapping[str, str] = {
    ANCHOR: "the whole image", **RUNGS, "next": "ground of the next class", "box": "object under a black box"
}  # fmt: skip
"""What people are told every rung is, the anchor of all and those that others make (ImageNet-9) among them."""

CONTROLS = ("removed", "ground", "usual")
"""Rungs a person would answer otherwise, or that are no change of the image: outside every worst."""

NEEDS_BOX = ("zoom", "random", "crop", "same", "other", "tight", "ground")
NEEDS_MASK = ("grey", "blur", "plain", "same", "other", "object", "tight", "removed")

CONTEXTS = (1.0, 1.25, 1.5, 2.0)
"""How many times as wide and high as its box a crop is, where nothing is said."""

LADDER = "ladder"
"""What `absent` calls the whole ladder of an image that was left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderPicture:
    """One image of a ladder. `picture` is its key, and the group of its sets; `xyxy` is None where it has no box.

    `area_share` is the box's share of the image, `mask_share` the object's; `boxes` and `masks` say where they come
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
