"""Every format strobe imports, from fixtures in the real layout; what is missing or broken is one line."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from strobe.build.hinting import hints_of
from strobe.cli.import_ import command
from strobe.core.errors import InvalidFile, StrobeError
from strobe.core.labels import space
from strobe.core.records import Verdict
from strobe.datasets import folder
from strobe.datasets.media import MediaSource
from strobe.datasets.sampled import Draw
from strobe.workflows.import_dataset import (
    Bring,
    FrameFiles,
    from_coco_vid,
    from_frames,
    from_imagenet_vid,
)


def picture(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (64, 48), (number % 256, number // 256, 7)).save(path)


# -- imagenet-vid ------------------------------------------------------------------------------------------------

TURTLE, CAT = "n01662784", "n02121808"


def xml(objects: list[tuple[str, int, tuple[int, int, int, int]]]) -> str:
    body = "".join(
        f"<object><trackid>{track}</trackid><name>{name}</name><bndbox><xmax>{box[2]}</xmax><xmin>{box[0]}</xmin>"
        f"<ymax>{box[3]}</ymax><ymin>{box[1]}</ymin></bndbox><occluded>0</occluded><generated>0</generated></object>"
        for name, track, box in objects
    )
    return (
        "<annotation><folder>v</folder><filename>f</filename><source><database>ILSVRC_2015</database></source>"
        f"<size><width>64</width><height>48</height></size>{body}</annotation>"
    )


def ilsvrc(root: Path, *, images: bool = True, split: str = "val") -> Path:
    """Three videos of 30, 6 and 5 frames; in the first, frames 20–29 are empty; the last shows nothing at all."""
    lengths = {"ILSVRC2015_val_00000000": 30, "ILSVRC2015_val_00001000": 6, "ILSVRC2015_val_00002000": 5}
    for place, (video, n) in enumerate(lengths.items()):
        inner = Path(split) / ("ILSVRC2015_VID_train_0000" if split == "train" else ".") / video
        for index in range(n):
            objects = [(TURTLE, 0, (1, 2, 30, 40))]
            if place == 1:
                objects.append((CAT, 1, (index, 0, index + 9, 9)))
            if (place == 0 and index >= 20) or place == 2:
                objects = []
            path = root / "Annotations/VID" / inner / f"{index:06d}.xml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(xml(objects))
            if images:
                picture(root / "Data/VID" / inner / f"{index:06d}.JPEG", 40 * place + index)
    return root


@pytest.mark.parametrize("split", ["val", "train"])
def test_imagenet_vid(tmp_path: Path, split: str) -> None:
    done = from_imagenet_vid(ilsvrc(tmp_path / "src", split=split), tmp_path / "dst", split=split, draw=Draw(seed=3))
    data = folder.read(tmp_path / "dst")
    assert data.digest() == done.dataset.digest()
    assert data.n_sets == 2
    assert any("1 video(s) without a labelled frame" in note for note in done.notes)
    assert data.info.label_space == space("imagenet-vid")
    first, second = data
    assert all(abs(member.distance) <= 10 for member in first.members)
    assert max(data.frames.index[data.frames.video == 0]) < 20, "unlabelled frames are left out"
    assert len(second.members) == 5, "near the ends of a video there are fewer"
    anchor = int(data.sets.anchor_frame[1])
    assert data.labels_of(anchor) == tuple(sorted(space("imagenet-vid").index(name) for name in (TURTLE, CAT)))
    boxes = data.boxes.of_frame(anchor)
    index = data.frame(anchor).index
    assert [box.track for box in boxes] == [0, 1]
    assert boxes[1].xyxy == (index, 0.0, index + 9, 9.0)
    assert MediaSource(data).read(anchor).shape == (48, 64, 3)
    assert data.frames.key[anchor].startswith(f"{split}/ILSVRC2015")


def test_imagenet_vid_is_seeded_per_video(tmp_path: Path) -> None:
    source = ilsvrc(tmp_path / "src", images=False)

    def anchors(name: str, seed: int) -> dict[str, int]:
        done = from_imagenet_vid(source, tmp_path / name, draw=Draw(seed=seed, k=2), how=Bring(media="none"))
        return {one.set_id.split("@")[0]: one.anchor.index for one in done.dataset}

    one = anchors("a", 1)
    assert anchors("b", 1) == one
    draws = {anchors(f"s{seed}", seed)["ILSVRC2015_val_00000000"] for seed in range(8)}
    assert len(draws) > 3
    for path in (source / "Annotations/VID/val/ILSVRC2015_val_00001000").iterdir():
        path.unlink()
    alone = anchors("c", 1)
    assert alone["ILSVRC2015_val_00000000"] == one["ILSVRC2015_val_00000000"], "another video does not move an anchor"


def test_imagenet_vid_with_and_without_media_has_the_same_frames(tmp_path: Path) -> None:
    source = ilsvrc(tmp_path / "src")
    with_media = from_imagenet_vid(source, tmp_path / "a", how=Bring(media="link")).dataset
    without = from_imagenet_vid(source, tmp_path / "b", how=Bring(media="none")).dataset
    assert with_media.frame_ids() == without.frame_ids()
    assert without.frames.width.tolist() == with_media.frames.width.tolist()


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]>'
    "<annotation><size><width>&b;</width></size></annotation>"
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (BOMB, "XML with a DTD or entities is refused"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><annotation/>', "XML with a DTD or entities is refused"),
        ("<annotation><size>", "not XML"),
        (xml([("n00000000", 0, (0, 0, 5, 5))]), "object 0: 'n00000000' is no class of imagenet-vid"),
        (xml([(TURTLE, 0, (0, 0, 5, 5))]).replace("<xmax>5", "<xmax>five"), "bndbox/xmax is not a number: 'five'"),
        (xml([(TURTLE, 0, (0, 0, 5, 5))]).replace("<xmax>5", "<xmax>1e999"), "out of range"),
        (xml([(TURTLE, 0, (0, 0, 5, 5))]).replace("<size>", "<sise>").replace("</size>", "</sise>"), "size/width"),
    ],
)
def test_broken_xml(tmp_path: Path, text: str, problem: str) -> None:
    source = ilsvrc(tmp_path / "src", images=False)
    for path in (source / "Annotations/VID/val/ILSVRC2015_val_00001000").iterdir():
        path.write_text(text)
    with pytest.raises(InvalidFile, match=problem) as caught:
        from_imagenet_vid(source, tmp_path / "dst", how=Bring(media="none"))
    assert "\n" not in str(caught.value)
    assert ".xml" in str(caught.value)
    assert not (tmp_path / "dst").exists()


def test_a_flat_box_keeps_its_label(tmp_path: Path) -> None:
    source = ilsvrc(tmp_path / "src", images=False)
    for path in (source / "Annotations/VID/val/ILSVRC2015_val_00001000").iterdir():
        path.write_text(xml([(TURTLE, 0, (3, 0, 3, 5))]))
    data = from_imagenet_vid(source, tmp_path / "dst", how=Bring(media="none")).dataset
    mine = np.flatnonzero(data.frames.video == 1)
    assert all(data.labels_of(int(row)) for row in mine)
    assert not np.isin(data.boxes.frame, mine).any()


def test_what_is_missing_from_ilsvrc_is_said(tmp_path: Path) -> None:
    with pytest.raises(StrobeError, match="no such folder"):
        from_imagenet_vid(tmp_path / "x", tmp_path / "dst")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StrobeError, match="has no Annotations/VID"):
        from_imagenet_vid(tmp_path / "empty", tmp_path / "dst")
    source = ilsvrc(tmp_path / "outer/ILSVRC2015", images=False)
    with pytest.raises(StrobeError, match="has no Annotations/VID/test; --split can be val"):
        from_imagenet_vid(source, tmp_path / "dst", split="test")
    with pytest.raises(StrobeError, match="has no Data/VID/val; get the images, or use --no-media"):
        from_imagenet_vid(tmp_path / "outer", tmp_path / "dst")
    (source / "Data/VID/val").mkdir(parents=True)
    with pytest.raises(StrobeError, match="images are missing under"):
        from_imagenet_vid(tmp_path / "outer", tmp_path / "dst")


# -- coco-vid ----------------------------------------------------------------------------------------------------


def coco(root: Path, *, images: bool = True) -> Path:
    """Two videos of 12 frames, a dog with a track on every frame, a crowd of people on the even ones."""
    data = {
        "videos": [{"id": 1, "name": "park", "fps": 25}, {"id": 7, "name": "road"}],
        "categories": [{"id": 18, "name": "dog"}, {"id": 1, "name": "person"}],
        "images": [],
        "annotations": [],
    }
    for video, name in ((1, "park"), (7, "road")):
        for index in range(12):
            number = video * 100 + index
            file = f"{name}/{index:05d}.png"
            data["images"].append(
                {"id": number, "video_id": video, "frame_id": index, "file_name": file, "width": 64, "height": 48}
            )
            data["annotations"].append(
                {"id": number, "image_id": number, "category_id": 18, "bbox": [index, 1, 10.5, 20], "instance_id": 5}
            )
            if index % 2 == 0:
                data["annotations"].append(
                    {"id": -number, "image_id": number, "category_id": 1, "bbox": [0, 0, 9, 9], "iscrowd": 1}
                )
            if images:
                picture(root / "images" / file, number)
    root.mkdir(parents=True, exist_ok=True)
    (root / "ann.json").write_text(json.dumps(data))
    return root / "ann.json"


def test_coco_vid(tmp_path: Path) -> None:
    source = coco(tmp_path / "src")
    from_coco_vid(source, tmp_path / "dst", images=tmp_path / "src/images", draw=Draw(k=3, seed=1))
    data = folder.read(tmp_path / "dst")
    assert data.n_sets == 2
    assert data.info.label_space.names == ("dog", "person")
    assert data.videos.fps(0) == 25
    assert data.videos.fps(1) is None
    row = int(np.flatnonzero((data.frames.video == 0) & (data.frames.index % 2 == 0))[0])
    index = int(data.frames.index[row])
    assert data.frame(row).time_s == Fraction(index, 25)
    dog, crowd = data.boxes.of_frame(row)
    assert dog.xyxy == (index, 1.0, index + 10.5, 21.0)
    assert (dog.track, dog.crowd, crowd.crowd) == (5, False, True)
    assert data.labels_of(row) == (0, 1)
    assert (tmp_path / "dst" / data.frames.media[row]).is_file()


def test_youtube_vis_json_says_the_same(tmp_path: Path) -> None:
    plain = json.loads(coco(tmp_path / "src", images=False).read_text())
    names = {v["id"]: [i["file_name"] for i in plain["images"] if i["video_id"] == v["id"]] for v in plain["videos"]}
    vis = {
        "videos": [{**v, "file_names": names[v["id"]], "width": 64, "height": 48} for v in plain["videos"]],
        "categories": plain["categories"],
        "annotations": [
            {"id": 5, "video_id": v, "category_id": 18, "bboxes": [[i, 1, 10.5, 20] for i in range(12)]} for v in (1, 7)
        ]
        + [
            {"id": 6 + v, "video_id": v, "category_id": 1, "iscrowd": 1,
             "bboxes": [[0, 0, 9, 9] if i % 2 == 0 else None for i in range(12)]}
            for v in (1, 7)
        ],
    }  # fmt: skip
    (tmp_path / "vis.json").write_text(json.dumps(vis))
    one = from_coco_vid(tmp_path / "src/ann.json", tmp_path / "a", how=Bring(media="none")).dataset
    two = from_coco_vid(tmp_path / "vis.json", tmp_path / "b", how=Bring(media="none")).dataset
    assert one.frame_ids() == two.frame_ids()
    assert one.labels.label.tolist() == two.labels.label.tolist()
    assert one.boxes.xyxy.tolist() == two.boxes.xyxy.tolist()


def test_coco_names_of_a_shipped_space_become_it(tmp_path: Path) -> None:
    data = json.loads(coco(tmp_path / "src", images=False).read_text())
    youtube = space("youtube-bb")
    data["categories"] = [{"id": place, "name": name} for place, name in enumerate(reversed(youtube.names))]
    (tmp_path / "a.json").write_text(json.dumps(data))
    done = from_coco_vid(tmp_path / "a.json", tmp_path / "a", how=Bring(media="none")).dataset
    assert done.info.label_space == youtube
    named = from_coco_vid(
        tmp_path / "src/ann.json", tmp_path / "b", how=Bring(media="none"), label_space="youtube-bb"
    ).dataset
    assert named.info.label_space == youtube
    with pytest.raises(StrobeError, match="unknown class of imagenet-vid 'person'"):
        from_coco_vid(tmp_path / "src/ann.json", tmp_path / "c", how=Bring(media="none"), label_space="imagenet-vid")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d.pop("videos"), "no list of videos"),
        (lambda d: d.pop("images"), "no list of images, and no file_names"),
        (lambda d: d["categories"].clear(), "no categories"),
        (lambda d: d["categories"].append({"id": 9, "name": "dog"}), r"categories\[2\]: the category 'dog'"),
        (lambda d: d["videos"].append({"id": 1, "name": "x"}), r"videos\[2\]: the video 'x'"),
        (lambda d: d["videos"][0].update(fps="often"), r"videos\[0\]: expected"),
        (lambda d: d["images"][3].pop("frame_id"), r"images\[3\]: expected an image with"),
        (lambda d: d["images"][3].update(frame_id=2), r"images\[3\]: frame_id 2 .* stands twice"),
        (lambda d: d["images"][3].update(video_id=9), r"images\[3\]: video_id 9 is no video"),
        (lambda d: d["annotations"][2].update(category_id=99), r"annotations\[2\]: expected known image_id"),
        (lambda d: d["annotations"][2].update(image_id=99), r"annotations\[2\]: expected known image_id"),
        (lambda d: d["annotations"][2].update(bbox=[1, 2, 3]), r"annotations\[2\]: expected"),
        (lambda d: d["annotations"][2].update(bbox=[1, 2, 3, float("nan")]), r"annotations\[2\]: bbox .* finite"),
        (lambda d: d["annotations"].clear(), "none of the 2 videos has a labelled frame"),
    ],
)
def test_broken_coco(tmp_path: Path, change, problem: str) -> None:
    source = coco(tmp_path / "src", images=False)
    data = json.loads(source.read_text())
    change(data)
    source.write_text(json.dumps(data))
    with pytest.raises(StrobeError, match=problem) as caught:
        from_coco_vid(source, tmp_path / "dst", how=Bring(media="none"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "dst").exists()


def test_boxes_without_area_are_counted(tmp_path: Path) -> None:
    source = coco(tmp_path / "src", images=False)
    data = json.loads(source.read_text())
    data["annotations"][0]["bbox"] = [1, 2, 0, 5]
    source.write_text(json.dumps(data))
    assert "1 box(es) without an area" in from_coco_vid(source, tmp_path / "dst", how=Bring(media="none")).notes[-1]


def test_coco_wants_the_file_and_the_images(tmp_path: Path) -> None:
    source = coco(tmp_path / "src", images=False)
    with pytest.raises(StrobeError, match="is a folder; give the COCO video JSON"):
        from_coco_vid(tmp_path / "src", tmp_path / "dst")
    with pytest.raises(StrobeError, match="no such file"):
        from_coco_vid(tmp_path / "no.json", tmp_path / "dst")
    with pytest.raises(StrobeError, match="name the folder of the images with --images"):
        from_coco_vid(source, tmp_path / "dst", images=tmp_path / "nowhere")
    with pytest.raises(StrobeError, match="images are missing under"):
        from_coco_vid(source, tmp_path / "dst")


# -- frames ------------------------------------------------------------------------------------------------------


def frame_folders(root: Path) -> Path:
    """Two videos: numbered frames with a gap (3 is missing), and names that are no numbers."""
    for index in (0, 1, 2, 4, 5):
        picture(root / f"dog1/frame-{index}.png", index)
    for place, name in enumerate("abc"):
        picture(root / f"home/cat 2/{name}.jpg", 100 + place)
    (root / "labels.csv").write_text("video,label\ndog1,dog|pet\nhome/cat 2,cat\n")
    (root / "notes.txt").write_text("not a frame")
    return root


def test_frames(tmp_path: Path) -> None:
    source = frame_folders(tmp_path / "src")
    from_frames(source, tmp_path / "dst", files=FrameFiles(fps=Fraction(30000, 1001)), draw=Draw(k=10))
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
    data = from_frames(source, tmp_path / "dst", files=files, draw=Draw(k=1)).dataset
    assert [one.set_id for one in data] == ["dog1@1", "dog1@2", "home/cat 2@0"]
    assert data.info.label_source == "anchor"
    names = data.info.label_space.names
    assert [names[label] for label in data.labels_of(int(data.sets.anchor_frame[0]))] == ["dog", "pet"]
    assert [names[label] for label in data.labels_of(int(data.sets.anchor_frame[1]))] == ["pet"]
    assert data.boxes.xyxy.tolist() == [[1, 2, 3.5, 4]]
    assert data.boxes.track.tolist() == [9]


def test_frames_in_a_shipped_space(tmp_path: Path) -> None:
    source = frame_folders(tmp_path / "src")
    (source / "labels.csv").write_text("video,label\ndog1,dog\nhome/cat 2,n02121808\n")
    data = from_frames(source, tmp_path / "dst", files=FrameFiles(label_space="imagenet-vid")).dataset
    assert data.info.label_space == space("imagenet-vid")
    assert data.info.label_space.names[data.labels_of(int(data.sets.anchor_frame[1]))[0]] == "domestic cat"
    with pytest.raises(StrobeError, match="lies inside"):
        from_frames(source, source / "out", files=FrameFiles())


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
        from_frames(source, tmp_path / "dst", files=FrameFiles(fps=Fraction(fps) if fps else None))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "dst").exists()


def test_what_is_missing_from_frames_is_said(tmp_path: Path) -> None:
    with pytest.raises(StrobeError, match="no such folder"):
        from_frames(tmp_path / "x", tmp_path / "dst", files=FrameFiles())
    (tmp_path / "empty").mkdir()
    with pytest.raises(StrobeError, match="no images under"):
        from_frames(tmp_path / "empty", tmp_path / "dst", files=FrameFiles())
    picture(tmp_path / "flat/0.png", 0)
    (tmp_path / "empty/dog").symlink_to(tmp_path / "flat", target_is_directory=True)
    with pytest.raises(StrobeError, match=r"no images under .*; links to folders, as .*dog, are not followed"):
        from_frames(tmp_path / "empty", tmp_path / "dst", files=FrameFiles())
    with pytest.raises(StrobeError, match="lies in no video's folder"):
        from_frames(tmp_path / "flat", tmp_path / "dst", files=FrameFiles(label=("dog",)))
    source = frame_folders(tmp_path / "src")
    (source / "labels.csv").unlink()
    with pytest.raises(StrobeError, match="nothing says what the frames show"):
        from_frames(source, tmp_path / "dst", files=FrameFiles())
    for rows, problem in (("dog1,3\n", "the given anchor 3 is no frame"), ("wolf,1\n", "not given: wolf")):
        (tmp_path / "anchors.csv").write_text("video,frame\n" + rows)
        with pytest.raises(StrobeError, match=problem):
            from_frames(source, tmp_path / "dst", files=FrameFiles(label=("x",), anchors=tmp_path / "anchors.csv"))


# -- where it goes -----------------------------------------------------------------------------------------------


def test_nothing_that_is_there_is_overwritten(tmp_path: Path) -> None:
    source = ilsvrc(tmp_path / "src", images=False)
    from_imagenet_vid(source, tmp_path / "dst", how=Bring(media="none"))
    with pytest.raises(StrobeError, match="already holds a dataset made otherwise"):
        from_imagenet_vid(source, tmp_path / "dst", draw=Draw(k=1), how=Bring(media="none"))
    (tmp_path / "file").write_text("")
    with pytest.raises(StrobeError, match="is a file"):
        from_imagenet_vid(source, tmp_path / "file", how=Bring(media="none"))
    with pytest.raises(StrobeError, match="is not empty and holds no dataset"):
        from_imagenet_vid(source, tmp_path / "src", how=Bring(media="none"))


def test_a_finished_import_run_again_says_so(tmp_path: Path) -> None:
    """The same command again is no error; with other settings or another source it is, and writes nothing."""
    source = ilsvrc(tmp_path / "src")
    first = from_imagenet_vid(source, tmp_path / "dst", how=Bring(hints=True))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "dst").rglob("*")}
    again = from_imagenet_vid(source, tmp_path / "dst", how=Bring(hints=True))
    assert again.dataset.digest() == first.dataset.digest()
    assert "it is there already; nothing was changed" in again.notes
    votes = [
        Verdict(verdict_id="a", annotator="Ann", at="2026-01-01T00:00:00Z", stage="pair", decision="similar",
                set_id=str(first.dataset.sets.set_id[0]), frame_id=first.dataset.frame_ids()[0])
    ]  # fmt: skip
    folder.append_verdicts(tmp_path / "dst", votes)
    assert len(from_imagenet_vid(source, tmp_path / "dst", how=Bring(hints=True)).dataset.verdicts) == 1
    for how in (Bring(), Bring(media="none")):
        with pytest.raises(StrobeError, match="already holds a dataset made otherwise"):
            from_imagenet_vid(source, tmp_path / "dst", how=how)
    other = ilsvrc(tmp_path / "other", split="train")
    with pytest.raises(StrobeError, match=r"already holds a dataset, and .* is not there, or another"):
        from_imagenet_vid(other, tmp_path / "dst", split="train")
    changed = {path: path.stat().st_mtime_ns for path in (tmp_path / "dst").rglob("*") if path.is_file()}
    assert {path.name for path in changed if changed[path] != before.get(path)} == {"dataset.json", "verdicts.parquet"}


def test_an_interrupted_import_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped half-way through the images: no dataset yet, and the second run keeps what the first brought."""
    source = ilsvrc(tmp_path / "src")
    real = Path.write_bytes
    written: list[Path] = []

    def stop(path: Path, data: bytes) -> int:
        if len(written) == 7:
            raise KeyboardInterrupt
        written.append(path)
        return real(path, data)

    monkeypatch.setattr(Path, "write_bytes", stop)
    with pytest.raises(KeyboardInterrupt):
        from_imagenet_vid(source, tmp_path / "dst")
    monkeypatch.undo()
    assert not folder.is_dataset(tmp_path / "dst")
    brought = {path: path.stat().st_mtime_ns for path in (tmp_path / "dst/media").rglob("[!.]*.JPEG")}
    last = max(brought)
    half = last.with_name(f".{int(last.stem) + 1:06d}.JPEG.strobe.tmp")  # of the file that would have been the next
    half.write_bytes(b"left by a kill")
    assert len(brought) == 7
    data = from_imagenet_vid(source, tmp_path / "dst").dataset
    assert {path: path.stat().st_mtime_ns for path in brought} == brought
    assert not half.exists()
    assert from_imagenet_vid(source, tmp_path / "whole").dataset.digest() == data.digest()


