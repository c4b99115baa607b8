"""The two public releases: fixtures in their real layout, boxes and times added to them, and what is guessed."""

import gzip
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from strobe.analyses.results import dataset_facts
from strobe.annexes.releases.vid_robust import import_vid_robust
from strobe.annexes.releases.ytbb_robust import YtbbFiles, import_ytbb_robust
from strobe.core.annotations import normalise_key, parse_annotations
from strobe.core.dataset import Dataset
from strobe.core.derivation import reviewed
from strobe.core.errors import InvalidFile, StrobeError
from strobe.core.labels import space
from strobe.core.ports import Silent
from strobe.core.readings import GUESSES, is_reading
from strobe.report.headline import headline_lines
from strobe.store import dataset_folder as folder
from strobe.store.bring_media import ImportOptions
from strobe.workflows.import_dataset import import_dataset
from strobe.workflows.score import ScoreRunOptions, score_dataset

REFERENCE = Path(__file__).parents[3] / "../shared/reference"
needs_reference = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference folder is not at hand")


def vid(source: Path, target: Path, media="none"):
    return import_vid_robust(source, target, how=ImportOptions(media=media)).dataset


def vid_release(root: Path, *, images: bool = True) -> Path:
    """Three videos: a full set of ±2, one with a gap and two labels, one empty."""
    members = {"ILSVRC2015_val_00000000": [8, 9, 11, 12], "ILSVRC2015_val_00007011": [9, 12], "ILSVRC2017_val_1": []}
    pmsets, labels = {}, {}
    for place, (video, indices) in enumerate(members.items()):
        name = f"val/{video}/{{:06d}}.JPEG"
        pmsets[name.format(10)] = [name.format(index) for index in indices]
        for index in sorted([10, *indices]):
            labels[name.format(index)] = [place] if index < 11 else [place, 20]
    (root / "metadata").mkdir(parents=True)
    (root / "metadata/pmsets.json").write_text(json.dumps(pmsets, indent=1))
    (root / "metadata/labels.json").write_text(json.dumps(labels, indent=1))
    if images:
        for number, key in enumerate(labels):
            (root / key).parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (12, 8), (20 * number, 0, 0)).save(root / key, "JPEG")
    return root


def edit(path: Path, change) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def test_vid_robust_with_media(tmp_path: Path) -> None:
    data = vid(vid_release(tmp_path / "src"), tmp_path / "dst", "copy")
    folder.write(data, tmp_path / "dst")
    back = folder.read(tmp_path / "dst")
    assert back.digest() == data.digest()
    assert back.n_sets == 3
    assert back.info.label_source == "frame"
    assert back.info.reviewed == "release"
    assert [member.distance for member in next(iter(back)).members] == [-2, -1, 1, 2]
    assert [member.distance for member in list(back)[1].members] == [-1, 2]
    assert not list(back)[2].members
    assert back.labels_of(4) == (0, 20)
    assert (back.frames.width == 12).all()
    assert len(set(back.frames.sha256)) == len(back.frames)
    for name in back.frames.media:
        assert (tmp_path / "dst" / name).is_file()


@pytest.mark.parametrize(
    ("file", "change", "problem"),
    [
        ("labels", lambda d: d.update({"val/v/000001.JPEG": [30]}), "label 30 is outside 0–29"),
        ("labels", lambda d: d.update({"val/v/000001.JPEG": [True]}), "label True is outside"),
        ("labels", lambda d: d.update({"val/v/000001.JPEG": []}), "expected a list of class numbers"),
        ("labels", lambda d: d.update({"../../x/000001.JPEG": [1]}), "expected val/<video>/<frame>"),
        ("labels", lambda d: d.update({"val/v/first.JPEG": [1]}), "expected a frame number"),
        ("labels", lambda d: d.clear(), "expected {frame"),
        ("pmsets", lambda d: d.clear(), "expected {anchor"),
        ("pmsets", lambda d: d.update({"val/v/000099.JPEG": []}), "has no label in labels.json"),
        ("pmsets", lambda d: d[next(iter(d))].append(["x"]), "has no label in labels.json"),
        ("pmsets", lambda d: d[next(iter(d))].append(next(iter(d))), "the anchor is its own neighbour"),
        ("pmsets", lambda d: d[next(iter(d))].append(list(d)[1]), "belongs to another video"),
        ("pmsets", lambda d: d.update({next(iter(d)): "x"}), "expected a list of frames"),
    ],
)
def test_broken_vid_metadata(tmp_path: Path, file: str, change, problem: str) -> None:
    source = vid_release(tmp_path / "src", images=False)
    edit(source / f"metadata/{file}.json", change)
    with pytest.raises(InvalidFile, match=problem) as caught:
        vid(source, tmp_path / "dst", "copy")
    assert f"{file}.json" in str(caught.value)
    assert not (tmp_path / "dst").exists()


