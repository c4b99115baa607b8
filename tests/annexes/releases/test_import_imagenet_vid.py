"""ImageNet-VID, YouTube-BoundingBoxes, ImageNet-C and CIFAR-10-C in their real layouts, and what is missing of them."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_ilsvrc import CAT, TURTLE, ilsvrc, xml
from made_imports import clip, picture, run
from PIL import Image

from strobe.annexes.releases.youtube_bb import listed_anchors
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


TENCH, GOLDFISH = "n01440764", "n01443537"
FILES = [f"{TENCH}/a.png", f"{TENCH}/b.png", f"{GOLDFISH}/a.png"]


def corrupted(root: Path, *, group: str = "") -> tuple[Path, Path]:
    for place, name in enumerate(FILES):
        picture(root / "clean" / name, place)
        for kind, corruption in enumerate(("fog", "gaussian_noise")):
            for severity in range(1, 6):
                at = root / "c" / group / corruption / str(severity) / name
                picture(at, 100 * (kind + 1) + 10 * severity + place)
    return root / "c", root / "clean"


@pytest.mark.parametrize("group", ["", "weather"])
def test_folders_of_corruptions(tmp_path: Path, group: str) -> None:
    source, clean = corrupted(tmp_path, group=group)
    picture(source / group / "fog/1" / TENCH / "stray.png", 3)
    done = import_dataset("imagenet-c", source, tmp_path / "set", options={"clean": clean})
    assert done.notes == ("1 corrupted image(s) have no clean original and were left out",)
    data = folder.read(tmp_path / "set")
    assert (data.info.k, data.info.axis, data.info.combine, data.n_sets) == (5, "severity", "worst", 6)
    assert data.variants is not None
    assert [variant.variant for variant in data.variants] == ["fog", "gaussian_noise"]
    assert len(data.frames) == 3 * (1 + 2 * 5)
    assert len(data.videos) == 3, "one image, one source"
    first = next(iter(data))
    assert [member.distance for member in first.members] == [1, 2, 3, 4, 5]
    assert (data.root / str(data.frames.media[1])).is_file()


def test_a_part_of_the_corruptions(tmp_path: Path) -> None:
    source, clean = corrupted(tmp_path)
    wanted = {"corruption": ("fog",), "severity": (1, 3), "max_images": 2, "seed": 1}
    data = import_dataset(
        "imagenet-c", source, tmp_path / "set", how=ImportOptions(media="none"), options={"clean": clean, **wanted}
    ).dataset
    assert (data.n_sets, len(data.frames), data.info.k) == (2, 6, 2)
    with pytest.raises(StrobeError, match="unknown corruption 'frog'; did you mean fog"):
        import_dataset("imagenet-c", source, tmp_path / "x", options={"clean": clean, "corruption": ("frog",)})


def test_corruptions_are_scored_as_counted(tmp_path: Path) -> None:
    source, clean = corrupted(tmp_path)
    run("import", "imagenet-c", source, tmp_path / "set", "--clean", clean, "-q")
    data = folder.read(tmp_path / "set")
    rng = np.random.default_rng(3)
    right = dict(zip(data.frames.key.tolist(), (rng.random(len(data.frames)) < 0.7).tolist(), strict=True))
    truth = {key: 0 if TENCH in key else 1 for key in right}
    said = {key: truth[key] if ok else 999 for key, ok in right.items()}
    (tmp_path / "p.json").write_text(json.dumps(said))
    run("eval", tmp_path / "set", "-m", f"preds:{tmp_path / 'p.json'}", "-o", tmp_path / "run", "--no-report", "-q")
    model = json.loads((tmp_path / "run/results.json").read_text())["models"]["p"]
    for variant in model["variants"]:
        name = variant["variant"]
        for level in variant["levels"]:
            severity = int(level["level"])
            at = [right[f"{name}/{severity}/{file}"] for file in FILES]
            upto = [
                right[f"clean/{file}"] and all(right[f"{name}/{s}/{file}"] for s in range(1, severity + 1))
                for file in FILES
            ]
            assert level["at"]["count"] == sum(at)
            assert level["upto"]["count"] == sum(upto)
    worst = [all(ok for key, ok in right.items() if key.endswith(file)) for file in FILES]
    assert model["acc_pmk"]["count"] == sum(worst), "worst over corruptions and severities"
    assert model["acc_orig"]["count"] == sum(right[f"clean/{file}"] for file in FILES)


def test_arrays_as_cifar_10_c(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    clean = rng.integers(0, 256, (4, 8, 8, 3), dtype=np.uint8)
    source = tmp_path / "CIFAR-10-C"
    source.mkdir()
    np.save(tmp_path / "clean.npy", clean)
    np.save(source / "labels.npy", np.tile(np.array([3, 1, 0, 9]), 5))
    array = rng.integers(0, 256, (20, 8, 8, 3), dtype=np.uint8)
    np.save(source / "fog.npy", array)
    done = import_dataset("imagenet-c", source, tmp_path / "set", options={"clean": tmp_path / "clean.npy"})
    data = folder.read(tmp_path / "set")
    assert data.info.label_space.names[3] == "cat"
    assert [data.labels_of(int(row)) for row in data.sets.anchor_frame] == [(3,), (1,), (0,), (9,)]
    third = list(data)[2]
    stored = np.asarray(Image.open(tmp_path / "set/media" / third.members[4].frame.key))
    assert (stored == array[4 * 4 + 2]).all()
    assert done.dataset.n_sets == 4


def _archive(path: Path) -> None:
    np.savez(path.with_suffix(".npz"), a=np.zeros(2))
    path.with_suffix(".npz").rename(path)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda root: np.save(root / "c/fog.npy", np.zeros((3, 8, 8, 3), np.uint8)), "expected (20, 8, 8, 3)"),
        (lambda root: np.save(root / "c/labels.npy", np.full(4, 12)), "outside the 10 classes; give --classes"),
        (lambda root: (root / "c/fog.npy").write_bytes(b"no"), "not a .npy file of numbers"),
        (lambda root: (root / "c/fog.npy").write_bytes(b"\x93NUMPY\x01\x00\x03\x00{'("), "not a .npy file of numbers"),
        (lambda root: _archive(root / "c/fog.npy"), "several arrays"),
        (lambda root: np.save(root / "clean.npy", np.zeros((4, 8, 8), np.uint8)), "expected (N, height, width, 3)"),
    ],
)
def test_bad_arrays_are_one_line(tmp_path: Path, spoil, said: str) -> None:
    (tmp_path / "c").mkdir()
    np.save(tmp_path / "clean.npy", np.zeros((4, 8, 8, 3), np.uint8))
    np.save(tmp_path / "c/labels.npy", np.zeros(4, int))
    np.save(tmp_path / "c/fog.npy", np.zeros((20, 8, 8, 3), np.uint8))
    spoil(tmp_path)
    out = run("import", "imagenet-c", tmp_path / "c", tmp_path / "set", "--clean", tmp_path / "clean.npy", code=2)
    assert said in out
    assert out.count("\n") == 1
    assert not (tmp_path / "set/dataset.json").exists()


def _in(folder: Path, name: str, content: bytes = b"") -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return folder


HEAD = b"subj,session,trial,rt,object_response,category,condition,imagename\n"
MISSING = [
    ("imagenet-vid", lambda p: p / "x", {}, "no such folder"),
    ("imagenet-vid", lambda p: _in(p, "readme"), {}, "has no Annotations/VID"),
    ("imagenet-vid", lambda p: ilsvrc(p, images=False), {"split": "test"}, "has no Annotations/VID/test; --split can"),
    ("imagenet-vid", lambda p: ilsvrc(p, images=False), {}, "has no Data/VID/val; get the images, or use --no-media"),
    ("imagenet-vid", lambda p: _in(ilsvrc(p, images=False), "Data/VID/val/x"), {}, "images are missing under"),
    ("youtube-bb", lambda p: _in(p, "readme"), {}, "expected one annotation CSV in .*, found none"),
    ("youtube-bb", lambda p: _in(p, "a.csv", b"AAAAAAAAAAA,1000,19,dog,present\n"), {}, "no videos under"),
    ("youtube-bb", lambda p: _in(p, "a.csv", b"A"), {"videos": Path("nowhere")}, "no such folder"),
    ("imagenet-c", lambda p: corrupted(p)[0], {"clean": Path("nowhere")}, "--clean must be the folder"),
    ("imagenet-c", lambda p: corrupted(p)[1], {"clean": Path()}, "it contains no corruptions|--clean must be"),
    ("trials", lambda p: p / "x", {}, "no such file or folder"),
    ("trials", lambda p: _in(p, "readme"), {}, "it contains no .csv file"),
    (
        "trials",
        lambda p: _in(p, "a.csv", b"subj,object_response,category\na,b,c\n"),
        {},
        "imagename is missing; it has subj",
    ),
    ("trials", lambda p: _in(p, "a.csv", HEAD.replace(b"session", b"rt")), {}, "the column rt appears twice"),
    ("trials", lambda p: _in(p, "a.csv", b"\xff\xfe\x00"), {}, "byte 0: not UTF-8 text"),
    ("imagenet-vid-robust", lambda p: p / "x", {}, "no such folder"),
    ("imagenet-vid-robust", lambda p: _in(p, "readme"), {}, r"has no metadata/pmsets\.json"),
    ("ytbb-robust", lambda p: _in(p, "readme"), {}, r"has no anchor annotations .*name the file with --anchors"),
]


@pytest.mark.parametrize(("form", "layout", "options", "says"), MISSING, ids=range(len(MISSING)))
def test_what_is_missing_is_one_line(tmp_path: Path, form: str, layout: Any, options: Any, says: str) -> None:
    with pytest.raises(StrobeError, match=says) as caught:
        import_dataset(form, layout(tmp_path / "src"), tmp_path / "dst", options=options)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "dst/dataset.json").exists()
