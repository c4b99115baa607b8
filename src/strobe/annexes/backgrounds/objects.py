"""The sources of a ladder's boxes and masks, and the resulting object of every image."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from strobe.annexes.backgrounds.masks import bounds_of, decoded_mask, mask_bytes
from strobe.annexes.backgrounds.object_files import mask_files, read_boxes
from strobe.annexes.backgrounds.sets import AnchorObject
from strobe.core.crops import object_of
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidFile, InvalidValue, ModelFailed, StrobeError, printable
from strobe.core.files import inside, refuse_links, sha256_of_file, write_bytes
from strobe.core.ports import Progress
from strobe.core.records import Box
from strobe.core.true_boxes import are_shares
from strobe.vary.pictures import AnchorImage, anchors_of

LEAST_PIXELS = 16
"""The smallest number of pixels of a mask. Smaller masks count as empty."""

Corners = tuple[float, float, float, float]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectBoxes:
    """The box of an image's object and the box around all objects of its classes, or why they are missing."""

    xyxy: Corners | None = None
    around: Corners | None = None
    why: str = ""


class BoxSource(Protocol):
    """Boxes of images: their origin (`true` or `estimated:MODEL`), identifying facts, and the boxes."""

    @property
    def who(self) -> str:
        """The origin of the boxes."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts that change whenever the boxes change."""

    def boxes(self, pictures: Mapping[int, AnchorImage], say: Progress) -> Mapping[int, ObjectBoxes]:
        """Return the box of every image, by row."""


class MaskSource(Protocol):
    """Masks of images: their origin, the facts that identify them, and the mask of each image."""

    @property
    def who(self) -> str:
        """The origin of the masks."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts that change whenever the masks change."""

    def name(self, row: int) -> str:
        """Return a text that, together with the image, identifies its mask. The text is empty without a mask."""

    def mask(self, row: int, size_wh: tuple[int, int]) -> Mask:
        """Return the mask of an image. Raise StrobeError if it is missing."""


# -- boxes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBoxes:
    """The dataset's own boxes. For each image, the largest box of its class is used."""

    dataset: Dataset
    who: str = "true"
    facts: Mapping[str, Any] = field(default_factory=dict)

    def boxes(self, pictures: Mapping[int, AnchorImage], say: Progress) -> dict[int, ObjectBoxes]:  # noqa: ARG002 (part of the protocol)
        """Return the box of every image, by row."""
        labels, names, boxes_of_frame = (
            self.dataset.labels.by_frame(),
            self.dataset.info.label_space.names,
            _places(self.dataset),
        )
        boxes_of_row = {}
        for row in pictures:
            own = labels.get(row, [])
            records = [box for box in _records(self.dataset, boxes_of_frame.get(row, [])) if box.label in own]
            best = object_of(records, own)
            if best is None:
                said = " or ".join(printable(names[label]) for label in own) or "its class"
                boxes_of_row[row] = ObjectBoxes(
                    why=f"it has no box of {said}" if boxes_of_frame.get(row) else "it has no box"
                )
            else:
                boxes_of_row[row] = ObjectBoxes(xyxy=best.xyxy, around=_around([box.xyxy for box in records]))
        return boxes_of_row


def _places(dataset: Dataset) -> dict[int, list[int]]:
    """Return the rows of the table of boxes by frame."""
    found: dict[int, list[int]] = {}
    for index, frame in enumerate(dataset.boxes.frame.tolist() if dataset.boxes is not None else ()):
        found.setdefault(frame, []).append(index)
    return found


def _records(dataset: Dataset, places: Sequence[int]) -> list[Box]:
    """Return boxes as records, without boxes of zero area."""
    boxes = dataset.boxes
    if boxes is None:
        return []
    records = []
    for place in places:
        x0, y0, x1, y1 = boxes.xyxy[place].tolist()
        if np.isfinite((x0, y0, x1, y1)).all() and x1 > x0 and y1 > y0:
            label, track = int(boxes.label[place]), int(boxes.track[place])
            records.append(Box(xyxy=(x0, y0, x1, y1), label=label, track=track, crowd=bool(boxes.crowd[place])))
    return records


