"""Upper bounds for a model whose own classes lack some of the dataset's."""

from dataclasses import dataclass

from strobe.core.codec import Count, Share

__all__ = ["Ceiling", "MapCeiling"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The upper bound for another label space: anchors and sets without any right answer that the model can give."""

    source: str
    childless: tuple[str, ...]
    n: Count
    anchors_out_of_reach: Count
    sets_out_of_reach: Count
    acc_orig: Share
    acc_pmk: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class MapCeiling:
    """The upper bound for a detector whose classes (`source`) lack some of the dataset's, `childless`.

    It is mAP on the anchors with every other class perfect. `n_classes` counts classes with an object on the anchors,
    `n_objects` counts objects on all frames of the sets.
    """

    source: str
    childless: tuple[str, ...]
    n_classes: Count
    n_objects: Count
    objects_out_of_reach: Count
    map_orig: Share
