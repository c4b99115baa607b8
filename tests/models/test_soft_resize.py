"""Images of another size reach a classifier as Pillow resizes them, and gradients flow back through the resize."""

import numpy as np
import pytest
import torch
from torch import nn

from strobe.core.errors import ModelFailed
from strobe.core.labels import LabelSpace
from strobe.models.gradients import with_gradients
from strobe.models.options import LoadOptions, ModelName
from strobe.models.plan import ImagePlan
from strobe.models.soft_resize import SoftResize
from strobe.models.torch_classifier import TorchClassifier, classifier_of

SIZES = [((8, 8), (14, 14)), ((32, 32), (12, 12)), ((30, 20), (15, 40)), ((12, 18), (12, 7))]


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, shape, dtype=np.uint8)


def net(size: int, *, interpolation: str = "bicubic", channels: str = "rgb") -> TorchClassifier:
    torch.manual_seed(2)
    module = nn.Sequential(nn.Flatten(), nn.Linear(3 * size * size, 4))
    plan = ImagePlan(size_hw=(size, size), resize=2 * size, interpolation=interpolation, channels=channels)
    space = LabelSpace.of_names("letters", list("abcd"))
    return classifier_of(
        module, ModelName("py", "net"), plan=plan, label_space=space, options=LoadOptions(device="cpu")
    )


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize(("have", "want"), SIZES)
def test_the_pixels_are_pillows(have: tuple[int, int], want: tuple[int, int], interpolation: str) -> None:
    plan, images = ImagePlan(size_hw=want, interpolation=interpolation), noise(2, *have, 3)
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2) / 255
    found = SoftResize(plan, have, device="cpu")(pixels)
    expected = np.stack([plan.prepare_input(one) for one in images])
    assert ((found * 255).round().byte().permute(0, 2, 3, 1).numpy() == expected).all()
    assert ((found * 255 - (found * 255).round()).abs() < 1e-4).all(), "whole levels"


@pytest.mark.parametrize(("have", "want"), SIZES)
def test_the_gradient_is_the_filters(have: tuple[int, int], want: tuple[int, int]) -> None:
    resize = SoftResize(ImagePlan(size_hw=want), have, device="cpu")
    pixels = (0.3 + 0.4 * torch.rand(1, 3, *have, dtype=torch.float64)).requires_grad_()
    small = pixels[:, :1, :8, :8].detach().requires_grad_()
    inside = SoftResize(ImagePlan(size_hw=(5, 9)), (8, 8), device="cpu")
    assert torch.autograd.gradcheck(inside.linear, (small,), eps=1e-4, atol=1e-5)
    weight = torch.randn(1, 3, *want, dtype=torch.float64)
    (slope,) = torch.autograd.grad((resize(pixels) * weight).sum(), pixels)
    smooth = nn.functional.interpolate(pixels, size=want, mode="bicubic", antialias=True, align_corners=False)
    (other,) = torch.autograd.grad((smooth * weight).sum(), pixels)
    torch.testing.assert_close(slope, other, rtol=1e-4, atol=1e-5)  # torch's own filter
    assert slope.any()


@pytest.mark.parametrize("channels", ["rgb", "bgr"])
def test_scores_of_another_size_are_those_of_the_engine(channels: str) -> None:
    model, images = net(6, channels=channels), noise(3, 16, 16, 3)
    engine = model.forward([model.prepare_input(one) for one in images])
    pixels = (torch.from_numpy(images).permute(0, 3, 1, 2) / 255).requires_grad_()
    scores = model.input_scores(pixels)
    (slope,) = torch.autograd.grad(scores[:, 0].sum(), pixels)
    assert slope.shape == pixels.shape
    assert slope.any()
    np.testing.assert_allclose(scores.detach().numpy(), engine, rtol=1e-4, atol=1e-4)


def test_pixels_of_the_inputs_own_size_are_not_touched() -> None:
    model = net(6)
    pixels = torch.rand(2, 3, 6, 6)  # not whole levels: a resize would round them
    mean, std = torch.tensor(model.plan.mean).view(3, 1, 1), torch.tensor(model.plan.std).view(3, 1, 1)
    plain = model.module(((pixels - mean) / std).contiguous(memory_format=torch.channels_last))
    assert torch.equal(model.input_scores(pixels), plain)
    assert not model._soft, "no resize is made"


def test_a_filter_without_gradients_is_one_line() -> None:
    model = net(6, interpolation="lanczos")
    assert with_gradients(model) is model
    with pytest.raises(
        ModelFailed, match=r"net: its input has the filter lanczos, .*; use a model whose input"
    ) as caught:
        with_gradients(model, image_hw=(9, 9))
    assert "\n" not in str(caught.value)
