"""Label spaces, and the projection of scores from one space to another."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.class_names import class_key
from strobe.core.codec import decode, encode
from strobe.core.errors import InvalidValue, UnknownName, expect, printable

__all__ = [
    "MERGES",
    "LabelSpace",
    "Projection",
    "check_scores",
    "confidence_of",
    "log_softmax",
    "other_names",
    "projection",
    "space",
]

Floats = NDArray[np.floating[Any]]

MERGES = ("max", "mean", "sum")
"""How scores of several source classes are merged: raw maximum, raw mean, log of the summed probability."""

_FEW = 30
"""The number of classes listed in the error for an unknown class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSpace:
    """An ordered list of classes. `ids` are machine names (WordNet ids if available), `names` are for people.

    >>> LabelSpace(name="pets", ids=("cat", "dog"), names=("cat", "dog")).index("dog")
    1
    """

    name: str
    ids: tuple[str, ...]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        expect(len(self.ids) > 0, "LabelSpace.ids", "at least one class", self.name)
        expect(len(self.ids) == len(self.names), "LabelSpace.names", "one per id", (len(self.ids), len(self.names)))
        expect(len(set(self.ids)) == len(self.ids), "LabelSpace.ids", "each id once", self.name)

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def of_names(cls, name: str, names: Sequence[str]) -> "LabelSpace":
        """A space whose ids are its names."""
        return cls(name=name, ids=tuple(names), names=tuple(names))

    def __contains__(self, label: object) -> bool:
        return isinstance(label, str) and _found(self, label) is not None

    def index(self, label: str) -> int:
        """Return the index of a class given by id, name or synonym; raise UnknownName otherwise.

        Case, spaces and underscores are ignored if the match is still unique.

        >>> LabelSpace.of_names("pandas", ["giant panda", "red panda"]).index("red_panda")
        1
        >>> space("coco-80").index("motorbike") == space("coco-80").index("motorcycle")
        True
        """
        place = _found(self, label)
        if place is None:
            hint = f"it has {printable(', '.join(self.names), limit=400)}" if len(self) <= _FEW else None
            raise UnknownName(f"class of {self.name}", label, _lookup(self), hint=hint)
        return place

    @property
    def digest(self) -> str:
        """Digest that changes when a class, a name or the order does."""
        return hashlib.sha256(json.dumps([self.ids, self.names]).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict: only the name for shipped spaces, the classes too for others."""
        found: dict[str, Any] = encode(self)
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "LabelSpace":
        """Return the space that to_json wrote."""
        return decode(cls, data, where="label_space")


@cache
def _lookup(label_space: LabelSpace) -> dict[str, int]:
    by_name = {name: place for place, name in reversed(list(enumerate(label_space.names)))}
    return by_name | {label_id: place for place, label_id in enumerate(label_space.ids)}


@cache
def _spelled(label_space: LabelSpace) -> dict[str, int | None]:
    """Return the same by normalised names; None for a name that matches two classes."""
    out: dict[str, int | None] = {}
    for name, place in _lookup(label_space).items():
        key = class_key(name)
        out[key] = place if out.get(key, place) == place else None
    out.pop("", None)
    return out


def _found(label_space: LabelSpace, label: str) -> int | None:
    place = _lookup(label_space).get(label)
    return _spelled(label_space).get(class_key(label)) if place is None else place


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """Maps source classes to target classes.

    `children[t]` are the source indices of target class t. A class without children gets −inf and never wins. The
    rule `merge` merges the children's scores and answers with the best target class. The rule `argmax` answers with
    the target of the best source class; if it has none, the answer is outside the target (the protocol of
    ImageNet-9).
    """

    source: LabelSpace
    target: LabelSpace
    children: tuple[tuple[int, ...], ...]
    version: str = "1"
    rule: Literal["merge", "argmax"] = "merge"

    def __post_init__(self) -> None:
        expect(self.rule in ("merge", "argmax"), "Projection.rule", "merge or argmax", self.rule)
        expect(len(self.children) == len(self.target), "Projection.children", "one list per target class", None)
        flat = [child for group in self.children for child in group]
        expect(
            all(0 <= child < len(self.source) for child in flat), "Projection.children", "places in the source", None
        )

    @classmethod
    def identity(cls, label_space: LabelSpace) -> "Projection":
        """Return the projection that changes nothing."""
        return cls(
            source=label_space, target=label_space, children=tuple((place,) for place in range(len(label_space)))
        )

    @property
    def is_identity(self) -> bool:
        """Whether the projection changes nothing."""
        return self.source.ids == self.target.ids and all(group == (i,) for i, group in enumerate(self.children))

    @property
    def is_choice(self) -> bool:
        """Whether the target's classes are a subset of the source's, by id."""
        return set(self.target.ids) < set(self.source.ids)

    @property
    def childless(self) -> tuple[int, ...]:
        """Target classes without a source class."""
        return tuple(place for place, group in enumerate(self.children) if not group)

    @property
    def digest(self) -> str:
        """Digest that changes when either space, the map or its rule does."""
        own = [] if self.rule == "merge" else [self.rule]
        text = json.dumps([self.source.digest, self.target.digest, self.children, *own])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def map_labels(self, labels: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return source labels as target labels; −1 for a source class without a target, and for −1 itself."""
        table = np.full(len(self.source) + 1, -1, dtype=np.int64)  # −1 indexes the last slot
        for target, group in reversed(list(enumerate(self.children))):
            table[list(group)] = target
        return np.asarray(table[labels])

    def apply(self, scores: Floats, *, kind: str = "logits", merge: str = "max") -> Floats:
        """Return scores (N, source) as scores (N, target).

        `max` and `mean` use the scores unchanged. `sum` returns the log of the summed probabilities. The rule
        `argmax` allows `max` only, and fills a row with −inf if the answer is outside the target.
        """
        expect(merge in MERGES, "merge", f"one of {', '.join(MERGES)}", merge)
        expect(
            scores.ndim == 2 and scores.shape[1] == len(self.source),
            "scores",
            f"shape (N, {len(self.source)})",
            scores.shape,
        )
        if self.is_identity and merge != "sum":
            return scores
        if self.rule == "argmax":
            expect(merge == "max", "merge", f"max: {self.target.name} takes a model's best class first", merge)
        if merge == "sum":
            scores = log_softmax(scores) if kind == "logits" else _log(scores)
        out = np.full((scores.shape[0], len(self.target)), -np.inf, dtype=scores.dtype)
        for target, group in enumerate(self.children):
            if not group:
                continue
            part = scores[:, list(group)]
            if merge == "max":
                out[:, target] = part.max(axis=1)
            elif merge == "mean":
                out[:, target] = part.mean(axis=1)
            else:
                out[:, target] = np.logaddexp.reduce(part, axis=1)
        return self._first(scores, out) if self.rule == "argmax" else out

    def outside(self, projected: Floats) -> NDArray[np.bool_]:
        """Return which rows of the result of `apply` (N, target) are outside the target, (N,); none for `merge`."""
        if self.rule == "merge":
            return np.zeros(len(projected), dtype=bool)
        return np.asarray(np.isneginf(projected).all(axis=1))

    def _first(self, scores: Floats, merged: Floats) -> Floats:
        """Return the merged scores with the class of each row's best source class on top, or −inf if it has none."""
        label = self.map_labels(scores.argmax(axis=1))
        # If two targets tie, the best source class decides, not the order of the targets.
        tied = (merged == merged.max(axis=1, keepdims=True)) & (np.arange(len(self.target)) != label[:, None])
        merged = np.where(tied, np.nextafter(merged, -np.inf), merged)
        return np.where(label[:, None] < 0, -np.inf, merged).astype(scores.dtype)


def _log(probabilities: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(probabilities, 0.0)))


