"""Autoencoders of diffusers: zero change is diffusers' own decode, and every folder that does not fit is one line."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from made_autoencoders import BLOCKS, PETS

from strobe.annexes.generators.providers import load_generator, sendable_generator
from strobe.annexes.generators.spec import Autoencoder
from strobe.core.errors import MissingExtra, StrobeError
from strobe.models.options import LoadOptions

diffusers = pytest.importorskip("diffusers")

OPTIONS = LoadOptions(device="cpu", label_space=PETS)
TINY = {"encoder_block_out_channels": (8, 8), "decoder_block_out_channels": (8, 8), "num_encoder_blocks": (1, 1),
        "num_decoder_blocks": (1, 1), "latent_channels": 4}  # fmt: skip
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "kl": ("AutoencoderKL", {**BLOCKS, "latent_channels": 4}),
    "kl without convolutions of the latent": (
        "AutoencoderKL", {**BLOCKS, "use_quant_conv": False, "use_post_quant_conv": False, "layers_per_block": 2},
    ),
    "vq": ("VQModel", {**BLOCKS, "latent_channels": 3, "num_vq_embeddings": 32}),
    "vq, spatial norms": (
        "VQModel", {**BLOCKS, "block_out_channels": (32, 32), "latent_channels": 4, "norm_type": "spatial"},
    ),
    "tiny": ("AutoencoderTiny", TINY),
}  # fmt: skip


def saved(folder: Path, kind: str) -> Any:
    name, settings = KINDS[kind]
    torch.manual_seed(7)
    module = getattr(diffusers, name)(**settings).eval()
    module.save_pretrained(folder)
    return module


def photos(n: int = 3, side: int = 16) -> Any:
    return torch.rand((n, 3, side, side), generator=torch.Generator().manual_seed(1))


def decoded(generator: Any, latents: Any) -> Any:
    activation, condition = latents, generator.condition(latents, torch.zeros(len(latents), dtype=torch.long))
    for place in range(len(generator.spec.steps)):
        activation = generator.run(place, activation, condition)
    return activation


@pytest.mark.parametrize("kind", list(KINDS))
def test_zero_change_is_its_own_reconstruction(kind: str, tmp_path: Path) -> None:
    module = saved(tmp_path / "vae", kind)
    generator = load_generator(f"diffusers:{tmp_path / 'vae'}:16", OPTIONS)
    assert isinstance(generator, Autoencoder)
    assert generator.spec.label_space == PETS
    assert generator.spec.image_hw == (16, 16)
    assert generator.spec.encodes
    with torch.no_grad():
        code = module.encode(photos() * 2 - 1)
        code = (code.latent_dist.mode() if kind.startswith("kl") else code.latents).contiguous()  # the layout of a file
        expected = module.decode(code).sample * 0.5 + 0.5
        latents = generator.encode(photos())
        assert torch.equal(latents, code.flatten(1))
        assert latents.shape[1] == generator.spec.latent_size
        assert torch.equal(decoded(generator, latents), expected)
    assert [one for _, one in generator.spec.places][-1] == "pixel"
    assert {"latent", "coarse"} <= {one for _, one in generator.spec.places}


def test_a_pipeline_and_half_precision_load(tmp_path: Path) -> None:
    module = saved(tmp_path / "pipe" / "vae", "kl")
    (tmp_path / "pipe" / "model_index.json").write_text("{}")
    plain = load_generator(f"diffusers:{tmp_path / 'pipe'}:16", OPTIONS)
    module.half().save_pretrained(tmp_path / "half", variant="fp16")
    half = load_generator(f"diffusers:{tmp_path / 'half'}:16", OPTIONS)
    assert half.spec.weights != plain.spec.weights
    with torch.no_grad():
        pixels = decoded(half, half.encode(photos()))
        torch.testing.assert_close(pixels, decoded(plain, plain.encode(photos())), rtol=0, atol=0.01)
    assert pixels.dtype == torch.float32


def test_another_process_gets_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path / "vae", "kl")
    monkeypatch.chdir(tmp_path)
    text, _ = sendable_generator("diffusers:vae:16", OPTIONS)
    assert text == f"diffusers:{tmp_path / 'vae'}:16"


def broken(tmp_path: Path, **changes: Any) -> str:
    saved(tmp_path / "vae", "kl")
    config = tmp_path / "vae" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **changes}))
    return f"diffusers:{tmp_path / 'vae'}"


@pytest.mark.parametrize(
    ("changes", "size", "said"),
    [
        (
            {"_class_name": "AutoencoderOobleck"},
            "",
            "expected one of AutoencoderKL, AutoencoderTiny, VQModel, got Auto",
        ),
        ({"latent_channels": 6}, ":16", "not the weights of a AutoencoderKL"),
        ({"use_post_quant_conv": True, "layers_per_block": 2}, ":16", "tensor.s. are missing, first"),
        ({"in_channels": 1, "out_channels": 1}, ":16", "vae: not the weights|expected 3 channels in and out"),
        ({}, ":17", "expected a size that is a multiple of 2, got 17; write the size after a colon"),
        ({}, ":4", "a size of 8–4096 after the last colon"),
        ({}, "@other.safetensors", "its weights are in the folder"),
    ],
)
def test_a_folder_that_does_not_fit_is_one_line(tmp_path: Path, changes: Any, size: str, said: str) -> None:
    name = broken(tmp_path, **changes)
    with pytest.raises(StrobeError, match=said) as caught:
        load_generator(name + size, OPTIONS)
    assert "\n" not in str(caught.value)


def test_files_that_are_missing_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path / "vae", "kl")
    whole = f"diffusers:{tmp_path / 'vae'}"
    with pytest.raises(StrobeError, match=r"an autoencoder changes photos .*; add --photos DATASET"):
        load_generator(whole, LoadOptions(device="cpu"))
    for name, said in (
        ("config.json", "has no config.json"),
        ("diffusion_pytorch_model.safetensors", "has no diffusion_pytorch_model.safetensors"),
    ):
        folder = tmp_path / f"without {name}"
        shutil.copytree(tmp_path / "vae", folder)
        (folder / name).unlink()
        (folder / "diffusion_pytorch_model.bin").write_bytes(b"never unpickled")
        with pytest.raises(StrobeError, match=said):
            load_generator(f"diffusers:{folder}", OPTIONS)
    with pytest.raises(StrobeError, match="no such folder"):
        load_generator("diffusers:stabilityai/sd-vae-ft-mse", OPTIONS)
    cut = tmp_path / "vae" / "diffusion_pytorch_model.safetensors"
    cut.write_bytes(cut.read_bytes()[:-40])
    with pytest.raises(StrobeError, match="not the weights of a AutoencoderKL"):
        load_generator(f"{whole}:16", OPTIONS)
    monkeypatch.setitem(sys.modules, "diffusers", None)
    with pytest.raises(MissingExtra, match=r"strobe-vision\[diffusers\]") as caught:
        load_generator(whole, OPTIONS)
    assert "\n" not in str(caught.value)
