"""`strobe vary background`: rendered frames with true boxes and masks, files of others, and a line for what is bad."""

import json
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from strobe.annexes.backgrounds.ladders import CONTROLS, RUNGS
from strobe.annexes.backgrounds.workflow import LadderMade, VaryBackgroundOptions, vary_background
from strobe.cli.main import cli
from strobe.core.crops import cut_of
from strobe.core.dataset import Dataset
from strobe.core.errors import StrobeError
from strobe.core.ports import SendableSource
from strobe.core.variants import Variant
from strobe.store import dataset_folder as folder
from strobe.store.opening import frame_source

PLAIN = VaryBackgroundOptions()
Stopped = Callable[[Path, Callable[[Path], Dataset]], tuple[Dataset, int]]


def rows_of(dataset: Dataset) -> dict[tuple[str, str], int]:
    """The frame of every image and column: rung, or crop and context."""
    return {
        (name[1], name[0]): row
        for row, key in enumerate(dataset.frames.key.tolist())
        if (name := key.split("/", 1))[0].partition("-")[0] in RUNGS
    }


def variants_of(dataset: Dataset) -> dict[str, Variant]:
    return {one.variant: one for one in dataset.variants or ()}


def test_a_ladder_is_what_the_seam_says(world: Path, ladder: LadderMade) -> None:
    found, plain = folder.read(world.parent / "ladder"), folder.read(world)
    assert found.digest() == ladder.dataset.digest()
    assert (found.info.axis, found.info.k, found.info.combine, found.info.label_source) == (
        "mixed",
        4,
        "each",
        "anchor",
    )
    variants = variants_of(found)
    assert list(variants) == list(RUNGS)
    assert {name for name, one in variants.items() if one.role == "control"} == set(CONTROLS)
    assert (variants["crop"].axis, variants["crop"].unit, variants["crop"].levels) == (
        "context",
        "x",
        (1, 1.25, 1.5, 2),
    )
    assert all(one.levels == (1.0,) for name, one in variants.items() if name != "crop")
    assert not any(one.ordered or one.estimated for one in variants.values())
    fields = {"kind": "background", "rung": "tight", "fit": "squash", "boxes": "true", "masks": "true"}
    assert variants["tight"].fields == fields
    assert found.n_sets == 24 * len(RUNGS)
    assert set(found.sets.group) == set(plain.frames.key)
    usual = [row for (_, name), row in rows_of(found).items() if name == "usual"]
    assert found.frames.as_input.sum() == len(found.frames) - len(usual)
    assert not found.frames.as_input[usual].any()
    anchors = np.unique(found.sets.anchor_frame)
    assert (found.frames.recipe[anchors] == "").all()
    assert found.boxes is None
    assert ladder.counts() == dict.fromkeys(RUNGS, 24)
    assert ladder.absent() == {}


def test_every_rung_is_made_of_the_picture_its_box_and_its_mask(world: Path, ladder: LadderMade) -> None:
    found, source = ladder.dataset, frame_source(ladder.dataset)
    plain, rows, shown = folder.read(world), rows_of(ladder.dataset), frame_source(folder.read(world))
    assert plain.boxes is not None
    for one in ladder.pictures[::5]:
        row = plain.frames.key.tolist().index(one.picture)
        image, box = shown.read(row), plain.boxes.of_frame(row)[0]
        numbered = np.asarray(Image.open(world / "masks" / one.picture))
        mask, (x0, y0, x1, y1) = numbered == 1, (int(part) for part in box.xyxy)
        assert one.xyxy == box.xyxy
        assert one.area_share == pytest.approx((x1 - x0) * (y1 - y0) / 64**2)
        assert one.mask_share == pytest.approx(mask.mean())
        np.testing.assert_array_equal(source.read(rows[one.picture, "crop-1"]), image[y0:y1, x0:x1])
        wide = cut_of(box.xyxy, (64, 64), context=1.5)
        assert wide is not None
        np.testing.assert_array_equal(
            source.read(rows[one.picture, "crop-1.5"]), image[wide[1] : wide[3], wide[0] : wide[2]]
        )
        middle = source.read(rows[one.picture, "zoom"])
        top, left = (64 - (y1 - y0)) // 2, (64 - (x1 - x0)) // 2
        np.testing.assert_array_equal(middle, image[top : top + y1 - y0, left : left + x1 - x0])
        assert source.read(rows[one.picture, "random"]).shape == middle.shape
        for rung in ("grey", "blur", "plain", "same", "other", "object"):
            np.testing.assert_array_equal(source.read(rows[one.picture, rung])[mask], image[mask])
        np.testing.assert_array_equal(source.read(rows[one.picture, "usual"]), image)
        assert (source.read(rows[one.picture, "removed"])[mask] != image[mask]).any(axis=1).mean() > 0.8
        outside = np.ones((64, 64), dtype=bool)
        outside[y0:y1, x0:x1] = False
        np.testing.assert_array_equal(source.read(rows[one.picture, "ground"])[outside], image[outside])
    for row in range(len(found.frames)):
        shape = source.read(row).shape
        assert (found.frames.width[row], found.frames.height[row]) == (shape[1], shape[0]), found.frames.key[row]


