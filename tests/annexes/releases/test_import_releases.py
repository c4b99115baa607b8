"""The two public releases: fixtures in their real layout, and the real metadata where it is at hand."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from strobe.annexes.releases.vid_robust import import_vid_robust
from strobe.annexes.releases.ytbb_robust import YtbbFiles, import_ytbb_robust
from strobe.core.annotations import normalise_key, parse_annotations
from strobe.core.derivation import reviewed
from strobe.core.errors import InvalidFile, StrobeError
from strobe.store import dataset_folder as folder
from strobe.store.bring_media import ImportOptions

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


def test_the_same_release_has_the_same_identity_with_and_without_media(tmp_path: Path) -> None:
    source = vid_release(tmp_path / "src")
    with_media = vid(source, tmp_path / "a", "link")
    without = vid(source, tmp_path / "b")
    assert with_media.frame_ids() == without.frame_ids()
    assert (without.frames.media == "").all()


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


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(StrobeError, match="no such folder"):
        vid(tmp_path / "nowhere", tmp_path / "dst")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StrobeError, match=r"has no metadata/pmsets\.json"):
        vid(tmp_path / "empty", tmp_path / "dst")
    source = vid_release(tmp_path / "src", images=False)
    with pytest.raises(StrobeError, match=r"9 of 9 images are missing under .*, first val/.*use --no-media"):
        vid(source, tmp_path / "dst", "copy")


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


def test_what_is_missing_from_ytbb_is_said(tmp_path: Path) -> None:
    source = ytbb_release(tmp_path / "src", images=False)
    with pytest.raises(StrobeError, match="20 of 20 images are missing"):
        ytbb(source, tmp_path / "dst", "copy")
    with pytest.raises(StrobeError, match="no such file"):
        ytbb(source, tmp_path / "dst", pairs=tmp_path / "nowhere.json")
    (source / "metadata/anchor_labels.json").unlink()
    with pytest.raises(StrobeError, match=r"has no anchor annotations .*name the file with --anchors"):
        ytbb(source, tmp_path / "dst")


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
