"""Letterboxing and the way back, to the pixel; non-maximum suppression against torchvision's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strobe.models.detectors.boxes import class_nms, detections, nms, place


def test_letterbox_by_hand(real):
    image = real.scene(100, 50, (10, 10, 30, 40), colour=(255, 255, 255))
    pixels, placement = place(image, (100, 100))
    assert pixels.shape == (100, 100, 3)
    assert placement.scale_xy == (1.0, 1.0)
    assert placement.pad_xy == (0, 25)
    assert (pixels[:25] == 114).all()
    assert (pixels[75:] == 114).all()
    assert (pixels[35:65, 10:30] == 255).all()
    np.testing.assert_array_equal(placement.to_image(np.array([[10.0, 35.0, 30.0, 65.0]])), [[10, 10, 30, 40]])
    pixels, placement = place(image, (64, 64), fit="letterbox-top-left")
    assert placement.pad_xy == (0, 0)
    assert placement.scale_xy == (0.64, 0.64)
    assert (pixels[32:] == 114).all()
    pixels, placement = place(image, (20, 200), fit="stretch")
    assert pixels.shape == (20, 200, 3)
    assert placement.scale_xy == (2.0, 0.4)


@settings(deadline=None, max_examples=60)
@given(
    width=st.integers(20, 300),
    height=st.integers(20, 300),
    size=st.tuples(st.sampled_from([64, 96, 160]), st.sampled_from([64, 96, 160])),
    fit=st.sampled_from(["letterbox", "letterbox-top-left", "stretch"]),
    data=st.data(),
)
def test_a_drawn_box_comes_back_within_a_pixel_of_the_input(width, height, size, fit, data):
    """A rectangle is drawn, the image placed, the rectangle found again in the pixels and sent back."""
    x0, y0 = data.draw(st.integers(0, width - 11)), data.draw(st.integers(0, height - 11))
    x1, y1 = data.draw(st.integers(x0 + 10, width)), data.draw(st.integers(y0 + 10, height))
    image = np.zeros((height, width, 3), dtype=np.uint8)
    image[y0:y1, x0:x1] = 255
    pixels, placement = place(image, size, fit=fit)
    assert pixels.shape == (*size, 3)
    mask = pixels.min(axis=2) > 127
    if not mask.any():
        return  # smaller than a pixel of the input
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    seen = np.array([[columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]], dtype=float)
    back = placement.to_image(seen)[0]
    tolerance = np.array([*(1 / s for s in placement.scale_xy)] * 2) + 1e-9
    assert (np.abs(back - [x0, y0, x1, y1]) <= np.maximum(tolerance, 1.0)).all()
    exact = np.array([[x0, y0, x1, y1]], dtype=float)
    np.testing.assert_allclose(placement.to_image(placement.to_input(exact)), exact, atol=1e-9)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.3, 0.5, 0.7]))
def test_nms_is_torchvisions(seed, iou):
    import torch
    from torchvision.ops import batched_nms
    from torchvision.ops import nms as reference

    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, 60))
    corner = rng.uniform(0, 40, (n, 2))
    xyxy = np.concatenate([corner, corner + rng.uniform(1, 30, (n, 2))], axis=1)
    score, label = rng.permutation(n) / max(n, 1), rng.integers(0, 3, n)
    tensors = torch.from_numpy(xyxy), torch.from_numpy(score)
    assert nms(xyxy, score, iou=iou).tolist() == reference(*tensors, iou).tolist()
    expected = batched_nms(*tensors, torch.from_numpy(label), iou).tolist()
    assert class_nms(xyxy, score, label, iou=iou, most=1000).tolist() == expected
    assert class_nms(xyxy, score, label, iou=iou, most=3).tolist() == expected[:3]


def test_ties_keep_their_order_and_empty_input_is_fine():
    box = np.array([[0.0, 0.0, 4.0, 4.0]] * 3)
    assert nms(box, np.ones(3), iou=0.5).tolist() == [0]
    assert nms(np.zeros((0, 4)), np.zeros(0), iou=0.5).tolist() == []


def test_detections_drop_what_has_no_area_or_is_not_finite():
    xyxy = np.array([[0, 0, 4, 4], [3, 3, 3, 9], [0, 0, np.nan, 1], [1, 1, 2, 2]])
    found = detections(xyxy, np.array([0, 1, 2, 3]), np.array([0.1, 0.9, 0.9, 0.5]))
    assert found.label.tolist() == [3, 0]
    assert found.score.tolist() == [0.5, 0.1]


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 500, 3), (500, 1, 3)])
def test_slivers_do_not_vanish(shape):
    pixels, placement = place(np.zeros(shape, dtype=np.uint8), (32, 32))
    assert pixels.shape == (32, 32, 3)
    assert min(placement.scale_xy) > 0
