"""From a model's classes to the dataset's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from strobe.core.errors import StrobeError
from strobe.core.labels import LabelSpace, confidence_of, projection, space
from strobe.core.records import Detections
from strobe.predict.projecting import own_best, project_detections, projection_between


def test_the_same_classes_are_left_alone() -> None:
    pets = LabelSpace.of_names("pets", ["cat", "dog"])
    assert projection_between(pets, LabelSpace.of_names("other name", ["cat", "dog"])).children == ((0,), (1,))


def test_shipped_spaces_use_the_shipped_map() -> None:
    assert projection_between(space("ilsvrc-2012"), space("imagenet-vid")) == projection("ilsvrc-2012", "imagenet-vid")


def test_a_borrowed_name_is_matched_by_its_classes() -> None:
    fake = LabelSpace.of_names("ilsvrc-2012", ["airplane", "zebra"])
    found = projection_between(fake, space("imagenet-vid"))
    names = [space("imagenet-vid").names[place] for place, group in enumerate(found.children) if group]
    assert names == ["airplane", "zebra"]


def test_ids_then_names_then_nothing() -> None:
    target = LabelSpace(name="t", ids=("n01", "n02", "n03", "n04"), names=("Tabby cat", "dog, hound", "fox", "owl"))
    source = LabelSpace(name="s", ids=("n02", "a", "b"), names=("whatever", "tabby_cat", "kit fox, fox"))
    assert projection_between(source, target).children == ((1,), (0,), (2,), ())


def test_no_class_in_common_is_one_line() -> None:
    with pytest.raises(StrobeError, match="no class of the model"):
        projection_between(LabelSpace.of_names("a", ["x", "y"]), LabelSpace.of_names("b", ["p"]))


def test_boxes_of_unmapped_classes_are_dropped_and_counted() -> None:
    found = projection_between(LabelSpace.of_names("a", ["x", "dog"]), LabelSpace.of_names("b", ["dog", "cat"]))
    boxes = Detections(xyxy=np.zeros((3, 4)), label=np.array([0, 1, 0], dtype=np.int32), score=np.arange(3.0))
    kept, dropped = project_detections(boxes, found)
    assert (kept.label.tolist(), kept.score.tolist(), dropped) == ([0], [1.0], 2)


@given(hnp.arrays(np.float32, (3, 5), elements=st.floats(-50, 50, width=32)))
def test_own_best_is_the_softmax_of_the_best(scores: np.ndarray) -> None:
    label, confidence = own_best(scores, kind="logits")
    reference = confidence_of(scores.astype(np.float64), kind="logits")
    assert label.tolist() == scores.argmax(axis=1).tolist()
    np.testing.assert_allclose(confidence, reference.max(axis=1), rtol=1e-5)
