"""Check boxes against their file's declaration: corners or sizes, pixels or fractions, class numbering. Refuse NaN."""

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
from strobe.formats.prediction_files import RawDetections
from strobe.metrics.detection.readings import FORMS, BoxSample, class_order, misread, named_objects

_MUCH = 0.25  # a detector's boxes rarely extend beyond the image: the share that do is smaller than this
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

    NaN, infinity and negative sizes are refused. Boxes that are plausible only in another format, order or scale are
    refused too, unless the caller gives both format and unit. The sizes of the images, or the dataset's own boxes, show
    which format fits. As in pycocotools, boxes without area and boxes outside the image are kept. They can only be
    false positives.
    """
    bad = np.flatnonzero(~are_pixels(raw.box).all(axis=1))
    if len(bad):
        problem = f"{len(bad)} boxes contain NaN or infinity, or numbers above 1e9"
        raise InvalidFile(path, problem, where=f"first {raw.where(int(bad[0]))}")
    box = _in_pixels(path, raw.box, frame, dataset, box_units)
    form = ("xywh" if raw.is_xywh else "xyxy") if box_format == "auto" else box_format
    xyxy = FORMS[form](box)
    sample = _sample(box, raw.score, frame, dataset)
    wrong = _mixed_up(box, form, sample, frame, dataset) if box_format == "auto" else None
    if wrong is not None:
        likely, why = wrong
        raise InvalidFile(
            path,
            f"strobe reads the boxes as {form}, but they look like {likely}: {why}",
            hint=f"pass <<box_format={likely}>>",
        )
    size = xyxy[:, 2:] - xyxy[:, :2]
    negative = np.flatnonzero((size < 0).any(axis=1))
    if len(negative):
        row = int(negative[0])
        raise InvalidFile(
            path,
            f"{len(negative)} of {len(box)} boxes have a negative width or height, e.g. {raw.box[row].tolist()}",
            where=f"first {raw.where(row)}",
            hint=f"strobe reads them as {form}; an array of boxes has the shape (N, 4)",
        )
    if "auto" in (box_format, box_units):
        _refuse_misread(path, sample, form)
    return xyxy, _notes(xyxy, size, frame, dataset)


def _refuse_misread(path: Path | str, sample: BoxSample, form: str) -> None:
    other = misread(sample, form)
    if other is not None:
        raise InvalidFile(
            path,
            f"strobe reads the boxes as {form} in pixels of the image, but they match the objects only when "
            f"{other.text}: then the median overlap is {other.fit:.2f} instead of {other.taken:.2f}",
            hint=f"write {form} in pixels of the dataset's images; if the boxes are correct, pass "
            f"<<box_format={form}>> and <<box_units=pixels>>",
        )


def _sample(box: Floats, score: Floats, frame: NDArray[np.int64], dataset: Dataset) -> BoxSample:
    """Return boxes on a sample of the frames with objects, together with each frame's first object."""
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
            raise InvalidFile(path, "the boxes are normalised, but the dataset has no image sizes")
        return np.asarray(box * np.tile(np.maximum(wh, 1), 2))
    truth = dataset.boxes.xyxy if dataset.boxes is not None else np.zeros((0, 4))
    large = bool((wh[known] > 8).any()) or bool((truth > 8).any())
    if units == "auto" and len(box) and large and bool((np.abs(box) <= _CORNER).all()):
        raise InvalidFile(
            path,
            f"all {len(box)} boxes are within {_CORNER} pixels of the corner; they look like fractions of the image's "
            "width and height",
            hint="pass <<box_units=normalised>>",
        )
    return box


def _sizes(frame: NDArray[np.int64], dataset: Dataset) -> tuple[NDArray[np.bool_], Floats]:
    """Return a mask of the boxes on frames of known size, and the width and height of their frames (N, 2)."""
    place = np.maximum(frame, 0)
    wh = np.stack([dataset.frames.width[place], dataset.frames.height[place]], axis=1).astype(np.float64)
    return (frame >= 0) & (wh > 0).all(axis=1), wh


def _mixed_up(
    box: Floats, assumed: str, sample: BoxSample, frame: NDArray[np.int64], dataset: Dataset
) -> tuple[str, str] | None:
    """Return a format that is more likely than the declared one, with the reason, or None."""
    if not len(box):
        return None
    known, wh = _sizes(frame, dataset)

    def look(form: str) -> tuple[float, float, float]:
        """Return the share of boxes of negative size, the share beyond the image, and the overlap with true boxes."""
        xyxy = FORMS[form](box)
        inside_out = ((xyxy[:, 2:] - xyxy[:, :2]) < 0).any(axis=1).mean()
        margin = 0.02 * wh[known] + 1
        beyond = (xyxy[known, 2:] > wh[known] + margin) | (xyxy[known, :2] < -margin)
        share = float(beyond.any(axis=1).mean()) if known.any() else 0.0
        return float(inside_out), share, sample.fit(FORMS[form](sample.box))

    inside_out, beyond, fit = look(assumed)
    likelier: list[tuple[float, float, str, str]] = []
    for form in FORMS:
        other_inside_out, other_beyond, other_fit = look(form)
        if form == assumed or other_inside_out > 0:
            continue
        if inside_out > 0 and (other_fit > fit if sample.n_frames else inside_out > _SEVERAL):
            why = f"{round(inside_out * len(box))} of {len(box)} would have a negative size"
        elif beyond > _MUCH and other_beyond < _LITTLE:
            why = f"{beyond:.0%} of them would extend beyond the image"
        elif other_fit > 0.5 and fit < 0.75 * other_fit:
            why = f"their median overlap with the dataset's boxes is {fit:.2f} as read and {other_fit:.2f} otherwise"
        else:
            continue
        likelier.append((round(other_fit, 2), -other_beyond, form, why))
    return max(likelier)[2:] if likelier else None


