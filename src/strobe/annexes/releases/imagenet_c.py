"""ImageNet-C and similar datasets: clean images and corrupted versions of each, by severity.

    SRC/…/<corruption>/<severity>/<class>/<file>      with CLEAN/<class>/<file>
    SRC/<corruption>.npy and SRC/labels.npy           with CLEAN.npy (CIFAR-10-C: severities one after the other)

There is one set per image and corruption. The clean image is the anchor of all its sets, and severity is the distance.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from strobe.core.builder import DatasetBuilder, frame_list_digest
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import InvalidFile, StrobeError, UnknownName, expect, printable
from strobe.core.files import write_bytes
from strobe.core.labels import LabelSpace
from strobe.core.png import png_bytes
from strobe.core.readers import read_array
from strobe.core.readings import read_as
from strobe.core.variants import Variant
from strobe.formats.import_frames import IMAGE_ENDINGS
from strobe.formats.import_photos import of_wordnet
from strobe.formats.registry import LABEL_SPACE, MAX_IMAGES, SEED, FormatOption, ImportFormat, several_names, severities
from strobe.formats.sampled import ImportedDataset, label_space_for
from strobe.store.bring_media import ImportOptions, image_size_and_hash
from strobe.vary.corruptions import GROUPS

CIFAR_10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

SEVERITIES = (1, 2, 3, 4, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagenetCOptions:
    """The images to import: corruptions (empty: all), severities, and a maximum number of images, sampled by a seed."""

    corruptions: tuple[str, ...] = ()
    severities: tuple[int, ...] = SEVERITIES
    pictures: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        expect(
            bool(self.severities) and set(self.severities) <= set(SEVERITIES), "<<severity>>", "1–5", self.severities
        )
        expect(self.pictures is None or self.pictures >= 1, "<<max_images>>", ">= 1", self.pictures)

    def of_corruptions(self, found: Collection[str], source: Path) -> list[str]:
        """Return the selected corruptions, sorted. A missing corruption is an error."""
        if not found:
            raise StrobeError(
                f"{printable(source)}: it contains no corruptions; expected <corruption>/<severity>/<class>/<file>, or "
                ".npy files with labels.npy"
            )
        for name in self.corruptions:
            if name not in found:
                raise UnknownName("corruption", name, found, hint=f"available: {', '.join(sorted(found))}")
        return sorted(self.corruptions or found)

    def of_pictures(self, keys: Sequence[str]) -> list[str]:
        """Return the selected images, in order."""
        if self.pictures is None or self.pictures >= len(keys):
            return list(keys)
        chosen = np.random.default_rng(self.seed).choice(len(keys), self.pictures, replace=False)
        return [keys[place] for place in sorted(chosen.tolist())]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Picture:
    """A clean image: its name, its classes, and the key of each corrupted version that exists."""

    key: str
    labels: tuple[int, ...]
    made: Callable[[str, int], str | None]


Place = Callable[[str, Path], None]
"""Writes the image of a key to a path."""


def import_corrupted(
    source: Path,
    clean: Path,
    target: Path,
    *,
    wanted: ImagenetCOptions,
    classes: Callable[[Sequence[str]], LabelSpace],
    how: ImportOptions,
) -> ImportedDataset:
    """Import the folder layout. `classes` returns the label space for the class folders' names."""
    folders = _severity_folders(source)
    corruptions = wanted.of_corruptions({name for name, _ in folders}, source)
    missing = [
        f"{name}/{severity}"
        for name in corruptions
        for severity in wanted.severities
        if (name, severity) not in folders
    ]
    if missing:
        raise StrobeError(
            f"{printable(source)}: there is no folder {missing[0]}; pass <<severity>> with the existing severities"
        )
    originals = {path.relative_to(clean).as_posix(): path for path in _images(clean)}
    if not originals:
        raise StrobeError(f"{printable(clean)}: it contains no clean images; expected <class>/<file>")
    flat = next((key for key in originals if "/" not in key), None)
    if flat is not None:
        raise StrobeError(f"{printable(clean / flat)} is not in a class folder; expected <class>/<file>")
    first = folders[corruptions[0], wanted.severities[0]]
    there = {path.relative_to(first).as_posix() for path in _images(first)}
    keys = sorted(key for key in originals if key in there)
    notes = []
    if len(there) > len(keys):
        notes.append(f"{len(there) - len(keys)} corrupted image(s) have no clean original and were left out")
    if not keys:
        example = next(iter(sorted(there)), "nothing")
        raise StrobeError(
            f"no image of {printable(source)} ({printable(example)}, …) has a clean original below {printable(clean)}"
        )
    keys = wanted.of_pictures(keys)
    label_space = classes(sorted({key.split("/")[-2] for key in keys}))

    def made(key: str) -> Callable[[str, int], str | None]:
        return lambda corruption, severity: (
            f"{corruption}/{severity}/{key}" if (folders[corruption, severity] / key).is_file() else None
        )

    pictures = [
        _Picture(key=f"clean/{key}", labels=(label_space.index(key.split("/")[-2]),), made=made(key)) for key in keys
    ]

    def place(key: str, path: Path) -> None:
        head, _, rest = key.partition("/")
        if head == "clean":
            how.file(originals[rest], path)
            return
        severity, _, name = rest.partition("/")
        how.file(folders[head, int(severity)] / name, path)

    dataset = _dataset(
        pictures,
        corruptions,
        wanted,
        target,
        label_space=label_space,
        place=place,
        how=how,
        name="imagenet-c",
    )
    return ImportedDataset(dataset=dataset, notes=(*notes, *dataset.info.provenance["notes"]))


