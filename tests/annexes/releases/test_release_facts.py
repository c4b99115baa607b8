"""Boxes, frame rates and frame types added to the two public releases, in the layouts that people have them in."""

import gzip
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from strobe.annexes.releases.vid_robust import import_vid_robust
from strobe.annexes.releases.ytbb_robust import YtbbFiles, import_ytbb_robust
from strobe.core.errors import InvalidFile, StrobeError
from strobe.core.labels import space
from strobe.store.bring_media import ImportOptions

NONE, COPY = ImportOptions(media="none"), ImportOptions(media="copy")
OLD, NEW = "ILSVRC2015_val_00000000", "ILSVRC2017_val_00758000"
CLASSES = {OLD: [27], NEW: [4, 6]}
"""A turtle; a bear and a bird, say: the numbers of two videos' classes."""


def release(root: Path) -> Path:
    """Two videos with sets of ±2 frames around frame 5."""
    keys = {video: [f"val/{video}/{index:06d}.JPEG" for index in range(3, 8)] for video in CLASSES}
    (root / "metadata").mkdir(parents=True)
    labels = {key: CLASSES[video] for video, own in keys.items() for key in own}
    (root / "metadata/labels.json").write_text(json.dumps(labels))
    pmsets = {own[2]: [key for key in own if key != own[2]] for own in keys.values()}
    (root / "metadata/pmsets.json").write_text(json.dumps(pmsets))
    return root


def xml(width: int, height: int, objects: list[tuple[int, tuple[float, ...]]]) -> str:
    """One frame as ILSVRC writes it: sides in the order xmax, xmin, ymax, ymin."""
    ids = space("imagenet-vid").ids
    parts = [
        f"<object><trackid>{track}</trackid><name>{ids[label]}</name><bndbox><xmax>{box[2]}</xmax><xmin>{box[0]}</xmin>"
        f"<ymax>{box[3]}</ymax><ymin>{box[1]}</ymin></bndbox><occluded>0</occluded><generated>1</generated></object>"
        for track, (label, box) in enumerate(objects)
    ]
    size = f"<size><width>{width}</width><height>{height}</height></size>"
    return f"<annotation>{size}{''.join(parts)}</annotation>"


def annotate(root: Path, *, last: int = 11, boxes: Any = None) -> Path:
    """XML files of whole videos, 0 to `last`, in the two folders of the two challenges."""
    for challenge, video in (("ILSVRC2015", OLD), ("ILSVRC2017", NEW)):
        folder = root / challenge / "Annotations/VID/val" / video
        folder.mkdir(parents=True)
        for index in range(last + 1):
            objects = [(label, (10.0 + index, 20.0, 40.0, 60.0)) for label in CLASSES[video]]
            text = xml(64, 80, boxes(index, objects) if boxes else objects)
            named = f"<annotation><folder>{video}</folder><filename>{index:06d}</filename>"
            (folder / f"{index:06d}.xml").write_text(text.replace("<annotation>", named))
    return root


def test_annotations_bring_boxes_tracks_and_sizes(tmp_path: Path) -> None:
    source, notes_of = release(tmp_path / "src"), annotate(tmp_path / "all")
    done = import_vid_robust(source, tmp_path / "dst", annotations=notes_of, how=NONE)
    data = done.dataset
    assert data.boxes is not None
    assert len(data.boxes.frame) == 5 * 1 + 5 * 2
    assert data.boxes.xyxy[0].tolist() == [13.0, 20.0, 40.0, 60.0]
    assert data.boxes.label[-2:].tolist() == [4, 6]
    assert data.boxes.track[-2:].tolist() == [0, 1]
    assert set(zip(data.frames.width.tolist(), data.frames.height.tolist(), strict=True)) == {(64, 80)}
    assert done.notes == ("XML annotations: 10 of 10 frames, 10 with the release's classes",)
    plain = import_vid_robust(source, tmp_path / "dst", how=NONE).dataset
    assert plain.frame_ids() == data.frame_ids(), "predictions of the release fit both"
    assert plain.boxes is None


@pytest.mark.parametrize("below", ["", "Annotations", "Annotations/VID", "Annotations/VID/val"])
def test_any_folder_of_the_annotations_will_do(below: str, tmp_path: Path) -> None:
    source = release(tmp_path / "src")
    only = {video: CLASSES[video] for video in (OLD,)}
    for name in ("labels", "pmsets"):
        path = source / f"metadata/{name}.json"
        path.write_text(json.dumps({key: one for key, one in json.loads(path.read_text()).items() if OLD in key}))
    found = import_vid_robust(
        source, tmp_path / "dst", annotations=annotate(tmp_path / "all") / "ILSVRC2015" / below, how=NONE
    )
    assert len(found.dataset.boxes.frame) == 5 * len(only)  # type: ignore[union-attr]


def test_annotations_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    source = release(tmp_path / "src")

    def imported(annotations: Path) -> Any:
        return import_vid_robust(source, tmp_path / "dst", annotations=annotations, how=NONE)

    with pytest.raises(StrobeError, match="no such folder"):
        imported(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StrobeError, match="10 of 10 frames have no XML"):
        imported(tmp_path / "empty")
    with pytest.raises(StrobeError, match=r"2 of 10 frames have no XML under .*000007\.xml"):
        imported(annotate(tmp_path / "short", last=6))
    other = annotate(tmp_path / "other", boxes=lambda _, objects: [(1, box) for _, box in objects])
    with pytest.raises(InvalidFile, match=r"contradict the release in 10 of 10 frames; first val/.*: antelope instead"):
        imported(other)
    swapped = annotate(
        tmp_path / "swapped", boxes=lambda _, o: [(label, (x1, y0, x0, y1)) for label, (x0, y0, x1, y1) in o]
    )
    with pytest.raises(InvalidFile, match="none of its objects has a box with an area"):
        imported(swapped)
    shares = annotate(tmp_path / "shares", boxes=lambda _, o: [(label, (0.1, 0.2, 0.5, 0.6)) for label, _ in o])
    with pytest.raises(StrobeError, match="look like fractions of the image"):
        imported(shares)
    assert not (tmp_path / "dst").exists()