def test_the_command_line(tmp_path: Path) -> None:
    source = ilsvrc(tmp_path / "src", images=False)
    runner = CliRunner()
    done = runner.invoke(command, ["imagenet-vid", str(source), str(tmp_path / "a"), "--no-media", "--k", "2", "-q"])
    assert done.exit_code == 0, done.output
    assert "2 videos, 2 sets, " in done.stdout
    assert "30 classes" in done.stdout
    frames = frame_folders(tmp_path / "frames")
    done = runner.invoke(command, ["frames", str(frames), str(tmp_path / "b"), "--fps", "30000/1001", "--json"])
    assert json.loads(done.stdout)["n_sets"] == 2
    done = runner.invoke(command, ["frames", str(frames), str(tmp_path / "c"), "--fps", "fast"])
    assert done.exit_code == 2
    coco_json = coco(tmp_path / "coco", images=False)
    done = runner.invoke(command, ["coco-vid", str(coco_json), str(tmp_path / "d"), "--no-media", "--json"])
    assert json.loads(done.stdout)["n_boxes"] > 0
    done = runner.invoke(command, ["imagenet-vid-robust", str(source), str(tmp_path / "e")])
    assert isinstance(done.exception, StrobeError)


def test_hints_of_images_that_cannot_be_read_are_unknown(tmp_path: Path) -> None:
    source = frame_folders(tmp_path / "src")
    first = from_frames(source, tmp_path / "dst", files=FrameFiles(label=("dog",)))
    dataset = folder.read(tmp_path / "dst")
    broken = int(dataset.sets.frame[~dataset.sets.is_anchor][0])
    (tmp_path / "dst" / str(dataset.frames.media[broken])).write_bytes(b"no image")
    hints, n_unread = hints_of(dataset, MediaSource(dataset))
    assert n_unread == 1
    assert (np.isnan(hints.motion) == (dataset.sets.frame == broken)).all()
    assert first.dataset.hints is None
    with pytest.raises(StrobeError, match="--hints are computed from the images"):
        from_frames(source, tmp_path / "x", files=FrameFiles(label=("dog",)), how=Bring(media="none", hints=True))
