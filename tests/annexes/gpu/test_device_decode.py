"""--decode device: the plan's pixels but for rounding, and on a CUDA device the same by nvJPEG's engines as without."""

import io
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from strobe.annexes.gpu.jpeg import DeviceDecoder, DeviceResize
from strobe.core.errors import InvalidValue
from strobe.models.plan import ImagePlan

SIZES = [(500, 375), (333, 517), (1280, 720), (224, 300), (90, 70)]


def _picture(width: int, height: int) -> Any:
    rng = np.random.default_rng(width)
    coarse = Pillow.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
    return np.array(coarse.resize((width, height), Pillow.Resampling.BICUBIC))


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_the_plans_pixels_but_for_rounding(width: int, height: int, interpolation: Any) -> None:
    plan = ImagePlan(size_hw=(64, 64), resize=70, interpolation=interpolation, channels="bgr")
    frames = np.stack(
        [_picture(width, height), np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)]
    )
    found = DeviceResize(plan, device="cpu")(torch.from_numpy(frames).permute(0, 3, 1, 2))
    assert found.dtype == torch.uint8
    far = np.abs(found.permute(0, 2, 3, 1).numpy().astype(int) - np.stack([plan.prepare(frame) for frame in frames]))
    assert far.max() <= 1
    assert far.mean() < 0.3


def test_what_it_cannot_do_is_said() -> None:
    with pytest.raises(InvalidValue, match="cannot do lanczos resizing; use --decode cpu"):
        DeviceResize(ImagePlan(size_hw=(32, 32), resize=40, interpolation="lanczos"), device="cpu")
    small = torch.zeros((1, 3, 20, 20), dtype=torch.uint8)
    with pytest.raises(InvalidValue, match="cannot pad frames smaller than the model's input; use --decode cpu"):
        DeviceResize(ImagePlan(size_hw=(32, 32)), device="cpu")(small)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="nvJPEG needs a CUDA device")
@pytest.mark.parametrize("how", [{}, {"subsampling": 0}, {"subsampling": 1}, {"progressive": True}])
def test_the_engines_pixels_are_torchvisions(how: dict[str, Any]) -> None:
    files = []
    for size in SIZES:
        buffer = io.BytesIO()
        Pillow.fromarray(_picture(*size)).save(buffer, "JPEG", quality=90, **how)
        files.append(buffer.getvalue())
    decoder = DeviceDecoder(ImagePlan(size_hw=(64, 64), resize=70), device="cuda")
    found = decoder(files)
    decoder._engines = None
    assert torch.equal(found, decoder(files))