def snippet(path: Path, n_frames: int, *, rate: int = 25) -> None:
    """An H.264 video with I, P and B frames."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate, options={"g": "6", "bf": "2"})
        stream.width, stream.height, stream.pix_fmt = 64, 80, "yuv420p"
        rng = np.random.default_rng(1)
        for _ in range(n_frames):
            image = rng.integers(0, 256, (80, 64, 3), np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, "rgb24")))
        container.mux(stream.encode(None))


def test_snippets_bring_frame_rates_times_and_types(tmp_path: Path) -> None:
    snippet(tmp_path / f"snippets/val/{OLD}.mp4", 12)
    snippet(tmp_path / f"snippets/val/{NEW}.mp4", 6)
    done = import_vid_robust(release(tmp_path / "src"), tmp_path / "dst", videos=tmp_path / "snippets", how=NONE)
    data = done.dataset
    assert (data.videos.fps(0), data.videos.fps(1)) == (Fraction(25), None)
    assert int(data.videos.n_frames[0]) == 12
    assert data.frames.time_s[:5].tolist() == pytest.approx([index / 25 for index in range(3, 8)])
    assert set(data.frames.pict_type[:5]) <= {"I", "P", "B"}
    assert set(data.frames.pict_type[5:]) == {""}
    assert done.notes == (
        "frame rate, times and frame types: 1 of 2 videos",
        f"1 video(s) were not used, first: {NEW} has 6 frames, but frame 7 is used",
    )


YTID = "KxDh7a8_AmU"


def ytbb(root: Path) -> Path:
    """One anchor at 200 ms, which is frame 5 at 25 frames a second, with two neighbours."""
    anchor = f"{YTID}_200/frame-5.jpg"
    (root / "ytbb_videos" / f"{YTID}_200").mkdir(parents=True)
    for index in (4, 5, 6):
        Image.new("RGB", (200, 100)).save(root / f"ytbb_videos/{YTID}_200/frame-{index}.jpg")
    labels = ["good", "similar"]
    one = {"annotations": [{"key": anchor, "notes": "", "labels": [0]}], "labels": labels}
    (root / "anchor_labels.json").write_text(json.dumps(one))
    (root / "anchors.csv").write_text(f"ytid,time_ms,label\n{YTID},200,0\n")
    return root


def table(path: Path, *rows: str) -> Path:
    path.write_bytes(gzip.compress("".join(f"{row}\n" for row in rows).encode()))
    return path


def test_youtube_bb_boxes_are_fractions_and_go_to_the_anchors(tmp_path: Path) -> None:
    source = ytbb(tmp_path / "src")
    csv = table(
        tmp_path / "yt_bb_detection_validation.csv.gz",
        f"{YTID},200,0,person,3,present,0.1,0.6,0.25,0.75",
        f"{YTID},200,0,person,4,absent,-1.0,-1.0,-1.0,-1.0",
        f"{YTID},1200,0,person,3,present,0.0,0.1,0.0,0.1",
        "AAAAAAAAAAA,200,5,bear,0,present,0.0,0.1,0.0,0.1",
    )
    done = import_ytbb_robust(source, tmp_path / "dst", files=YtbbFiles(annotations=csv), how=COPY)
    boxes = done.dataset.boxes
    assert boxes is not None
    assert boxes.xyxy.tolist() == [[20.0, 25.0, 120.0, 75.0]]
    assert boxes.track.tolist() == [3]
    assert done.dataset.frames.key[boxes.frame[0]].endswith("frame-5.jpg")
    assert "anchors with annotated boxes: 1 of 1 frames, 1 with the release's classes" in done.notes
    with pytest.raises(StrobeError, match="fractions of the image; remove --no-media"):
        import_ytbb_robust(source, tmp_path / "x", files=YtbbFiles(annotations=csv), how=NONE)
    for row, problem in (
        (f"{YTID},200,0,person,3,present,0.6,0.1,0.25,0.75", "order xmin, xmax, ymin, ymax; first line 1"),
        (f"{YTID},200,0,person,3,present,20,120,25,75", "not fractions"),
        (f"{YTID},200,5,bear,3,present,0.1,0.6,0.25,0.75", "contradict the release in 1 of 1 frames"),
        (f"{YTID},200,0,person,present", "give the detection CSV"),
        (f"{YTID},900,0,person,3,present,0.1,0.6,0.25,0.75", "none of its boxes is at an anchor"),
    ):
        with pytest.raises(InvalidFile, match=problem):
            import_ytbb_robust(
                source, tmp_path / "x", files=YtbbFiles(annotations=table(tmp_path / "bad.csv.gz", row)), how=COPY
            )


@pytest.mark.parametrize(("rate", "fits"), [(25, True), (10, False)])
def test_videos_of_youtube_bb_are_checked_by_the_anchors_time(rate: int, fits: bool, tmp_path: Path) -> None:
    source = ytbb(tmp_path / "src")
    snippet(tmp_path / f"videos/{YTID}.mp4", 12, rate=rate)
    done = import_ytbb_robust(source, tmp_path / "dst", files=YtbbFiles(videos=tmp_path / "videos"), how=COPY)
    assert (done.dataset.videos.fps(0) == Fraction(25)) is fits
    assert any("another version of the video: frame 5 is at 0.500 s" in note for note in done.notes) is not fits