def truth_digest(dataset: Dataset) -> str:
    """Return a digest of the anchors' labels and boxes, on which a ladder depends in addition to images and masks."""
    ids, labels, places = dataset.frame_ids(), dataset.labels.by_frame(), _places(dataset)
    names = dataset.info.label_space.ids
    lines = [
        json.dumps(
            [
                ids[row],
                sorted(names[label] for label in labels.get(row, ())),
                [[names[box.label], box.xyxy, box.track, box.crowd] for box in _records(dataset, places.get(row, []))],
            ]
        )
        for row in anchors_of(dataset)
    ]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _around(boxes: Sequence[Corners]) -> Corners:
    corners = np.array(boxes)
    x0, y0 = corners[:, :2].min(axis=0).tolist()
    x1, y1 = corners[:, 2:].max(axis=0).tolist()
    return x0, y0, x1, y1


class FileBoxes:
    """Boxes from a file, one per image."""

    who = "true"

    def __init__(self, path: Path, dataset: Dataset, say: Progress) -> None:
        keys = {row: str(dataset.frames.key[row]) for row in anchors_of(dataset)}
        boxes_by_key, elsewhere = read_boxes(path, list(keys.values()))
        if elsewhere:
            said = "box is" if elsewhere == 1 else "boxes are"
            say.note(f"{printable(path)}: {elsewhere} {said} skipped: no such anchor in {printable(dataset.name)}")
        self._boxes = {row: boxes_by_key[key] for row, key in keys.items() if key in boxes_by_key}
        rows, frames = list(self._boxes), dataset.frames
        wh = np.stack([frames.width[rows], frames.height[rows]], axis=1).astype(np.float64)
        if are_shares(np.array(list(self._boxes.values())), wh).all():
            raise InvalidFile(
                path,
                f"all {len(rows)} boxes end within a pixel of the top left corner; they look like shares of the image",
                hint="convert them to pixels: multiply x by the width and y by the height",
            )
        self.facts = {"boxes_file": sha256_of_file(path)}

    def boxes(self, pictures: Mapping[int, AnchorImage], say: Progress) -> dict[int, ObjectBoxes]:  # noqa: ARG002 (part of the protocol)
        """Return the box of every image, by row."""
        none = ObjectBoxes(why="it has no box in the file")
        return {row: ObjectBoxes(xyxy=box) if (box := self._boxes.get(row)) else none for row in pictures}


# -- masks -------------------------------------------------------------------------------------------------------


class FolderMasks:
    """Masks from a folder, one PNG per image. In masks that strobe wrote, pixel values are object numbers."""

    who = "true"

    def __init__(self, folder: Path, dataset: Dataset) -> None:
        keys = {row: str(dataset.frames.key[row]) for row in anchors_of(dataset)}
        boxes_by_key = mask_files(folder, list(keys.values()))
        self._folder = folder
        self._files = {row: boxes_by_key[key] for row, key in keys.items() if key in boxes_by_key}
        self._digests = {row: sha256_of_file(path) for row, path in self._files.items()}
        self._own = _numbers(folder, dataset)
        lines = sorted(f"{keys[row]} {digest}\n" for row, digest in self._digests.items())
        self.facts = {"masks_files": hashlib.sha256("".join(lines).encode()).hexdigest()}

    def name(self, row: int) -> str:
        """Return the file's digest and the numbers of the image's objects in it."""
        own = "" if self._own is None else sorted(self._own.get(row, ()))
        return f"{self._digests[row]} {own}" if row in self._files else ""

    def mask(self, row: int, size_wh: tuple[int, int]) -> Mask:
        """Return the mask of an image."""
        if row not in self._files:
            raise StrobeError("it has no mask")
        path = self._files[row]
        own = None if self._own is None else self._own.get(row, frozenset())
        return decoded_mask(path.read_bytes(), path.relative_to(self._folder), size_wh, own=own)


