"""The frozen records of the domain, validated when they are created."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import are_pixels
from strobe.core.errors import expect
from strobe.core.labels import LabelSpace
from strobe.core.secrets import hidden_in
from strobe.core.variants import NO_VARIANT, STATUSES

DECISIONS = ("similar", "dissimilar", "unsure")
"""The possible decisions of an annotator about a pair."""

REASONS = ("motion", "background", "blur", "occlusion", "deformation", "other")
"""The possible reasons why a pair is dissimilar."""

PictType = Literal["I", "P", "B", ""]


def frame_id(video_id: str, index: int) -> str:
    """Return a machine-independent frame id: the digest of its video and its index in presentation order.

    >>> frame_id("3f9a", 12)
    '3f9a:12'
    """
    return f"{video_id}:{index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One frame of one video, identified by its content and not by its path.

    `video_id` is the digest of the video or of its frame list. `key` is the frame's name in its source, which
    prediction files use. The time `time_s` is exact. If `as_input` is set, the pixels already are a model's input and
    are neither resized nor cropped. `recipe` describes how to render a frame that is not stored.

    >>> Frame(video_id="3f9a", index=12, key="dog/12.png").id
    '3f9a:12'
    """

    video_id: str
    index: int
    key: str
    pts: int | None = None
    time_s: Fraction | None = None
    pict_type: PictType = ""
    size_wh: tuple[int, int] | None = None
    sha256: str = ""
    as_input: bool = False
    recipe: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        expect(bool(self.video_id), "Frame.video_id", "not empty", self.video_id)
        expect(self.index >= 0, "Frame.index", ">= 0", self.index)
        expect(bool(self.key), "Frame.key", "not empty", self.key)
        expect(self.pict_type in ("I", "P", "B", ""), "Frame.pict_type", "I, P, B or empty", self.pict_type)

    @property
    def id(self) -> str:
        """The frame's identity, the same on every machine."""
        return frame_id(self.video_id, self.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A frame of a set and its signed distance from the anchor."""

    frame: Frame
    distance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbationSet:
    """An anchor and the images that a person would consider the same. `members` does not include the anchor.

    `axis` is the meaning of the members' distance. `variant` is the change made to the anchor (empty in a dataset
    without variants). `group` joins the sets of one image. `status`, `reach` and `margin` are set by a search
    (strobe.core.variants).
    """

    set_id: str
    anchor: Frame
    members: tuple[Member, ...]
    axis: str = "frame-offset"
    variant: str = NO_VARIANT
    group: str = ""
    status: str = "complete"
    reach: float | None = None
    margin: float | None = None

    def __post_init__(self) -> None:
        expect(bool(self.axis), "PerturbationSet.axis", "not empty", self.axis)
        expect(self.status in STATUSES, "PerturbationSet.status", f"one of {', '.join(STATUSES)}", self.status)
        ids = [member.frame.id for member in self.members]
        expect(len(set(ids)) == len(ids), "PerturbationSet.members", "each frame once", self.set_id)
        expect(self.anchor.id not in ids, "PerturbationSet.members", "without the anchor", self.anchor.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A labelled box. Corners are in pixels of the stored frame, x right and y down; the far corner is exclusive."""

    xyxy: tuple[float, float, float, float]
    label: int
    track: int = -1
    crowd: bool = False

    def __post_init__(self) -> None:
        x0, y0, x1, y1 = self.xyxy
        expect(bool(are_pixels(np.array(self.xyxy)).all()), "Box.xyxy", "finite numbers, at most 1e9", self.xyxy)
        expect(x1 > x0 and y1 > y0, "Box.xyxy", "x1 > x0 and y1 > y0", self.xyxy)
        expect(self.label >= 0, "Box.label", ">= 0", self.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Detections:
    """The detections in one image.

    Args:
        xyxy: The corners of the boxes (N, 4) in pixels of the image.
        label: The class of each box (N,).
        score: The score of each box (N,).

    Raises:
        InvalidValue: The shapes differ, or a number is not finite.

    >>> box = Detections(xyxy=np.array([[0.0, 0, 4, 4]]), label=np.array([2], np.int32), score=np.array([0.9]))
    >>> len(box)
    1
    """

    xyxy: NDArray[np.float64]
    label: NDArray[np.int32]
    score: NDArray[np.float64]

    def __post_init__(self) -> None:
        n = self.score.shape[0] if self.score.ndim == 1 else -1
        expect(self.xyxy.shape == (n, 4), "Detections.xyxy", f"shape ({n}, 4)", self.xyxy.shape)
        expect(self.label.shape == (n,), "Detections.label", f"shape ({n},)", self.label.shape)
        expect(bool(are_pixels(self.xyxy).all()), "Detections.xyxy", "finite numbers, at most 1e9", "other values")
        expect(bool(np.isfinite(self.score).all()), "Detections.score", "finite numbers", "NaN or infinity")

    def __len__(self) -> int:
        return int(self.score.shape[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One vote, as it was cast. Votes are appended and never changed; each annotator's latest vote counts.

    `stage` is `pair` (round one), `verify` (round two), `joint` (decided together) or `anchor` (labels of the anchor
    alone). In an `anchor` vote, `frame_id` is the anchor's, `decision` rates the anchor (`similar` = good, `dissimilar`
    = bad), and `labels` holds the full names of the labels seen. `bad_anchor` drops the whole set. `seconds` is this
    pair's share of the time during which its page was open. `page_version` identifies that page.
    """

    verdict_id: str
    annotator: str
    at: str
    stage: Literal["pair", "verify", "joint", "anchor"]
    set_id: str
    frame_id: str
    decision: Literal["similar", "dissimilar", "unsure"]
    label_right: bool | None = None
    reason: str = ""
    bad_anchor: bool = False
    labels: tuple[str, ...] = ()
    note: str = ""
    seconds: float | None = None
    page_version: str = ""

    def __post_init__(self) -> None:
        expect(bool(self.annotator), "Verdict.annotator", "not empty", self.annotator)
        expect(self.decision in DECISIONS, "Verdict.decision", f"one of {', '.join(DECISIONS)}", self.decision)
        expect(
            self.stage in ("pair", "verify", "joint", "anchor"),
            "Verdict.stage",
            "pair, verify, joint or anchor",
            self.stage,
        )
        expect(self.reason in ("", *REASONS), "Verdict.reason", f"one of {', '.join(REASONS)}", self.reason)

    @property
    def at_once(self) -> int:
        """The number of pairs on the voting page: 20 for version `1f0c.set20`, 1 for a version without a suffix."""
        _, _, pairs = self.page_version.rpartition(".set")
        return int(pairs) if pairs.isdecimal() and int(pairs) else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """A model's description of itself: everything that can change its predictions.

    `kind` is the type of its scores (`logits` or `probabilities`), and `scale` their factor, 0.01 for per cent.
    `readings` state how both were found, if they were not declared. `weights` is the digest of its weights.
    `preprocessing` is plain JSON; it is printed, and stored with the predictions. `batch_size` is the default. `size`
    is the number of bytes of its weights, if known. `form` is what its file declares about a form of another model.

    >>> from strobe.core.labels import space
    >>> ModelSpec(name="net", provider="py", task="classification", label_space=space("coco-80"), weights="3f9a").kind
    'logits'
    """

    name: str
    provider: str
    task: Literal["classification", "detection"]
    label_space: LabelSpace
    weights: str
    kind: Literal["logits", "probabilities"] = "logits"
    scale: float = 1.0
    readings: tuple[str, ...] = ()
    preprocessing: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = 32
    size: int | None = None
    form: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expect(self.batch_size >= 1, "ModelSpec.batch_size", ">= 1", self.batch_size)
        expect(self.kind in ("logits", "probabilities"), "ModelSpec.kind", "logits or probabilities", self.kind)
        object.__setattr__(self, "preprocessing", hidden_in(self.preprocessing))  # a service may repeat its key


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreviewed:
    """The number of unvoted pairs in kept sets and the number of sets reduced to their anchor.

    Unvoted pairs count as rejected.
    """

    pairs: int
    sets: int
