"""Crop sets: what is in them to the pixel, what is refused, and that they come in again as photos."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from strobe.analyses.drawn import Drawn, drawn_pictures
from strobe.core.errors import InvalidValue, StrobeError
from strobe.core.files import sha256_of_file
from strobe.core.people import BoxAnswer
from strobe.core.ports import Silent
from strobe.formats.export_crops import MANIFEST, export_crops
from strobe.formats.import_photos import PhotoFiles
from strobe.store import dataset_folder as folder
from strobe.store.media import MediaSource
from strobe.workflows.import_dataset import import_dataset

NAMES = ("fox/a.png", "fox/b.JPEG", "fox/c.bmp", "sheep/a.png", "sheep/d.webp", "sheep/e.gif", "sheep/f.tif")


@pytest.fixture
def photos(tmp_path: Path):
    """Seven photos of 40×30 in two classes, noise all over, each in another format."""
    rng = np.random.default_rng(0)
    for name in NAMES:
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 255, (10, 13, 3), dtype=np.uint8)
        picture = Image.fromarray(pixels).resize((40, 30))
        picture.save(path, **({"quality": 90} if path.suffix == ".JPEG" else {}))
    import_dataset("photos", tmp_path / "photos", tmp_path / "data", files=PhotoFiles())
    return folder.read(tmp_path / "data")


def answer(dataset, key, box, *, who="ann", label=None, suggested=False) -> BoxAnswer:
    frame = dataset.frame_ids()[dataset.frames.key.tolist().index(key)]
    return BoxAnswer(
        answer_id=f"{who}-{key}", annotator=who, at="2026-01-01", stage="draw", frame_id=frame,
        label=label or key.split("/")[0], decision="keep" if box else "discard", xyxy=box,
        reason="" if box else "several", suggested=suggested,
    )  # fmt: skip


def drawn(dataset, *answers) -> tuple[Drawn, ...]:
    return drawn_pictures(replace(dataset, drawn=tuple(answers)))


def everywhere(dataset) -> tuple[Drawn, ...]:
    return drawn(dataset, *(answer(dataset, key, (3, 4, 21, 17)) for key in NAMES))


def cut(dataset, pictures, target: Path) -> dict:
    return export_crops(dataset, pictures, MediaSource(dataset), target, progress=Silent())


def files(target: Path) -> dict[str, bytes]:
    return {path.relative_to(target).as_posix(): path.read_bytes() for path in target.rglob("*") if path.is_file()}


def test_every_crop_is_its_part_of_the_picture(photos, tmp_path):
    manifest = cut(photos, everywhere(photos), tmp_path / "crops")
    source = MediaSource(photos)
    assert [entry["file"] for entry in manifest["crops"]] == [
        "fox/a.png", "fox/b.JPEG", "fox/c.bmp", "sheep/a.png", "sheep/d.webp", "sheep/e.png", "sheep/f.tif",
    ]  # fmt: skip
    for row, entry in enumerate(manifest["crops"]):
        whole = source.read(row)
        with Image.open(tmp_path / "crops" / entry["file"]) as opened:
            assert opened.format == {"b.JPEG": "JPEG", "d.webp": "WEBP"}.get(Path(entry["file"]).name, opened.format)
            found = np.asarray(opened.convert("RGB"))
        expected = whole[4:17, 3:21]
        if entry["file"].endswith("JPEG"):
            assert found.shape == expected.shape
            assert np.abs(found.astype(int) - expected).max() <= 3
        else:
            assert np.array_equal(found, expected)
        assert entry["sha256"] == sha256_of_file(tmp_path / "crops" / entry["file"])
        assert entry["source_sha256"] == photos.frames.sha256[row]
        assert entry["area_share"] == 18 * 13 / (40 * 30)
        assert entry["people"] == ["ann"]
        assert entry["agreement"] is None
    assert json.loads((tmp_path / "crops" / MANIFEST).read_text()) == manifest


def test_half_pixels_are_taken_whole_and_the_manifest_says_who_and_how_well(photos, tmp_path):
    pictures = drawn(
        photos,
        answer(photos, "fox/a.png", (2, 3, 10, 12), suggested=True),
        answer(photos, "fox/a.png", (3, 3, 11, 13), who="bo"),
        answer(photos, "sheep/a.png", None),
        answer(photos, "sheep/f.tif", (0, 0, 40, 30), label="fox"),
    )
    manifest = cut(photos, pictures, tmp_path / "crops")
    first, other = manifest["crops"]
    assert first["xyxy"] == [2.5, 3.0, 10.5, 12.5]
    assert first["cut"] == [2, 3, 11, 13]
    assert first["people"] == ["ann", "bo"]
    assert first["agreement"] == pytest.approx(7 * 9 / (72 + 80 - 63))
    assert first["suggested"] == 1
    assert (other["file"], other["area_share"]) == ("fox/f.tif", 1.0), "the class people drew, not its old folder"
    assert manifest["discarded"] == [{"key": "sheep/a.png", "people": ["ann"], "reasons": ["several"]}]


def test_an_interrupted_export_goes_on_and_a_finished_one_is_left(photos, tmp_path):
    class Stops(MediaSource):
        def read(self, row):
            if row == 4:
                raise KeyboardInterrupt
            return super().read(row)

    target = tmp_path / "crops"
    with pytest.raises(KeyboardInterrupt):
        export_crops(photos, everywhere(photos), Stops(photos), target, progress=Silent())
    before = files(target)
    assert MANIFEST not in before
    assert sum(name.count("/") for name in before) == 4
    cut(photos, everywhere(photos), target)
    after = files(target)
    assert {name: after[name] for name in before if "/" in name} == {n: c for n, c in before.items() if "/" in n}
    times = {path: path.stat().st_mtime_ns for path in target.rglob("*.*") if path.name != MANIFEST}
    cut(photos, everywhere(photos), target)
    assert files(target) == after
    assert {path: path.stat().st_mtime_ns for path in times} == times, "nothing is cut twice"
    cut(photos, everywhere(photos), tmp_path / "other")
    assert files(tmp_path / "other") == after, "the same answers give the same bytes"


def test_bad_boxes_and_names_are_refused_before_anything_is_written(photos, tmp_path):
    target = tmp_path / "crops"
    (one,) = drawn(photos, answer(photos, "fox/a.png", (3, 4, 21, 17)))
    (two,) = drawn(photos, answer(photos, "sheep/a.png", (3, 4, 21, 17), label="fox"))
    cases = [
        ([one, one], r"two crops would have the name fox/a\.png"),
        ([one, two], r"two crops would have the name fox/a\.png: fox/a\.png and sheep/a\.png"),
        ([replace(one, xyxy=(3, 4, 41, 17))], "not inside the image of 40×30"),
        ([replace(one, xyxy=(-1, 4, 21, 17))], "not inside"),
        ([replace(one, xyxy=(3, 4, 3, 17))], "no area"),
        ([replace(one, label="../up")], "cannot be the name of a folder"),
        ([replace(one, xyxy=None)], "nothing to crop"),
    ]
    for pictures, message in cases:
        with pytest.raises((StrobeError, InvalidValue), match=message):
            cut(photos, pictures, target)
        assert not target.exists()


def test_a_picture_whose_size_nobody_wrote_down_is_looked_at(photos, tmp_path):
    unknown = replace(
        photos, frames=replace(photos.frames, width=photos.frames.width * 0, height=photos.frames.height * 0)
    )
    manifest = cut(unknown, drawn(photos, answer(photos, "fox/a.png", (3, 4, 21, 17))), tmp_path / "crops")
    assert manifest["crops"][0]["source_size_wh"] == [40, 30]
    (one,) = drawn(photos, answer(photos, "fox/a.png", (3, 4, 21, 17)))
    with pytest.raises(InvalidValue, match="40×30"):
        cut(unknown, [replace(one, xyxy=(3, 4, 50, 17))], tmp_path / "others")
