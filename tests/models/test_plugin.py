"""Somebody's own file: what it raises, prints and is given."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strobe.core.errors import ModelFailed, StrobeError, UnknownName
from strobe.core.labels import LabelSpace
from strobe.core.ports import Differentiable
from strobe.models.cores import cpu_lanes
from strobe.models.gradients import with_gradients
from strobe.models.options import LoadOptions
from strobe.models.plan import AsDecoded
from strobe.models.registry import load_model

PETS = LabelSpace.of_names("pets", ["cat", "dog"])
OPTIONS = LoadOptions(device="cpu", label_space=PETS)
IMAGE = np.zeros((4, 4, 3), dtype=np.uint8)

FILE = """\
import sys
import numpy as np
from strobe.core.records import ModelSpec
print("at import")

class Object:
    def __init__(self, options):
        self.options, self.n_forwards = options, 0
        self.spec = ModelSpec(name="o", provider="py", task="classification", weights="0" * 64,
                              label_space=options.label_space)
    def prepare(self, image):
        if self.options.image_size == 13:
            sys.exit(0)
        return int("x") if self.options.image_size == 12 else image
    def forward(self, prepared):
        print("while predicting")
        self.n_forwards += 1
        if self.options.image_size == 14 and self.n_forwards > 1:  # the first is to see what it opens
            raise KeyboardInterrupt
        return np.zeros((len(prepared), 2), np.float32)

def pair(options):
    def scores(images):
        if options.image_size == 13:
            raise SystemExit(3)
        return [[1 / options.batch_size, 0] for _ in images] if options.image_size != 12 else missing
    return scores, ["cat", "dog"]

def optional(options=None):
    return (lambda images: np.full((len(images), 2), options.weights.stat().st_size)), ["cat", "dog"]

def deaf():
    return (lambda images: np.zeros((len(images), 2))), ["cat", "dog"]

def leaves(options):
    print("in the factory")
    sys.exit(0)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mine.py"
    path.write_text(FILE)
    return path


def _line(text: str) -> int:
    return next(number for number, line in enumerate(FILE.splitlines(), start=1) if text in line)


def test_leaving_is_a_failure_of_that_model(mine: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelFailed, match=r"SystemExit in line \d+: the file called exit \(code 0\)"):
        load_model("py:mine.py:leaves", OPTIONS)
    (tmp_path / "exits.py").write_text("import argparse\nargparse.ArgumentParser().parse_args(['--no'])\n")
    with pytest.raises(ModelFailed, match=r"SystemExit in line 2: the file called exit \(code 2\)"):
        load_model("py:exits.py:make", OPTIONS)
    for factory, text in (("Object", "sys.exit(0)"), ("pair", "raise SystemExit")):
        model: Any = load_model(f"py:mine.py:{factory}", LoadOptions(device="cpu", label_space=PETS, image_size=13))
        with pytest.raises(Exception, match=rf"called exit .*\(line {_line(text)} of mine.py\)") as caught:
            model.forward([model.prepare(IMAGE)])
        assert type(caught.value).__name__ == "SystemExit"


def test_ctrl_c_stays_ctrl_c(mine: Path) -> None:
    model: Any = load_model("py:mine.py:Object", LoadOptions(device="cpu", label_space=PETS, image_size=14))
    with pytest.raises(KeyboardInterrupt):
        model.forward([model.prepare(IMAGE)])


