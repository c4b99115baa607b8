"""Hints say what was done to the pixels."""

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image as Pillow
from PIL import ImageFilter

from strobe.build.hints import cut_score, dropped_rows, features_of, pair_hints, set_hints
from strobe.build.options import DropRules
from strobe.core.errors import InvalidValue
from strobe.core.tables import Hints

Picture = NDArray[np.uint8]


def scene(seed: int, *, size: tuple[int, int] = (360, 640), warmth: int = 0) -> Picture:
    """Soft random blobs: texture at every scale, like a photo."""
    rng = np.random.default_rng(seed)
    image = np.zeros((*size, 3))
    for step in (90, 45, 15, 5, 2):
        small = rng.integers(0, 256, (size[0] // step + 2, size[1] // step + 2, 3), dtype=np.uint8)
        image += np.asarray(Pillow.fromarray(small).resize((size[1], size[0]), Pillow.Resampling.BICUBIC)) * (
            step / 155
        )
    image[..., 0] += warmth
    image[..., 2] -= warmth
    return np.clip(image, 0, 255).astype(np.uint8)


def moved(wide: Picture, right: int, down: int = 0) -> Picture:
    """A window on a larger image; the content moves by (right, down)."""
    return np.ascontiguousarray(wide[100 - down : 460 - down, 100 - right : 740 - right])


@pytest.mark.parametrize(("right", "down"), [(4, 0), (0, 9), (16, 8), (-40, 24), (80, -60)])
def test_motion_measures_a_shift(right: int, down: int) -> None:
    wide = scene(1, size=(560, 840))
    found = pair_hints(features_of(moved(wide, 0)), features_of(moved(wide, right, down)), cut=0.0).motion
    assert found == pytest.approx(100 * np.hypot(right, down) / np.hypot(360, 640), rel=0.25, abs=0.2)


def test_motion_of_a_part_is_its_share() -> None:
    image = scene(2)
    other = image.copy()
    other[120:240, 200:400] = image[120:240, 180:380]  # a block of a ninth of the frame moves by 20 pixels
    found = pair_hints(features_of(image), features_of(other), cut=0.0).motion
    whole = 100 * 20 / np.hypot(360, 640)
    assert 0.03 * whole < found < 0.3 * whole


def test_blur_is_the_log_of_sharpness() -> None:
    image = scene(3)
    soft = np.asarray(Pillow.fromarray(image).filter(ImageFilter.GaussianBlur(3)))
    softer = np.asarray(Pillow.fromarray(image).filter(ImageFilter.GaussianBlur(6)))
    one, two, three = features_of(image), features_of(soft), features_of(softer)
    assert pair_hints(one, two, cut=0.0).blur < -1
    assert pair_hints(one, three, cut=0.0).blur < pair_hints(one, two, cut=0.0).blur
    assert pair_hints(two, one, cut=0.0).blur == pytest.approx(-pair_hints(one, two, cut=0.0).blur)


def test_exposure_is_the_change_of_mean_luma() -> None:
    image = np.full((90, 160, 3), 100, dtype=np.uint8)
    found = pair_hints(features_of(image), features_of(image + 51), cut=0.0)
    assert found.exposure == pytest.approx(0.2, abs=1e-6)
    assert found.motion == 0.0


def test_cut_needs_new_colours_and_a_new_layout() -> None:
    a, b = features_of(scene(4, warmth=50)), features_of(scene(5, warmth=-50))
    brighter = features_of(np.clip(scene(4, warmth=50).astype(int) + 60, 0, 255).astype(np.uint8))
    wide = scene(4, size=(560, 840), warmth=50)
    assert cut_score(a, b) > 0.5
    assert cut_score(a, brighter) < 0.2  # a flash
    assert cut_score(features_of(moved(wide, 0)), features_of(moved(wide, 60))) < 0.3  # a fast pan
    assert cut_score(a, a) == 0.0


def test_members_beyond_a_cut_carry_it_and_no_others() -> None:
    one, two = scene(6, warmth=50), scene(7, warmth=-50)
    features = {index: features_of(one if index < 5 else two) for index in range(9)}
    hints = set_hints(features, 3, range(9))
    assert [hint.cut > 0.35 for hint in hints] == [False] * 5 + [True] * 4
    assert hints[3].cut == hints[3].motion == hints[3].blur == hints[3].exposure == 0.0


def test_near_duplicates() -> None:
    image = scene(8)
    grain = np.random.default_rng(0).integers(-1, 2, image.shape)
    nearly = np.clip(image.astype(int) + grain, 0, 255).astype(np.uint8)
    patch = image.copy()
    patch[100:132, 100:132] = 255 - patch[100:132, 100:132]
    anchor = features_of(image)
    assert pair_hints(anchor, features_of(nearly), cut=0.0).duplicate
    assert not pair_hints(anchor, features_of(patch), cut=0.0).duplicate  # one changed block is enough


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (7, 200), (200, 7), (16, 16), (97, 65)])
def test_any_size_has_hints(size: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    a, b = (features_of(rng.integers(0, 256, (*size, 3), dtype=np.uint8)) for _ in range(2))
    found = pair_hints(a, b, cut=cut_score(a, b))
    assert np.isfinite([found.cut, found.blur, found.motion, found.exposure]).all()
    assert 0 <= found.cut <= 1


def test_a_change_of_size_is_a_cut() -> None:
    a, b = features_of(scene(1, size=(90, 160))), features_of(scene(1, size=(160, 90)))
    assert cut_score(a, b) == 1.0
    assert pair_hints(a, b, cut=1.0).motion == 100.0


def test_drop_rules() -> None:
    hints = Hints(
        cut=np.array([0.0, 0.4, 0.1]), blur=np.array([0.0, -2.0, 2.0]), motion=np.array([0.0, 3.0, 0.0]),
        exposure=np.array([0.0, -0.3, 0.1]), duplicate=np.array([False, False, True]),
    )  # fmt: skip
    rules = DropRules(cut=0.35, blur=1.5, exposure=0.3, duplicate=True)
    assert {name: rows.tolist() for name, rows in dropped_rows(rules, hints).items()} == {
        "cut": [False, True, False],
        "blur": [False, True, True],
        "exposure": [False, True, False],
        "duplicate": [False, False, True],
    }
    assert not DropRules().any
    with pytest.raises(InvalidValue, match="--drop-blur"):
        DropRules(blur=0)
