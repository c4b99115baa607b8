"""Find the photos for the simulated camera, with their labels, boxes and masks."""

import csv
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from strobe.build.video_files import VIDEO_SUFFIXES
from strobe.core.builder import written
from strobe.core.errors import InvalidFile, StrobeError, expect, in_file, printable
from strobe.core.files import read_json, reading
from strobe.core.labels import LabelSpace, space
from strobe.core.records import Box
from strobe.core.true_boxes import fit_boxes

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm", ".pgm")
"""Files with these suffixes count as photos in a folder. A file named explicitly is tried with any suffix."""

_ORIENTATION = 0x0112


@dataclass(frozen=True, slots=True, kw_only=True)
class Photo:
    """A still image: its name in the dataset, labels (positions in the label space), boxes in pixels, and mask."""

    path: Path
    name: str
    labels: tuple[int, ...]
    boxes: tuple[Box, ...] = ()
    size_wh: tuple[int, int] = (0, 0)
    """The size given in the boxes file, or (0, 0) if it gives none."""
    mask: Path | None = None

    def __post_init__(self) -> None:
        expect(bool(self.labels), "Photo.labels", "at least one", self.name)


@dataclass(slots=True)
class _CsvRows:
    """Text rows of a CSV by photo, with line numbers for messages."""

    path: Path
    by_photo: dict[str, list[tuple[int, dict[str, str]]]] = field(default_factory=dict)
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The sizes of the photos, as given in the file."""
    is_selection: bool = False
    """Whether photos that the file does not list are left out."""


def find_photos(
    sources: Sequence[Path],
    *,
    labels: Path | Mapping[str, Sequence[str]] | None = None,
    label: Sequence[str] = (),
    boxes: Path | None = None,
    masks: Path | None = None,
    label_space: str | None = None,
) -> tuple[list[Photo], LabelSpace]:
    """Return every photo under the sources, sorted by name, and their label space.

    Labels come from a CSV (`file,label`, several rows for several right answers) or a mapping by name. Otherwise they
    come from the boxes (CSV `file,label,x0,y0,x1,y1` and, optionally, `track`; COCO JSON; or ILSVRC's
    `LOC_…_solution.csv`, which leaves out photos without a box). Otherwise `label` gives the classes of every photo.
    Otherwise the label is the photo's folder below the source. `masks` is a folder of PNG files named like the photos,
    whose pixels give the number of the object, from 1. Photos without a mask are allowed. `label_space` names a shipped
    space. Without a named space, the labels found make up a new space, in alphabetical order.
    """
    files = photo_files(sources)
    given = labels if isinstance(labels, Mapping) else {}
    label_rows = _read_rows(labels, ("file", "label"), files) if isinstance(labels, Path) else None
    box_rows = _read_box_rows(boxes, files) if boxes else None
    if box_rows and box_rows.is_selection:
        files = {name: path for name, path in files.items() if name in box_rows.by_photo}
    named = {
        name: given.get(name) or _label_names(name, path, label_rows, box_rows, label) for name, path in files.items()
    }
    masked = _masks_of(files, masks) if masks else {}
    found = {label for group in named.values() for label in group}
    if box_rows:
        found |= {row["label"] for rows in box_rows.by_photo.values() for _, row in rows}
    chosen = space(label_space) if label_space else LabelSpace.of_names("photos", sorted(found))
    photos = [
        Photo(
            path=path,
            name=name,
            labels=tuple(sorted({chosen.index(label) for label in named[name]})),
            boxes=tuple(_boxes_of(name, box_rows, chosen)) if box_rows else (),
            size_wh=box_rows.sizes.get(name, (0, 0)) if box_rows else (0, 0),
            mask=masked.get(name),
        )
        for name, path in sorted(files.items())
    ]
    return photos, chosen


def fitted_photos(photos: Sequence[Photo], boxes: Path) -> tuple[list[Photo], tuple[str, ...]]:
    """Return the photos with boxes checked against image sizes, and notes about scaled, clipped or dropped boxes."""
    owner = [index for index, photo in enumerate(photos) for _ in photo.boxes]
    sizes = {photo: upright_size(photos[photo].path) for photo in dict.fromkeys(owner)}
    with in_file(boxes):
        fitted = fit_boxes(
            np.array([box.xyxy for photo in photos for box in photo.boxes], dtype=np.float64).reshape(-1, 4),
            real_wh=np.array([sizes[place] for place in owner], dtype=np.float64).reshape(-1, 2),
            declared_wh=np.array([photos[place].size_wh for place in owner], dtype=np.float64).reshape(-1, 2),
            source=np.zeros(len(owner), dtype=np.int64),
            name=lambda row: printable(photos[owner[row]].name),
        )
    rows = iter(zip(fitted.xyxy.tolist(), fitted.keep.tolist(), strict=True))
    out = []
    for photo in photos:
        kept = [(box, xyxy) for box in photo.boxes for xyxy, keep in [next(rows)] if keep]
        out.append(replace(photo, boxes=tuple(replace(box, xyxy=(x0, y0, x1, y1)) for box, (x0, y0, x1, y1) in kept)))
    return out, fitted.notes


def upright_size(path: Path) -> tuple[int, int]:
    """Return a photo's upright width and height, or (0, 0) if it is unreadable. Rendering reports the error."""
    from PIL import Image as Pillow

    try:
        with warnings.catch_warnings(action="ignore"), Pillow.open(path) as picture:
            width, height = picture.size
            sideways = picture.getexif().get(_ORIENTATION) in (5, 6, 7, 8)
    except Exception:  # damaged in one of many ways
        return 0, 0
    return (height, width) if sideways else (width, height)