def check_numbering(
    path: Path | str,
    xyxy: Floats,
    frame: NDArray[np.int64],
    raw: RawDetections,
    label: NDArray[np.int64],
    dataset: Dataset,
    taken: str,
) -> None:
    """Refuse classes if the boxes that match an object show that the classes are in an unexpected order.

    `label` (N,) holds the dataset's class of each box if the box's number is read as `taken`, or −1 if there is no
    class. Every other known reading of the numbers is compared with it. The classes are refused if each answer
    consistently matches another class, or if hardly any answer matches its own class.
    """
    true_xyxy, true_frame, true_label = _objects(dataset)
    use = np.flatnonzero(frame >= 0)
    boxes, objects = named_objects(xyxy[use], frame[use], raw.score[use], true_xyxy, true_frame)
    if len(boxes) < _ENOUGH:
        return
    rows, true = use[boxes], true_label[objects]
    order_found = class_order(raw.label[rows], label[rows], true)
    numbers = all(type(word) is int for word in raw.words) and raw.categories is None
    if numbers:
        # A number may exceed 64 bits. It is in no known numbering, like −1 and 2³¹.
        word = np.array([min(max(one, -1), 1 << 31) for one in raw.words], dtype=np.int64)[raw.label[rows]]
        readings = [(float((said == true).mean()), text, hint) for text, hint, said in _number_readings(word, dataset)]
        best = max((share for share, *_ in readings), default=0.0)
        if best > 0.5 and order_found.right < 0.5 * best:
            fitting = [(text, hint) for share, text, hint in readings if share > 0.95 * best]
            fitting = [one for one in fitting if "alphabet" not in one[0]] or fitting
            raise InvalidFile(
                path,
                f"class numbers look like {' or '.join(text for text, _ in fitting)}: read that way, {best:.0%} of "
                f"the boxes that match an object have its class, instead of {order_found.right:.0%} as {taken}",
                hint=fitting[0][1] if len(fitting) == 1 else "give categories with id and name",
            )
    if order_found.is_other or (numbers and order_found.is_none):
        names = dataset.info.label_space.names
        stands = [
            f"{printable(raw.words[answer])} is mostly on {printable(names[one])}" for answer, one in order_found.means
        ]
        share_right = f"a matching box has the right class on {order_found.right:.0%} of {order_found.n} objects"
        order = f"; {', '.join(stands[:3])}" if order_found.is_other else ", and no other known numbering fits"
        raise InvalidFile(
            path,
            f"the classes seem to be in a different order from {taken}: {share_right}{order}",
            hint="give categories with id and name, or the class name of each box",
        )


def _number_readings(number: NDArray[np.int64], dataset: Dataset) -> Iterator[tuple[str, str, NDArray[np.int64]]]:
    """Yield other readings of class numbers (N,): a description, a remedy, and the dataset's classes (−1 if none)."""
    own = dataset.info.label_space
    count = "count classes from 0, or give categories with id and name"
    yield "the dataset's classes counted from 1", count, np.where((number >= 1) & (number <= len(own)), number - 1, -1)
    for name in ("coco-91", "coco-80", "voc", "open-images", "imagenet-vid", "youtube-bb"):
        if name == own.name:
            continue
        text = "COCO's category ids" if name == "coco-91" else f"{name}'s classes"
        hint = f"pass <<box_space={name}>>, or give categories with id and name"
        yield text, hint, _in_space(space(name), own, number)
        if name != "coco-91":
            other = f"{count}; then pass <<box_space={name}>>"
            yield (
                f"{text} counted from 1",
                other if name != own.name else count,
                _in_space(space(name), own, number - 1),
            )
    by_name = np.array(sorted(range(len(own)), key=lambda place: own.names[place]), dtype=np.int64)
    names = "give categories with id and name"
    for first, text in (
        (0, "the dataset's classes in alphabetical order"),
        (1, "the dataset's classes in alphabetical order, from 1"),
    ):
        place = number - first
        there = (place >= 0) & (place < len(own))
        yield text, names, np.where(there, by_name[np.clip(place, 0, len(own) - 1)], -1)


def _in_space(ids: LabelSpace, target: LabelSpace, number: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the dataset's class of each number if it is a position in another space, or −1 if there is no class."""
    try:
        found = projection_between(ids, target).map_labels(np.clip(number, 0, len(ids) - 1))
    except StrobeError:  # the two spaces share no classes
        return np.full(len(number), -1)
    return np.where((number >= 0) & (number < len(ids)), found, -1)


def _notes(xyxy: Floats, size: Floats, frame: NDArray[np.int64], dataset: Dataset) -> list[str]:
    notes = []
    flat = int((size == 0).any(axis=1).sum())
    if flat:
        notes.append(f"{flat} boxes have no area; they are kept and count as false positives")
    known, wh = _sizes(frame, dataset)
    outside = known & ((xyxy[:, :2] >= wh) | (xyxy[:, 2:] <= 0)).any(axis=1)
    if outside.any():
        notes.append(
            f"{int(outside.sum())} boxes are entirely outside their image; they are kept and count as false positives"
        )
    return notes
