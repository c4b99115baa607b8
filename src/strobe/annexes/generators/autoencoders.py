"""Autoencoders of `diffusers` as LayeredGenerators of photos, from a folder that `save_pretrained` wrote."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from strobe.annexes.generators.layered import TorchAutoencoder
from strobe.annexes.generators.networks import granularity_of
from strobe.annexes.generators.spec import GeneratorSpec, GeneratorStep
from strobe.core.arrays import digest_of_tensors
from strobe.core.errors import InvalidFile, ModelFailed, expect, printable
from strobe.core.files import read_json
from strobe.core.labels import LabelSpace
from strobe.core.late import require

KINDS = ("AutoencoderKL", "AutoencoderTiny", "VQModel")
"""The classes of diffusers that can be run step by step."""

_SIZE = 256
"""The size of the images if neither the name nor the settings give one."""

Call = Callable[[Any, Any], Any]


def parsed(name: str) -> tuple[str, int | None]:
    """Parse the folder, and the size of the images after a colon.

    >>> parsed("models/vae:256"), parsed("models/vae")
    (('models/vae', 256), ('models/vae', None))
    """
    head, colon, tail = name.rpartition(":")
    if not colon or not tail.isdecimal():
        return name, None
    expect(8 <= int(tail) <= 4096, f"diffusers:{printable(name)}", "a size of 8–4096 after the last colon", int(tail))
    return head, int(tail)


def folder_of(name: str) -> tuple[Path, str]:
    """Return the folder with the settings and weights, and the variant of the weights (`fp16`, or an empty text).

    For the folder of a whole pipeline, it is the subfolder `vae`.
    """
    folder = Path(name)
    if (folder / "model_index.json").is_file() and (folder / "vae").is_dir():
        folder = folder / "vae"
    if not folder.is_dir():
        raise ModelFailed(
            f"diffusers:{printable(name)}: no such folder; name a folder with config.json and safetensors, as "
            "save_pretrained writes it"
        )
    if not (folder / "config.json").is_file():
        raise ModelFailed(f"diffusers:{printable(name)}: the folder has no config.json")
    files = {path.name for path in folder.glob("diffusion_pytorch_model*.safetensors*")}
    if not files:
        raise ModelFailed(f"diffusers:{printable(name)}: the folder has no diffusion_pytorch_model.safetensors")
    plain = any(".fp16" not in file for file in files)
    return folder, "" if plain else "fp16"


def load(
    name: str, folder: Path, *, variant: str, size: int | None, classes: LabelSpace, device: str
) -> TorchAutoencoder:
    """Load the network in a folder, ready to run. Nothing is downloaded."""
    library = require("diffusers", what=f"diffusers:{printable(name)}", extra="diffusers")
    config = folder / "config.json"
    facts = read_json(config)
    kind = facts.get("_class_name") if isinstance(facts, dict) else None
    if kind not in KINDS:
        raise InvalidFile(config, f"_class_name: expected one of {', '.join(KINDS)}, got {printable(kind)}")
    module = _weights(library, getattr(library, kind), folder, variant)
    settings = module.config
    if (settings.in_channels, settings.out_channels) != (3, 3):
        raise InvalidFile(
            config, f"expected 3 channels in and out, got {settings.in_channels}, {settings.out_channels}"
        )
    given = settings.get("sample_size")
    side = size or (given if isinstance(given, int) else _SIZE)
    sides, calls, channels, factor, condition = _parts(kind, module)
    if side % factor:
        raise ModelFailed(
            f"{printable(name)}: expected a size that is a multiple of {factor}, got {side}; write the size after a "
            f"colon: diffusers:FOLDER:{max(factor, side // factor * factor)}"
        )
    small = side // factor
    steps = [
        GeneratorStep(name=f"{word} at {small * grown}", granularity=granularity_of(index, len(sides)))
        for index, (word, grown) in enumerate(sides)
    ]
    spec = GeneratorSpec(
        name=name,
        provider="diffusers",
        label_space=classes,
        weights=digest_of_tensors(module.state_dict()),
        latent_size=channels * small * small,
        image_hw=(side, side),
        settings={"kind": kind, "size": side},
        steps=(*steps, GeneratorStep(name="pixels", granularity="pixel")),
        batch_size=4 if device == "cpu" else 16,
        encodes=True,
    )
    shape = (-1, channels, small, small)
    first, *others = calls
    calls = [lambda z, given: first(z.view(shape), given), *others]
    return TorchAutoencoder(
        module,
        calls,
        spec=spec,
        device=device,
        condition=lambda z, _: None if condition is None else condition(z.view(shape)),
        encode=lambda pixels: _encoded(kind, module, pixels * 2 - 1).flatten(1),
    )


def _weights(library: Any, kind: Any, folder: Path, variant: str) -> Any:
    """Return the network with the folder's weights, float32. Missing tensors raise an error."""
    torch = require("torch", what="a generator", extra="models")
    log = library.utils.logging
    before = log.get_verbosity()
    log.set_verbosity_error()
    try:
        module, found = kind.from_pretrained(
            str(folder),
            local_files_only=True,
            use_safetensors=True,
            low_cpu_mem_usage=False,
            torch_dtype=torch.float32,
            variant=variant or None,
            output_loading_info=True,
        )
    except Exception as error:  # the library raises arbitrary exceptions on damaged files
        problem = f"not the weights of a {kind.__name__} ({type(error).__name__}: {printable(error, limit=160)})"
        raise InvalidFile(folder, problem) from error
    finally:
        log.set_verbosity(before)
    missing = [str(one) for key in ("missing_keys", "mismatched_keys") for one in found.get(key) or ()]
    if missing:
        some = f"{len(missing)} tensor(s) are missing, first {printable(missing[0], limit=100)}"
        raise InvalidFile(folder, f"its weights do not match its config.json: {some}")
    return module


