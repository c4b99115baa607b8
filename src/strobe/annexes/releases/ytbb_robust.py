"""The YTBB-Robust release: anchors with densified labels, pair annotations, frames by video and time.

Layout: `ytbb_videos/<id>_<ms>/frame-<n>.jpg`, annotation JSON (core.annotations) for anchors and for pairs, and the CSV
of listed anchors (`ytid,time_ms,label`). In that CSV, 22 means car. In the annotations' class index, 22 means none and
23 means car.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from strobe.annexes.releases.release_facts import (
    UNKNOWN_VIDEO,
    Shares,
    VideoFacts,
    check_labels,
    read_video_facts,
    read_ytbb_boxes,
)
from strobe.annexes.releases.youtube_bb import listed_anchors
from strobe.core.annotations import Annotation, anchor_verdict, pair_verdict, parse_annotations
from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import InvalidFile, StrobeError, printable
from strobe.core.files import read_json
from strobe.core.labels import space
from strobe.core.records import frame_id
from strobe.formats.registry import FormatOption, ImportFormat
from strobe.formats.sampled import ImportedDataset
from strobe.store.bring_media import ImportOptions

_K = 10
_AT = "2019-01-01T00:00:00Z"  # the release gives no dates; a fixed time keeps the import deterministic
_ANNOTATOR = "release"
_KEY = re.compile(r"^(?P<clip>(?P<ytid>.{11})_(?P<ms>\d{1,12}))/frame-(?P<index>\d{1,12})\.jpg$")


@dataclass(frozen=True, slots=True, kw_only=True)
class YtbbFiles:
    """The paths of the release's parts.

    If a path is None, strobe searches for the usual names below the source folder.
    """

    anchors: Path | None = None
    pairs: Path | None = None
    listed: Path | None = None
    annotations: Path | None = None
    videos: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Added:
    """Facts from outside the release: boxes by the anchor's folder <id>_<ms>, and videos by YouTube id."""

    boxes: Mapping[str, Shares]
    videos: Mapping[str, VideoFacts]


def import_ytbb_robust(source: Path, target: Path, *, files: YtbbFiles, how: ImportOptions) -> ImportedDataset:
    """Make candidate sets and the release's votes. The votes determine the reviewed sets.

    Members get the anchor's labels.
    """
    if not source.is_dir():
        raise StrobeError(f"no such folder: {printable(source)}; give the folder of the ytbb-robust release")
    anchors_path = files.anchors or _find(
        source, ("anchor_labels.json", "anchors.json"), "anchor annotations", "<<anchors>>"
    )
    listed_path = files.listed or _find(
        source, ("ytbb_robustness_test_anchors_full.csv", "anchors.csv"), "list of anchors", "<<listed>>"
    )
    pairs_path = files.pairs or _first(source, ("pair_labels.json", "pairs.json", "frame_pair_labels.json"))
    root = source / "ytbb_videos" if (source / "ytbb_videos").is_dir() else source
    given = {f"{ytid}_{ms}": names for (ytid, ms), names in listed_anchors(listed_path).items()}
    anchors = _single(anchors_path, parse_annotations(read_json(anchors_path), anchors_path))
    notes = []
    if pairs_path is not None:
        pairs = _pairs(pairs_path, parse_annotations(read_json(pairs_path), pairs_path), anchors)
    else:
        pairs = _on_disk(anchors_path, root, anchors)
        n_found = sum(map(len, pairs.values()))
        what = f"{n_found} unreviewed neighbours from the frame folders" if n_found else "only their anchors"
        notes.append(f"no pair annotations found (--pairs), so sets contain {what}")

    boxes = _anchor_boxes(files.annotations, given, anchors, how, notes) if files.annotations else {}
    keys = sorted({key for anchor, members in pairs.items() for key in (anchor, *members)} | set(anchors))
    facts = _facts(files.videos, anchors_path, anchors, keys, how, notes) if files.videos else {}
    found = how.files(root, target, keys)
    added = _Added(boxes=boxes, videos=facts)
    dataset = _assemble(anchors_path, target, given, anchors, pairs, found, added, notes)
    return ImportedDataset(dataset=dataset, notes=tuple(notes))


