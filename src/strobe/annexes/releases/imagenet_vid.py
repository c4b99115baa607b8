"""ImageNet-Vid as ILSVRC ships it: Data/VID/<split>/<video>/<n>.JPEG and Annotations/VID/<split>/<video>/<n>.xml.

Every object in a frame gives a label, a box and a track. The box's corners are read unchanged. Anchors are frames that
show any of the thirty classes: one random frame per video, or every N-th frame.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from strobe.core.errors import InvalidFile, InvalidValue, StrobeError, UnknownName, printable
from strobe.core.files import regular
from strobe.core.labels import LabelSpace, space
from strobe.core.late import require
from strobe.formats.registry import FormatOption, ImportFormat
from strobe.formats.sampled import (
    FrameBox,
    FrameContents,
    ImportedDataset,
    ImportSampling,
    Origin,
    SourceVideo,
    import_sampled,
)
from strobe.store.bring_media import ImportOptions


def import_imagenet_vid(
    source: Path,
    target: Path,
    *,
    split: str,
    every: int | None,
    all_frames: bool,
    draw: ImportSampling,
    how: ImportOptions,
) -> ImportedDataset:
    """Make candidate sets with labels, boxes and tracks.

    The annotations define the frames, so images may be missing. Sets around neighbouring anchors share frames.
    """
    if all_frames and every is not None:
        raise InvalidValue("<<all_frames>> is the same as <<every=1>>; pass one of them")
    if all_frames or every is not None:
        draw = replace(draw, every=every or 1)
    root = _root(source)
    annotations, images = root / "Annotations/VID" / split, root / "Data/VID"
    if not annotations.is_dir():
        there = sorted(path.name for path in (root / "Annotations/VID").iterdir() if path.is_dir())
        choice = f"<<split>> can be {', '.join(there)}" if there else "it is empty"
        raise StrobeError(f"{printable(root)} has no Annotations/VID/{printable(split)}; {choice}")
    if how.media != "none" and not (images / split).is_dir():
        raise StrobeError(f"{printable(root)} has no Data/VID/{printable(split)}; get the images, or use <<no_media>>")
    videos = [_video(folder, annotations.parent) for folder in _video_folders(annotations)]
    if not videos:
        raise StrobeError(f"no video with XML annotations under {printable(annotations)}")
    origin = Origin(
        name=f"imagenet-vid-{split}",
        format="imagenet-vid",
        label_space=space("imagenet-vid"),
        media_root=images,
        with_boxes=True,
        licence="ImageNet terms of access (non-commercial research); not distributed with strobe",
        facts={"split": split},
    )
    return import_sampled(videos, target, origin=origin, draw=draw, how=how)


def _root(source: Path) -> Path:
    if not source.is_dir():
        raise StrobeError(f"no such folder: {printable(source)}; give the ILSVRC folder (with Data/ and Annotations/)")
    for root in (source, *sorted(path for path in source.iterdir() if path.is_dir())):
        if (root / "Annotations/VID").is_dir():
            return root
    raise StrobeError(
        f"{printable(source)} has no Annotations/VID; give the folder of ILSVRC 2015 or 2017 that holds Data/ and "
        "Annotations/"
    )


def _video_folders(annotations: Path) -> Iterator[Path]:
    """Return the folders that contain XML files. The training split has one more level than the validation split."""
    for folder in sorted(path for path in annotations.iterdir() if path.is_dir()):
        if any(folder.glob("*.xml")):
            yield folder
        else:
            yield from (inner for inner in sorted(folder.iterdir()) if inner.is_dir() and any(inner.glob("*.xml")))


def _video(folder: Path, top: Path) -> SourceVideo:
    keys: dict[int, str] = {}
    for path in sorted(folder.glob("*.xml")):
        if not path.stem.isdecimal() or len(path.stem) > 12:
            raise InvalidFile(path, "expected a frame number as the file's name, such as 000012.xml")
        keys[int(path.stem)] = path.relative_to(top).with_suffix(".JPEG").as_posix()
    see = partial(_see, top, keys)
    return SourceVideo(name=folder.name, keys=keys, see=see)


def _see(top: Path, keys: Mapping[int, str], index: int) -> FrameContents:
    return read_annotation((top / keys[index]).with_suffix(".xml"), space("imagenet-vid"))


def read_annotation(path: Path, label_space: LabelSpace) -> FrameContents:
    """Parse one frame's XML. A document with a DTD or entities is refused."""
    etree = require("defusedxml.ElementTree", what="reading XML annotations", extra="video")
    common = require("defusedxml.common", what="reading XML annotations", extra="video")
    try:
        tree = etree.fromstring(regular(path).read_bytes(), forbid_dtd=True)
    except common.DefusedXmlException as error:
        raise InvalidFile(path, "XML with a DTD or entities is refused") from error
    except etree.ParseError as error:
        raise InvalidFile(path, f"not XML ({printable(error, limit=80)})", hint="is it truncated?") from error
    except OSError as error:
        raise StrobeError(f"cannot read {printable(path)}: {error.strerror}") from error
    boxes = []
    for index, node in enumerate(tree.findall("object")):
        where = f"object {index}"
        name = (node.findtext("name") or "").strip()
        try:
            label = label_space.index(name)
        except UnknownName as error:
            raise InvalidFile(path, f"{printable(name)!r} is not a class of {label_space.name}", where=where) from error
        x0, y0, x1, y1 = (_number(path, where, node, f"bndbox/{side}") for side in ("xmin", "ymin", "xmax", "ymax"))
        track = _number(path, where, node, "trackid") if node.find("trackid") is not None else -1
        boxes.append((label, (x0, y0, x1, y1), int(track)))
    is_named = [_names_itself(path, tree, side) for side in ("filename", "folder")]
    size = tuple(int(_number(path, "size", tree, f"size/{side}")) for side in ("width", "height"))
    return FrameContents(
        # An object whose box has no area, at the frame's edge, still gives a label, but no box.
        labels=tuple(dict.fromkeys(label for label, _, _ in boxes)),
        boxes=tuple(
            FrameBox(label=label, xyxy=xyxy, track=track)
            for label, xyxy, track in boxes
            if xyxy[2] > xyxy[0] and xyxy[3] > xyxy[1]
        ),
        size_wh=(size[0], size[1]),
        is_named=all(is_named),
    )


