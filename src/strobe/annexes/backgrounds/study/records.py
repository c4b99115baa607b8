"""The records of a ladder of backgrounds in results.json; keys are in the order of the fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from strobe.analyses.model_results import ClassificationResult
from strobe.core.codec import LEFT_OUT, Count
from strobe.core.estimate import Estimate, Missing
from strobe.studies.variants.records import Isolates

CROPS = ("zoom", "random", "crop")
"""The rungs that show an enlarged part of the image and nothing else: the candidates of the zoom study."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RungShare:
    """A share of images on one rung; the rung `anchor` is the whole image, and `level` is the context of a crop."""

    rung: str
    level: float | None
    share: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolated:
    """One isolating contrast on a subset of the images; its interval is not corrected for other tests."""

    isolates: Isolates
    value: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class AreaBin:
    """Images whose object covers from `low` to `high` of the image: accuracy on each rung, and the isolated effects."""

    low: float
    high: float
    n: Count
    rungs: tuple[RungShare, ...]
    isolated: tuple[Isolated, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRungs:
    """The images of one class: how many originals are right, and the isolated effects.

    `small` marks fewer than ten images.
    """

    label: str
    name: str
    n: Count
    small: bool
    whole: Estimate
    isolated: tuple[Isolated, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """The shares of right whole images that become wrong if their background or their object is missing.

    In the first case, the background is greyed; in the second, the object is removed.

    `relative` compares the two, from −1 (only the background counts) to 1 (only the object counts).
    """

    background: Estimate
    foreground: Estimate
    relative: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class BestOf:
    """The share of images right on at least one crop (`best`), and the share expected by chance (`chance`).

    The difference of the two shares has the interval of `best`.
    """

    tries: Count
    n: Count
    best: Estimate
    chance: float
    beyond: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundScore:
    """One model's results on a ladder of backgrounds, in addition to its figures by variant and its contrasts.

    `covered` is the share of answers that name a class, for a model that may name none. `zoom` is the result of the
    best crop of each image, over all images. `zoom_wrong` is the same result over the images that are wrong as whole
    images. `reasons` explains empty parts.
    """

    covered: tuple[RungShare, ...] | None = field(default=None, metadata=LEFT_OUT)
    sensitivity: Sensitivity
    zoom: BestOf | Missing
    zoom_wrong: BestOf | Missing
    by_area: tuple[AreaBin, ...]
    per_class: tuple[ClassRungs, ...]
    reasons: Mapping[str, str]


def ground_of(model: ClassificationResult) -> BackgroundScore | None:
    """Return a model's results on a ladder of backgrounds, if it has any."""
    found: BackgroundScore | None = model.added.get("background")
    return found
