"""Find the projection from one list of classes to another: by a shipped map, or by equal ids or names."""

from collections.abc import Callable

from strobe.core.class_names import NO_CLASS, class_key, spelling_key
from strobe.core.errors import InvalidValue, StrobeError, UnknownName
from strobe.core.labels import LabelSpace, Projection, projection, several_classes, space


def projection_between(source: LabelSpace, target: LabelSpace) -> Projection:
    """Return the projection from scores over `source` to scores over `target`.

    It is the identity if the ids are equal, and the shipped map if both spaces are shipped. Otherwise classes are
    matched by id, then by name (ignoring case, spaces and punctuation), then by synonym (motorbike is motorcycle). If
    all names are names of a shipped space, the map of that space is used if it matches more classes. Classes of the
    dataset without a match get −inf.
    """
    if source.ids == target.ids:
        return Projection(source=source, target=target, children=tuple((place,) for place in range(len(target))))
    shipped = shipped_between(source, target)
    if shipped is not None:
        return shipped
    children = max(
        _matched(source, target), _through_shipped(source, target), key=lambda groups: sum(map(bool, groups))
    )
    if not any(children):
        raise StrobeError(
            f"the model ({source.name}, {len(source)} classes, e.g. {source.names[0]}) and the dataset "
            f"({target.name}, e.g. {target.names[0]}) have no class in common; rename the model's classes to the "
            "dataset's, or make the dataset with <<label_space=ilsvrc-2012>>, imagenet-vid, youtube-bb or coco-80"
        )
    return Projection(source=source, target=target, children=children)


def shipped_between(source: LabelSpace, target: LabelSpace) -> Projection | None:
    """Return the shipped map between two shipped spaces, if there is one."""
    try:
        shipped = projection(source.name, target.name)
    except UnknownName:
        return None
    same = shipped.source.ids == source.ids and shipped.target.ids == target.ids
    return shipped if same else None  # a space that only shares a shipped name is matched by its classes


def _matched(source: LabelSpace, target: LabelSpace) -> tuple[tuple[int, ...], ...]:
    """Return the source classes of each target class.

    They are the classes with the same id, else the same name, else a synonym that is not matched yet. A whole name
    comes before a part of a name with commas. Raises InvalidValue for a name that two classes of one side share.
    """
    by_id = {label_id: index for index, label_id in enumerate(source.ids)}
    named, worded = _by_words(source, spelling_key), _by_words(source, class_key)
    whole: dict[str, list[int]] = {}
    for place, name in enumerate(source.names):
        whole.setdefault(spelling_key(name), []).append(place)
    out: list[tuple[int, ...]] = []
    by_name: dict[int, tuple[str, int]] = {}
    for place, (label_id, name) in enumerate(zip(target.ids, target.names, strict=True)):
        if label_id in by_id:
            out.append((by_id[label_id],))
            continue
        words = _words(label_id, name, spelling_key)
        group = next(((whole.get(word) or named[word]) for word in words if word in named), [])
        if len(group) > 1:
            raise InvalidValue(f"{several_classes(source, name, group)}; {_DISTINCT}")
        for child in group:
            word, other = by_name.setdefault(child, (name, place))
            if other != place and spelling_key(word) == spelling_key(name):
                raise InvalidValue(f"{several_classes(target, name, (other, place))}; {_DISTINCT}")
        out.append(tuple(group))
    taken = {place for group in out for place in group}
    for place, (label_id, name) in enumerate(zip(target.ids, target.names, strict=True)):
        if not out[place]:
            groups = (worded.get(word, ()) for word in _words(label_id, name, class_key))
            free = (tuple(one for one in group if one not in taken) for group in groups)
            out[place] = next((group for group in free if group), ())
    return tuple(out)


def _through_shipped(source: LabelSpace, target: LabelSpace) -> tuple[tuple[int, ...], ...]:
    """Return the matches of `_matched` through a shipped map; empty if a source class is in no shipped space.

    Any selection of COCO's names, in any order, maps to ImageNet-Vid's classes as coco-80 does.
    """
    for name in _LISTED:
        known, shipped = space(name), shipped_between(space(name), target)
        if shipped is None or shipped.rule != "merge":
            continue
        by_id = name == "ilsvrc-2012"  # its names are not unique: crane is a bird and a machine
        words = [(one, class_key(one)) for one in source.ids]
        if not all(key in NO_CLASS or (one in known.ids if by_id else one in known) for one, key in words):
            continue
        own = {known.index(one): index for index, (one, key) in enumerate(words) if key not in NO_CLASS}
        return tuple(tuple(own[child] for child in group if child in own) for group in shipped.children)
    return ()


_DISTINCT = "the model's classes are matched with the dataset's by id or name, so give ids, or distinct names"

_LISTED = ("coco-80", "voc", "open-images", "ilsvrc-2012")
"""Shipped spaces for which models and files use different class names."""


def _by_words(source: LabelSpace, key: Callable[[str], str]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for index, (label_id, name) in enumerate(zip(source.ids, source.names, strict=True)):
        for word in _words(label_id, name, key):
            places.setdefault(word, []).append(index)
    return places


def _words(label_id: str, name: str, key: Callable[[str], str]) -> list[str]:
    """Return the distinct, non-empty keys of a class: of its id, its name, and the parts of a name with commas."""
    keys = (key(word) for word in (label_id, name, *name.split(",")))
    return [word for word in dict.fromkeys(keys) if word]
