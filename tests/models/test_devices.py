"""Where models run: the number of a device is kept, and cores are shared by all that run torch on them."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from strobe.core.errors import StrobeError, UnknownName
from strobe.models.cores import sharing_cores
from strobe.models.onnx_files import open_session
from strobe.models.options import LoadOptions, torch_setup


def _model(device: str, lanes: int = 1) -> Any:
    return SimpleNamespace(device=device, lanes=lanes)


class _Runtime(ModuleType):
    """An onnxruntime that has CUDA, with or without a driver that works."""

    works = True

    def get_available_providers(self) -> list[str]:
        return ["CUDAExecutionProvider", "CPUExecutionProvider"]

    def SessionOptions(self) -> Any:
        return SimpleNamespace()

    def InferenceSession(self, path: str, settings: Any, providers: list[Any]) -> Any:
        names = [one if isinstance(one, str) else one[0] for one in providers]
        return SimpleNamespace(asked=providers, get_providers=lambda: names if self.works else names[-1:])


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> _Runtime:
    made = _Runtime("onnxruntime")
    monkeypatch.setitem(sys.modules, "onnxruntime", made)
    return made


@pytest.mark.parametrize(
    ("asked", "device", "number"), [("cuda:1", "cuda:1", 1), ("cuda", "cuda", 0), ("auto", "cuda", 0)]
)
def test_onnx_runs_on_the_device_of_that_number(asked: str, device: str, number: int, runtime: _Runtime) -> None:
    session, where = open_session(Path("m.onnx"), LoadOptions(device=asked))
    assert where == device
    assert session.asked == [("CUDAExecutionProvider", {"device_id": number}), "CPUExecutionProvider"]


def test_onnx_without_a_working_device_says_so_where_it_was_asked_for(runtime: _Runtime) -> None:
    runtime.works = False
    assert open_session(Path("m.onnx"), LoadOptions(device="auto"))[1] == "cpu"
    assert open_session(Path("m.onnx"), LoadOptions(device="cpu"))[0].asked == ["CPUExecutionProvider"]
    with pytest.raises(StrobeError, match="could not start CUDA for cuda:1"):
        open_session(Path("m.onnx"), LoadOptions(device="cuda:1"))


def test_a_device_keeps_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert torch_setup(LoadOptions(device="cuda:1")).device == "cuda:1"
    assert torch_setup(LoadOptions(device="cpu:0")).device == "cpu", "there is one, and it is scheduled as such"
    with pytest.raises(StrobeError, match="this machine has 2"):
        torch_setup(LoadOptions(device="cuda:2"))


@pytest.mark.parametrize("device", ["cuda:", "cuda:x", "gpu", "CPU", ""])
def test_a_device_there_is_none_of_is_refused_whatever_runs_there(device: str) -> None:
    with pytest.raises(UnknownName, match=f"unknown device '{device}'.*auto, cpu, cuda, cuda:1 or mps"):
        LoadOptions(device=device)


def test_threads_are_shared_by_what_runs_on_the_cores() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        for models, want in (
            ([_model("cpu", 4)], 1),
            ([_model("cpu", 2), _model("cpu")], 2),
            ([_model("cpu")], 4),  # a detector alone: all threads are its own
            ([_model("cuda:1")], 1),
            ([_model("cuda:1"), _model("cpu", 2)], 2),
        ):
            with sharing_cores(models):
                assert torch.get_num_threads() == want
            assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)