def import_arrays(
    source: Path, clean: Path, target: Path, *, wanted: ImagenetCOptions, classes: Sequence[str], how: ImportOptions
) -> ImportedDataset:
    """Import the .npy layout.

    Each file has the images of severity 1, then the images of severity 2, and so on; these images become PNG.
    """
    labels = _array(source / "labels.npy", 1)
    images = _array(clean, 4)
    n = len(images)
    file_of = {path.stem: path for path in sorted(source.glob("*.npy")) if path.stem != "labels"}
    corruptions = wanted.of_corruptions(file_of, source)
    arrays = {name: _array(file_of[name], 4) for name in corruptions}
    for name, array in arrays.items():
        if len(array) != len(SEVERITIES) * n or array.shape[1:] != images.shape[1:]:
            raise InvalidFile(
                file_of[name],
                f"shape {array.shape}, expected {(len(SEVERITIES) * n, *images.shape[1:])}",
                hint=f"five severities of the {n} images in {printable(clean.name)}",
            )
    if len(labels) not in (n, len(SEVERITIES) * n):
        raise InvalidFile(source / "labels.npy", f"{len(labels)} labels for {n} clean images")
    top = int(labels.max(initial=0))
    if int(labels.min(initial=0)) < 0 or top >= len(classes):
        raise InvalidFile(source / "labels.npy", f"class {top} is outside the {len(classes)} classes; give <<classes>>")
    keys = wanted.of_pictures([f"{place:06d}" for place in range(n)])
    label_space = LabelSpace.of_names("cifar-10" if tuple(classes) == CIFAR_10 else "classes", list(classes))

    def made(key: str) -> Callable[[str, int], str | None]:
        return lambda corruption, severity: f"{corruption}/{severity}/{key}.png"

    pictures = [_Picture(key=f"clean/{key}.png", labels=(int(labels[int(key)]),), made=made(key)) for key in keys]

    def place(key: str, path: Path) -> None:
        head, _, rest = key.partition("/")
        severity, _, name = rest.rpartition("/")
        number = int(name.removesuffix(".png"))
        pixels = images[number] if head == "clean" else arrays[head][(int(severity) - 1) * n + number]
        how.refuse(path)
        write_bytes(path, png_bytes(np.ascontiguousarray(pixels)))

    dataset = _dataset(
        pictures,
        corruptions,
        wanted,
        target,
        label_space=label_space,
        place=place,
        how=how,
        name=printable(source.resolve().name) or "arrays",
    )
    return ImportedDataset(dataset=dataset, notes=tuple(dataset.info.provenance["notes"]))


def _dataset(
    pictures: Sequence[_Picture],
    corruptions: Sequence[str],
    selection: ImagenetCOptions,
    target: Path,
    *,
    label_space: LabelSpace,
    place: Place,
    how: ImportOptions,
    name: str,
) -> Dataset:
    """Return the sets, with images written to target/media by `place` unless media stay at the source."""
    stored = how.media != "none"
    severities = sorted(set(selection.severities))
    levels = tuple(float(severity) for severity in severities)
    grown = DatasetBuilder()
    published = GROUPS["imagenet-c"]
    extra = sorted(set(corruptions) - {*published})
    notes = []
    if extra and len(extra) < len(corruptions):
        text = f"{len(corruptions) - len(extra)} of the published {len(published)} and {len(extra)} others"
        notes = [read_as("corruptions", text, f"the published mean leaves out {', '.join(map(printable, extra))}")]
    for corruption in corruptions:
        fields = {
            "kind": "corruption",
            "name": corruption,
            **({"published": False} if notes and corruption in extra else {}),
        }
        grown.variant(Variant(variant=corruption, axis="severity", levels=levels, fields=fields))

    def frame(key: str, photo: int, index: int, labels: Sequence[int] = ()) -> int:
        digest, size = "", (0, 0)
        if stored:
            path = target / "media" / key
            if not path.is_file():
                place(key, path)
            digest, size = image_size_and_hash(path)
        media = f"media/{key}" if stored else ""
        return grown.frame(video=photo, index=index, key=key, sha256=digest, size_wh=size, labels=labels, media=media)

    with how.progress.task("pictures", len(pictures)) as advance:
        for picture in pictures:
            photo = grown.video(video_id=frame_list_digest([picture.key]), name=picture.key, kind="photo")
            anchor, index = frame(picture.key, photo, 0, picture.labels), 0
            for corruption in corruptions:
                members = []
                for severity in severities:
                    index += 1
                    key = picture.made(corruption, severity)
                    if key is not None:
                        members.append((frame(key, photo, index), float(severity)))
                grown.set(
                    set_id=f"{picture.key}@{corruption}",
                    anchor=anchor,
                    members=members,
                    variant=corruption,
                    group=picture.key,
                )
            advance(1)
    info = DatasetInfo(
        name=name,
        label_space=label_space,
        k=len(levels),
        axis="severity",
        label_source="anchor",
        combine="worst",
        licence="the pictures' own; not distributed with strobe",
        provenance={"format": "imagenet-c", "media": stored, "seed": selection.seed, "notes": notes},
    )
    return grown.build(info, root=target)


