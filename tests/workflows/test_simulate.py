import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as PillowImage

from strobe.build.options import CameraOptions
from strobe.core.errors import StrobeError
from strobe.store import dataset_folder as folder
from strobe.store.media import MediaSource
from strobe.workflows.options import SimulateOptions
from strobe.workflows.simulate import simulate

QUICK = CameraOptions(k=2, size=32)


def write_photos(root: Path, *, classes: tuple[str, ...] = ("cat", "dog"), each: int = 2) -> Path:
    rng = np.random.default_rng(0)
    for name in classes:
        (root / name).mkdir(parents=True)
        for place in range(each):
            pixels = rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)
            PillowImage.fromarray(pixels).save(root / name / f"{place}.png")
    return root


def everything(dataset_folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(dataset_folder).as_posix(): path.read_bytes()
        for path in sorted(dataset_folder.rglob("*"))
        if path.is_file() and path.suffix != ".parquet"
    }


def test_photos_in_class_folders_become_a_dataset(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    done = simulate([photos], tmp_path / "out", SimulateOptions(camera=QUICK, sets_per_photo=2, seed=7))
    dataset = folder.read(tmp_path / "out")
    assert dataset.digest() == done.dataset.digest()
    assert dataset.info.label_space.names == ("cat", "dog")
    assert (dataset.n_sets, len(dataset.frames), done.problems, done.resumed) == (8, 40, (), 0)
    assert dataset.info.provenance["seed"] == 7
    first = next(iter(dataset))
    assert [member.distance for member in first.members] == [-2, -1, 1, 2]
    assert first.anchor.index == 2
    assert first.anchor.time_s is not None
    assert float(first.anchor.time_s) == 2 / 30
    assert len(set(dataset.frames.sha256)) == 40  # the two clips of one photo differ
    assert dataset.hints is not None
    assert dataset.hints.motion[dataset.sets.is_anchor].max() == 0
    assert dataset.hints.motion[~dataset.sets.is_anchor].max() > 0
    source = MediaSource(dataset)
    assert source.read(0).shape == (32, 42, 3)
    right = dataset.right_rows(np.full(40, 0))
    assert right.reshape(8, 5).all(axis=1).tolist() == [True] * 4 + [False] * 4


def test_identity_depends_on_photo_camera_and_seed_and_on_nothing_else(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", each=1)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    (photos / "cat" / "0.png").rename(moved / "renamed.png")
    (tmp_path / "labels.csv").write_text("file,label\nrenamed.png,cat\n")

    def ids(place: str, source: Path, **changes: object) -> list[str]:
        options = replace(SimulateOptions(camera=QUICK), **changes)  # type: ignore[arg-type]
        return list(simulate([source], tmp_path / place, options).dataset.videos.video_id)

    by_name = ids("a", moved, labels=tmp_path / "labels.csv")
    (moved / "renamed.png").rename(photos / "cat" / "0.png")
    same = ids("b", photos)
    assert by_name == same[:1]
    assert set(ids("c", photos, seed=1)).isdisjoint(same)
    assert set(ids("d", photos, camera=replace(QUICK, noise=0.5))).isdisjoint(same)


def test_labels_boxes_and_masks_from_files(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    PillowImage.fromarray(np.full((48, 64, 3), 90, np.uint8)).save(photos / "a.png")
    PillowImage.fromarray(np.full((48, 64, 3), 50, np.uint8)).save(photos / "b.png")
    (tmp_path / "masks").mkdir()
    mask = np.zeros((48, 64), np.uint8)
    mask[12:36, 16:48] = 3
    PillowImage.fromarray(mask).save(tmp_path / "masks" / "a.png")
    (tmp_path / "boxes.csv").write_text("file,label,x0,y0,x1,y1,track\na.png,cow,16,12,48,36,3\n")
    (tmp_path / "labels.csv").write_text("file,label\na.png,cow\na.png,animal\nb.png,grass\n")
    options = SimulateOptions(
        camera=QUICK, labels=tmp_path / "labels.csv", boxes=tmp_path / "boxes.csv", masks=tmp_path / "masks"
    )
    dataset = simulate([photos], tmp_path / "out", options).dataset
    assert dataset.info.label_space.names == ("animal", "cow", "grass")
    assert dataset.labels_of(0) == (0, 1)
    assert dataset.boxes is not None
    (box,) = dataset.boxes.of_frame(2)
    assert (box.label, box.track) == (1, 3)
    seen = np.asarray(PillowImage.open(tmp_path / "out" / "masks" / "a.png" / "000002.png"))
    rows, columns = np.nonzero(seen == 3)
    assert np.abs(np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]) - box.xyxy).max() <= 1
    assert not (tmp_path / "out" / "masks" / "b.png").exists()


@pytest.mark.slow
def test_workers_and_a_kill_change_nothing(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", each=4)
    camera = replace(QUICK, size=96, k=4)
    simulate([photos], tmp_path / "one", SimulateOptions(camera=camera, name="x"))
    code = (
        "from strobe.cli.simulate import command; "
        f"command(['{photos}', '{tmp_path / 'two'}', '--size', '96', '--k', '4', '--name', 'x', '--workers', '2', "
        "'-q'])"
    )
    script = tmp_path / "run.py"
    script.write_text(f"if __name__ == '__main__':\n    {code}\n")
    process = subprocess.Popen([sys.executable, str(script)], start_new_session=True)
    until = time.monotonic() + 60
    while not list((tmp_path / "two").glob(".simulate/*.json")) and time.monotonic() < until:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = simulate([photos], tmp_path / "two", SimulateOptions(camera=camera, name="x", workers=2))
    assert done.resumed >= 1
    left_over = {name for name in everything(tmp_path / "two") if name.endswith(".tmp")}
    two = {name: data for name, data in everything(tmp_path / "two").items() if name not in left_over}
    assert two == everything(tmp_path / "one")


def test_bad_photos_are_left_out_with_their_reason_and_the_rest_go_on(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos")
    (photos / "cat" / "broken.jpg").write_bytes(b"\xff\xd8 not really")
    (photos / "cat" / "copy.png").write_bytes((photos / "cat" / "0.png").read_bytes())
    PillowImage.fromarray(np.zeros((1, 64, 3), np.uint8)).save(photos / "dog" / "sliver.png")
    done = simulate([photos], tmp_path / "out", SimulateOptions(camera=QUICK))
    assert done.dataset.n_sets == 4
    broken, copy, sliver = done.problems
    assert "broken.jpg: not a readable image" in broken
    assert "it has the same content as" in copy
    assert "sliver.png" in sliver
    assert all("\n" not in problem for problem in done.problems)


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        ({}, {}, "it contains no photos"),
        ({"a.png": b""}, {}, "no label"),
        ({"a.png": b"", "l.csv": b"name,label\n"}, {"labels": "l.csv"}, "line 1: no column file"),
        ({"a.png": b"", "l.csv": b"file,label\nb.png,x\n"}, {"labels": "l.csv"}, "line 2: 'b.png' is not one of"),
        ({"a.png": b"", "l.csv": b"file,label\na.png,\n"}, {"labels": "l.csv"}, "line 2: the label is empty"),
        ({"a.png": b"", "b.png": b"", "l.csv": b"file,label\na.png,x\n"}, {"labels": "l.csv"}, "no row for the photo"),
        ({"a.png": b"", "l.csv": b"\xff\xfe\x00"}, {"labels": "l.csv"}, "l.csv: byte 0: not UTF-8 text"),
        ({"a.png": b""}, {"labels": "none.csv"}, "no such file"),
        (
            {"a.png": b"", "b.csv": b"file,label,x0,y0,x1,y1\na.png,x,5,5,1,9\n"}, {"boxes": "b.csv"},
            "line 2: Box.xyxy",
        ),
        ({"x/a.png": b""}, {"label_space": "ilsvrc"}, "unknown label space"),
        ({"x/a.png": b"nonsense"}, {}, "no photo could be used"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(tmp_path: Path, files: dict[str, bytes], options: dict[str, str], message: str) -> None:
    root = tmp_path / "photos"
    root.mkdir()
    for name, data in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(data)
    fields = {key: root / value if key in ("labels", "boxes") else value for key, value in options.items()}
    with pytest.raises(StrobeError, match=message) as caught:
        simulate([root], tmp_path / "out", SimulateOptions(camera=QUICK, **fields))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_boxes_are_held_against_the_photos(tmp_path: Path, heard: Any) -> None:
    """Boxes beyond a photo of 64×48 are cut and counted; shares of it, and boxes outside, are refused."""
    photos, still = write_photos(tmp_path / "photos", each=1), CameraOptions(k=0, size=48, margin=0.0)
    options = SimulateOptions(camera=still, boxes=tmp_path / "b.csv")
    (tmp_path / "b.csv").write_text("file,label,x0,y0,x1,y1\ncat/0.png,cat,5,5,90,40\n")
    dataset = simulate([photos], tmp_path / "out", options, progress=heard).dataset
    assert dataset.boxes is not None
    assert "1 box(es) extended beyond their image and were clipped" in heard.lines
    assert dataset.boxes.of_frame(0)[0].xyxy[2] <= 64
    for corners, problem in (
        ("0.1,0.1,0.9,0.8", "look like fractions of the image"),
        ("70,5,90,40", "outside the image"),
    ):
        (tmp_path / "b.csv").write_text(f"file,label,x0,y0,x1,y1\ncat/0.png,cat,{corners}\n")
        with pytest.raises(StrobeError, match=problem):
            simulate([photos], tmp_path / "other", options)
        assert not (tmp_path / "other").exists()


def test_boxes_from_coco_json(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", each=1)
    coco = {
        "images": [{"id": 7, "file_name": "cat/0.png"}, {"id": 8, "file_name": "not/here.png"}],
        "categories": [{"id": 3, "name": "cat"}],
        "annotations": [
            {"image_id": 7, "category_id": 3, "bbox": [8, 6, 40, 30], "track_id": 2},
            {"image_id": 8, "category_id": 3, "bbox": [0, 0, 5, 5]},
        ],
    }
    (tmp_path / "b.json").write_text(json.dumps(coco))
    still = CameraOptions(k=0, size=48, margin=0.0)
    dataset = simulate([photos], tmp_path / "out", SimulateOptions(camera=still, boxes=tmp_path / "b.json")).dataset
    assert dataset.boxes is not None
    (box,) = dataset.boxes.of_frame(0)
    assert (box.xyxy, box.track) == (pytest.approx((8, 6, 48, 36)), 2)
    (tmp_path / "b.json").write_text(json.dumps(coco | {"annotations": [{"image_id": 7}]}))
    with pytest.raises(StrobeError, match="not COCO annotations"):
        simulate([photos], tmp_path / "out2", SimulateOptions(camera=still, boxes=tmp_path / "b.json"))


def test_one_label_for_all_photos(tmp_path: Path) -> None:
    photo = write_photos(tmp_path / "photos") / "cat" / "0.png"
    with pytest.raises(StrobeError, match=r"0\.png: no label; give --label NAME"):
        simulate([photo], tmp_path / "out", SimulateOptions(camera=QUICK))
    dataset = simulate([photo], tmp_path / "out", SimulateOptions(camera=QUICK, label=("cat", "pet"))).dataset
    assert dataset.info.label_space.names == ("cat", "pet")
    assert all(dataset.labels_of(row) == (0, 1) for row in range(len(dataset.frames)))
    with pytest.raises(StrobeError, match="--labels and --label both"):
        SimulateOptions(label=("cat",), labels=tmp_path / "labels.csv")


def test_masks_that_are_not_there_are_said(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", each=1)
    with pytest.raises(StrobeError, match="no such folder of masks"):
        simulate([photos], tmp_path / "out", SimulateOptions(camera=QUICK, masks=tmp_path / "masks"))
    (tmp_path / "masks").mkdir()
    PillowImage.fromarray(np.ones((48, 64), np.uint8)).save(tmp_path / "masks" / "0.png")
    with pytest.raises(StrobeError, match=r"no photo has a mask in it; name the masks like the photos: cat/0\.png"):
        simulate([photos], tmp_path / "out", SimulateOptions(camera=QUICK, masks=tmp_path / "masks"))
    assert not (tmp_path / "out").exists()


def test_two_photos_of_one_name_are_refused(tmp_path: Path) -> None:
    one, two = write_photos(tmp_path / "1"), write_photos(tmp_path / "2")
    with pytest.raises(StrobeError, match=r"two photos are called cat/0\.png"):
        simulate([one, two], tmp_path / "out", SimulateOptions(camera=QUICK))


def test_clips_of_one_photo_are_one_video_and_never_touch(tmp_path):
    source = tmp_path / "photos" / "cat"
    source.mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 255, (80, 100, 3), dtype=np.uint8)
    PillowImage.fromarray(pixels).save(source / "a.png")
    options = SimulateOptions(camera=CameraOptions(k=2, size=32), sets_per_photo=3)
    dataset = simulate([tmp_path / "photos"], tmp_path / "out", options).dataset
    assert len(dataset.videos) == 1, "sets over one photo are not independent: intervals must cluster by photo"
    assert dataset.n_sets == 3
    assert dataset.frames.index.tolist() == [*range(5), *range(10, 15), *range(20, 25)]
