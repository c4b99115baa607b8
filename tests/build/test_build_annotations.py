"""What a build is told of its videos: labels, spans, boxes, anchors; and what follows from them."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from strobe.build.options import AnchorOptions
from strobe.core.errors import StrobeError
from strobe.store import dataset_folder as folder
from strobe.workflows.build import build
from strobe.workflows.options import BuildOptions

MakeClip = Callable[..., Path]


def test_labels_spans_boxes_and_anchors(make_clip: MakeClip, tmp_path: Path) -> None:
    path = make_clip("one.mp4")
    (tmp_path / "labels.csv").write_text("video,label,start_s,end_s\none.mp4,dog,0.4,1.0\none,cat|dog,0.8,1.2\n")
    (tmp_path / "boxes.csv").write_text("video,frame,label,x0,y0,x1,y1\none,20,dog,1,2,30,40.5\none,47,cat,0,0,5,5\n")
    (tmp_path / "anchors.csv").write_text("video,frame\none.mp4,20\n")
    options = BuildOptions(
        labels=tmp_path / "labels.csv", boxes=tmp_path / "boxes.csv", anchors=tmp_path / "anchors.csv"
    )
    built = build([path], tmp_path / "out", options)
    dataset = folder.read(tmp_path / "out")
    names = dataset.info.label_space.names
    assert names == ("cat", "dog")
    labels = {
        int(dataset.frames.index[row]): {names[label] for label in dataset.labels_of(row)}
        for row in range(len(dataset.frames))
    }
    assert labels[10] == {"dog"}
    assert labels[20] == labels[25] == {"cat", "dog"}
    assert labels[30] == {"cat", "dog"}
    assert list(dataset.sets.set_id) == ["one@20"]
    assert dataset.boxes is not None
    assert dataset.boxes.xyxy.tolist() == [[1, 2, 30, 40.5]]
    assert any("1 box(es) are on frames outside every set" in note for note in built.notes)
    assert dataset.info.label_source == "frame"


def boxes_on(path: Path, frames: Iterable[int], video: str = "one") -> Path:
    rows = [f"{video},{frame},dog,1,2,30,40" for frame in frames]
    path.write_text("\n".join(["video,frame,label,x0,y0,x1,y1", *rows]) + "\n")
    return path


def test_frames_without_a_box_are_no_members_and_no_anchors(make_clip: MakeClip, tmp_path: Path) -> None:
    """Boxes on some frames make a detection dataset, labels by frame, and not one whose members borrow labels."""
    path = make_clip("one.mp4")
    boxes = boxes_on(tmp_path / "boxes.csv", range(20, 26))
    built = build([path], tmp_path / "out", BuildOptions(boxes=boxes, sampling=AnchorOptions(k=4)))
    data = built.dataset
    assert data.info.label_source == "frame"
    assert 20 <= int(data.frames.index[data.sets.anchor_frame[0]]) <= 25
    assert set(data.frames.index[data.sets.frame].tolist()) <= set(range(20, 26))
    assert any("have no box and were left out" in note for note in built.notes)
    kept = build(
        [path], tmp_path / "kept", BuildOptions(boxes=boxes, label_source="anchor", sampling=AnchorOptions(k=4))
    )
    assert len(kept.dataset.sets.set) == 9
    assert not any("left out" in note for note in kept.notes)


def test_a_box_on_a_frame_the_video_has_not_is_refused(make_clip: MakeClip, tmp_path: Path) -> None:
    path = make_clip("one.mp4")
    boxes = boxes_on(tmp_path / "boxes.csv", [12, 900])
    for label in ((), ("dog",)):
        with pytest.raises(StrobeError, match=r"boxes, line 3: .*frame 900, .* has frames 0–47"):
            build([path], tmp_path / f"out{len(label)}", BuildOptions(boxes=boxes, label=label))


def test_a_given_anchor_without_a_box_is_refused(make_clip: MakeClip, tmp_path: Path) -> None:
    path = make_clip("one.mp4")
    (tmp_path / "anchors.csv").write_text("video,frame\none,12\n")
    options = BuildOptions(boxes=boxes_on(tmp_path / "boxes.csv", [13, 14]), anchors=tmp_path / "anchors.csv")
    with pytest.raises(StrobeError, match=r"1 given anchor\(s\) have no box, first one/000012.png"):
        build([path], tmp_path / "out", options)
