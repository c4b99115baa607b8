"""Corruptions by name and severity, with the published severities of ImageNet-C (Hendrycks and Dietterich, 2019).

The published severities apply to images of 224 pixels. Lengths, noise and JPEG quality scale with an image's short
side, so that a severity looks the same to a model at any image size.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strobe.core.errors import InvalidValue, UnknownName, expect
from strobe.core.ports import Image
from strobe.vary import blur, digital, noise, weather
from strobe.vary.fields import Pixels, to_bytes

SEVERITIES = (1, 2, 3, 4, 5)


@dataclass(frozen=True, slots=True)
class Corruption:
    """A corruption and its five settings from mild to severe.

    `version` increases when the same recipe would give different pixels. `has_pane` marks a corruption that uses a
    photograph, given as its last setting.
    """

    what: str
    draw: Callable[[Pixels, Any, np.random.Generator], Pixels]
    settings: tuple[Any, Any, Any, Any, Any]
    version: int = 1
    has_pane: bool = False


_SNOW = (
    (0.1, 0.3, 3, 0.5, 10, 4, 0.8), (0.2, 0.3, 2, 0.5, 12, 4, 0.7), (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
    (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65), (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
)  # fmt: skip

_GLASS = ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2))
_FOG = ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4))
_FROST = ((1, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75))

CORRUPTIONS: Mapping[str, Corruption] = {
    "gaussian_noise": Corruption("Gaussian noise", noise.gaussian_noise, (0.08, 0.12, 0.18, 0.26, 0.38)),
    "shot_noise": Corruption("few photons", noise.shot_noise, (60, 25, 12, 5, 3)),
    "impulse_noise": Corruption("random black and white values", noise.impulse_noise, (0.03, 0.06, 0.09, 0.17, 0.27)),
    "defocus_blur": Corruption("out of focus", blur.defocus_blur, (3, 4, 6, 8, 10)),
    "glass_blur": Corruption("a view through frosted glass", blur.glass_blur, _GLASS, version=2),
    "motion_blur": Corruption("a moving camera", blur.motion_blur, ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15))),
    "zoom_blur": Corruption(
        "a zooming camera", blur.zoom_blur, ((1.1, 0.01), (1.15, 0.01), (1.2, 0.02), (1.25, 0.02), (1.3, 0.03))
    ),
    "snow": Corruption("falling snow", weather.snow, _SNOW),
    "frost": Corruption("photographs of ice on a pane", weather.frost, _FROST, version=2, has_pane=True),
    "fog": Corruption("fog of varying thickness", weather.fog, _FOG, version=2),
    "brightness": Corruption("a brighter image", weather.brightness, (0.1, 0.2, 0.3, 0.4, 0.5)),
    "contrast": Corruption("less contrast", digital.contrast, (0.4, 0.3, 0.2, 0.1, 0.05)),
    "elastic_transform": Corruption("a wavy distortion", digital.elastic, (14.0, 18.2, 23.8, 28.0, 33.6)),
    "pixelate": Corruption("blocks", digital.pixelate, (0.6, 0.5, 0.4, 0.3, 0.25)),
    "jpeg_compression": Corruption("a JPEG file of low quality", digital.jpeg, (25, 18, 15, 10, 7)),
    "gaussian_blur": Corruption("Gaussian blur", blur.gaussian_blur, (1, 2, 3, 4, 6)),
    "saturate": Corruption(
        "lower, then higher saturation", digital.saturate, ((0.3, 0), (0.1, 0), (2, 0), (5, 0.1), (20, 0.2))
    ),
    "glass_scatter": Corruption("a view through thicker glass; harder than glass_blur", blur.glass_scatter, _GLASS),
    "frost_feathers": Corruption("rendered ice, without a download; harder than frost", weather.frost_feathers, _FROST),
    "fog_bank": Corruption("fog of a smooth spectrum; harder than fog", weather.fog_bank, _FOG),
}
"""Corruptions by name: ImageNet-C's fifteen in its order, two more from the benchmark, and three of strobe's own."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "imagenet-c": tuple(CORRUPTIONS)[:15],
    "papers": ("gaussian_noise", "gaussian_blur", "shot_noise", "contrast", "impulse_noise", "jpeg_compression"),
    "all": tuple(CORRUPTIONS),
}
"""Groups of corruptions: ImageNet-C's fifteen, the six used for training in the papers on video robustness, and all."""


def chosen(names: Sequence[str]) -> list[str]:
    """Return the corruptions of these names and groups, each once, in table order.

    Raise UnknownName for any other name.

    >>> chosen(["fog", "papers"])[:2], len(chosen(["imagenet-c"]))
    (['gaussian_noise', 'shot_noise'], 15)
    """
    names_found: set[str] = set()
    for name in names:
        plain = name.strip().replace("-", "_")
        if name.strip() not in GROUPS and plain not in CORRUPTIONS:
            raise UnknownName("corruption", name, [*GROUPS, *CORRUPTIONS], hint="see strobe vary corruption --list")
        names_found |= set(GROUPS.get(name.strip(), (plain,)))
    return [name for name in CORRUPTIONS if name in names_found]


def corrupt(image: Image, kind: str, severity: int, rng: np.random.Generator, *, pane: Image | None = None) -> Image:
    """Return the image with one corruption. The generator determines the result. Pixels are 8-bit RGB.

    `pane` is the ice photograph for `frost`.

    >>> grey = np.full((64, 64, 3), 128, np.uint8)
    >>> int(corrupt(grey, "brightness", 3, np.random.default_rng(0))[0, 0, 0])
    205
    """
    if kind not in CORRUPTIONS:
        raise UnknownName("corruption", kind, CORRUPTIONS)
    expect(severity in SEVERITIES, "severity", "1–5", severity)
    expect(image.ndim == 3 and image.shape[2] == 3 and image.size > 0, "image", "(height, width, 3)", image.shape)
    how = CORRUPTIONS[kind]
    setting = how.settings[severity - 1]
    if how.has_pane:
        if pane is None:
            raise InvalidValue(f"{kind}: expected pane=, a photograph of ice; frost_feathers needs none")
        setting = (*setting, _floats(pane))
    return to_bytes(how.draw(_floats(image), setting, rng))


def _floats(image: Image) -> Pixels:
    return image.astype(np.float32) / np.float32(255)
