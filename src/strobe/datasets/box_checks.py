"""Check that boxes are what the file declares: corners or sizes, pixels or fractions, finite, and class numbering."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from strobe.core.arrays import Floats, are_pixels
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.labels import LabelSpace, space
from strobe.core.projections import projection_between
from strobe.datasets.detection_files import RawDetections
from strobe.metrics.detection.readings import FORMS, BoxSample, class_order, misread, named_objects

__all__ = ["check_boxes", "check_numbering"]

_MUCH = 0.25  # a fraction of boxes beyond the image that no detector produces
_LITTLE = 0.02
_SEVERAL = 0.05
_ENOUGH = 20
_CORNER = 1.5


def check_boxes(
    path: Path | str,
    raw: RawDetections,
    frame: NDArray[np.int64],
    dataset: Dataset,
    box_format: Literal["auto", "xyxy", "xywh", "cxcywh"],
    box_units: Literal["auto", "pixels", "normalised"],
) -> tuple[Floats, list[str]]:
    """Return the boxes as xyxy (N, 4), and notes about them.

    Refused are NaN, infinity, negative sizes, and boxes that only make sense in another format, order or scale, judged
    by image sizes or the dataset's own boxes. If both format and unit are given, they are accepted. As in pycocotools,
    boxes without area and boxes beyond the image are kept and counted. They can only be false positives.
    """
    bad = np.flatnonzero(~are_pixels(raw.box).all(axis=1))
    if len(bad):
        problem = f"{len(bad)} boxes with NaN or infinity, or numbers above 1e9"
        raise InvalidFile(path, problem, where=f"first {raw.where(int(bad[0]))}")
    box = _in_pixels(path, raw.box, frame, dataset, box_units)
    said = ("xywh" if raw.is_xywh else "xyxy") if box_format == "auto" else box_format
    xyxy = FORMS[said](box)
    sample = _sample(box, raw.score, frame, dataset)
    wrong = _mixed_up(box, said, sample, frame, dataset) if box_format == "auto" else None
    if wrong is not None:
        likely, why = wrong
        raise InvalidFile(
            path, f"boxes are read as {said}, but look like {likely}: {why}", hint=f"pass --box-format {likely}"
        )
    size = xyxy[:, 2:] - xyxy[:, :2]
    negative = np.flatnonzero((size < 0).any(axis=1))
    if len(negative):
        row = int(negative[0])
        raise InvalidFile(
            path,
            f"{len(negative)} of {len(box)} boxes have a negative width or height, e.g. {raw.box[row].tolist()}",
            where=f"first {raw.where(row)}",
            hint=f"they are read as {said}; an array of boxes is (N, 4)",
        )
    if "auto" in (box_format, box_units):
        _refuse_misread(path, sample, said)
    return xyxy, _notes(xyxy, size, frame, dataset)


def _refuse_misread(path: Path | str, sample: BoxSample, said: str) -> None:
    other = misread(sample, said)
    if other is not None:
        raise InvalidFile(
            path,
            f"boxes are read as {said} in pixels of the image, but fit the objects only when {other.text}: the median "
            f"overlap is {other.fit:.2f} then, {other.taken:.2f} as read",
            hint=f"write {said} in pixels of the dataset's images; where they are right as they are, pass "
            f"--box-format {said} and --box-units pixels",
        )


def _sample(box: Floats, score: Floats, frame: NDArray[np.int64], dataset: Dataset) -> BoxSample:
    """Return boxes on a sample of the frames with objects, with the first object of each."""
    true_xyxy, true_frame, _ = _objects(dataset)
    wh = np.stack([dataset.frames.width, dataset.frames.height], axis=1).astype(np.float64)
    return BoxSample.of(box, frame, score, true_xyxy, true_frame, wh)


def _objects(dataset: Dataset) -> tuple[Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Return the dataset's true boxes except crowds: corners, frames and classes."""
    boxes = dataset.boxes
    if boxes is None:
        return np.zeros((0, 4)), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    one = ~boxes.crowd
    return boxes.xyxy[one], boxes.frame[one].astype(np.int64), boxes.label[one].astype(np.int64)