def _assemble(
    anchors_path: Path,
    target: Path,
    given: dict[str, tuple[str, ...]],
    anchors: dict[str, Annotation],
    pairs: dict[str, dict[str, Annotation | None]],
    neighbours: dict[str, tuple[str, tuple[int, int]]],
    added: "_Added",
    notes: list[str],
) -> Dataset:
    labels = space("youtube-bb")
    grown = DatasetBuilder()
    videos: dict[str, int] = {}
    rows: dict[str, int] = {}
    by_index: dict[tuple[str, int], str] = {}

    def add(key: str, anchor_labels: list[int]) -> int:
        _, ytid, index = _split(anchors_path, key)
        if ytid not in videos:
            # A YouTube id always identifies the same video, but YouTube may re-encode the file at any time.
            known = added.videos.get(ytid, UNKNOWN_VIDEO)
            videos[ytid] = grown.video(video_id=f"yt-{ytid}", name=ytid, fps=known.fps, n_frames=known.n_frames)
        other = by_index.setdefault((ytid, index), key)
        if other != key:
            raise InvalidFile(anchors_path, f"{printable(key)} and {printable(other)} are the same frame of one video")
        if key not in rows:
            digest, size = neighbours.get(key, ("", (0, 0)))
            time_s, pict_type = added.videos.get(ytid, UNKNOWN_VIDEO).at(index)
            rows[key] = grown.frame(
                video=videos[ytid],
                index=index,
                key=key,
                time_s=time_s,
                pict_type=pict_type,
                sha256=digest,
                size_wh=size,
                media=f"media/{key}" if neighbours else "",
                labels=anchor_labels,
            )
        return rows[key]

    for anchor, annotation in anchors.items():
        clip, ytid, index = _split(anchors_path, anchor)
        if clip not in given:
            raise InvalidFile(anchors_path, f"anchor {printable(anchor)} is not in the list of anchors (CSV)")
        names = given[clip]
        row = add(anchor, [labels.index(name) for name in names])
        width, height = neighbours.get(anchor, ("", (0, 0)))[1]
        for label, (x0, y0, x1, y1), number in added.boxes.get(clip, ()) if width else ():
            grown.box(frame=row, label=label, xyxy=(x0 * width, y0 * height, x1 * width, y1 * height), track=number)
        members = []
        for key in pairs.get(anchor, {}):
            offset = _split(anchors_path, key)[2] - index
            members.append((add(key, [labels.index(name) for name in names]), offset))
        grown.set(set_id=anchor, anchor=row, members=members)
        anchor_id = frame_id(f"yt-{ytid}", index)
        grown.verdict(
            anchor_verdict(annotation, annotator=_ANNOTATOR, at=_AT, set_id=anchor, frame_id=anchor_id, given=names)
        )
        for key, pair in pairs.get(anchor, {}).items():
            if pair is None:
                continue
            grown.verdict(
                pair_verdict(
                    pair,
                    annotator=_ANNOTATOR,
                    at=_AT,
                    set_id=anchor,
                    frame_id=frame_id(f"yt-{ytid}", _split(anchors_path, key)[2]),
                )
            )
    notes += grown.check_boxes()
    info = DatasetInfo(
        name="ytbb-robust",
        label_space=labels,
        k=_K,
        label_source="anchor",
        reviewed="votes",
        licence="frames belong to their authors on Youtube; not distributed with strobe",
        provenance={"format": "ytbb-robust", "media": bool(neighbours), "notes": notes},
    )
    return grown.build(info, root=target)


def _anchor_boxes(
    path: Path,
    given: Mapping[str, tuple[str, ...]],
    anchors: Mapping[str, Annotation],
    how: ImportOptions,
    notes: list[str],
) -> dict[str, Shares]:
    """Return the annotated boxes of every anchor by its folder <id>_<ms>, checked against the list of anchors."""
    if how.media == "none":
        raise StrobeError(
            "<<annotations>> needs the frames, because Youtube-BB's boxes are fractions of the image; remove "
            "<<no_media>>"
        )
    labels, used = space("youtube-bb"), {key.split("/")[0] for key in anchors}
    listed = {
        (clip[:11], int(clip[12:])): [labels.index(name) for name in names]
        for clip, names in given.items()
        if clip in used
    }
    boxes = read_ytbb_boxes(path, listed)
    seen = {f"{ytid}_{ms}": sorted({label for label, _, _ in box}) for (ytid, ms), box in boxes.items()}
    wanted = {f"{ytid}_{ms}": names for (ytid, ms), names in listed.items()}
    notes += check_labels(path, wanted, seen, labels, what="anchors with annotated boxes")
    notes.append("only anchors have boxes in Youtube-BB, so detectors cannot be scored on whole sets")
    return {f"{ytid}_{ms}": one for (ytid, ms), one in boxes.items()}


