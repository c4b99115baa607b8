"""Images with variants from other sources (crops, other backgrounds, the object alone): a set per image and rung.

The whole image is the anchor of all its sets, which form one group. Whole images and rungs are marked as model inputs,
which are resized and never cropped, so they differ only by the rung's change.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from strobe.core.builder import DatasetBuilder, frame_list_digest, written
from strobe.core.dataset import DatasetInfo
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.labels import LabelSpace
from strobe.core.records import Box
from strobe.core.variants import MIXED, Variant
from strobe.formats.import_frames import IMAGE_ENDINGS
from strobe.formats.sampled import ImportedDataset
from strobe.store.bring_media import ImportOptions, image_size_and_hash

USUAL = "usual"
"""The control that shows the whole image again with each model's own preprocessing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeImage:
    """An original image: its key, classes, boxes, and the keys of its variants by rung."""

    key: str
    labels: tuple[int, ...]
    rungs: Mapping[str, tuple[str, ...]]
    boxes: tuple[Box, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderRelease:
    """A release to import: the name and licence of its dataset, its possible rungs, and its classes."""

    format: str
    name: str
    rungs: Sequence[Variant]
    label_space: LabelSpace
    licence: str = "the pictures' own; not distributed with strobe"
    facts: Mapping[str, str] = field(default_factory=dict)


def rung(name: str, *, control: bool = False, axis: str = "rung", unit: str = "", said: Mapping[str, str]) -> Variant:
    """A rung of a background ladder from another source, with one nominal level. `said` holds further fields."""
    return Variant(
        variant=name,
        axis=axis,
        unit=unit,
        ordered=False,
        levels=(1.0,),
        role="control" if control else "same",
        fields={"kind": "background", "rung": name, "fit": "squash", **said},
    )


def class_files(source: Path, *, what: str) -> dict[str, Path]:
    """Return every image of `SRC/<class>/<file>` by that name, sorted.

    Raises an error if there is no image, or if an image is misplaced.
    """
    if not source.is_dir():
        raise StrobeError(f"no such folder: {printable(source)}; give the folder of {what}, <class>/<file>")
    files = {path.relative_to(source).as_posix(): path for path in _images(source)}
    if not files:
        raise StrobeError(f"no images under {printable(source)}; expected {what} as <class>/<file>")
    for key in files:
        written(key)
        if key.count("/") != 1:
            raise StrobeError(
                f"{printable(source / key)} is not in a class folder; expected <class>/<file> directly below "
                f"{printable(source)}; give that folder, or move the file away"
            )
    return files


def _images(folder: Path) -> Iterator[Path]:
    return (
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in IMAGE_ENDINGS and not path.name.startswith(".") and path.is_file()
    )


def import_rungs(
    wholes: Sequence[WholeImage], origins: Mapping[str, Path], target: Path, *, of: LadderRelease, how: ImportOptions
) -> ImportedDataset:
    """Return the sets of these images. `origins` maps keys to files. A rung that an image lacks has no set.

    With a rung `usual`, every image is also its own variant. That variant is not marked as a model input.
    """
    stored = how.media != "none"
    used = {name for original in wholes for name in original.rungs} | {USUAL}
    grown, hashes = DatasetBuilder(), dict[str, list[str]]()
    own = [variant for variant in of.rungs if variant.variant in used]
    for variant in own:
        grown.variant(variant)

    def frame(key: str, photo: int, index: int, labels: Sequence[int], *, name: str = "") -> int:
        digest, size, media = "", (0, 0), ""
        if stored:
            media = f"media/{key}"
            how.file(origins[key], target / media)
            digest, size = image_size_and_hash(target / media)
            if not all(size):
                raise InvalidFile(origins[key], "not a readable image", hint="download it again, or move it away")
            if not index:
                hashes.setdefault(digest, []).append(key)
        return grown.frame(
            video=photo,
            index=index,
            key=name or key,
            sha256=digest,
            size_wh=size,
            labels=labels,
            media=media,
            as_input=not name,
        )

    with how.progress.task("images", len(wholes)) as advance:
        for original in wholes:
            photo = grown.video(video_id=frame_list_digest([original.key]), name=original.key, kind="photo")
            anchor = frame(original.key, photo, 0, original.labels)
            for box in original.boxes:
                grown.box(frame=anchor, label=box.label, xyxy=box.xyxy)
            for place, variant in enumerate(of.rungs, start=1):
                # The frame index depends only on the rung, so adding a rung later changes no frame's name.
                if variant.variant == USUAL:
                    members = [frame(original.key, photo, place, (), name=f"{USUAL}/{original.key}")]
                else:
                    keys = original.rungs.get(variant.variant, ())
                    members = [frame(key, photo, place + number * len(of.rungs), ()) for number, key in enumerate(keys)]
                if members:
                    grown.set(
                        set_id=f"{original.key}@{variant.variant}",
                        anchor=anchor,
                        variant=variant.variant,
                        group=original.key,
                        members=[(member, 1.0) for member in members],
                    )
            advance(1)
    axes = {variant.axis for variant in own}
    info = DatasetInfo(
        name=of.name,
        label_space=of.label_space,
        k=1,
        axis=axes.pop() if len(axes) == 1 else MIXED,
        label_source="anchor",
        licence=of.licence,
        provenance={"format": of.format, "media": stored, **of.facts},
    )
    boxed, notes = any(original.boxes for original in wholes), (*twice(hashes), *grown.check_boxes())
    return ImportedDataset(dataset=grown.build(info, with_boxes=boxed, root=target), notes=notes)


def twice(hashes: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Return a note if files with different names have the same bytes, because their image counts twice."""
    same = [keys for keys in hashes.values() if len(keys) > 1]
    if same:
        first, second = same[0][:2]
        yield (
            f"{sum(map(len, same)) - len(same)} image(s) are copies of others, first {printable(first)} and "
            f"{printable(second)}; every copy counts, so remove unwanted ones"
        )
