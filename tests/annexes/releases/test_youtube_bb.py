"""YouTube-BoundingBoxes: its CSV and small videos, and a line for what is missing or broken of them."""

import gzip
from pathlib import Path

import pytest
from made_imports import clip

from strobe.annexes.releases.youtube_bb import listed_anchors
from strobe.core.errors import InvalidFile, StrobeError
from strobe.store import dataset_folder as folder
from strobe.workflows.import_dataset import import_dataset

# -- youtube-bb --------------------------------------------------------------------------------------------------


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
