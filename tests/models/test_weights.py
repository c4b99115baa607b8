"""Weights from disk: what is read, what is refused, and in what words."""

import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from strobe.core.errors import InvalidFile, StrobeError
from strobe.models.weights import classes_of_state, digest_of_state, read_state


@pytest.fixture
def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))


class _Evil:
    """Runs code when unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.marker}",)


def test_safetensors_and_pickles_hold_the_same_weights(net: torch.nn.Module, tmp_path: Path) -> None:
    save_file(net.state_dict(), str(tmp_path / "a.safetensors"))
    torch.save(net.state_dict(), tmp_path / "b.pth")
    torch.save({"state_dict": {f"module.{k}": v for k, v in net.state_dict().items()}, "epoch": 3}, tmp_path / "c.pth")
    digests = {digest_of_state(read_state(tmp_path / name)) for name in ("a.safetensors", "b.pth", "c.pth")}
    assert digests == {digest_of_state(net.state_dict())}


def test_a_pickle_that_runs_code_is_refused_and_does_not_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    for place, content in enumerate((_Evil(marker), {"fc.bias": _Evil(marker)}, [torch.zeros(3), _Evil(marker)])):
        path = tmp_path / f"evil{place}.pth"
        torch.save(content, path)
        with pytest.raises(InvalidFile, match="would run code") as caught:
            read_state(path)
        assert "--trust" in str(caught.value)
        assert not marker.exists()
    raw = tmp_path / "raw.pkl"
    raw.write_bytes(pickle.dumps(_Evil(marker)))
    with pytest.raises(StrobeError):
        read_state(raw)
    assert not marker.exists()


def test_trust_reads_a_whole_pickled_module(net: torch.nn.Module, tmp_path: Path) -> None:
    torch.save(net, tmp_path / "module.pth")
    with pytest.raises(InvalidFile, match="would run code"):
        read_state(tmp_path / "module.pth")
    state = read_state(tmp_path / "module.pth", trust=True)
    assert digest_of_state(state) == digest_of_state(net.state_dict())


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("page.pth", b"<!DOCTYPE html><html>not found</html>", "web page"),
        ("pointer.pth", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "pointer"),
        ("noise.pth", bytes(range(256)) * 4, "not a weights file"),
        ("empty.pth", b"", "not a weights file: it is empty"),
        ("noise.safetensors", b"\x08\x00\x00\x00\x00\x00\x00\x00{broken!", "not a safetensors file"),
    ],
)
def test_files_that_are_no_weights(name: str, content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidFile, match=says) as caught:
        read_state(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_no_file_a_folder_and_no_tensors(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="no such file"):
        read_state(tmp_path / "nothing.pth")
    with pytest.raises(InvalidFile, match="folder"):
        read_state(tmp_path)
    torch.save({"epoch": 3}, tmp_path / "none.pth")
    with pytest.raises(InvalidFile, match="no tensors"):
        read_state(tmp_path / "none.pth")


def test_classes_are_read_off_the_last_layer() -> None:
    layers = {"classifier.3.bias": 512, "classifier.10.weight": 7, "classifier.9.bias": 30, "aux.fc.bias": 9}
    assert classes_of_state({name: torch.zeros(size, 2) for name, size in layers.items()}) == 7
    assert classes_of_state({"backbone.weight": torch.zeros(3)}) is None
