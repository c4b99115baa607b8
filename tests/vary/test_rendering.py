"""Frames rendered when they are read: the same pixels whichever way they come, and never the bare image instead."""

import io
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image as Pillow

from strobe.core.builder import DatasetBuilder
from strobe.core.dataset import Dataset, DatasetInfo
from strobe.core.errors import StrobeError
from strobe.core.labels import LabelSpace
from strobe.core.ports import SendableSource, Silent
from strobe.core.tables import texts
from strobe.engine.decode_pool import DecodePool, can_start_workers
from strobe.engine.running import Running
from strobe.formats.export_coco import export_coco
from strobe.formats.export_fiftyone import export_fiftyone
from strobe.formats.export_huggingface import write_frames
from strobe.models.fast_jpeg import FastJpegSource
from strobe.models.plan import AsDecoded
from strobe.store.media import MediaSource
from strobe.store.opening import frame_source
from strobe.store.run_folder import Run
from strobe.vary.corruptions import corrupt
from strobe.vary.rendering import corruption_recipe, rendered
from strobe.workflows.predict import predict

CLASSES = LabelSpace.of_names("colours", ["red", "green"])
DONE = [("brightness", 2), ("fog", 5), ("jpeg_compression", 4), ("impulse_noise", 3)]


@pytest.fixture
def corrupted(tmp_path: Path) -> Dataset:
    """Two images, a JPEG and a PNG; four frames rendered from each."""
    root, grown, rng = tmp_path / "data", DatasetBuilder(), np.random.default_rng(0)
    (root / "media").mkdir(parents=True)
    for place, ending in enumerate(("jpg", "png")):
        pixels = Pillow.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize((40, 30))
        media = f"media/{place}.{ending}"
        pixels.save(root / media)
        photo = grown.video(video_id=f"{place:016x}", name=str(place), kind="photo")
        anchor = grown.frame(video=photo, index=0, key=f"{place}", media=media, size_wh=(40, 30), labels=[place])
        members = [
            (
                grown.frame(
                    video=photo, index=n + 1, key=f"{place} {kind}", media=media, size_wh=(40, 30),
                    recipe=corruption_recipe(kind, severity, seed=10 * place + n),
                ),
                float(n + 1),
            )
            for n, (kind, severity) in enumerate(DONE)
        ]  # fmt: skip
        grown.set(set_id=f"set {place}", anchor=anchor, members=members)
    return grown.build(DatasetInfo(name="made", label_space=CLASSES, k=4, axis="step"), root=root)


def expected(dataset: Dataset) -> list[Any]:
    """What each row shows, from the files themselves."""
    out = []
    for row in range(len(dataset.frames)):
        with Pillow.open((dataset.root or Path()) / str(dataset.frames.media[row])) as picture:
            image = np.asarray(picture.convert("RGB"))
        place, n = divmod(row, len(DONE) + 1)
        if n:
            kind, severity = DONE[n - 1]
            image = corrupt(image, kind, severity, np.random.default_rng(10 * place + n - 1))
        out.append(image)
    return out


def test_the_door_renders(corrupted: Dataset) -> None:
    source, wanted = frame_source(corrupted), expected(corrupted)
    for row in (0, 3, 1, 9, 5, 2, 4, 8, 7, 6, 3):  # in any order, and again
        np.testing.assert_array_equal(source.read(row), wanted[row])
        assert (source.read_encoded(row) is None) == bool(corrupted.frames.recipe[row])
    assert not (wanted[0] == wanted[1]).all()


def test_a_fast_decoder_over_it_renders_too(corrupted: Dataset) -> None:
    source, wanted = FastJpegSource(frame_source(corrupted)), expected(corrupted)
    for row in [*range(10), *range(10)]:
        np.testing.assert_array_equal(source.read(row), wanted[row])


def test_parts_of_it_are_sent_to_other_processes(corrupted: Dataset) -> None:
    source, wanted = frame_source(corrupted), expected(corrupted)
    assert isinstance(source, SendableSource)
    part = pickle.loads(pickle.dumps(source.only([0, 2, 7])))
    for row in (7, 0, 2):
        np.testing.assert_array_equal(part.read(row), wanted[row])
    if can_start_workers():
        pool = DecodePool(source, {"m": AsDecoded()}, processes=2, chunk=3)
        found = pool.read(range(10), [["m"]] * 10)
        pool.close()
        for one, image in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one[0], image)


def test_the_picture_is_decoded_once_for_frames_near_each_other(corrupted: Dataset) -> None:
    reads: list[int] = []
    source, read = frame_source(corrupted), MediaSource.read

    class Counting(MediaSource):
        def read(self, row: int) -> Any:
            reads.append(row)
            return read(self, row)

    source._inner = Counting(corrupted)  # type: ignore[attr-defined]
    for row in range(10):
        source.read(row)
    assert reads == [0, 1, 5, 6]


def test_the_review_page_shows_what_is_rendered(corrupted: Dataset) -> None:
    pictures_of = pytest.importorskip("strobe.annexes.web.review.pictures").FrameImages
    pictures, wanted = pictures_of(corrupted, frame_source(corrupted), secret=b"x"), expected(corrupted)
    for row in range(len(corrupted.frames)):
        assert pictures.row(pictures.name(row)) == row
        shown = pictures.get(row)
        with Pillow.open(io.BytesIO(shown.content)) as opened:
            np.testing.assert_array_equal(np.asarray(opened.convert("RGB")), wanted[row])


