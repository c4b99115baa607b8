"""The motion of a hand-held camera: smooth seeded paths, and the corresponding homographies."""

from dataclasses import dataclass

import numpy as np

from strobe.build.options import CameraOptions
from strobe.core.arrays import Floats

_DRIFT_HZ = (0.3, 1.2)
"""Cycles per second of a hand that follows something."""
_SHAKE_HZ = (5.0, 11.0)
"""Cycles per second of a trembling hand. Physiological tremor is at 5 to 12."""
_FOCAL = 1.2
"""Focal length divided by the longer side of the image, as in a phone's main camera."""


@dataclass(frozen=True, slots=True)
class Pose:
    """The camera at one moment, relative to the anchor. The zero pose looks straight at the photo.

    `x` and `y` are shares of the shorter side, `zoom` is a natural logarithm, angles are in radians, and `exposure` is
    in stops.
    """

    x: float = 0.0
    y: float = 0.0
    zoom: float = 0.0
    roll: float = 0.0
    pitch: float = 0.0
    yaw: float = 0.0
    exposure: float = 0.0

    def to_photo(self, size_wh: tuple[int, int]) -> Floats:
        """Return the 3×3 map from frame pixels to pixels of the anchor's view, both with the corner at (0, 0).

        >>> Pose(x=0.5).to_photo((4, 4)).tolist()
        [[1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        """
        width, height = size_wh
        centre = np.array([[1, 0, width / 2], [0, 1, height / 2], [0, 0, 1.0]])
        back = np.array([[1, 0, -width / 2], [0, 1, -height / 2], [0, 0, 1.0]])
        short = min(width, height)
        scale, cos, sin = np.exp(-self.zoom), np.cos(self.roll), np.sin(self.roll)
        plane = np.array(
            [[scale * cos, -scale * sin, self.x * short], [scale * sin, scale * cos, self.y * short], [0, 0, 1]]
        )
        tilted = np.eye(3)
        if self.pitch or self.yaw:
            # Rotating a camera about its centre maps image to image by K·R·K⁻¹, for any scene.
            focal = _FOCAL * max(width, height)
            lens = np.diag([focal, focal, 1.0])
            cp, sp, cy, sy = np.cos(self.pitch), np.sin(self.pitch), np.cos(self.yaw), np.sin(self.yaw)
            turn = np.array([[1, 0, 0], [0, cp, -sp], [0, sp, cp]]) @ np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
            tilted = lens @ turn @ np.diag([1 / focal, 1 / focal, 1.0])
            # The rotation also moves the view sideways. Only `shift` should do that, so the centre is kept in place.
            moved = tilted @ np.array([0.0, 0.0, 1.0])
            tilted = np.array([[1, 0, -moved[0] / moved[2]], [0, 1, -moved[1] / moved[2]], [0, 0, 1.0]]) @ tilted
        whole = centre @ plane @ tilted @ back
        return np.asarray(whole / whole[2, 2], dtype=np.float64)


class CameraPath:
    """A pose for every moment, with the zero pose at moment 0, which is the anchor.

    Each effect has its own random generator, so that disabling an effect leaves the other effects unchanged.
    """

    def __init__(self, camera: CameraOptions, rng: np.random.Generator) -> None:
        self._camera = camera
        draws = rng.spawn(6)
        strength = camera.strength
        self._shift = self._waves(draws[0], 2, _DRIFT_HZ, strength * camera.shift)
        self._zoom = self._waves(draws[1], 1, _DRIFT_HZ, float(np.log1p(strength * camera.zoom)))
        self._roll = self._waves(draws[2], 1, _DRIFT_HZ, float(np.radians(strength * camera.roll)))
        self._tilt = self._waves(draws[3], 2, _DRIFT_HZ, float(np.radians(strength * camera.tilt)))
        self._shake = self._waves(draws[4], 3, _SHAKE_HZ, strength * camera.shake)
        self._exposure = self._waves(draws[5], 1, _DRIFT_HZ, strength * camera.exposure)

    def _waves(
        self, rng: np.random.Generator, axes: int, hertz: tuple[float, float], amplitude: float
    ) -> tuple[Floats, Floats, Floats]:
        """Return three sine waves per axis, scaled so that their maximum within ±k is at least half the amplitude."""
        speed = 2 * np.pi * rng.uniform(*hertz, size=(axes, 3))
        phase = rng.uniform(0, 2 * np.pi, size=(axes, 3))
        height = rng.uniform(0.4, 1.0, size=(axes, 3))
        reach = amplitude * rng.uniform(0.5, 1.0)
        frames = np.arange(-self._camera.k, self._camera.k + 1) / self._camera.fps
        farthest = np.linalg.norm(_sum_of_sines(frames, speed, phase, height), axis=0).max()
        return speed, phase, height * (reach / farthest if farthest > 1e-12 else 0.0)

    def pose(self, time_s: float) -> Pose:
        """Return the camera's pose `time_s` seconds after the anchor."""
        moment = np.array([time_s])
        shift, zoom, roll, tilt, shake, exposure = (
            _sum_of_sines(moment, *waves)[:, 0]
            for waves in (self._shift, self._zoom, self._roll, self._tilt, self._shake, self._exposure)
        )
        return Pose(
            x=float(shift[0] + shake[0]),
            y=float(shift[1] + shake[1]),
            zoom=float(zoom[0]),
            # Tremor also turns the wrist. The angle in radians is half the shift (as a share of the side).
            roll=float(roll[0] + shake[2] / 2),
            pitch=float(tilt[0]),
            yaw=float(tilt[1]),
            exposure=float(exposure[0]),
        )


def _sum_of_sines(time_s: Floats, speed: Floats, phase: Floats, height: Floats) -> Floats:
    """Return the sum of the waves, (axes, T), which is 0 at moment 0."""
    angle = speed[:, :, None] * time_s + phase[:, :, None]
    return np.asarray((height[:, :, None] * (np.sin(angle) - np.sin(phase)[:, :, None])).sum(axis=1), dtype=np.float64)
