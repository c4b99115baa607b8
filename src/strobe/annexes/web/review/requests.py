"""The request bodies of the page, checked field by field. Nothing else is read from a request."""

from typing import Annotated, Literal, get_args

from pydantic import Field, StrictBool, StrictInt

from strobe.annexes.web.app import Body
from strobe.core.annotators import MAX_NOTE
from strobe.core.people import DISCARDS
from strobe.core.records import REASONS

Opaque = Annotated[str, Field(pattern=r"^[0-9A-Za-z_-]{8,64}$")]
ShortText = Annotated[str, Field(max_length=200)]
Reason = Literal["", "motion", "background", "blur", "occlusion", "deformation", "other"]

if set(REASONS) | {""} != {"", "motion", "background", "blur", "occlusion", "deformation", "other"}:
    raise TypeError("review.requests.Reason must list core.records.REASONS")

Pixel = Annotated[StrictInt, Field(ge=0, le=2**31 - 1)]
Discard = Literal["", "absent", "several", "whole", "unclear", "other"]

if set(DISCARDS) | {""} != set(get_args(Discard)):
    raise TypeError("review.requests.Discard must list core.people.DISCARDS")


class Login(Body):
    """A log-in by name (and token, if the review has one), or by a personal key."""

    name: Annotated[str, Field(max_length=200)] = ""
    token: ShortText = ""
    key: ShortText = ""


class Claim(Body):
    """A tab requests its next tasks. `since` is the start of its person's day."""

    tab: Opaque
    want: Annotated[int, Field(ge=1, le=12)] = 6
    who: ShortText = ""
    since: Annotated[str, Field(pattern=r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)?$")] = ""


class ReleaseBody(Body):
    """A tab releases its tasks."""

    tab: Opaque


class AnswerBody(Body):
    """One answer to any question. The page creates its id, so that an answer sent twice is stored once.

    `who` is the person that the page expects. If the session belongs to someone else, the answer is returned and not
    stored.
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
    labels: Annotated[tuple[ShortText, ...], Field(max_length=100)] = ()


class SetDecision(Body):
    """Decisions on pairs of one set that shared a page, stored all or none."""

    who: ShortText = ""
    votes: Annotated[list[Decision], Field(min_length=1, max_length=60)]


class NameDecision(AnswerBody):
    """The name given to an image."""

    answer_id: Opaque
    stage: Literal["name", "practice"]
    said: Literal["class", "none", "unsure", "late"]
    label: ShortText = ""


class BoxDecision(AnswerBody):
    """The box of an object in pixels, or why the image is discarded."""

    answer_id: Opaque
    stage: Literal["draw", "verify"]
    decision: Literal["keep", "discard"]
    label: ShortText
    xyxy: tuple[Pixel, Pixel, Pixel, Pixel] | None = None
    reason: Discard = ""


class JointClaim(Body):
    """A group requests its next tasks."""

    members: Annotated[list[ShortText], Field(min_length=1, max_length=30)]
    want: Annotated[int, Field(ge=1, le=12)] = 6


class JointVote(Decision):
    """One member's vote in a joint decision."""

    member: ShortText
    stage: Literal["verify"] = "verify"


class JointDecision(Body):
    """A joint decision: every member's vote, stored all or none."""

    votes: Annotated[list[JointVote], Field(min_length=1, max_length=30)]


class Invite(Body):
    """A person to invite."""

    name: Annotated[str, Field(max_length=200)]
    role: Literal["annotator", "observer"] = "annotator"


class Pause(Body):
    """A person to pause, resume or revoke."""

    name: ShortText
    action: Literal["pause", "resume", "revoke"]
