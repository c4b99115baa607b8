"""Compare a classifier with detectors that have the same backbone, and with crops, on the same images. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from strobe.analyses.variant_kinds import own_kind
from strobe.annexes.backgrounds.backbones.records import BackboneRow, Role, SharedBackbone
from strobe.core.answers import ClassAnswers, State
from strobe.core.arrays import Bools, Ints
from strobe.core.dataset import Dataset
from strobe.core.estimate import Estimate
from strobe.metrics.contrasts import paired_test
from strobe.metrics.intervals import Interval, proportion
from strobe.metrics.paired import holm, paired_difference
from strobe.studies.people.records import PeopleResults

_RUNG = "crop"
"""The rung of a background ladder that is a crop to the true box."""
_ORDER: tuple[Role, ...] = ("classifier", "detector", "detected-crop", "oracle-crop")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackboneAnswers:
    """One row before it is compared: its backbone, and the classifier that it runs, if it is a crop.

    `right` and `known` (P,) say on which images it is right, and which it answered. `variant` is what it saw.
    """

    role: Role
    model: str
    backbone: str
    classifier: str
    right: Bools
    known: Bools
    variant: str = "anchor"


class ImageRows:
    """The images of a dataset: the row of each image's anchor, its source, and the row of its crop on a ladder."""

    def __init__(self, dataset: Dataset) -> None:
        sets = dataset.sets
        self._dataset = dataset
        anchors = np.flatnonzero(sets.is_anchor)
        self.whole, self.crop = anchors, np.full(len(anchors), -1, dtype=np.int64)
        self.cluster: Ints = dataset.video_of_set[sets.set[anchors]]
        if dataset.variants is None:
            return
        _, first, image = np.unique(sets.group.astype(str), return_index=True, return_inverse=True)
        self.whole, self.cluster = anchors[first], dataset.video_of_set[first]
        self.crop = np.full(len(first), -1, dtype=np.int64)
        for row, variant in enumerate(dataset.variants):
            if own_kind([variant.fields]) is not None and variant.fields.get("rung") == _RUNG and variant.levels:
                narrow = np.abs(sets.distance - variant.levels[0]) < 1e-6
                at = np.flatnonzero((sets.variant[sets.set] == row) & ~sets.is_anchor & narrow)
                self.crop[image[sets.set[at]]] = at

    def marks(self, answers: ClassAnswers, rows: Ints) -> tuple[Bools, Bools]:
        """Return whether each image is right on these rows, and whether it has an answer there."""
        right = self._dataset.right_rows(answers.label)
        known = (rows >= 0) & (answers.state[self._dataset.sets.frame[rows]] <= State.OUTSIDE)
        return np.asarray(right[rows] & known), np.asarray(known)


def backbone_of(spec: str) -> str:
    """Return the architecture in a model string, without weights. A tag of timm names weights too.

    >>> backbone_of("timm:resnet50.a1_in1k@w.pth"), backbone_of("timm:resnet50@det/model.safetensors")
    ('timm:resnet50', 'timm:resnet50')
    """
    plain = spec.partition("@")[0]
    return plain.partition(".")[0] if plain.startswith("timm:") else plain


def rows_of(name: str, facts: Mapping[str, Any], answers: ClassAnswers, images: ImageRows) -> list[BackboneAnswers]:
    """Return how a model answers, by the facts in the run. The list is empty if its model string is unknown.

    A classifier on a background ladder gives two rows: whole images, and the rung that is a crop to the true box.
    """
    settings, spec = facts.get("preprocessing", {}), str(facts.get("spec", {}).get("name", ""))
    right, known = images.marks(answers, images.whole)

    def row(role: Role, of: str, classifier: str = "") -> BackboneAnswers:
        return BackboneAnswers(
            role=role, model=name, backbone=backbone_of(of), classifier=classifier, right=right, known=known
        )

    match facts.get("view"):
        case "boxes":
            return [row("detector", str(facts.get("detector", "")))]
        case "crop":
            is_truth = str(settings.get("view", "")).startswith("crop:truth,")
            return [row("oracle-crop" if is_truth else "detected-crop", spec, spec)]
    whole = row("classifier", spec, spec)
    if not spec or not (images.crop >= 0).any():
        return [whole] if spec else []
    right, known = images.marks(answers, images.crop)
    return [whole, replace(whole, role="oracle-crop", right=right, known=known, variant=_RUNG)]


def shared_backbones(
    rows: Sequence[BackboneAnswers], images: ImageRows, people: PeopleResults | None, *, interval: Interval
) -> tuple[SharedBackbone, ...]:
    """Return every classifier with the detectors that have its backbone, and with crops that it sees.

    A classifier without such a detector is left out. Models called NAME~SEED are compared with those of their seed.
    """
    out = []
    for one in rows:
        if one.role != "classifier":
            continue
        detectors = [
            row for row in rows if row.role == "detector" and row.backbone == one.backbone and _same_seed(row, one)
        ]
        crops = [row for row in rows if row.role.endswith("crop") and row.classifier == one.classifier]
        group = sorted([one, *detectors, *crops], key=lambda row: _ORDER.index(row.role))
        use = np.logical_and.reduce([row.known for row in group])
        if detectors and use.any():
            out.append(_compared(group, use, images.cluster[use], people, interval))
    return tuple(out)


def _same_seed(a: BackboneAnswers, b: BackboneAnswers) -> bool:
    first, second = (one.model.rpartition("~")[2] if "~" in one.model else "" for one in (a, b))
    return not (first and second) or first == second


def _compared(
    group: Sequence[BackboneAnswers], use: Bools, cluster: Ints, people: PeopleResults | None, interval: Interval
) -> SharedBackbone:
    right = [row.right[use] for row in group]
    detector = next(place for place, row in enumerate(group) if row.role == "detector")
    over = _differences([one for place, one in enumerate(right) if place], right[0], cluster, sign=1)
    others = [index for index, row in enumerate(group) if row.role != "detector"]
    against = _differences([right[place] for place in others], right[detector], cluster, sign=-1)
    below = dict(zip(others, against, strict=True))
    rows = tuple(
        BackboneRow(
            role=row.role,
            model=row.model,
            accuracy=proportion(right[place], cluster, interval=interval),
            over_classifier=over[place - 1] if place else None,
            below_detector=below.get(place),
            below_people=_below_people(people, row),
        )
        for place, row in enumerate(group)
    )
    seen = [score for score in (people.scores if people else ()) if (score.variant, score.condition) == ("anchor", "")]
    return SharedBackbone(
        backbone=group[0].backbone, n=int(use.sum()), rows=rows, people=seen[0].accuracy if seen else None
    )


def _differences(rights: Sequence[Bools], other: Bools, cluster: Ints, *, sign: int) -> list[Estimate]:
    """Return the paired differences from one row, with Holm's correction over all of them."""
    gaps = [sign * (right.astype(np.int64) - other.astype(np.int64)) for right in rights]
    p = [paired_test(gap, cluster).p for gap in gaps]
    return [
        paired_difference(gap, cluster, p=raw, p_holm=corrected, pairs=len(gaps))
        for gap, raw, corrected in zip(gaps, p, holm(p), strict=True)
    ]


def _below_people(people: PeopleResults | None, row: BackboneAnswers) -> Estimate | None:
    for score in people.scores if people else ():
        if score.variant == row.variant:
            return next((model.difference for model in score.models if model.model == row.model), None)
    return None