def photo_files(sources: Sequence[Path]) -> dict[str, Path]:
    """Return the photos among the sources, by their name in the dataset."""
    photos: dict[str, Path] = {}
    for source in sources:
        if source.is_dir():
            inside = sorted(path for path in source.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
            if not inside:
                raise StrobeError(f"{printable(source)}: it contains no photos (looked for {', '.join(SUFFIXES)})")
            entries: Iterable[tuple[str, Path]] = ((path.relative_to(source).as_posix(), path) for path in inside)
        elif source.is_file():
            if source.suffix.lower() in VIDEO_SUFFIXES:
                raise StrobeError(f"{printable(source)} is a video, not a photo; use strobe build")
            entries = [(source.name, source)]
        else:
            raise StrobeError(f"no such file or folder: {printable(source)}")
        for name, path in entries:
            written(name)
            if name in photos and photos[name].resolve() != path.resolve():
                raise StrobeError(
                    f"two photos are called {printable(name)}: {printable(photos[name])} and {printable(path)}; "
                    "rename one or put both under one folder"
                )
            photos[name] = path
    expect(bool(photos), "photos", "at least one", "none")
    return photos


def _read_rows(path: Path, columns: tuple[str, ...], files: Mapping[str, Path]) -> _CsvRows:
    rows = _CsvRows(path)
    with reading(path), path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise InvalidFile(
                path, f"no column {', '.join(missing)}", where="line 1", hint=f"the header is {','.join(columns)}"
            )
        for row in reader:
            name = (row["file"] or "").strip()
            if name not in files:
                raise InvalidFile(
                    path,
                    f"{printable(name)!r} is not one of the photos",
                    where=f"line {reader.line_num}",
                    hint=_meant(name, files),
                )
            cells = {key: (value or "").strip() for key, value in row.items() if isinstance(key, str)}
            if not cells["label"]:
                raise InvalidFile(path, "the label is empty", where=f"line {reader.line_num}")
            rows.by_photo.setdefault(name, []).append((reader.line_num, cells))
    return rows


def _meant(name: str, files: Mapping[str, Path]) -> str:
    """Return advice for a name that matches no photo."""
    near = sorted(known for known in files if Path(known).name == Path(name).name)
    meant = f" (did you mean {printable(near[0])}?)" if near else ""
    return f"names are relative to the photo folder{meant}"


def _read_ilsvrc(path: Path, files: Mapping[str, Path]) -> _CsvRows | None:
    """Return the boxes of ILSVRC's localization task, `ImageId,PredictionString` with `WNID x0 y0 x1 y1 WNID …`.

    Returns None if the file has other columns. Photos match by name, without folder and suffix.
    """
    rows, by_stem = _CsvRows(path, is_selection=True), {Path(name).stem: name for name in files}
    with reading(path), path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        if not {"ImageId", "PredictionString"} <= {*(reader.fieldnames or ())}:
            return None
        for row in reader:
            name, words = by_stem.get((row["ImageId"] or "").strip()), (row["PredictionString"] or "").split()
            if len(words) % 5 or not words:
                hint = "expected WNID x0 y0 x1 y1, once for each box"
                raise InvalidFile(path, "not a list of boxes", where=f"line {reader.line_num}", hint=hint)
            for place in range(0, len(words) if name else 0, 5):
                cells = dict(zip(("label", "x0", "y0", "x1", "y1"), words[place : place + 5], strict=True))
                rows.by_photo.setdefault(str(name), []).append((reader.line_num, cells))
    if not rows.by_photo:
        raise InvalidFile(path, "it lists none of the photos", hint="pass the folder of the photos that it lists")
    return rows


def _read_box_rows(path: Path, files: Mapping[str, Path]) -> _CsvRows:
    if path.suffix.lower() != ".json":
        if (found := _read_ilsvrc(path, files)) is not None:
            return found
        return _read_rows(path, ("file", "label", "x0", "y0", "x1", "y1"), files)
    data = read_json(path)
    rows = _CsvRows(path)
    try:
        names = {image["id"]: str(image["file_name"]) for image in data["images"]}
        labels = {category["id"]: str(category["name"]) for category in data["categories"]}
        for image in data["images"]:
            rows.sizes[names[image["id"]]] = int(image.get("width") or 0), int(image.get("height") or 0)
        for index, note in enumerate(data["annotations"]):
            name, (x, y, width, height) = names[note["image_id"]], map(float, note["bbox"])
            if name not in files:
                # A COCO file often lists more images than the sources contain; the others are ignored.
                continue
            corners = {"x0": x, "y0": y, "x1": x + width, "y1": y + height}
            cells = {key: repr(value) for key, value in corners.items()} | {"label": labels[note["category_id"]]}
            rows.by_photo.setdefault(name, []).append((index, cells | {"track": str(note.get("track_id", ""))}))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        problem = f"not COCO annotations ({type(error).__name__}: {printable(error, limit=80)})"
        raise InvalidFile(path, problem, hint="images, categories and annotations with bbox are needed") from error
    return rows


def _label_names(
    name: str, path: Path, labels: _CsvRows | None, boxes: _CsvRows | None, every: Sequence[str]
) -> list[str]:
    for rows in (labels, boxes):
        if rows is not None and name in rows.by_photo:
            return [row["label"] for _, row in rows.by_photo[name]]
    if labels is not None:
        raise InvalidFile(labels.path, f"no row for the photo {printable(name)}", hint="add one, or remove the photo")
    if every:
        return list(every)
    folder = Path(name).parent.name
    if not folder:
        raise StrobeError(
            f"{printable(path)}: no label; give <<label=NAME>> or <<labels=FILE.csv>> (file,label), or give a folder "
            "that has one subfolder per class"
        )
    return [folder]


def _boxes_of(name: str, rows: _CsvRows, label_space: LabelSpace) -> Iterable[Box]:
    for line, row in rows.by_photo.get(name, ()):
        try:
            x0, y0, x1, y1 = (float(row[column]) for column in ("x0", "y0", "x1", "y1"))
            track = int(row["track"]) if row.get("track") else -1
            expect(abs(track) < 2**63, "track", "a 64-bit number", track)
            yield Box(xyxy=(x0, y0, x1, y1), label=label_space.index(row["label"]), track=track)
        except (ValueError, StrobeError) as error:
            raise InvalidFile(rows.path, printable(error), where=f"line {line}") from error


def _masks_of(files: Iterable[str], masks: Path) -> dict[str, Path]:
    if not masks.is_dir():
        raise StrobeError(f"no such folder of masks: {printable(masks)}")
    mask_of: dict[str, Path] = {}
    for name in files:
        tried = (masks / f"{name}.png", (masks / name).with_suffix(".png"))
        mask = next((path for path in tried if path.is_file()), None)
        if mask is not None:
            mask_of[name] = mask
    if not mask_of:
        example = Path(next(iter(files))).with_suffix(".png")
        raise StrobeError(f"{printable(masks)}: no photo has a mask in it; name the masks like the photos: {example}")
    return mask_of