def test_a_neighbour_too_far_away(tmp_path: Path) -> None:
    source = vid_release(tmp_path / "src", images=False)
    far = "val/ILSVRC2015_val_00000000/000099.JPEG"
    edit(source / "metadata/labels.json", lambda d: d.update({far: [1]}))
    edit(source / "metadata/pmsets.json", lambda d: d[next(iter(d))].append(far))
    with pytest.raises(InvalidFile, match="more than 10 frames away"):
        vid(source, tmp_path / "dst")


@needs_reference
def test_the_real_vid_release(tmp_path: Path) -> None:
    data = vid(REFERENCE / "imagenet-vid-robust", tmp_path)
    assert (data.n_sets, len(data.frames)) == (1109, 22179)
    n_labels = np.bincount(data.labels.frame, minlength=len(data.frames))
    assert int((n_labels > 1).sum()) == 1514
    assert int((n_labels[data.sets.anchor_frame] > 1).sum()) == 79
    sizes = np.bincount(data.sets.set) - 1
    assert int((sizes == 20).sum()) == 889
    assert int((sizes == 0).sum()) == 1
    assert int((data.sets.distance == -10).sum()) == 1009
    assert int((data.sets.distance == 10).sum()) == 996
    assert int(n_labels[data.sets.anchor_frame].sum()) == 1191
    assert len(set(data.video_of_set.tolist())) == 1109


# -- YTBB --------------------------------------------------------------------------------------------------------

WORDS = ["good", "unsure", "bad", "person", "bird", "car"]
PAIR_WORDS = ["correct", "problematic", "incorrect", "dont know", "similar", "dissimilar", "deformation",
              "background-change", "occlusion-increased", "blur-increase", "bad-anchor"]  # fmt: skip
CLIPS = {"04rVDII50JU_66600": 1998, "0AkiHGXwcYU_162600": 4065, "0AkiHGXwcYU_186000": 4650, "_0GDhncNyKU_378200": 9455}


def ytbb_release(root: Path, *, images: bool = True) -> Path:
    """Four anchors of three videos: kept, kept with an added label and a rejected pair, bad, and dropped by a pair."""
    words = [["good"], ["good", "bird"], ["good", "bad"], ["good"]]
    anchors, pairs, keys = [], [], []
    for place, (clip, index) in enumerate(CLIPS.items()):
        anchor = f"{clip}/frame-{index}.jpg"
        anchors.append(
            {"key": f"/home/someone/{anchor}", "notes": "", "labels": [WORDS.index(w) for w in words[place]]}
        )
        keys.append(anchor)
        for offset in (-2, -1, 1, 2):
            said = ["similar", "correct"]
            if place == 1 and offset == 2:
                said = ["similar", "blur-increase"]
            if place == 3 and offset == -1:
                said = ["bad-anchor"]
            frame = f"{clip}/frame-{index + offset}.jpg"
            keys.append(frame)
            pairs.append({"key": f"{anchor},{frame}", "notes": "n", "labels": [PAIR_WORDS.index(w) for w in said]})
    (root / "metadata").mkdir(parents=True)
    (root / "metadata/anchor_labels.json").write_text(json.dumps({"annotations": anchors, "labels": WORDS}))
    (root / "metadata/pair_labels.json").write_text(json.dumps({"annotations": pairs, "labels": PAIR_WORDS}))
    lines = [f"{clip[:11]},{clip[12:]},{label}" for clip, label in zip(CLIPS, (22, 16, 16, 7), strict=True)]
    (root / "metadata/ytbb_robustness_test_anchors_full.csv").write_text("\n".join(["ytid,time_ms,label", *lines]))
    if images:
        for number, key in enumerate(keys):
            path = root / "ytbb_videos" / key
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (6, 4), (number, 0, 0)).save(path, "JPEG")
    return root


def ytbb(source: Path, target: Path, media="none", **files):
    return import_ytbb_robust(source, target, files=YtbbFiles(**files), how=ImportOptions(media=media)).dataset


