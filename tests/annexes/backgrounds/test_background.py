"""Rungs of a ladder to the pixel: what stays, what goes, what a hostile recipe gets, and whose ground is whose."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from strobe.annexes.backgrounds.donors import Ground, donors_of
from strobe.annexes.backgrounds.drawing import VERSION, has_ground
from strobe.annexes.backgrounds.masks import bounds_of, decoded_mask, mask_bytes
from strobe.core.crops import GREY, cut_of, object_of
from strobe.core.errors import StrobeError
from strobe.core.records import Box
from strobe.synthetic.sets import SyntheticOptions, balanced_clip
from strobe.synthetic.world import WorldOptions
from strobe.vary.rendering import read_sibling, rendered

MASK = {"file": "masks/a.png", "sha256": "0"}


class Shelf:
    """One mask and one other image, whatever is asked for."""

    def __init__(self, mask: Any, other: Any) -> None:
        self._mask, self._other = mask, other

    def file(self, named: Any, what: str, decode: Any, size_wh: tuple[int, int]) -> Any:
        assert what == "mask"
        assert self._mask.shape == size_wh[::-1]
        return self._mask

    def picture(self, named: Any) -> Any:
        return self._other


@pytest.fixture(scope="module")
def world() -> tuple[Any, Any, Any]:
    """A rendered frame, its object's mask, and another frame."""
    options = SyntheticOptions(world=WorldOptions(size=96, frames=1, occluders=0))
    clips = [balanced_clip(options, place) for place in (0, 1)]
    return clips[0].frames[0], clips[0].masks_visible[0, 0], clips[1].frames[0]


def recipe(rung: str, **more: Any) -> dict[str, Any]:
    return {"kind": "rung", "rung": rung, "fit": "squash", "version": VERSION, **more}


def made(world: tuple[Any, Any, Any], rung: str, **more: Any) -> Any:
    image, mask, other = world
    before = image.copy()
    out = rendered(image, recipe(rung, mask=MASK, **more), Shelf(mask, other))
    np.testing.assert_array_equal(image, before, err_msg="the image itself is left alone")
    assert out.dtype == np.uint8
    return out


def test_crops_are_the_very_pixels(world: tuple[Any, Any, Any]) -> None:
    image, mask, _ = world
    x0, y0, x1, y1 = box = bounds_of(mask)
    assert mask[y0:y1, x0:x1].sum() == mask.sum()
    for rung in ("crop", "zoom", "random"):
        np.testing.assert_array_equal(made(world, rung, cut=list(box)), image[y0:y1, x0:x1])
    tight = made(world, "tight", cut=list(box))
    np.testing.assert_array_equal(tight, made(world, "grey")[y0:y1, x0:x1])
    padded = made(world, "crop", cut=[10, 20, 40, 90], fit="pad")
    assert padded.shape == (70, 70, 3)
    np.testing.assert_array_equal(padded[:, 20:50], image[20:90, 10:40])
    assert (padded[:, :20] == GREY).all()
    assert (padded[:, 50:] == GREY).all()


def test_the_objects_pixels_stay_and_every_other_goes(world: tuple[Any, Any, Any]) -> None:
    image, mask, other = world
    donor = {"media": "m", "sha256": "0", "cut": [30, 30, 60, 70]}
    changed = {
        "grey": made(world, "grey"), "blur": made(world, "blur"), "plain": made(world, "plain", colour=[1, 2, 3]),
        "same": made(world, "same", donor=donor), "other": made(world, "other", donor=donor),
        "object": made(world, "object"),
    }  # fmt: skip
    for rung, out in changed.items():
        np.testing.assert_array_equal(out[mask], image[mask], err_msg=rung)
        assert (out[~mask] != image[~mask]).any(axis=1).mean() > 0.7, rung
    assert (changed["grey"][~mask] == GREY).all()
    assert (changed["plain"][~mask] == (1, 2, 3)).all()
    assert (changed["object"][~mask] == 0).all()
    outside = ~mask
    outside[30:70, 30:60] = False
    np.testing.assert_array_equal(changed["same"][outside], other[outside])


