"""What results.json says of people who named images, record by record; the keys stand in the order of the fields."""

from dataclasses import dataclass, field
from typing import Literal

from strobe.core.codec import LEFT_OUT, Count
from strobe.core.estimate import Estimate

__all__ = [
    "BesideModel", "Confused", "PairConsistency", "PeopleResults", "PeopleScore", "PersonScore", "Preservation",
    "SaidCounts", "Times",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidCounts:
    """What was said: a class, none of them, cannot tell, or nothing in time."""

    named: Count = field(metadata={"key": "class"})
    none: Count
    unsure: Count
    late: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds per answer: the median and the quartiles; null where nobody was timed."""

    median: Estimate
    quartile_low: float | None
    quartile_high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonScore:
    """One person: how often right, how quick."""

    person: str
    accuracy: Estimate
    seconds: Times


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideModel:
    """One model on the images people named: its accuracy, by how much people are ahead (`difference`), and the mean
    error consistency of each person with it."""

    model: str
    accuracy: Estimate
    difference: Estimate
    consistency: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class PairConsistency:
    """Error consistency of two people, or of a person and a model."""

    person: str
    other: str
    other_is: Literal["person", "model"]
    kappa: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Confused:
    """How often images of one class (`label`, its id) were called another, or none, unsure, late (`said`)."""

    label: str
    name: str
    said: Literal["class", "none", "unsure", "late"]
    answer: str
    answer_name: str
    n: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleScore:
    """People on the images of one kind: `anchor`, a variant, or `member` where variants have no names.

    `condition` is what they were shown as, where the file says more than that. `accuracy` counts answers, `majority`
    images whose answer of more than half is right; `no_majority` of them have none, and are not right.
    """

    variant: str
    condition: str
    role: Literal["same", "control"]
    n_pictures: Count
    n_people: Count
    n_answers: Count
    said: SaidCounts
    accuracy: Estimate
    majority: Estimate
    no_majority: Count
    fleiss_kappa: Estimate
    consistency: Estimate
    seconds: Times
    people: tuple[PersonScore, ...]
    models: tuple[BesideModel, ...]
    pairs: tuple[PairConsistency, ...]
    confusion: tuple[Confused, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preservation:
    """Is it still what it was? `named`: answers that give the anchor's class; `kept`: images most people name so.

    `variant` is `anchor` for the images as they were. `lost` is by how much `named` falls short of theirs. Of a
    search only what was found counts.
    """

    variant: str
    role: Literal["anchor", "same", "control"]
    target: str | None
    n_pictures: Count
    named: Estimate
    kept: Estimate
    lost: Estimate | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleResults:
    """What people called the images. `controls` are images shown to see who looks; they count nowhere else.

    Practice counts nowhere. `elsewhere` counts answers about images that are not scored.
    """

    n_people: Count
    n_pictures: Count
    n_answers: Count
    elsewhere: Count
    controls: Estimate
    scores: tuple[PeopleScore, ...]
    preservation: tuple[Preservation, ...]
