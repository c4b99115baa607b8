"""Preprocessing against the libraries' own."""

from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from strobe.models.plan import ImagePlan

SHAPES = [(360, 640), (640, 360), (300, 300), (375, 500), (40, 50), (1200, 1600), (225, 224), (1, 1), (3, 300)]
SHAPES += [(720, 1280), (1280, 720), (683, 1024), (1080, 1920), (500, 333), (400, 455)]


def _picture(height: int, width: int) -> Any:
    """Blocks with hard edges: bicubic overshoots there, which is where orders of resizing differ."""
    rng = np.random.default_rng(height * width)
    blocks = rng.integers(0, 256, (height // 7 + 1, width // 7 + 1, 3), dtype=np.uint8)
    return np.ascontiguousarray(np.kron(blocks, np.ones((7, 7, 1), np.uint8))[:height, :width])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
def test_resize_and_crop_are_torchvisions(shape: tuple[int, int], interpolation: str) -> None:
    from torchvision import transforms

    image = _picture(*shape)
    plan = ImagePlan(size_hw=(224, 224), resize=256, interpolation=interpolation)
    mode = transforms.InterpolationMode(interpolation)
    theirs = transforms.Compose([transforms.Resize(256, interpolation=mode), transforms.CenterCrop(224)])
    want = np.asarray(theirs(Pillow.fromarray(image)))
    np.testing.assert_array_equal(plan.prepare(image), want)  # bit for bit: a level more or less can flip an answer


def test_pad_keeps_the_whole_image_in_the_middle() -> None:
    image = np.full((50, 100, 3), 200, dtype=np.uint8)
    got = ImagePlan(size_hw=(40, 40), fit="pad", fill=(1, 2, 3)).prepare(image)
    assert got.shape == (40, 40, 3)
    assert (got[10:30] == 200).all()
    assert (got[:10] == (1, 2, 3)).all()
    assert (got[30:] == (1, 2, 3)).all()


@pytest.mark.parametrize("name", ["test_vit", "test_resnet", "test_efficientnet"])
def test_timm_models_get_timms_preprocessing(name: str) -> None:
    import timm

    from strobe.models.options import LoadOptions
    from strobe.models.registry import load_model

    model: Any = load_model(f"timm:{name}", LoadOptions(pretrained=False, device="cpu"))
    config = timm.data.resolve_model_data_config(model._module)
    theirs = timm.data.create_transform(**config, is_training=False)
    for shape in SHAPES[:3]:
        image = _picture(*shape)
        want = theirs(Pillow.fromarray(image)).numpy()
        got = model._normalised(model._brought([model.prepare(image)]))[0].numpy()
        step = 1 / 255 / min(config["std"])
        assert np.abs(got - want).max() <= 2.01 * step
        assert (np.abs(got - want) > 1e-5).mean() < 0.01
