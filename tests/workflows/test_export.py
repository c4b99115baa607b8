"""Exports: the release comes back byte for byte, COCO loads where COCO is read, CSV says what the tables say."""

import csv
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from strobe.cli.export import command
from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import InvalidValue, StrobeError, UnknownName
from strobe.core.labels import LabelSpace, space
from strobe.core.packed import packed
from strobe.core.records import Verdict
from strobe.formats.import_frames import FrameFiles
from strobe.formats.sampled import ImportSampling
from strobe.store import dataset_folder as folder
from strobe.store.media import MediaSource
from strobe.workflows.export import export
from strobe.workflows.import_dataset import ImportOptions, import_dataset

REFERENCE = Path(__file__).parents[2] / "../shared/reference/imagenet-vid-robust"


def made(
    root: Path, *, label_space: LabelSpace | None = None, keys: str = "clip{v}/{i}.png", ending: str = ".png"
) -> Path:
    """Two videos of five frames with images, boxes, tracks, two labels on some frames and one vote."""
    grown = DatasetBuilder()
    for v in range(2):
        video = grown.video(video_id=f"v{v}", name=f"clip {v}", fps=Fraction(30000, 1001), n_frames=5)
        rows = []
        for i in range(5):
            media = f"media/clip{v}/{i}{ending}"
            (root / media).parent.mkdir(parents=True, exist_ok=True)
            picture = Image.new("RGB", (32, 24), (v, i, 0))
            if ending == ".zst":
                (root / media).write_bytes(packed(np.asarray(picture), ""))
            else:
                picture.save(root / media)
            rows.append(
                grown.frame(
                    video=video, index=i, key=keys.format(v=v, i=i), size_wh=(32, 24), media=media,
                    labels=[v] if i < 3 else [v, 2],
                )
            )  # fmt: skip
            grown.box(frame=rows[-1], label=v, xyxy=(i, 1.25, i + 7.5, 20), track=v if i else -1, crowd=i == 4)
        grown.set(set_id=f"clip {v}@2", anchor=rows[2], members=[(rows[i], i - 2) for i in (0, 1, 3, 4)])
    info = DatasetInfo(name="made", label_space=label_space or space("imagenet-vid"), k=2, licence="CC0")
    data = grown.build(info, root=root)
    vote = Verdict(
        verdict_id="1", annotator="ann", at="2026-01-01T00:00:00Z", stage="pair", set_id="clip 0@2", frame_id="v0:1",
        decision="similar", labels=("a", "b"), note='says "hm", twice',
    )  # fmt: skip
    folder.write(replace(data, verdicts=(vote,)), root)
    return root


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference folder is not at hand")
def test_the_real_release_comes_back_byte_for_byte(tmp_path: Path) -> None:
    import_dataset("imagenet-vid-robust", REFERENCE, tmp_path / "set", how=ImportOptions(media="none"))
    export(tmp_path / "set", "imagenet-vid-robust", tmp_path / "out")
    for name in ("pmsets.json", "labels.json"):
        assert (tmp_path / "out/metadata" / name).read_bytes() == (REFERENCE / name).read_bytes()


@st.composite
def releases(draw) -> tuple[dict[str, list[str]], dict[str, list[int]]]:
    """Lawful releases of the original's form: sorted keys, sorted neighbours, several labels, gaps, empty sets."""
    pmsets, labels = {}, {}
    for video in sorted(draw(st.sets(st.integers(0, 99), min_size=1, max_size=5))):
        name = f"val/ILSVRC2015_val_{video:08d}/{{:06d}}.JPEG"
        anchor = draw(st.integers(10, 500))
        near = sorted(draw(st.sets(st.integers(-10, 10).filter(bool))))
        pmsets[name.format(anchor)] = [name.format(anchor + offset) for offset in near]
        for index in sorted([anchor, *(anchor + offset for offset in near)]):
            labels[name.format(index)] = sorted(draw(st.sets(st.integers(0, 29), min_size=1, max_size=3)))
    return pmsets, labels


