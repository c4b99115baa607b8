"""The state of the page as a query: which sets, in which order; and the count beside every choice of a filter."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.web.view.index import REVIEW, DatasetIndex
from strobe.annexes.web.view.outcomes import STATUS, Outcomes
from strobe.core.arrays import Bools
from strobe.core.errors import InvalidValue, UnknownName, printable
from strobe.core.records import Verdict

Order = Literal["striking", "dataset", "disagreement", "confidence"]

CONFIDENCE = ((0.0, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 0.99), (0.99, 1.01))
"""The bins of the confidence of the worst answer; the upper end is excluded."""

MOST_CHOICES = 200
"""The most choices of one filter in one answer, the most frequent first. The page searches for others by name."""

MOST_VALUES = 500
"""The most choices that a query may name, so that no request takes long."""

_KEYS = ("m", "c", "a", "v", "d", "k", "r", "h", "p", "t")

KNOWN = {*_KEYS, "q", "f", "x", "s", "data"}
"""The keys of a query that decide about sets, and the dataset's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFilter:
    """The filters of a query; several choices of one filter are alternatives, and all filters must hold.

    `models` has the wanted outcomes of each model. `focus` is the model to which answer, distance and confidence refer;
    without it, any model may fulfil them. `change` is (before, after, kind) with the kind `held` or `broken`.
    """

    models: tuple[tuple[str, str], ...] = ()
    choices: tuple[tuple[str, str], ...] = ()
    search: str = ""
    focus: str = ""
    change: tuple[str, str, str] | None = None
    order: Order = "striking"

    @classmethod
    def of(cls, items: Iterable[tuple[str, str]]) -> "SetFilter":
        """Read a filter from the items of a query string. Items of the page's other state are skipped.

        >>> SetFilter.of([("m", "timm:a:breaks"), ("c", "dog"), ("q", "clip"), ("page", "sets")]).models
        (('timm:a', 'breaks'),)
        """
        models, choices, more = [], [], {"q": "", "f": "", "x": "", "s": "striking"}
        for key, value in items:
            if key == "m":
                model, _, status = value.rpartition(":")
                if status not in STATUS:
                    raise InvalidValue(f"m: expected MODEL:{'|'.join(STATUS)}, got {printable(value, limit=80)!r}")
                models.append((model, status))
            elif key in _KEYS:
                choices.append((key, value))
            elif key in more:
                more[key] = value
        if len(models) + len(choices) > MOST_VALUES:
            raise InvalidValue(f"a query can name at most {MOST_VALUES} choices")
        if more["s"] not in get_args(Order):
            raise InvalidValue(f"s: expected one of {', '.join(get_args(Order))}, got {printable(more['s'])!r}")
        change = None
        if more["x"]:
            parts = more["x"].split("\t")
            if len(parts) != 3 or parts[2] not in ("held", "broken"):
                raise InvalidValue("x: expected two models and held or broken, with tabs between them")
            change = (parts[0], parts[1], parts[2])
        return cls(
            models=tuple(dict.fromkeys(models)),
            choices=tuple(dict.fromkeys(choices)),
            search=more["q"][:200],
            focus=more["f"],
            change=change,
            order=more["s"],  # type: ignore[arg-type]  # checked above
        )


