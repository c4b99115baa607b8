"""The sets of a searched dataset: each anchor as a model's input, and the search's finding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.ports import Image
from strobe.core.variants import MIXED, Variant

_APART = 1_000_000
"""Frames made from anchor i are numbered from (i + 1) times this number, above the source's own frames."""

_FINDINGS = 1_000
"""The offset of findings within the numbers of an anchor. Smaller numbers are for the inputs of models."""

_ORIGINAL = _FINDINGS - 1
"""The number of the original photo, if the anchor is its reconstruction."""

_BESIDE, _EACH = 10_000, 64
"""The offset of the companion images of findings, and the maximum number of companions of a finding."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Finding:
    """The outcome for one image.

    `found`: a change of size `reach`, at most the level it was found at, gives the wrong answer a lead of `margin`.
    `censored`: nothing was found up to the last level, or up to the level where scores became NaN. `anchor_wrong`: no
    change was needed. `failed`: the scores were NaN from the start. `facts` are plain numbers about the search.
    `change` is the change itself, if images do not show it. `beside` has companion images for comparison by variant,
    each with its distance.
    """

    status: str
    reach: float | None = None
    margin: float | None = None
    image: Image | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    change: NDArray[np.float16] | None = None
    beside: Mapping[str, Sequence[tuple[float, Image]]] = field(default_factory=dict)


class SearchPlan(Protocol):
    """One variant to search: its name, its grid, and everything that determines the findings."""

    @property
    def name(self) -> str:
        """The variant's name."""

    @property
    def levels(self) -> tuple[float, ...]:
        """The grid of levels, ascending."""

    def to_json(self) -> dict[str, Any]:
        """Return everything that determines the findings, as plain JSON."""

    def variant(self) -> Variant:
        """Return the variant, with everything needed to reproduce its findings."""

    def beside(self) -> Mapping[str, Variant]:
        """The variants of its findings' companion images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An image in the new folder, marked as a model input."""

    media: str
    sha256: str
    size_wh: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """The outcome for one anchor under one variant: the anchor as input, the finding, and how the search ended.

    `change` is the file of the change. The other fields are as in Finding.
    """

    picture: Stored
    status: str = "complete"
    reach: float | None = None
    margin: float | None = None
    found: Stored | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    change: str = ""
    beside: Mapping[str, Sequence[tuple[float, Stored]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Originals:
    """The photos whose reconstructions were searched: a photo and its reconstruction by row of the source.

    `variant` is the variant of the sets that pair them.
    """

    variant: Variant
    pairs: Mapping[int, tuple[Stored, Stored]]


@dataclass(slots=True)
class _Anchor:
    """One anchor of the source while its frames are made. It finds the rows of the anchor's inputs by their pixels."""

    video: int
    index: int
    key: str
    labels: Sequence[int]
    inputs: dict[str, int] = field(default_factory=dict)

    def input_row(self, grown: DatasetBuilder, picture: Stored) -> int:
        """Return the frame of this input. Models that see the same pixels share the frame."""
        if picture.sha256 not in self.inputs:
            place = len(self.inputs)
            head = "input" if not place else f"input{place + 1}"
            self.inputs[picture.sha256] = self._frame(grown, picture, place, f"{head}/{self.key}", self.labels)
        return self.inputs[picture.sha256]

    def add(self, grown: DatasetBuilder, search: SearchPlan, number: int, outcome: Searched) -> None:
        """Add the set of a search, and the sets of its finding's companion images."""
        first, members = self.input_row(grown, outcome.picture), []
        if outcome.found is not None and outcome.reach is not None:
            row = self._frame(grown, outcome.found, _FINDINGS + number, f"{search.name}/{self.key}", ())
            members = [(row, outcome.reach)]
        grown.set(
            set_id=f"{self.key}@{search.name}",
            anchor=first,
            members=members,
            variant=search.name,
            group=self.key,
            status=outcome.status,
            reach=outcome.reach,
            margin=outcome.margin,
        )
        place = _BESIDE + number * _EACH
        for kind, pictures in outcome.beside.items():
            variant, members = search.beside()[kind].variant, []
            for count, (distance, picture) in enumerate(pictures):
                key = f"{variant}/{self.key}" + (f"/{count + 1}" if len(pictures) > 1 else "")
                members.append((self._frame(grown, picture, place, key, ()), distance))
                place += 1
            grown.set(set_id=f"{self.key}@{variant}", anchor=first, members=members, variant=variant, group=self.key)

    def add_original(self, grown: DatasetBuilder, variant: str, original: Stored, picture: Stored) -> None:
        """Add the set of a reconstruction, which is the anchor's input, and the photo that it reconstructs."""
        first = self.input_row(grown, picture)
        members = [(self._frame(grown, original, _ORIGINAL, f"{variant}/{self.key}", self.labels), 1.0)]
        grown.set(set_id=f"{self.key}@{variant}", anchor=first, members=members, variant=variant, group=self.key)

    def _frame(self, grown: DatasetBuilder, picture: Stored, place: int, key: str, labels: Sequence[int]) -> int:
        return grown.frame(
            video=self.video,
            index=_APART * (self.index + 1) + place,
            key=key,
            media=picture.media,
            sha256=picture.sha256,
            size_wh=picture.size_wh,
            as_input=True,
            labels=labels,
        )


def searched_dataset(
    source: Dataset,
    searches: Sequence[SearchPlan],
    found: Mapping[tuple[int, int], Searched],
    *,
    name: str,
    provenance: Mapping[str, Any],
    originals: Originals | None = None,
) -> Dataset:
    """Make one set per anchor and variant. `found` is keyed by the anchor's row in the source and the search's index.

    Members are scored with their anchor's labels. Boxes are dropped, because the images are cropped to a model's input.
    With `originals`, the first variant compares each reconstruction with its photo.
    """
    grown, shown = DatasetBuilder(), {kind for one in found.values() for kind in one.beside}
    pairs = {} if originals is None else originals.pairs
    if originals is not None:
        grown.variant(originals.variant)
    for one in searches:
        grown.variant(one.variant())
    for one in searches:
        for kind, variant in one.beside().items():
            if kind in shown:
                grown.variant(variant)
    frames = source.frames
    rows: dict[int, int] = {}
    for anchor in dict.fromkeys([*(anchor for anchor, _ in found), *pairs]):
        video = int(frames.video[anchor])
        if video not in rows:
            rows[video] = grown.video_of(source.videos, video)
        anchor_frames = _Anchor(
            rows[video], int(frames.index[anchor]), str(frames.key[anchor]), source.labels_of(anchor)
        )
        if originals is not None and anchor in pairs:
            anchor_frames.add_original(grown, originals.variant.variant, *pairs[anchor])
        for number, search in enumerate(searches):
            outcome = found.get((anchor, number))
            if outcome is not None:
                anchor_frames.add(grown, search, number, outcome)
    info = DatasetInfo(
        name=name,
        label_space=source.info.label_space,
        k=max(len(one.levels) for one in searches),
        axis=MIXED if originals is not None else searches[0].variant().axis,
        label_source="anchor",
        licence=source.info.licence,
        provenance=provenance,
    )
    return grown.build(info)
