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
from strobe.core.files import json_of

Floats = NDArray[np.floating[Any]]

MERGES = ("max", "mean", "sum")
"""How scores of several source classes are merged: raw maximum, raw mean, log of the summed probability."""

_FEW = 30
"""The number of classes listed in the error for an unknown class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelSpace:
    """A named, ordered list of classes.

    Args:
        name: The name of the space.
        ids: One unique machine name per class, such as a WordNet id.
        names: One name per class for people, in the same order.

    Raises:
        InvalidValue: There is no class, an id appears twice, or ids and names differ in number.

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
        """Return a space whose ids are its names.

        Args:
            name: The name of the space.
            names: The classes in order, each once.

        >>> LabelSpace.of_names("pets", ["cat", "dog"]).ids
        ('cat', 'dog')
        """
        return cls(name=name, ids=tuple(names), names=tuple(names))

    def __contains__(self, label: object) -> bool:
        return isinstance(label, str) and bool(self.matches(label))

    def matches(self, label: str) -> tuple[int, ...]:
        """Return the indices of all classes with this id, name or synonym.

        An id comes before a name, and an exact name before a name that differs in case, spaces or underscores.

        >>> space("ilsvrc-2012").matches("crane"), space("ilsvrc-2012").matches("n02012849")
        ((134, 517), (134,))
        """
        exact = _lookup(self).get(label)
        return exact if exact is not None else _spelled(self).get(class_key(label), ())

    def index(self, label: str) -> int:
        """Return the index of a class.

        Args:
            label: The id, name or synonym of the class. Case, spaces and underscores are ignored if no class
                matches exactly.

        Raises:
            UnknownName: No class matches. The message lists similar names.
            InvalidValue: Several classes match. The message lists their ids.

        >>> LabelSpace.of_names("pandas", ["giant panda", "red panda"]).index("red_panda")
        1
        >>> space("coco-80").index("motorbike") == space("coco-80").index("motorcycle")
        True
        """
        places = self.matches(label)
        if not places:
            hint = f"its classes: {printable(', '.join(self.names), limit=400)}" if len(self) <= _FEW else None
            raise UnknownName(f"class of {self.name}", label, _lookup(self), hint=hint)
        if len(places) > 1:
            raise InvalidValue(f"{several_classes(self, label, places)}; use the id")
        return places[0]

    @property
    def digest(self) -> str:
        """A digest that changes whenever a class, a name or the order changes."""
        return hashlib.sha256(json.dumps([self.ids, self.names]).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """Return a plain dict with the name. The dict also has the classes, unless strobe ships the space."""
        found: dict[str, Any] = encode(self)
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "LabelSpace":
        """Return the space that to_json wrote."""
        return decode(cls, data, where="label_space")


def several_classes(label_space: LabelSpace, name: str, places: Sequence[int]) -> str:
    """Return the reason to refuse a name of several classes, with the id and the number of each class."""
    ids = " and ".join(f"{printable(label_space.ids[place])} (class {place})" for place in places)
    return f"{printable(name)!r} names {len(places)} classes of {printable(label_space.name)}: {ids}"


@cache
def _lookup(label_space: LabelSpace) -> dict[str, tuple[int, ...]]:
    by_name: dict[str, tuple[int, ...]] = {}
    for place, name in enumerate(label_space.names):
        by_name[name] = (*by_name.get(name, ()), place)
    return by_name | {label_id: (index,) for index, label_id in enumerate(label_space.ids)}


@cache
def _spelled(label_space: LabelSpace) -> dict[str, tuple[int, ...]]:
    """Return the class indices of each normalised name."""
    out: dict[str, tuple[int, ...]] = {}
    for name, places in _lookup(label_space).items():
        key = class_key(name)
        out[key] = tuple(sorted({*out.get(key, ()), *places}))
    out.pop("", None)
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """Maps scores and labels of a source space to a target space.

    Args:
        source: The classes that the model answers in.
        target: The classes of the dataset.
        children: For each target class, the indices of its source classes. A target class without source classes gets
            −inf and is never the answer.
        version: The version of the map, which changes its digest.
        rule: `merge` merges the children's scores and answers with the best target class. `argmax` answers with the
            target of the best source class. If that class has no target, the answer is outside the target, as in
            the protocol of ImageNet-9.

    Raises:
        InvalidValue: The number of children differs from the number of target classes, or an index does not exist.

    >>> pets, animals = LabelSpace.of_names("pets", ["pug", "collie", "cat"]), LabelSpace.of_names("a", ["dog", "cat"])
    >>> Projection(source=pets, target=animals, children=((0, 1), (2,))).map_labels(np.array([1, 2])).tolist()
    [0, 1]
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
            all(0 <= child < len(self.source) for child in flat),
            "Projection.children",
            "indices of source classes",
            None,
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
        return tuple(index for index, group in enumerate(self.children) if not group)

    @property
    def digest(self) -> str:
        """A digest that changes whenever either space, the map or its rule changes."""
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
        """Return scores over the target classes.

        Args:
            scores: Scores (N, source).
            kind: `logits` or `probabilities`. It only matters for `merge="sum"`.
            merge: How the scores of several source classes are merged. `max` and `mean` use the scores unchanged.
                `sum` returns the log of the summed probabilities. The rule `argmax` allows `max` only.

        Returns:
            Scores (N, target). With the rule `argmax`, a row is all −inf if its answer is outside the target.

        Raises:
            InvalidValue: The scores have the wrong shape, or the rule does not allow this `merge`.
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
            expect(merge == "max", "merge", f"max, because {self.target.name} uses the model's best class", merge)
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
        """Return which rows of the result of `apply` are outside the target, (N,).

        With the rule `merge`, no row is outside.
        """
        if self.rule == "merge":
            return np.zeros(len(projected), dtype=bool)
        return np.asarray(np.isneginf(projected).all(axis=1))

    def _first(self, scores: Floats, merged: Floats) -> Floats:
        """Return the merged scores.

        In each row, the target of the best source class leads; if that class has no target, the whole row is −inf.
        """
        label = self.map_labels(scores.argmax(axis=1))
        # If two targets tie, the best source class decides, not the order of the targets.
        tied = (merged == merged.max(axis=1, keepdims=True)) & (np.arange(len(self.target)) != label[:, None])
        merged = np.where(tied, np.nextafter(merged, -np.inf), merged)
        return np.where(label[:, None] < 0, -np.inf, merged).astype(scores.dtype)


def _log(probabilities: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(probabilities, 0.0)))


