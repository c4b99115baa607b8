"""ImageNet-9 and its variations (Xiao et al., Noise or Signal): SRC/<variation>/val/<00_dog …>/<file>, joined by name.

    original    the whole image                         mixed_same   on the background of an image of its class
    mixed_rand  on a background of any class            mixed_next   on a background of the next class
    only_fg     the object alone, on black              no_fg        the object's shape is black
    only_bg_t   its box tiled with background           only_bg_b    its box is black

Every image of `original` is a group. The variations are the rungs of a background ladder, under the names that strobe's
own ladders use. Labels come from the number of the class's folder.
"""

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from strobe.annexes.backgrounds.rungs import LadderRelease, WholeImage, class_files, import_rungs, rung
from strobe.core.errors import StrobeError, printable
from strobe.core.labels import space
from strobe.formats.registry import ImportFormat
from strobe.formats.sampled import ImportedDataset
from strobe.store.bring_media import ImportOptions

ORIGINAL = "original"
RUNGS: Mapping[str, str] = {
    "mixed_same": "same",
    "mixed_rand": "other",
    "mixed_next": "next",
    "only_fg": "object",
    "no_fg": "removed",
    "only_bg_t": "ground",
    "only_bg_b": "box",
}
"""The variations and their names in strobe. `no_fg` and those after it do not show the object."""

_CONTROLS = ("no_fg", "only_bg_t", "only_bg_b")
_NUMBERED = re.compile(r"(\d\d)_.+")
_PICTURE = re.compile(r"n\d{8}_\d+")


def import_imagenet_9(source: Path, target: Path, *, how: ImportOptions) -> ImportedDataset:
    """Return the images of `original` with all available variations, matched by the foreground in a file's name."""
    if not source.is_dir():
        raise StrobeError(
            f"no such folder: {printable(source)}; give the folder of ImageNet-9, which contains {ORIGINAL}/val"
        )
    files_of = {name: _variation(source, name) for name in (ORIGINAL, *RUNGS)}
    originals = files_of.pop(ORIGINAL)
    if not originals:
        raise StrobeError(
            f"{printable(source)}: there is no {ORIGINAL}/val in it; expected ImageNet-9: {ORIGINAL}/val/00_dog/<file> "
            f"and its variations ({', '.join(RUNGS)}) next to it"
        )
    if not any(files_of.values()):
        raise StrobeError(
            f"{printable(source)}: it has {ORIGINAL} but none of its variations ({', '.join(RUNGS)}); "
            f"put them next to it, or use strobe import photos {printable(source / ORIGINAL / 'val')}"
        )
    classes = space("imagenet-9")
    labels = {key: _label(key, source / ORIGINAL / "val", len(classes)) for key in originals}
    by_name: dict[tuple[int, str], str] = {}
    for key, label in labels.items():
        name = label, _foreground(key)
        if name in by_name:
            raise StrobeError(
                f"{printable(source / ORIGINAL)}: {printable(by_name[name])} and {printable(key)} are named after "
                "the same image; keep one of the two files"
            )
        by_name[name] = key
    rungs: dict[str, dict[str, list[str]]] = {key: {} for key in originals}
    strays: dict[str, list[str]] = {}
    again: dict[str, list[str]] = {}
    origins = {f"{ORIGINAL}/{key}": path for key, path in originals.items()}
    for variation, files in files_of.items():
        for key, path in files.items():
            label = _label(key, source / variation / "val", len(classes))
            original = by_name.get((label, _foreground(key)))
            if original is None:
                strays.setdefault(variation, []).append(key)
                continue
            if RUNGS[variation] in rungs[original]:  # an image has at most one file per rung
                again.setdefault(variation, []).append(key)
                continue
            rungs[original][RUNGS[variation]] = [f"{variation}/{key}"]
            origins[f"{variation}/{key}"] = path
    notes = [
        f"{variation}: {len(keys)} file(s) match no image of {ORIGINAL} and were left out, first {printable(keys[0])}"
        for variation, keys in strays.items()
    ]
    notes += [
        f"{variation}: {len(keys)} file(s) show the same object as another file and were left out, "
        f"first {printable(keys[0])}"
        for variation, keys in again.items()
    ]
    pictures = [
        WholeImage(
            key=f"{ORIGINAL}/{key}",
            labels=(labels[key],),
            rungs={name: tuple(keys) for name, keys in rungs[key].items()},
        )
        for key in originals
        if rungs[key]
    ]
    if not pictures:
        variation, keys = next(iter(strays.items()))
        raise StrobeError(
            f"{printable(source)}: no file of {variation} ({printable(keys[0])}, …) is named like one of {ORIGINAL} "
            f"({printable(next(iter(originals)))}, …)"
        )
    if len(pictures) < len(originals):
        notes.append(f"{len(originals) - len(pictures)} image(s) of {ORIGINAL} have no variation and were left out")
    for variation, called in RUNGS.items():
        n = sum(called in original.rungs for original in pictures)
        if files_of[variation] and n < len(pictures):
            notes.append(f"{variation}: {len(pictures) - n} of {len(pictures)} images lack this variation")
    absent = [variation for variation in RUNGS if not files_of[variation]]
    if absent:
        notes.append(f"missing variations: {', '.join(absent)}")
    release = LadderRelease(
        format="imagenet-9",
        name="imagenet-9",
        rungs=[
            rung(name, control=variation in _CONTROLS, said={"variation": variation, "masks": "true"})
            for variation, name in RUNGS.items()
        ],
        label_space=classes,
    )
    done = import_rungs(pictures, origins, target, of=release, how=how)
    return ImportedDataset(dataset=done.dataset, notes=(*done.notes, *notes))


