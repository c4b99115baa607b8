"""The sets of a corrupted dataset: every anchor of another dataset, and its corrupted versions."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import expect
from strobe.core.records import frame_id
from strobe.core.variants import Variant
from strobe.vary.corruptions import CORRUPTIONS, SEVERITIES
from strobe.vary.pictures import AnchorImage
from strobe.vary.rendering import corruption_recipe

_APART = 1_000_000
"""Members of anchor i are numbered from (i + 1) times this number, above the source's own frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptionPlan:
    """The corruptions and severities, and whether members are stored as files or rendered when read.

    `panes` are the photographs for frost, each with its file name in the new folder and its digest.
    """

    kinds: tuple[str, ...]
    severities: tuple[int, ...] = SEVERITIES
    store: bool = False
    panes: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        known = bool(self.kinds) and all(kind in CORRUPTIONS for kind in self.kinds)
        expect(known, "<<kind>>", f"among {', '.join(CORRUPTIONS)}", self.kinds)
        expect(
            bool(self.severities) and set(self.severities) <= set(SEVERITIES), "<<severity>>", "1–5", self.severities
        )
        object.__setattr__(self, "severities", tuple(sorted(set(self.severities))))

    def each(self) -> Iterator[tuple[str, int]]:
        """Every corruption at every severity."""
        return ((kind, severity) for kind in self.kinds for severity in self.severities)

    @property
    def version(self) -> int:
        """The highest version number among the corruptions."""
        return max(CORRUPTIONS[kind].version for kind in self.kinds)

    @property
    def needs_panes(self) -> bool:
        """Whether a corruption uses photographs."""
        return any(CORRUPTIONS[kind].has_pane for kind in self.kinds)

    def to_json(self) -> dict[str, Any]:
        """Return everything that determines the result."""
        return {
            "kinds": list(self.kinds),
            "severities": list(self.severities),
            "stored": self.store,
            "version": self.version,
        }

    def recipe(self, video_id: str, anchor: int, kind: str, severity: int) -> dict[str, Any]:
        """Return the recipe of an anchor's member. The anchor is given by its source and its index there."""
        seed = seed_of(frame_id(video_id, member_index(anchor, kind, severity)))
        if not CORRUPTIONS[kind].has_pane:
            return corruption_recipe(kind, severity, seed=seed)
        expect(bool(self.panes), "panes", f"photographs for {kind}", self.panes)
        file, digest = self.panes[seed % len(self.panes)]
        return corruption_recipe(kind, severity, seed=seed, pane={"file": file, "sha256": digest})

    def recipes(self, video_id: str, anchor: int) -> dict[str, dict[str, Any]]:
        """Return the recipes of all members of an anchor, by their file names."""
        return {f"{kind}-{severity}": self.recipe(video_id, anchor, kind, severity) for kind, severity in self.each()}


def member_index(anchor: int, kind: str, severity: int) -> int:
    """Return a member's frame index in its anchor's source.

    It does not depend on which other corruptions are requested.

    >>> member_index(0, "gaussian_noise", 1), member_index(12, "fog", 5)
    (1000000, 13000049)
    """
    return _APART * (anchor + 1) + len(SEVERITIES) * list(CORRUPTIONS).index(kind) + severity - 1


def seed_of(frame: str) -> int:
    """Return the seed of a rendered frame from its id. It is the same on every machine."""
    return int.from_bytes(hashlib.sha256(f"corruption {frame}".encode()).digest()[:6])


def corrupted_dataset(
    source: Dataset,
    pictures: Mapping[int, AnchorImage],
    how: CorruptionPlan,
    *,
    name: str,
    provenance: Mapping[str, Any],
) -> Dataset:
    """Make one set per image and corruption, with severity as distance. `pictures` are keyed by the anchors' rows.

    Members are scored with their anchor's labels. Boxes are copied to them, because no corruption moves the
    content.
    """
    grown, levels = DatasetBuilder(), tuple(float(severity) for severity in how.severities)
    for kind in how.kinds:
        fields = {"kind": "corruption", "name": kind}
        grown.variant(Variant(variant=kind, axis="severity", levels=levels, fields=fields))
    frames, truth = source.frames, _Truth(source)
    rows: dict[int, int] = {}
    for anchor, picture in pictures.items():
        video, index, key = int(frames.video[anchor]), int(frames.index[anchor]), str(frames.key[anchor])
        if video not in rows:
            rows[video] = grown.video_of(source.videos, video)
        shared: dict[str, Any] = {
            "video": rows[video],
            "size_wh": picture.size_wh,
            "as_input": bool(frames.as_input[anchor]),
        }
        first = grown.frame(
            index=index, key=key, media=picture.media, sha256=picture.sha256, labels=truth.labels(anchor), **shared
        )
        truth.boxes(anchor, first, grown)
        for kind in how.kinds:
            members = []
            for severity in how.severities:
                media, sha256 = picture.members.get(f"{kind}-{severity}", (picture.media, picture.sha256))
                row = grown.frame(
                    index=member_index(index, kind, severity),
                    key=f"{kind}/{severity}/{key}",
                    media=media,
                    sha256=sha256,
                    labels=truth.labels(anchor) if truth.boxed else (),
                    recipe=None if how.store else how.recipe(str(source.videos.video_id[video]), index, kind, severity),
                    **shared,
                )
                truth.boxes(anchor, row, grown)
                members.append((row, float(severity)))
            grown.set(set_id=f"{key}@{kind}", anchor=first, members=members, variant=kind, group=key)
    info = DatasetInfo(
        name=name,
        label_space=source.info.label_space,
        k=len(levels),
        axis="severity",
        label_source="frame" if truth.boxed else "anchor",
        combine="worst",
        licence=source.info.licence,
        provenance=provenance,
    )
    return grown.build(info, with_boxes=truth.boxed)


class _Truth:
    """Labels and boxes of the source's frames, for fast lookup."""

    def __init__(self, source: Dataset) -> None:
        self._source, self.boxed = source, source.boxes is not None
        self._labels = np.argsort(source.labels.frame, kind="stable")
        self._labelled = source.labels.frame[self._labels]
        if source.boxes is not None:
            self._boxes = np.argsort(source.boxes.frame, kind="stable")
            self._at = source.boxes.frame[self._boxes]

    def labels(self, frame: int) -> list[int]:
        low, high = np.searchsorted(self._labelled, [frame, frame + 1])
        found: list[int] = self._source.labels.label[self._labels[low:high]].tolist()
        return found

    def boxes(self, frame: int, row: int, grown: DatasetBuilder) -> None:
        boxes = self._source.boxes
        if boxes is None:
            return
        low, high = np.searchsorted(self._at, [frame, frame + 1])
        for box in self._boxes[low:high].tolist():
            grown.box(
                frame=row,
                label=int(boxes.label[box]),
                xyxy=boxes.xyxy[box].tolist(),
                track=int(boxes.track[box]),
                crowd=bool(boxes.crowd[box]),
            )