def _images(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.suffix.lower() in IMAGE_ENDINGS and path.is_file())


def _severity_folders(source: Path) -> dict[tuple[str, int], Path]:
    """Return every `<corruption>/<severity>` folder, in SRC or one level deeper, because archives group corruptions."""
    if not source.is_dir():
        raise StrobeError(f"no such folder: {printable(source)}; give the folder of the corruptions")
    folders: dict[tuple[str, int], Path] = {}
    for depth in ("*/[1-5]", "*/*/[1-5]"):
        for path in sorted(source.glob(depth)):
            if not path.is_dir():
                continue
            known = folders.setdefault((path.parent.name, int(path.name)), path)
            if known != path:
                raise StrobeError(f"{printable(path)} and {printable(known)} are the same corruption; remove one")
    return folders


def _array(path: Path, n_dimensions: int) -> NDArray[np.uint8]:
    """Memory-map a .npy file of bytes."""
    array, pictures = read_array(path, mapped=True), n_dimensions == 4
    if array.ndim != n_dimensions or (pictures and (array.shape[3] != 3 or array.dtype != np.uint8)):
        rule = "(N, height, width, 3) of 8 bits" if pictures else "(N,)"
        raise InvalidFile(path, f"shape {array.shape} of {array.dtype}, expected {rule}")
    return cast(NDArray[np.uint8], array)


def read_imagenet_c(
    source: Path,
    target: Path,
    *,
    clean: Path,
    corruption: tuple[str, ...],
    severity: tuple[int, ...],
    max_images: int | None,
    classes: tuple[str, ...],
    label_space: str | None,
    seed: int,
    how: ImportOptions,
) -> ImportedDataset:
    """Read corrupted images and their clean originals, as folders (ImageNet-C) or .npy files (CIFAR-10-C).

    `label_space` applies to folders. `classes` gives the class name of each number in labels.npy.
    """
    wanted = ImagenetCOptions(corruptions=corruption, severities=severity, pictures=max_images, seed=seed)
    if (source / "labels.npy").is_file():
        if clean.suffix != ".npy":
            raise StrobeError(
                f"{printable(source)} contains .npy files, so <<clean>> must be the .npy file of the clean images"
            )
        return import_arrays(source, clean, target, wanted=wanted, classes=classes, how=how)
    if not clean.is_dir():
        raise StrobeError(f"no such folder: {printable(clean)}; <<clean>> must be the folder of the clean images")

    def of(names: Sequence[str]) -> LabelSpace:
        own = label_space_for(names, requested=label_space, own_name=target.resolve().name)
        return own if label_space else of_wordnet(names) or own

    return import_corrupted(source, clean, target, wanted=wanted, classes=of, how=how)


FORMAT = ImportFormat(
    read=read_imagenet_c,
    about="""SRC/…/<corruption>/<severity>/<class>/<file>, or SRC/<corruption>.npy with labels.npy as in CIFAR-10-C.

    Each image and corruption gives one set. Results report the accuracy at and up to every
    severity, and the mean and the worst case over corruptions.
    """,
    example="imagenet-c/ data/c --clean ILSVRC2012_val/ --corruption fog --media link",
    options=(
        FormatOption(
            name="clean",
            kind=Path,
            required=True,
            help="Folder <class>/<file> of the clean images, or their .npy.",
        ),
        FormatOption(
            name="corruption", several=True, help="Only this corruption. May be repeated. Default: all in SRC."
        ),
        FormatOption(name="severity", kind=severities, default="1-5", help="The severities to use, e.g. 1-5 or 1,3,5."),
        MAX_IMAGES,
        FormatOption(
            name="classes",
            kind=lambda text: several_names(text) or CIFAR_10,
            default="",
            help="Class names of labels.npy, comma-separated. Default: CIFAR-10's.",
        ),
        LABEL_SPACE,
        SEED,
    ),
    outside="corruptions",
)