def _variation(source: Path, name: str) -> dict[str, Path]:
    """Return a variation's files as `<class>/<file>`, empty if it is missing. `val` may be omitted."""
    place = source / name
    if not place.is_dir():
        return {}
    return class_files(place / "val" if (place / "val").is_dir() else place, what=f"ImageNet-9's {name}")


def _label(key: str, folder: Path, n_classes: int) -> int:
    """Return a file's class from the number at the start of its folder's name."""
    name = key.partition("/")[0]
    match = _NUMBERED.fullmatch(name)
    if match is None or int(match[1]) >= n_classes:
        raise StrobeError(
            f"{printable(folder / name)}: not a class of ImageNet-9; class folders are called 00_dog to 08_fish; move "
            "it away"
        )
    return int(match[1])


def _foreground(key: str) -> str:
    """Return the image whose object a file shows.

    This is the ImageNet image that the file's name contains first (or after `fg`, if present), else the name without
    its suffix.

    >>> _foreground("00_dog/fg_n02085620_7_bg_n01440764_10.JPEG"), _foreground("00_dog/n02085620_7.JPEG")
    ('n02085620_7', 'n02085620_7')
    >>> _foreground("00_dog/bg_n01440764_10_fg_n02085620_7.JPEG"), _foreground("00_dog/rex.png")
    ('n02085620_7', 'rex')
    """
    stem = PurePosixPath(key).stem
    _, marked, after = stem.partition("fg_")
    found = _PICTURE.search(after) if marked else None
    found = found or _PICTURE.search(stem)
    return found[0] if found else stem


FORMAT = ImportFormat(
    read=import_imagenet_9,
    about="""SRC/<variation>/val/<00_dog …>/<file>: the original, and its variations, matched by file name.

    All variations in SRC are used: mixed_same, mixed_rand, mixed_next, only_fg, no_fg, only_bg_t and only_bg_b. The
    score follows the authors' protocol: a model's top class is mapped to one of the nine classes. A class without a
    mapping counts as outside.
    """,
    example="bg_challenge/ data/in9",
    outside="images",
)
