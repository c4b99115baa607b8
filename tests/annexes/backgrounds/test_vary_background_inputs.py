"""What `strobe vary background` is given: boxes and masks of others, odd images, and a line for what is bad."""

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
from strobe.annexes.backgrounds.workflow import LadderMade, VaryBackgroundOptions, vary_background
from strobe.cli.main import cli, main
from strobe.core.dataset import Dataset
from strobe.core.errors import InvalidValue
from strobe.core.people import BoxAnswer
from strobe.core.tables import Boxes
from strobe.store import dataset_folder as folder

PLAIN = VaryBackgroundOptions()
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