def log_softmax(scores: Floats) -> Floats:
    """Return log-probabilities along the last axis; −inf stays −inf."""
    shifted = scores - scores.max(axis=-1)[..., None]
    shifted -= np.log(np.exp(shifted).sum(axis=-1))[..., None]
    return np.asarray(shifted)


def confidence_of(scores: Floats, *, kind: str, log_sum: Floats | None = None) -> Floats:
    """Return probabilities (…, C) over the target classes: the softmax of logits, or renormalised probabilities.

    Passing `log_sum` (…,) from `log_sum_and_lead` saves time and gives the same result.
    """
    logits = _log(scores) if kind == "probabilities" else scores
    if log_sum is None:
        shifted = log_softmax(logits)
    else:
        shifted = logits - logits.max(axis=-1)[..., None]
        shifted -= log_sum[..., None]
    return np.exp(shifted, out=shifted)


def log_sum_and_lead(scores: Floats, label: NDArray[np.int64], *, kind: str) -> tuple[Floats, Floats]:
    """Return the number that `confidence_of` subtracts in each row, and the lead of the row's `label`, both (N,).

    The number is s = log Σ exp(score − largest score), so the largest probability is exp(−s). The lead, a difference of
    probabilities, is correct to rounding, and negative if another class is better.

    >>> log_sum, lead = log_sum_and_lead(np.log([[0.2, 0.5, 0.3], [0.2, 0.5, 0.3]]), np.array([1, 0]), kind="logits")
    >>> np.exp(-log_sum).round(9).tolist(), lead.round(9).tolist()
    ([0.5, 0.5], [0.2, -0.3])
    """
    logits, rows = _log(scores) if kind == "probabilities" else scores, np.arange(len(scores))
    with np.errstate(over="ignore", invalid="ignore"):  # a label that is far behind is handled below
        odds = logits - logits[rows, label][:, None]
        log_sum = np.log(np.exp(odds, out=odds).sum(axis=1))
        odds[rows, label] = 0.0
        other = odds[rows, odds.argmax(axis=1)]
        lead = np.exp(-log_sum) * (1.0 - other)
    behind = np.flatnonzero(~(other <= 1.0))
    if len(behind):
        best = logits[behind].argmax(axis=1)
        own = confidence_of(scores[behind], kind=kind)[np.arange(len(behind)), label[behind]]
        log_sum[behind], _ = log_sum_and_lead(scores[behind], best, kind=kind)
        lead[behind] = own - np.exp(-log_sum[behind])
    return log_sum, lead


