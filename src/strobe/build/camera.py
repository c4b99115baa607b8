"""A simulated hand-held camera that films a still image: the frames it records, and the motion of boxes and masks."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from strobe.build.camera_path import CameraPath, Pose
from strobe.build.options import CameraOptions
from strobe.core.arrays import Floats
from strobe.core.errors import expect
from strobe.core.ports import Image
from strobe.core.records import Box, PictType

_MOST_SUBFRAMES = 24
_LEAST_BOX_PX = 1.0
"""A box with less than a pixel left in view is dropped."""


def _srgb_tables() -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
    levels = np.arange(256) / 255
    linear = np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)
    # With 65,536 steps, a step is a twentieth of an 8-bit level even near black, where sRGB is steepest.
    light = np.arange(65536) / 65535
    srgb = np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055)
    return linear.astype(np.float32), np.rint(srgb * 255).astype(np.uint8)


_LINEAR, _SRGB = _srgb_tables()


def to_linear(pixels: Image) -> NDArray[np.float32]:
    """Convert 8-bit sRGB to linear light in [0, 1], because light is additive and sRGB values are not.

    >>> import numpy as np
    >>> to_linear(np.array([0, 255], np.uint8)).tolist()
    [0.0, 1.0]
    """
    return np.asarray(_LINEAR[pixels])


def to_srgb(light: NDArray[np.float32]) -> Image:
    """Convert linear light to 8-bit sRGB, clipped."""
    return np.asarray(_SRGB[np.rint(np.clip(light, 0, 1) * 65535).astype(np.uint16)])


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPath:
    """The rendered clip: 2k + 1 frames, with the anchor in the middle.

    `frames` is (T, H, W, 3). `boxes` has the boxes of each frame, clipped to the frame. `masks` (T, H, W) holds the
    objects' numbers, or is None. `pict_types` are empty texts if no encoder was used. `poses` are the poses at the
    middle of each exposure. `mirrored` is the largest share of a frame that is outside the photo and therefore filled
    with its mirror image.
    """

    frames: NDArray[np.uint8]
    boxes: tuple[tuple[Box, ...], ...]
    masks: NDArray[np.uint8] | None
    pict_types: tuple[PictType, ...]
    poses: tuple[Pose, ...]
    mirrored: float


@dataclass(frozen=True, slots=True)
class _View:
    """How a photo is placed under the camera: the frame's size, and the border around the anchor's view, in pixels."""

    size_wh: tuple[int, int]
    border_xy: tuple[int, int]

    @property
    def photo_wh(self) -> tuple[int, int]:
        return self.size_wh[0] + 2 * self.border_xy[0], self.size_wh[1] + 2 * self.border_xy[1]


def _view_of(photo_wh: tuple[int, int], camera: CameraOptions) -> _View:
    width, height = photo_wh
    # Above this limit, the frames of a very narrow photo would not fit into memory.
    expect(max(photo_wh) <= 16 * min(photo_wh), "photo", "at most 16 times as long as wide", photo_wh)
    inner = camera.size / min(width, height)
    # Even side lengths, because H.264 stores colour at half the resolution.
    size = (max(2, 2 * round(width * inner / 2)), max(2, 2 * round(height * inner / 2)))
    grow = camera.margin / (1 - 2 * camera.margin)
    return _View(size, (round(size[0] * grow), round(size[1] * grow)))


def still(photo: Image, camera: CameraOptions) -> Image:
    """Return the anchor's view as a resting camera with a perfect sensor sees it.

    Without effects, every frame equals this view. With `supersample=1` this is Pillow's Lanczos resize of the photo,
    cropped to the view. With `supersample=2`, the photo is resized to twice the size and halved in linear light, so
    that moving frames are as sharp as resting frames.
    """
    view = _view_of((photo.shape[1], photo.shape[0]), camera)
    base = _resized(photo, view, camera.supersample)
    (left, top), (width, height), ss = view.border_xy, view.size_wh, camera.supersample
    inner = base[top * ss : (top + height) * ss, left * ss : (left + width) * ss]
    return inner.copy() if ss == 1 else to_srgb(_reduced(to_linear(inner), ss))


def _resized(photo: Image, view: _View, supersample: int) -> Image:
    width, height = view.photo_wh
    image = PillowImage.fromarray(photo).resize(
        (width * supersample, height * supersample), PillowImage.Resampling.LANCZOS
    )
    return np.asarray(image)


def _reduced(light: NDArray[np.float32], factor: int) -> NDArray[np.float32]:
    if factor == 1:
        return light
    height, width, channels = light.shape
    blocks = light.reshape(height // factor, factor, width // factor, factor, channels)
    return np.asarray(blocks.mean(axis=(1, 3), dtype=np.float32))


def _corners(matrix: Floats, size_wh: tuple[float, float], origin: tuple[float, float] = (0.0, 0.0)) -> Floats:
    """Return the mapped positions of a rectangle's four corners, (4, 2)."""
    (x, y), (width, height) = origin, size_wh
    points = np.array([[x, y, 1], [x + width, y, 1], [x, y + height, 1], [x + width, y + height, 1]])
    mapped = points @ matrix.T
    return np.asarray(mapped[:, :2] / mapped[:, 2:], dtype=np.float64)


