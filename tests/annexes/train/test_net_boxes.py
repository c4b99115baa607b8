"""One backbone as classifier and as detector: strobe-net-small's stages under a head of cells."""

from pathlib import Path

import torch

from strobe.annexes.train.detectors import train_detector
from strobe.core.ports import Silent
from strobe.models.detectors.tiny_net import NetBoxes
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.models.strobe_net_layers import network
from strobe.synthetic.sets import SyntheticOptions, synthetic_dataset
from strobe.synthetic.world import WorldOptions
from strobe.train.recipe import find
from strobe.workflows.options import TrainOptions
from strobe.workflows.train_job import Material

CPU = LoadOptions(device="cpu")


def test_it_shares_the_classifiers_stages_and_looks_at_every_cell() -> None:
    detector, classifier = NetBoxes(12), network("strobe-net-small", 12)
    stages = {name: tensor.shape for name, tensor in classifier.state_dict().items() if not name.startswith("fc.")}
    own = {name: tensor.shape for name, tensor in detector.state_dict().items()}
    assert stages.items() <= own.items()
    logits, distances = detector(torch.zeros(2, 3, 64, 64))
    assert logits.shape == (2, 12, 8, 8)
    assert distances.shape == (2, 4, 8, 8)
    assert (distances > 0).all()


def test_it_is_trained_on_a_dataset_and_finds_what_it_saw(tmp_path: Path) -> None:
    world = WorldOptions(size=64, frames=1, distractors=0, occluders=0, object_scale=(0.4, 0.6), noise=0.0)
    made = synthetic_dataset(SyntheticOptions(world=world, videos=12, seed=3))
    material = Material(dataset=made.dataset, source=made.source())
    recipe = find("detector", changes=["steps=70", "batch=12", "learning_rate=5e-3"], model="strobe-net-boxes")
    options = TrainOptions(threads=1, evaluations=1, device="cpu")
    done = train_detector(
        recipe, material, "strobe-net-boxes", tmp_path / "run", options, Silent(), held_out=_unseen(world)
    )
    found = load_model(f"strobe-net-boxes@{done.weights}", CPU)
    assert found.spec.preprocessing["size"] == 64
    seen = found.forward([found.prepare(made.source().read(row)) for row in range(12)])
    truth = made.dataset.labels.label
    named = sum(len(one.label) > 0 and int(one.label[one.score.argmax()]) == truth[row] for row, one in enumerate(seen))
    assert named >= 10


def _unseen(world: WorldOptions) -> Material:
    made = synthetic_dataset(SyntheticOptions(world=world, videos=12, seed=4))
    return Material(dataset=made.dataset, source=made.source())