def _names_itself(path: Path, tree: Any, side: str) -> bool:
    """Return whether the document names its own frame (filename) or video (folder). Refuse the name of another."""
    text = (tree.findtext(side) or "").strip()
    name, own = text.rsplit("/", 1)[-1].split(".")[0], path.stem if side == "filename" else path.parent.name
    if text and name != own and not (name.isdecimal() and own.isdecimal() and int(name) == int(own)):
        raise InvalidFile(
            path,
            f"its <{side}> is {printable(text)!r}, so it belongs to another frame or video",
            hint="are the files renamed or shifted?",
        )
    return bool(text)


def _number(path: Path, where: str, node: Any, name: str) -> float:
    text = (node.findtext(name) or "").strip()
    try:
        value = float(text)
    except ValueError as error:
        raise InvalidFile(path, f"{name} is not a number: {printable(text)!r}", where=where) from error
    if not abs(value) < 1e9:
        raise InvalidFile(path, f"{name} is out of range: {printable(text)!r}", where=where)
    return value


FORMAT = ImportFormat(
    read=import_imagenet_vid,
    about="ILSVRC 2015/2017 ImageNet-Vid: labels, boxes and tracks from the XML. Default: one random anchor per video.",
    example="ILSVRC2015/ data/vid --split val",
    options=(
        FormatOption(name="split", default="val", help="The folder below Data/VID and Annotations/VID."),
        FormatOption(name="every", kind=int, least=1, help="Make a set around every N-th frame. Sets share frames."),
        FormatOption(name="all_frames", kind=bool, help="Make a set around every frame with a label, for training."),
    ),
    draw=True,
)