def test_ytbb_robust_with_media_and_votes(tmp_path: Path) -> None:
    data = ytbb(ytbb_release(tmp_path / "src"), tmp_path / "dst", "copy")
    folder.write(data, tmp_path / "dst")
    back = folder.read(tmp_path / "dst")
    assert back.digest() == data.digest()
    assert back.n_sets == 4
    assert len(back.videos) == 3, "two anchors share a video and never a frame"
    assert back.info.label_source == "anchor"
    names = [back.info.label_space.names[label] for label in back.labels_of(int(back.sets.anchor_frame[0]))]
    assert names == ["car"], "22 is car in the list of anchors"
    kept = reviewed(back)
    assert kept.sets.set_id.tolist() == [f"{clip}/frame-{index}.jpg" for clip, index in list(CLIPS.items())[:2]]
    assert [member.distance for member in list(kept)[1].members] == [-2, -1, 1]
    added = {kept.info.label_space.names[label] for label in kept.labels_of(int(kept.sets.anchor_frame[1]))}
    assert added == {"truck", "bird"}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d["annotations"][0].update(key="a,b"), "expected <id>_<ms>|no neighbour|has no anchor"),
        (
            lambda d: d["annotations"][0].update(labels=[99]),
            r"annotations\[0\]: \[99\] has a number outside the 11 names",
        ),
        (lambda d: d["annotations"][0].pop("key"), r"annotations\[0\]: expected an object with key and labels"),
        (lambda d: d["annotations"].append(d["annotations"][0]), "appears twice"),
        (lambda d: d["annotations"][0].update(key="one"), "expected <anchor>,<frame>"),
        (lambda d: d["annotations"][0].update(key="a,b,c"), "expected <anchor> or <anchor>,<frame>"),
        (lambda d: d.pop("labels"), "expected {"),
    ],
)
def test_broken_pair_annotations(tmp_path: Path, change, problem: str) -> None:
    source = ytbb_release(tmp_path / "src", images=False)
    edit(source / "metadata/pair_labels.json", change)
    with pytest.raises(InvalidFile, match=problem):
        ytbb(source, tmp_path / "dst")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ytid,time_ms\nabc,1", "line 2: expected ytid,time_ms,label"),
        ("ytid,time_ms,label\n04rVDII50JU,66600,23", "line 2: label 23 is outside 0–22"),
        ("ytid,time_ms,label\n04rVDII50JU,66600,0", "is not in the list of anchors"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_a_broken_list_of_anchors(tmp_path: Path, text, problem: str) -> None:
    source = ytbb_release(tmp_path / "src", images=False)
    listed = tmp_path / "list.csv"
    listed.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidFile, match=problem):
        ytbb(source, tmp_path / "dst", listed=listed)


def test_ytbb_without_pair_annotations_says_so(tmp_path: Path) -> None:
    bare = ytbb_release(tmp_path / "bare", images=False)
    (bare / "metadata/pair_labels.json").unlink()
    data = ytbb(bare, tmp_path / "a")
    assert (data.n_sets, len(data.frames)) == (4, 4)
    assert data.info.provenance["notes"] == ["no pair annotations found (--pairs), so sets contain only their anchors"]
    with_frames = ytbb_release(tmp_path / "frames")
    (with_frames / "metadata/pair_labels.json").unlink()
    data = ytbb(with_frames, tmp_path / "b", "copy")
    assert len(data.frames) == 20
    assert "16 unreviewed neighbours from the frame folders" in data.info.provenance["notes"][0]
    assert len(reviewed(data).sets.set) == 3, "neighbours nobody voted on are not kept; one anchor is bad"


@needs_reference
def test_the_real_ytbb_anchors(tmp_path: Path) -> None:
    """The pair annotations are not at hand: every anchor alone, and one made pair each to see the offsets."""
    source = REFERENCE / "ytbb-robust"
    anchors = json.loads((source / "anchor_labels.json").read_text())
    pairs = []
    for entry in anchors["annotations"]:
        key = normalise_key(entry["key"])
        clip, frame = key.split("/frame-")
        pairs.append({"key": f"{key},{clip}/frame-{int(frame.removesuffix('.jpg')) + 1}.jpg", "labels": [0]})
    made = tmp_path / "pairs.json"
    made.write_text(json.dumps({"annotations": pairs, "labels": ["similar"]}))
    assert ytbb(source, tmp_path / "alone").n_sets == 2467
    data = ytbb(source, tmp_path / "dst", pairs=made)
    assert data.n_sets == 2467
    assert len(parse_annotations(anchors, source)) == 2467
    assert (data.sets.distance[~data.sets.is_anchor] == 1).all()
    good = sum({anchors["labels"][label] for label in entry["labels"]} & {"good", "bad", "unsure"} == {"good"}
               for entry in anchors["annotations"])  # fmt: skip
    assert reviewed(data).n_sets == good


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


def short_ytbb(root: Path) -> Path:
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
    source = short_ytbb(tmp_path / "src")
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
    source = short_ytbb(tmp_path / "src")
    snippet(tmp_path / f"videos/{YTID}.mp4", 12, rate=rate)
    done = import_ytbb_robust(source, tmp_path / "dst", files=YtbbFiles(videos=tmp_path / "videos"), how=COPY)
    assert (done.dataset.videos.fps(0) == Fraction(25)) is fits
    assert any("another version of the video: frame 5 is at 0.500 s" in note for note in done.notes) is not fits


