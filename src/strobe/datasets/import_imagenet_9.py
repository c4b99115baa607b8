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

from strobe.core.errors import StrobeError, printable
from strobe.core.labels import space
from strobe.datasets.bring_media import ImportOptions
from strobe.datasets.rungs import LadderRelease, WholeImage, class_files, import_rungs, rung
from strobe.datasets.sampled import ImportedDataset

__all__ = ["RUNGS", "import_imagenet_9"]

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
"""The variations and their names in strobe. Those from `no_fg` on do not show the object."""

_CONTROLS = ("no_fg", "only_bg_t", "only_bg_b")
_NUMBERED = re.compile(r"(\d\d)_.+")
_PICTURE = re.compile(r"n\d{8}_\d+")


def import_imagenet_9(source: Path, target: Path, *, how: ImportOptions) -> ImportedDataset:
    """Return the images of `original` with all available variations, matched by the foreground in a file's name."""
    if not source.is_dir():
        raise StrobeError(
            f"no such folder: {printable(source)}; give the folder of ImageNet-9, with {ORIGINAL}/val in it"
        )
    found = {name: _variation(source, name) for name in (ORIGINAL, *RUNGS)}
    originals = found.pop(ORIGINAL)
    if not originals:
        raise StrobeError(
            f"{printable(source)}: no {ORIGINAL}/val in it; expected ImageNet-9: {ORIGINAL}/val/00_dog/<file> "
            f"and its variations ({', '.join(RUNGS)}) beside it"
        )
    if not any(found.values()):
        raise StrobeError(
            f"{printable(source)}: {ORIGINAL} alone, and none of its variations ({', '.join(RUNGS)}); "
            f"put them beside it, or use strobe import photos {printable(source / ORIGINAL / 'val')}"
        )
    classes = space("imagenet-9")
    labels = {key: _label(key, source / ORIGINAL / "val", len(classes)) for key in originals}
    by_name: dict[tuple[int, str], str] = {}
    for key, label in labels.items():
        name = label, _foreground(key)
        if name in by_name:
            raise StrobeError(
                f"{printable(source / ORIGINAL)}: {printable(by_name[name])} and {printable(key)} are one image by "
                "their names; keep one"
            )
        by_name[name] = key
    rungs: dict[str, dict[str, list[str]]] = {key: {} for key in originals}
    strays: dict[str, list[str]] = {}
    again: dict[str, list[str]] = {}
    origins = {f"{ORIGINAL}/{key}": path for key, path in originals.items()}
    for variation, files in found.items():
        for key, path in files.items():
            label = _label(key, source / variation / "val", len(classes))
            whole = by_name.get((label, _foreground(key)))
            if whole is None:
                strays.setdefault(variation, []).append(key)
                continue
            if RUNGS[variation] in rungs[whole]:  # rungs are compared image by image, so each has one
                again.setdefault(variation, []).append(key)
                continue
            rungs[whole][RUNGS[variation]] = [f"{variation}/{key}"]
            origins[f"{variation}/{key}"] = path
    notes = [
        f"{variation}: {len(keys)} file(s) name no image of {ORIGINAL} and were left out, first {printable(keys[0])}"
        for variation, keys in strays.items()
    ]
    notes += [
        f"{variation}: {len(keys)} file(s) show an object that another file of it shows and were left out, "
        f"first {printable(keys[0])}"
        for variation, keys in again.items()
    ]
    pictures = [
        WholeImage(
            key=f"{ORIGINAL}/{key}", labels=(labels[key],),
            rungs={name: tuple(keys) for name, keys in rungs[key].items()},
        )
        for key in originals
        if rungs[key]
    ]  # fmt: skip
    if not pictures:
        variation, keys = next(iter(strays.items()))
        raise StrobeError(
            f"{printable(source)}: no file of {variation} ({printable(keys[0])}, …) is named like one of {ORIGINAL} "
            f"({printable(next(iter(originals)))}, …)"
        )
    if len(pictures) < len(originals):
        notes.append(f"{len(originals) - len(pictures)} image(s) of {ORIGINAL} have no variation and were left out")
    for variation, called in RUNGS.items():
        n = sum(called in whole.rungs for whole in pictures)
        if found[variation] and n < len(pictures):
            notes.append(f"{variation}: {len(pictures) - n} of {len(pictures)} images lack it")
    absent = [variation for variation in RUNGS if not found[variation]]
    if absent:
        notes.append(f"not there: {', '.join(absent)}")
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
    found = _NUMBERED.fullmatch(name)
    if found is None or int(found[1]) >= n_classes:
        raise StrobeError(
            f"{printable(folder / name)}: no class of ImageNet-9; its folders are called 00_dog to 08_fish: move it out"
        )
    return int(found[1])


def _foreground(key: str) -> str:
    """Return the image whose object a file shows.

    It is the first ImageNet image in its name (the one after `fg`, if marked), else its name without the suffix.

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
