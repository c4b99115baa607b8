"""One real generator of every adapter, small, with random weights: nothing is downloaded."""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from strobe.models.options import LoadOptions

sys.path.insert(0, str(Path(__file__).parent))

DECODER = """
import torch
from torch import nn
from strobe.annexes.generators.layered import layered


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6 + 4, 8 * 3 * 3)
        self.second = nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1)
        self.last = nn.Conv2d(4, 1, 3, padding=1)


def make(options):
    torch.manual_seed(1)
    net = Decoder()
    if options.weights:
        net.load_state_dict(torch.load(options.weights, weights_only=True))
    return layered(
        net,
        [
            ("shape", "coarse", lambda z, y: net.first(torch.cat([z, torch.eye(4)[y]], 1)).view(-1, 8, 3, 3)),
            ("form", "fine", lambda a, y: net.second(a.relu())),
            ("image", "pixel", lambda a, y: net.last(a.relu()).sigmoid()),
        ],
        classes=["a", "b", "c", "d"], latent_size=6, image_hw=(6, 6), device=options.device,
    )


def broken(options):
    good = make(options)
    good._calls = (good._calls[0], good._calls[2], good._calls[2])
    return good


def grown(options):
    return layered(Decoder(), [("image", "pixel", lambda z, y: z.view(-1, 1, 2, 3))],
                   classes=["a"], latent_size=6, image_hw=(6, 6))


def nothing():
    return 7


def not_a_number(options):
    good = make(options)
    good._calls = (good._calls[0], lambda a, y: good_nan(a), good._calls[2])
    return good


def good_nan(a):
    return nn.functional.interpolate(a, scale_factor=2)[:, :4] * float("nan")


def raising(options):
    good = make(options)
    good._calls = (good._calls[0], lambda a, y: {}["no such key"], good._calls[2])
    return good
"""


@dataclass(frozen=True)
class Case:
    """A generator as it is named, the number of its classes and its channels; the same with weights that do not fit.

    An autoencoder takes its classes from photos.
    """

    generator: str
    n_classes: int
    channels: int
    misfit: str
    encodes: bool = False

    @property
    def options(self) -> LoadOptions:
        from made_autoencoders import PETS

        return LoadOptions(device="cpu", label_space=PETS if self.encodes else None)


def ours(folder: Path) -> Case:
    import torch

    from strobe.annexes.generators.networks import LayeredNet, NetFacts
    from strobe.annexes.generators.weights import write_network
    from strobe.core.labels import LabelSpace

    torch.manual_seed(0)
    facts = NetFacts(kind="small", classes=3, side=16, channels=3, latent=5, embedding=4, widths=(8, 8, 6))
    network = LayeredNet(facts).eval()
    file = folder / "small.safetensors"
    write_network(file, network, LabelSpace.of_names("colours", ["red", "green", "blue"]), training={})
    (folder / "cut.safetensors").write_bytes(file.read_bytes()[:-40])
    return Case(f"strobe-gan@{file}", 3, 3, f"strobe-gan@{folder / 'cut.safetensors'}")


def biggan(folder: Path) -> Case:
    import torch
    from pytorch_pretrained_biggan import BigGAN, BigGANConfig

    torch.manual_seed(0)
    config = BigGANConfig(
        output_dim=32, z_dim=8, class_embed_dim=8, channel_width=4, num_classes=5, attention_layer_position=2,
        layers=[(False, 16, 16), (True, 16, 8), (True, 8, 4), (False, 4, 2), (True, 2, 1)],
    )  # fmt: skip
    net = BigGAN(config)
    for one in (net.generator.bn.weight, net.generator.bn.bias):
        torch.nn.init.normal_(one.data, 0.5, 0.1)
    with torch.no_grad():
        for _ in range(12):  # in training mode a forward brings its spectral norms nearer to what they should be
            net(torch.randn(2, 8), torch.eye(5)[:2], 0.4)
    for name, wide in (("biggan", config.layers), ("other", [*config.layers[:-1], (True, 2, 2)])):
        config.layers = wide
        (folder / name).mkdir()
        (folder / name / "config.json").write_text(json.dumps(config.to_dict()))
        torch.save(net.state_dict(), folder / name / "pytorch_model.bin")
    return Case(f"biggan:{folder / 'biggan'}", 5, 3, f"biggan:{folder / 'other'}")


def py(folder: Path) -> Case:
    import torch

    (folder / "decoder.py").write_text(DECODER)
    torch.save(torch.nn.Linear(2, 2).state_dict(), folder / "linear.pt")
    return Case(
        f"py:{folder / 'decoder.py'}:make", 4, 1, f"py:{folder / 'decoder.py'}:make@{folder / 'linear.pt'}"
    )  # fmt: skip


def autoencoder(folder: Path) -> Case:
    import torch

    from strobe.annexes.generators.auto_net import AutoFacts, AutoNet
    from strobe.annexes.generators.weights import write_autoencoder

    torch.manual_seed(0)
    file = folder / "small.safetensors"
    write_autoencoder(file, AutoNet(AutoFacts(kind="small", side=16, latent=3, widths=(16, 8))), training={})
    (folder / "cut.safetensors").write_bytes(file.read_bytes()[:-40])
    return Case(f"strobe-ae@{file}", 2, 3, f"strobe-ae@{folder / 'cut.safetensors'}", encodes=True)


def diffusers(folder: Path) -> Case:
    import torch
    from diffusers import AutoencoderKL
    from made_autoencoders import BLOCKS

    torch.manual_seed(0)
    AutoencoderKL(**BLOCKS, latent_channels=4, sample_size=16).save_pretrained(folder / "vae")
    shutil.copytree(folder / "vae", folder / "other")
    settings = json.loads((folder / "other" / "config.json").read_text())
    (folder / "other" / "config.json").write_text(json.dumps({**settings, "latent_channels": 5}))
    return Case(f"diffusers:{folder / 'vae'}", 2, 3, f"diffusers:{folder / 'other'}", encodes=True)


MAKERS: dict[str, Callable[[Path], Case]] = {
    "ours": ours, "biggan": biggan, "py": py, "autoencoder": autoencoder, "diffusers": diffusers,
}  # fmt: skip


@pytest.fixture(scope="session", params=list(MAKERS))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return MAKERS[request.param](tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="session")
def decoder_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "decoder.py"
    path.write_text(DECODER)
    return path