def test_nothing_of_the_object_is_left_where_it_is_removed(world: tuple[Any, Any, Any]) -> None:
    """Painted in a colour nothing else has, it can be told from all the rest."""
    image, mask, other = world
    x0, y0, x1, y1 = box = bounds_of(mask)
    painted = np.clip(image, 0, 120)
    painted[mask] = (255, 0, 255)
    for rung, more in (("removed", {}), ("ground", {"cut": list(box)})):
        out = rendered(painted, recipe(rung, mask=MASK, **more), Shelf(mask, other))
        assert out.max() <= 120, rung
        far = np.ones(mask.shape, dtype=bool)
        far[max(0, y0 - 3) : y1 + 3, max(0, x0 - 3) : x1 + 3] = False
        np.testing.assert_array_equal(out[far], painted[far])
    blurred = rendered(painted, recipe("blur", mask=MASK), Shelf(mask, other))
    assert blurred[~mask].max() <= 120, "nothing of the object runs into the blurred ground"


@pytest.mark.parametrize("side", [3, 6])
def test_the_blur_is_what_its_text_says(side: int) -> None:
    """The page read to the letter in a plain loop: even windows, edges, and one division at the end."""
    rng = np.random.default_rng(side)
    shorter = {3: 24, 6: 61}[side]  # a tenth, rounded; at least 3
    image = rng.integers(0, 256, (shorter, shorter + 5, 3), dtype=np.uint8)
    mask = np.zeros(image.shape[:2], dtype=bool)
    mask[8:16, 5:20] = True
    assert max(3, round(shorter / 10)) == side

    def mean(values: Any) -> Any:
        out = np.zeros_like(values)
        before, after = (side // 2, side // 2 - 1) if side % 2 == 0 else (side // 2, side // 2)
        high, wide = values.shape
        for y in range(high):
            for x in range(wide):
                rows = np.clip(range(y - before, y + after + 1), 0, high - 1)
                columns = np.clip(range(x - before, x + after + 1), 0, wide - 1)
                out[y, x] = values[np.ix_(rows, columns)].mean()
        return out

    weight = (~mask).astype(float)
    colours = [image[..., channel] * weight for channel in range(3)]
    for _ in range(3):
        weight, colours = mean(weight), [mean(one) for one in colours]
    expected = np.stack([one / np.maximum(weight, 1e-9) for one in colours], axis=-1).round()
    out = rendered(image, recipe("blur", mask=MASK), Shelf(mask, image))
    off = np.abs(out[~mask].astype(float) - expected[~mask])
    assert (off == 0).mean() > 0.9999, "only a value within rounding of a half may fall to the other side"
    assert off.max() <= 1


@pytest.mark.parametrize(
    ("cut", "strip"),
    [((40, 10, 60, 50), (0, 40)), ((5, 10, 40, 50), (40, 80)), ((5, 40, 75, 55), (0, 40)), ((5, 2, 75, 20), (20, 60))],
)
def test_a_box_is_tiled_with_the_largest_strip_beside_it(cut: Any, strip: tuple[int, int]) -> None:
    image = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    out = rendered(image, recipe("ground", cut=list(cut)), None)
    x0, y0, x1, y1 = cut
    across = y1 - y0 >= 40
    inside = out[y0:y1, x0:x1]
    lent = image[y0:y1, strip[0] : strip[1]] if across else image[strip[0] : strip[1], x0:x1]
    lines = {tuple(line.ravel()) for line in (lent.swapaxes(0, 1) if across else lent)}
    assert all(tuple(line.ravel()) in lines for line in (inside.swapaxes(0, 1) if across else inside))
    if cut == (40, 10, 60, 50):
        np.testing.assert_array_equal(out[y0:y1, 40], image[y0:y1, 39], err_msg="mirrored: no seam")


def test_grounds_of_other_sizes_cover_the_picture_and_whole_pictures_have_none(world: tuple[Any, Any, Any]) -> None:
    image, mask, _ = world
    donor = {"media": "m", "sha256": "0", "cut": [0, 0, 5, 5]}
    for shape in ((30, 200), (200, 30), (96, 96), (7, 9)):
        other = np.full((*shape, 3), 77, np.uint8)
        out = rendered(image, recipe("other", mask=MASK, donor=donor), Shelf(mask, other))
        assert (out[~mask] == 77).all()
    assert not has_ground((0, 0, 50, 40), (50, 40))
    assert not has_ground((2, 1, 50, 40), (50, 40))
    assert has_ground((3, 0, 50, 40), (50, 40))


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        ({"version": 99}, "for version 99 of the rungs, but this strobe has version"),
        ({"rung": "haze"}, "does not describe a valid rung"),
        ({"rung": ["crop"]}, "does not describe a valid rung"),
        ({"fit": "stretch"}, "does not describe a valid rung"),
        ({"cut": [0, 0, 97, 10]}, "crops .* from an image of 96×96"),
        ({"cut": [0, 0, 0, 10]}, "crops .* from an image of 96×96"),
        ({"cut": [-1, 0, 5, 10]}, "crops .* from an image of 96×96"),
        ({"cut": [0, 0, 5]}, "does not describe a valid rung"),
        ({"cut": "0, 0, 5, 5"}, "does not describe a valid rung"),
        ({"cut": [0, False, 5, 5]}, "does not describe a valid rung"),
        ({"cut": [0.0, 0, 5, 5]}, "does not describe a valid rung"),
        ({"rung": "grey", "mask": "masks/a.png"}, "does not describe a valid rung"),
        ({"rung": "plain", "mask": MASK, "colour": [256, 0, 0]}, "does not describe a valid rung"),
        ({"rung": "same", "mask": MASK, "donor": 5}, "does not describe a valid rung"),
        ({"rung": "same", "mask": MASK, "donor": {"media": "m", "cut": [0, 0, 999, 5]}}, "crops .* from an image"),
    ],
)
def test_hostile_recipes_are_refused_in_a_line(world: tuple[Any, Any, Any], broken: Any, line: str) -> None:
    image, mask, other = world
    with pytest.raises(StrobeError, match=line) as error:
        rendered(image, {**recipe("crop", cut=[0, 0, 5, 5]), **broken}, Shelf(mask, other))
    assert "\n" not in str(error.value)


