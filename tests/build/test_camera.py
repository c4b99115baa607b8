import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as PillowImage

from strobe.build.camera import render_path, still, to_linear, to_srgb
from strobe.build.camera_codec import h264_round_trip
from strobe.build.camera_path import CameraPath, Pose
from strobe.build.options import CameraOptions
from strobe.core.errors import InvalidValue
from strobe.core.records import Box

OFF = {
    "shift": 0.0, "zoom": 0.0, "roll": 0.0, "tilt": 0.0, "shake": 0.0, "blur": 0.0, "exposure": 0.0, "noise": 0.0,
}  # fmt: skip


def a_photo(width: int = 90, height: int = 60, seed: int = 0) -> np.ndarray:
    """Smooth, colourful, with a sharp square: something whose place can be seen."""
    rng = np.random.default_rng(seed)
    small = PillowImage.fromarray(rng.integers(40, 215, (6, 9, 3), dtype=np.uint8))
    photo = np.array(small.resize((width, height), PillowImage.Resampling.BICUBIC))
    photo[height // 3 : 2 * height // 3, width // 3 : 2 * width // 3] = (250, 30, 30)
    return photo


def red_centre(frame: np.ndarray) -> np.ndarray:
    red = (frame[..., 0] > 200) & (frame[..., 1] < 90) & (frame[..., 2] < 90)
    rows, columns = np.nonzero(red)
    return np.array([columns.mean() + 0.5, rows.mean() + 0.5])


@pytest.mark.parametrize("supersample", [1, 2, 3])
def test_with_every_effect_off_every_frame_is_the_still(supersample: int) -> None:
    camera = CameraOptions(k=2, size=40, supersample=supersample, **OFF)
    seen = render_path(a_photo(), camera, np.random.default_rng(3))
    for frame in seen.frames:
        np.testing.assert_array_equal(frame, still(a_photo(), camera))
    assert seen.mirrored == 0


def test_the_still_without_margin_is_pillows_resize() -> None:
    camera = CameraOptions(size=40, margin=0.0, supersample=1, **OFF)
    plain = PillowImage.fromarray(a_photo()).resize((60, 40), PillowImage.Resampling.LANCZOS)
    np.testing.assert_array_equal(still(a_photo(), camera), np.asarray(plain))


def test_the_anchor_of_a_moving_clean_camera_is_the_still_and_the_others_are_not() -> None:
    camera = CameraOptions(k=4, size=40, clean_anchor=True)
    frames = render_path(a_photo(), camera, np.random.default_rng(3)).frames
    np.testing.assert_array_equal(frames[4], still(a_photo(), camera))
    assert all((frames[place] != frames[4]).mean() > 0.2 for place in range(9) if place != 4)


@pytest.mark.parametrize("effect", ["shift", "zoom", "roll", "tilt", "shake", "exposure"])
def test_switching_an_effect_off_leaves_the_others_as_they_were(effect: str) -> None:
    fields = {
        "shift": {"x", "y"}, "zoom": {"zoom"}, "roll": {"roll"}, "tilt": {"pitch", "yaw"},
        "shake": {"x", "y", "roll"}, "exposure": {"exposure"},
    }[effect]  # fmt: skip
    whole = CameraPath(CameraOptions(), np.random.default_rng(5)).pose(0.2)
    without = CameraPath(CameraOptions(**{effect: 0.0}), np.random.default_rng(5)).pose(0.2)
    for name in ("x", "y", "zoom", "roll", "pitch", "yaw", "exposure"):
        changed = getattr(whole, name) != getattr(without, name)
        assert changed == (name in fields), name


@given(seed=st.integers(0, 2**32), k=st.integers(1, 20), strength=st.floats(0.1, 3.0))
@settings(max_examples=40, deadline=None)
def test_paths_stray_between_half_and_all_of_their_amplitude_and_rest_at_the_anchor(
    seed: int, k: int, strength: float
) -> None:
    camera = CameraOptions(k=k, shake=0.0, strength=strength)
    path = CameraPath(camera, np.random.default_rng(seed))
    assert path.pose(0.0) == Pose()
    poses = [path.pose(offset / camera.fps) for offset in range(-k, k + 1)]
    strays = {
        strength * camera.shift: max(np.hypot(pose.x, pose.y) for pose in poses),
        np.log1p(strength * camera.zoom): max(abs(pose.zoom) for pose in poses),
        np.radians(strength * camera.roll): max(abs(pose.roll) for pose in poses),
        np.radians(strength * camera.tilt): max(np.hypot(pose.pitch, pose.yaw) for pose in poses),
        strength * camera.exposure: max(abs(pose.exposure) for pose in poses),
    }
    for amplitude, farthest in strays.items():
        assert 0.5 * amplitude - 1e-9 <= farthest <= amplitude + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_boxes_and_masks_go_where_the_pixels_go(seed: int) -> None:
    photo = a_photo(300, 200)
    mask = np.zeros((200, 300), np.uint8)
    mask[66:133, 100:200] = 1
    # No lens tilt here: under it the middle of a box is not the middle of what is in it.
    camera = CameraOptions(k=3, size=160, tilt=0.0, noise=0.0, exposure=0.0, shift=0.1, zoom=0.2, roll=0.0, margin=0.0)
    box = Box(xyxy=(100.0, 66.0, 200.0, 133.0), label=0, track=4)
    seen = render_path(photo, camera, np.random.default_rng(seed), boxes=[box], mask=mask)
    assert seen.masks is not None
    for frame, boxes, mask_seen in zip(seen.frames, seen.boxes, seen.masks, strict=True):
        (found,) = boxes
        assert found.track == 4
        rows, columns = np.nonzero(mask_seen)
        from_mask = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
        assert np.abs(from_mask - found.xyxy).max() <= 1.0
        middle = np.array([found.xyxy[0] + found.xyxy[2], found.xyxy[1] + found.xyxy[3]]) / 2
        assert np.abs(red_centre(frame) - middle).max() < 1.0


@given(
    x=st.floats(-0.2, 0.2), y=st.floats(-0.2, 0.2), zoom=st.floats(-0.3, 0.3), roll=st.floats(-0.5, 0.5),
    pitch=st.floats(-0.2, 0.2), yaw=st.floats(-0.2, 0.2),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_the_map_keeps_lines_straight_and_its_centre_where_the_shift_puts_it(
    x: float, y: float, zoom: float, roll: float, pitch: float, yaw: float
) -> None:
    pose = Pose(x=x, y=y, zoom=zoom, roll=roll, pitch=pitch, yaw=yaw)
    matrix = pose.to_photo((80, 60))
    centre = matrix @ np.array([40.0, 30.0, 1.0])
    np.testing.assert_allclose(centre[:2] / centre[2], [40 + x * 60, 30 + y * 60], atol=1e-9)
    assert np.linalg.det(matrix) > 0  # never mirrored


def test_a_box_that_leaves_the_frame_is_clipped_and_then_gone() -> None:
    photo = a_photo(120, 120)
    edge = Box(xyxy=(0.0, 0.0, 6.0, 120.0), label=0)
    camera = CameraOptions(k=10, size=120, margin=0.0, **(OFF | {"shift": 0.2}))
    counts = set()
    for seed in range(6):
        seen = render_path(photo, camera, np.random.default_rng(seed), boxes=[edge])
        counts |= {len(boxes) for boxes in seen.boxes}
        for boxes in seen.boxes:
            for box in boxes:
                assert 0 <= box.xyxy[0] < box.xyxy[2] <= 120
    assert counts == {0, 1}


def test_motion_blur_follows_the_shutter() -> None:
    sharp, blurred = (
        render_path(
            a_photo(300, 200),
            CameraOptions(k=5, size=160, **(OFF | {"shift": 0.3, "blur": blur})),
            np.random.default_rng(2),
        ).frames
        for blur in (0.0, 1.0)
    )
    gradient = [np.abs(np.diff(frames[:, :, :, 1].astype(int), axis=2)).max(axis=(1, 2)) for frames in (sharp, blurred)]
    assert (gradient[1] < gradient[0]).mean() > 0.7


def test_exposure_and_noise_have_the_size_asked_for() -> None:
    grey = np.full((64, 64, 3), 118, np.uint8)
    noisy = render_path(grey, CameraOptions(k=1, size=64, **(OFF | {"noise": 4.0})), np.random.default_rng(0)).frames
    assert abs(noisy.astype(float).std() - 4.0) < 0.2
    assert abs(noisy.astype(float).mean() - 118) < 0.2
    drift = render_path(grey, CameraOptions(k=5, size=64, **(OFF | {"exposure": 1.0})), np.random.default_rng(0))
    for frame, pose in zip(drift.frames, drift.poses, strict=True):
        assert abs(float(to_linear(frame).mean()) / float(to_linear(grey).mean()) - 2**pose.exposure) < 0.02


def test_beyond_the_photo_the_edge_is_mirrored_and_counted() -> None:
    camera = CameraOptions(k=2, size=60, margin=0.0, **(OFF | {"shift": 0.3}))
    white = np.full((60, 60, 3), 255, np.uint8)
    seen = render_path(white, camera, np.random.default_rng(0))
    assert (seen.frames == 255).all()
    assert seen.mirrored > 0.1


def test_linear_light_and_back_is_exact() -> None:
    levels = np.arange(256, dtype=np.uint8)
    np.testing.assert_array_equal(to_srgb(to_linear(levels)), levels)


@pytest.mark.parametrize("size_hw", [(64, 96), (62, 94), (2, 2)])
def test_the_encoder_keeps_brightness_and_says_what_each_frame_is(size_hw: tuple[int, int]) -> None:
    photo = np.asarray(PillowImage.fromarray(a_photo()).resize(size_hw[::-1]))
    frames = np.stack([np.roll(photo, place, axis=1) for place in range(9)])
    if size_hw == (2, 2):
        frames[:] = 77
    fine, types = h264_round_trip(frames, fps=30, crf=1, gop=6)
    again, _ = h264_round_trip(frames, fps=30, crf=1, gop=6)
    coarse, _ = h264_round_trip(frames, fps=30, crf=45, gop=6)
    np.testing.assert_array_equal(fine, again)
    error_fine, error_coarse = (np.abs(out.astype(int) - frames).mean() for out in (fine, coarse))
    assert error_fine < 3.5
    assert error_fine <= error_coarse
    assert abs(fine.astype(float).mean() - frames.astype(float).mean()) < 0.5
    assert types[0] == "I"
    assert set(types) <= {"I", "P", "B"}
    assert types.count("I") >= 2


def test_with_an_encoder_key_frames_fall_at_different_offsets() -> None:
    camera = CameraOptions(k=3, size=32, h264_crf=30, gop=4)
    seen = [render_path(a_photo(), camera, np.random.default_rng(seed)) for seed in range(6)]
    assert all(len(one.frames) == 7 == len(one.pict_types) for one in seen)
    assert len({one.pict_types.index("I") for one in seen}) > 1


@pytest.mark.parametrize(
    "bad",
    [{"k": -1}, {"size": 3}, {"shift": -0.1}, {"shift": float("nan")}, {"blur": 1.5}, {"h264_crf": 60}, {"tilt": 50.0},
     {"tilt": 10.0, "strength": 9.0}, {"supersample": 0}, {"gop": 0}, {"margin": 0.5}],
)  # fmt: skip
def test_options_out_of_range_are_named(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidValue, match=next(iter(bad)).removesuffix("_crf")):  # the option is --h264
        CameraOptions(**bad)  # type: ignore[arg-type]


def test_slivers_are_refused_and_narrow_photos_work() -> None:
    narrow = render_path(np.zeros((2, 30, 3), np.uint8), CameraOptions(k=1, size=16), np.random.default_rng(0))
    assert narrow.frames.shape == (3, 16, 240, 3)
    with pytest.raises(InvalidValue, match="16 times"):
        render_path(np.zeros((2, 500, 3), np.uint8), CameraOptions(k=1, size=16), np.random.default_rng(0))