def log_softmax(scores: Floats) -> Floats:
    """Log-probabilities along the last axis; −inf stays −inf."""
    top = scores.max(axis=-1, keepdims=True)
    shifted = scores - top
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def confidence_of(scores: Floats, *, kind: str) -> Floats:
    """Return probabilities (N, C) over the target classes: softmax of logits, renormalised probabilities."""
    return np.asarray(np.exp(log_softmax(_log(scores) if kind == "probabilities" else scores)))


def top_confidence(scores: Floats, *, kind: str) -> Floats:
    """Return the largest value of `confidence_of` in each row, (N,), in half the work."""
    logits = _log(scores) if kind == "probabilities" else scores
    rest = np.exp(logits - logits.max(axis=-1, keepdims=True)).sum(axis=-1)
    return np.asarray(np.exp(0.0 - np.log(rest)))


def check_scores(scores: Floats, *, names: Sequence[str], what: str) -> None:
    """Raise InvalidValue unless every row can be ranked: no NaN, no +inf, not all −inf.

    `names` name the rows in the message. A single −inf is valid: the class cannot be predicted.
    """
    rules = (
        ("NaN", np.isnan(scores).any(axis=1)),
        ("+inf", np.isposinf(scores).any(axis=1)),
        ("only −inf", np.isneginf(scores).all(axis=1)),
    )
    for problem, bad in rules:
        if bad.any():
            first = names[int(np.flatnonzero(bad)[0])]
            raise InvalidValue(
                f"{what}: {problem} in the scores of {int(bad.sum())} frame(s), first {first}; "
                "every score must be a finite number or −inf, and one at least finite"
            )


