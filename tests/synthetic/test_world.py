from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.core.errors import InvalidValue, UnknownName
from strobe.synthetic.actors import random_motion
from strobe.synthetic.classes import KINDS
from strobe.synthetic.painter import Painter, random_look
from strobe.synthetic.sets import SyntheticOptions, balanced_clip
from strobe.synthetic.world import Clip, World, WorldOptions

SMALL = WorldOptions(size=64, frames=5, objects_max=3, object_scale=(0.25, 0.5))
BARE = WorldOptions(
    size=64, frames=5, distractors=0, occluders=0, motion=0.0, blur=0.0, lighting=0.0, noise=0.0
)  # fmt: skip


@pytest.mark.parametrize("label", range(len(KINDS)))
def test_every_class_fills_its_canvas_and_has_an_inside(label: int) -> None:
    kind = KINDS[label]
    shares = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        painter = Painter(64)
        kind.draw(painter, random_look(rng, texture=kind.texture), rng)
        alpha = np.asarray(painter.image())[:, :, 3]
        shares.append((alpha >= 128).mean())
        rows, columns = np.nonzero(alpha)
        assert max(np.ptp(rows), np.ptp(columns)) > 50, kind.name
        assert ((alpha > 0) & (alpha < 255)).any()  # soft edges
    assert 0.12 < min(shares) <= max(shares) < 0.7, kind.name


def test_classes_differ_in_shape_and_not_only_in_colour() -> None:
    outlines = []
    for kind in KINDS:
        rng = np.random.default_rng(0)
        painter = Painter(48)
        kind.draw(painter, random_look(rng, texture=kind.texture), rng)
        outlines.append(np.asarray(painter.image())[:, :, 3] >= 128)
    for one in range(len(KINDS)):
        for other in range(one):
            both = (outlines[one] & outlines[other]).sum() / (outlines[one] | outlines[other]).sum()
            assert both < 0.85, (KINDS[one].name, KINDS[other].name)


@pytest.mark.parametrize("seed", range(8))
def test_boxes_masks_and_occlusion_agree(seed: int) -> None:
    clip = World(SMALL).clip(seed)
    assert (clip.masks_visible <= clip.masks_full).all()
    assert (clip.masks_visible.sum(axis=1) <= 1).all()  # no pixel belongs to two objects
    full, seen = clip.masks_full.sum(axis=(2, 3)), clip.masks_visible.sum(axis=(2, 3))
    np.testing.assert_allclose(clip.occlusion[full > 0], 1 - seen[full > 0] / full[full > 0])
    assert ((clip.in_view >= 0) & (clip.in_view <= 1)).all()
    for boxes, masks in ((clip.boxes, clip.masks_visible), (clip.boxes_full, clip.masks_full)):
        for place in range(len(boxes)):
            for track in range(boxes.shape[1]):
                rows, columns = np.nonzero(masks[place, track])
                if not len(rows):
                    assert np.isnan(boxes[place, track]).all()
                    continue
                expected = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
                assert boxes[place, track].tolist() == expected


def test_the_mask_is_where_the_object_is() -> None:
    """The same clip over two grounds differs exactly where no object is (without light, noise and blur)."""
    for seed in range(4):
        one, other = (World(BARE).clip(seed, background=family) for family in ("clouds", "night"))
        mask = one.masks_full[0, 0]
        np.testing.assert_array_equal(mask, other.masks_full[0, 0])
        same = (np.abs(one.frames[0].astype(int) - other.frames[0]) <= 8).all(axis=2)
        # Edge pixels are a mix of object and ground, and a shadow lies on the ground.
        inner = mask.copy()
        for shift in np.argwhere(np.ones((3, 3))) - 1:
            inner &= np.roll(mask, shift, axis=(0, 1))
        # Not all of it: where two parts only just meet, a thread of the ground shows through.
        assert same[inner].mean() > 0.9
        assert same[~mask].mean() < 0.05


def test_a_fixed_label_or_ground_changes_nothing_else() -> None:
    plain = World(SMALL).clip(11)
    fixed = World(SMALL).clip(11, background=plain.background_name)
    np.testing.assert_array_equal(plain.frames, fixed.frames)
    for label in (0, 6):
        clip = World(SMALL).clip(11, label=label)
        assert clip.label == label == clip.labels[0]
        assert clip.background == plain.background
        assert clip.labels[1:].tolist() == plain.labels[1:].tolist()


def test_background_correlation_is_the_probability_asked_for() -> None:
    for wanted, expected in ((0.0, 1 / 8), (0.5, 0.5 + 0.5 / 8), (1.0, 1.0), (-1.0, 0.0)):
        world = World(WorldOptions(size=32, frames=1, distractors=0, occluders=0, background_correlation=wanted))
        clips = [world.clip(seed) for seed in range(150)]
        at_home = np.mean([clip.background_name == KINDS[clip.label].home for clip in clips])
        assert abs(at_home - expected) < 0.12


