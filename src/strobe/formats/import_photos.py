"""Labelled still images. Each is its own source and its own set, with only an anchor.

Such sets measure accuracy and are the input of other studies. The caller supplies the classes: from folders, a CSV, or
the files that accompany ILSVRC's validation images.
"""

import csv
import re
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

from strobe.core.builder import DatasetBuilder, frame_list_digest
from strobe.core.dataset import DatasetInfo
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import regular
from strobe.core.labels import LabelSpace, space
from strobe.core.records import Box
from strobe.formats.registry import LABEL_SPACE, FormatOption, ImportFormat
from strobe.formats.sampled import ImportedDataset
from strobe.store.bring_media import ImportOptions
from strobe.store.making import advice_on_classes

NO_AXIS = "none"
"""The axis of sets without members."""

_VALIDATION = re.compile(r"ILSVRC2012_val_(\d{8})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Still:
    """A photo: its path below the source, its classes, and its boxes."""

    key: str
    labels: tuple[int, ...]
    boxes: tuple[Box, ...] = ()


def import_photos(
    stills: Sequence[Still],
    source: Path,
    target: Path,
    *,
    label_space: LabelSpace,
    how: ImportOptions,
    with_boxes: bool = False,
    format: str = "photos",
    name: str | None = None,
) -> ImportedDataset:
    """Make one set per photo, with only an anchor. Media are written to target/media, and the caller writes the tables.

    The dataset takes its folder's name unless `name` is given.
    """
    files = how.files(source, target, [still.key for still in stills])
    grown = DatasetBuilder()
    for still in stills:
        photo = grown.video(video_id=frame_list_digest([still.key]), name=still.key, n_frames=1, kind="photo")
        digest, size = files.get(still.key, ("", (0, 0)))
        row = grown.frame(
            video=photo,
            index=0,
            key=still.key,
            sha256=digest,
            size_wh=size,
            labels=still.labels,
            media=f"media/{still.key}" if files else "",
        )
        for box in still.boxes:
            grown.box(frame=row, label=box.label, xyxy=box.xyxy, track=box.track, crowd=box.crowd)
        grown.set(set_id=still.key, anchor=row, members=())
    info = DatasetInfo(
        name=name or printable(target.resolve().name) or "photos",
        label_space=label_space,
        k=0,
        axis=NO_AXIS,
        provenance={"format": format, "media": how.media != "none"},
    )
    return ImportedDataset(dataset=grown.build(info, with_boxes=with_boxes, root=target))


# -- ILSVRC's validation images ----------------------------------------------------------------------------------


def ilsvrc_classes(source: Path, keys: Sequence[str]) -> dict[str, list[str]] | None:
    """Return the WordNet id of every `…/ILSVRC2012_val_00000001.JPEG` key, from a class file below `source`.

    The class file can be Kaggle's LOC_val_solution.csv, a list of 50,000 WordNet ids (…synset_labels.txt), or the
    devkit's ILSVRC2012_validation_ground_truth.txt with its meta.mat. Returns None if the photos are not ILSVRC's
    validation images, or if their folders are named by WordNet ids.
    """
    numbers = {key: found[1] for key in keys if (found := _VALIDATION.match(Path(key).stem))}
    if len(numbers) < len(keys) or {Path(key).parent.name for key in keys} <= set(space("ilsvrc-2012").ids):
        return None
    try:
        class_list = _classes_by_number(source)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StrobeError(f"{printable(source)}: cannot read the list of its classes ({error})") from error
    if class_list is None:
        raise StrobeError(
            f"{printable(source)} contains ILSVRC's validation images, but no list of their classes; put "
            "LOC_val_solution.csv, or ILSVRC2012_validation_ground_truth.txt and meta.mat, next to them, "
            "or pass <<labels>>"
        )
    path, by_number = class_list
    missing = next((key for key, number in numbers.items() if number not in by_number), None)
    if missing is not None:
        raise InvalidFile(path, f"no class for {printable(missing)}")
    known = space("ilsvrc-2012")
    for key, number in numbers.items():
        if by_number[number] not in known.ids:
            raise InvalidFile(
                path, f"{printable(by_number[number])!r} is not a WordNet id of ilsvrc-2012", where=printable(key)
            )
    return {key: [by_number[number]] for key, number in numbers.items()}


def _classes_by_number(source: Path) -> tuple[Path, dict[str, str]] | None:
    """Return the file with the classes, and the WordNet id by eight-digit number."""
    for path in sorted(source.rglob("LOC_val_solution.csv")):
        with regular(path).open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.reader(file) if len(row) > 1]
        found = ((_VALIDATION.match(row[0]), row[1].split()) for row in rows)
        return path, {number[1]: words[0] for number, words in found if number and words}
    for path in sorted(source.rglob("*synset_labels.txt")):
        return path, {f"{index:08d}": line.strip() for index, line in enumerate(_lines(path), start=1)}
    for path in sorted(source.rglob("ILSVRC2012_validation_ground_truth.txt")):
        names = _devkit_ids(path)
        lines = enumerate(_lines(path), start=1)
        return path, {f"{place:08d}": names.get(line.strip(), f"class {line.strip()}") for place, line in lines}
    return None


