"""What is shipped for the study of the background: small, good at home, and only one of them looks at the ground."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from strobe.models import strobe_net
from strobe.models.detectors import tiny
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.synthetic.classes import LABEL_SPACE
from strobe.synthetic.sets import SyntheticOptions, synthetic_dataset
from strobe.synthetic.world import WorldOptions

CPU = LoadOptions(device="cpu")
CLASSIFIERS = ("strobe-ground", "strobe-object")
WORLD = WorldOptions(size=64, frames=1, distractors=1, occluders=0, object_scale=(0.2, 0.8))


@cache
def pictures(ground: str) -> tuple[np.ndarray, np.ndarray]:
    """The same objects at home or away, and their classes."""
    world = replace(WORLD, background_correlation={"home": 1.0, "away": -1.0}[ground])
    made = synthetic_dataset(SyntheticOptions(world=world, videos=240, seed=97))
    return made.source().all(), made.dataset.labels.label.astype(np.int64)


@cache
def right(name: str, ground: str) -> float:
    frames, truth = pictures(ground)
    model = load_model(name, CPU)
    if name in CLASSIFIERS:
        scores = model.forward([model.prepare(frame) for frame in frames])
        return float((np.asarray(scores).argmax(axis=1) == truth).mean())
    found = model.forward([model.prepare(frame) for frame in frames])
    best = [int(one.label[one.score.argmax()]) if len(one.label) else -1 for one in found]
    return float((np.array(best) == truth).mean())


@pytest.mark.parametrize("name", [*CLASSIFIERS, "strobe-ground-boxes"])
def test_it_is_small_and_knows_the_world_at_home(name: str) -> None:
    detectors = Path(tiny.__file__).parent / "data"
    file = strobe_net.shipped_file(name) if name in CLASSIFIERS else detectors / f"{name}.safetensors"
    assert file.stat().st_size <= 1.2e6
    spec = load_model(name, CPU).spec
    assert (spec.name, spec.label_space) == (name, LABEL_SPACE)
    assert right(name, "home") >= 0.78


def test_one_looks_at_the_ground_and_the_other_does_not() -> None:
    ground, thing = (right(name, "home") - right(name, "away") for name in CLASSIFIERS)
    assert ground >= 0.15
    assert abs(thing) <= 0.05
