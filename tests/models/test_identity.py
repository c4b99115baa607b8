"""What names a live model's answers: the same for the same model, never the same for two that answer differently."""

import copy
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision import models, transforms

from strobe.models.identity import CannotFingerprint, digest_of

FACTOR = 2.0


def _scaled(x: float) -> float:
    return FACTOR * x


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.power = torch.nn.Linear(3, 2), 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) ** self.power


def test_the_same_is_the_same() -> None:
    net = Net()
    before = digest_of(net)
    assert before == digest_of(copy.deepcopy(net)) == digest_of(net.eval()) == digest_of(Net())
    net.train()(torch.ones(1, 3)).sum().backward()
    assert digest_of(net) == before  # gradients answer nothing
    transform = models.ResNet18_Weights.IMAGENET1K_V1.transforms()
    assert digest_of(transform) == digest_of(models.ResNet18_Weights.IMAGENET1K_V1.transforms())


def test_whatever_changes_answers_changes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    seen = {digest_of(net)}

    def another() -> None:
        digest = digest_of(net)
        assert digest not in seen
        seen.add(digest)

    with torch.no_grad():
        net.layer.weight[0, 0] += 1e-7
    another()
    net.power = 2.0
    another()
    net.layer.register_forward_hook(lambda _module, _args, out: out * 2)
    another()
    monkeypatch.setattr(Net, "forward", lambda self, x: self.layer(x) - 1)
    another()
    first = digest_of(_scaled)
    monkeypatch.setitem(_scaled.__globals__, "FACTOR", 3.0)
    assert digest_of(_scaled) != first
    sizes = [transforms.Compose([transforms.Resize(size), transforms.ToTensor()]) for size in (32, 33)]
    assert digest_of(sizes[0]) != digest_of(sizes[1])
    assert digest_of(lambda x, by=1: x * by) != digest_of(lambda x, by=2: x * by)
    assert digest_of(np.zeros(2)) != digest_of(np.zeros((2, 1)))
    assert digest_of([1, 2]) != digest_of((1, 2))


def test_what_cannot_be_seen_is_said(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        for thing, word in ((file, "TextIOWrapper"), (threading.Lock(), "lock"), ((x for x in "ab"), "generator")):
            with pytest.raises(CannotFingerprint, match=word):
                digest_of({"inside": [thing]})


CODE = """\
import torch
from strobe.models.identity import digest_of
torch.manual_seed(0)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.names = torch.nn.Linear(2, 2), {"x", "y", "z"}
    def forward(self, x):
        return self.layer(x) if x in {"p", "q", "r"} else x
print(digest_of(Net(), lambda x: x if x in {"s", "t", "u"} else Net, {"a", "b", "c"}))
"""


def test_it_is_the_same_in_another_process() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", CODE], capture_output=True, text=True, check=True,
            env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed, "PATH": "", "OMP_NUM_THREADS": "1"},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1
