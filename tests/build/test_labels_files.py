"""Labels, boxes and anchors from files."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from strobe.build.index import VideoIndex
from strobe.build.labels import (
    AnchorRow,
    by_video,
    eligible_frames,
    labels_at,
    read_anchors,
    read_boxes,
    read_labels,
)
from strobe.core.errors import InvalidFile, InvalidValue, StrobeError

INDEX = VideoIndex(
    path=Path("a.mp4"), container="mp4", codec="h264", time_base=Fraction(1, 10), fps=Fraction(10), size_wh=(8, 8),
    pts=np.arange(50, 100), keys=(),
)  # fmt: skip


def write(folder: Path, text: str, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_labels_of_videos_spans_and_frames(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "\ufeffvideo,label,start_s,end_s,frame\na.mp4,dog,,,\na.mp4,ball|cat,1.0,2.0,\na.mp4,frisbee,,,7\n\n",
    )
    rows = read_labels(path)
    assert labels_at(rows, 0, Fraction(0)) == ["dog"]
    assert labels_at(rows, 10, Fraction(1)) == ["dog", "ball", "cat"]
    assert labels_at(rows, 20, Fraction(2)) == ["dog", "ball", "cat"]
    assert labels_at(rows, 21, Fraction(21, 10)) == ["dog"]
    assert labels_at(rows, 7, Fraction(7, 10)) == ["dog", "frisbee"]
    assert eligible_frames(rows, INDEX) is None
    assert eligible_frames(rows[1:3], INDEX) == list(range(10, 21))
    assert eligible_frames(rows[3:], INDEX) == [7]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label\ndog\n", "column 'video' is missing"),
        ("video,label\na,\n", "line 2: the label is empty"),
        ("video,label\n,dog\n", "line 2: the video is empty"),
        ("video,label,start_s,end_s\na,dog,1,\n", "both start_s and end_s"),
        ("video,label,start_s,end_s\na,dog,3,1\n", "before it starts"),
        ("video,label,start_s,end_s\na,dog,x,1\n", "start_s is not a number: 'x'"),
        ("video,label,start_s,end_s\na,dog,1/0,1\n", "not a number"),
        ("video,label,frame\na,dog,-1\n", "frame is negative"),
        ("video,label,frame,start_s,end_s\na,dog,1,1,2\n", "give only one"),
        ("video,label\na,dog,more\n", "expected 2 values"),
        ("video,label,frame\na,dog\n", "expected 3 values"),
    ],
)
def test_broken_label_rows_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidFile, match=message) as caught:
        read_labels(write(tmp_path, text))
    assert "rows.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_labels_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"video,label\n\xff\xfe,dog\n")
    with pytest.raises(InvalidFile, match="UTF-8"):
        read_labels(path)
    with pytest.raises(StrobeError, match="no such file"):
        read_labels(tmp_path / "absent.csv")


def test_rows_outside_the_video(tmp_path: Path) -> None:
    rows = read_labels(write(tmp_path, "video,label,start_s,end_s\na,dog,90,95\n"))
    with pytest.raises(InvalidValue, match=r"rows.csv, line 2: the span 90–95 s is outside the video \(0–4.900 s\)"):
        eligible_frames(rows, INDEX)
    rows = read_labels(write(tmp_path, "video,label,frame\na,dog,50\n"))
    with pytest.raises(InvalidValue, match="frames 0–49"):
        eligible_frames(rows, INDEX)


def test_rows_find_their_video(tmp_path: Path) -> None:
    path = write(tmp_path, "video,label\na.mp4,dog\na,cat\n/x/a.mp4,bird\nb,dog\n")
    grouped = by_video(path, {"a": Path("/x/a.mp4"), "b": Path("/x/b.mov")}, read=read_labels)
    assert [row.label for row in grouped["a"]] == ["dog", "cat", "bird"]
    with pytest.raises(InvalidFile, match=r"names 1 video\(s\) that were not given: b; the given videos are a"):
        by_video(path, {"a": Path("/x/a.mp4")}, read=read_labels)


def test_anchors_by_frame_and_by_time(tmp_path: Path) -> None:
    rows = read_anchors(write(tmp_path, "video,frame,time_s\na,3,\na,,0.35\na,,4.95\n"))
    assert [row.place(INDEX) for row in rows] == [3, 3, 49]
    with pytest.raises(InvalidValue, match=r"ends at 4\.900 s"):
        AnchorRow(video="a", time_s=Fraction(6)).place(INDEX)
    with pytest.raises(InvalidValue, match="frames 0–49"):
        AnchorRow(video="a", frame=50).place(INDEX)
    with pytest.raises(InvalidFile, match="either frame or time_s"):
        read_anchors(write(tmp_path, "video,frame,time_s\na,3,1.0\n"))


def test_boxes_from_csv_and_coco_agree(tmp_path: Path) -> None:
    text = "video,frame,label,x0,y0,x1,y1,track,crowd\na,3,dog,1.5,2,11.5,22,7,\na,4,cat,0,0,5,5,,1\n"
    from_csv = read_boxes(write(tmp_path, text))
    coco = {
        "categories": [{"id": 1, "name": "dog"}, {"id": 9, "name": "cat"}],
        "videos": [{"id": 5, "name": "a"}],
        "images": [{"id": 10, "video_id": 5, "frame_id": 3}, {"id": 11, "file_name": "some/a/000004.jpg"}],
        "annotations": [
            {"image_id": 10, "category_id": 1, "bbox": [1.5, 2, 10, 20], "track_id": 7},
            {"image_id": 11, "category_id": 9, "bbox": [0, 0, 5, 5], "iscrowd": 1},
        ],
    }
    from_coco = read_boxes(write(tmp_path, json.dumps(coco), "boxes.json"))
    facts = [(box.video, box.frame, box.label, box.xyxy, box.track, box.crowd) for box in from_csv]
    assert [(box.video, box.frame, box.label, box.xyxy, box.track, box.crowd) for box in from_coco] == facts


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"annotations": [{"image_id": 99, "category_id": 1, "bbox": [0, 0, 1, 1]}]}, r"annotations\[0\]: 99"),
        ({"annotations": [{"image_id": 10, "category_id": 1, "bbox": [0, 0, 0, 1]}]}, "x1 > x0"),
        ({"annotations": [{"image_id": 10, "category_id": 1, "bbox": "no"}]}, "not in COCO's format"),
        ({"images": [{"id": 10, "file_name": "odd.jpg"}]}, "file_name is not VIDEO"),
        ({"categories": None}, "not in COCO's format"),
        ({"annotations": [{"image_id": 10, "category_id": 1, "bbox": [0, 0, 1, 1], "track_id": 10**30}]}, "boxes.json"),
    ],
)
def test_broken_coco_is_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    coco: dict[str, object] = {
        "categories": [{"id": 1, "name": "dog"}], "images": [{"id": 10, "file_name": "a/3.jpg"}], "annotations": [],
    }  # fmt: skip
    with pytest.raises(InvalidFile, match=message):
        read_boxes(write(tmp_path, json.dumps(coco | change), "boxes.json"))


@pytest.mark.parametrize("value", ["1" + "0" * 30, "-1" + "0" * 30])
def test_a_track_beyond_64_bits_is_named(tmp_path: Path, value: str) -> None:
    with pytest.raises(InvalidFile, match=r"line 2.*track"):
        read_boxes(write(tmp_path, f"video,frame,label,x0,y0,x1,y1,track\nv,5,dog,1,1,20,20,{value}\n"))
