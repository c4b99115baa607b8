"""Resizing by matrices, as a CUDA device does it: every bit as Pillow's. On the CPU here; the sums are the same."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strobe.core.labels import LabelSpace
from strobe.core.records import ModelSpec
from strobe.models.exact_resize import ExactResize, SentPlan
from strobe.models.plan import ImagePlan

torch = pytest.importorskip("torch")

SIZES = [(375, 500), (360, 640), (500, 333), (240, 320), (301, 777), (97, 61), (1000, 349)]


def _frames(sizes: Any, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    noise = [rng.integers(0, 256, (*size, 3), dtype=np.uint8) for size in sizes]
    return [np.where(frame > 128, 255, 0).astype(np.uint8) if n % 2 else frame for n, frame in enumerate(noise)]


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize("channels", ["rgb", "bgr"])
@pytest.mark.parametrize(("resize", "size"), [(256, 224), (235, 224), (61, 48), (300, 300)])
def test_every_bit_is_pillows(interpolation: str, channels: Any, resize: int, size: int) -> None:
    plan = ImagePlan(size_hw=(size, size), resize=resize, interpolation=interpolation, channels=channels)
    frames = _frames(SIZES)
    device = ExactResize(plan, device="cpu")
    found = device([*frames, plan.prepare(frames[0])]).permute(0, 2, 3, 1).numpy()
    np.testing.assert_array_equal(found[:-1], np.stack([plan.prepare(frame) for frame in frames]))
    assert all(device._agrees.values())
    assert len(device._agrees) == len(SIZES)


def test_only_what_the_crop_is_made_of_is_sent_to_the_device() -> None:
    plan, (frame,) = ImagePlan(size_hw=(224, 224), resize=235), _frames([(720, 1280)])
    device = ExactResize(plan, device="cpu")
    (found,) = device([frame]).permute(0, 2, 3, 1).numpy()
    np.testing.assert_array_equal(found, plan.prepare(frame))
    (_, columns), (_, rows) = device._weights[720, 1280, 3]
    assert (columns.stop - columns.start, rows.stop - rows.start) == (704, 704), "697 and 695, in whole eights"


def test_a_device_that_differs_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    import strobe.models.exact_resize as module

    real = module.weights
    monkeypatch.setattr(module, "weights", lambda *given: real(*given) + 20_000)
    plan, frames = ImagePlan(size_hw=(24, 24), resize=30), _frames([(60, 80)] * 3)
    device = ExactResize(plan, device="cpu")
    found = device(frames).permute(0, 2, 3, 1).numpy()
    assert device._agrees == {(60, 80, 3): False}
    np.testing.assert_array_equal(found, np.stack([plan.prepare(frame) for frame in frames]))


def test_what_is_left_to_the_device() -> None:
    plan = ImagePlan(size_hw=(224, 224), resize=256)
    sent = SentPlan(plan, on_device=True)

    def left(height: int, width: int, sent: SentPlan = sent) -> bool:
        image = np.zeros((height, width, 3), dtype=np.uint8)
        found = sent.prepare(image)
        assert found is image or found.shape[:2] == plan.size_hw
        assert found.nbytes <= sent.n_bytes
        return found is image

    assert left(375, 500)
    assert left(720, 1280)
    assert not left(1080, 1920), "too large to send"
    assert not left(224, 224), "would look finished"
    assert not left(256, 300), "only cut"
    assert not left(375, 500, SentPlan(plan))
    assert not left(375, 500, SentPlan(ImagePlan(size_hw=(224, 224), resize=256, interpolation="lanczos"), True))
    assert not left(375, 500, SentPlan(ImagePlan(size_hw=(224, 224), fit="squash"), True))
    assert not left(375, 500, SentPlan(ImagePlan(size_hw=(224, 224), resize=200), True)), "has to be filled up"
    assert [left(300, width) for width in range(310, 320)] == [True] * 6 + [False] * 4, "eight sizes and no more"
    assert left(375, 500)
    assert SentPlan(plan, True) == sent
    assert hash(SentPlan(plan, True)) == hash(sent)


def test_a_model_says_the_same_of_decoded_frames(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from strobe.models.options import TorchSetup
    from strobe.models.torch_classifier import TorchClassifier

    monkeypatch.setattr(TorchClassifier, "resizes", True)  # as on a CUDA device
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 5), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    space = LabelSpace.of_names("eight", [str(place) for place in range(8)])
    spec = ModelSpec(name="m", provider="t", task="classification", label_space=space, weights="0" * 64, batch_size=8)
    plan = ImagePlan(size_hw=(48, 40), resize=50)
    model = TorchClassifier(module, spec=spec, plan=plan, setup=TorchSetup("cpu", "float32"))
    frames = _frames([(60, 80), (48, 40), (60, 80), (90, 70), (1200, 1300)])
    sent = model.preparation
    assert sent is not None
    decoded = [sent.prepare(frame) for frame in frames]
    assert sum(one is frame for one, frame in zip(decoded, frames, strict=True)) == 3
    want = model.forward([model.prepare(frame) for frame in frames])
    np.testing.assert_array_equal(model.forward(decoded), want)
