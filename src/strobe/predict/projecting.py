"""From a model's own classes to the dataset's: by a shipped map, or by equal ids or names."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.core import labels
from strobe.core.errors import StrobeError, UnknownName
from strobe.core.labels import LabelSpace, Projection
from strobe.core.records import Detections

__all__ = ["own_best", "project_detections", "projection_between"]


def projection_between(source: LabelSpace, target: LabelSpace) -> Projection:
    """How scores of `source` become scores of `target`.

    The identity where the ids are the same; the shipped map where both spaces are shipped ones; else classes that agree
    by id, then by name (case and punctuation aside). Classes of the dataset without a counterpart get −inf.
    """
    if source.ids == target.ids:
        return Projection(source=source, target=target, children=tuple((place,) for place in range(len(target))))
    shipped = _shipped(source, target)
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


def _shipped(source: LabelSpace, target: LabelSpace) -> Projection | None:
    try:
        found = labels.projection(source.name, target.name)
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


def own_best(scores: NDArray[np.float32], *, kind: str) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The model's own best class and its confidence, before any projection."""
    best = scores.argmax(axis=1)
    top = scores[np.arange(len(best)), best]
    # Softmax at the largest logit: one over the sum of what the others are to it.
    confidence = 1 / np.exp(scores - top[:, None]).sum(axis=1, dtype=np.float64) if kind == "logits" else top
    return best.astype(np.int32), confidence.astype(np.float32)


def project_detections(found: Detections, projection: Projection) -> tuple[Detections, int]:
    """Boxes with the dataset's labels, and how many were dropped because their class maps to none of them."""
    if projection.is_identity:
        return found, 0
    table: NDArray[Any] = projection.map_labels(found.label.astype(np.int64))
    keep = table >= 0
    kept = Detections(xyxy=found.xyxy[keep], label=table[keep].astype(np.int32), score=found.score[keep])
    return kept, int((~keep).sum())
