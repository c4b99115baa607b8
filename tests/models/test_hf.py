"""transformers' processors at another size, and without noise."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from strobe.models.options import LoadOptions
from strobe.models.registry import load_model

IMAGE = np.random.default_rng(0).integers(0, 256, (70, 90, 3), dtype=np.uint8)
LABELS: dict[str, Any] = {"num_labels": 2, "id2label": {0: "cat", 1: "dog"}}


def _convnext(folder: Path, processor: Any) -> str:
    torch.manual_seed(0)
    config = transformers.ConvNextConfig(hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1], **LABELS)
    transformers.ConvNextForImageClassification(config).save_pretrained(folder)
    processor.save_pretrained(folder)
    return f"hf:{folder}"


PROCESSORS = {
    "shortest edge": (transformers.ConvNextImageProcessor(size={"shortest_edge": 48}), {"shortest_edge": 64}, None),
    "height and width": (
        transformers.ViTImageProcessor(size={"height": 48, "width": 48}),
        {"height": 64, "width": 64},
        None,
    ),
    "with a crop": (
        transformers.CLIPImageProcessor(size={"shortest_edge": 60}, crop_size={"height": 48, "width": 48}),
        {"shortest_edge": 80},
        {"height": 64, "width": 64},
    ),
}


@pytest.mark.parametrize("kind", list(PROCESSORS))
def test_another_size_reaches_the_pixels_and_the_key(kind: str, tmp_path: Path) -> None:
    processor, size, crop = PROCESSORS[kind]
    name = _convnext(tmp_path / "model", processor)
    plain: Any = load_model(name, LoadOptions(device="cpu"))
    larger: Any = load_model(name, LoadOptions(device="cpu", image_size=64))
    assert plain.prepare(IMAGE).shape == (3, 48, 48)
    assert larger.prepare(IMAGE).shape == (3, 64, 64)
    assert larger.forward([larger.prepare(IMAGE)]).shape == (1, 2)
    assert plain.spec.preprocessing != larger.spec.preprocessing
    assert larger.spec.preprocessing["processor"]["size"] == size
    if crop is not None:
        assert larger.spec.preprocessing["processor"]["crop_size"] == crop
