"""A model's answers as answers in the dataset's classes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from strobe.core.labels import LabelSpace, confidence_of
from strobe.core.projections import projection_between
from strobe.core.records import Detections
from strobe.engine.forward import own_best, project_detections


def test_boxes_of_unmapped_classes_keep_their_own_below_zero() -> None:
    found = projection_between(LabelSpace.of_names("a", ["x", "dog"]), LabelSpace.of_names("b", ["dog", "cat"]))
    boxes = Detections(xyxy=np.zeros((3, 4)), label=np.array([0, 1, 0], dtype=np.int32), score=np.arange(3.0))
    kept = project_detections(boxes, found)
    assert (kept.label.tolist(), kept.score.tolist()) == ([-1, 0, -1], [0.0, 1.0, 2.0])


@given(hnp.arrays(np.float32, (3, 5), elements=st.floats(-50, 50, width=32)))
def test_own_best_is_the_softmax_of_the_best(scores: np.ndarray) -> None:
    label, confidence = own_best(scores, kind="logits")
    reference = confidence_of(scores.astype(np.float64), kind="logits")
    assert label.tolist() == scores.argmax(axis=1).tolist()
    np.testing.assert_allclose(confidence, reference.max(axis=1), rtol=1e-5)
