"""What a dataset's classes leave a classifier to choose from: too little of it makes every answer right."""

from strobe.core.labels import LabelSpace, space

__all__ = ["advice_on_classes"]

_SPACES = ("imagenet-vid", "youtube-bb", "ilsvrc-2012")
"""Shipped spaces that ImageNet models answer in, the smallest task first."""


def advice_on_classes(classes: LabelSpace) -> str | None:
    """A line for who made a dataset whose classes are the labels found, or None where there is nothing to say.

    A model answers in the dataset's classes. With one class it cannot be wrong, and with a few it is right more often
    than among all it knows.

    >>> advice_on_classes(LabelSpace.of_names("mine", ["dog", "zebra"]))
    'a classifier chooses among these 2 classes; --label-space imagenet-vid makes it choose among 30'
    >>> advice_on_classes(LabelSpace.of_names("mine", ["flange", "gasket"])) is None
    True
    """
    wider = next((name for name in _SPACES if _has(space(name), classes)), None)
    if len(classes) == 1:
        way_out = f"--label-space {wider} makes it choose among {len(space(wider)):,}" if wider else "add other classes"
        return f"with one class a classifier is never wrong; {way_out}"
    if wider:
        many = f"a classifier chooses among these {len(classes)} classes"
        return f"{many}; --label-space {wider} makes it choose among {len(space(wider)):,}"
    return None


def _has(wide: LabelSpace, classes: LabelSpace) -> bool:
    known = {*wide.ids, *wide.names}
    return len(wide) > len(classes) and all(label in known for label in classes.ids)