def check_scores(scores: Floats, *, names: Sequence[str], what: str) -> None:
    """Raise InvalidValue unless every row can be ranked: it has no NaN and no +inf, and not all scores are −inf.

    `names` name the rows in the message. A single −inf is valid: it marks a class that cannot be predicted.
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
                f"{what}: {problem} in the scores of {int(bad.sum())} frame(s); the first is {first}. "
                "Every score must be a finite number or −inf, with at least one finite score per frame"
            )


def shipped_spaces() -> tuple[str, ...]:
    """Return the names of the label spaces that strobe ships."""
    return tuple(_shipped("spaces"))


@cache
def space(name: str) -> LabelSpace:
    """Return a label space that strobe ships.

    Args:
        name: Its name, such as ilsvrc-2012, imagenet-vid, youtube-bb or coco-80.

    Raises:
        UnknownName: strobe ships no space of this name. The message lists similar names.

    >>> len(space("coco-80")), space("coco-80").names[:2]
    (80, ('person', 'bicycle'))
    """
    data = _shipped("spaces")
    if name not in data:
        raise UnknownName("label space", name, data)
    rows = data[name]
    return LabelSpace(name=name, ids=tuple(row[0] for row in rows), names=tuple(row[1] for row in rows))


def other_names(classes: LabelSpace) -> list[list[str]]:
    """Return the synonyms of each class.

    They are the parts of a comma-separated name and, for shipped classes, WordNet's synonyms.

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


def coarser_groups(classes: LabelSpace) -> dict[str, tuple[str, ...]]:
    """Return the coarser groups that strobe ships for these classes: for each level, the group of every class.

    They exist for classes of ilsvrc-2012, by their id. Other classes have none.

    >>> {level: groups[281] for level, groups in coarser_groups(space("ilsvrc-2012")).items()}
    {'WordNet depth 13': 'cat', 'WordNet depth 9': 'mammal', 'WordNet depth 6': 'animal'}
    >>> coarser_groups(space("coco-80"))
    {}
    """
    place = {label: row for row, label in enumerate(space("ilsvrc-2012").ids)}
    if not all(label in place for label in classes.ids):
        return {}
    levels = _shipped("coarser")["ilsvrc-2012"]["levels"]
    return {level: tuple(groups[place[label]] for label in classes.ids) for level, groups in levels.items()}


@cache
def projection(source: str, target: str) -> Projection:
    """Return the projection that strobe ships between two of its label spaces.

    Args:
        source: The name of the space to map from, such as ilsvrc-2012.
        target: The name of the space to map to, such as imagenet-vid.

    Raises:
        UnknownName: strobe ships no projection between the two. The message lists the projections.

    >>> projection("ilsvrc-2012", "imagenet-vid").target.name
    'imagenet-vid'
    """
    data = _shipped("projections")
    key = f"{source}->{target}"
    if key not in data:
        raise UnknownName("label projection", key, data, hint=f"strobe ships {', '.join(sorted(data))}")
    entry = data[key]
    source_space, target_space = space(source), space(target)
    children = tuple(
        tuple(source_space.index(child) for child in entry["children"].get(label_id, ()))
        for label_id in target_space.ids
    )
    return Projection(
        source=source_space,
        target=target_space,
        children=children,
        version=entry["version"],
        rule=entry.get("rule", "merge"),
    )


@cache
def _shipped(name: str) -> Any:
    """Return the package's data files in one folder (spaces, projections, synonyms, coarser), by name."""
    folder = resources.files("strobe.core") / "data" / name
    files = {}
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if entry.name.endswith(".json"):
            content = json_of(entry.read_text(encoding="utf-8"))
            files[content["name"]] = content["classes"] if name == "spaces" else content
    return files