def render_path(
    photo: Image,
    camera: CameraOptions,
    rng: np.random.Generator,
    *,
    boxes: Sequence[Box] = (),
    mask: NDArray[np.uint8] | None = None,
) -> RenderedPath:
    """Render the clip that a hand-held camera would take of a photo.

    It has 2k + 1 frames, with the zero pose in the middle.

    `boxes` are in pixels of the photo. Each box becomes the upright bounding box of its four mapped corners at the
    middle of the exposure, clipped to the frame. `mask` (H, W) numbers the photo's objects from 1 and is sampled at the
    nearest pixel. The same arguments and the same state of `rng` give the same bytes.

    >>> import numpy as np
    >>> photo = np.zeros((40, 60, 3), np.uint8)
    >>> render_path(photo, CameraOptions(k=2, size=32), np.random.default_rng(0)).frames.shape
    (5, 32, 48, 3)
    """
    expect(photo.ndim == 3 and photo.shape[2] == 3 and photo.dtype == np.uint8, "photo", "uint8 (H, W, 3)", photo.shape)
    expect(min(photo.shape[:2]) >= 2, "photo", "at least 2×2 pixels", photo.shape)
    expect(mask is None or mask.shape == photo.shape[:2], "mask", "the photo's size", None)
    motion_rng, noise_rng, codec_rng = rng.spawn(3)
    path = CameraPath(camera, motion_rng)
    view = _view_of((photo.shape[1], photo.shape[0]), camera)
    # An encoder always starts with a key frame. Frames that are discarded at the start allow a key frame at any
    # position.
    lead_in = int(codec_rng.integers(camera.gop)) if camera.h264_crf is not None else 0
    offsets = range(-camera.k - lead_in, camera.k + 1)
    exposures = [_exposure_times(path, camera, offset, view) for offset in offsets]
    poses = [[path.pose(moment) for moment in moments] for moments in exposures]
    middles = [path.pose(offset / camera.fps) for offset in offsets]
    sensor = _Sensor(photo, view, camera, [pose for group in poses for pose in group])
    frames = np.stack(
        [
            sensor.expose(group, middle, None if camera.clean_anchor and offset == 0 else noise_rng)
            for offset, group, middle in zip(offsets, poses, middles, strict=True)
        ]
    )
    types: tuple[PictType, ...] = tuple("" for _ in frames)
    if camera.h264_crf is not None:
        from strobe.build.camera_codec import h264_round_trip

        frames, types = h264_round_trip(frames, fps=camera.fps, crf=camera.h264_crf, gop=camera.gop)
    middles = middles[lead_in:]
    return RenderedPath(
        frames=frames[lead_in:],
        boxes=tuple(tuple(_boxes_seen(boxes, pose, photo, view)) for pose in middles),
        masks=None if mask is None else np.stack([_mask_seen(mask, pose, view) for pose in middles]),
        pict_types=types[lead_in:],
        poses=tuple(middles),
        mirrored=max(_mirrored_share(pose, view) for pose in middles),
    )


def _exposure_times(path: CameraPath, camera: CameraOptions, offset: int, view: _View) -> list[float]:
    """Return the moments to average for one frame. No corner moves more than a pixel between adjacent moments."""
    middle, open_s = offset / camera.fps, camera.blur / camera.fps
    if open_s == 0 or (camera.clean_anchor and offset == 0):
        return [middle]
    ends = [_corners(path.pose(middle + side * open_s / 2).to_photo(view.size_wh), view.size_wh) for side in (-1, 0, 1)]
    travel = sum(np.linalg.norm(b - a, axis=1).max() for a, b in pairwise(ends))
    count = int(np.clip(np.ceil(travel), 1, _MOST_SUBFRAMES))
    return [middle + open_s * ((place + 0.5) / count - 0.5) for place in range(count)]