def test_a_recipe_without_a_folder_gets_no_mask(world: tuple[Any, Any, Any]) -> None:
    with pytest.raises(StrobeError, match="does not belong to a dataset folder"):
        rendered(world[0], recipe("grey", mask=MASK))


def test_masks_are_read_from_their_folder_alone(tmp_path: Path) -> None:
    mask = np.zeros((6, 9), dtype=bool)
    mask[1:4, 2:7] = True
    content = mask_bytes(mask)
    root = tmp_path / "data"
    (root / "masks").mkdir(parents=True)
    (root / "masks/a.png").write_bytes(content)
    (tmp_path / "outside.png").write_bytes(content)
    (root / "masks/link.png").symlink_to(tmp_path / "outside.png")
    digest = hashlib.sha256(content).hexdigest()

    def read(file: Any, sha256: str, size_wh: tuple[int, int]) -> Any:
        return decoded_mask(*read_sibling(root, {"file": file, "sha256": sha256}, "mask"), size_wh)

    np.testing.assert_array_equal(read("masks/a.png", digest, (9, 6)), mask)
    for file, sha, size, line in (
        ("../outside.png", digest, (9, 6), "not a file in this folder"),
        (str(tmp_path / "outside.png"), digest, (9, 6), "not a file in this folder"),
        ("masks/link.png", digest, (9, 6), "leads out of the folder"),
        ("masks/b.png", digest, (9, 6), "is missing"),
        (None, digest, (9, 6), "not a file of the dataset"),
        ("masks/a\0.png", digest, (9, 6), "not a file in this folder"),
        ("masks/a.png", "0" * 64, (9, 6), "not the mask that the dataset was made with"),
        ("masks/a.png", digest, (6, 9), "the mask is 9×6, but the image is 6×9"),
    ):
        with pytest.raises(StrobeError, match=line):
            read(file, sha, size)


