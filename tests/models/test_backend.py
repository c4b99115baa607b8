"""--backend onnxruntime: the same answers as torch's, under a key of their own, and a line where it cannot be."""

import numpy as np
import pytest

from strobe.core.errors import StrobeError
from strobe.engine.loading import load_runner
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model

PLAIN, QUICK = LoadOptions(device="cpu"), LoadOptions(device="cpu", backend="onnxruntime")


def test_the_same_answers_under_another_key() -> None:
    space = load_model("strobe-world", PLAIN).spec.label_space
    ours, theirs = (load_runner("m", "strobe-world", options, space, merge="max").model for options in (PLAIN, QUICK))
    assert "backend" not in ours.spec.preprocessing
    assert theirs.spec.preprocessing == {**ours.spec.preprocessing, "backend": "onnxruntime"}
    assert theirs.spec.weights == ours.spec.weights
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (70, 90, 3), dtype=np.uint8) for _ in range(7)]
    a, b = (model.forward([model.prepare(one) for one in images]) for model in (ours, theirs))
    np.testing.assert_allclose(a, b, atol=1e-3)
    assert (a.argmax(axis=1) == b.argmax(axis=1)).all()
    np.testing.assert_allclose(theirs.forward([theirs.prepare(images[0])]), b[:1], atol=1e-4)


def test_what_it_cannot_run_is_refused_in_a_line() -> None:
    space = load_model("strobe-tiny", PLAIN).spec.label_space
    with pytest.raises(StrobeError, match="strobe-tiny: --backend onnxruntime only works with torch classifiers"):
        load_runner("strobe-tiny", "strobe-tiny", QUICK, space, merge="max")
    half = LoadOptions(device="cpu", backend="onnxruntime", precision="bfloat16")
    with pytest.raises(StrobeError, match="in float32"):
        load_runner("m", "strobe-world", half, space, merge="max")
    with pytest.raises(StrobeError, match="backend: expected one of torch, onnxruntime"):
        LoadOptions(backend="paper")