def own_masks(dataset: Dataset) -> Path | None:
    """Return the folder of masks that `strobe synthesize` or `simulate` wrote next to the frames, if there is one."""
    made = dataset.info.provenance.get("made_by") in ("strobe synthesize", "strobe simulate")
    if not made or dataset.root is None or not (folder := inside(dataset.root, "masks")).is_dir():
        return None
    refuse_links(dataset.root, ("masks",))
    return folder


def _numbers(folder: Path, dataset: Dataset) -> dict[int, frozenset[int]] | None:
    """Return the numbers of each image's own objects in numbered masks, or None for masks of 0 and 255.

    In a rendered world, an object's number is its track plus one. Under a simulated camera, every object in the mask
    belongs to the photo.
    """
    own = own_masks(dataset)
    if own is None or folder.resolve() != own.resolve():
        return None
    if dataset.info.provenance["made_by"] == "strobe simulate":
        return dict.fromkeys(anchors_of(dataset), frozenset(range(1, 256)))
    labels = dataset.labels.by_frame()
    return {
        row: frozenset(box.track + 1 for box in _records(dataset, places) if box.label in labels.get(row, ()))
        for row, places in _places(dataset).items()
    }


# -- objects -----------------------------------------------------------------------------------------------------


def things_of(
    pictures: Mapping[int, AnchorImage],
    destination: Path,
    boxes: BoxSource | None,
    masks: MaskSource | None,
    say: Progress,
) -> dict[int, AnchorObject]:
    """Return the facts about every image's object, and store masks in the folder.

    Without `boxes`, boxes are computed from the masks.
    """
    boxes_of_row = boxes.boxes(pictures, say) if boxes is not None else {}
    things: dict[int, AnchorObject] = {}
    with say.task("masks", len(pictures) if masks is not None else 0) as advance:
        for row, picture in pictures.items():
            box, mask, file, why = boxes_of_row.get(row), None, None, "there are no masks"
            if masks is not None:
                try:
                    mask, file = _stored(row, picture, destination, masks)
                except ModelFailed:
                    raise  # if the net cannot run, the error is not about this image
                except StrobeError as error:
                    why = str(error)
                advance(1)
            own: Corners | None = None if mask is None else _floats(bounds_of(mask))
            xyxy = box.xyxy if box is not None else own
            things[row] = AnchorObject(
                xyxy=xyxy,
                around=_around([one for one in (xyxy, own, box.around if box else None) if one]) if xyxy else None,
                mask=file,
                mask_share=None if mask is None else float(mask.mean()),
                why_no_box=box.why if box is not None else why,
                why_no_mask=why,
            )
    return things


def _floats(box: Sequence[int]) -> Corners:
    x0, y0, x1, y1 = map(float, box)
    return x0, y0, x1, y1


def _stored(row: int, picture: AnchorImage, destination: Path, masks: MaskSource) -> tuple[Mask, tuple[str, str]]:
    """Return the mask, its file in the folder and the file's digest. An existing file is read."""
    name = hashlib.sha256(f"{picture.media} {picture.sha256} {masks.name(row)}".encode()).hexdigest()[:16]
    file = f"masks/{name}.png"
    path = destination / file
    if path.is_file():
        content = path.read_bytes()
        mask = decoded_mask(content, Path(file), picture.size_wh)
    else:
        mask = masks.mask(row, picture.size_wh)
        content = mask_bytes(mask)
    n_pixels = int(mask.sum())
    if n_pixels < LEAST_PIXELS:
        raise InvalidValue(
            "its mask is empty"
            if not n_pixels
            else f"its mask has only {n_pixels} pixels, expected at least {LEAST_PIXELS}"
        )
    if n_pixels == mask.size:
        raise InvalidValue("its mask covers the whole image")
    if not path.is_file():
        write_bytes(path, content)
    return mask, (file, hashlib.sha256(content).hexdigest())