class _Sensor:
    """The photo, ready to be rendered from any of the given poses."""

    def __init__(self, photo: Image, view: _View, camera: CameraOptions, poses: Sequence[Pose]) -> None:
        self._view, self._camera = view, camera
        corners = np.concatenate([_corners(pose.to_photo(view.size_wh), view.size_wh) for pose in poses])
        beyond = np.array([*-corners.min(axis=0), *(corners.max(axis=0) - view.size_wh)]) - [*view.border_xy] * 2
        # Add two pixels beyond the farthest corner for the radius of the interpolation.
        left, top, right, bottom = (int(max(0, np.ceil(side)) + 2) for side in beyond)
        ss = camera.supersample
        pad = ((top * ss, bottom * ss), (left * ss, right * ss), (0, 0))
        self._base = PillowImage.fromarray(np.pad(_resized(photo, view, ss), pad, mode="symmetric"))
        self._origin = (view.border_xy[0] + left, view.border_xy[1] + top)

    def expose(self, poses: Sequence[Pose], middle: Pose, noise_rng: np.random.Generator | None) -> Image:
        """Render one frame: light from every pose is summed, then the sensor's gain and noise are applied."""
        ss = self._camera.supersample
        looks = [self._look(pose) for pose in poses]
        if len(looks) == 1 and ss == 1 and not middle.exposure and (noise_rng is None or not self._camera.noise):
            return looks[0]
        light = to_linear(looks[0])
        for look in looks[1:]:
            light += to_linear(look)
        light = _reduced(light, ss) * np.float32(2.0**middle.exposure / len(looks))
        if noise_rng is not None and self._camera.noise and self._camera.strength:
            light += self._noise(light, noise_rng)
        return to_srgb(light)

    def _look(self, pose: Pose) -> Image:
        ss, (width, height) = self._camera.supersample, self._view.size_wh
        scale = np.diag([ss, ss, 1.0])
        move = np.array([[1, 0, self._origin[0]], [0, 1, self._origin[1]], [0, 0, 1.0]])
        matrix = scale @ move @ pose.to_photo(self._view.size_wh) @ np.diag([1 / ss, 1 / ss, 1.0])
        matrix /= matrix[2, 2]
        image = self._base.transform(
            (width * ss, height * ss),
            PillowImage.Transform.PERSPECTIVE,
            tuple(matrix.ravel()[:8]),
            PillowImage.Resampling.BICUBIC,
        )
        return np.asarray(image)

    def _noise(self, light: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
        """Return shot noise, whose variance grows with light, plus a little read noise everywhere."""
        grey = float(_LINEAR[118])
        # The option is in 8-bit levels. It is converted to light by the slope of sRGB at mid-grey.
        at_grey = self._camera.noise * self._camera.strength * float(_LINEAR[119] - _LINEAR[117]) / 2
        variance = at_grey**2 * (0.9 * np.clip(light, 0, 1) / grey + 0.1)
        return np.asarray(np.sqrt(variance) * rng.standard_normal(light.shape, dtype=np.float32), dtype=np.float32)


def _photo_to_frame(pose: Pose, photo_wh: tuple[int, int], view: _View) -> Floats:
    """Return the map from pixels of the original photo to pixels of the frame."""
    across, down = view.photo_wh[0] / photo_wh[0], view.photo_wh[1] / photo_wh[1]
    onto_view = np.array([[across, 0, -view.border_xy[0]], [0, down, -view.border_xy[1]], [0, 0, 1.0]])
    return np.asarray(np.linalg.inv(pose.to_photo(view.size_wh)) @ onto_view, dtype=np.float64)


def _boxes_seen(boxes: Sequence[Box], pose: Pose, photo: Image, view: _View) -> list[Box]:
    matrix = _photo_to_frame(pose, (photo.shape[1], photo.shape[0]), view)
    seen = []
    for box in boxes:
        x0, y0, x1, y1 = box.xyxy
        corners = _corners(matrix, (x1 - x0, y1 - y0), (x0, y0))
        low = np.clip(corners.min(axis=0), 0, view.size_wh)
        high = np.clip(corners.max(axis=0), 0, view.size_wh)
        if (high - low).min() >= _LEAST_BOX_PX:
            xyxy = (float(low[0]), float(low[1]), float(high[0]), float(high[1]))
            seen.append(Box(xyxy=xyxy, label=box.label, track=box.track, crowd=box.crowd))
    return seen


def _mask_seen(mask: NDArray[np.uint8], pose: Pose, view: _View) -> NDArray[np.uint8]:
    # Pillow fills 0 outside the mask, which is right, because mirrored content is not an object.
    matrix = np.linalg.inv(_photo_to_frame(pose, (mask.shape[1], mask.shape[0]), view))
    matrix /= matrix[2, 2]
    image = PillowImage.fromarray(mask).transform(
        view.size_wh, PillowImage.Transform.PERSPECTIVE, tuple(matrix.ravel()[:8]), PillowImage.Resampling.NEAREST
    )
    return np.asarray(image)


def _mirrored_share(pose: Pose, view: _View) -> float:
    """Return the share of a frame beyond the photo, counted on a grid of 33 × 33 points."""
    grid = np.stack(np.meshgrid(np.linspace(0, view.size_wh[0], 33), np.linspace(0, view.size_wh[1], 33)), axis=-1)
    points = np.concatenate([grid.reshape(-1, 2), np.ones((33 * 33, 1))], axis=1) @ pose.to_photo(view.size_wh).T
    points = points[:, :2] / points[:, 2:] + view.border_xy
    # The small tolerance is needed because, without a margin, the zero pose touches the edge exactly.
    outside = (points < -1e-9) | (points > np.array(view.photo_wh) + 1e-9)
    return float(outside.any(axis=1).mean())
