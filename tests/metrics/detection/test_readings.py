"""Other ways to read boxes and classes: each is seen where it fits far better, and an honest detector never is."""

import numpy as np
import pytest

from strobe.metrics.detection.readings import BoxSample, class_order, misread, named_objects


def world(n: int = 80, objects: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """True boxes in images of 200×150, frames, and the boxes of a good detector: a few pixels off, some missing."""
    rng = np.random.default_rng(seed)
    low = np.stack([rng.uniform(0, 140, n * objects), rng.uniform(0, 100, n * objects)], axis=1)
    true = np.concatenate([low, low + rng.uniform(20, 50, (n * objects, 2))], axis=1)
    return true, np.repeat(np.arange(n), objects), true + rng.normal(0, 1.5, true.shape)


def sample(box: np.ndarray, frame: np.ndarray, true: np.ndarray, true_frame: np.ndarray) -> BoxSample:
    sizes = np.tile([200.0, 150.0], (int(true_frame.max()) + 1, 1))
    return BoxSample.of(box, frame, np.ones(len(box)), true, true_frame, sizes)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda box: box * 2, "multiplied by 0.5"),
        (lambda box: box / 2, "multiplied by 2"),
        (lambda box: box / [200, 150, 200, 150], "multiplied by the image's size"),
        (lambda box: box[:, [1, 0, 3, 2]], "read as yxyx"),
        (lambda box: np.concatenate([box[:, :2], box[:, 2:] - box[:, :2]], axis=1), "read as xywh"),
        (lambda box: box[:, [1, 0, 3, 2]] * 2, "read as yxyx and multiplied by 0.5"),
    ],
)
def test_another_reading_is_named(change, text):
    true, frame, box = world()
    found = misread(sample(change(box), frame, true, frame), "xyxy")
    assert found is not None
    assert found.text == text
    assert found.fit > 0.7 > 0.5 > found.taken


def test_boxes_in_pixels_of_another_input_are_seen():
    """A model that looks at 640×640 and does not go back to the image of 200×150."""
    true, frame, box = world(objects=1)
    found = misread(sample(box * [3.2, 640 / 150, 3.2, 640 / 150], frame, true, frame), "xyxy")
    assert found is not None
    assert found.text == "multiplied by about 0.31 (x) and 0.23 (y)"
    for factor, text in ((1.7, "about 0.59 (x) and 1.7 (y)"), (1 / 1.7, "about 1.7 (x) and 0.59 (y)")):
        stretched = misread(sample(box * [factor, 1 / factor, factor, 1 / factor], frame, true, frame), "xyxy")
        assert stretched is not None
        assert stretched.text == f"multiplied by {text}"


@pytest.mark.parametrize("seed", range(20))
def test_honest_detectors_are_left_alone(seed):
    """Good ones, bad ones, boxes anywhere, one box for all, hundreds of guesses: no reading fits them far better."""
    true, frame, box = world(seed=seed)
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 120, (len(box), 2))
    anywhere = np.concatenate([low, low + rng.uniform(5, 60, (len(box), 2))], axis=1)
    many = np.tile(anywhere, (10, 1)) + rng.uniform(-40, 40, (10 * len(box), 4))
    many = np.concatenate([np.minimum(many[:, :2], many[:, 2:]), np.maximum(many[:, :2], many[:, 2:])], axis=1)
    poor = box + rng.normal(0, 12, box.shape)
    constant = np.tile([50.0, 40, 120, 100], (len(box), 1))
    for one in (box, poor, anywhere, constant):
        assert misread(sample(one, frame, true, frame), "xyxy") is None
    assert misread(sample(many, np.tile(frame, 10), true, frame), "xyxy") is None


def test_too_few_frames_decide_nothing():
    true, frame, box = world(n=4)
    assert misread(sample(box * 2, frame, true, frame), "xyxy") is None
    assert misread(sample(np.zeros((0, 4)), np.zeros(0, dtype=int), true, frame), "xyxy") is None


def test_the_most_confident_box_names_its_object():
    """A detector that lists every class at one place is judged by the one it is surest of."""
    true, frame, box = world(objects=1)
    label = np.arange(len(true)) % 4
    every = np.tile(np.arange(4), len(true))
    score = np.where(every == np.repeat(label, 4), 0.9, 0.1)
    rows, objects = named_objects(np.repeat(box, 4, axis=0), np.repeat(frame, 4), score, true, frame)
    assert len(rows) == len(true)
    found = class_order(every[rows], every[rows], label[objects])
    assert found.right == 1.0
    assert not found.is_other
    assert not found.is_none


def test_an_order_taken_for_another_is_seen_and_confusion_is_not():
    rng = np.random.default_rng(0)
    true = rng.integers(0, 6, 200)
    moved = (true + 2) % 6
    assert class_order(moved, moved, true).is_other
    half = np.where(rng.random(200) < 0.6, true, rng.integers(0, 6, 200))
    assert not class_order(half, half, true).is_other
    one = np.zeros(200, dtype=int)
    assert not class_order(one, one, true).is_other, "one answer to everything is no order"
    swapped = np.where(true == 0, 1, np.where(true == 1, 0, true))
    assert not class_order(swapped, swapped, true).is_other, "two confused classes are a model's own fault"
    wrong = (true + rng.integers(1, 6, 200)) % 6
    assert class_order(wrong, wrong, true).is_none
    assert not class_order(moved[:10], moved[:10], true[:10]).is_other, "ten objects are too few"


def test_no_answer_is_no_order_of_classes():
    none = class_order(*np.zeros((3, 0), dtype=int))
    assert (none.n, none.right, none.renamed, none.means) == (0, 0.0, 0.0, ())
