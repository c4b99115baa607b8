"""--compile: the same answers but for rounding, under a key of their own, and a line where it cannot be."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

from strobe.core.errors import StrobeError
from strobe.core.labels import LabelSpace
from strobe.models.cores import sharing_cores
from strobe.models.options import LoadOptions, ModelName
from strobe.models.plan import ImagePlan
from strobe.models.torch_classifier import TorchClassifier, classifier_of


class Small(torch.nn.Module):
    """A convolution; with `looks`, one that looks at what it computes, which no compiler takes whole."""

    def __init__(self, *, looks: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.looks = torch.nn.Conv2d(3, 4, 3), looks

    def forward(self, pixels: Any) -> Any:
        found = self.layer(pixels).relu().mean(dim=(2, 3))
        return found + 1 if self.looks and found.sum() > 0 else found


def _made(module: Any, heard: Any, *, compile_: bool) -> TorchClassifier:
    options = LoadOptions(device="cpu", batch_size=4, compile=compile_, progress=heard)
    space = LabelSpace.of_names("four", list("abcd"))
    plan = ImagePlan(size_hw=(16, 16), resize=16)
    return classifier_of(module, ModelName("timm", "small"), plan=plan, label_space=space, options=options)


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch compiles for a CPU by g++")
def test_the_same_answers_under_another_key(heard: Any) -> None:
    plain, quick = (_made(Small(), heard, compile_=compile_) for compile_ in (False, True))
    (said,) = heard.lines
    assert said.startswith("timm:small: compiled in ")
    assert "a batch of 4 takes" in said
    assert quick.spec.preprocessing == {**plain.spec.preprocessing, "compiled": True}
    rng = np.random.default_rng(0)
    batches = [[rng.integers(0, 256, (16, 16, 3), dtype=np.uint8) for _ in range(n)] for n in (4, 1, 3, 4)]
    compiled = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    with sharing_cores([quick]), ThreadPoolExecutor(2) as lanes:
        for batch, found in zip(batches, lanes.map(quick.forward, batches), strict=True):
            assert found.shape == (len(batch), 4)
            np.testing.assert_allclose(found, plain.forward(batch), atol=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == compiled, "batches that are not full are filled up"


def test_what_cannot_be_compiled_runs_as_it_is_and_that_is_said(heard: Any) -> None:
    plain, same = (_made(Small(looks=True), heard, compile_=compile_) for compile_ in (False, True))
    (said,) = heard.lines
    assert said.startswith("timm:small: the model runs uncompiled: torch cannot compile this network (")
    assert same.spec == plain.spec, "so its answers lie under the key they have without --compile"
    batch = [np.full((16, 16, 3), 90, dtype=np.uint8)]
    np.testing.assert_array_equal(same.forward(batch), plain.forward(batch))
    with pytest.raises(
        StrobeError, match="--compile: expected no --backend together with --compile, got 'onnxruntime'"
    ):
        LoadOptions(compile=True, backend="onnxruntime")
