import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image as PillowImage

from strobe.cli.synthesize import command
from strobe.core.errors import InvalidValue, StrobeError
from strobe.core.ports import FrameSource
from strobe.store import dataset_folder as folder
from strobe.store.media import MediaSource
from strobe.synthetic.classes import KINDS
from strobe.synthetic.sets import SyntheticOptions, balanced_clip, synthetic_dataset
from strobe.synthetic.world import WorldOptions
from strobe.workflows.inspect import inspect, lines
from strobe.workflows.synthesize import synthesize

TINY = SyntheticOptions(
    world=WorldOptions(size=48, frames=7, objects_max=2, object_scale=(0.25, 0.5)), videos=13, seed=3, masks=True
)


def test_classes_come_equally_often_and_the_order_follows_the_seed() -> None:
    options = replace(TINY, videos=2 * len(KINDS), world=replace(TINY.world, frames=1))
    labels = [balanced_clip(options, place).label for place in range(options.videos)]
    assert np.bincount(labels).tolist() == [2] * len(KINDS)
    other = replace(options, seed=4)
    assert labels != [balanced_clip(other, place).label for place in range(options.videos)]


def test_memory_and_folder_hold_the_same_frames(tmp_path: Path) -> None:
    made = synthetic_dataset(TINY)
    stored = synthesize(tmp_path / "world", TINY)
    dataset = folder.read(tmp_path / "world")
    assert dataset.digest() == stored.dataset.digest() == made.dataset.digest()
    source: FrameSource = made.source()
    on_disk = MediaSource(dataset)
    for row in range(0, len(dataset.frames), 5):
        np.testing.assert_array_equal(on_disk.read(row), source.read(row))
    assert source.read_encoded(0) is None


def test_boxes_labels_and_masks_agree_on_disk(tmp_path: Path) -> None:
    synthesize(tmp_path / "world", TINY)
    dataset = folder.read(tmp_path / "world")
    assert dataset.boxes is not None
    checked = 0
    for row in range(len(dataset.frames)):
        mask = np.asarray(PillowImage.open(tmp_path / "world" / "masks" / str(dataset.frames.key[row])))
        for box in dataset.boxes.of_frame(row):
            rows, columns = np.nonzero(mask == box.track + 1)
            assert box.xyxy == (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
            checked += 1
        main = [box.label for box in dataset.boxes.of_frame(row) if box.track == 0]
        assert set(main) <= set(dataset.labels_of(row))
    assert checked > 100
    with (tmp_path / "world" / "truth.csv").open() as file:
        truth = list(csv.DictReader(file))
    assert {row["frame"] for row in truth} == set(dataset.frames.key)
    assert all(0 <= float(row["occlusion"]) <= 1 for row in truth)


@pytest.mark.slow
def test_members_show_enough_of_the_object() -> None:
    options = SyntheticOptions(
        world=WorldOptions(size=48, occluders=2, motion=1.5), videos=24, max_occlusion=0.3, min_in_view=0.8
    )
    dataset = synthetic_dataset(options).dataset
    clips = [balanced_clip(options, place) for place in range(options.videos)]
    occlusion = np.concatenate([clip.occlusion[:, 0] for clip in clips])
    in_view = np.concatenate([clip.in_view[:, 0] for clip in clips])
    fair = np.flatnonzero((occlusion <= 0.3) & (in_view >= 0.8))
    assert sorted(dataset.sets.frame.tolist()) == fair.tolist()
    assert len(fair) < len(occlusion)
    assert dataset.n_sets == 24


def test_what_was_written_cannot_be_read_from_memory(tmp_path: Path) -> None:
    with pytest.raises(StrobeError, match="written to a folder"):
        synthetic_dataset(TINY, folder=tmp_path).source()


def test_no_fair_anchor_is_said() -> None:
    world = WorldOptions(size=32, frames=1, objects_min=1, distractors=0, occluders=0)
    with pytest.raises(InvalidValue, match="no usable anchor"):
        synthetic_dataset(SyntheticOptions(world=replace(world, object_scale=(1.0, 1.0)), min_in_view=1.0))


def test_the_command_makes_a_dataset(tmp_path: Path) -> None:
    arguments = [str(tmp_path / "w"), "--videos", "3", "--size", "32", "--k", "2", "--objects", "1-2", "--json"]
    told = json.loads(CliRunner().invoke(command, arguments, catch_exceptions=False).output)
    assert (told["n_sets"], told["n_frames"], told["was_there"]) == (3, 15, False)
    again = CliRunner().invoke(command, arguments[:-1], catch_exceptions=False)
    assert again.output.endswith("w: 3 sets, 15 frames (done before)\n")
    alone = [str(tmp_path / "alone"), "--videos", "3", "--size", "32", "--k", "0"]
    assert CliRunner().invoke(command, alone, catch_exceptions=False).output.endswith("alone: 3 images\n")
    shown = list(lines(inspect(tmp_path / "alone")))
    assert not [line for line in shown if "video" in line or "reach" in line]
    assert shown[1:3] == [
        "  3 images, 3 boxes in 3 tracks",
        "  every image is its own set, classes of strobe-synthetic",
    ]
    with pytest.raises(InvalidValue, match="--objects"):
        CliRunner().invoke(command, [str(tmp_path / "x"), "--objects", "many"], catch_exceptions=False)
    with pytest.raises(InvalidValue, match="--objects: expected a number or a range within 1 to 20, got '3-1'"):
        CliRunner().invoke(command, [str(tmp_path / "x"), "--objects", "3-1"], catch_exceptions=False)
