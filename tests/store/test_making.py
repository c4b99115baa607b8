"""Who builds a dataset in which a model has nothing to choose is told so."""

import pytest

from strobe.core.labels import LabelSpace
from strobe.store.making import advice_on_classes


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
