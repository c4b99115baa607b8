"""--backend onnxruntime: the same answers as torch's, under a key of their own, and a line where it cannot be.

The network is strobe-world's with a weights file after @, because such a network is exported from torch.
"""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from strobe.core.errors import StrobeError
from strobe.engine.loading import load_runner
from strobe.models.detectors import tiny
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model
from strobe.models.strobe_net import shipped_file

PLAIN, QUICK = LoadOptions(device="cpu", backend="torch"), LoadOptions(device="cpu", backend="onnxruntime")


OWN = f"strobe-world@{shipped_file('strobe-world')}"


def test_the_same_answers_under_another_key() -> None:
    space = load_model(OWN, PLAIN).spec.label_space
    ours, theirs = (load_runner("m", OWN, options, space, merge="max").model for options in (PLAIN, QUICK))
    assert "backend" not in ours.spec.preprocessing
    version = {"backend": "onnxruntime", "runtime": onnxruntime.__version__, "optimisation": "all"}
    assert theirs.spec.preprocessing == {**ours.spec.preprocessing, **version}
    assert theirs.spec.weights == ours.spec.weights
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (70, 90, 3), dtype=np.uint8) for _ in range(7)]
    a, b = (model.forward([model.prepare(one) for one in images]) for model in (ours, theirs))
    np.testing.assert_allclose(a, b, atol=1e-3)
    assert (a.argmax(axis=1) == b.argmax(axis=1)).all()
    np.testing.assert_allclose(theirs.forward([theirs.prepare(images[0])]), b[:1], atol=1e-4)


def test_what_it_cannot_run_is_refused_in_a_line() -> None:
    space = load_model("strobe-tiny", PLAIN).spec.label_space
    own = f"strobe-tiny@{Path(tiny.__file__).parent / 'data/strobe-tiny.safetensors'}"
    with pytest.raises(StrobeError, match="m: --backend onnxruntime only works in float32, with bundled models, ONNX"):
        load_runner("m", own, QUICK, space, merge="max")
    half = LoadOptions(device="cpu", backend="onnxruntime", precision="bfloat16")
    with pytest.raises(StrobeError, match="only works in float32"):
        load_runner("m", "strobe-world", half, space, merge="max")
    with pytest.raises(StrobeError, match="backend: expected one of auto, torch, onnxruntime"):
        LoadOptions(backend="paper")
