"""The options of builds from videos and of the simulated camera. Each field is an option of a command as well."""

from dataclasses import dataclass
from typing import Literal

from strobe.core.errors import InvalidValue, expect
from strobe.core.options import check_options, documented, option

Store = Literal["zstd", "png", "webp", "jpeg"]
"""Storage formats. All except jpeg are lossless. A jpeg (quality 95) has a third of the size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorOptions:
    """How anchors are chosen, and how far their sets extend."""

    k: int = option(10, "Frames before and after the anchor.", least=0, most=100_000)
    window_ms: float | None = option(
        None,
        "Milliseconds before and after the anchor, instead of --k.",
        flag="--window",
        least=0,
        most=1e9,
        rule=">= 0 ms",
    )
    anchors_per_video: int = option(1, "Random anchors per video. Their sets share no frame.", least=1)
    every: int | None = option(None, "Place an anchor every N frames, instead of at random.", least=1)
    seed: int = 0

    def __post_init__(self) -> None:
        check_options(self)
        expect(self.seed >= 0, "<<seed>>", ">= 0", self.seed)
        if self.every is not None and self.anchors_per_video > 1:
            raise InvalidValue("<<every>> and <<anchors_per_video>> exclude each other; give one of them")


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class DropRules:
    """The thresholds at which hints drop a member; None means that the hint is ignored."""

    cut: float | None = None
    blur: float | None = option(
        None, "Drop members this much blurrier or sharper (log2 of sharpness).", flag="--drop-blur"
    )
    motion: float | None = option(
        None, "Drop members that moved this far (per cent of the diagonal).", flag="--drop-motion"
    )
    exposure: float | None = option(None, "Drop members this much darker or brighter (0 to 1).", flag="--drop-exposure")
    duplicate: bool = option(False, "Drop members with nearly the same pixels as the anchor.", flag="--drop-duplicates")

    def __post_init__(self) -> None:
        for name in ("cut", "blur", "motion", "exposure"):
            value = getattr(self, name)
            expect(value is None or value > 0, f"<<drop_{name}>>", "a number above 0", value)

    @property
    def any(self) -> bool:
        """Whether any rule is set."""
        return self != DropRules()


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Resource limits for a video. A video beyond a limit is refused with a message that names the limit."""

    max_side: int = option(16_384, "Largest side of a frame, in pixels.")
    max_pixels: int = option(7680 * 4320, "Largest number of pixels in a frame.")
    max_frames: int = option(1_000_000, "Largest number of frames in a video.")
    max_duration_s: float = option(86_400.0, "Longest duration of a video, in seconds.", flag="--max-duration")

    def __post_init__(self) -> None:
        for name in ("max_side", "max_pixels", "max_frames", "max_duration_s"):
            expect(getattr(self, name) > 0, f"Limits.{name}", "> 0", getattr(self, name))


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class CameraOptions:
    """The options of the camera's motion and sensor. An amplitude of 0 disables its effect.

    Amplitudes are the maximum deviation from the anchor within ±k frames. Each path reaches between half the amplitude
    and the full amplitude. Anything beyond the photo is mirrored.

    >>> CameraOptions(k=3, shift=0.0).shift
    0.0
    """

    k: int = option(10, "Frames before and after the anchor.", least=0, most=1000)
    fps: int = option(30, "Frames per second.", least=1, most=1000)
    size: int = option(256, "Shorter side of a frame in pixels.", least=16, most=4096, rule="16 to 4096 pixels")
    margin: float = option(
        0.08, "Share of each side of the photo that is reserved for the camera's motion.", least=0, most=0.4
    )
    shift: float = option(0.03, "Largest shift, as a share of the shorter side.", least=0, most=0.5)
    zoom: float = option(0.05, "Largest zoom, as a share of the scale.", least=0, most=1)
    roll: float = option(1.5, "Largest rotation in the image plane, degrees.", least=0, most=90)
    tilt: float = option(2.0, "Largest tilt out of the image plane, degrees.", least=0, most=30)
    shake: float = option(0.004, "Tremor, as a share of the shorter side.", least=0, most=0.1)
    blur: float = option(0.5, "Share of the frame time that the shutter is open.", least=0, most=1)
    exposure: float = option(0.25, "Largest exposure drift, stops.", least=0, most=4)
    noise: float = option(1.5, "Sensor noise at mid-grey, 8-bit levels.", least=0, most=64)
    strength: float = option(1.0, "Factor that scales every effect.", least=0, most=10)
    clean_anchor: bool = option(False, "Add no blur and no noise to the anchor.")
    supersample: int = 2
    h264_crf: int | None = option(
        None, "Encode the clip with H.264 at this CRF (0–51) and decode it.", flag="--h264", least=0, most=51
    )
    gop: int = option(12, "With --h264: a key frame every N frames.", least=1, most=250)

    def __post_init__(self) -> None:
        check_options(self)
        expect(self.tilt * self.strength <= 30, "<<tilt>> × <<strength>>", "at most 30 degrees", self.tilt)
        expect(self.supersample in (1, 2, 3), "CameraOptions.supersample", "1, 2 or 3", self.supersample)