def _in_pixels(path: Path | str, box: Floats, frame: NDArray[np.int64], dataset: Dataset, units: str) -> Floats:
    """Return the boxes' numbers in pixels. Undeclared fractions of the image are refused."""
    known, wh = _sizes(frame, dataset)
    if units == "normalised":
        if not known[frame >= 0].all():
            raise InvalidFile(path, "normalised boxes, but the dataset does not know the sizes of its images")
        return np.asarray(box * np.tile(np.maximum(wh, 1), 2))
    truth = dataset.boxes.xyxy if dataset.boxes is not None else np.zeros((0, 4))
    large = bool((wh[known] > 8).any()) or bool((truth > 8).any())
    if units == "auto" and len(box) and large and bool((np.abs(box) <= _CORNER).all()):
        raise InvalidFile(
            path,
            f"all {len(box)} boxes lie within {_CORNER} pixels of the corner: they look normalised, shares of the "
            "image's width and height",
            hint="pass --box-units normalised",
        )
    return box


def _sizes(frame: NDArray[np.int64], dataset: Dataset) -> tuple[NDArray[np.bool_], Floats]:
    """Return which boxes are on a frame of known size, and those frames' width and height (N, 2)."""
    place = np.maximum(frame, 0)
    wh = np.stack([dataset.frames.width[place], dataset.frames.height[place]], axis=1).astype(np.float64)
    return (frame >= 0) & (wh > 0).all(axis=1), wh


def _mixed_up(
    box: Floats, said: str, sample: BoxSample, frame: NDArray[np.int64], dataset: Dataset
) -> tuple[str, str] | None:
    """Return a format likelier than the declared one, and why. None if there is none."""
    if not len(box):
        return None
    known, wh = _sizes(frame, dataset)

    def look(form: str) -> tuple[float, float, float]:
        """Return the fractions of boxes inside out and beyond the image, and their overlap with the dataset's own."""
        xyxy = FORMS[form](box)
        inside_out = ((xyxy[:, 2:] - xyxy[:, :2]) < 0).any(axis=1).mean()
        margin = 0.02 * wh[known] + 1
        beyond = (xyxy[known, 2:] > wh[known] + margin) | (xyxy[known, :2] < -margin)
        share = float(beyond.any(axis=1).mean()) if known.any() else 0.0
        return float(inside_out), share, sample.fit(FORMS[form](sample.box))

    inside_out, beyond, fit = look(said)
    found: list[tuple[float, float, str, str]] = []
    for form in FORMS:
        other_inside_out, other_beyond, other_fit = look(form)
        if form == said or other_inside_out > 0:
            continue
        if inside_out > 0 and (other_fit > fit if sample.n_frames else inside_out > _SEVERAL):
            why = f"{round(inside_out * len(box))} of {len(box)} would have a negative size"
        elif beyond > _MUCH and other_beyond < _LITTLE:
            why = f"{beyond:.0%} of them would reach beyond the image"
        elif other_fit > 0.5 and fit < 0.75 * other_fit:
            why = f"they overlap the dataset's boxes by {fit:.2f} as read and by {other_fit:.2f} otherwise (median)"
        else:
            continue
        found.append((round(other_fit, 2), -other_beyond, form, why))
    return max(found)[2:] if found else None


