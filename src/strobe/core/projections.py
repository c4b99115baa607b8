"""Finding the way from one list of classes to another: by a shipped map, or by equal ids or names."""

import re

from strobe.core.errors import StrobeError, UnknownName
from strobe.core.labels import LabelSpace, Projection, projection

__all__ = ["projection_between", "shipped_between"]


def projection_between(source: LabelSpace, target: LabelSpace) -> Projection:
    """How scores of `source` become scores of `target`.

    The identity where the ids are the same; the shipped map where both spaces are shipped ones; else classes that agree
    by id, then by name (case and punctuation aside). Classes of the dataset without a counterpart get −inf.
    """
    if source.ids == target.ids:
        return Projection(source=source, target=target, children=tuple((place,) for place in range(len(target))))
    shipped = shipped_between(source, target)
    if shipped is not None:
        return shipped
    children = _matched(source, target)
    if not any(children):
        raise StrobeError(
            f"no class of the model ({source.name}, {len(source)} classes, e.g. {source.names[0]}) is a class of the "
            f"dataset ({target.name}, e.g. {target.names[0]}); give the model's classes names the dataset uses, "
            "or make the dataset with --label-space ilsvrc-2012, imagenet-vid or youtube-bb"
        )
    return Projection(source=source, target=target, children=children)


def shipped_between(source: LabelSpace, target: LabelSpace) -> Projection | None:
    """The shipped map between two shipped spaces, if there is one."""
    try:
        found = projection(source.name, target.name)
    except UnknownName:
        return None
    same = found.source.ids == source.ids and found.target.ids == target.ids
    return found if same else None  # a space that only borrows a shipped name is matched by its classes


def _matched(source: LabelSpace, target: LabelSpace) -> tuple[tuple[int, ...], ...]:
    by_id = {label_id: place for place, label_id in enumerate(source.ids)}
    by_name: dict[str, list[int]] = {}
    for place, (label_id, name) in enumerate(zip(source.ids, source.names, strict=True)):
        for word in {_plain(label_id), *(_plain(part) for part in name.split(",")), _plain(name)}:
            by_name.setdefault(word, []).append(place)
    out: list[tuple[int, ...]] = []
    for label_id, name in zip(target.ids, target.names, strict=True):
        if label_id in by_id:
            out.append((by_id[label_id],))
        else:
            words = (_plain(label_id), _plain(name), *(_plain(part) for part in name.split(",")))
            out.append(next((tuple(by_name[word]) for word in words if word in by_name), ()))
    return tuple(out)


def _plain(text: str) -> str:
    return re.sub(r"[^0-9a-z]+", " ", text.casefold()).strip()
