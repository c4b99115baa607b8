"""ObjectNet: SRC/images/<folder>/<file>, each with a red border, and the ILSVRC classes that each folder shows.

ILSVRC-2012 models can name some of ObjectNet's 313 object types. The archive lists these types in mappings/ (type by
folder, and ILSVRC classes by type), or you provide a CSV: folder,label. Any class of an image's type is right. Models
choose among all classes of the map.
"""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from strobe.annexes.backgrounds.rungs import class_files
from strobe.core.builder import DatasetBuilder, frame_list_digest
from strobe.core.dataset import DatasetInfo
from strobe.core.errors import InvalidFile, StrobeError, expect, in_file, printable
from strobe.core.files import read_json, reading, regular, write_bytes
from strobe.core.labels import LabelSpace, other_names, space
from strobe.core.png import png_bytes
from strobe.core.ports import Image
from strobe.formats.import_photos import NO_AXIS
from strobe.formats.registry import FormatOption, ImportFormat
from strobe.formats.sampled import ImportedDataset
from strobe.store.bring_media import ImportOptions, image_size_and_hash
from strobe.store.media import decode_image

_KINDS, _CLASSES = "folder_to_objectnet_label.json", "objectnet_to_imagenet_1k.json"
_RED = (200, 60)
"""A border is red if its mean red is at least the first value, and its mean green and blue at most the second."""


def import_objectnet(
    source: Path, target: Path, *, classes: Path | None, border: int, how: ImportOptions
) -> ImportedDataset:
    """Make one set, with only an anchor, per image of a mapped folder. `border` pixels are removed on each side."""
    expect(0 <= border <= 64, "<<border>>", "0–64 pixels", border)
    images = source / "images" if (source / "images").is_dir() else source
    files = class_files(images, what="ObjectNet")
    by_folder = _map(source, images, classes)
    every = space("ilsvrc-2012")
    places = sorted({place for some in by_folder.values() for place in some})
    chosen = LabelSpace(
        name="objectnet",
        ids=tuple(every.ids[place] for place in places),
        names=tuple(every.names[place] for place in places),
    )
    at = {place: number for number, place in enumerate(places)}
    mapped = {key: path for key, path in files.items() if key.partition("/")[0] in by_folder}
    if not mapped:
        raise StrobeError(
            f"{printable(images)}: none of its folders ({printable(next(iter(files)).partition('/')[0])}, …) is in the "
            "map; pass a CSV (folder,label) of these folders with <<map>>"
        )
    grown, plain, stored = DatasetBuilder(), 0, how.media != "none"
    with how.progress.task("images", len(mapped)) as advance:
        for key, path in mapped.items():
            digest, size, media = "", (0, 0), ""
            if stored:
                media = f"media/{PurePosixPath(key).with_suffix('.png')}"
                plain += _bring(path, target / media, border, how)
                digest, size = image_size_and_hash(target / media)
            photo = grown.video(video_id=frame_list_digest([key]), name=key, n_frames=1, kind="photo")
            labels = [at[place] for place in by_folder[key.partition("/")[0]]]
            row = grown.frame(video=photo, index=0, key=key, sha256=digest, size_wh=size, labels=labels, media=media)
            grown.set(set_id=key, anchor=row, members=())
            advance(1)
    notes = []
    if len(mapped) < len(files):
        folders = len({key.partition("/")[0] for key in files.keys() - mapped.keys()})
        notes.append(
            f"{len(files) - len(mapped)} image(s) of {folders} folder(s) show no class of the map and were left out"
        )
    if plain:
        notes.append(f"{plain} image(s) have no red border, but {border} pixels were cropped anyway; see --border")
    info = DatasetInfo(
        name="objectnet",
        label_space=chosen,
        k=0,
        axis=NO_AXIS,
        licence="ObjectNet's own: for evaluation only, never for training; not distributed with strobe",
        provenance={"format": "objectnet", "media": stored, "border": border},
    )
    return ImportedDataset(dataset=grown.build(info, root=target), notes=tuple(notes))