@settings(max_examples=25, deadline=None)
@given(made_up=releases())
def test_any_release_comes_back_byte_for_byte(made_up, tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("release")
    (root / "src/metadata").mkdir(parents=True)
    for name, content in zip(("pmsets", "labels"), made_up, strict=True):
        (root / f"src/metadata/{name}.json").write_text(json.dumps(content, indent=1))
    import_dataset("imagenet-vid-robust", root / "src", root / "set", how=ImportOptions(media="none"))
    export(root / "set", "imagenet-vid-robust", root / "out")
    for name in ("pmsets.json", "labels.json"):
        assert (root / "out/metadata" / name).read_bytes() == (root / "src/metadata" / name).read_bytes()


def release(root: Path) -> Path:
    labels = {f"val/v{v}/{i:06d}.JPEG": [v] if i else [v, 9] for v in (3, 1) for i in range(4)}
    pmsets = {"val/v3/000002.JPEG": ["val/v3/000000.JPEG", "val/v3/000001.JPEG"], "val/v1/000001.JPEG": []}
    labels = {key: value for key, value in labels.items() if key in {*pmsets, *pmsets["val/v3/000002.JPEG"]}}
    for name, content in (("pmsets", pmsets), ("labels", labels)):
        (root / "metadata").mkdir(parents=True, exist_ok=True)
        (root / f"metadata/{name}.json").write_text(json.dumps(content, indent=1))
    for place, key in enumerate(labels):
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8), (place * 30, 0, 0)).save(root / key, "JPEG")
    return root


