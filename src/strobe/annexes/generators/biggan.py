"""BigGAN-deep of `pytorch-pretrained-biggan` as a LayeredGenerator, from a folder or the library's cache."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from strobe.annexes.generators.layered import TorchGenerator
from strobe.annexes.generators.spec import GeneratorSpec, GeneratorStep, Granularity
from strobe.core.arrays import digest_of_tensors
from strobe.core.errors import CannotDownload, InvalidFile, ModelFailed, UnknownName, printable
from strobe.core.files import read_json
from strobe.core.labels import LabelSpace, space
from strobe.core.late import require

NAMES = ("biggan-deep-128", "biggan-deep-256", "biggan-deep-512")
"""The names that the library knows."""

_TRUNCATION = 0.4
"""The default truncation, which scales the latents. The value is from the library's own example."""


def parsed(name: str) -> tuple[str, float]:
    """Parse the name or folder, and the truncation after a colon.

    >>> parsed("biggan-deep-128:0.6"), parsed("biggan-deep-128")
    (('biggan-deep-128', 0.6), ('biggan-deep-128', 0.4))
    """
    head, colon, tail = name.rpartition(":")
    if not colon:
        return name, _TRUNCATION
    try:
        truncation = float(tail)
    except ValueError:
        return name, _TRUNCATION
    if not 0 < truncation <= 1:
        raise ModelFailed(f"biggan:{printable(name)}: expected a truncation above 0, at most 1, after the last colon")
    return head, truncation


def files_of(name: str, *, offline: bool) -> tuple[Path, Path]:
    """Return settings and weights from a folder. For a library name, they come from the library's cache or a
    download.
    """
    folder = Path(name)
    if folder.is_dir():
        for file in (folder / "config.json", folder / "pytorch_model.bin"):
            if not file.is_file():
                raise ModelFailed(f"biggan:{printable(name)}: the folder has no {file.name}")
        return folder / "config.json", folder / "pytorch_model.bin"
    if name not in NAMES:
        known = f"known: {', '.join(NAMES)}, or a folder with config.json and pytorch_model.bin"
        raise UnknownName("BigGAN", name, NAMES, hint=known)
    module = require("pytorch_pretrained_biggan.model", what=f"biggan:{name}", extra="biggan")
    utils = require("pytorch_pretrained_biggan.file_utils", what=f"biggan:{name}", extra="biggan")
    files = []
    for address in (module.PRETRAINED_CONFIG_ARCHIVE_MAP[name], module.PRETRAINED_MODEL_ARCHIVE_MAP[name]):
        cache = Path(utils.PYTORCH_PRETRAINED_BIGGAN_CACHE)
        cached_files = sorted(
            path for path in cache.glob(f"{utils.url_to_filename(address)}*") if path.suffix != ".json"
        )
        if not cached_files and offline:
            raise CannotDownload(
                f"biggan:{name}: its weights are not on this machine and <<offline=True>> forbids downloading them; "
                "name a folder with config.json and pytorch_model.bin: biggan:FOLDER"
            )
        files.append(cached_files[0] if cached_files else Path(utils.cached_path(address)))
    return files[0], files[1]


def load(
    name: str, config: Path, put: Callable[[Any], None], *, truncation: float = _TRUNCATION, device: str = "cpu"
) -> TorchGenerator:
    """Build the network that the settings file describes, with weights loaded by `put`."""
    library = require("pytorch_pretrained_biggan", what=f"biggan:{name}", extra="biggan")
    told = read_json(config)
    try:
        settings = library.BigGANConfig.from_dict(told)
        module = library.BigGAN(settings)
    except Exception as error:  # the library raises arbitrary exceptions on invalid settings
        problem = f"not the settings of a BigGAN ({type(error).__name__}: {printable(error, limit=100)})"
        raise InvalidFile(config, problem) from error
    put(module)
    classes = space("ilsvrc-2012") if settings.num_classes == 1000 else _numbered(settings.num_classes)
    names, calls = _steps(module, truncation, settings.output_dim)
    spec = GeneratorSpec(
        name=name,
        provider="biggan",
        label_space=classes,
        weights=digest_of_tensors(module.state_dict()),
        latent_size=settings.z_dim,
        image_hw=(settings.output_dim, settings.output_dim),
        spread=truncation,
        cut=2.0,
        settings={"truncation": truncation},
        steps=tuple(names),
        batch_size=4 if device == "cpu" else 32,
    )

    def condition(latents: Any, classes: Any) -> Mapping[str, Any]:
        torch = require("torch", what="a generator", extra="models")
        one_hot = torch.nn.functional.one_hot(classes, settings.num_classes).to(latents.dtype)
        embedded = module.embeddings(one_hot)
        return {"class": embedded, "vector": torch.cat((latents, embedded), dim=1)}

    return TorchGenerator(module, calls, spec=spec, device=device, condition=condition)


def _numbered(count: int) -> LabelSpace:
    return LabelSpace.of_names(f"{count} numbered classes", [f"class {number}" for number in range(count)])


def _steps(module: Any, truncation: float, side: int) -> tuple[list[GeneratorStep], list[Callable[[Any, Any], Any]]]:
    """Return the network's blocks as steps. They are `Generator.forward`, split where activations can be changed."""
    torch, net = require("torch", what="a generator", extra="models"), module.generator
    width = 16 * net.config.channel_width

    def first(latents: Any, condition: Mapping[str, Any]) -> Any:
        flat = net.gen_z(torch.cat((latents, condition["class"]), dim=1))
        return flat.view(-1, 4, 4, width).permute(0, 3, 1, 2).contiguous()

    def last(x: Any, _: Mapping[str, Any]) -> Any:
        pixels = net.conv_to_rgb(net.relu(net.bn(x, truncation)))[:, :3]
        return net.tanh(pixels) * 0.5 + 0.5

    def block(layer: Any) -> Callable[[Any, Any], Any]:
        if hasattr(layer, "up_sample"):
            return lambda x, condition: layer(x, condition["vector"], truncation)
        return lambda x, _: layer(x)

    names, now = [_step("start", 4, side)], 4
    calls: list[Callable[[Any, Any], Any]] = [first]
    for index, layer in enumerate(net.layers):
        now *= 2 if getattr(layer, "up_sample", False) else 1
        word = "block" if hasattr(layer, "up_sample") else "attention"
        names.append(_step(f"{word} {index} at {now}", now, side))
        calls.append(block(layer))
    return [*names, GeneratorStep(name="pixels", granularity="pixel")], [*calls, last]


def _step(name: str, side: int, whole: int) -> GeneratorStep:
    """Return a step.

    Its granularity is coarse up to an eighth of the image's side, middle up to a quarter, and fine beyond.
    """
    how: Granularity = "coarse" if 8 * side <= whole else "middle" if 4 * side <= whole else "fine"
    return GeneratorStep(name=name, granularity=how)
