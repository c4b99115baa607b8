"""Programs of torch.export: what they are asked for, and that none of them runs code unless it is trusted."""

import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from strobe.core.errors import StrobeError
from strobe.models.options import LoadOptions
from strobe.models.registry import load_model

SETTINGS = {"mean": [0.5] * 3, "std": [0.2] * 3, "labels": ["cat", "dog"], "interpolation": "bilinear"}
CPU = LoadOptions(device="cpu")


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.last = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(x.mean((2, 3)))


def _saved(folder: Path, *, batch: int | None = None, **said: Any) -> Path:
    torch.manual_seed(0)
    free = None if batch else ({0: torch.export.Dim("n", min=1, max=64)},)
    program = torch.export.export(Net().eval(), (torch.zeros(batch or 2, 3, 8, 8),), dynamic_shapes=free)
    torch.export.save(program, folder / "net.pt2")
    (folder / "net.json").write_text(json.dumps({**SETTINGS, **said}))
    return folder / "net.pt2"


def _changed(path: Path, entry: str, change: Any) -> Path:
    """The same archive with one entry replaced by what `change` makes of it, or added."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    root = next(iter(content)).partition("/")[0]
    content[f"{root}/{entry}"] = change(content.get(f"{root}/{entry}", b""))
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path


def test_scores_are_the_programs_own(tmp_path: Path) -> None:
    model: Any = load_model(f"pt2:{_saved(tmp_path)}", CPU)
    images = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)
    torch.manual_seed(0)
    pixels = (torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.2
    want = Net()(pixels).detach().numpy()
    np.testing.assert_allclose(model.forward([model.prepare(image) for image in images]), want, rtol=1e-5, atol=1e-6)
    assert model.spec.preprocessing["precision"] == "as exported"
    assert model.spec.kind == "logits"
    assert load_model(f"pt2:{_saved(tmp_path, kind='probabilities')}", CPU).spec.kind == "probabilities"


class Evil:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.marker}",)


def _edited(data: bytes, edit: Any) -> bytes:
    told = json.loads(data)
    edit(told)
    return json.dumps(told).encode()


def test_a_program_that_could_run_code_is_refused(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    evil = pickle.dumps(Evil(marker))
    call = f"__import__('os').system('touch {marker}')"

    def first_node(told: Any) -> Any:
        return told["graph_module"]["graph"]["nodes"][0]

    def in_size(told: Any) -> None:
        told["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0]["as_expr"]["expr_str"] = call

    for entry, change in (
        ("data/sample_inputs/model.pt", lambda data: evil),
        ("data/constants/custom_obj_0", lambda data: evil),
        ("data/aotinductor/model/a.so", lambda data: b"x"),
        (
            "models/model.json",
            lambda data: _edited(data, lambda told: first_node(told).update(target="torch.os.system")),
        ),
        ("models/model.json", lambda data: _edited(data, in_size)),
        ("models/model.json", lambda data: _edited(data, lambda told: told.update(guards_code=[call]))),
        ("models/model.json", lambda data: _edited(data, lambda told: told.update(guards_code="x"))),
        (
            "data/weights/model_weights_config.json",
            lambda data: _edited(data, lambda told: told["config"]["last.weight"].update(use_pickle=True)),
        ),
    ):
        path = _changed(_saved(tmp_path), entry, change)
        with pytest.raises(StrobeError, match=r"run code|torch can read") as caught:
            load_model(f"pt2:{path}", CPU)
        assert "\n" not in str(caught.value)
        assert not marker.exists(), entry


def test_what_is_no_program_is_one_line(tmp_path: Path) -> None:
    path = _saved(tmp_path)
    for content in (b"", b"no archive", path.read_bytes()[:300]):
        (tmp_path / "bad.pt2").write_bytes(content)
        (tmp_path / "bad.json").write_text(json.dumps(SETTINGS))
        with pytest.raises(StrobeError, match="not a program"):
            load_model(f"pt2:{tmp_path / 'bad.pt2'}", CPU)
    for name, options, says in (
        (f"pt2:{path}@{path}", CPU, "weights are in the file itself"),
        (f"pt2:{path}", LoadOptions(device="cpu", precision="bfloat16"), "remove --precision"),
        (f"pt2:{path}", LoadOptions(device="cpu", image_size=16), "takes 8×8 images"),
    ):
        with pytest.raises(StrobeError, match=says):
            load_model(name, options)
    (tmp_path / "net.json").unlink()
    with pytest.raises(StrobeError, match=r"does not contain its input normalisation.*net\.json, e\.g\."):
        load_model(f"pt2:{path}", CPU)