class Selection:
    """The sets of one filter in one index, as masks (S,). Each filter has a mask, so that counts can leave it out."""

    def __init__(self, index: DatasetIndex, wanted: SetFilter) -> None:
        self.index, self.wanted = index, wanted
        self._tags = index.tags()[1]
        self._outcomes = dict(index.models)
        self._focus = self._focused()
        self._masks: dict[str, Bools] = {}
        by_model: dict[str, list[int]] = {}
        for model, status in wanted.models:
            by_model.setdefault(model, []).append(STATUS.index(status))
        for model, codes in by_model.items():
            self._masks[f"m:{model}"] = np.isin(self._model(model).status, codes)
        for key in dict.fromkeys(key for key, _ in wanted.choices):
            values = [value for one, value in wanted.choices if one == key]
            self._masks[key] = np.logical_or.reduce([self._of(key, value) for value in values])
        if wanted.search:
            self._masks["q"] = np.char.find(index.searchable, wanted.search.casefold()) >= 0
        if wanted.change is not None:
            self._masks["x"] = self._changed(*wanted.change)

    def _model(self, name: str) -> Outcomes:
        if name not in self._outcomes:
            raise UnknownName("model", name, list(self._outcomes))
        return self._outcomes[name]

    def _focused(self) -> list[Outcomes]:
        if self.wanted.focus:
            return [self._model(self.wanted.focus)]
        named = dict.fromkeys(model for model, _ in self.wanted.models)
        return [self._model(name) for name in named] or list(self._outcomes.values())

    def _changed(self, before: str, after: str, kind: str) -> Bools:
        first, second = self._model(before).status, self._model(after).status
        both = (first != 0) & (second != 0)
        held, other = (second, first) if kind == "held" else (first, second)
        return np.asarray(both & (held == 1) & (other != 1))

    # -- one choice ----------------------------------------------------------------------------------------------

    def _of(self, key: str, value: str) -> Bools:
        """Return the sets of one choice of a filter."""
        index = self.index
        if key in ("a", "d", "p"):
            masks = [self._of_model(one, key, value) for one in self._focus]
            return np.logical_or.reduce(masks) if masks else np.zeros(index.n_sets, dtype=bool)
        if key == "c":
            sets, labels = index.classes
            found = np.zeros(index.n_sets, dtype=bool)
            found[sets[labels == self._class(value)]] = True
            return found
        if key == "v":
            rows = np.flatnonzero(index.dataset.videos.name == value)
            return np.isin(index.video, rows)
        if key == "k" and index.dataset.variants is not None:
            rows = np.flatnonzero(index.dataset.variants.variant == value)
            return np.isin(index.dataset.sets.variant, rows)
        if key == "r" and value in REVIEW:
            return np.asarray(index.review == REVIEW.index(value))
        if key == "h" and value in index.hints:
            return index.hints[value]
        if key == "t":
            if value == "":
                return np.asarray(~np.logical_or.reduce([*self._tags.values(), np.zeros(index.n_sets, dtype=bool)]))
            return self._tags.get(value, np.zeros(index.n_sets, dtype=bool))
        raise InvalidValue(f"{key}: {printable(value, limit=80)!r} is not a choice of this filter")

    def _class(self, value: str) -> int:
        names = self.index.dataset.info.label_space.names
        if value not in names:
            raise InvalidValue(f"class: {printable(value, limit=80)!r} is not a class of this dataset")
        return names.index(value)

    def _of_model(self, one: Outcomes, key: str, value: str) -> Bools:
        if key == "a":
            none = value == NO_CLASS
            return np.asarray(one.answer == (len(self.index.dataset.info.label_space) if none else self._class(value)))
        number = _number(key, value)
        if key == "d":
            return np.asarray(np.ceil(one.distance) == number)
        low, high = CONFIDENCE[min(max(int(number), 0), len(CONFIDENCE) - 1)]
        return np.asarray((one.confidence >= low) & (one.confidence < high) & (one.status > 1))

    # -- results -------------------------------------------------------------------------------------------------

    def mask(self, *, without: str = "") -> Bools:
        """Return the sets that fulfil all filters, or all but one."""
        out = np.ones(self.index.n_sets, dtype=bool)
        for key, mask in self._masks.items():
            if key != without:
                out &= mask
        return out

    def rows(self) -> NDArray[np.int32]:
        """Return the sets in the wanted order."""
        rows = np.flatnonzero(self.mask())
        order = self.wanted.order
        if order == "dataset" or not self._focus:
            return rows.astype(np.int32)
        if order == "striking":
            keys = [one.strength[rows] for one in self._focus]
            weight = np.maximum.reduce(keys)
        elif order == "confidence":
            keys = [np.where(one.status[rows] > 1, np.nan_to_num(one.confidence[rows]), 0.0) for one in self._focus]
            weight = np.maximum.reduce(keys)
        else:
            every = list(self._outcomes.values())
            held = np.sum([one.status[rows] == 1 for one in every], axis=0)
            seen = np.sum([one.status[rows] != 0 for one in every], axis=0)
            weight = np.minimum(held, seen - held)
        return rows[np.argsort(-weight, kind="stable")].astype(np.int32)

    def facets(self) -> dict[str, Any]:
        """Return the count of every choice of every filter, among the sets that fulfil the other filters."""
        index = self.index
        out: dict[str, Any] = {"total": int(self.mask().sum()), "n_sets": index.n_sets, "m": {}}
        for name, outcome in self._outcomes.items():
            within = self.mask(without=f"m:{name}")
            found = np.bincount(outcome.status[within], minlength=len(STATUS))
            out["m"][name] = dict(zip(STATUS, found.tolist(), strict=True))
        sets, labels = index.classes
        names = list(index.dataset.info.label_space.names)
        within = self.mask(without="c")
        out["c"] = _most(names, np.bincount(labels[within[sets]], minlength=len(names)))
        within = self.mask(without="v")
        out["v"] = _most(index.dataset.videos.name.tolist(), self._counted(index.video, within, "v"))
        if index.dataset.variants is not None:
            variants = index.dataset.variants.variant.tolist()
            out["k"] = _most(variants, self._counted(index.dataset.sets.variant, self.mask(without="k"), "k"))
        reviewed = np.bincount(index.review[self.mask(without="r")], minlength=len(REVIEW))
        out["r"] = _most(list(REVIEW), reviewed)
        out["h"] = _of_masks(index.hints, self.mask(without="h"))
        tagged = _of_masks(self._tags, within := self.mask(without="t"))
        plain = int((self._of("t", "") & within).sum())
        out["t"] = [*tagged, ["", plain]] if self._tags else []
        for key, make in (("a", self._answers), ("d", self._distances), ("p", self._confidences)):
            out[key] = make(self.mask(without=key))
        return out

    def _counted(self, column: NDArray[Any], within: Bools, key: str) -> NDArray[np.int64]:
        size = len(self.index.dataset.videos) if key == "v" else len(self.index.dataset.variants or ())
        return np.bincount(column[within], minlength=size)

    def _any(self, parts: Sequence[NDArray[Any]], size: int) -> NDArray[np.int64]:
        """Count the sets that have each code for at least one of the models; a code of −1 is none."""
        if len(parts) == 1:
            return np.bincount(parts[0][parts[0] >= 0], minlength=size)
        seen = np.zeros((len(parts[0]) if parts else 0, size), dtype=bool)
        for part in parts:
            known = np.flatnonzero(part >= 0)
            seen[known, part[known]] = True
        return np.asarray(seen.sum(axis=0))

    def _answers(self, within: Bools) -> list[list[Any]]:
        names = [*self.index.dataset.info.label_space.names, NO_CLASS]
        if len(names) * int(within.sum()) > 2e8:  # too many classes to count for all models at once
            return []
        return _most(names, self._any([one.answer[within] for one in self._focus], len(names)))

    def _distances(self, within: Bools) -> list[list[Any]]:
        far = [np.nan_to_num(np.ceil(one.distance[within]), nan=-1).astype(np.int64) for one in self._focus]
        far = [np.where(one <= 1000, one, -1) for one in far]
        size = max((int(one.max(initial=-1)) + 1 for one in far), default=0)
        found = self._any(far, max(size, 1)).tolist()
        return [[str(index), count] for index, count in enumerate(found) if count]

    def _confidences(self, within: Bools) -> list[list[Any]]:
        edges = np.array([low for low, _ in CONFIDENCE[1:]])
        codes = [
            np.where(
                np.isfinite(one.confidence[within]) & (one.status[within] > 1),
                np.searchsorted(edges, one.confidence[within], side="right"),
                -1,
            )
            for one in self._focus
        ]
        found = self._any(codes, len(CONFIDENCE)).tolist()
        return [[str(index), count] for index, count in enumerate(found) if count]


NO_CLASS = "none of the classes"


def _number(key: str, value: str) -> float:
    try:
        return float(int(value))
    except ValueError as error:
        raise InvalidValue(f"{key}: expected a whole number, got {printable(value, limit=40)!r}") from error


def _most(names: Sequence[str], counts: NDArray[Any]) -> list[list[Any]]:
    """Return the most frequent choices with their counts; choices without a set are left out."""
    order = np.argsort(-counts, kind="stable")[:MOST_CHOICES]
    return [[str(names[place]), int(counts[place])] for place in order.tolist() if counts[place]]


def _of_masks(masks: Mapping[str, Bools], within: Bools) -> list[list[Any]]:
    return [[name, count] for name, mask in masks.items() if (count := int((mask & within).sum()))]


def votes_on(verdicts: Sequence[Verdict], set_id: str) -> list[Verdict]:
    """Return all votes on the pairs of one set, oldest first."""
    return sorted((vote for vote in verdicts if vote.set_id == set_id), key=lambda vote: (vote.at, vote.verdict_id))
