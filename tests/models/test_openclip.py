"""CLIP runs with the activation and the pixels its weights were trained with, and reads class names once."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from open_clip import pretrained
from open_clip.transformer import QuickGELU

from strobe.core.labels import LabelSpace
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model

PETS = LabelSpace.of_names("pets", ["cat", "dog", "red fox"])
ODD = {"mean": (0.1, 0.2, 0.3), "std": (0.4, 0.5, 0.6), "interpolation": "bilinear", "resize_mode": "squash"}


class Heard:
    """A Progress that remembers."""

    def __init__(self) -> None:
        self.tasks: list[tuple[str, int | None]] = []
        self.done = 0

    def task(self, label: str, total: int | None) -> Any:
        from contextlib import nullcontext

        self.tasks.append((label, total))
        return nullcontext(self._advance)

    def _advance(self, units: int) -> None:
        self.done += units

    def note(self, text: str) -> None: ...


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small architecture with two published tags: one trained with QuickGELU and odd pixels, one without a word."""
    name = "strobe-quick-clip"
    config = {
        "embed_dim": 32,
        "vision_cfg": {"image_size": 32, "layers": 2, "width": 32, "patch_size": 16, "head_width": 16},
        "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1},
    }
    (tmp_path / f"{name}.json").write_text(json.dumps(config))
    open_clip.add_model_config(tmp_path)
    tags = {"quick": {"url": "https://nowhere/q.pt", "quick_gelu": True, **ODD}, "plain": {"url": "https://nowhere/p"}}
    monkeypatch.setitem(pretrained._PRETRAINED, name, tags)
    torch.manual_seed(0)
    state = open_clip.create_model(name).state_dict()
    torch.save(state, tmp_path / "clip.pt")
    monkeypatch.setattr("open_clip.factory.download_pretrained", lambda *_, **__: str(tmp_path / "clip.pt"))
    monkeypatch.setattr("strobe.models.downloads.hub_reachable", lambda **_: False)
    return tmp_path / "clip.pt"


def _load(name: str, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load_model(f"openclip:strobe-quick-clip{name}", LoadOptions(device="cpu", label_space=PETS, **options))


def test_a_tag_brings_its_activation_and_its_pixels(weights: Path) -> None:
    found, filed, plain = _load("/quick"), _load(f"/quick@{weights}"), _load("/plain")
    for model in (found, filed):
        kinds = [type(part) for part in model._module.modules()]
        assert QuickGELU in kinds
        assert torch.nn.GELU not in kinds
        assert model.spec.preprocessing["activation"] == "quick_gelu"
        assert (model.plan.mean, model.plan.std) == (ODD["mean"], ODD["std"])
        assert (model.plan.interpolation, model.plan.fit) == ("bilinear", "squash")
    assert plain.spec.preprocessing["activation"] == "gelu"
    assert plain.spec.weights == found.spec.weights
    assert plain.spec.preprocessing != found.spec.preprocessing, "the key tells them apart"
    image = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    one, two = (model.forward([model.prepare(image)]) for model in (found, filed))
    assert (one == two).all()


def test_class_names_are_read_once_and_watched(weights: Path, own_cache: Path) -> None:
    heard = Heard()
    first = _load(f"@{weights}", progress=heard)
    assert heard.tasks == [(f"openclip:strobe-quick-clip@{weights}: encoding class names, 80 prompts each", 3)]
    assert heard.done == 3
    (kept,) = own_cache.rglob("*.npy")
    again = _load(f"@{weights}", progress=heard)
    assert len(heard.tasks) == 1, "the second time it comes from the cache"
    image = np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)
    assert (first.forward([first.prepare(image)]) == again.forward([again.prepare(image)])).all()
    kept.write_bytes(kept.read_bytes()[:100])
    _load(f"@{weights}", progress=heard)
    assert len(heard.tasks) == 2, "a file cut off is made again"
    _load(f"/quick@{weights}", progress=heard)
    assert len(heard.tasks) == 3, "another activation, another head"


def test_the_head_is_the_librarys_own(weights: Path) -> None:
    model = _load(f"@{weights}")
    module = model._module
    with torch.inference_mode():
        head = open_clip.build_zero_shot_classifier(
            module, open_clip.get_tokenizer("strobe-quick-clip"), list(PETS.names), open_clip.OPENAI_IMAGENET_TEMPLATES
        )
        pixels = torch.zeros(1, 3, 32, 32)
        wanted = module.logit_scale.exp() * (module.encode_image(pixels, normalize=True) @ head)
        found = model._call(pixels)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
