"""Imports that read videos: YouTube-BoundingBoxes, and hints of frames equal to those of a build."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from strobe.build.options import AnchorOptions
from strobe.core.errors import InvalidFile, StrobeError
from strobe.formats.import_frames import FrameFiles
from strobe.formats.import_youtube_bb import listed_anchors
from strobe.formats.sampled import ImportSampling
from strobe.store import dataset_folder as folder
from strobe.workflows.build import build
from strobe.workflows.import_dataset import ImportOptions, import_dataset
from strobe.workflows.options import BuildOptions

# -- youtube-bb --------------------------------------------------------------------------------------------------


def clip(path: Path, *, n: int = 75, rate: int = 25) -> Path:
    """A small H.264 clip whose brightness is its frame number."""
    av = pytest.importorskip("av")
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for index in range(n):
            frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 2 * index + 20, dtype=np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def ytbb(root: Path) -> Path:
    clip(root / "videos/AAAAAAAAAAA.mp4")
    clip(root / "videos/BBBBBBBBBBB.mp4", n=60, rate=30)
    rows = [
        "AAAAAAAAAAA,1000,19,dog,0,present,0.1,0.5,0.1,0.5",
        "AAAAAAAAAAA,1000,0,person,1,present,0.1,0.5,0.1,0.5",
        "AAAAAAAAAAA,2000,19,dog,0,absent,-1,-1,-1,-1",
        "BBBBBBBBBBB,1000,9,potted_plant,0,present,0,1,0,1",
        "CCCCCCCCCCC,1000,23,car,0,present,0,1,0,1",
    ]
    (root / "yt_bb.csv").write_text("\n".join(rows))
    return root


def test_youtube_bb(tmp_path: Path) -> None:
    source = ytbb(tmp_path / "src")
    done = import_dataset("youtube-bb", source, tmp_path / "dst", options={"k": 3})
    data = folder.read(tmp_path / "dst")
    assert "1 annotated video(s) are not in the folder" in done.notes
    assert [one.set_id for one in data] == ["AAAAAAAAAAA@25", "BBBBBBBBBBB@30"]
    assert [len(one.members) for one in data] == [6, 6]
    assert data.info.label_source == "anchor"
    names = data.info.label_space.names
    assert {names[label] for label in data.labels_of(int(data.sets.anchor_frame[0]))} == {"dog", "person"}
    assert names[data.labels_of(int(data.sets.anchor_frame[1]))[0]] == "potted plant"
    again = import_dataset("youtube-bb", source, tmp_path / "dst", options={"k": 3})
    assert again.dataset.digest() == data.digest()


def test_youtube_bb_with_given_anchors_takes_the_nearest_frame(tmp_path: Path) -> None:
    """In the list 22 is car, and times are cut to milliseconds: 1466 ms is nearest to frame 44 of 30 a second."""
    source = ytbb(tmp_path / "src")
    (source / "yt_bb.csv.gz").write_bytes(gzip.compress((source / "yt_bb.csv").read_bytes()))
    (tmp_path / "anchors.csv").write_text("ytid,time_ms,label\nBBBBBBBBBBB,1466,22\nCCCCCCCCCCC,1000,22\n")
    done = import_dataset(
        "youtube-bb",
        source / "yt_bb.csv.gz",
        tmp_path / "dst",
        options={"videos": source / "videos", "anchors": tmp_path / "anchors.csv", "k": 2},
    )
    assert [one.set_id for one in done.dataset] == ["BBBBBBBBBBB@44"]
    label = done.dataset.labels_of(int(done.dataset.sets.anchor_frame[0]))[0]
    assert done.dataset.info.label_space.names[label] == "car"
    assert any("1 video(s) have no anchor" in note for note in done.notes)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("AAAAAAAAAAA,1000,19,dog\n", "line 1: 4 fields; Youtube-BB rows have 10"),
        ("AAAAAAAAAAA,soon,19,dog,present\n", "line 1: the time is not a number"),
        ("AAAAAAAAAAA,1000,19,wolf,present\n", "line 1: 'wolf' is not a class of youtube-bb"),
        ("AAAAAAAAAAA,1000,19,dog,maybe\n", "line 1: object_presence is 'maybe'"),
        ("AAAAAAAAAAA,1000,19,dog,absent\n", "no row marks an object as present"),
        ("DDDDDDDDDDD,1000,19,dog,present\n", "none of the 2 videos is annotated"),
        ("AAAAAAAAAAA,99000,19,dog,present\n", "no frame within half a second of 99000 ms"),
    ],
)
def test_broken_youtube_bb(tmp_path: Path, text: str, problem: str) -> None:
    source = ytbb(tmp_path / "src")
    (source / "yt_bb.csv").write_text(text)
    with pytest.raises(StrobeError, match=problem) as caught:
        import_dataset("youtube-bb", source, tmp_path / "dst")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "dst/dataset.json").exists()


def test_a_damaged_gzip_is_one_line(tmp_path: Path) -> None:
    whole, path = gzip.compress(b"AAAAAAAAAAA,1000,19,dog,present\n" * 99), tmp_path / "yt_bb.csv.gz"
    for damaged in (b"AAAAAAAAAAA", whole[:-9], whole[:20] + b"\xff" * 4 + whole[24:]):
        path.write_bytes(damaged)
        with pytest.raises(InvalidFile, match=r"yt_bb\.csv\.gz: not a gzip file"):
            listed_anchors(path)


def test_what_is_missing_from_youtube_bb_is_said(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    with pytest.raises(StrobeError, match=r"expected one annotation CSV in .*, found none"):
        import_dataset("youtube-bb", tmp_path / "src", tmp_path / "dst")
    (tmp_path / "src/a.csv").write_text("AAAAAAAAAAA,1000,19,dog,present\n")
    with pytest.raises(StrobeError, match="no videos under"):
        import_dataset("youtube-bb", tmp_path / "src", tmp_path / "dst")
    with pytest.raises(StrobeError, match="no such folder"):
        import_dataset("youtube-bb", tmp_path / "src", tmp_path / "dst", options={"videos": tmp_path / "nowhere"})


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
