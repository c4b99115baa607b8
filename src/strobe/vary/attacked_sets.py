"""The sets of an attacked dataset: a model's own input of every anchor, and what an attack found near it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.variants import Target, Variant
from strobe.vary.attack import AttackOptions

__all__ = ["Attacked", "Attacking", "Stored", "attacked_dataset"]

_APART = 1_000_000
"""Frames made of the anchor at place i of its source are numbered from (i + 1) times this on, clear of its frames."""

_FINDINGS = 1_000
"""Of these the findings, after the inputs of as many models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attacking:
    """One variant: a norm against a model, the grid and how it is searched."""

    target: Target
    levels: tuple[float, ...]
    how: AttackOptions

    @property
    def name(self) -> str:
        """What the variant is called."""
        return f"{self.how.pgd.norm}/{self.target.name}"

    def to_json(self) -> dict[str, Any]:
        """Everything that decides what is found, as plain JSON."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self), default=dict))
        return found

    def variant(self) -> Variant:
        """The variant, with everything that makes its findings again."""
        pgd = self.how.pgd
        return Variant(
            variant=self.name,
            axis="epsilon",
            unit="of 1",
            levels=self.levels,
            target=self.target,
            fields={
                "kind": "attack", "norm": pgd.norm, "search": "minimal" if self.how.minimal else "grid",
                "loss": pgd.loss, "steps": pgd.steps, "step": pgd.share, "restarts": self.how.restarts,
                "margin": pgd.margin,
            },
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A picture in the new folder, as a model's own input."""

    media: str
    sha256: str
    size_wh: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attacked:
    """What became of one anchor under one variant: its input, what was found, and how the search ended."""

    picture: Stored
    status: str = "complete"
    reach: float | None = None
    margin: float | None = None
    found: Stored | None = None


@dataclass(slots=True)
class _Anchor:
    """One anchor of the source while its frames are made: rows of its inputs by their pixels."""

    video: int
    index: int
    key: str
    labels: Sequence[int]
    inputs: dict[str, int] = field(default_factory=dict)

    def input_row(self, grown: DatasetBuilder, picture: Stored) -> int:
        """The frame of this input; models that see the same pixels share it."""
        if picture.sha256 not in self.inputs:
            place = len(self.inputs)
            head = "input" if not place else f"input{place + 1}"
            self.inputs[picture.sha256] = self._frame(grown, picture, place, f"{head}/{self.key}", self.labels)
        return self.inputs[picture.sha256]

    def found_row(self, grown: DatasetBuilder, picture: Stored, number: int, variant: str) -> int:
        """The frame of what was found under the variant of this number."""
        return self._frame(grown, picture, _FINDINGS + number, f"{variant}/{self.key}", ())

    def _frame(self, grown: DatasetBuilder, picture: Stored, place: int, key: str, labels: Sequence[int]) -> int:
        return grown.frame(
            video=self.video, index=_APART * (self.index + 1) + place, key=key, media=picture.media,
            sha256=picture.sha256, size_wh=picture.size_wh, as_input=True, labels=labels,
        )  # fmt: skip


def attacked_dataset(
    source: Dataset,
    attacks: Sequence[Attacking],
    found: Mapping[tuple[int, int], Attacked],
    *,
    name: str,
    provenance: Mapping[str, Any],
) -> Dataset:
    """One set per anchor and variant, ε the distance. `found` is by the anchor's row in the source and the attack.

    Members are judged by their anchor's labels. Boxes stay behind: the pictures are cut to a model's input.
    """
    grown = DatasetBuilder()
    for one in attacks:
        grown.variant(one.variant())
    frames, videos = source.frames, source.videos
    rows: dict[int, int] = {}
    for anchor in dict.fromkeys(anchor for anchor, _ in found):
        video = int(frames.video[anchor])
        if video not in rows:
            rows[video] = grown.video(
                video_id=str(videos.video_id[video]), name=str(videos.name[video]), fps=videos.fps(video),
                codec=str(videos.codec[video]), kind=str(videos.kind[video]),
            )  # fmt: skip
        made = _Anchor(rows[video], int(frames.index[anchor]), str(frames.key[anchor]), source.labels_of(anchor))
        for number, attack in enumerate(attacks):
            outcome = found.get((anchor, number))
            if outcome is None:
                continue
            first, members = made.input_row(grown, outcome.picture), []
            if outcome.found is not None and outcome.reach is not None:
                members = [(made.found_row(grown, outcome.found, number, attack.name), outcome.reach)]
            grown.set(
                set_id=f"{made.key}@{attack.name}", anchor=first, members=members, variant=attack.name,
                group=made.key, status=outcome.status, reach=outcome.reach, margin=outcome.margin,
            )  # fmt: skip
    info = DatasetInfo(
        name=name,
        label_space=source.info.label_space,
        k=max(len(one.levels) for one in attacks),
        axis="epsilon",
        label_source="anchor",
        licence=source.info.licence,
        provenance=provenance,
    )
    return grown.build(info)