def annotated(folder: Path, *, filename: str = "", video: str = "", size: str = "64,80") -> Path:
    """The release of ImageNet-Vid-Robust with one set, and the XML of its three frames."""
    name = "ILSVRC2015_val_00000000"
    keys = [f"val/{name}/{index:06d}.JPEG" for index in (4, 5, 6)]
    (folder / "src/metadata").mkdir(parents=True)
    (folder / "src/metadata/labels.json").write_text(json.dumps({key: [27] for key in keys}))
    (folder / "src/metadata/pmsets.json").write_text(json.dumps({keys[1]: [keys[0], keys[2]]}))
    (folder / f"src/val/{name}").mkdir(parents=True)
    (folder / f"xml/val/{name}").mkdir(parents=True)
    width, height = size.split(",")
    for index, key in zip((4, 5, 6), keys, strict=True):
        Image.new("RGB", (64, 80), (index, 0, 0)).save(folder / "src" / key)
        (folder / f"xml/val/{name}/{index:06d}.xml").write_text(
            f"<annotation><folder>{video}</folder><filename>{filename and filename.format(index)}</filename>"
            f"<size><width>{width}</width><height>{height}</height></size><object><trackid>0</trackid>"
            f"<name>{space('imagenet-vid').ids[27]}</name><bndbox><xmin>3</xmin><ymin>4</ymin><xmax>30</xmax>"
            "<ymax>40</ymax></bndbox></object></annotation>"
        )
    return folder


def _with_annotations(folder: Path) -> Dataset:
    options = {"annotations": folder / "xml"}
    return import_dataset("imagenet-vid-robust", folder / "src", folder / "out", options=options).dataset


def corrupted(folder: Path, names: tuple[str, ...]) -> Dataset:
    for kind in ("clean", *(f"{'extra' if name == 'speckle_noise' else 'noise'}/{name}/1" for name in names)):
        for label in ("cat", "dog"):
            path = folder / ("clean" if kind == "clean" else f"c/{kind}") / label / "a.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8), (len(kind), len(label), ord(label[0]))).save(path)
    options = {"clean": folder / "clean", "severity": (1,)}
    return import_dataset("imagenet-c", folder / "c", folder / "out", options=options).dataset


def test_a_guess_is_stated_in_the_results(tmp_path: Path) -> None:
    annotations = _with_annotations(annotated(tmp_path / "a"))
    corruptions = corrupted(tmp_path / "b", ("shot_noise", "fog", "speckle_noise"))
    for guess, dataset, words in (
        ("annotations", annotations, "(3 of 3 files do not name their frame and video; only classes and 3 sizes were"),
        (
            "corruptions",
            corruptions,
            "2 of the published 15 and 1 others (the published mean leaves out speckle_noise)",
        ),
    ):
        stated = [line for line in dataset_facts(dataset).readings or () if f"{GUESSES[guess]} read as" in line]
        assert len(stated) == 1, stated
        assert words in stated[0]
        assert is_reading(stated[0])


def test_annotations_of_another_frame_or_video_are_refused(tmp_path: Path) -> None:
    own = {"video": "ILSVRC2015_val_00000000", "filename": "{0:06d}"}
    right = _with_annotations(annotated(tmp_path / "right", **own))
    assert dataset_facts(right).readings is None
    for name, change in (("shifted", {"filename": "{0:06d}1"}), ("other", {"video": "ILSVRC2015_val_00000001"})):
        with pytest.raises(InvalidFile, match="so it belongs to another frame or video"):
            _with_annotations(annotated(tmp_path / name, **own | change))
    with pytest.raises(InvalidFile, match=r"its sizes contradict 3 of 3 images; first .*: 64×64 instead of 64×80"):
        _with_annotations(annotated(tmp_path / "sizes", size="64,64"))


def test_the_published_mean_leaves_out_extra_corruptions(tmp_path: Path) -> None:
    """A plain loop over the images gives both means."""
    dataset = corrupted(tmp_path, ("shot_noise", "fog", "speckle_noise"))
    right = {"clean": 1, "shot_noise": 1, "fog": 0, "speckle_noise": 0}
    keys = dataset.frames.key.tolist()
    rows = [dataset.info.label_space.names[(("dog" in key) + 1 - right[key.split("/")[0]]) % 2] for key in keys]
    path = tmp_path / "net.json"
    path.write_text(json.dumps(dict(zip(keys, rows, strict=True))))
    results = score_dataset(tmp_path / "out", [f"net=preds:{path}"], None, ScoreRunOptions(), Silent())
    (mean,) = results.models["net"].means
    each = {name: np.mean([right[name] for key in keys if key.startswith(name)]) for name in right if name != "clean"}
    assert mean.at.value == pytest.approx(np.mean(list(each.values())))
    assert mean.published.value == pytest.approx((each["shot_noise"] + each["fog"]) / 2)
    assert any(
        "over ImageNet-C's published corruptions (2)" in note for *_, notes in headline_lines(results) for note in notes
    )
