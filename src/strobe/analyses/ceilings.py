"""Upper bounds for a model that lacks some of the dataset's classes."""

from dataclasses import dataclass

from strobe.core.codec import Count, Share

__all__ = ["Ceiling", "MapCeiling"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The upper bound for a model whose classes allow no right answer on some anchors and sets."""

    source: str
    childless: tuple[str, ...]
    n: Count
    anchors_out_of_reach: Count
    sets_out_of_reach: Count
    acc_orig: Share
    acc_pmk: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class MapCeiling:
    """The upper bound for a detector whose classes (`source`) lack some of the dataset's classes (`childless`).

    The bound is mAP on the anchors if every other class is detected perfectly. `n_classes` counts the classes with an
    object on the anchors, and `n_objects` counts the objects on all frames of the sets.
    """

    source: str
    childless: tuple[str, ...]
    n_classes: Count
    n_objects: Count
    objects_out_of_reach: Count
    map_orig: Share