def test_everything_that_can_change_the_answers_is_in_the_spec(mine: Path, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("{}")
    ways: list[dict[str, Any]] = [{}, {"image_size": 64}, {"precision": "bfloat16"}, {"settings": tmp_path / "s.json"}]
    for factory in ("Object", "pair"):
        specs = [load_model(f"py:mine.py:{factory}", LoadOptions(label_space=PETS, **way)).spec for way in ways]
        (tmp_path / "w.bin").write_bytes(b"one")
        specs.append(load_model(f"py:mine.py:{factory}@w.bin", OPTIONS).spec)
        (tmp_path / "w.bin").write_bytes(b"two")
        specs.append(load_model(f"py:mine.py:{factory}@w.bin", OPTIONS).spec)
        (tmp_path / "s.json").write_text('{"a": 1}')
        specs.append(load_model(f"py:mine.py:{factory}", LoadOptions(label_space=PETS, **ways[3])).spec)
        (tmp_path / "s.json").write_text("{}")
        mine.write_text(FILE + "# changed\n")
        specs.append(load_model(f"py:mine.py:{factory}", OPTIONS).spec)
        mine.write_text(FILE)
        keys = {json.dumps([spec.weights, dict(spec.preprocessing)], sort_keys=True) for spec in specs}
        assert len(keys) == len(specs)


def test_the_file_after_at_reaches_the_factory_or_is_refused(mine: Path, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"seven..")
    model: Any = load_model("py:mine.py:optional@w.bin", OPTIONS)
    assert model.spec.name == "py:mine.py:optional@w.bin"
    assert model.forward([IMAGE]).tolist() == [[7, 7]]
    with pytest.raises(StrobeError, match="takes no options"):
        load_model("py:mine.py:deaf@w.bin", OPTIONS)
    with pytest.raises(StrobeError, match="takes no options"):
        load_model("py:mine.py:deaf", LoadOptions(settings=tmp_path / "w.bin"))


def test_a_plain_object_is_filled_in_and_its_own_word_is_heard(mine: Path) -> None:
    mine.write_text(
        "from dataclasses import dataclass\n"
        "from strobe.core.records import ModelSpec\n"
        "from strobe.models.plan import AsDecoded\n"
        "@dataclass(frozen=True)\n"
        "class Own(AsDecoded):\n"
        "    pass\n"
        "class Plain:\n"
        "    def __init__(self, options):\n"
        "        self.spec = ModelSpec(name='o', provider='py', task='classification', weights='0' * 64,\n"
        "                              label_space=options.label_space)\n"
        "    def prepare(self, image): return image\n"
        "    def forward(self, prepared): return [[0, 1]] * len(prepared)\n"
        "class Said(Plain):\n"
        "    device, lanes, preparation = 'cuda:1', 2, AsDecoded()\n"
        "class OfItsOwn(Said):\n"
        "    preparation = Own()\n"
    )
    plain = load_model("py:mine.py:Plain", OPTIONS)
    assert (plain.device, plain.lanes, plain.preparation) == ("cpu", 1, None)
    said = load_model("py:mine.py:Said", OPTIONS)
    assert (said.device, said.lanes, said.preparation) == ("cuda:1", 2, AsDecoded())
    assert load_model("py:mine.py:OfItsOwn", OPTIONS).preparation is None, "no other process knows its class"


MODULES = """\
import torch
from torchvision import transforms
from torchvision.transforms import Compose
SIZE = transforms.Compose([transforms.Resize((8, 8)), transforms.ToTensor()])
torch.manual_seed(0)
NET = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 2))

def alone():
    import timm
    torch.manual_seed(0)
    return timm.create_model("test_resnet", num_classes=2)

def pair():
    return NET, SIZE

def named():
    return NET, SIZE, ["dog", "cat"]

def swapped():
    return NET, ["dog", "cat"], SIZE

def bare():
    return NET

def many():
    return NET, SIZE, ["dog", "cat"], 3
"""


def test_a_factory_may_return_a_torch_module(tmp_path: Path) -> None:

    (tmp_path / "nets.py").write_text(MODULES)
    image = np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8)

    def load(factory: str) -> Any:
        return load_model(f"py:{tmp_path}/nets.py:{factory}", OPTIONS)

    model = load("pair")
    assert (model.spec.label_space, model.spec.provider, model.lanes) == (PETS, "py", cpu_lanes())
    assert {"plugin_sha256", "transform"} <= set(model.spec.preprocessing)
    scores = model.forward([model.prepare(image)])
    assert np.asarray(scores).shape == (1, 2)
    for factory in ("named", "swapped"):
        other = load(factory)
        assert other.spec.label_space.names == ("dog", "cat")
        np.testing.assert_array_equal(other.forward([other.prepare(image)]), scores)
    assert isinstance(load("alone"), Differentiable)
    with pytest.raises(
        ModelFailed,
        match="bare: Sequential does not declare its preprocessing; return it with a transform: net, transform",
    ):
        load("bare")
    with pytest.raises(ModelFailed, match=r"expected \(module, transform, classes\), got 4 values"):
        load("many")
    with pytest.raises(UnknownName, match=r"did you mean pair\? \(it has .*\)$") as caught:
        load("pairs")
    assert "Compose" not in str(caught.value), "what the file only imported is no factory of its"


def test_a_plain_transform_is_named_where_gradients_are_asked_for(tmp_path: Path) -> None:
    """Before, a torch module with a transform was "a model without gradients"."""
    (tmp_path / "nets.py").write_text(MODULES)
    with pytest.raises(
        ModelFailed, match=r"does not declare the size and normalisation of its input; give strobe\.ImagePlan"
    ):
        with_gradients(load_model(f"py:{tmp_path}/nets.py:pair", OPTIONS))
    plan = "from strobe import ImagePlan\ndef planned():\n    return NET, ImagePlan(size_hw=(8, 8))\n"
    (tmp_path / "nets.py").write_text(MODULES + plan)
    assert with_gradients(load_model(f"py:{tmp_path}/nets.py:planned", OPTIONS)).input_hw == (8, 8)