@pytest.mark.parametrize("mode", ["copy", "link"])
def test_a_release_with_images_comes_back_whole(tmp_path: Path, mode: str) -> None:
    source = release(tmp_path / "src")
    import_dataset("imagenet-vid-robust", source, tmp_path / "set")
    export(tmp_path / "set", "imagenet-vid-robust", tmp_path / "out", media=mode)
    files = {path.relative_to(source) for path in source.rglob("*") if path.is_file()}
    assert files == {path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*") if path.is_file()}
    for name in files:
        assert (tmp_path / "out" / name).read_bytes() == (source / name).read_bytes(), name


def test_a_dataset_of_ones_own_goes_through_the_release_format(tmp_path: Path) -> None:
    export(made(tmp_path / "set"), "imagenet-vid-robust", tmp_path / "out", media="copy", candidates=True)
    back = import_dataset("imagenet-vid-robust", tmp_path / "out", tmp_path / "back").dataset
    data = folder.read(tmp_path / "set")
    assert back.sets.distance.tolist() == data.sets.distance.tolist()
    assert back.labels.label.tolist() == data.labels.label.tolist()
    assert list(back.frames.key)[:2] == ["val/clip_0/000000.png", "val/clip_0/000001.png"]


def test_what_the_release_format_cannot_hold_is_refused(tmp_path: Path) -> None:
    pets = LabelSpace.of_names("pets", ["cat", "dog", "fox"])
    with pytest.raises(InvalidValue, match="has the classes of pets; export it as coco or csv"):
        export(made(tmp_path / "a", label_space=pets), "imagenet-vid-robust", tmp_path / "out")
    data = folder.read(made(tmp_path / "b"))
    far = replace(data, sets=replace(data.sets, distance=data.sets.distance * 9), verdicts=())
    folder.write(far, tmp_path / "far")
    with pytest.raises(InvalidValue, match="up to 10 frames on either side, but made reaches 18"):
        export(tmp_path / "far", "imagenet-vid-robust", tmp_path / "out")
    keep = data.labels.frame != 3
    bare = replace(
        data, labels=replace(data.labels, frame=data.labels.frame[keep], label=data.labels.label[keep]), verdicts=()
    )
    folder.write(bare, tmp_path / "bare")
    with pytest.raises(InvalidValue, match="1 have none, first val/clip_0/000003"):
        export(tmp_path / "bare", "imagenet-vid-robust", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_coco_loads_in_pycocotools_and_comes_back(tmp_path: Path) -> None:
    coco = pytest.importorskip("pycocotools.coco")
    data = folder.read(made(tmp_path / "set"))
    export(tmp_path / "set", "coco", tmp_path / "out", media="link", candidates=True)
    loaded = coco.COCO(str(tmp_path / "out/annotations.json"))
    assert len(loaded.imgs) == 10
    assert len(loaded.anns) == 10
    for image in loaded.imgs.values():
        with Image.open(tmp_path / "out/images" / image["file_name"]) as picture:
            assert picture.size == (image["width"], image["height"])
    back = import_dataset(
        "coco-vid",
        tmp_path / "out/annotations.json",
        tmp_path / "back",
        draw=ImportSampling(k=4),
        options={"images": tmp_path / "out/images"},
    ).dataset
    assert back.info.label_space == data.info.label_space
    assert back.videos.fps(0) == Fraction(30000, 1001)
    assert np.unique(back.boxes.xyxy, axis=0).tolist() == np.unique(data.boxes.xyxy, axis=0).tolist()
    assert sorted(back.boxes.track.tolist()) == sorted(data.boxes.track.tolist())
    assert sorted(back.boxes.crowd.tolist()) == sorted(data.boxes.crowd.tolist())


def test_coco_says_what_boxes_do_not(tmp_path: Path) -> None:
    export(made(tmp_path / "set"), "coco", tmp_path / "out", candidates=True)
    document = json.loads((tmp_path / "out/annotations.json").read_text())
    assert document["images"][3]["category_ids"] == [1, 3]
    assert document["sets"][0] == {
        "id": 1, "name": "clip 0@2", "anchor_image_id": 3,
        "members": [{"image_id": n, "distance": d} for n, d in ((1, -2.0), (2, -1.0), (4, 1.0), (5, 2.0))],
    }  # fmt: skip
    assert document["info"]["strobe"]["digest"] == folder.read(tmp_path / "set").digest()
    assert "instance_id" not in document["annotations"][0]


def test_csv_says_what_the_tables_say(tmp_path: Path) -> None:
    data = folder.read(made(tmp_path / "set"))
    export(tmp_path / "set", "csv", tmp_path / "out", media="copy", candidates=True)

    def rows(name: str) -> list[dict[str, str]]:
        with (tmp_path / f"out/{name}.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    assert [row["frame_id"] for row in rows("frames")] == data.frame_ids()
    assert [float(row["distance"]) for row in rows("sets")] == data.sets.distance.tolist()
    assert [row["is_anchor"] == "true" for row in rows("sets")] == data.sets.is_anchor.tolist()
    assert [float(row["x1"]) for row in rows("boxes")] == data.boxes.xyxy[:, 2].tolist()
    assert rows("boxes")[0]["track"] == ""
    assert rows("frames")[0]["pts"] == ""
    assert rows("verdicts")[0]["labels"] == "a|b"
    assert rows("verdicts")[0]["note"] == 'says "hm", twice'
    assert len(rows("classes")) == 30
    assert (tmp_path / "out/media/clip1/4.png").is_file()


@pytest.mark.parametrize("mode", ["copy", "link"])
def test_packed_frames_are_pictures_for_others(tmp_path: Path, mode: str) -> None:
    root = made(tmp_path / "set", ending=".zst")
    for form, place in (
        ("coco", "images/clip1/4.png"), ("csv", "media/clip1/4.png"), ("fiftyone", "data/clip1/4.png"),
        ("imagenet-vid-robust", "val/clip_1/000004.png"),
    ):  # fmt: skip
        for _ in range(2):  # the same again changes nothing
            export(root, form, tmp_path / form, media=mode, candidates=True)
        with Image.open(tmp_path / form / place) as picture:
            assert np.asarray(picture)[0, 0].tolist() == [1, 4, 0], form
        assert not list((tmp_path / form).rglob("*.zst"))
    assert "media/clip1/4.png" in (tmp_path / "csv/frames.csv").read_text()
    files = export(root, "huggingface", tmp_path / "hf", candidates=True).files
    assert pq.read_table(files[0]).column("image")[0]["bytes"].as_py().startswith(b"\x89PNG")
    # A Croissant folder is a dataset folder, which we read ourselves.
    export(root, "croissant", tmp_path / "again", media=mode, candidates=True)
    there = (tmp_path / "again/media/clip1/4.zst").stat()
    assert (there.st_ino == (root / "media/clip1/4.zst").stat().st_ino) is (mode == "link")
    assert MediaSource(folder.read(tmp_path / "again")).read(9)[0, 0].tolist() == [1, 4, 0]
    with pytest.raises(StrobeError, match="pass --media copy, which unpacks them"):
        export(root, "fiftyone", tmp_path / "none", candidates=True)


def voted(root: Path) -> Dataset:
    data = folder.read(made(root))
    folder.append_verdicts(root, [replace(data.verdicts[0], verdict_id="2", frame_id="v0:3", decision="dissimilar")])
    return folder.read(root)


def test_votes_decide_what_is_exported(tmp_path: Path) -> None:
    voted(tmp_path / "set")
    kept = export(tmp_path / "set", "coco", tmp_path / "kept")
    assert kept.dataset.sets.distance.tolist() == [-1.0, 0.0]
    everything = export(tmp_path / "set", "coco", tmp_path / "all", candidates=True)
    assert everything.dataset.n_sets == 2
    assert len(json.loads((tmp_path / "kept/annotations.json").read_text())["images"]) == 2


def test_bad_requests(tmp_path: Path) -> None:
    root = made(tmp_path / "set")
    with pytest.raises(UnknownName, match="did you mean coco"):
        export(root, "cocoa", tmp_path / "out")
    for _ in range(2):  # the same again is no error
        export(root, "coco", tmp_path / "out")
    (tmp_path / "out/annotations.json").write_text("mine")
    with pytest.raises(StrobeError, match="already exists"):
        export(root, "coco", tmp_path / "out")
    assert (tmp_path / "out/annotations.json").read_text() == "mine"
    (tmp_path / "file").write_text("")
    with pytest.raises(StrobeError, match=r"is a file|not a folder"):
        export(root, "coco", tmp_path / "file")
    data = folder.read(root)
    bare = replace(data, frames=replace(data.frames, media=np.full(10, "", dtype=object)), verdicts=())
    folder.write(bare, tmp_path / "bare")
    with pytest.raises(StrobeError, match=r"10 of 10 frames have no stored image .*--media none"):
        export(tmp_path / "bare", "csv", tmp_path / "media", media="copy")
    assert not (tmp_path / "media").exists()


@pytest.mark.parametrize("form", ["coco", "csv", "fiftyone", "huggingface", "croissant", "card"])
def test_a_folder_with_other_files_is_not_written_to(form: str, tmp_path: Path) -> None:
    """The docs promise it; the export was written beside whatever lay there."""
    root, target = made(tmp_path / "set"), tmp_path / "mine"
    (target / "deep").mkdir(parents=True)
    (target / "deep/notes.txt").write_text("mine")
    (target / ".hidden").write_text("does not count")
    media: dict[str, Any] = {"media": "copy"} if form == "fiftyone" else {}
    with pytest.raises(StrobeError, match=r"mine contains other files \(deep/notes\.txt\); choose another folder"):
        export(root, form, target, **media)
    assert sorted(path.name for path in target.rglob("*")) == [".hidden", "deep", "notes.txt"]
    (target / "deep/notes.txt").unlink()
    for _ in range(2):
        export(root, form, target, **media)
    if form in ("card", "croissant"):
        export(root, form, root)
    else:
        with pytest.raises(StrobeError, match="contains other files"):
            export(root, form, root, **media)


def test_the_command_line(tmp_path: Path) -> None:
    root = made(tmp_path / "set")
    runner = CliRunner()
    done = runner.invoke(command, [str(root), "csv", str(tmp_path / "out"), "-q"])
    assert done.exit_code == 0, done.output
    assert "sets.csv" in done.stdout
    done = runner.invoke(command, [str(root), "imagenet-vid-robust", str(tmp_path / "vid"), "--json", "--candidates"])
    assert json.loads(done.stdout)["n_sets"] == 2


def test_coco_of_labels_alone_comes_back(tmp_path: Path) -> None:
    names = ("dog", "cat")
    root = tmp_path / "frames" / "walk"
    root.mkdir(parents=True)
    for number in range(5):
        pixels = np.full((16, 24, 3), 40 * number, np.uint8)
        Image.fromarray(pixels).save(root / f"{number:03}.png")
    first = import_dataset("frames", tmp_path / "frames", tmp_path / "set", files=FrameFiles(label=names)).dataset
    export(tmp_path / "set", "coco", tmp_path / "out", media="copy")
    # The images lie in images/ beside the JSON; nobody has to say so.
    back = import_dataset("coco-vid", tmp_path / "out/annotations.json", tmp_path / "back").dataset
    assert back.boxes is None
    assert back.frames.key.tolist() == first.frames.key.tolist()
    spoken = [{back.info.label_space.names[label] for label in back.labels_of(row)} for row in range(len(back.frames))]
    assert spoken == [set(names)] * len(first.frames)
    data = json.loads((tmp_path / "out/annotations.json").read_text())
    data["images"][1]["category_ids"] = [77]
    (tmp_path / "out/annotations.json").write_text(json.dumps(data))
    with pytest.raises(StrobeError, match=r"images\[1\]: expected category_ids to be a list of known categories"):
        import_dataset("coco-vid", tmp_path / "out/annotations.json", tmp_path / "again")
