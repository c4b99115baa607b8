"""Strips: an image, its findings from coarse to fine, the difference, and the path from the image to each finding."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.generators.study.words import GranularityView, size_text
from strobe.core.answers import Answers, ClassAnswers
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError, printable
from strobe.core.ports import FrameSource, Image
from strobe.report.gallery import data_uri

MOST_STRIPS = 8
"""The most images on the page."""

LOSSLESS_PX = 32
"""Larger images are compressed with loss. Without this, eight images of 64 pixels took ten megabytes of a page."""

BETWEEN = "between"


def build_strips(
    dataset: Dataset, found: GranularityView, source: FrameSource | None, answers: Mapping[str, Answers]
) -> dict[str, Any] | None:
    """Return the input of the page's script: the images, and a film that ends at the finding for each target and
    granularity.

    `dataset` is the full dataset, including the sets for viewing only. Return None if no images are available.
    """
    if source is None or dataset.variants is None:
        return None
    sets, names = dataset.sets, dataset.variants.variant
    place = {fact.variant: key for key, fact in found.facts.items()}
    way = {str(sets.set_id[row]): row for row in range(len(sets))}
    by_group: dict[str, list[int]] = {}
    for row in np.flatnonzero(np.isin(names[sets.variant], list(place))).tolist():
        by_group.setdefault(str(sets.group[row]), []).append(row)
    models = {name: answer for name, answer in answers.items() if isinstance(answer, ClassAnswers)}
    told = [group for group, rows in by_group.items() if any(_way(dataset, way, row) is not None for row in rows)]
    chosen = _one_of_each(dataset, by_group, told or list(by_group))
    pictures = []
    try:
        for group in chosen:
            made = _picture(dataset, found, source, by_group[group], way, models, place)
            if made is not None:
                pictures.append(made)
    except StrobeError:  # an image is missing: the gallery reports which and why
        return None
    if not pictures:
        return None
    return {
        "granularities": [printable(name) for name in found.granularities],
        "targets": [printable(name) for name in found.targets],
        "models": [printable(name) for name in models],
        "classes": [printable(name) for name in dataset.info.label_space.names],
        "pictures": pictures,
    }


def _one_of_each(dataset: Dataset, by_group: Mapping[str, Sequence[int]], groups: Sequence[str]) -> list[str]:
    """Return groups of different classes as far as possible."""
    queues: dict[tuple[int, ...], list[str]] = {}
    for group in groups:
        queues.setdefault(dataset.labels_of(int(dataset.sets.anchor_frame[by_group[group][0]])), []).append(group)
    out: list[str] = []
    while len(out) < MOST_STRIPS and any(queues.values()):
        out += [queue.pop(0) for queue in queues.values() if queue]
    return out[:MOST_STRIPS]


def _way(dataset: Dataset, sets_by_id: Mapping[str, int], row: int) -> int | None:
    """Return the set of images on the path to a search's finding, if the dataset has it."""
    return sets_by_id.get(f"{dataset.sets.set_id[row]}/{BETWEEN}")


def _picture(
    dataset: Dataset,
    found: GranularityView,
    source: FrameSource,
    rows: Sequence[int],
    sets_by_id: Mapping[str, int],
    models: Mapping[str, ClassAnswers],
    place: Mapping[str, tuple[str, str]],
) -> dict[str, Any] | None:
    sets, variants = dataset.sets, dataset.variants
    anchor = int(sets.anchor_frame[rows[0]])
    first = source.read(anchor)
    strips = []
    for row in rows:
        if variants is None or sets.status[row] not in ("found", "censored", "failed"):
            continue
        key = place[str(variants.variant[sets.variant[row]])]
        one: dict[str, Any] = {"g": found.granularities.index(key[0]), "t": found.targets.index(key[1])}
        if sets.status[row] == "failed":
            strips.append(one)
            continue
        reach = float(sets.reach[row])
        one |= {"m": size_text(reach), **({"r": size_text(reach / found.scale(key))} if found.scale(key) != 1 else {})}
        if sets.status[row] == "found":
            frames = [anchor, *_members(dataset, _way(dataset, sets_by_id, row)), *_members(dataset, row)]
            images = [first, *(source.read(frame) for frame in frames[1:])]
            if any(image.shape != first.shape for image in images):
                continue
            change = images[-1].astype(np.float32) - first
            one |= {"film": _data(np.concatenate(images, axis=1)), "n": len(images), "diff": _data(_stretched(change))}
            one["says"] = [[_said(answer, frame) for answer in models.values()] for frame in frames]
        strips.append(one)
    if not any("film" in strip for strip in strips):
        return None
    labels = dataset.labels_of(anchor)
    name = " / ".join(printable(dataset.info.label_space.names[label]) for label in labels)
    return {
        "name": name,
        "y": list(labels),
        "image": _data(first),
        "wh": [first.shape[1], first.shape[0]],
        "says": [_said(answer, anchor) for answer in models.values()],
        "strips": strips,
    }


def _members(dataset: Dataset, row: int | None) -> list[int]:
    """Return the frames of a set except its anchor, nearest first."""
    if row is None:
        return []
    sets = dataset.sets
    start, stop = np.searchsorted(sets.set, [row, row + 1]).tolist()
    order = np.argsort(sets.distance[start:stop], kind="stable") + start
    return [int(sets.frame[one]) for one in order if not sets.is_anchor[one]]


def _said(answer: ClassAnswers, frame: int) -> list[float] | None:
    """Return a model's class for a frame and its confidence, or None if it has no answer."""
    if not answer.scored[frame]:
        return None
    sure = float(answer.confidence[frame])
    return [int(answer.label[frame]), round(sure, 3) if np.isfinite(sure) else -1]


def _stretched(change: NDArray[np.float32]) -> Image:
    """Return a difference around middle grey, scaled so that its largest value is black or white."""
    most = float(np.abs(change).max())
    return np.asarray(np.clip(np.rint(128 + change * (127 / most if most else 0.0)), 0, 255), dtype=np.uint8)


def _data(image: Image) -> str:
    """Return a small image as a data URI.

    If the file stays small, the image is lossless, because fine changes must be visible.
    """
    from PIL import Image as Pictures

    return data_uri(Pictures.fromarray(image), quality=90, lossless=len(image) <= LOSSLESS_PX)