@cache
def space(name: str) -> LabelSpace:
    """Return a label space shipped with strobe: ilsvrc-2012, imagenet-vid, youtube-bb, coco-80 and others."""
    data = _shipped("spaces")
    if name not in data:
        raise UnknownName("label space", name, data)
    rows = data[name]
    return LabelSpace(name=name, ids=tuple(row[0] for row in rows), names=tuple(row[1] for row in rows))


def other_names(classes: LabelSpace) -> list[list[str]]:
    """Return the synonyms of each class: the parts of a comma-separated name, and WordNet's for shipped classes.

    >>> other_names(LabelSpace(name="mine", ids=("n01440764", "x"), names=("tench", "box, carton")))
    [['Tinca tinca'], ['box', 'carton']]
    """
    words = _shipped("synonyms")["wordnet"]["names"]
    out = []
    for label, name in zip(classes.ids, classes.names, strict=True):
        parts = [part.strip() for part in name.split(",")]
        found = dict.fromkeys([*(parts if len(parts) > 1 else []), *words.get(label, [])])
        out.append([word for word in found if word and word.casefold() != name.casefold()])
    return out


@cache
def projection(source: str, target: str) -> Projection:
    """Return the shipped projection between two shipped spaces, e.g. ilsvrc-2012 → imagenet-vid."""
    data = _shipped("projections")
    key = f"{source}->{target}"
    if key not in data:
        raise UnknownName("label projection", key, data, hint=f"shipped: {', '.join(sorted(data))}")
    entry = data[key]
    source_space, target_space = space(source), space(target)
    children = tuple(
        tuple(source_space.index(child) for child in entry["children"].get(label_id, ()))
        for label_id in target_space.ids
    )
    return Projection(
        source=source_space, target=target_space, children=children, version=entry["version"],
        rule=entry.get("rule", "merge"),
    )  # fmt: skip


@cache
def _shipped(name: str) -> Any:
    """Return the package's data files in one folder (spaces, projections, synonyms), by name."""
    folder = resources.files("strobe.core") / "data" / name
    found = {}
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if entry.name.endswith(".json"):
            content = json.loads(entry.read_text(encoding="utf-8"))
            found[content["name"]] = content["classes"] if name == "spaces" else content
    return found
