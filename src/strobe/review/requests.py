"""The bodies the page sends, checked field by field. Nothing else is read from a request."""

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

from strobe.core.people import DISCARDS
from strobe.core.records import REASONS
from strobe.review.names import MAX_NOTE

__all__ = [
    "AnswerBody", "BoxDecision", "Claim", "Decision", "Invite", "JointClaim", "JointDecision", "JointVote", "Login",
    "NameDecision", "Pause", "ReleaseBody", "SetDecision",
]  # fmt: skip

Opaque = Annotated[str, Field(pattern=r"^[0-9A-Za-z_-]{8,64}$")]
ShortText = Annotated[str, Field(max_length=200)]
Reason = Literal["", "motion", "background", "blur", "occlusion", "deformation", "other"]

if set(REASONS) | {""} != {"", "motion", "background", "blur", "occlusion", "deformation", "other"}:
    raise TypeError("review.requests.Reason must list core.records.REASONS")

Pixel = Annotated[StrictInt, Field(ge=0, le=2**31 - 1)]
Discard = Literal["", "absent", "several", "whole", "unclear", "other"]

if set(DISCARDS) | {""} != set(get_args(Discard)):
    raise TypeError("review.requests.Discard must list core.people.DISCARDS")


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)


class Login(_Body):
    """Who comes: by name (and the shared token where there is one), or by a personal key."""

    name: Annotated[str, Field(max_length=200)] = ""
    token: ShortText = ""
    key: ShortText = ""


class Claim(_Body):
    """A tab asks for its next tasks; `since` is when its person's day began."""

    tab: Opaque
    want: Annotated[int, Field(ge=1, le=12)] = 6
    who: ShortText = ""
    since: Annotated[str, Field(pattern=r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)?$")] = ""


class ReleaseBody(_Body):
    """A tab gives back what it holds."""

    tab: Opaque


class AnswerBody(_Body):
    """One answer, whatever the question. It has an id made by the page, so that the same answer sent twice is one.

    `who` is who the page thinks they are: where the session says otherwise the answer is sent back, not misfiled.
    """

    who: ShortText = ""
    task: Opaque
    note: Annotated[str, Field(max_length=MAX_NOTE)] = ""
    seconds: Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)] | None = None
    page_version: Annotated[str, Field(pattern=r"^[0-9a-z.]{0,40}$")] = ""


class Decision(AnswerBody):
    """One decision on a pair, or on an anchor's labels."""

    verdict_id: Opaque
    stage: Literal["pair", "verify", "anchor"]
    decision: Literal["similar", "dissimilar", "unsure"]
    label_right: StrictBool | None = None
    reason: Reason = ""
    bad_anchor: StrictBool = False
    labels: Annotated[list[ShortText], Field(max_length=100)] = []


class SetDecision(_Body):
    """Decisions on pairs of one set that stood on one page, kept all or none."""

    who: ShortText = ""
    votes: Annotated[list[Decision], Field(min_length=1, max_length=60)]


class NameDecision(AnswerBody):
    """What an image was called."""

    answer_id: Opaque
    stage: Literal["name", "practice"]
    said: Literal["class", "none", "unsure", "late"]
    label: ShortText = ""


class BoxDecision(AnswerBody):
    """Where an object is, to the pixel, or why the image is discarded."""

    answer_id: Opaque
    stage: Literal["draw", "verify"]
    decision: Literal["keep", "discard"]
    label: ShortText
    xyxy: tuple[Pixel, Pixel, Pixel, Pixel] | None = None
    reason: Discard = ""


class JointClaim(_Body):
    """A group asks for its next tasks."""

    members: Annotated[list[ShortText], Field(min_length=1, max_length=30)]
    want: Annotated[int, Field(ge=1, le=12)] = 6


class JointVote(Decision):
    """One member's vote in a decision made together."""

    member: ShortText
    stage: Literal["verify"] = "verify"


class JointDecision(_Body):
    """A decision made together: every member's vote, kept all or none."""

    votes: Annotated[list[JointVote], Field(min_length=1, max_length=30)]


class Invite(_Body):
    """Someone to invite."""

    name: Annotated[str, Field(max_length=200)]
    role: Literal["annotator", "observer"] = "annotator"


class Pause(_Body):
    """Someone to pause, to let go on, or to shut out."""

    name: ShortText
    action: Literal["pause", "resume", "revoke"]
