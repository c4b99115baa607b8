"""ImageNet-A and its crop sets: ImageNet-A-Plus, or the output of `review export --crops`.

ImageNet-A        SRC/<WordNet id>/<file>, 200 of ILSVRC's 1,000 classes
ImageNet-A-Plus   SRC/<WordNet id>/<the same file name>, each a crop of an original, and optionally manifest.json
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from strobe.analyses.drawn import check_inside
from strobe.annexes.backgrounds.rungs import LadderRelease, WholeImage, class_files, import_rungs, rung, twice
from strobe.core.errors import InvalidFile, InvalidValue, StrobeError, expect, in_file, printable
from strobe.core.files import read_json
from strobe.core.labels import LabelSpace, space
from strobe.core.records import Box
from strobe.formats.export_crops import MANIFEST
from strobe.formats.import_photos import Still, import_photos
from strobe.formats.registry import FormatOption, ImportFormat
from strobe.formats.sampled import ImportedDataset
from strobe.store.bring_media import ImportOptions, image_size_and_hash

IMAGENET_A = "imagenet-a"
_WORDNET_ID = re.compile(r"n\d{8}")


def import_imagenet_a(source: Path, target: Path, *, label_space: str | None, how: ImportOptions) -> ImportedDataset:
    """Make one set per image, with only an anchor.

    Models choose among the 200 classes unless another space is named.
    """
    files = class_files(source, what="ImageNet-A")
    chosen = _classes([key.partition("/")[0] for key in files], label_space or IMAGENET_A, source)
    stills = [Still(key=key, labels=(chosen.index(key.partition("/")[0]),)) for key in files]
    done = import_photos(stills, source, target, label_space=chosen, how=how, name="imagenet-a", format=IMAGENET_A)
    frames = done.dataset.frames
    hashes: dict[str, list[str]] = {}
    for key, digest, width in zip(frames.key.tolist(), frames.sha256.tolist(), frames.width.tolist(), strict=True):
        if digest and not width:
            raise InvalidFile(source / key, "not a readable image", hint="download it again, or move it away")
        if digest:
            hashes.setdefault(digest, []).append(key)
    n = len({key.partition("/")[0] for key in files})
    few = (
        ()
        if n == 200 or label_space
        else (f"{n} of ImageNet-A's 200 classes are present; models choose among all 200",)
    )
    return ImportedDataset(dataset=done.dataset, notes=(*done.notes, *few, *twice(hashes)))


def _classes(folders: Sequence[str], named: str, source: Path) -> LabelSpace:
    """Return the shipped space with that name; it must contain every folder's class."""
    chosen = space(named)
    for name in folders:
        if name not in chosen:
            hint = "; <<label_space=ilsvrc-2012>> accepts all 1,000 classes" if name in space("ilsvrc-2012") else ""
            raise StrobeError(
                f"{printable(source / name)}: not a class of {named} ({len(chosen)} classes, by WordNet id or name); "
                f"move the folder away, or pass its label space{hint}"
            )
    return chosen


# -- crops and their originals -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """The manifest's entry for one crop: the original's key and hash, the box, and the box's share of the image."""

    key: str
    source_sha256: str | None
    xyxy: tuple[float, float, float, float]
    sha256: str


def import_crops(
    source: Path, originals: Path, target: Path, *, label_space: str | None, how: ImportOptions
) -> ImportedDataset:
    """Make one set for each image that has a crop: the whole image is the anchor, and the crop is its member.

    A control shows the image again with each model's usual preprocessing. Originals are `<class>/<same file name>`
    below `originals`, or the files named in the crops' manifest.
    """
    crops, wholes = class_files(source, what="the crops"), class_files(originals, what="the originals")
    manifest = _manifest(source)
    folders = list(dict.fromkeys(key.partition("/")[0] for key in crops))
    if label_space is None and not any(_WORDNET_ID.fullmatch(name) for name in folders):
        chosen = LabelSpace.of_names(printable(target.resolve().name) or "crops", folders)
    else:
        chosen = _classes(folders, label_space or IMAGENET_A, source)
    by_stem: dict[str, list[str]] = {}
    for key in wholes:
        by_stem.setdefault(_stem(key), []).append(key)
    taken: dict[str, str] = {}
    pictures, origins = [], dict[str, Path]()
    for key, path in crops.items():
        cut = manifest.get(key)
        original = _original(key, cut, source, originals, wholes, by_stem)
        if original in taken:
            raise StrobeError(
                f"{printable(source)}: {printable(taken[original])} and {printable(key)} are crops of the same image, "
                f"{printable(original)}; keep one of them"
            )
        taken[original] = key
        if cut is not None and how.media != "none":
            _unchanged(path, cut.sha256, source / MANIFEST)
            size_wh = _unchanged(wholes[original], cut.source_sha256, source / MANIFEST)
            with in_file(source / MANIFEST):
                check_inside(cut.xyxy, size_wh, what=key)
        label = chosen.index(key.partition("/")[0])
        boxes = () if cut is None else (Box(xyxy=cut.xyxy, label=label),)
        pictures.append(
            WholeImage(key=f"whole/{original}", labels=(label,), rungs={"crop": (f"crop/{key}",)}, boxes=boxes)
        )
        origins |= {f"whole/{original}": wholes[original], f"crop/{key}": path}
    release = LadderRelease(
        format="imagenet-a-plus",
        name="imagenet-a-plus" if chosen.name == IMAGENET_A else printable(target.resolve().name) or "crops",
        rungs=(rung("crop", axis="context", unit="x", said={"boxes": "true"}), rung("usual", control=True, said={})),
        label_space=chosen,
    )
    done = import_rungs(pictures, origins, target, of=release, how=how)
    rest = len(wholes) - len(taken)
    left = (f"{rest} of {len(wholes)} originals have no crop and were left out, because each image needs a crop",)
    return ImportedDataset(dataset=done.dataset, notes=(*done.notes, *(left if rest else ())))


