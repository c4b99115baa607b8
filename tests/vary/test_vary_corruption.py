"""`strobe vary corruption`: from photos, videos, boxes; rendered or stored; killed and resumed; refused in a line."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import strobe.vary.corrupted_sets as making
from strobe.cli.main import cli
from strobe.core.errors import CannotDownload, StrobeError
from strobe.core.files import read_json
from strobe.core.ports import Silent
from strobe.core.records import frame_id
from strobe.store import dataset_folder as folder
from strobe.store.opening import frame_source
from strobe.vary.corruptions import corrupt
from strobe.workflows.vary_corruption import CorruptionOptions, frost_photographs, vary_corruption

Make = Callable[..., Any]
SOME = CorruptionOptions(kind=("fog", "impulse_noise", "jpeg_compression"), severity=(1, 4))


@pytest.fixture
def photos(picture: Make, tmp_path: Path) -> Path:
    """Four photos of two classes, one JPEG among PNGs, one turned by its EXIF tag, imported."""
    source = tmp_path / "photos"
    for place in range(4):
        path = source / ("cat", "dog")[place % 2] / f"{place}.{'jpg' if place else 'png'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = Image.fromarray(picture(place, 48)[: 48 - 8 * place])
        exif = Image.Exif()
        exif[0x0112] = 6
        pixels.save(path, **({"exif": exif} if place == 3 else {}))
    assert CliRunner().invoke(cli, ["import", "photos", str(source), str(tmp_path / "ds"), "-q"]).exit_code == 0
    return tmp_path / "ds"


def pixels(root: Path) -> dict[str, Any]:
    dataset = folder.read(root)
    source = frame_source(dataset)
    return {name: source.read(row) for row, name in enumerate(dataset.frame_ids())}


def test_one_set_per_picture_and_corruption(photos: Path, tmp_path: Path) -> None:
    made = vary_corruption(photos, tmp_path / "c", SOME).dataset
    found, plain = folder.read(tmp_path / "c"), folder.read(photos)
    assert found.digest() == made.digest()
    assert found.variants is not None
    assert found.variants.variant.tolist() == ["impulse_noise", "fog", "jpeg_compression"]
    assert found.variants.levels.tolist() == [(1.0, 4.0)] * 3
    assert (found.info.axis, found.info.combine, found.info.k) == ("severity", "worst", 2)
    assert found.n_sets == 12
    assert len(set(found.sets.group)) == 4
    assert len(found.frames) == 4 + 4 * 6
    assert set(found.videos.kind) == {"photo"}
    ids, before = found.frame_ids(), plain.frame_ids()
    assert {ids[row] for row in found.sets.anchor_frame.tolist()} == set(before), "anchors keep their names"
    for row in range(len(found.frames)):
        assert (found.frames.recipe[row] == "") == (row in found.sets.anchor_frame)
    for place in range(found.n_sets):
        anchor = int(found.sets.anchor_frame[place])
        assert found.labels_of(anchor) == plain.labels_of(before.index(ids[anchor]))
        assert found.sets.distance[found.sets.set == place].tolist() == [0.0, 1.0, 4.0]


def test_the_folder_stands_by_itself_and_shows_what_the_recipes_say(photos: Path, tmp_path: Path) -> None:
    anchors = pixels(photos)
    vary_corruption(photos, tmp_path / "c", SOME)
    shutil.rmtree(photos)
    found, dataset = pixels(tmp_path / "c"), folder.read(tmp_path / "c")
    for name, image in anchors.items():
        np.testing.assert_array_equal(found[name], image)
    for record in dataset:
        base = anchors[record.anchor.id]
        for member in record.members:
            recipe = member.frame.recipe or {}
            assert recipe["name"] == record.variant
            assert recipe["severity"] == member.distance
            wanted = corrupt(base, record.variant, int(member.distance), np.random.default_rng(recipe["seed"]))
            np.testing.assert_array_equal(found[member.frame.id], wanted)


def test_stored_and_rendered_are_the_same_pixels(photos: Path, tmp_path: Path) -> None:
    vary_corruption(photos, tmp_path / "rendered", SOME)
    vary_corruption(photos, tmp_path / "stored", replace(SOME, store=True))
    vary_corruption(photos, tmp_path / "alone", replace(SOME, kind=("fog",), severity=(4,)))
    rendered, stored, alone = (pixels(tmp_path / name) for name in ("rendered", "stored", "alone"))
    assert list(rendered) == list(stored)
    for name, image in rendered.items():
        np.testing.assert_array_equal(stored[name], image)
    assert set(alone) < set(rendered)
    for name, image in alone.items():  # whichever other corruptions were asked for
        np.testing.assert_array_equal(rendered[name], image)
    dataset = folder.read(tmp_path / "stored")
    assert set(dataset.frames.recipe) == {""}
    assert len(set(dataset.frames.media)) == len(dataset.frames)
    sheets = []
    for name in ("rendered", "stored"):
        words = ["inspect", str(tmp_path / name), "--sheet", str(tmp_path / f"{name}.png"), "--sets", "6", "-q"]
        assert CliRunner().invoke(cli, words).exit_code == 0
        sheets.append(np.asarray(Image.open(tmp_path / f"{name}.png"))[60:])  # below the title, which names it
    np.testing.assert_array_equal(*sheets)


def test_frost_and_glass_bring_their_photographs_along(photos: Path, tmp_path: Path) -> None:
    asked = replace(SOME, kind=("glass_blur", "frost"))
    made = vary_corruption(photos, tmp_path / "c", asked).dataset
    assert made.info.provenance["version"] == 2
    assert len(list((tmp_path / "c" / "panes").iterdir())) == 5
    vary_corruption(photos, tmp_path / "stored", replace(asked, store=True))
    shutil.move(tmp_path / "c", tmp_path / "elsewhere")
    rendered, stored = pixels(tmp_path / "elsewhere"), pixels(tmp_path / "stored")
    for name, image in rendered.items():
        np.testing.assert_array_equal(stored[name], image)
    recipes = [member.frame.recipe or {} for record in folder.read(tmp_path / "elsewhere") for member in record.members]
    assert {one["version"] for one in recipes} == {2}
    assert len({one["pane"]["file"] for one in recipes if one["name"] == "frost"}) > 1
    assert vary_corruption(photos, tmp_path / "elsewhere", asked).was_there
    pane = tmp_path / "elsewhere" / next(one["pane"]["file"] for one in recipes if one["name"] == "frost")
    content = pane.read_bytes()
    pane.write_bytes(content[:-1] + b"?")
    with pytest.raises(StrobeError, match="not the photograph that the dataset was made with"):
        pixels(tmp_path / "elsewhere")
    pane.unlink()
    with pytest.raises(StrobeError, match="the photograph is missing"):
        pixels(tmp_path / "elsewhere")
    assert not vary_corruption(photos, tmp_path / "elsewhere", asked).was_there
    assert pane.read_bytes() == content


def test_without_a_network_frost_names_what_needs_none(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STROBE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(CannotDownload, match="use frost_feathers instead of frost"):
        frost_photographs(Silent(), offline=True)
    vary_corruption(photos, tmp_path / "c", replace(SOME, kind=("frost_feathers", "glass_scatter")))


PLUGIN = """
import numpy as np