def _encoded(kind: str, module: Any, pixels: Any) -> Any:
    """Return the latents (N, C, h, w) of pixels in [−1, 1]: the mean of their distribution if there is one."""
    return module.encode(pixels).latent_dist.mode() if kind == "AutoencoderKL" else module.encode(pixels).latents


Parts = tuple[list[tuple[str, int]], list[Call], int, int, Callable[[Any], Any] | None]
"""Names and relative sizes of the steps before the pixels, all calls, latent channels, factor of size, condition."""


def _parts(kind: str, module: Any) -> Parts:
    """Return the decoder of a network as steps: its own `decode`, split where activations can be changed."""
    return _tiny(module) if kind == "AutoencoderTiny" else _blocks(kind, module)


def _blocks(kind: str, module: Any) -> Parts:
    """Return the steps of a decoder of blocks: the middle, each block that grows the image, and the pixels."""
    net, settings = module.decoder, module.config
    quantizes = kind == "VQModel"
    spatial = quantizes and settings.norm_type == "spatial"

    def first(latents: Any, given: Any) -> Any:
        if quantizes:
            latents = module.quantize(latents)[0]
        if module.post_quant_conv is not None:
            latents = module.post_quant_conv(latents)
        return net.mid_block(net.conv_in(latents), given)

    def last(x: Any, given: Any) -> Any:
        x = net.conv_norm_out(x) if given is None else net.conv_norm_out(x, given)
        return net.conv_out(net.conv_act(x)) * 0.5 + 0.5

    sides, calls, grown = [("middle", 1)], [first], 1
    for index, block in enumerate(net.up_blocks):
        grown *= 2 if block.upsamplers is not None else 1
        sides.append((f"block {index}", grown))
        calls.append(block)
    channels = (settings.vq_embed_dim or settings.latent_channels) if quantizes else settings.latent_channels
    condition = (lambda latents: module.quantize(latents)[0]) if spatial else None
    return sides, [*calls, last], channels, grown, condition


def _tiny(module: Any) -> Parts:
    """Return the steps of a tiny decoder: the layers up to each upsampling, and the pixels."""
    torch = require("torch", what="a generator", extra="models")
    layers = list(module.decoder.layers)
    groups: list[list[Any]] = [[]]
    for layer in layers[:-1]:
        if isinstance(layer, torch.nn.Upsample):
            groups.append([])
        groups[-1].append(layer)
    factor = round(float(module.config.upsampling_scaling_factor))

    def run(some: Sequence[Any], *, clamps: bool) -> Call:
        def step(x: Any, _: Mapping[str, Any] | None) -> Any:
            x = torch.tanh(x / 3) * 3 if clamps else x
            for layer in some:
                x = layer(x)
            return x

        return step

    sides = [(f"group {place}", factor**place) for place in range(len(groups))]
    calls = [run(some, clamps=index == 0) for index, some in enumerate(groups)]
    pixels: Call = lambda x, _: layers[-1](x).mul(2).sub(1) * 0.5 + 0.5  # noqa: E731 (one of the calls)
    return sides, [*calls, pixels], module.config.latent_channels, factor ** (len(groups) - 1), None