def test_the_same_seed_is_the_same_clip_over_another_ground_and_the_same_object_at_another_size() -> None:
    def anchor(**changes: object) -> Clip:
        world = WorldOptions(size=48, frames=1, distractors=0, occluders=0, **changes)  # type: ignore[arg-type]
        return balanced_clip(SyntheticOptions(world=world, seed=5), 3)

    at_home, away = (anchor(background_correlation=near) for near in (1.0, -1.0))
    assert at_home.background_name == KINDS[at_home.label].home != away.background_name
    np.testing.assert_array_equal(at_home.masks_full, away.masks_full)
    small, large = (anchor(object_scale=scale) for scale in ((0.2, 0.3), (0.6, 0.8)))
    assert (small.label, small.background) == (large.label, large.background)
    assert large.masks_full.sum() > 3 * small.masks_full.sum()


def test_occluders_cover_something_now_and_then_and_spare_most_anchors() -> None:
    world = World(WorldOptions(size=48, frames=21, occluders=1, noise=0.0))
    clips = [world.clip(seed) for seed in range(24)]
    worst = np.array([clip.occlusion[:, 0].max() for clip in clips])
    anchors = np.array([clip.occlusion[clip.anchor, 0] for clip in clips])
    assert (worst > 0.3).sum() >= 4
    assert (anchors < 0.4).mean() > 0.85
    none = World(WorldOptions(size=48, frames=3, occluders=0)).clip(0)
    assert none.occlusion.max() == 0


def test_blur_softens_what_moves() -> None:
    options = replace(SMALL, motion=3.0, noise=0.0, frames=21)
    sharp, blurred = (World(replace(options, blur=blur)).clip(4).frames.astype(int) for blur in (0.0, 1.0))
    edges = [np.abs(np.diff(frames.mean(axis=3), axis=2)).mean() for frames in (sharp, blurred)]
    assert edges[1] < 0.97 * edges[0]


@given(seed=st.integers(0, 2**31), amount=st.floats(0, 3))
@settings(max_examples=40, deadline=None)
def test_every_path_is_at_its_place_at_the_anchor(seed: int, amount: float) -> None:
    motion = random_motion(np.random.default_rng(seed), 128, amount)
    np.testing.assert_allclose(motion.offset(0.0), 0, atol=1e-12)
    if amount == 0:
        np.testing.assert_allclose(motion.offset(7.0), 0, atol=1e-12)


@pytest.mark.parametrize(
    "bad",
    [{"size": 8}, {"frames": 4}, {"objects_min": 0}, {"objects_min": 2}, {"object_scale": (0.5, 0.2)}, {"blur": 2.0},
     {"background_correlation": 1.1}, {"background_correlation": -1.1}, {"noise": -1.0}, {"motion": float("nan")}],
)  # fmt: skip
def test_options_out_of_range_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(InvalidValue, match=r"^(--[a-z-]+|WorldOptions\.[a-z_]+): expected "):
        WorldOptions(**bad)  # type: ignore[arg-type]


def test_an_unknown_ground_is_named_with_near_ones() -> None:
    with pytest.raises(UnknownName, match="did you mean meadow"):
        World(SMALL).clip(0, background="medow")
    with pytest.raises(InvalidValue, match="label"):
        World(SMALL).clip(0, label=12)


def nearest_mean_accuracy(correlation: float) -> float:
    """How well the plainest statistics of a frame give the class away: mean colour and edge strength, nearest mean."""
    world = World(WorldOptions(size=48, frames=1, background_correlation=correlation))

    def features(place: int) -> np.ndarray:
        pixels = world.clip(place, label=place % len(KINDS)).frames[0].astype(float)
        edges = [np.abs(np.diff(pixels.mean(axis=2), axis=axis)).mean() * 4 for axis in (0, 1)]
        return np.array([*pixels.mean(axis=(0, 1)), *edges])

    train, test = np.stack([features(p) for p in range(180)]), np.stack([features(p) for p in range(1200, 1320)])
    means = np.stack([train[place :: len(KINDS)].mean(axis=0) for place in range(len(KINDS))])
    guess = np.linalg.norm(test[:, None] - means, axis=2).argmin(axis=1)
    return float((guess == np.arange(120) % len(KINDS)).mean())


def test_plain_statistics_do_not_give_the_class_away_unless_the_ground_is_made_to() -> None:
    alone, correlated = nearest_mean_accuracy(0.0), nearest_mean_accuracy(1.0)
    assert alone < 0.25  # chance is 0.083: there is a shape to be learned
    assert correlated > alone + 0.15