def _facts(
    folder: Path,
    path: Path,
    anchors: Mapping[str, Annotation],
    keys: Sequence[str],
    how: ImportOptions,
    notes: list[str],
) -> dict[str, VideoFacts]:
    """Return the facts of the videos whose frames are at the times that the anchors' folders give."""
    wanted: dict[str, list[int]] = {}
    for key in keys:
        _, ytid, index = _split(path, key)
        wanted.setdefault(ytid, []).append(index)
    facts, more = read_video_facts(folder, wanted, progress=how.progress)
    notes += more
    for key in anchors:
        clip, ytid, index = _split(path, key)
        time_s = facts.get(ytid, UNKNOWN_VIDEO).at(index)[0]
        # The release's frames are numbered from 0, and its times are truncated to 1 ms.
        if time_s is not None and abs(1000 * time_s - int(clip[12:])) > 1 + 1000 / (facts[ytid].fps or 25):
            notes.append(
                f"{printable(ytid)}.* is another version of the video: frame {index} is at {float(time_s):.3f} s, "
                f"not at {int(clip[12:]) / 1000:.3f} s; its frame rate and types were left out"
            )
            del facts[ytid]
    return facts


def _first(source: Path, names: tuple[str, ...]) -> Path | None:
    for name in names:
        for path in (source / "metadata" / name, source / name):
            if path.is_file():
                return path
    return None


def _on_disk(path: Path, root: Path, anchors: dict[str, Annotation]) -> dict[str, dict[str, Annotation | None]]:
    """Return the frames near each anchor that exist in its folder, without annotations."""
    out: dict[str, dict[str, Annotation | None]] = {}
    for anchor in anchors:
        clip, _, index = _split(path, anchor)
        near = (f"{clip}/frame-{place}.jpg" for place in range(index - _K, index + _K + 1) if place != index)
        out[anchor] = {key: None for key in near if (root / key).is_file()}
    return out


def _find(source: Path, names: tuple[str, ...], what: str, option: str) -> Path:
    found = _first(source, names)
    if found is not None:
        return found
    raise StrobeError(
        f"{printable(source)} has no {what} (looked for {', '.join(names)}, also under metadata/); "
        f"name the file with {option}"
    )


def _split(path: Path, key: str) -> tuple[str, str, int]:
    match = _KEY.match(key)
    if match is None:
        raise InvalidFile(path, f"expected <id>_<ms>/frame-<n>.jpg, got {printable(key)}")
    return match["clip"], match["ytid"], int(match["index"])


def _single(path: Path, annotations: list[Annotation]) -> dict[str, Annotation]:
    out: dict[str, Annotation] = {}
    for annotation in annotations:
        if len(annotation.keys) != 1:
            raise InvalidFile(path, f"expected single anchors, got the pair {printable(annotation.keys)}")
        if annotation.keys[0] in out:
            raise InvalidFile(path, f"anchor {printable(annotation.keys[0])} appears twice")
        out[annotation.keys[0]] = annotation
    return out


def _pairs(
    path: Path, annotations: list[Annotation], anchors: dict[str, Annotation]
) -> dict[str, dict[str, Annotation | None]]:
    out: dict[str, dict[str, Annotation | None]] = {}
    for annotation in annotations:
        if len(annotation.keys) != 2:
            raise InvalidFile(path, f"expected <anchor>,<frame>, got {printable(annotation.keys[0])}")
        anchor, key = annotation.keys
        if anchor not in anchors:
            raise InvalidFile(path, f"anchor {printable(anchor)} has no anchor annotation")
        clip, _, index = _split(path, anchor)
        other_clip, _, other = _split(path, key)
        if other_clip != clip or not 0 < abs(other - index) <= _K:
            raise InvalidFile(path, f"{printable(key)} is not a neighbour within {_K} frames of {printable(anchor)}")
        if key in out.setdefault(anchor, {}):
            raise InvalidFile(path, f"the pair {printable(anchor)},{printable(key)} appears twice")
        out[anchor][key] = annotation
    return out


FORMAT = ImportFormat(
    read=import_ytbb_robust,
    about="YTBB-Robust as released: frames in ytbb_videos/<id>_<ms>/. Anchor and pair annotations become votes.",
    example="ytbb-robust/ data/ytbb --pairs pair_labels.json",
    options=(
        FormatOption(
            name="anchors", kind=Path, help="Anchor annotations (JSON). Default: anchor_labels.json below SRC."
        ),
        FormatOption(name="pairs", kind=Path, help="Pair annotations (JSON). Default: pair_labels.json below SRC."),
        FormatOption(
            name="listed", kind=Path, help="CSV ytid,time_ms,label of the listed anchors. Default: searched below SRC."
        ),
        FormatOption(
            name="annotations", kind=Path, help="Youtube-BB's detection CSV (or .csv.gz). Adds the anchors' boxes."
        ),
        FormatOption(
            name="videos",
            kind=Path,
            help="Folder of videos named by YouTube id. Adds frame rates, times and frame types.",
        ),
    ),
    record=YtbbFiles,
)
