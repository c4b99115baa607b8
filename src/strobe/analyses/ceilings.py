"""What a model could reach at best whose own classes lack some of the dataset's."""

from dataclasses import dataclass

from strobe.core.codec import Count, Share

__all__ = ["Ceiling", "MapCeiling"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The best a model of another label space can do: anchors and sets whose every right answer it cannot give."""

    source: str
    childless: tuple[str, ...]
    n: Count
    anchors_out_of_reach: Count
    sets_out_of_reach: Count
    acc_orig: Share
    acc_pmk: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class MapCeiling:
    """The best a detector can do whose classes (`source`) lack some of the dataset's, `childless`: mAP on the anchors
    with every other class perfect. `n_classes` counts classes with an object on the anchors, `n_objects` objects on all
    frames of the sets."""

    source: str
    childless: tuple[str, ...]
    n_classes: Count
    n_objects: Count
    objects_out_of_reach: Count
    map_orig: Share
