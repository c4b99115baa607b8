"""The names of the rungs of a background ladder, and the record of an image in a ladder."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from strobe.core.errors import expect
from strobe.core.variants import ANCHOR

RUNGS: Mapping[str, str] = {
    "zoom": "centre, as large as the box",
    "random": "random place, as large as the box",
    "crop": "the box",
    "grey": "background grey",
    "blur": "background blurred",
    "plain": "background one colour",
    "same": "background of its own class",
    "other": "background of another class",
    "object": "object alone, on black",
    "tight": "the box, background grey",
    "removed": "object removed",
    "ground": "background alone",
    "usual": "usual preprocessing",
}
"""All rungs that strobe makes, and their descriptions for people; see docs/annexes/backgrounds.md."""

CALLED: Mapping[str, str] = {
    ANCHOR: "the whole image", **RUNGS, "next": "background of the next class", "box": "object under a black box"
}  # fmt: skip
"""Descriptions of all rungs, including the common anchor and rungs from other sources (ImageNet-9)."""

CONTROLS = ("removed", "ground", "usual")
"""Rungs that a person would answer differently, or that do not change the image; excluded from every worst case."""

NEEDS_BOX = ("zoom", "random", "crop", "same", "other", "tight", "ground")
NEEDS_MASK = ("grey", "blur", "plain", "same", "other", "object", "tight", "removed")

CONTEXTS = (1.0, 1.25, 1.5, 2.0)
"""The default width and height of a crop, as a multiple of its box."""

LADDER = "ladder"
"""The key in `absent` that gives the reason why an image has no rung at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderPicture:
    """One image of a ladder.

    `picture` is the key of the image and the group of its sets; `xyxy` is None if it has no box.

    `area_share` is the share of the image that the box covers, and `mask_share` is the share that the object covers.
    `boxes` and `masks` are the origins of the box and of the mask: `true`, `estimated:MODEL`, or empty if there is
    none. `absent` gives the reason for every rung that the image lacks.
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
        """Whether the image has no rung at all."""
        return LADDER in self.absent


KIND = "background"
"""The kind of variants that are rungs of a ladder."""
