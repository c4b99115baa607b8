"""Who builds a dataset in which a model has nothing to choose is told so."""

import numpy as np
import pytest
from PIL import Image

from strobe.build.options import CameraOptions
from strobe.core.labels import LabelSpace, space
from strobe.store.making import advice_on_classes
from strobe.workflows.options import SimulateOptions
from strobe.workflows.simulate import simulate


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["dog"], "with one class a classifier is never wrong; --label-space imagenet-vid makes it choose among 30"),
        (["flange"], "with one class a classifier is never wrong; add other classes"),
        (["tench", "goldfish"], "a classifier chooses among these 2 classes; --label-space ilsvrc-2012 makes it choose "
                                "among 1,000"),
        (["dog", "giraffe"], "a classifier chooses among these 2 classes; --label-space youtube-bb makes it choose "
                             "among 24"),
        (["flange", "gasket"], None),
    ],
)  # fmt: skip
def test_advice(names, said):
    assert advice_on_classes(LabelSpace.of_names("mine", names)) == said


def test_a_shipped_space_needs_no_advice():
    assert advice_on_classes(space("ilsvrc-2012")) is None


@pytest.mark.parametrize(("label_space", "times"), [(None, 1), ("imagenet-vid", 0)])
def test_simulate_says_it_once(heard, tmp_path, label_space, times):
    (tmp_path / "photos" / "dog").mkdir(parents=True)
    Image.fromarray(np.zeros((64, 64, 3), np.uint8)).save(tmp_path / "photos" / "dog" / "a.png")
    options = SimulateOptions(camera=CameraOptions(k=1, size=32), label_space=label_space, workers=1)
    simulate([tmp_path / "photos"], tmp_path / "out", options, progress=heard)
    assert len([text for text in heard.lines if "never wrong" in text]) == times