def check_numbering(
    path: Path | str,
    xyxy: Floats,
    frame: NDArray[np.int64],
    raw: RawDetections,
    label: NDArray[np.int64],
    dataset: Dataset,
    taken: str,
) -> None:
    """Refuse classes in another order than assumed, judged by the boxes that match an object.

    `label` (N,) are the dataset's classes under the reading `taken`, −1 for none. Numbers are compared under every
    known reading. If each answer consistently matches another class, or hardly any matches its own, no figure would be
    meaningful.
    """
    true_xyxy, true_frame, true_label = _objects(dataset)
    use = np.flatnonzero(frame >= 0)
    boxes, objects = named_objects(xyxy[use], frame[use], raw.score[use], true_xyxy, true_frame)
    if len(boxes) < _ENOUGH:
        return
    rows, true = use[boxes], true_label[objects]
    found = class_order(raw.label[rows], label[rows], true)
    numbers = all(type(word) is int for word in raw.words) and raw.categories is None
    if numbers:
        word = np.array(raw.words, dtype=np.int64)[raw.label[rows]]
        readings = [(float((said == true).mean()), text, hint) for text, hint, said in _number_readings(word, dataset)]
        best = max((share for share, *_ in readings), default=0.0)
        if best > 0.5 and found.right < 0.5 * best:
            fitting = [(text, hint) for share, text, hint in readings if share > 0.95 * best]
            fitting = [one for one in fitting if "alphabet" not in one[0]] or fitting
            raise InvalidFile(
                path,
                f"class numbers look like {' or '.join(text for text, _ in fitting)}: of the boxes that fit an object "
                f"{best:.0%} name its class so, {found.right:.0%} as {taken}",
                hint=fitting[0][1] if len(fitting) == 1 else "give categories with id and name",
            )
    if found.is_other or (numbers and found.is_none):
        names = dataset.info.label_space.names
        stands = [f"{printable(raw.words[answer])} is mostly on {printable(names[one])}" for answer, one in found.means]
        many = f"of {found.n} objects that a box fits {found.right:.0%} are given their class"
        order = f"; by content {', '.join(stands[:3])}" if found.is_other else ", and no other reading fits"
        raise InvalidFile(
            path,
            f"its classes look like another order than {taken}: {many}{order}",
            hint="give categories with id and name, or each box the name of its class",
        )


def _number_readings(number: NDArray[np.int64], dataset: Dataset) -> Iterator[tuple[str, str, NDArray[np.int64]]]:
    """Yield readings of class numbers (N,): a description, a remedy, and the resulting dataset classes, −1 for none."""
    own = dataset.info.label_space
    count = "count classes from 0, or give categories with id and name"
    yield "the dataset's classes counted from 1", count, np.where((number >= 1) & (number <= len(own)), number - 1, -1)
    for name in ("coco-91", "coco-80", "voc", "open-images", "imagenet-vid", "youtube-bb"):
        if name == own.name:
            continue
        text = "COCO's category ids" if name == "coco-91" else f"{name}'s classes"
        hint = f"pass --box-space {name}, or give categories with id and name"
        yield text, hint, _in_space(space(name), own, number)
        if name != "coco-91":
            other = f"{count}; then pass --box-space {name}"
            yield (
                f"{text} counted from 1",
                other if name != own.name else count,
                _in_space(space(name), own, number - 1),
            )
    by_name = np.array(sorted(range(len(own)), key=lambda place: own.names[place]), dtype=np.int64)
    names = "give categories with id and name"
    for first, text in ((0, "the dataset's classes by alphabet"), (1, "the dataset's classes by alphabet, from 1")):
        place = number - first
        there = (place >= 0) & (place < len(own))
        yield text, names, np.where(there, by_name[np.clip(place, 0, len(own) - 1)], -1)


def _in_space(ids: LabelSpace, target: LabelSpace, number: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the dataset's class of each number, read as a position in another space, −1 if none."""
    try:
        found = projection_between(ids, target).map_labels(np.clip(number, 0, len(ids) - 1))
    except StrobeError:  # it shares no classes
        return np.full(len(number), -1)
    return np.where((number >= 0) & (number < len(ids)), found, -1)


def _notes(xyxy: Floats, size: Floats, frame: NDArray[np.int64], dataset: Dataset) -> list[str]:
    notes = []
    flat = int((size == 0).any(axis=1).sum())
    if flat:
        notes.append(f"{flat} boxes without area: kept, as false positives")
    known, wh = _sizes(frame, dataset)
    outside = known & ((xyxy[:, :2] >= wh) | (xyxy[:, 2:] <= 0)).any(axis=1)
    if outside.any():
        notes.append(f"{int(outside.sum())} boxes wholly outside their image: kept, as false positives")
    return notes
