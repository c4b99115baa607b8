"""The records of one backbone as classifier and as detector, under `studies.backbones` in results.json."""

from dataclasses import dataclass, field
from typing import Literal

from strobe.core.codec import LEFT_OUT, Count
from strobe.core.estimate import Estimate

Role = Literal["classifier", "detector", "detected-crop", "oracle-crop"]
"""How a backbone answers: on whole images, by its boxes, or on crops to a detected or a true box."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackboneRow:
    """One way in which a backbone answers. All rows of a backbone are on the same images.

    `over_classifier` is its accuracy minus that of the classifier on whole images. `below_detector` is the accuracy of
    the first detector minus its own. `below_people` is the accuracy of people minus its own, on the images that people
    named. The intervals of the first two are corrected for the number of rows.
    """

    role: Role
    model: str
    accuracy: Estimate
    over_classifier: Estimate | None = field(default=None, metadata=LEFT_OUT)
    below_detector: Estimate | None = field(default=None, metadata=LEFT_OUT)
    below_people: Estimate | None = field(default=None, metadata=LEFT_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBackbone:
    """A classifier, and the detectors with the same backbone, on the `n` images that all rows answered."""

    backbone: str
    n: Count
    rows: tuple[BackboneRow, ...]
    people: Estimate | None = field(default=None, metadata=LEFT_OUT)
