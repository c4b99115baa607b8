"""ImageNet-VID as ILSVRC lays it out, and a line for what is missing or broken of it."""

import re
from pathlib import Path

import numpy as np
import pytest
from made_ilsvrc import CAT, TURTLE, ilsvrc, xml

from strobe.core.errors import InvalidFile, StrobeError
from strobe.core.labels import space
from strobe.formats.sampled import ImportSampling
from strobe.store import dataset_folder as folder
from strobe.store.media import MediaSource
from strobe.workflows.import_dataset import ImportOptions, import_dataset


@pytest.mark.parametrize("split", ["val", "train"])
def test_imagenet_vid(tmp_path: Path, split: str) -> None:
    done = import_dataset(
        "imagenet-vid",
        ilsvrc(tmp_path / "src", split=split),
        tmp_path / "dst",
        draw=ImportSampling(seed=3),
        options={"split": split},
    )
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
        done = import_dataset(
            "imagenet-vid",
            source,
            tmp_path / name,
            draw=ImportSampling(seed=seed, k=2),
            how=ImportOptions(media="none"),
        )
        return {one.set_id.split("@")[0]: one.anchor.index for one in done.dataset}

    one = anchors("a", 1)
    assert anchors("b", 1) == one
    draws = {anchors(f"s{seed}", seed)["ILSVRC2015_val_00000000"] for seed in range(8)}
    assert len(draws) > 3
    for path in (source / "Annotations/VID/val/ILSVRC2015_val_00001000").iterdir():
        path.unlink()
    alone = anchors("c", 1)
    assert alone["ILSVRC2015_val_00000000"] == one["ILSVRC2015_val_00000000"], "another video does not move an anchor"


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
        (xml([("n00000000", 0, (0, 0, 5, 5))]), "object 0: 'n00000000' is not a class of imagenet-vid"),
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
        import_dataset("imagenet-vid", source, tmp_path / "dst", how=ImportOptions(media="none"))
    assert "\n" not in str(caught.value)
    assert ".xml" in str(caught.value)
    assert not (tmp_path / "dst").exists()


def test_a_flat_box_keeps_its_label(tmp_path: Path) -> None:
    source = ilsvrc(tmp_path / "src", images=False)
    for path in (source / "Annotations/VID/val/ILSVRC2015_val_00001000").iterdir():
        path.write_text(xml([(TURTLE, 0, (3, 0, 3, 5))]))
    data = import_dataset("imagenet-vid", source, tmp_path / "dst", how=ImportOptions(media="none")).dataset
    mine = np.flatnonzero(data.frames.video == 1)
    assert all(data.labels_of(int(row)) for row in mine)
    assert not np.isin(data.boxes.frame, mine).any()


def test_what_is_missing_from_ilsvrc_is_said(tmp_path: Path) -> None:
    with pytest.raises(StrobeError, match="no such folder"):
        import_dataset("imagenet-vid", tmp_path / "x", tmp_path / "dst")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StrobeError, match="has no Annotations/VID"):
        import_dataset("imagenet-vid", tmp_path / "empty", tmp_path / "dst")
    source = ilsvrc(tmp_path / "outer/ILSVRC2015", images=False)
    with pytest.raises(StrobeError, match="has no Annotations/VID/test; --split can be val"):
        import_dataset("imagenet-vid", source, tmp_path / "dst", options={"split": "test"})
    with pytest.raises(StrobeError, match="has no Data/VID/val; get the images, or use --no-media"):
        import_dataset("imagenet-vid", tmp_path / "outer", tmp_path / "dst")
    (source / "Data/VID/val").mkdir(parents=True)
    with pytest.raises(StrobeError, match="images are missing under"):
        import_dataset("imagenet-vid", tmp_path / "outer", tmp_path / "dst")


def test_a_set_around_every_frame_shares_the_frames(tmp_path: Path) -> None:
    source = ilsvrc(tmp_path / "src")
    done = import_dataset(
        "imagenet-vid", source, tmp_path / "all", draw=ImportSampling(k=2), options={"all_frames": True}
    )
    data = done.dataset
    assert data.n_sets == len(data.frames), "every labelled frame is an anchor, and stored once"
    assert sorted(data.sets.anchor_frame.tolist()) == list(range(len(data.frames)))
    assert len(list((tmp_path / "all/media").rglob("*.JPEG"))) == len(data.frames)
    lengths = {"ILSVRC2015_val_00000000": 20, "ILSVRC2015_val_00001000": 6}
    for one in data:
        anchor, length = one.anchor.index, lengths[one.set_id.partition("@")[0]]
        expected = [index for index in range(max(0, anchor - 2), min(length, anchor + 3)) if index != anchor]
        assert [member.frame.index for member in one.members] == expected
    third = import_dataset("imagenet-vid", source, tmp_path / "third", draw=ImportSampling(k=2), options={"every": 3})
    assert {one.anchor.index % 3 for one in third.dataset} == {0}
    assert third.dataset.info.provenance["every"] == 3
    whole = {one.set_id: one for one in data}
    assert all(whole[one.set_id].members == one.members for one in third.dataset), "the same sets, fewer of them"
    with pytest.raises(StrobeError, match="--all-frames is the same as --every 1"):
        import_dataset("imagenet-vid", source, tmp_path / "x", options={"every": 3, "all_frames": True})
    assert not (tmp_path / "x").exists()


def test_imagenet_vid_is_held_against_its_images(tmp_path: Path) -> None:
    source = ilsvrc(tmp_path / "src")
    plain = import_dataset("imagenet-vid", source, tmp_path / "plain")
    for path in sorted(source.rglob("*.xml")):
        tenfold = re.sub(
            r"<(x|y|w|h)(\w+)>(\d+)<", lambda one: f"<{one[1]}{one[2]}>{10 * int(one[3])}<", path.read_text()
        )
        path.write_text(tenfold)
    done = import_dataset("imagenet-vid", source, tmp_path / "dst")
    assert any("images of another size and were scaled (the first: from 640×480" in note for note in done.notes)
    np.testing.assert_allclose(done.dataset.boxes.xyxy, plain.dataset.boxes.xyxy)