def _bring(path: Path, place: Path, border: int, how: ImportOptions) -> bool:
    """Store the image without its border, as PNG, unless it exists. Returns whether the border was not red."""
    if place.is_file():
        return False
    pixels = decode_image(regular(path).read_bytes(), name=path)
    height, width = pixels.shape[:2]
    if border and min(height, width) <= 2 * border:
        raise InvalidFile(
            path, f"an image of {width}×{height} pixels has nothing left without its border", hint="move it away"
        )
    how.refuse(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    inside = pixels[border : height - border, border : width - border]
    write_bytes(place, png_bytes(np.ascontiguousarray(inside)))
    return bool(border) and not _is_red(pixels)


def _is_red(pixels: Image) -> bool:
    edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]).mean(axis=0)
    return bool(edge[0] >= _RED[0] and edge[1] <= _RED[1] and edge[2] <= _RED[1])


# -- which classes a folder shows ----------------------------------------------------------------------------------


def _map(source: Path, images: Path, given: Path | None) -> dict[str, tuple[int, ...]]:
    """Return the ILSVRC class positions of each folder that maps to a class."""
    if given is not None:
        return _of_csv(given)
    for folder in (source / "mappings", images.parent / "mappings"):
        if (folder / _CLASSES).is_file():
            return _of_mappings(folder)
    raise StrobeError(
        f"{printable(source)}: the ILSVRC classes of its folders are unknown; give the archive's folder, "
        f"which contains mappings/{_CLASSES}, or pass a CSV (folder,label) with <<map>>"
    )


def _of_csv(path: Path) -> dict[str, tuple[int, ...]]:
    every, out = space("ilsvrc-2012"), dict[str, dict[int, None]]()
    with reading(path), path.open(newline="", encoding="utf-8-sig") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            folder, label = (str(row.get(name) or "").strip() for name in ("folder", "label"))
            if not folder or not label:
                raise InvalidFile(path, "expected the columns folder,label", where=f"line {number}")
            with in_file(path, where=f"line {number}"):
                out.setdefault(folder, {})[every.index(label)] = None
    if not out:
        raise InvalidFile(path, "no rows", hint="expected folder,label")
    return {folder: tuple(places) for folder, places in out.items()}


def _of_mappings(folder: Path) -> dict[str, tuple[int, ...]]:
    """Read the archive's two files: type by folder, and ILSVRC classes with synonyms by type (separated by "; ")."""
    kinds, classes = _texts(folder / _KINDS), _texts(folder / _CLASSES)
    every = space("ilsvrc-2012")
    words = {
        frozenset(word.casefold() for word in (name, *others)): index
        for index, (name, others) in enumerate(zip(every.names, other_names(every), strict=True))
    }
    folder_of = {kind: name for name, kind in kinds.items()}
    out = {}
    for kind, said in classes.items():
        with in_file(folder / _CLASSES, where=kind):
            expect(kind in folder_of, "kind", f"one of {_KINDS}", kind)
            out[folder_of[kind]] = tuple(_place(one.strip(), words, every) for one in said.split(";"))
    return out


def _place(synonyms: str, words: Mapping[frozenset[str], int], every: LabelSpace) -> int:
    """Return the class with exactly these synonyms, else the class whose name is the first synonym."""
    parts: Sequence[str] = [part.strip() for part in synonyms.split(",")]
    place = words.get(frozenset(part.casefold() for part in parts))
    return every.index(parts[0]) if place is None else place


def _texts(path: Path) -> dict[str, str]:
    found = read_json(path, hint="download the archive again, or pass <<map>>")
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise InvalidFile(path, "expected {text: text}", hint="download the archive again, or pass <<map>>")
    return found


FORMAT = ImportFormat(
    read=import_objectnet,
    about="""SRC/images/<folder>/<file> (or SRC/<folder>/<file>), stored as PNG, one set per image (k = 0).

    An answer is right if the map lists its class for the image's folder. Models choose among all classes of the map.
    """,
    example="objectnet-1.0/ data/objectnet",
    options=(
        FormatOption(
            name="classes", flag="--map", kind=Path, help="CSV folder,label of ILSVRC's classes. Default: SRC/mappings."
        ),
        FormatOption(name="border", kind=int, default=2, help="Pixels to cut from each side. 0 cuts nothing."),
    ),
    outside="images",
)