def _lines(path: Path) -> list[str]:
    return [line for line in regular(path).read_text(encoding="utf-8").splitlines() if line.strip()]


def _devkit_ids(path: Path) -> dict[str, str]:
    """Map the devkit's class numbers to WordNet ids. The two are in different orders."""
    meta = next(iter(sorted([*path.parent.rglob("meta.mat"), *path.parent.parent.rglob("meta.mat")])), None)
    if meta is None:
        raise InvalidFile(path, "it has class numbers, but no meta.mat", hint="put the devkit's meta.mat next to it")
    try:  # in a separate process: scipy's reader crashes on some damaged files
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(_synsets, regular(meta)).result()
    except InvalidFile:
        raise
    except Exception as error:  # damaged in one of many ways
        raise InvalidFile(meta, f"not the devkit's meta.mat ({printable(error, limit=80)})") from error


def _synsets(meta: Path) -> dict[str, str]:
    from scipy.io import loadmat

    with warnings.catch_warnings(action="ignore"):  # strobe reports a damaged file in one line
        table = loadmat(meta, squeeze_me=True)["synsets"]
    return {str(int(row["ILSVRC2012_ID"])): str(row["WNID"]) for row in table}


def of_wordnet(names: Sequence[str]) -> LabelSpace | None:
    """Return ILSVRC-2012 if every class is one of its WordNet ids. Models then choose among all 1,000 classes."""
    known = space("ilsvrc-2012")
    return known if set(names) <= set(known.ids) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhotoFiles:
    """Files that annotate the photos: a CSV of labels (or the classes of every photo), and boxes.

    By default, the class folders give the labels.
    """

    labels: Path | None = None
    label: tuple[str, ...] = ()
    boxes: Path | None = None
    label_space: str | None = None


def read_photos(source: Path, target: Path, *, files: PhotoFiles, how: ImportOptions) -> ImportedDataset:
    """Read labelled photos: class folders (names or WordNet ids), a CSV, or ILSVRC's validation images."""
    from strobe.build.camera_photos import find_photos, fitted_photos, photo_files

    if not source.is_dir():
        raise StrobeError(f"no such folder: {printable(source)}; pass the folder of the photos")
    listed = None
    if files.labels is None and files.boxes is None and not files.label:
        listed = ilsvrc_classes(source, list(photo_files([source])))
    photos, classes = find_photos(
        [source], labels=files.labels or listed, label=files.label, boxes=files.boxes, label_space=files.label_space
    )
    fitted: tuple[str, ...] = ()
    if files.boxes is not None:
        photos, fitted = fitted_photos(photos, files.boxes)
    chosen = classes if files.label_space else of_wordnet(classes.ids) or replace(classes, name=target.resolve().name)
    stills = [
        Still(
            key=photo.name,
            labels=tuple(chosen.index(classes.ids[label]) for label in photo.labels),
            boxes=tuple(replace(box, label=chosen.index(classes.ids[box.label])) for box in photo.boxes),
        )
        for photo in photos
    ]
    advice = advice_on_classes(chosen) if files.label_space is None and files.boxes is None else None
    done = import_photos(stills, source, target, label_space=chosen, how=how, with_boxes=files.boxes is not None)
    return replace(done, notes=(*done.notes, *fitted, *((advice,) if advice else ())))


FORMAT = ImportFormat(
    read=read_photos,
    about="""Photos, one set each (k = 0): SRC/<class>/<file> by name or WordNet id, or a flat folder with --labels.

    ILSVRC's validation images are recognised by their names. Their labels are read below SRC from
    LOC_val_solution.csv, a list of WordNet ids (…synset_labels.txt), or the devkit's ground truth and meta.mat.
    """,
    example="ILSVRC2012_val/ data/val --media link",
    options=(
        FormatOption(
            name="labels", kind=Path, help="CSV file,label. Use several rows for a photo with several right answers."
        ),
        FormatOption(name="label", several=True, help="A class that every photo shows. May be repeated."),
        FormatOption(
            name="boxes",
            kind=Path,
            help="CSV file,label,x0,y0,x1,y1, COCO JSON, or ILSVRC's LOC_…_solution.csv, to train and score detectors.",
        ),
        LABEL_SPACE,
    ),
    record=PhotoFiles,
    outside="photos",
)
