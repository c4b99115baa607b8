"""A small generator of colours and nets that know them, sound ones and others, as a user's own file has them."""

import torch
from torch import nn

from strobe.annexes.generators.layered import layered
from strobe.core.labels import LabelSpace
from strobe.models.options import ModelName, torch_setup
from strobe.models.plan import ImagePlan
from strobe.models.torch_classifier import TorchClassifier, classifier_of

COLOURS = LabelSpace.of_names("colours", ["red", "green", "blue"])


def paint(options, spread=0.15, space=COLOURS):
    torch.manual_seed(5)
    net = nn.ModuleDict({"a": nn.Linear(4, 32), "b": nn.Conv2d(8, 6, 3, padding=1), "c": nn.Conv2d(6, 3, 1)})
    nn.init.zeros_(net["c"].bias)

    def second(a, y):
        grown = nn.functional.interpolate(torch.tanh(a), scale_factor=2)
        return net["b"](grown) * torch.tensor([1.0, 1, 1, 1, 1, 0]).view(1, 6, 1, 1)  # the last never varies

    def last(a, y):
        grown = nn.functional.interpolate(torch.tanh(a), scale_factor=2)
        return 0.45 + spread * net["c"](grown) + 0.06 * torch.eye(3)[y][:, :, None, None]

    steps = [
        ("shape", "coarse", lambda z, y: net["a"](z).view(-1, 8, 2, 2)),
        ("form", "fine", second),
        ("image", "pixel", last),
    ]
    return layered(net, steps, classes=space, latent_size=4, image_hw=(8, 8), device=options.device, batch_size=4)


def stranger(options):
    return paint(options, space=LabelSpace.of_names("sounds", ["dog", "cat", "cow"]))


def fragile(options):
    """Fine for two images; later what it draws is no number."""
    good, calls = paint(options), [0]
    plain = good._calls[1]

    def second(a, y):
        calls[0] += 1
        return plain(a, y) * (float("nan") if calls[0] > 2 else 1.0)

    good._calls = (good._calls[0], second, good._calls[2])
    return good


def wide(options):
    """Steps in double precision."""
    good = paint(options)
    plain = good._calls[1]
    good._calls = (good._calls[0], lambda a, y: plain(a, y).double(), good._calls[2])
    return good


class Net(nn.Module):
    """The mean of each channel, bent a little; `hungry` has no room for more than two with gradients, or ever."""

    def __init__(self, bend, hungry=False, scale=60.0):
        super().__init__()
        self.register_buffer("bend", torch.tensor(bend))
        self.hungry, self.scale = hungry, scale

    def forward(self, pixels):
        if (self.hungry == "ever" or (self.hungry and pixels.requires_grad)) and len(pixels) > 2:
            raise torch.OutOfMemoryError("out of memory")
        colour = pixels.mean((2, 3))
        return self.scale * colour + self.bend * torch.sin(9 * colour)


def made(options, bend, side=8, names=COLOURS.ids, **more):
    plan = ImagePlan(size_hw=(side, side), resize=side, mean=(0.0,) * 3, std=(1.0,) * 3)
    return classifier_of(
        Net(bend, **more),
        ModelName("py", f"net{bend}"),
        plan=plan,
        options=options,
        label_space=LabelSpace.of_names("colours", list(names)),
    )


def make(options):
    return made(options, 1.0)


def other(options):
    return made(options, 4.0)


def large(options):
    return made(options, 1.0, side=12)


def bent(options):
    """Like `other`, with a larger input."""
    return made(options, 4.0, side=12)


def some(options):
    return made(options, 1.0, names=("red", "green", "black"))


def starving(options):
    return made(options, 1.0, hungry="ever")


def hungry(options):
    return made(options, 1.0, hungry=True)


def contrary(options):
    """Names the colour there is least of."""
    return made(options, 0.0, scale=-60.0)


class Fraying(Net):
    """Its scores are no numbers where the two strongest colours are close; `lost`, wherever gradients are asked for."""

    def __init__(self, close=0.0, lost=False):
        super().__init__(1.0)
        self.close, self.lost = close, lost

    def forward(self, pixels):
        most = pixels.mean((2, 3)).topk(2).values
        bad = (most[:, 0] - most[:, 1] < self.close) | (self.lost and pixels.requires_grad)
        return torch.where(bad[:, None], torch.nan, super().forward(pixels))


def fraying(options):
    plain = make(options)
    return TorchClassifier(Fraying(close=0.01), spec=plain.spec, plan=plain.plan, setup=torch_setup(options))


def lost(options):
    plain = make(options)
    return TorchClassifier(Fraying(lost=True), spec=plain.spec, plan=plain.plan, setup=torch_setup(options))


class Shifty(TorchClassifier):
    """Answers blue where it sees green, but not where its gradients are asked for."""

    def forward(self, prepared):
        scores = super().forward(prepared)
        scores[scores.argmax(1) == 1] = [0, 0, 9]
        return scores


def shifty(options):
    plain = make(options)
    return Shifty(plain._module, spec=plain.spec, plan=plain.plan, setup=torch_setup(options))
