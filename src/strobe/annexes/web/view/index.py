"""One dataset as columns over its candidate sets: facts, each model's outcomes, and the tags that people gave."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.analyses.scoring import set_facts
from strobe.annexes.web.review.hints import BLUR, CUT, EXPOSURE, MOTION
from strobe.annexes.web.view.outcomes import Outcomes, SetRows
from strobe.annexes.web.view.tags import TAGS, TagRow, read_tags, tags_of
from strobe.core.arrays import Bools, Ints
from strobe.core.dataset import Dataset
from strobe.core.derivation import Derivation, derive
from strobe.core.errors import InvalidValue, StrobeError
from strobe.store.dataset_folder import identity

REVIEW = ("kept", "dropped", "not voted on", "not reviewed")
HINTS = ("moves", "blur changes", "brightness changes", "scene cut", "almost the same")


class DatasetIndex:
    """A dataset folder that is open in the viewer. Columns never change; models and tags are replaced as a whole.

    `version` changes when a count may have changed.
    """

    def __init__(self, key: str, path: Path, dataset: Dataset) -> None:
        self.key, self.path, self.dataset = key, path, dataset
        self._identity = identity(path)
        facts = set_facts(dataset).columns
        self.names: NDArray[Any] = facts["set"]
        self.labels_text = [str(one) for one in facts["label"].tolist()]
        """The class names of each set's anchor."""
        self.places = SetRows(dataset, self.names)
        self.models: Mapping[str, Outcomes] = {}
        self.version = 0
        self.lock = threading.RLock()
        self._tags: tuple[int, list[TagRow], dict[str, Bools]] = (-1, [], {})
        self.orders: OrderedDict[str, NDArray[np.int32]] = OrderedDict()

    @property
    def n_sets(self) -> int:
        """The number of candidate sets."""
        return self.dataset.n_sets

    def expect_in_place(self) -> None:
        """Raise InvalidValue if the folder no longer has this dataset, so nothing may be written there."""
        try:
            found = identity(self.path)
        except StrobeError:
            found = ""
        if found != self._identity:
            raise InvalidValue(
                "the dataset was moved, removed or replaced; nothing was written. Start the viewer again"
            )

    def replace_models(self, models: Mapping[str, Outcomes]) -> None:
        """Replace the outcomes of all models."""
        with self.lock:
            if list(models.items()) != list(self.models.items()):
                self.models = dict(models)
                self.version += 1
                self.orders.clear()

    # -- facts ---------------------------------------------------------------------------------------------------

    @cached_property
    def video(self) -> Ints:
        """The video of each set, (S,)."""
        return np.asarray(self.dataset.video_of_set)

    @cached_property
    def classes(self) -> tuple[Ints, Ints]:
        """The pairs (set, class) for every label of every anchor."""
        data = self.dataset
        n_classes = len(data.info.label_space)
        anchors = data.sets.anchor_frame
        own = np.isin(data.labels.frame, anchors)
        frame, label = data.labels.frame[own], data.labels.label[own]
        sets: list[Ints] = []
        labels: list[Ints] = []
        order = np.argsort(frame, kind="stable")
        frame, label = frame[order], label[order]
        starts = np.searchsorted(frame, anchors)
        many = np.searchsorted(frame, anchors, side="right") - starts
        for place in range(int(many.max(initial=0))):
            has = np.flatnonzero(many > place)
            sets.append(has)
            labels.append(label[starts[has] + place])
        empty = np.zeros(0, dtype=np.int64)
        pairs = np.concatenate([empty, *sets]) * n_classes + np.concatenate([empty, *labels])
        pairs = np.unique(pairs)
        return pairs // n_classes, pairs % n_classes

    @cached_property
    def derivation(self) -> Derivation | None:
        """The outcome of the votes; None if votes do not decide about this dataset."""
        data = self.dataset
        return derive(data) if data.info.reviewed == "votes" and data.verdicts else None

    @cached_property
    def review(self) -> NDArray[np.uint8]:
        """The state of review of each set, as an index into REVIEW."""
        if self.dataset.info.reviewed == "release":
            return np.zeros(self.n_sets, dtype=np.uint8)
        found = self.derivation
        if found is None:
            return np.full(self.n_sets, REVIEW.index("not reviewed"), dtype=np.uint8)
        return np.where(found.unvoted_set, 2, np.where(found.kept_set, 0, 1)).astype(np.uint8)

    @cached_property
    def hints(self) -> Mapping[str, Bools]:
        """The sets with a member for which a hint is notable, by hint; empty if the dataset has no hints."""
        hints, sets = self.dataset.hints, self.dataset.sets
        if hints is None:
            return {}
        rows = {
            "moves": hints.motion >= MOTION,
            "blur changes": np.abs(hints.blur) >= BLUR,
            "brightness changes": np.abs(hints.exposure) >= EXPOSURE,
            "scene cut": hints.cut >= CUT,
            "almost the same": hints.duplicate,
        }
        return {name: np.bincount(sets.set[row], minlength=self.n_sets) > 0 for name, row in rows.items()}

    @cached_property
    def searchable(self) -> NDArray[np.str_]:
        """The text in which a search looks: the set's name and id and its video's name, in small letters."""
        videos = [str(name).casefold() for name in self.dataset.videos.name.tolist()]
        of_set = self.video.tolist()
        names, ids = self.names.tolist(), self.dataset.sets.set_id.tolist()
        return np.array(
            [
                f"{str(name).casefold()}\n{str(one).casefold()}\n{videos[video]}"
                for name, one, video in zip(names, ids, of_set, strict=True)
            ]
        )

    # -- people --------------------------------------------------------------------------------------------------

    def tags(self) -> tuple[list[TagRow], Mapping[str, Bools]]:
        """Return all rows of tags, and the sets of each current tag. The file is read again if it changed."""
        path = self.path / TAGS
        stamp = path.stat().st_mtime_ns if path.is_file() else 0
        if stamp != self._tags[0]:
            rows = read_tags(self.path)
            masks: dict[str, Bools] = {}
            for name, tags in tags_of(rows).items():
                (row,) = self.places.rows([name]).tolist()
                for tag in tags if row >= 0 else ():
                    masks.setdefault(tag, np.zeros(self.n_sets, dtype=bool))[row] = True
            with self.lock:
                self._tags = (stamp, rows, dict(sorted(masks.items())))
                self.version += 1
                self.orders.clear()
        return self._tags[1], self._tags[2]