def test_the_folder_stands_by_itself_whichever_way_it_was_made(world: Path, ladder: LadderMade, tmp_path: Path) -> None:
    """Its source gone, stored as files, and made a second time: the same pixels and tables."""
    some = VaryBackgroundOptions(rungs=("crop", "blur", "other", "ground", "usual"), context=(1.0, 2.0), name="x")
    shutil.copytree(world, tmp_path / "world")
    first = vary_background(tmp_path / "world", tmp_path / "first", some).dataset
    stored = vary_background(tmp_path / "world", tmp_path / "stored", replace(some, store=True)).dataset
    again = vary_background(tmp_path / "world", tmp_path / "again", some).dataset
    assert again.digest() == first.digest()
    assert (tmp_path / "again/ladder.parquet").read_bytes() == (tmp_path / "first/ladder.parquet").read_bytes()
    other = vary_background(tmp_path / "world", tmp_path / "other", replace(some, seed=1)).dataset
    assert other.frames_digest() != first.frames_digest()
    shutil.rmtree(tmp_path / "world")
    assert (stored.frames.recipe == "").all()
    assert first.frame_ids() == stored.frame_ids()
    one, two = frame_source(folder.read(tmp_path / "first")), frame_source(folder.read(tmp_path / "stored"))
    for row in range(len(first.frames)):
        np.testing.assert_array_equal(one.read(row), two.read(row), err_msg=str(first.frames.key[row]))
    whole = rows_of(ladder.dataset)
    ids = ladder.dataset.frame_ids()
    assert {first.frame_ids()[row] for row in rows_of(first).values()} <= {ids[row] for row in whole.values()}


def test_killed_anywhere_and_started_again_it_ends_as_if_unbroken(
    world: Path, tmp_path: Path, stopped_at_the_eighth: Stopped
) -> None:
    options = VaryBackgroundOptions(rungs=("zoom", "grey"), store=True, name="x")
    unbroken = vary_background(world, tmp_path / "whole", options).dataset
    resumed, writes = stopped_at_the_eighth(tmp_path / "c", lambda to: vary_background(world, to, options).dataset)
    assert resumed.digest() == unbroken.digest()
    assert writes == 8 + 48 - 7, "what was done is not done again"
    assert vary_background(world, tmp_path / "c", options).was_there
    shutil.rmtree(tmp_path / "c" / "masks")
    assert not vary_background(world, tmp_path / "c", options).was_there, "masks that went missing are made again"
    with pytest.raises(StrobeError, match="contains a dataset made with other settings"):
        vary_background(world, tmp_path / "c", replace(options, fit="pad"))


def test_other_processes_read_rungs_with_their_masks_and_donors(ladder: LadderMade) -> None:
    source = frame_source(ladder.dataset)
    assert isinstance(source, SendableSource)
    rows = [row for (_, name), row in rows_of(ladder.dataset).items() if name in ("other", "grey", "crop-2")][:9]
    sent = pickle.loads(pickle.dumps(source.only(rows)))
    for row in rows:
        np.testing.assert_array_equal(sent.read(row), source.read(row))
        assert sent.read_encoded(row) is None


@pytest.mark.parametrize(
    ("rung", "change", "line"),
    [
        (
            "other",
            {"donor": {"media": "media/none/picture.png", "sha256": "0", "cut": [0, 0, 9, 9]}},
            "is not in the dataset",
        ),
        (
            "other",
            {"donor": {"media": "../../picture.png", "sha256": "0", "cut": [0, 0, 9, 9]}},
            "is not in the dataset",
        ),
        ("other", {"donor": {"media": ["x"], "sha256": {}, "cut": [0, 0, 9, 9]}}, "is not in the dataset"),
        ("grey", {"mask": {"file": "../../ladder.parquet", "sha256": "0"}}, "is not a file in this folder"),
        ("grey", {"mask": {"file": "ladder.parquet", "sha256": "0"}}, "not the mask that the dataset was made with"),
    ],
)
def test_hostile_recipes_reach_nothing_outside_the_folder(
    ladder: LadderMade, rung: str, change: dict[str, Any], line: str
) -> None:
    row = next(row for (_, name), row in rows_of(ladder.dataset).items() if name == rung)
    recipes = ladder.dataset.frames.recipe.copy()
    recipes[row] = json.dumps({**json.loads(recipes[row]), **change})
    hostile = replace(ladder.dataset, frames=replace(ladder.dataset.frames, recipe=recipes))
    with pytest.raises(StrobeError, match=line) as error:
        frame_source(hostile).read(row)
    assert "\n" not in str(error.value)


def test_the_command_says_what_was_made(world: Path, tmp_path: Path) -> None:
    words = [
        "vary",
        "background",
        str(world),
        str(tmp_path / "l"),
        "--rungs",
        "zoom,crop,grey",
        "--context",
        "1,2",
        "-q",
    ]
    first = CliRunner().invoke(cli, words)
    assert first.exit_code == 0, first.output
    assert "24 images, 72 sets, 120 images in total, 12 classes" in first.output
    assert "rungs: zoom 24, crop 24, grey 24" in first.output
    assert "(existed before)" in CliRunner().invoke(cli, words).output
    said = json.loads(CliRunner().invoke(cli, [*words, "--json"]).output)
    assert said["rungs"] == {"zoom": 24, "crop": 24, "grey": 24}
    assert said["absent"] == {}
    with Image.open(tmp_path / "l" / "ladders.png") as sheet:
        assert sheet.size[1] > 6 * 112
    listed = CliRunner().invoke(cli, ["vary", "background", "--list"]).output
    assert [line.split()[0] for line in listed.splitlines()] == list(RUNGS)
