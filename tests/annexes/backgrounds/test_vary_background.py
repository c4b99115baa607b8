"""strobe vary background: rendered frames with true boxes and masks, files of others, and a line for what is bad."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from strobe.annexes.backgrounds.ladder_table import read_ladder
from strobe.annexes.backgrounds.ladders import CONTROLS, RUNGS
from strobe.annexes.backgrounds.object_files import mask_files
from strobe.annexes.backgrounds.workflow import LadderMade, VaryBackgroundOptions, vary_background
from strobe.cli.main import cli, main
from strobe.core.crops import cut_of
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue, StrobeError
from strobe.core.people import BoxAnswer
from strobe.core.tables import Boxes
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
    words = f"vary background {world} {tmp_path}/l --rungs zoom,crop,grey --context 1,2 -q".split()
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


MASKED = ("grey", "blur", "plain", "same", "other", "object", "tight", "removed")


def copied(world: Path, to: Path, change: Callable[[Dataset], Dataset]) -> Path:
    """The world with other tables."""
    shutil.copytree(world, to)
    folder.write(change(folder.read(to)), to, overwrite=True)
    return to


def with_boxes(dataset: Dataset, keep: Any, change: Callable[[Any], Any] = lambda xyxy: xyxy) -> Dataset:
    boxes = dataset.boxes
    assert boxes is not None
    columns = {name: getattr(boxes, name)[keep] for name in ("frame", "label", "track", "crowd")}
    return replace(dataset, boxes=Boxes(xyxy=change(boxes.xyxy[keep].copy()), **columns))


def test_boxes_people_drew_a_crop_sets_manifest_and_masks_under_a_camera(
    world: Path, ladder: LadderMade, tmp_path: Path
) -> None:
    shutil.copytree(world, tmp_path / "world")
    plain = folder.read(world)
    names, ids = plain.info.label_space.ids, plain.frame_ids()
    folder.append_answers(
        tmp_path / "world",
        "drawn", [
            BoxAnswer(
                answer_id=f"{row}", annotator="ann", at="2026-11-16T00:00:00+00:00", stage="draw", frame_id=ids[row],
                label=names[plain.labels_of(row)[0]], decision="keep", xyxy=(8.0, 9.0, 40.0, 50.0 + row),
            )
            for row in range(3)
        ],
    )  # fmt: skip
    people = vary_background(
        tmp_path / "world", tmp_path / "people", VaryBackgroundOptions(boxes="people", rungs=("crop",))
    )
    assert [one.xyxy for one in people.pictures] == [(8, 9, 40, 50), (8, 9, 40, 51), (8, 9, 40, 52)]
    crops = [{"key": str(key), "xyxy": [4, 4, 30, 30]} for key in plain.frames.key.tolist()]
    (tmp_path / "manifest.json").write_text(json.dumps({"crops": crops}))
    some = VaryBackgroundOptions(boxes=str(tmp_path / "manifest.json"), rungs=("zoom",))
    assert {one.xyxy for one in vary_background(world, tmp_path / "m", some).pictures} == {(4, 4, 30, 30)}
    for place in range(2):
        for name in ("in", "masks"):
            (tmp_path / name / "dog").mkdir(parents=True, exist_ok=True)
        shutil.copy(world / "media" / plain.frames.key[place], tmp_path / "in" / "dog" / f"{place}.png")
        shutil.copy(world / "masks" / plain.frames.key[place], tmp_path / "masks" / "dog" / f"{place}.png")
    words = ["simulate", "in", "shaky", "--masks", "masks", "--k", "1", "--size", "48", "--workers", "1", "-q"]
    done = CliRunner().invoke(
        cli, [word if word not in ("in", "shaky", "masks") else str(tmp_path / word) for word in words]
    )
    assert done.exit_code == 0, done.output
    shaky = vary_background(tmp_path / "shaky", tmp_path / "l", VaryBackgroundOptions(rungs=("crop", "grey", "tight")))
    assert shaky.counts() == {"crop": 2, "grey": 2, "tight": 2}
    assert all(one.mask_share and 0.02 < one.mask_share < 0.6 for one in shaky.pictures)


def test_boxes_and_masks_of_others(world: Path, ladder: LadderMade, tmp_path: Path, heard: Any) -> None:
    """Masks of 0 and 255 named as images, no boxes at all; then boxes of a file, no masks."""
    plain = folder.read(world)
    for key in plain.frames.key.tolist():
        mask = np.asarray(Image.open(world / "masks" / key)) == 1
        path = tmp_path / "drawn" / Path(key).parent.name / "000000.png"
        path.parent.mkdir(parents=True)
        Image.fromarray((mask * 255).astype(np.uint8)).save(path)
    bare = copied(world, tmp_path / "bare", lambda one: replace(one, boxes=None))
    shutil.rmtree(bare / "masks")
    made = vary_background(bare, tmp_path / "a", VaryBackgroundOptions(masks=tmp_path / "drawn"))
    assert [one.xyxy for one in made.pictures] == [one.xyxy for one in ladder.pictures]
    masks = [[json.loads(text).get("mask", {}).get("sha256") for text in one.frames.recipe.tolist() if text]
             for one in (made.dataset, ladder.dataset)]  # fmt: skip
    assert masks[0] == masks[1]
    keys = plain.frames.key.tolist()
    lines = ["file,x0,y0,x1,y1", *(f"{key},10,12,{30 + place},40" for place, key in enumerate(keys[:20]))]
    lines.append(f"{keys[20]},10,12,10,40")
    lines += [f"gone/{place}.png,10,12,30,40" for place in range(2)]
    (tmp_path / "boxes.csv").write_text("\n".join(lines))
    wanted = VaryBackgroundOptions(boxes=str(tmp_path / "boxes.csv"))
    boxed = vary_background(bare, tmp_path / "b", wanted, progress=heard)
    assert [line.partition(": ")[2] for line in heard.lines if "no such anchor" in line] == [
        f"2 boxes are skipped: no such anchor in {plain.name}"
    ]
    assert not set(boxed.counts()) & set(MASKED)
    assert boxed.counts()["crop"] == 20
    assert boxed.absent() == {"ladder": {"it has no box in the file": 3, "its box has no area": 1}}
    assert boxed.pictures[3].xyxy == (10, 12, 33, 40)
    with pytest.raises(InvalidValue, match="--rungs grey needs masks"):
        vary_background(bare, tmp_path / "c", VaryBackgroundOptions(boxes=str(tmp_path / "boxes.csv"), rungs=("grey",)))
    with pytest.raises(InvalidValue, match="neither boxes nor masks; use --boxes FILE"):
        vary_background(bare, tmp_path / "c", PLAIN)
    with pytest.raises(InvalidValue, match=r"--boxes truth: .* has no boxes"):
        vary_background(bare, tmp_path / "c", VaryBackgroundOptions(boxes="truth"))


def test_pictures_that_cannot_have_a_rung_are_counted_with_the_reason(world: Path, tmp_path: Path) -> None:
    """No box, one of another class, one outside, one of a pixel, a mask of another size, an empty one, one twice."""

    def odd(dataset: Dataset) -> Dataset:
        boxes = dataset.boxes
        assert boxes is not None
        keep = np.flatnonzero(boxes.frame != 0)

        def moved(xyxy: Any) -> Any:
            frame = boxes.frame[keep]
            xyxy[frame == 2] = (64, 10, 90, 30)
            xyxy[frame == 3] = (10, 10, 11, 11)
            xyxy[frame == 4] = (-20, 5, 30, 80)
            xyxy[frame == 9] = (0, 0, 64, 64)
            return xyxy

        out = with_boxes(dataset, keep, moved)
        assert out.boxes is not None
        label = out.boxes.label.copy()
        label[out.boxes.frame == 1] = (label[out.boxes.frame == 1] + 1) % 12
        sha, media = out.frames.sha256.copy(), out.frames.media.copy()
        sha[6], media[6] = sha[5], media[5]
        return replace(out, boxes=replace(out.boxes, label=label), frames=replace(out.frames, sha256=sha, media=media))

    root = copied(world, tmp_path / "odd", odd)
    key = folder.read(root).frames.key.tolist()
    Image.new("L", (10, 10)).save(root / "masks" / key[7])
    Image.new("L", (64, 64)).save(root / "masks" / key[8])
    made = vary_background(root, tmp_path / "ladder", PLAIN)
    names = folder.read(root).info.label_space.names
    own = names[folder.read(root).labels_of(1)[0]]
    assert {one.picture: one.absent for one in made.pictures if one.is_left_out} == {
        key[0]: {"ladder": "it has no box"},
        key[1]: {"ladder": f"it has no box of {own}"},
        key[2]: {"ladder": "its box is outside the image of 64×64"},
        key[3]: {"ladder": "its box is 1×1 pixels; a crop needs 8"},
        key[6]: {"ladder": f"the same image as {key[5]}"},
    }
    cut_at_the_edge = made.pictures[4]
    assert cut_at_the_edge.area_share == pytest.approx(30 * 59 / 64**2)
    assert set(made.pictures[7].absent) == set(made.pictures[8].absent) == set(MASKED)
    assert made.pictures[7].absent["grey"].endswith("the mask is 10×10, but the image is 64×64")
    assert made.pictures[8].absent["grey"] == "its mask is empty"
    assert made.pictures[9].absent == {"ground": "its box leaves no background to tile"}
    counts = made.counts()
    assert counts["crop"] == 19
    assert counts["grey"] == 17
    assert counts["ground"] == 18
    assert "same" in made.absent(), "a class with one image left has no donor"
    assert set(made.absent()["same"]) > {"its mask is empty", "no image of its class has a background to lend"}
    assert read_ladder(tmp_path / "ladder") == made.pictures


@pytest.mark.parametrize(
    ("case", "line"),
    [
        ("no box anywhere", "none of its 24 images can get a ladder; the first image is .*: it has no box"),
        (
            "masks of another size",
            "no mask can be used; the first image is .*: .*the mask is 10×10, but the image is 64×64",
        ),
        ("no masks", "--masks: no PNG file in"),
        ("no folder", "--masks: no such folder"),
        ("other names", "--masks: none of the 1 PNG files in .* has the name of an image"),
        ("one mask for two", "--masks: 000000.png could belong to .* or to"),
        ("no file", "--boxes: no such file"),
        ("no columns", "boxes.csv: no column x1; a CSV of boxes has key,x0,y0,x1,y1"),
        ("twice", "boxes.csv: line 3: .* appears twice"),
        ("no numbers", "boxes.csv: line 2: expected four numbers"),
        ("both", "--boxes and --detector both give boxes"),
        ("unknown rung", "unknown rung 'gray'; did you mean grey"),
        ("context", "--context: expected numbers from 1 to 10"),
        ("itself", "is the dataset itself"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_left(
    world: Path, tmp_path: Path, case: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root, csv, words = world, tmp_path / "boxes.csv", []
    key = folder.read(world).frames.key[0]
    masks = tmp_path / "m"
    if case == "no box anywhere":
        root = copied(world, tmp_path / "odd", lambda one: with_boxes(one, np.zeros(0, dtype=int)))
    elif case == "masks of another size":
        for name in folder.read(world).frames.key.tolist():
            (masks / name).parent.mkdir(parents=True)
            Image.new("L", (10, 10), 255).save(masks / name)
    elif case in ("no masks", "other names", "one mask for two"):
        masks.mkdir()
        if case != "no masks":
            Image.new("L", (64, 64)).save(masks / ("x.png" if case == "other names" else "000000.png"))
    if case in ("masks of another size", "no masks", "no folder", "other names", "one mask for two"):
        words = ["--masks", str(masks)]
    rows = {
        "no columns": f"key,x0,y0\n{key},1,2\n", "twice": f"key,x0,y0,x1,y1\n{key},1,2,30,40\n{key},1,2,30,40\n",
        "no numbers": f"key,x0,y0,x1,y1\n{key},1,2,3,\n",
    }  # fmt: skip
    if case in ("no file", *rows):
        words = ["--boxes", str(csv)]
        if case in rows:
            csv.write_text(rows[case])
    words += {
        "both": ["--boxes", "truth", "--detector", "strobe-tiny"], "unknown rung": ["--rungs", "zoom,gray"],
        "context": ["--context", "0.5"],
    }.get(case, [])  # fmt: skip
    to = root if case == "itself" else tmp_path / "out"
    with pytest.raises(SystemExit) as ended:
        main(["vary", "background", str(root), str(to), "-q", *words])
    assert ended.value.code == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1, said
    assert re.search(line, said[0]), said[0]
    assert case == "itself" or not folder.is_dataset(tmp_path / "out")


def test_a_folder_with_the_name_of_an_image_is_not_its_mask(tmp_path: Path) -> None:
    (tmp_path / "a.png").mkdir()
    with pytest.raises(StrobeError, match="no PNG file"):
        mask_files(tmp_path, ["a.png", "b.png"])
    (tmp_path / "b.png").touch()
    assert mask_files(tmp_path, ["a.png", "b.png"]) == {"b.png": tmp_path / "b.png"}
