"""Every format strobe imports, from fixtures in the real layout; what is missing or broken is one line."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from made_imports import clip, frame_folders, numbered

from strobe.build.hinting import hints_of
from strobe.build.options import AnchorOptions
from strobe.core.errors import StrobeError
from strobe.formats.import_frames import FrameFiles
from strobe.formats.sampled import ImportSampling
from strobe.store import dataset_folder as folder
from strobe.store.media import MediaSource
from strobe.workflows.build import build
from strobe.workflows.import_dataset import ImportOptions, import_dataset
from strobe.workflows.options import BuildOptions


def test_frames(tmp_path: Path) -> None:
    source = frame_folders(tmp_path / "src")
    import_dataset(
        "frames", source, tmp_path / "dst", files=FrameFiles(fps=Fraction(30000, 1001)), draw=ImportSampling(k=10)
    )
    data = folder.read(tmp_path / "dst")
    assert data.info.label_space.names == ("cat", "dog", "pet")
    dog, cat = data
    assert sorted({dog.anchor.index, *(m.frame.index for m in dog.members)}) == [0, 1, 2, 4, 5]
    assert sorted({cat.anchor.index, *(m.frame.index for m in cat.members)}) == [0, 1, 2]
    assert data.labels_of(0) == (1, 2)
    assert data.frame(4).time_s == 5 * Fraction(1001, 30000)
    assert data.frames.key[-1] == "home/cat 2/c.jpg"


def test_frames_with_anchors_boxes_and_labels_of_some_frames(tmp_path: Path) -> None:
    source = frame_folders(tmp_path / "src")
    (tmp_path / "labels.csv").write_text(
        "video,label,frame,start_s,end_s\ndog1,dog,1,,\ndog1,pet,,0.1,0.25\nhome/cat 2,cat,0,,\n"
    )
    (tmp_path / "boxes.csv").write_text("video,frame,label,x0,y0,x1,y1,track\ndog1,1,dog,1,2,3.5,4,9\n")
    (tmp_path / "anchors.csv").write_text("video,frame\ndog1,1\ndog1,2\nhome/cat 2,0\n")
    files = FrameFiles(
        labels=tmp_path / "labels.csv", boxes=tmp_path / "boxes.csv", anchors=tmp_path / "anchors.csv",
        fps=Fraction(10), label_source="anchor",
    )  # fmt: skip
    data = import_dataset("frames", source, tmp_path / "dst", files=files, draw=ImportSampling(k=1)).dataset
    assert [one.set_id for one in data] == ["dog1@1", "dog1@2", "home/cat 2@0"]
    assert data.info.label_source == "anchor"
    names = data.info.label_space.names
    assert [names[label] for label in data.labels_of(int(data.sets.anchor_frame[0]))] == ["dog", "pet"]
    assert [names[label] for label in data.labels_of(int(data.sets.anchor_frame[1]))] == ["pet"]
    assert data.boxes.xyxy.tolist() == [[1, 2, 3.5, 4]]
    assert data.boxes.track.tolist() == [9]


@pytest.mark.parametrize(
    ("labels", "fps", "problem"),
    [
        ("video,label\ndog1,dog\n", None, "no label for 1 of 2 video.*first home/cat 2; add a row, or move"),
        ("video,label\ndog1,dog\nhome/cat 2,cat\nwolf,wolf\n", None, r"names 1 video\(s\) that were not given: wolf"),
        ("video,label,frame\ndog1,dog,3\nhome/cat 2,cat,0\n", None, "label at frame 3, but the video has frames 0–5"),
        ("video,label,start_s,end_s\ndog1,dog,0,1\nhome/cat 2,cat,0,1\n", None, "a span in seconds needs --fps"),
        ("video,label,start_s,end_s\ndog1,dog,9,10\nhome/cat 2,cat,0,1\n", 10, "begins at 9 s, after the last frame"),
        ("video,name\ndog1,dog\n", None, "the column 'label' is missing"),
    ],
)
def test_broken_frame_labels(tmp_path: Path, labels: str, fps: int | None, problem: str) -> None:
    source = frame_folders(tmp_path / "src")
    (source / "labels.csv").write_text(labels)
    with pytest.raises(StrobeError, match=problem) as caught:
        import_dataset("frames", source, tmp_path / "dst", files=FrameFiles(fps=Fraction(fps) if fps else None))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "dst").exists()


def test_what_is_missing_from_frames_is_said(tmp_path: Path) -> None:
    with pytest.raises(StrobeError, match="no such folder"):
        import_dataset("frames", tmp_path / "x", tmp_path / "dst", files=FrameFiles())
    (tmp_path / "empty").mkdir()
    with pytest.raises(StrobeError, match="no images under"):
        import_dataset("frames", tmp_path / "empty", tmp_path / "dst", files=FrameFiles())
    numbered(tmp_path / "flat/0.png", 0)
    (tmp_path / "empty/dog").symlink_to(tmp_path / "flat", target_is_directory=True)
    with pytest.raises(
        StrobeError, match=r"no images under .*; strobe does not follow links to folders, such as .*dog"
    ):
        import_dataset("frames", tmp_path / "empty", tmp_path / "dst", files=FrameFiles())
    with pytest.raises(StrobeError, match="is not in a video folder"):
        import_dataset("frames", tmp_path / "flat", tmp_path / "dst", files=FrameFiles(label=("dog",)))
    source = frame_folders(tmp_path / "src")
    (source / "labels.csv").unlink()
    with pytest.raises(StrobeError, match="the frames have no labels"):
        import_dataset("frames", source, tmp_path / "dst", files=FrameFiles())
    for rows, problem in (
        ("dog1,3\nhome/cat 2,0\n", "the given anchor 3 is not a frame"),
        ("wolf,1\n", "not given: wolf"),
        ("dog1,2\n", "anchors.csv: has no anchor for 1 of 2 video\\(s\\), first home/cat 2; add a row for each"),
    ):
        (tmp_path / "anchors.csv").write_text("video,frame\n" + rows)
        with pytest.raises(StrobeError, match=problem):
            import_dataset(
                "frames", source, tmp_path / "dst", files=FrameFiles(label=("x",), anchors=tmp_path / "anchors.csv")
            )


def test_hints_of_images_that_cannot_be_read_are_unknown(tmp_path: Path) -> None:
    source = frame_folders(tmp_path / "src")
    first = import_dataset("frames", source, tmp_path / "dst", files=FrameFiles(label=("dog",)))
    dataset = folder.read(tmp_path / "dst")
    broken = int(dataset.sets.frame[~dataset.sets.is_anchor][0])
    (tmp_path / "dst" / str(dataset.frames.media[broken])).write_bytes(b"no image")
    hints, n_unread = hints_of(dataset, MediaSource(dataset))
    assert n_unread == 1
    assert (np.isnan(hints.motion) == (dataset.sets.frame == broken)).all()
    assert first.dataset.hints is None
    with pytest.raises(StrobeError, match="--hints needs the images"):
        import_dataset(
            "frames",
            source,
            tmp_path / "x",
            files=FrameFiles(label=("dog",)),
            how=ImportOptions(media="none", hints=True),
        )


def test_hints_on_request_are_those_of_a_build(tmp_path: Path) -> None:
    """The stored frames of a build, imported as a folder, have the build's own hints."""
    video = clip(tmp_path / "walk.mp4", n=30)
    options = BuildOptions(label=("dog",), sampling=AnchorOptions(k=4), store="png")
    built = build([video], tmp_path / "built", options).dataset
    middle = int(built.frames.index[built.sets.frame[built.sets.is_anchor]][0])
    (tmp_path / "anchors.csv").write_text(f"video,frame\nwalk,{middle}\n")
    files = FrameFiles(label=("dog",), anchors=tmp_path / "anchors.csv")
    args = {"files": files, "draw": ImportSampling(k=4)}
    plain = import_dataset("frames", tmp_path / "built/media", tmp_path / "plain", **args).dataset
    assert plain.hints is None
    hinted = import_dataset(
        "frames", tmp_path / "built/media", tmp_path / "hinted", how=ImportOptions(hints=True), **args
    )
    assert hinted.notes == ()
    assert hinted.dataset.frame_ids() == plain.frame_ids()
    kept = folder.read(tmp_path / "hinted").hints
    assert kept is not None
    assert built.hints is not None
    for name in ("cut", "blur", "motion", "exposure", "duplicate"):
        np.testing.assert_array_equal(getattr(kept, name), getattr(built.hints, name))
    assert any(np.abs(getattr(kept, name)).max() > 0 for name in ("cut", "blur", "exposure"))