def test_an_export_never_passes_the_bare_picture_off_as_the_rendered_one(corrupted: Dataset, tmp_path: Path) -> None:
    with pytest.raises(StrobeError, match=r"8 of 10 frames are rendered .* --store"):
        export_coco(corrupted, media="copy")
    names = [
        one["file_name"] for one in json.loads(export_coco(corrupted, media="none").files["annotations.json"])["images"]
    ]
    assert len(set(names)) == 10
    with pytest.raises(StrobeError, match=r"8 of 10 frames are rendered"):
        export_fiftyone(corrupted, media="none")
    (path,) = write_frames(corrupted, frame_source(corrupted), tmp_path, progress=Silent())
    for row, content in enumerate(pq.read_table(path, columns=["image"])["image"].to_pylist()):
        with Pillow.open(io.BytesIO(content["bytes"])) as opened:
            np.testing.assert_array_equal(np.asarray(opened.convert("RGB")), expected(corrupted)[row])


PLUGIN = """
import numpy as np

def make():
    def forward(images):
        sums = [image.astype(np.float64).reshape(-1) for image in images]
        out = np.array([[(one * (1 + np.arange(len(one)) % 7)).mean(), one.mean()] for one in sums], np.float32)
        for image in images:
            if image.flags.writeable:
                image[:] = 0  # a careless model
        return out
    return forward, ["red", "green"]
"""


def test_models_see_what_is_rendered(corrupted: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN)
    options = Running(device="cpu")
    (fared,) = predict(corrupted, [f"m=py:{path}:make"], tmp_path / "run", options, Silent())
    assert fared.ok
    found = Run(tmp_path / "run").models(corrupted, only=["m"])[0].load()
    assert found.scores is not None
    wanted = [image.astype(np.float64).reshape(-1) for image in expected(corrupted)]
    np.testing.assert_allclose(
        found.scores, [[(one * (1 + np.arange(len(one)) % 7)).mean(), one.mean()] for one in wanted], rtol=1e-6
    )


@pytest.mark.parametrize(
    ("recipe", "line"),
    [
        ({"kind": "rain"}, "renders corruption.* does not support"),
        ({}, "renders corruption.* does not support"),
        (
            {**corruption_recipe("fog", 3, seed=1), "version": 99},
            "for version 99 of fog, but this strobe has version 2",
        ),
        ({**corruption_recipe("fog", 3, seed=1), "severity": 7}, "does not describe a valid corruption"),
        ({**corruption_recipe("fog", 3, seed=1), "severity": "3"}, "does not describe a valid corruption"),
        ({**corruption_recipe("fog", 3, seed=1), "name": ["fog"]}, "does not describe a valid corruption"),
        ({**corruption_recipe("fog", 3, seed=1), "seed": -1}, "does not describe a valid corruption"),
        ({**corruption_recipe("fog", 3, seed=1), "severity": True}, "does not describe a valid corruption"),
        ({**corruption_recipe("frost", 3, seed=1), "pane": "frost1.png"}, "does not describe a valid corruption"),
        (
            corruption_recipe("glass_blur", 3, seed=1) | {"version": 3},
            "for version 3 of glass_blur, but this strobe has version 2",
        ),
    ],
)
def test_a_recipe_nobody_can_make_is_one_line(recipe: Any, line: str, corrupted: Dataset) -> None:
    image = np.zeros((8, 8, 3), np.uint8)
    with pytest.raises(StrobeError, match=line) as caught:
        rendered(image, recipe)
    assert "\n" not in str(caught.value)
    # As an unreadable frame it sinks nobody else's.
    broken = texts([json.dumps(recipe) if row == 3 else text for row, text in enumerate(corrupted.frames.recipe)])
    source = frame_source(replace(corrupted, frames=replace(corrupted.frames, recipe=broken)))
    with pytest.raises(StrobeError, match=line):
        source.read(3)
    assert source.read(4).shape == (30, 40, 3)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (
            "glass_scatter",
            [[241, 224, 134, 188, 243], [6, 71, 101, 146, 91], [203, 159, 150, 92, 100], [69, 195, 171, 118, 42],
             [144, 61, 175, 55, 111]],
        ),
        (
            "frost_feathers",
            [[255, 255, 229, 255, 255], [137, 159, 238, 234, 209], [251, 255, 255, 209, 207],
             [215, 255, 239, 192, 177], [248, 186, 247, 192, 222]],
        ),
        (
            "fog_bank",
            [[168, 99, 63, 146, 191], [99, 52, 110, 144, 128], [147, 104, 147, 172, 154], [108, 175, 194, 209, 132],
             [164, 104, 143, 138, 173]],
        ),
    ],
)  # fmt: skip
def test_our_own_corruptions_render_as_they_did(name: str, wanted: list[list[int]]) -> None:
    tiles = np.random.default_rng(5).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    image = np.asarray(Pillow.fromarray(tiles).resize((224, 224)))
    found = rendered(image, corruption_recipe(name, 3, seed=11))
    # A Fourier transform may sum in another order on another machine.
    assert np.abs(found[10::50, 10::50, 1].astype(int) - wanted).max() <= 1
