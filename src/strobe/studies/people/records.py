"""The records in results.json on people who named images; keys are in the order of the fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from strobe.core.codec import LEFT_OUT, Count, Share
from strobe.core.estimate import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidCounts:
    """The number of answers of each kind: a class, none of the classes, cannot tell, or no answer in time."""

    named: Count = field(metadata={"key": "class"})
    none: Count
    unsure: Count
    late: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds per answer: the median and the quartiles; null if no answer was timed."""

    median: Estimate
    quartile_low: float | None
    quartile_high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonScore:
    """One person: accuracy and response time."""

    person: str
    accuracy: Estimate
    seconds: Times


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideModel:
    """One model on the images that people named: its accuracy, and how much better people are (`difference`).

    The record includes the mean error consistency of each person with the model.
    """

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
    """How often images of one class (its id is `label`) got the answer `said`: another class, none, unsure or late."""

    label: str
    name: str
    said: Literal["class", "none", "unsure", "late"]
    answer: str
    answer_name: str
    n: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleScore:
    """People on the images of one kind: `anchor`, a variant, or `member` if variants have no names.

    `condition` is how the images were shown, if the file gives more detail than the kind. `accuracy` counts answers.
    `majority` counts images for which more than half of the people give a right answer. `no_majority` images have no
    majority answer and do not count as right.
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
    """Whether changed images still show the anchor's class, by answers (`named`) and by majority of people (`kept`).

    `variant` is `anchor` for the original images. `lost` is `named` for the originals minus `named` for this
    variant, both on the images of this variant whose original was named too, and `before` is `kept` for the originals
    of these images. For a search, only its findings count.
    """

    variant: str
    role: Literal["anchor", "same", "control"]
    target: str | None
    n_pictures: Count
    named: Estimate
    kept: Estimate
    lost: Estimate | None = field(default=None, metadata=LEFT_OUT)
    before: Estimate | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleResults:
    """Results of people naming images. `controls` are images shown as attention checks; they count nowhere else.

    Practice does not count. `elsewhere` counts answers about images that are not scored.
    """

    n_people: Count
    n_pictures: Count
    n_answers: Count
    elsewhere: Count
    controls: Estimate
    scores: tuple[PeopleScore, ...]
    preservation: tuple[Preservation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxPerson:
    """One person: the images answered, their outcome, and the median overlap with other people's boxes."""

    person: str
    n_pictures: Count
    kept: Count
    discarded: Count
    suggested: Count
    overlap: Estimate
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxPair:
    """The median overlap (IoU) of two people's boxes on the images that both kept."""

    person: str
    other: str
    overlap: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnResults:
    """The locations that people gave. The latest answer per person and image counts.

    `kept` is the share of images kept by a strict majority; `reasons` counts the reasons of answers that discard an
    image. Four figures cover only round one. `overlap` is the median IoU of two people's boxes on an image.
    `overlap_own` is the same median without the pairs in which both boxes are the unchanged detector box. `disagreed`
    is the share of images with at least two answers on which two people disagree (keep against discard, class, or an
    IoU below `agree`). `fleiss_kappa` measures agreement on keeping or discarding. `unsettled` images are kept although
    the boxes of two keepers still overlap less than `agree`. `suggested` is the share of boxes that are the unchanged
    detector boxes. `area` is the share of an image that its box covers, as the median over the kept images.
    """

    agree: Share
    n_people: Count
    n_pictures: Count
    n_answers: Count
    kept: Estimate
    reasons: Mapping[str, Count]
    overlap: Estimate
    overlap_own: Estimate
    disagreed: Estimate
    fleiss_kappa: Estimate
    unsettled: Count
    suggested: Estimate
    area: Share | None
    people: tuple[BoxPerson, ...]
    pairs: tuple[BoxPair, ...]