def _stem(key: str) -> str:
    return str(PurePosixPath(key).with_suffix(""))


def _original(
    key: str,
    cut: _Cut | None,
    source: Path,
    originals: Path,
    wholes: Mapping[str, Path],
    by_stem: Mapping[str, Sequence[str]],
) -> str:
    """Return a crop's original, as named in the manifest, or else the file of the same name with any suffix."""
    original = key if cut is None else "/".join(PurePosixPath(cut.key).parts[-2:])
    if original in wholes:
        return original
    same = by_stem.get(_stem(original), ())
    if len(same) == 1:
        return same[0]
    raise StrobeError(
        f"{printable(source / key)} has no original: {printable(original)} is not below {printable(originals)}; pass "
        "the folder of the original images with <<originals>>, or remove the crop"
    )


def _unchanged(path: Path, sha256: str | None, manifest: Path) -> tuple[int, int]:
    """Return width and height of a file, after checking that it matches the manifest."""
    digest, size_wh = image_size_and_hash(path)
    if sha256 and digest != sha256:
        raise InvalidFile(path, f"not the file listed in {printable(manifest)}", hint="its sha256 differs")
    return size_wh


def _manifest(source: Path) -> dict[str, _Cut]:
    """Return the entries of the crops' manifest.json by file; empty if there is no manifest."""
    path = source / MANIFEST
    if not path.is_file():
        return {}
    content = read_json(path, hint="remove it, or export the crops again")
    rows = content.get("crops") if isinstance(content, dict) else None
    if not isinstance(rows, list):
        raise InvalidFile(path, "expected a list of crops", where="crops", hint="remove it, or export the crops again")
    entries = {}
    for index, row in enumerate(rows):
        with in_file(path, where=f"crops[{index}]"):
            file, cut = _cut(row)
        if file in entries:
            raise InvalidFile(path, f"the crop {printable(file)} appears twice", where=f"crops[{index}]")
        entries[file] = cut
    return entries


def _cut(row: Any) -> tuple[str, _Cut]:
    expect(isinstance(row, dict), "crop", "an object", row)
    for name in ("file", "key", "sha256"):
        expect(isinstance(row.get(name), str), name, "a text", row.get(name))
    sides = row.get("xyxy")
    right = isinstance(sides, list) and len(sides) == 4 and all(type(side) in (int, float) for side in sides)
    expect(right, "xyxy", "four numbers", sides)
    given = row.get("source_sha256")
    expect(given is None or isinstance(given, str), "source_sha256", "a text or null", given)
    try:
        x0, y0, x1, y1 = (float(side) for side in sides)
    except OverflowError as error:
        raise InvalidValue(f"xyxy: expected four numbers, got {printable(sides, limit=60)}") from error
    Box(xyxy=(x0, y0, x1, y1), label=0)  # the record checks its own values
    return row["file"], _Cut(key=row["key"], source_sha256=given, xyxy=(x0, y0, x1, y1), sha256=row["sha256"])


FORMAT = ImportFormat(
    read=import_imagenet_a,
    about="""SRC/<WordNet id>/<file>, one set per image (k = 0).

    Models choose among ImageNet-A's 200 classes. Results also report how often
    the model's top class among all its classes is right.
    """,
    example="imagenet-a/ data/a --media link",
    options=(
        FormatOption(
            name="label_space",
            help="A shipped label space that models choose from. Default: imagenet-a, its 200 classes.",
        ),
    ),
    outside="images",
)
