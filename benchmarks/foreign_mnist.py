"""Plugins for third-party MNIST models: ten decoders as a generator, and two LeNet-5 classifiers.

    strobe vary generator OUT --generator py:benchmarks/foreign_mnist.py:decoders@ABS_0.net \
        -m standard=py:benchmarks/foreign_mnist.py:lenet@mnist_lenet5_clntrained.pt \
        -m robust=py:benchmarks/foreign_mnist.py:lenet@mnist_lenet5_advtrained.pt

The decoders are `ABS_0.net` … `ABS_9.net` of bethgelab/AnalysisBySynthesis (Apache-2.0), all in one folder. The
classifiers are in the sdist of advertorch 0.2.3 (LGPL) on PyPI, as
`advertorch_examples/trained_models/mnist_lenet5_*.pt`.
"""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from strobe.annexes.generators.layered import TorchGenerator, layered
from strobe.core.labels import LabelSpace
from strobe.models.options import LoadOptions, ModelName
from strobe.models.plan import ImagePlan
from strobe.models.torch_classifier import TorchClassifier, classifier_of

DIGITS = LabelSpace.of_names("mnist", [str(digit) for digit in range(10)])


class Decoder(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Four transposed convolutions from 8 numbers to 28 × 28 pixels."""

    def __init__(self) -> None:
        super().__init__()
        for place, (inward, outward, side, stride) in enumerate(
            [(8, 32, 4, 1), (32, 16, 5, 2), (16, 16, 5, 2), (16, 1, 4, 1)]
        ):
            setattr(self, f"conv_{place}", nn.ConvTranspose2d(inward, outward, side, stride))
            if place < 3:
                setattr(self, f"bn_{place}", nn.BatchNorm2d(outward))

    def step(self, place: int, x: Any) -> Any:
        x = getattr(self, f"conv_{place}")(x)
        return x.sigmoid() if place == 3 else functional.elu(getattr(self, f"bn_{place}")(x))


def decoders(options: LoadOptions) -> TorchGenerator:
    """Return the ten decoders as one class-conditional generator. The file after @ may be any of the ten."""
    if options.weights is None:
        raise ValueError("pass the weights of one decoder, …:decoders@ABS_0.net, with the others in the same folder")
    nets = nn.ModuleList([Decoder() for _ in range(10)])
    for digit, net in enumerate(nets):
        state = torch.load(options.weights.with_name(f"ABS_{digit}.net"), map_location="cpu", weights_only=True)
        mine = {key.removeprefix("Decoder."): value for key, value in state.items() if key.startswith("Decoder.")}
        net.load_state_dict(mine, strict=False)  # the file has no batch counters

    def step(place: int) -> Any:
        def run(x: Any, classes: Any) -> Any:
            x = x[:, :, None, None] if place == 0 else x
            parts = [(classes == digit).nonzero()[:, 0] for digit in range(10)]
            made = torch.cat([net.step(place, x[rows]) for net, rows in zip(nets, parts, strict=True) if len(rows)])
            return made[torch.cat(parts).argsort()]

        return run

    names = [("4x4", "coarse"), ("11x11", "middle"), ("25x25", "fine"), ("pixels", "pixel")]
    return layered(
        nets, [(*name, step(place)) for place, name in enumerate(names)], classes=DIGITS, latent_size=8,
        image_hw=(28, 28), device=options.device, batch_size=64 if options.device == "cpu" else 512,
    )  # fmt: skip


class LeNet(nn.Module):  # type: ignore[misc]  # torch is untyped here
    """Two convolutions and two linear layers, on grey pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.linear1, self.linear2 = nn.Linear(7 * 7 * 64, 200), nn.Linear(200, 10)

    def forward(self, pixels: Any) -> Any:
        pixels = pixels.mean(1, keepdim=True)
        for conv in (self.conv1, self.conv2):
            pixels = functional.max_pool2d(conv(pixels).relu(), 2)
        return self.linear2(self.linear1(pixels.flatten(1)).relu())


def lenet(options: LoadOptions) -> TorchClassifier:
    """Return a LeNet-5 with the weights after @."""
    if options.weights is None:
        raise ValueError("pass its weights: …:lenet@mnist_lenet5_clntrained.pt")
    net = LeNet()
    net.load_state_dict(torch.load(options.weights, map_location="cpu", weights_only=True))
    plan = ImagePlan(size_hw=(28, 28), fit="squash", mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    name = ModelName("py", f"lenet@{options.weights.name}")
    return classifier_of(net, name, plan=plan, label_space=DIGITS, options=options)