def test_masks_of_others(tmp_path: Path) -> None:
    """Grey above 127, palettes by index, numbers by name; bytes that are none are refused."""
    grey = Pillow.fromarray(np.array([[0, 127, 128, 255]], dtype=np.uint8))
    palette = Pillow.fromarray(np.array([[0, 1, 2, 0]], dtype=np.uint8), mode="L").convert("P")
    palette.putpalette([0, 0, 0, 128, 0, 0, 0, 128, 0])
    for name, image in (("grey", grey), ("palette", palette), ("rgb", grey.convert("RGB"))):
        image.save(tmp_path / f"{name}.png")

    def read(name: str, **more: Any) -> list[int]:
        path = tmp_path / f"{name}.png"
        return decoded_mask(path.read_bytes(), path, (4, 1), **more)[0].astype(int).tolist()

    assert read("grey") == read("rgb") == [0, 0, 1, 1]
    assert read("grey", own=frozenset({127})) == [0, 1, 0, 0]
    assert read("palette") == [0, 1, 1, 0]
    with pytest.raises(StrobeError, match="not a readable mask"):
        decoded_mask(b"\x89PNG nothing", tmp_path / "x.png", (4, 1))


def test_the_object_is_the_largest_of_its_class() -> None:
    boxes = [
        Box(xyxy=(0, 0, 10, 10), label=1), Box(xyxy=(0, 0, 30, 30), label=2), Box(xyxy=(5, 5, 20, 20), label=1),
        Box(xyxy=(0, 0, 50, 50), label=1, crowd=True),
    ]  # fmt: skip
    assert object_of(boxes, [1]) == boxes[2]
    assert object_of(boxes, [0]) is None
    assert cut_of((-5, 2.5, 7.1, 9), (20, 10)) == (0, 2, 8, 9)
    assert cut_of((8, 4, 12, 6), (20, 10), context=1.5) == (7, 3, 13, 7)
    assert cut_of((3, 3, 3, 9), (20, 10)) is None
    assert cut_of((float("nan"), 3, 5, 9), (20, 10)) is None


def test_no_picture_is_its_own_donor_and_each_lends_once_where_it_can_be() -> None:
    grounds = [Ground(row=row, name=f"{row:03}", source=row, labels=frozenset({row % 4})) for row in range(40)]
    for shared in (True, False):
        found = donors_of(grounds, shared=shared, seed=3)
        assert found == donors_of(grounds[::-1], shared=shared, seed=3), "in whatever order they come"
        assert found != donors_of(grounds, shared=shared, seed=4)
        assert sorted(found) == sorted(found.values()) == list(range(40)), "a derangement"
        assert all(taker != donor and (taker % 4 == donor % 4) == shared for taker, donor in found.items())


def test_donors_where_there_are_few() -> None:
    lone = [Ground(row=row, name=f"{row}", source=row, labels=frozenset({int(row > 0)})) for row in range(4)]
    assert 0 not in donors_of(lone, shared=True, seed=0)
    assert set(donors_of(lone, shared=False, seed=0)) == {0, 1, 2, 3}, "the lone one lends to all others"
    poor = [Ground(row=row, name=f"{row}", source=row, labels=frozenset({0}), gives=row == 2) for row in range(4)]
    assert donors_of(poor, shared=True, seed=0) == {0: 2, 1: 2, 3: 2}
    assert donors_of(poor, shared=False, seed=0) == {}
    clips = [Ground(row=row, name=f"{row}", source=row // 3, labels=frozenset({0})) for row in range(6)]
    found = donors_of(clips, shared=True, seed=0)
    assert set(found) == set(range(6))
    assert all(taker // 3 != donor // 3 for taker, donor in found.items()), "frames of one video have one ground"
    assert donors_of(clips[:3], shared=True, seed=0) == {}
    several = [Ground(row=row, name=f"{row}", source=row, labels=frozenset({row, row + 1})) for row in range(6)]
    for taker, donor in donors_of(several, shared=False, seed=0).items():
        assert not several[taker].labels & several[donor].labels