def make():
    def scores(images):
        return np.array([[one[..., 0].mean(), one[..., 1].mean() + one.std() / 3] for one in images], np.float32)
    return scores, ["cat", "dog"]
"""


def test_eval_says_the_same_of_both_and_per_corruption(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    models = []
    for name, store in (("rendered", False), ("stored", True)):
        vary_corruption(photos, tmp_path / name, replace(SOME, store=store))
        words = ["eval", tmp_path / name, "-m", f"m=py:{tmp_path}/mine.py:make", "-o", tmp_path / f"run-{name}", "-q"]
        assert CliRunner().invoke(cli, [*map(str, words), "--bootstrap", "100"]).exit_code == 0
        models.append(read_json(tmp_path / f"run-{name}" / "results.json")["models"]["m"])
    assert models[0] == models[1]
    assert [one["variant"] for one in models[0]["variants"]] == ["impulse_noise", "fog", "jpeg_compression"]
    assert "data:image" in (tmp_path / "run-rendered" / "report.html").read_text()


def test_workers_make_the_same(photos: Path, tmp_path: Path) -> None:
    options = replace(SOME, store=True, kind=("fog",), severity=(2,), name="c")
    one = vary_corruption(photos, tmp_path / "one", options).dataset
    two = vary_corruption(photos, tmp_path / "two", replace(options, workers=2)).dataset
    assert one.digest() == two.digest()
    assert one.frames.sha256.tolist() == two.frames.sha256.tolist()


def test_what_cannot_be_is_one_line(photos: Path, tmp_path: Path, command: Any) -> None:
    vary = ["vary", "corruption", photos]
    for words, line in (
        ([*vary, tmp_path / "x", "--kind", "foggy"], "unknown corruption 'foggy'; did you mean fog?"),
        ([*vary, tmp_path / "x", "--kind", ""], "unknown corruption ''"),
        ([*vary, tmp_path / "x", "--severity", "0-3"], "expected severities from 1 to 5"),
        ([*vary, tmp_path / "x", "--severity", "3-1"], "expected severities from 1 to 5"),
        ([*vary, tmp_path / "x", "--severity", "1-99999999999999"], "expected severities from 1 to 5"),
        ([*vary, tmp_path / "x", "--severity", "much"], "expected 1-5 or 1,3,5"),
        ([*vary, photos], "is the dataset itself"),
        (["vary", "corruption", tmp_path / "none", tmp_path / "x"], "none"),
        (["vary", "fogs", photos, tmp_path / "x"], "No such command"),
    ):
        code, _, error = command(*words)
        assert code == 2, words
        assert line in error
        assert "\n" not in error.strip()
        assert not (tmp_path / "x").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    assert "is not empty" in command(*vary, tmp_path / "full", "-q")[2]
    vary_corruption(photos, tmp_path / "c", SOME)
    code, _, error = command(*vary, tmp_path / "c", "--kind", "snow", "-q")
    assert (code, "already contains a dataset made with other settings" in error) == (2, True)


def test_pictures_that_cannot_be_read_are_left_out_and_said(photos: Path, tmp_path: Path) -> None:
    files = sorted((photos / "media").rglob("*.jpg"))
    files[0].write_bytes(b"no image")
    words = ["vary", "corruption", str(photos), str(tmp_path / "c"), "--kind", "fog", "--json"]
    told = json.loads(CliRunner().invoke(cli, words, catch_exceptions=False).stdout)
    assert (told["n_sets"], told["kinds"], len(told["problems"])) == (3, ["fog"], 1)
    assert "not a readable image" in told["problems"][0]
    for path in (photos / "media").rglob("*.*"):
        path.write_bytes(b"no image")
    with pytest.raises(StrobeError, match="none of its 4 anchors can be read"):
        vary_corruption(photos, tmp_path / "d", SOME)
    assert not (tmp_path / "d").exists()


def test_members_of_two_anchors_of_a_video_have_names_of_their_own() -> None:
    found = {
        frame_id("v", making.member_index(anchor, kind, severity))
        for anchor in (0, 1, 7, 500_000)
        for kind in making.CORRUPTIONS
        for severity in making.SEVERITIES
    }
    assert len(found) == 4 * 20 * 5
    assert not {frame_id("v", place) for place in (0, 1, 7, 500_000)} & found
