"""Determine the classes of a detector's label numbers."""

from collections.abc import Sequence

from strobe.core.class_names import NO_CLASS, class_key
from strobe.core.errors import ModelFailed, printable
from strobe.core.labels import LabelSpace, space


def detector_space(
    model: str,
    n_classes: int,
    *,
    names: Sequence[str] = (),
    background: bool = False,
    dataset: LabelSpace | None = None,
) -> LabelSpace:
    """Return the label space of a detector with labels 0…n_classes−1. With `background`, label 0 means "no object".

    COCO's 80 or 91 classes and VOC's 20 are recognised by their names, or by their number if there are no names.
    Otherwise the model's own names are used. Without names, the dataset's classes are used if their number matches.
    """
    if names and not all(name.startswith("LABEL_") or name.isdigit() for name in names):
        return named_space(model, names)
    known = {91: "coco-91", 80: "coco-80"}
    if n_classes in known:
        return space(known[n_classes])
    if background and n_classes == 21:
        return with_background(space("voc"))
    if dataset is not None and n_classes == len(dataset):
        return dataset
    if dataset is not None and background and n_classes == len(dataset) + 1:
        return with_background(dataset)
    have = f" and the dataset has {len(dataset)} classes" if dataset is not None else ""
    raise ModelFailed(f"{printable(model)}: its {n_classes} classes have no names{have}; name them in its settings")


def named_space(model: str, names: Sequence[str]) -> LabelSpace:
    """Return the label space of a list of names: COCO's or VOC's if they match in order, else a new one."""
    keys = [class_key(name) for name in names]
    for candidate in (space("coco-80"), space("coco-91"), space("voc")):
        if len(keys) == len(candidate) and all(
            key == class_key(label) or key in NO_CLASS or label in ("background", f"unused-{index}")
            for index, (key, label) in enumerate(zip(keys, candidate.ids, strict=True))
        ):
            return candidate
    unique: list[str] = []
    for place, name in enumerate(names):
        unique.append(name if name and name not in unique else f"{name or 'class'} ({place})")
    return LabelSpace(name=f"classes of {model}", ids=tuple(unique), names=tuple(unique))


def with_background(label_space: LabelSpace) -> LabelSpace:
    """Return the space with a background class in front.

    The other ids do not change, so they still match the dataset's.
    """
    return LabelSpace(
        name=f"{label_space.name} after background",
        ids=("background", *label_space.ids),
        names=("background", *label_space.names),
    )
